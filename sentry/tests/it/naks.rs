//! NAKs to the source: their content, and how few there are.

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

/// Ten packets, `acked` known to be acknowledged, 5 missing.
fn missing_one(acked: i32) -> Bench {
    let mut bench = Bench::protected(Lr2, 10, Some(acked));
    bench.status(5, 10, &[(5, 6)]);
    bench
}

// R-NAK-3
#[test]
fn a_nak_asks_for_the_oldest_unacknowledged_packet_with_the_msn_of_the_destination() {
    let mut bench = missing_one(3);
    assert_eq!(bench.take(), [Did::Nak { psn: 3, msn: 3 }]);
    assert_eq!(bench.count(Metric::NakSynthesised), 1);
}

// R-NAK-4
#[test]
fn no_nak_while_acked_is_unknown() {
    let mut bench = Bench::protected(Lr2, 10, None);
    bench.status(5, 10, &[(5, 6)]);
    assert!(bench.naks().is_empty());
    assert_eq!(bench.count(Metric::NakNoAcked), 1);
    bench.ack(2, 1);
    bench.status(5, 10, &[(5, 6)]);
    assert_eq!(bench.naks(), [3]);
}

// R-NAK-4
#[test]
fn no_nak_while_the_requester_is_unknown() {
    let mut bench = Bench::protected(Lr2, 10, Some(3));
    bench.out.src_qpn = None;
    bench.status(5, 10, &[(5, 6)]);
    assert!(bench.naks().is_empty());
    assert_eq!(bench.count(Metric::NakNoRequester), 1);
    bench.out.src_qpn = Some(Qpn::new(9));
    bench.status(5, 10, &[(5, 6)]);
    assert_eq!(bench.naks(), [3]);
}

// R-NAK-7
#[test]
fn no_second_nak_while_the_first_may_still_work() {
    let mut bench = missing_one(3);
    bench.clear();
    bench.status(5, 10, &[(5, 6)]);
    bench.status(5, 10, &[(5, 7)]);
    bench.run_timers(bench.now + PATIENCE - Span::from_nanos(1));
    assert!(bench.naks().is_empty());
    bench.run_timers(bench.now + Span::from_nanos(1));
    assert_eq!(bench.naks(), [3]);
}

// R-NAK-5
#[test]
fn at_most_two_naks_between_two_acks_that_advance() {
    let mut bench = missing_one(3);
    assert_eq!(bench.naks(), [3]);
    bench.run_timers(bench.now + PATIENCE);
    assert_eq!(bench.naks(), [3]);
    // The doubled delay, and no third one after it.
    for _ in 0..50 {
        bench.run_timers(bench.now + PATIENCE);
        bench.status(5, 10, &[(5, 6)]);
    }
    assert!(bench.naks().is_empty());
    assert!(bench.count(Metric::NakCapped) > 0);
    bench.ack(2, 3);
    bench.status(5, 10, &[(5, 6)]);
    assert!(bench.naks().is_empty(), "an old ACK is no progress");
    bench.ack(3, 4);
    bench.status(5, 10, &[(5, 6)]);
    assert_eq!(bench.naks(), [4]);
}

// R-NAK-6
#[test]
fn the_second_nak_is_waited_for_twice_as_long() {
    let mut bench = missing_one(3);
    bench.run_timers(bench.now + PATIENCE);
    bench.clear();
    let second = bench.now;
    bench.ack(3, 4); // lifts the cap, so that a third one could follow
    bench.status(5, 10, &[(5, 6)]);
    assert!(bench.naks().is_empty(), "the second one is outstanding");
    // Progress made it the first again: its delay is the simple one.
    bench.run_timers(second + PATIENCE);
    assert_eq!(bench.naks(), [4]);
}

#[test]
fn no_nak_once_the_rewind_has_begun() {
    let mut bench = missing_one(3);
    bench.clear();
    bench.data([3]);
    bench.run_timers(bench.now + PATIENCE * 8);
    bench.status(5, 10, &[(5, 6)]);
    assert!(bench.naks().is_empty(), "5 will come by itself");
    assert_eq!(bench.count(Metric::PassSolicited), 1);
}

#[test]
fn what_the_pass_has_gone_by_is_asked_for() {
    let mut bench = missing_one(3);
    bench.clear();
    bench.data([3, 4, 5, 6, 7]);
    bench.status(6, 10, &[(6, 7), (8, 9)]);
    assert!(bench.naks().is_empty(), "the source heeded one, and no other until an ACK came");
    bench.ack(3, 4);
    bench.status(6, 10, &[(6, 7), (8, 9)]);
    assert_eq!(bench.naks(), [4], "6 was filtered before it was known to be missing");
}

// R-NAK-10
#[test]
fn a_timeout_of_the_source_uses_up_one_nak() {
    let mut bench = Bench::protected(Lr2, 10, Some(3));
    bench.data([3, 4, 5, 6, 7, 8, 9]);
    bench.clear();
    bench.wait(UNDER_WAY * 2);
    bench.status(5, 10, &[]);
    // The pass is over, and something is lost again that nobody kept.
    bench.data([10, 12]);
    bench.status(11, 13, &[(11, 12)]);
    assert_eq!(bench.naks(), [3]);
    for _ in 0..20 {
        bench.run_timers(bench.now + PATIENCE);
        bench.status(11, 13, &[(11, 12)]);
    }
    assert!(bench.naks().is_empty());
}

