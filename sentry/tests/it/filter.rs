//! The selective-repeat filter: which repeats cross the link.

use common::control::Reason;
use common::frame::Class::{Data, High};
use common::metrics::Metric;
use common::time::Span;
use common::wire::{Opcode, Qpn};
use sentry::Recovery::{Auto, Cached, Lr2};
use testkit::sentry::*;

/// A protected flow of 10 packets, `acked` of which are acknowledged, that was
/// asked by a NAK of ours for the missing ones.
fn asked(missing: &[(i32, i32)]) -> Bench {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.status(missing[0].0, 10, missing);
    assert_eq!(bench.naks(), [1]);
    bench
}

// R-FILTER-1
#[test]
fn a_repeat_passes_where_nothing_is_known() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.data([1, 2]);
    assert_eq!(bench.forwarded(), [(1, High), (2, High)]);
    assert_eq!(bench.count(Metric::SentryDoubtful), 2);
}

// R-FILTER-8
#[test]
fn a_repeat_of_what_is_under_way_is_dropped() {
    let mut bench = Bench::start(Lr2);
    bench.data(0..2);
    bench.status(0, 0, &[]);
    bench.wait(UNDER_WAY - Span::from_nanos(1));
    bench.clear();
    bench.data([0]);
    assert!(bench.take().contains(&Did::Discard(0, Metric::DropSpurious)));
    bench.wait(Span::from_nanos(1));
    bench.data([1]);
    assert_eq!(bench.forwarded(), [(1, High)]);
}

#[test]
fn a_repeat_counts_as_sent_anew() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.data([1]);
    bench.wait(UNDER_WAY - Span::from_nanos(1));
    bench.clear();
    bench.data([1]);
    assert!(bench.take().contains(&Did::Discard(1, Metric::DropSpurious)));
}

// R-FILTER-9
#[test]
fn a_repeat_of_what_the_depot_holds_is_dropped() {
    let mut bench = asked(&[(3, 4), (6, 7)]);
    bench.data(1..10);
    let did = bench.take();
    let sent: Vec<_> = did.iter().filter(|did| matches!(did, Did::Forward(..))).collect();
    assert_eq!(sent, [&Did::Forward(3, High), &Did::Forward(6, High)]);
    let filtered = did.iter().filter(|d| matches!(d, Did::Discard(_, Metric::DropFiltered)));
    assert_eq!(filtered.count(), 7);
}

#[test]
fn a_held_packet_is_dropped_in_a_timeout_pass_too() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.status(3, 10, &[(3, 4)]);
    bench.data([1]); // the pass that was asked for
    bench.clear();
    bench.data([1]);
    bench.data([5]);
    assert!(bench.take().contains(&Did::Discard(5, Metric::DropSpurious)));
}

/// The destination may have lost packets that the Depot delivered.
// R-FILTER-10
#[test]
fn a_delivered_packet_is_dropped_only_if_the_pass_was_solicited() {
    let mut bench = asked(&[(5, 6)]);
    bench.data([1, 2]);
    assert!(bench.forwarded().is_empty());
    bench.data([1, 2]);
    assert_eq!(bench.forwarded(), [(1, High), (2, High)]);
    assert_eq!((bench.count(Metric::PassSolicited), bench.count(Metric::PassTimeout)), (1, 1));
}

// R-FILTER-2
#[test]
fn a_pass_ends_where_the_source_sends_something_new() {
    let mut bench = asked(&[(5, 6)]);
    bench.data([1, 2, 10]);
    assert_eq!(bench.count(Metric::PassSolicited), 1);
    bench.data([3]);
    assert_eq!(bench.count(Metric::PassTimeout), 1, "another pass, which nobody asked for");
}

#[test]
fn a_pass_that_skips_forward_goes_on() {
    let mut bench = asked(&[(5, 6)]);
    bench.data([1, 4, 8]);
    assert_eq!((bench.count(Metric::PassSolicited), bench.count(Metric::PassTimeout)), (1, 0));
}

// R-FILTER-2
#[test]
fn a_repeat_of_the_same_packet_begins_a_pass() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.data([1, 1, 1]);
    assert_eq!(bench.count(Metric::PassTimeout), 3);
}

