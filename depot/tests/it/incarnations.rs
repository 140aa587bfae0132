//! Where incarnations end, and how the Depot treats responses of the destination.

use common::budget::Budget;
use common::control::{BootId, Epoch, NodeId, Reason, Status};
use common::metrics::Metric;
use common::time::{Span, Time};
use depot::Incarnation;
use testkit::depot::*;

const NEXT_EPOCH: Incarnation = Incarnation { epoch: LIFE.epoch.next(), ..LIFE };

// R-INC-12
#[test]
fn what_is_held_is_never_delivered_to_the_next_incarnation() {
    let restarted = Incarnation { boot: LIFE.boot.next(), epoch: Epoch(1), ..LIFE };
    let elsewhere = Incarnation { node: NodeId(2), boot: BootId(1), epoch: Epoch(1) };
    for incarnation in [NEXT_EPOCH, restarted, elsewhere] {
        let mut bench = Bench::synced();
        bench.data([3, 4]);
        bench.clear();
        bench.sync(incarnation, Reason::Open, 1);
        let old = Metric::DropOldIncarnation;
        assert_eq!(bench.out.discarded, [(3, old), (4, old)], "{incarnation:?}");
        let (epoch, status) = bench.out.statuses.pop().expect("it is answered");
        assert_eq!((epoch, status.expected, status.to), (incarnation.epoch, psn(1), psn(1)));
        assert_eq!(status.ack, None, "nothing is acknowledged in it");
        bench.data([1, 2, 3]);
        assert_eq!(bench.delivered(), [1, 2, 3]);
    }
}

/// The next to announce itself need not be the same incarnation: nothing that was
/// acknowledged in this one may be said of it.
#[test]
fn a_flow_that_was_bypassed_begins_with_nothing_acknowledged() {
    let mut bench = Bench::synced();
    bench.data([1, 2, 3, 4]);
    let _ = bench.ack(4);
    bench.data([7]);
    // Its responses would take the PSN of a packet that is here.
    bench.frame(read(5, 4));
    assert!(!bench.flow.is_synced());
    bench.clear();
    bench.sync(NEXT_EPOCH, Reason::Open, 1);
    let (_, status) = bench.out.statuses.pop().expect("it is answered");
    assert_eq!((status.expected, status.ack), (psn(1), None));
    bench.data([1]);
    assert_eq!(bench.delivered(), [1]);
}

/// R-INC-18: the next SYNC may be of another incarnation, whose responses the flow has not seen.
#[test]
fn a_passive_flow_without_its_requester_forgets_what_was_acknowledged() {
    for is_lost in [false, true] {
        let mut bench = Bench::default();
        bench.data([1, 2, 3, 4]);
        let _ = bench.ack(4);
        if is_lost {
            bench.flow.lose_requester();
        }
        bench.sync(LIFE, Reason::Open, 3);
        let (_, status) = bench.out.statuses.pop().expect("it is answered");
        let expected = if is_lost { (psn(3), None) } else { (psn(5), Some(psn(4))) };
        assert_eq!((status.expected, status.ack.map(|ack| ack.psn)), expected);
    }
}

/// R-INC-18: a STATUS names no ACK, and an ACK below `acked` still ends the incarnation.
#[test]
fn a_protected_flow_without_its_requester_tells_no_ack() {
    let mut bench = Bench::synced();
    bench.data([1, 2, 3, 4]);
    let _ = bench.ack(4);
    bench.flow.lose_requester();
    bench.clear();
    bench.sync(LIFE, Reason::Keepalive, 5);
    assert_eq!(bench.statuses().pop().expect("it is answered").ack, None);
    assert_eq!(bench.ack(2), Became::NewIncarnation);
}

// R-INC-13
#[test]
fn a_sync_of_an_older_incarnation_is_ignored() {
    let earlier_epoch = Incarnation { epoch: Epoch(8), ..LIFE };
    let earlier_boot = Incarnation { boot: BootId(4), epoch: Epoch(99), ..LIFE };
    for incarnation in [earlier_epoch, earlier_boot] {
        for reason in [Reason::Open, Reason::Release] {
            let mut bench = Bench::synced();
            bench.data([3]);
            bench.clear();
            bench.sync(incarnation, reason, 7);
            assert!(bench.statuses().is_empty() && bench.out.discarded.is_empty());
            assert!(bench.delivered().is_empty() && bench.flow.is_synced());
        }
    }
}

#[test]
fn a_resent_of_the_next_incarnation_ends_this_one_but_begins_none() {
    let mut bench = Bench::synced();
    bench.data([3]);
    bench.sync_resent(NEXT_EPOCH);
    assert!(!bench.flow.is_synced());
    assert_eq!(bench.out.discarded, [(3, Metric::DropOldIncarnation)]);
    bench.clear();
    bench.data([5, 4]);
    assert_eq!(bench.delivered(), [5, 4]);
}

// R-NAK-13
#[test]
fn a_nak_for_an_open_gap_is_absorbed_and_told_to_the_sentry() {
    let mut bench = Bench::synced();
    bench.data([1, 3]);
    bench.clear();
    assert_eq!(bench.nak(2), Became::Absorb);
    assert_eq!(bench.nacks(), [[(2, 3)]]);
}

#[test]
fn a_nak_for_anything_else_goes_on() {
    let mut bench = Bench::synced();
    bench.backup = Budget::new(0);
    bench.data([1, 2, 3]);
    assert_eq!(bench.nak(2), Became::Forward, "it was delivered: lost behind us");
    assert_eq!(bench.nak(4), Became::Forward, "there is no gap");
    let mut bench = Bench::synced();
    bench.backup = Budget::new(0);
    bench.data([1, 2, 3, 5]);
    assert_eq!(bench.nak(2), Became::Forward, "not the gap that is open");
    let mut bench = Bench::default();
    bench.data([0, 2]);
    assert_eq!(bench.nak(1), Became::Forward, "nobody repairs it here");
}