#[test]
fn the_destinations_own_nak_counts_as_outstanding() {
    let mut bench = Bench::protected(Lr2, 10, Some(3));
    bench.nak(5);
    bench.status(5, 10, &[(5, 6)]);
    assert!(bench.naks().is_empty());
    bench.data([5]);
    assert_eq!(bench.count(Metric::PassSolicited), 1);
}

#[test]
fn one_nak_makes_one_pass_solicited() {
    let mut bench = missing_one(3);
    bench.data([3, 4]);
    bench.data([3]);
    assert_eq!((bench.count(Metric::PassSolicited), bench.count(Metric::PassTimeout)), (1, 1));
}

// R-NAK-8
#[test]
fn a_nak_is_repeated_only_while_something_is_needed() {
    let mut bench = missing_one(3);
    bench.clear();
    bench.ack(5, 6);
    bench.run_timers(bench.now + PATIENCE * 4);
    assert!(bench.naks().is_empty());
}

// R-REPAIR-4
#[test]
fn cached_recovery_never_asks_the_source_and_auto_does_for_what_it_has_not_cached() {
    for (recovery, naks) in [(Cached, vec![]), (Auto, vec![1])] {
        let mut bench = Bench::start(recovery);
        bench.cache = common::budget::Budget::new(0);
        bench.data(0..10);
        bench.status(0, 0, &[]);
        bench.ack(0, 1);
        bench.clear();
        bench.status(5, 10, &[(5, 6)]);
        assert_eq!(bench.count(Metric::SentryUncached), 1, "{recovery:?}");
        assert_eq!(bench.naks(), naks, "{recovery:?}");
        // Whoever resends it, it passes.
        bench.wait(UNDER_WAY);
        bench.clear();
        bench.data([5]);
        let class = if recovery == Auto { High } else { Data };
        assert_eq!(bench.forwarded(), [(5, class)], "{recovery:?}");
    }
}

#[test]
fn nothing_acknowledgeable_is_left_to_ask_for() {
    let mut bench = Bench::protected(Lr2, 10, Some(10));
    bench.status(5, 10, &[(5, 6)]);
    assert!(bench.naks().is_empty(), "the destination has it, whatever the Depot believes");
    assert_eq!(bench.deadline(), Time::NEVER);
}

/// The destination may make the source rewind meanwhile. If it doesn't, the
/// Depot must not wait for ever.
// R-REPAIR-5
#[test]
fn after_three_round_trips_without_anybody_to_ask_the_depot_goes_on_without() {
    let mut bench = Bench::protected(Lr2, 10, None);
    let complain = |bench: &mut Bench| {
        bench.clear();
        bench.status(5, 10, &[(5, 6)]);
        bench.syncs()
    };
    assert_eq!(complain(&mut bench), []);
    bench.wait(RTT * 3 - Span::from_nanos(1));
    assert_eq!(complain(&mut bench), []);
    bench.wait(Span::from_nanos(1));
    assert_eq!(complain(&mut bench), [Reason::Lost]);
    assert_eq!(bench.count(Metric::NakNoAcked), 3);
}

/// The Depot goes back when it forwards a NAK of the destination, and its STATUS is faster
/// than that NAK.
// R-REPAIR-6
#[test]
fn what_the_depot_delivered_before_is_left_to_the_nak_of_the_destination() {
    let mut bench = Bench::protected(Cached, 10, Some(1));
    bench.status(10, 10, &[]);
    bench.clear();
    bench.status(4, 10, &[(4, 10)]);
    assert_eq!(bench.syncs(), [], "the Depot keeps the packets behind the gap");
    bench.nak(4);
    bench.wait(UNDER_WAY);
    bench.clear();
    bench.data(4..10);
    let all: Vec<_> = (4..10).map(|n| (n, High)).collect();
    assert_eq!(bench.forwarded(), all);
}

// R-NAK-7
#[test]
fn a_nak_that_waits_for_an_ack_is_not_made_while_a_rewind_is_awaited() {
    let mut bench = missing_one(3);
    bench.run_timers(bench.now + PATIENCE * 4);
    assert_eq!((bench.naks().len(), bench.count(Metric::NakCapped) > 0), (2, true));
    bench.nak(3);
    bench.ack(3, 4);
    assert!(bench.naks().is_empty(), "the destination itself has just asked");
}

/// A source heeds a second NAK only after an ACK.
// R-NAK-20
#[test]
fn a_nak_that_acknowledges_something_follows_its_ack() {
    let mut bench = Bench::protected(Lr2, 10, Some(2));
    bench.nak(4);
    let acks = |did: Vec<Did>| {
        did.into_iter().filter(|did| matches!(did, Did::Ack { .. })).collect::<Vec<_>>()
    };
    assert_eq!(acks(bench.take()), [Did::Ack { psn: 3, msn: 0 }]);
    bench.nak(4);
    assert_eq!(acks(bench.take()), [], "it acknowledges nothing");
    bench.out.src_qpn = None;
    bench.nak(5);
    assert_eq!(acks(bench.take()), [], "nobody knows the requester");
}

/// An ACK would complete the READ without its response, or break into it.
// R-NAK-20
#[test]
fn it_does_not_while_a_read_is_unanswered() {
    let mut bench = reading();
    bench.clear();
    bench.nak(3);
    assert!(!bench.take().iter().any(|did| matches!(did, Did::Ack { .. })));
}