// R-FILTER-4
#[test]
fn an_unsolicited_pass_asks_the_depot_at_once() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.data([1, 2]);
    let tail = Did::Sync { reason: Reason::Tail, next: Some(10), class: Data };
    assert_eq!(bench.take().iter().filter(|did| **did == tail).count(), 1);
    let mut bench = asked(&[(5, 6)]);
    bench.data([1]);
    assert!(bench.syncs().is_empty(), "a solicited one doesn't");
}

// R-FILTER-7
#[test]
fn two_fruitless_passes_are_filtered_and_then_everything_passes_until_acked_moves() {
    let mut bench = Bench::protected(Lr2, 10, Some(2));
    bench.status(3, 10, &[(3, 4)]);
    bench.data([2]); // solicited
    bench.clear();
    let pass = |bench: &mut Bench| {
        bench.wait(UNDER_WAY);
        bench.data([2, 5, 6]);
        bench.forwarded().iter().filter(|(n, _)| *n >= 5).count()
    };
    assert_eq!(pass(&mut bench), 0);
    assert_eq!(pass(&mut bench), 0);
    assert_eq!(pass(&mut bench), 2);
    assert_eq!(pass(&mut bench), 2);
    bench.ack(2, 3);
    assert_eq!(pass(&mut bench), 0, "progress");
}

// R-FILTER-5
#[test]
fn what_is_needed_passes_once() {
    let mut bench = asked(&[(3, 4)]);
    bench.data([1, 3]);
    assert_eq!(bench.forwarded(), [(3, High)]);
    assert_eq!(bench.count(Metric::SentryNeeded), 1);
    bench.data([3]);
    assert!(bench.forwarded().is_empty(), "it is under way");
}

// R-FILTER-5
#[test]
fn the_last_needed_packet_is_followed_by_sync_resent() {
    let mut bench = asked(&[(3, 5), (7, 9)]);
    bench.data(1..8);
    assert!(bench.syncs().is_empty(), "not after the last but one");
    bench.data(8..10);
    let did = bench.take();
    let sent = did.iter().position(|d| *d == Did::Forward(8, High)).expect("8 is needed");
    assert_eq!(did[sent + 1], Did::Sync { reason: Reason::Resent, next: None, class: High });
    assert_eq!(did.iter().filter(|d| matches!(d, Did::Sync { .. })).count(), 1);
}

// R-NAK-1
#[test]
fn a_nak_of_the_destination_lets_all_that_it_asks_for_pass() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.status(10, 10, &[]); // everything was delivered ...
    bench.nak(4); // ... but it got lost behind the Depot
    bench.clear();
    bench.data(4..10);
    let did = bench.take();
    let sent: Vec<_> = did.iter().filter(|d| matches!(d, Did::Forward(..))).copied().collect();
    assert_eq!(sent, (4..10).map(|n| Did::Forward(n, High)).collect::<Vec<_>>());
    assert!(did.ends_with(&[Did::Sync { reason: Reason::Resent, next: None, class: High }]));
    assert_eq!(did.iter().filter(|d| matches!(d, Did::Sync { .. })).count(), 1);
    assert_eq!((bench.count(Metric::PassSolicited), bench.count(Metric::PassTimeout)), (1, 0));
    // Once.
    bench.wait(UNDER_WAY);
    bench.nak(4);
    bench.data([4]);
    bench.data([4]);
    assert_eq!(bench.forwarded(), [(4, High)]);
}

/// When the destination sent its NAK, the copy from the cache could not have reached it.
// R-FILTER-5
#[test]
fn a_nak_of_the_destination_lets_nothing_pass_that_was_just_resent_from_the_cache() {
    let mut bench = Bench::protected(Cached, 10, Some(1));
    bench.status(4, 10, &[(4, 6)]);
    assert_eq!(bench.forwarded(), [(4, High), (5, High)]);
    bench.nak(4);
    bench.clear();
    bench.data(4..6);
    assert_eq!(bench.forwarded(), []);
    bench.wait(RTT / 2);
    bench.nak(4);
    bench.clear();
    bench.data(4..6);
    assert_eq!(bench.forwarded(), [(4, High), (5, High)]);
}

