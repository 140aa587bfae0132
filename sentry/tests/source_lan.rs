//! Loss between the source and the Sentry: the source is asked here, without a
//! round trip over the long-haul link.

mod support;

use common::control::Reason;
use common::frame::Class::Data;
use common::metrics::Metric;
use common::time::{Span, Time};
use sentry::Recovery::{Auto, Cached, Lr2};
use support::*;

/// Round trip to the source as it is guessed, with its margin, doubled: how
/// long a rewind is waited for.
const PATIENCE: Span = Span::from_micros(2_250);

const NANO: Span = Span::from_nanos(1);

/// Ten packets have gone, three of them acknowledged; the next is 10.
fn ten() -> Bench {
    Bench::protected(Lr2, 10, Some(3))
}

fn dropped(n: i32) -> Did {
    Did::Discard(n, Metric::DropAhead)
}

#[test]
fn a_hole_is_asked_for_at_once_in_every_mode() {
    for recovery in [Lr2, Cached, Auto] {
        let mut bench = Bench::protected(recovery, 10, Some(3));
        bench.data([11]);
        assert_eq!(bench.take(), [Did::Nak { psn: 3, msn: 3 }, dropped(11)], "{recovery:?}");
        assert_eq!(bench.count(Metric::NakSourceLan), 1);
        bench.check_books();
    }
}

#[test]
fn what_follows_is_dropped_without_another_nak_until_the_rewind_fills_the_hole() {
    let mut bench = ten();
    bench.data(11..40);
    assert_eq!(bench.naks(), [3], "one per round");
    assert_eq!(bench.count(Metric::DropAhead), 29);
    bench.data(3..40);
    assert_eq!((bench.count(Metric::PassSolicited), bench.count(Metric::PassTimeout)), (1, 0));
    let did = bench.take();
    let new = (10..40).map(|n| Did::Forward(n, Data)).collect::<Vec<_>>();
    assert!(did.ends_with(&new), "in order, as new: {did:?}");
    // That ended it: nothing is repeated, nothing more is dropped.
    bench.run_timers(bench.now + PATIENCE * 8);
    assert!(bench.naks().is_empty());
    assert_eq!(bench.count(Metric::DropAhead), 29);
    assert_eq!(bench.count(Metric::SentryAhead), 0);
    bench.check_books();
}

#[test]
fn the_destination_sees_what_came_for_the_first_time_in_order() {
    let mut bench = ten();
    bench.data([10, 12, 11, 12, 14, 15]);
    let forwarded = bench.forwarded();
    assert_eq!(forwarded, [10, 11, 12].map(|n| (n, Data)), "overtaken on the LAN, it fills itself");
    // 13 is asked for only if the NAK for 11 has no effect.
    bench.run_timers(bench.now + PATIENCE - NANO);
    assert!(bench.naks().is_empty());
    bench.run_timers(bench.now + NANO);
    assert_eq!(bench.naks(), [3]);
}

#[test]
fn a_nak_that_has_no_effect_is_repeated_once_and_then_the_destination_has_to_ask() {
    let mut bench = ten();
    bench.data([11]);
    assert_eq!(bench.naks(), [3]);
    bench.run_timers(bench.now + PATIENCE - NANO);
    bench.data([12]);
    assert!(bench.naks().is_empty());
    bench.run_timers(bench.now + NANO);
    assert_eq!(bench.naks(), [3], "the second");
    bench.data([13]);
    bench.run_timers(bench.now + PATIENCE * 2 - NANO);
    bench.data([14]);
    assert!(bench.forwarded().is_empty(), "it is waited for twice as long");
    bench.run_timers(bench.now + NANO);
    assert!(bench.naks().is_empty(), "the cap");
    bench.clear();
    bench.data([15, 16]);
    let lost = Did::Sync { reason: Reason::Lost, next: Some(16), class: Data };
    assert_eq!(bench.take(), [Did::Forward(15, Data), lost, Did::Forward(16, Data)]);
    assert_eq!(bench.count(Metric::NakSourceLan), 2);
    assert_eq!(bench.count(Metric::DropAhead), 4);
    bench.check_books();
}

