//! Loss between the source and the Sentry: the source is asked here, without a
//! round trip over the long-haul link.

use common::control::Reason;
use common::frame::Class::{Data, High};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Qpn;
use sentry::Recovery::{Auto, Cached, Lr2};
use testkit::sentry::*;

/// Round trip to the source as it is guessed, with its margin, doubled: how
/// long a rewind is waited for.
const PATIENCE: Span = Span::from_micros(2_250);

const NANO: Span = Span::from_nanos(1);

/// Ten packets have gone, three of them acknowledged; the next is 10.
fn ten() -> Bench {
    Bench::protected(Lr2, 10, Some(3))
}

// R-GAP-3
#[test]
fn a_gap_is_asked_for_at_once_in_every_mode_and_what_follows_passes() {
    for recovery in [Lr2, Cached, Auto] {
        let mut bench = Bench::protected(recovery, 10, Some(3));
        bench.data([11]);
        let did = bench.take();
        assert_eq!(did, [Did::Forward(11, Data), Did::Nak { psn: 3, msn: 3 }], "{recovery:?}");
        assert_eq!(bench.count(Metric::NakSourceLan), 1);
    }
}

#[test]
fn of_the_rewind_only_the_gap_passes() {
    let mut bench = ten();
    bench.data(11..40);
    assert_eq!(bench.naks(), [3], "one per round");
    bench.data(3..40);
    assert_eq!((bench.count(Metric::PassSolicited), bench.count(Metric::PassTimeout)), (1, 0));
    // Packets that left long ago may be lost as well; those that have just left are under way.
    let expected: Vec<_> = (3..11).map(|n| (n, High)).collect();
    assert_eq!(bench.forwarded(), expected);
    bench.run_timers(bench.now + PATIENCE * 8);
    assert!(bench.naks().is_empty(), "that ended it");
}

// R-GAP-5
#[test]
fn the_source_is_asked_no_more_than_once_per_round_trip() {
    let mut bench = ten();
    bench.data([11]);
    bench.wait(Span::from_micros(100));
    bench.data(3..12);
    bench.clear();
    bench.data([13]);
    assert!(bench.naks().is_empty(), "a rewind costs a window");
    bench.ack(9, 10);
    bench.run_timers(bench.now + RTT - Span::from_micros(101));
    assert!(bench.naks().is_empty());
    bench.run_timers(bench.now + Span::from_micros(1));
    assert_eq!(bench.naks(), [10]);
}

// R-NAK-11
#[test]
fn a_nak_that_has_no_effect_is_repeated_once_and_then_after_progress() {
    let mut bench = ten();
    bench.data([11]);
    assert_eq!(bench.naks(), [3]);
    bench.run_timers(bench.now + PATIENCE - NANO);
    bench.data([12]);
    assert!(bench.naks().is_empty());
    bench.run_timers(bench.now + NANO);
    assert_eq!(bench.naks(), [3], "the second");
    bench.run_timers(bench.now + PATIENCE * 2 - NANO);
    assert!(bench.naks().is_empty(), "it is waited for twice as long");
    bench.run_timers(bench.now + PATIENCE * 8);
    assert!(bench.naks().is_empty(), "the cap");
    // After an ACK the source listens again.
    bench.ack(3, 4);
    assert_eq!(bench.naks(), [4]);
}

// R-GAP-7
#[test]
fn after_a_gap_packets_ask_for_acks_for_a_while() {
    let mut bench = ten();
    bench.data([11, 12]);
    assert_eq!(bench.out.ack_reqs, [false, true]);
    bench.wait(RTT * 10);
    bench.clear();
    bench.data([13]);
    assert_eq!(bench.out.ack_reqs, [false]);
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
        bench.wait(RTT);
        bench.clear();
        bench.data([13]);
        assert_eq!(bench.naks(), [10]);
        bench.run_timers(bench.now + patience - NANO);
        assert!(bench.naks().is_empty(), "after {patience:?}");
        bench.run_timers(bench.now + NANO);
        assert_eq!(bench.naks(), [10], "after {patience:?}");
    }
}

// R-GAP-6
#[test]
fn where_no_nak_can_be_made_the_packet_passes_and_the_depot_is_told() {
    let mut unacked = Bench::protected(Lr2, 10, None);
    let mut stranger = ten();
    stranger.out.src_qpn = None;
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
    }
}

#[test]
fn unprotected_it_passes_and_nobody_is_told() {
    let mut bench = Bench::start(Lr2);
    bench.data([0]);
    bench.ack(0, 1);
    bench.clear();
    bench.data([3]);
    assert_eq!(bench.take(), [Did::Forward(3, Data)]);
}

/// A packet that was changed on its way is no proof of a gap.
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
    bench.respond(part(10..14, 10));
    bench.clear();
    bench
}

// R-NAK-9
#[test]
fn within_a_read_response_message_the_nak_waits_for_its_end() {
    let mut bench = within_a_response();
    bench.data([15, 16]);
    assert_eq!(bench.forwarded(), [(15, Data), (16, Data)]);
    assert_eq!(bench.count(Metric::NakMidMessage), 1);
    for n in 11..14 {
        assert!(bench.naks().is_empty());
        bench.respond(part(10..14, n));
    }
    assert_eq!(bench.out.stream.last(), Some(&Got::Nak(14)), "{:?}", bench.out.stream);
}