// R-FILTER-12
#[test]
fn a_filtered_repeat_that_asks_for_an_ack_replaces_the_copy_that_does_not() {
    let mut bench = Bench::start(Cached);
    bench.data(0..4);
    bench.status(0, 0, &[]);
    bench.frame(packet(Opcode::WRITE_MIDDLE, 1, true, 256));
    assert_eq!(bench.count(Metric::SentryDoubtful), 0);
    bench.clear();
    bench.status(1, 4, &[(1, 2)]);
    assert_eq!(bench.forwarded(), [(1, High)]);
    assert_eq!(bench.out.ack_reqs, [true]);
}

/// A full cache keeps its copies.
#[test]
fn without_budget_the_older_copy_is_kept() {
    let mut bench = Bench::start(Cached);
    bench.cache = common::budget::Budget::new(4);
    bench.data(0..4);
    bench.status(0, 0, &[]);
    bench.frame(packet(Opcode::WRITE_MIDDLE, 1, true, 256));
    bench.clear();
    bench.status(1, 4, &[(1, 2)]);
    assert_eq!(bench.forwarded(), [(1, High)]);
}

/// A repeat that was damaged on its way here must not take the place of the
/// good copy in the cache: every resend would be damaged.
#[test]
fn a_damaged_repeat_does_not_replace_what_is_cached() {
    let mut bench = Bench::protected(Cached, 4, Some(1));
    bench.frame(damaged(packet(Opcode::WRITE_MIDDLE, 1, true, 256)));
    assert_eq!(bench.forwarded(), [(1, Data)]);
    assert_eq!(bench.count(Metric::PassedBadIcrc), 1);
    bench.out.ack_reqs.clear();
    bench.status(1, 4, &[(1, 2)]);
    assert_eq!(bench.forwarded(), [(1, High)]);
    assert_eq!(bench.out.ack_reqs, [false], "the first copy is resent");
}

#[test]
fn a_damaged_repeat_begins_no_pass_and_fills_no_gap() {
    let mut bench = asked(&[(5, 6)]);
    bench.frame(damaged(write(1)));
    assert_eq!((bench.count(Metric::PassSolicited), bench.count(Metric::PassTimeout)), (0, 0));
    bench.data([1]);
    bench.clear();
    bench.frame(damaged(write(5)));
    assert_eq!(bench.take(), [Did::Forward(5, Data)]);
    bench.data([5]);
    assert_eq!(bench.forwarded(), [(5, High)], "it is still needed");
    assert_eq!(bench.count(Metric::SentryNeeded), 1);
}

/// The report of a second loss may come when the rewind has gone past it. The
/// source would ignore a second NAK: the repeat itself has to be at hand.
// R-FILTER-12
#[test]
fn a_repeat_dropped_as_under_way_is_kept_and_resent_if_its_first_copy_was_lost() {
    let mut bench = Bench::start(Lr2);
    bench.data(0..10);
    bench.status(0, 0, &[]);
    bench.ack(0, 1);
    bench.status(3, 5, &[(3, 4)]);
    assert_eq!(bench.naks(), [1]);
    bench.clear();
    bench.data(1..10);
    assert_eq!(bench.forwarded(), [(3, High)]);
    bench.clear();
    bench.status(3, 10, &[(3, 4), (7, 8)]);
    assert_eq!(bench.forwarded(), [(7, High)]);
    assert!(bench.naks().is_empty());
    bench.status(10, 10, &[]);
    assert_eq!(bench.cache.frames(), 0);
}

/// The destination may lack it: the Depot then goes back to it, and this copy may be lost.
// R-REPAIR-8
#[test]
fn a_repeat_of_a_delivered_packet_is_kept_until_it_is_acknowledged() {
    let mut bench = Bench::protected(Cached, 4, Some(1));
    bench.status(4, 4, &[]);
    bench.clear();
    bench.data([1]);
    assert_eq!(bench.forwarded().len(), 1);
    assert_eq!(bench.cache.frames(), 1);
    bench.ack(3, 4);
    assert_eq!(bench.cache.frames(), 0);
}

