//! Where one life of a queue pair ends and the next begins, and which timeouts
//! of the source are believed.

mod support;

use common::control::Reason;
use common::frame::Class::{Data, High};
use common::metrics::Metric;
use common::time::Span;
use sentry::Flow;
use sentry::Recovery::{Cached, Lr2};
use support::*;

/// A pause that may separate two lives.
const PAUSE: Span = Span::from_millis(100);
/// After this long an ACK that went to the source has arrived there.
const GRACE: Span = Span::from_millis(10);
const NANO: Span = Span::from_nanos(1);
const MILLI: Span = Span::from_millis(1);

/// Ten packets have gone, three of them acknowledged; the next is 10.
fn ten() -> Bench {
    let mut bench = Bench::new(Cached);
    bench.config.forget = Some(PAUSE);
    bench.data(0..10);
    bench.status(0, 0, &[]);
    bench.ack(2, 3);
    bench.clear();
    bench
}

#[test]
fn a_pause_and_another_psn_are_a_new_life() {
    for psn in [12, 9, 3] {
        let mut bench = ten();
        bench.wait(PAUSE - NANO);
        bench.data([psn]);
        assert_eq!(bench.flow.epoch(), 1, "no pause");
        let mut bench = ten();
        bench.wait(PAUSE);
        bench.data([psn]);
        assert_eq!(bench.flow.epoch(), 2, "{psn}");
        assert!(!bench.flow.is_protected());
        assert_eq!(bench.out.requester, None, "it may be another one");
        let did = bench.take();
        assert!(did.contains(&Did::Discard(9, Metric::DropReleased)), "nothing of it is kept");
        let announced = Did::Sync { reason: Reason::Open, next: Some(psn), class: Data };
        assert!(did.ends_with(&[announced, Did::Forward(psn, Data)]), "{did:?}");
        bench.check_books();
    }
}

#[test]
fn a_pause_and_the_next_psn_are_the_same_life_which_is_announced_again() {
    let mut bench = ten();
    bench.wait(PAUSE);
    bench.data([10, 11]);
    let open = Did::Sync { reason: Reason::Open, next: Some(10), class: Data };
    assert_eq!(bench.take(), [open, Did::Forward(10, Data), Did::Forward(11, Data)]);
    assert_eq!((bench.flow.epoch(), bench.out.syncs[0].0), (1, 1));
    assert_eq!(bench.out.syncs[0].1.acked, Some(psn(3)), "and what is known remains");
    assert!(bench.flow.is_protected());
}

/// It may be another life after all, whose messages are counted from zero.
#[test]
fn the_destination_that_asks_after_a_pause_tells_its_count_anew() {
    let mut bench = Bench::protected(Lr2, 10, Some(10));
    bench.wait(FORGET);
    bench.data(10..13);
    bench.nak(10);
    bench.data(10..14);
    bench.status(13, 14, &[(13, 14)]);
    assert_eq!(bench.flow.epoch(), 1);
    assert_eq!(bench.take().last(), Some(&Did::Nak { psn: 10, msn: 0 }));
}

#[test]
fn a_damaged_packet_after_a_pause_begins_nothing() {
    let mut bench = ten();
    bench.wait(PAUSE);
    bench.frame(damaged(write(3)));
    assert_eq!((bench.flow.epoch(), bench.take()), (1, vec![Did::Forward(3, Data)]));
}

#[test]
fn answers_are_no_pause() {
    let mut bench = ten();
    bench.wait(PAUSE - NANO);
    bench.ack(3, 4);
    bench.wait(PAUSE - NANO);
    bench.data([12]);
    assert_eq!(bench.flow.epoch(), 1);
}

#[test]
fn without_a_setting_a_pause_is_24_round_trips() {
    let mut bench = ten();
    bench.config.forget = None;
    bench.wait(RTT * 24 - NANO);
    bench.data([12]);
    assert_eq!(bench.flow.epoch(), 1);
    bench.wait(RTT * 24);
    bench.data([14]);
    assert_eq!(bench.flow.epoch(), 2);
}

/// What it learned of the path is as true as before.
#[test]
fn a_new_life_knows_the_path_mtu() {
    let mut bench = ten();
    bench.wait(PAUSE);
    bench.frame(read(70, 1_000));
    assert!(!bench.flow.is_bypassed());
    assert_eq!(bench.flow.epoch(), 2);
}

/// The destination has acknowledged 0..6, and all of that but for 0..3 was
/// news just now.
fn acknowledged() -> Bench {
    let mut bench = ten();
    bench.wait(GRACE);
    bench.ack(5, 6);
    bench.clear();
    bench
}

#[test]
fn a_repeat_of_what_was_acknowledged_long_ago_is_a_new_life() {
    let mut bench = acknowledged();
    bench.wait(GRACE - NANO);
    bench.data([5]);
    assert_eq!(bench.flow.epoch(), 1, "the ACK may not have arrived yet");
    bench.wait(NANO);
    bench.data([6]);
    assert_eq!(bench.flow.epoch(), 1, "it is not acknowledged");
    bench.data([5]);
    assert_eq!(bench.flow.epoch(), 2);
    bench.check_books();
}