#[test]
fn nothing_is_asked_for_when_nothing_follows() {
    let mut bench = ten();
    bench.run_timers(bench.now + RTT * 20);
    assert!(bench.naks().is_empty());
    // Once all is acknowledged, a flow with no gap has no timer.
    bench.ack(9, 10);
    assert_eq!(bench.deadline(), Time::NEVER);
}

#[test]
fn if_the_gap_fills_before_that_no_nak_is_needed() {
    let mut bench = within_a_response();
    bench.data([15, 14]);
    (11..14).for_each(|n| bench.respond(part(10..14, n)));
    assert!(bench.naks().is_empty());
}

/// Only after an ACK does the source heed another NAK.
#[test]
fn a_repeat_before_a_gap_passes_if_it_is_the_first_copy_to_ask_for_an_ack() {
    let mut bench = ten();
    bench.data([10, 11, 13]); // from now on AckReq is set
    bench.clear();
    bench.data([10, 11]);
    assert_eq!(bench.forwarded(), [(11, High)], "both are under way");
    bench.data([10, 11]);
    assert_eq!(bench.forwarded(), [], "it asked once");
}

#[test]
fn what_the_destination_has_asked_for_already_is_not_asked_for_again() {
    let mut bench = ten();
    bench.nak(5);
    bench.data([11]);
    assert!(bench.naks().is_empty());
}

/// A rewind that has begun will come by the gap.
#[test]
fn a_gap_that_the_running_pass_will_fill_is_not_asked_for() {
    let mut bench = ten();
    bench.data([11]);
    bench.data(3..12);
    bench.ack(11, 12);
    bench.data([13, 15]);
    bench.wait(RTT / 2);
    bench.data([12]); // by itself; 14 will follow
    bench.clear();
    bench.run_timers(bench.now + RTT);
    assert!(bench.naks().is_empty());
}

/// A queue before the Sentry is full: a rewind would only meet its packets.
// R-GAP-1, R-GAP-8
#[test]
fn many_in_a_row_leave_the_flow_to_the_rnics() {
    for recovery in [Lr2, Cached, Auto] {
        let mut few = Bench::protected(recovery, 10, Some(3));
        few.data([13]);
        assert_eq!(few.take(), [Did::Forward(13, Data), Did::Nak { psn: 3, msn: 3 }]);
        let mut bench = Bench::protected(recovery, 10, Some(3));
        bench.data([14]);
        let did = bench.take();
        let release = Did::Sync { reason: Reason::Release, next: Some(10), class: Data };
        let rest = did.iter().filter(|did| !matches!(did, Did::Discard(..)));
        assert_eq!(rest.collect::<Vec<_>>(), [&release, &Did::Forward(14, Data)], "{recovery:?}");
        assert_eq!((bench.count(Metric::SentryAhead), bench.count(Metric::FlowBypassed)), (1, 1));
        // Packets that the destination requested cross as on a wire.
        bench.nak(10);
        bench.data(10..15);
        let expected: Vec<_> = (10..15).map(|n| (n, Data)).collect();
        assert_eq!(bench.forwarded(), expected);
        assert_eq!((bench.naks(), bench.cache.frames()), (vec![], 0));
    }
}

/// Or it would ask as soon as it is protected.
// R-GAP-9
#[test]
fn without_a_cache_that_holds_before_a_depot_answers_too() {
    for (recovery, is_left) in [(Lr2, true), (Cached, false), (Auto, false)] {
        let mut bench = Bench::start(recovery);
        bench.data([0, 5]);
        assert_eq!(bench.flow.is_bypassed(), is_left, "{recovery:?}");
        assert_eq!(bench.forwarded(), [(0, Data), (5, Data)]);
    }
}

// R-PEER-8, R-GAP-11
#[test]
fn it_is_left_to_them_until_nothing_was_lost_for_four_round_trips() {
    let mut bench = ten();
    bench.data([20]);
    bench.wait(UNDER_WAY * 4 - NANO);
    bench.data([21]);
    assert!(bench.flow.is_bypassed());
    bench.data([23]); // one is lost once more
    bench.wait(UNDER_WAY * 4 - NANO);
    bench.data([24, 22]);
    assert!(bench.flow.is_bypassed());
    bench.wait(NANO);
    bench.data([22, 23, 24]);
    assert!(bench.flow.is_bypassed(), "the source repeats what it has sent");
    bench.clear();
    bench.data([25]);
    let open = Did::Sync { reason: Reason::Open, next: Some(25), class: Data };
    assert_eq!(bench.take(), [open, Did::Forward(25, Data)]);
    assert_eq!(
        (bench.epoch(), bench.out.src_qpn),
        (2, Some(Qpn::new(0x77))),
        "the same queue pair"
    );
    bench.status(26, 26, &[]);
    assert!(bench.flow.is_protected());
}

/// The request that was lost may have been one.
// R-GAP-10
#[test]
fn among_reads_a_long_gap_shows_no_full_queue() {
    let mut bench = ten();
    bench.frame(read(10, 256));
    bench.data([30]);
    assert!(bench.flow.is_protected(), "a READ is under way");
    let mut bench = ten();
    bench.frame(read(30, 4 * 256));
    assert!(bench.flow.is_protected());
    // Packets sent while it is left to the RNICs leave no gap behind either.
    bench.frame(read(34, 256));
    bench.frame(write(50));
    assert!(bench.flow.is_protected());
    let mut bench = ten();
    bench.data([20]);
    bench.frame(read(21, 4 * 256));
    bench.wait(UNDER_WAY * 4);
    bench.data([25]);
    assert!(!bench.flow.is_bypassed());
}