// R-INC-15
#[test]
fn a_nak_below_acked_ends_this_incarnation() {
    let mut bench = Bench::synced();
    bench.backup = Budget::new(0);
    bench.data([1, 2, 3, 6]);
    let _ = bench.ack(3);
    assert_eq!(bench.nak(4), Became::Absorb, "acknowledging again is no contradiction");
    assert_eq!(bench.nak(3), Became::NewIncarnation);
    assert!(!bench.flow.is_synced() && bench.deadline() == Time::NEVER);
    let held = [(6, Metric::DropOldIncarnation), (4, Metric::DropNakAbsorbed)];
    assert_eq!(bench.out.discarded, held);
    // The next SYNC finds nothing of it.
    bench.clear();
    bench.sync(NEXT_EPOCH, Reason::Open, 0);
    let status = &bench.statuses()[0];
    assert_eq!((status.expected, status.ack), (psn(0), None));
}

// R-ACK-3
#[test]
fn acks_and_rnr_naks_always_go_on() {
    let mut bench = Bench::synced();
    bench.data([1, 2, 4]);
    assert_eq!(bench.ack(1), Became::Forward);
    assert_eq!(bench.rnr(2), Became::Forward);
    bench.sync(LIFE, Reason::Keepalive, 5);
    let ack = bench.statuses().pop().and_then(|s| s.ack).expect("there was one");
    assert_eq!((ack.psn, ack.msn), (psn(1), 3), "an RNR NAK acknowledges what lies before it");
}

#[test]
fn an_ack_beyond_what_went_past_proves_nothing() {
    let mut bench = Bench::synced();
    bench.data([1, 3]);
    let _ = bench.ack(4);
    let _ = bench.ack(900);
    bench.sync(LIFE, Reason::Keepalive, 4);
    assert_eq!(bench.statuses().pop().and_then(|s| s.ack).map(|a| a.psn), Some(psn(0)));
    assert_eq!(bench.pool.frames(), 1);
}

/// The packets passed before the SYNC with which this incarnation begins.
#[test]
fn an_ack_for_what_passed_before_the_flow_was_synced_settles_it() {
    let mut bench = Bench::default();
    bench.data(0..6);
    bench.sync(LIFE, Reason::Open, 2); // delayed
    bench.clear();
    bench.data([7]);
    assert_eq!(bench.nacks(), [[(2, 7)]]);
    let _ = bench.ack(5);
    bench.sync(LIFE, Reason::Keepalive, 8);
    assert_eq!(bench.nacks(), [[(6, 7)]]);
    bench.data([6]);
    assert_eq!(bench.out.delivered.last(), Some(&7));
}

/// A QP number is used again, and its first incarnation was not protected: the
/// ACKs of the first one prove nothing about the next.
#[test]
fn an_incarnation_that_begins_far_from_the_last_inherits_no_ack() {
    let mut bench = Bench::default();
    bench.data(0..20);
    let _ = bench.ack(19);
    bench.sync(LIFE, Reason::Open, -(WINDOW_MAX as i32) * 2);
    let status = &bench.statuses()[0];
    assert_eq!(status.expected, psn(-(WINDOW_MAX as i32) * 2));
}

// R-INC-14
#[test]
fn an_ack_below_acked_ends_this_incarnation() {
    let mut bench = Bench::synced();
    bench.data(1..5);
    let _ = bench.ack(4);
    bench.data([7]);
    assert_eq!(bench.ack(4), Became::Forward, "the same again");
    assert!(bench.flow.is_synced());
    bench.clear();
    assert_eq!(bench.ack(2), Became::NewIncarnation);
    assert!(!bench.flow.is_synced());
    assert_eq!(bench.out.discarded, [(7, Metric::DropOldIncarnation)]);
}

#[test]
fn a_sentry_that_speaks_keeps_its_flow_alive() {
    let mut bench = Bench::synced();
    for _ in 0..4 {
        bench.run_timers(bench.now + PAUSE / 2);
        bench.sync(LIFE, Reason::Keepalive, 1);
    }
    bench.run_timers(bench.now + PAUSE - Span::from_nanos(1));
    assert_eq!(bench.count(Metric::FlowReset), 0);
    bench.run_timers(bench.now + Span::from_nanos(1));
    assert!(!bench.flow.is_synced());
}

/// ACKs of one incarnation prove nothing about the next, announced or not.
#[test]
fn a_leap_of_a_passive_flow_forgets_what_was_acknowledged() {
    let mut bench = Bench::default();
    bench.data(0..3);
    let _ = bench.ack(2);
    bench.data([5_000]);
    bench.sync(LIFE, Reason::Open, 5_001);
    assert_eq!(bench.statuses()[0].ack, None);
}

/// A STATUS carries the credits that the destination gave last.
#[test]
fn a_status_has_the_credits_that_the_destination_gave() {
    let mut bench = Bench::synced();
    bench.data(1..10);
    let _ = bench.respond(plain_response(4, 0x0a, 3));
    bench.sync(LIFE, Reason::Keepalive, 10);
    let credits = |status: &Status| status.ack.expect("it was acknowledged").syndrome;
    assert_eq!(bench.statuses().last().map(credits), Some(0x0a));
    // A NAK gives none.
    let _ = bench.nak(5);
    bench.sync(LIFE, Reason::Keepalive, 10);
    assert_eq!(bench.statuses().last().map(credits), Some(0x0a));
}