#[test]
fn unless_it_was_asked_for() {
    // By the destination ...
    let mut bench = acknowledged();
    bench.wait(GRACE);
    bench.data([10]);
    bench.nak(6);
    bench.data([4, 5, 6]);
    assert_eq!(bench.flow.epoch(), 1);
    // ... or from here.
    let mut bench = acknowledged();
    bench.wait(GRACE);
    bench.data([12]);
    assert_eq!(bench.naks(), [6]);
    bench.data([4, 5, 6]);
    assert_eq!(bench.flow.epoch(), 1);
    // But not long ago: what was asked for has come, or never will.
    let mut bench = acknowledged();
    bench.nak(6);
    bench.wait(GRACE);
    bench.data([5]);
    assert_eq!(bench.flow.epoch(), 2);
}

#[test]
fn while_acks_come_all_the_time_only_those_that_came_long_ago_count() {
    let acked_every_millisecond = || {
        let mut bench = Bench::new(Lr2);
        bench.data(0..60);
        bench.status(0, 0, &[]);
        for n in 0..60 {
            bench.wait(MILLI);
            bench.ack(n, n as u32 + 1);
        }
        bench
    };
    for recent in 50..60 {
        let mut bench = acked_every_millisecond();
        bench.data([recent]);
        assert_eq!(bench.flow.epoch(), 1, "{recent}");
    }
    for old in 0..38 {
        let mut bench = acked_every_millisecond();
        bench.data([old]);
        assert_eq!(bench.flow.epoch(), 2, "{old}");
    }
}

#[test]
fn on_a_long_path_an_ack_takes_a_round_trip_to_count() {
    let mut bench = long_path();
    bench.wait(LONG);
    bench.ack(5, 6);
    bench.wait(LONG - NANO);
    bench.data([5]);
    assert_eq!(bench.flow.epoch(), 1);
    bench.wait(NANO);
    bench.data([5]);
    assert_eq!(bench.flow.epoch(), 2);
}

const LONG: Span = Span::from_millis(40);

/// Ten packets have just gone onto a path of 40 ms.
fn long_path() -> Bench {
    let mut bench = Bench::new(Lr2);
    bench.config.rtt_guess = LONG;
    bench.flow = Flow::new(&bench.config, bench.now, 1, FIRST);
    bench.data(0..10);
    bench.status(0, 0, &[]);
    bench.clear();
    bench
}

/// NICs with adaptive retransmission resend after 2, 4, 8 ms, whatever the
/// round trip is.
#[test]
fn spurious_timeouts_do_not_cross_the_link_and_real_ones_do() {
    let mut bench = long_path();
    let start = bench.now;
    for at in [2, 6, 14, 30, 44] {
        bench.now = start + Span::from_millis(at);
        bench.data(0..10);
        assert_eq!(bench.forwarded(), [], "after {at} ms");
    }
    assert_eq!(bench.count(Metric::PassTimeout), 5);
    assert_eq!(bench.count(Metric::DropSpurious), 50);
    bench.now = start + Span::from_millis(45);
    bench.data(0..10);
    assert_eq!(bench.forwarded(), (0..10).map(|n| (n, High)).collect::<Vec<_>>());
    // They are under way again.
    bench.wait(LONG);
    bench.data(0..10);
    assert_eq!(bench.forwarded(), []);
    bench.check_books();
}

/// Timeouts within one round trip prove nothing: only one of them counts
/// towards those after which everything passes.
#[test]
fn fruitless_passes_count_once_per_round_trip() {
    let mut bench = long_path();
    bench.status(0, 10, &[(0, 1)]); // so 1..10 may be dropped for ever
    bench.clear();
    let start = bench.now;
    let others = |bench: &mut Bench| {
        bench.data(0..10);
        bench.forwarded().iter().filter(|(n, _)| *n > 0).count()
    };
    for at in 0..90 {
        bench.now = start + Span::from_millis(at);
        assert_eq!(others(&mut bench), 0, "after {at} ms");
    }
    bench.now = start + Span::from_millis(90);
    assert_eq!(others(&mut bench), 9, "the third");
}

/// Of several ACKs in quick succession, too, the last one has arrived some time.
#[test]
fn the_newest_ack_counts_as_long_ago_in_its_turn() {
    let mut bench = ten();
    bench.wait(MILLI);
    bench.ack(5, 6);
    bench.wait(GRACE - NANO);
    bench.data([5]);
    assert_eq!(bench.flow.epoch(), 1);
    bench.wait(NANO);
    bench.data([5]);
    assert_eq!(bench.flow.epoch(), 2);
}

#[test]
fn an_ack_that_takes_back_what_was_acknowledged_long_ago_is_of_another_life() {
    let mut bench = acknowledged();
    bench.wait(GRACE - NANO);
    bench.ack(2, 1);
    assert_eq!(bench.flow.epoch(), 1, "it may have been overtaken");
    bench.wait(GRACE);
    bench.ack(2, 1);
    assert_eq!((bench.flow.epoch(), bench.answered()), (2, vec![2, 2]));
    bench.check_books();
}