/// Ten packets that the Depot has delivered, long ago; the destination has the first of
/// them.
fn delivered(recovery: sentry::Recovery) -> Bench {
    let mut bench = Bench::protected(recovery, 10, Some(1));
    bench.status(10, 10, &[]);
    bench.wait(Span::from_millis(200));
    bench.clear();
    bench
}

/// The destination's NAK passes and is lost on the source's LAN. Without a gateway the pass
/// of the source's next timeout repairs the loss.
// R-FILTER-3
#[test]
fn a_timeout_long_after_a_nak_does_not_answer_it() {
    for recovery in [Lr2, Cached, Auto] {
        let mut bench = delivered(recovery);
        let all: Vec<_> = (4..10).map(|n| (n, High)).collect();
        bench.nak(4);
        for timeout in 0..3 {
            bench.wait(Span::from_millis(67));
            bench.clear();
            bench.data(4..10);
            assert_eq!(bench.forwarded(), all, "{recovery:?}, timeout {timeout}");
        }
        assert_eq!(bench.count(Metric::PassSolicited), 0);
    }
}

/// The source is in the middle of a pass when the NAK comes, beyond what it asks for, and
/// ignores it. The destination did not ask for the rest of that pass.
// R-NAK-1
#[test]
fn a_nak_in_mid_pass_is_not_spent_on_the_rest_of_it() {
    for recovery in [Lr2, Cached, Auto] {
        let mut bench = delivered(recovery);
        bench.data(2..7);
        bench.nak(4);
        bench.data(7..10);
        // Soon after the NAK, so that it counts as the rewind it asks for.
        bench.wait(UNDER_WAY);
        bench.clear();
        bench.data(4..10);
        let all: Vec<_> = (4..10).map(|n| (n, High)).collect();
        assert_eq!(bench.forwarded(), all, "{recovery:?}");
    }
}

/// A NAK that may be for this flow lets repeats pass, and that is all it does.
// R-NAK-2
#[test]
fn a_doubtful_nak_only_widens_what_passes() {
    let mut bench = delivered(Auto);
    bench.nak(2);
    bench.flow.on_doubtful_nak(psn(6));
    bench.data(2..10);
    let all: Vec<_> = (2..10).map(|n| (n, High)).collect();
    assert_eq!(bench.forwarded(), all, "what was asked for before is asked for still");
    // And a pass after one is the source's own.
    bench.wait(UNDER_WAY);
    bench.flow.on_doubtful_nak(psn(2));
    bench.clear();
    bench.data(1..10);
    assert_eq!((bench.count(Metric::PassSolicited), bench.count(Metric::PassTimeout)), (1, 1));
    assert_eq!(bench.forwarded().len(), 9);
}

/// Whose NAKs can't be told from those of others: delivered packets may be lost all the
/// same, and the destination has said so unheard.
// R-FILTER-10
#[test]
fn with_an_unknown_requester_nothing_is_dropped_because_it_was_delivered() {
    for is_known in [true, false] {
        let mut bench = asked(&[(8, 9)]);
        bench.out.src_qpn = is_known.then_some(Qpn::new(0x77));
        bench.data(1..10);
        let passed = if is_known { 1 } else { 8 };
        assert_eq!(bench.forwarded().len(), passed);
    }
}

/// Only the destination knows whether it has them: it discards what comes behind a gap.
// R-FILTER-14
#[test]
fn what_passed_a_passive_depot_passes_again() {
    let mut bench = Bench::start(Auto);
    bench.data(0..10);
    assert!(bench.status(10, 10, &[]));
    bench.data(10..12);
    assert!(bench.status(12, 12, &[]));
    bench.nak(4);
    bench.clear();
    bench.status(12, 12, &[]);
    bench.data(4..12);
    assert_eq!(bench.forwarded(), (4..12).map(|n| (n, High)).collect::<Vec<_>>());
    bench.clear();
    // Again, and nobody asked for it.
    bench.data(4..12);
    assert_eq!(bench.forwarded(), (4..10).map(|n| (n, High)).collect::<Vec<_>>());
}