#[test]
fn progress_lifts_the_cap() {
    let mut bench = ten();
    bench.data([11]);
    bench.run_timers(bench.now + PATIENCE * 4);
    bench.clear();
    bench.ack(3, 4);
    bench.data([12]);
    assert_eq!(bench.take(), [Did::Nak { psn: 4, msn: 4 }, dropped(12)]);
}

#[test]
fn the_timer_follows_the_measured_round_trip_to_the_source() {
    for (rewind, patience) in [
        // 2 ms with a deviation of 1 ms: a margin of one round trip more, twice.
        (Span::from_millis(2), Span::from_millis(8)),
        (Span::from_micros(20), Span::from_micros(500)), // at least
    ] {
        let mut bench = ten();
        bench.data([11]);
        bench.wait(rewind);
        bench.data(3..11);
        bench.ack(9, 10);
        bench.clear();
        bench.data([12]);
        assert_eq!(bench.naks(), [10]);
        bench.run_timers(bench.now + patience - NANO);
        assert!(bench.naks().is_empty(), "after {patience:?}");
        bench.run_timers(bench.now + NANO);
        assert_eq!(bench.naks(), [10], "after {patience:?}");
    }
}

#[test]
fn where_no_nak_can_be_made_the_packet_passes_and_the_depot_is_told() {
    let mut unacked = Bench::protected(Lr2, 10, None);
    let mut stranger = ten();
    stranger.out.requester = None;
    let why = [Metric::NakNoAcked, Metric::NakNoRequester];
    for (bench, why) in [&mut unacked, &mut stranger].into_iter().zip(why) {
        bench.data([12, 13, 15]);
        let lost = |next| Did::Sync { reason: Reason::Lost, next: Some(next), class: Data };
        let forward = |n| Did::Forward(n, Data);
        assert_eq!(
            bench.take(),
            [forward(12), lost(13), forward(13), forward(15), lost(16)],
            "{why:?}"
        );
        assert_eq!((bench.count(why), bench.count(Metric::SentryAhead)), (2, 2));
        assert_eq!(bench.count(Metric::NakSourceLan), 0);
        bench.check_books();
    }
}

#[test]
fn unprotected_it_passes_and_nobody_is_told() {
    let mut bench = Bench::new(Lr2);
    bench.data([0]);
    bench.ack(0, 1);
    bench.clear();
    bench.data([3]);
    assert_eq!(bench.take(), [Did::Forward(3, Data)]);
}

/// A packet that was changed on its way is no proof of a hole.
#[test]
fn a_damaged_packet_makes_no_nak() {
    let mut bench = ten();
    bench.frame(damaged(write(12)));
    assert_eq!(bench.take(), [Did::Forward(12, Data)]);
    bench.data([10]);
    assert_eq!(bench.take(), [Did::Forward(10, Data)], "10 is still new");
}

/// A READ of four packets is 10..14; its responses have begun to come.
fn within_a_response() -> Bench {
    let mut bench = ten();
    bench.frame(read(10, 4 * 256));
    bench.answer(part(10..14, 10));
    bench.clear();
    bench
}

#[test]
fn within_a_read_response_message_the_nak_waits_for_its_end() {
    let mut bench = within_a_response();
    bench.data([15, 16]);
    assert_eq!(bench.take(), [dropped(15), dropped(16)]);
    assert_eq!(bench.count(Metric::NakMidMessage), 1);
    for n in 11..14 {
        assert!(bench.naks().is_empty());
        bench.answer(part(10..14, n));
    }
    assert_eq!(bench.out.stream.last(), Some(&Got::Nak(14)), "{:?}", bench.out.stream);
    assert_eq!(bench.count(Metric::NakSourceLan), 1);
    bench.data(14..17);
    assert_eq!(bench.forwarded(), (14..17).map(|n| (n, Data)).collect::<Vec<_>>());
    bench.check_books();
}

#[test]
fn nothing_is_asked_for_when_nothing_follows() {
    let mut bench = ten();
    bench.run_timers(bench.now + RTT * 20);
    assert!(bench.naks().is_empty());
    // Once all is acknowledged, a flow with no hole has no timer.
    bench.ack(9, 10);
    assert_eq!(bench.deadline(), Time::NEVER);
}
