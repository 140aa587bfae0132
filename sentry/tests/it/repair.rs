//! The proofs of a STATUS, and the resends that it causes.

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{LastAck, Reason, Status};
use common::frame::Class::{Data, High};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::{Aeth, Qpn};
use sentry::Recovery::{Auto, Cached, Lr2};
use sentry::Standing;
use testkit::sentry::*;

// R-REPAIR-1
#[test]
fn a_cached_packet_is_resent_in_the_high_class_with_a_sync_that_claims_nothing() {
    for recovery in [Cached, Auto] {
        let mut bench = Bench::protected(recovery, 10, None);
        bench.out.src_qpn = None;
        bench.status(3, 10, &[(3, 5), (7, 8)]);
        let sync = Did::Sync { reason: Reason::Resent, next: None, class: High };
        let resent = [3, 4, 7].map(|n| Did::Forward(n, High));
        let did: Vec<_> =
            bench.take().into_iter().filter(|d| !matches!(d, Did::Discard(..))).collect();
        assert_eq!(did, [&resent[..], &[sync]].concat());
        assert_eq!(bench.count(Metric::SentryResent), 3);
    }
}

// R-REPAIR-11
#[test]
fn packets_of_several_gaps_are_resent_together() {
    let mut bench = Bench::protected(Cached, 20, None);
    bench.status(3, 10, &[(3, 6)]);
    assert_eq!((bench.count(Metric::SentryResent), bench.count(Metric::SentryAggregated)), (3, 0));
    bench.status(3, 20, &[(3, 6), (12, 13), (15, 17)]);
    assert_eq!((bench.count(Metric::SentryResent), bench.count(Metric::SentryAggregated)), (6, 1));
    let summary = bench.flow.summary();
    assert_eq!((bench.flow.standing(), summary.lost, summary.resent), (Standing::Protected, 6, 6));
}

#[test]
fn lr2_keeps_no_first_copies() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    assert_eq!(bench.cache.frames(), 0);
    bench.status(3, 10, &[(3, 5)]);
    assert!(bench.forwarded().is_empty());
}

// R-REPAIR-2
#[test]
fn a_resent_packet_is_resent_again_only_if_the_status_could_have_known() {
    let mut bench = Bench::protected(Cached, 10, None);
    bench.status(3, 10, &[(3, 4)]);
    let resent_at = bench.now;
    bench.clear();
    let patience = RTT.scale(5, 4);
    bench.wait(patience - Span::from_nanos(1));
    bench.status(3, 10, &[(3, 4)]);
    assert!(bench.forwarded().is_empty(), "it echoes nothing that came after the resend");
    bench.wait(Span::from_nanos(1));
    bench.status(3, 10, &[(3, 4)]);
    assert_eq!(bench.forwarded(), [(3, High)], "after 1.25 round trips it is late");

    let mut bench = Bench::protected(Cached, 10, None);
    bench.status(3, 10, &[(3, 4)]);
    bench.clear();
    bench.wait(Span::from_millis(2));
    bench.status_with(3, 10, &[(3, 4)], |s| s.echo = resent_at - Span::from_nanos(1));
    assert!(bench.forwarded().is_empty(), "an earlier SYNC proves nothing");
    bench.status_with(3, 10, &[(3, 4)], |s| s.echo = resent_at);
    assert_eq!(bench.forwarded(), [(3, High)], "the SYNC behind the resend arrived, it did not");
}

// R-REPAIR-3
#[test]
fn a_missing_packet_that_was_sent_once_is_resent_at_once() {
    let mut bench = Bench::start(Cached);
    bench.data(0..10);
    bench.clear();
    bench.status(3, 10, &[(3, 4)]);
    assert_eq!(bench.forwarded(), [(3, High)], "later ones have arrived, so it is lost");
}

// R-FILTER-13
#[test]
fn what_the_filter_let_through_is_kept_in_lr2_and_resent_without_the_source() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.status(3, 10, &[(3, 4)]);
    bench.data(1..10);
    assert_eq!(bench.cache.frames(), 1);
    bench.clear();
    bench.wait(RTT * 2);
    bench.status(3, 10, &[(3, 4)]);
    assert_eq!(bench.take()[..1], [Did::Forward(3, High)]);
    assert_eq!(bench.count(Metric::NakSynthesised), 1, "no second NAK");
}

// R-FILTER-13
#[test]
fn what_was_let_through_is_kept_until_it_is_known_to_have_arrived() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.status(3, 10, &[(3, 4), (6, 7)]);
    bench.data(1..10);
    let sent = bench.now;
    assert_eq!(bench.cache.frames(), 2);
    bench.wait(RTT);
    bench.status_with(3, 10, &[(3, 4)], |s| s.echo = sent - Span::from_nanos(1));
    assert_eq!(bench.cache.frames(), 2, "a STATUS from before it was sent");
    bench.status_with(3, 10, &[(3, 4)], |s| s.echo = sent);
    assert_eq!(bench.cache.frames(), 1, "6 waits at the Depot");
    bench.status(4, 10, &[]);
    assert_eq!(bench.cache.frames(), 0, "3 was delivered");
}

#[test]
fn handles_are_released_by_what_the_depot_delivered_and_by_what_is_acknowledged() {
    let mut bench = Bench::protected(Cached, 10, None);
    assert_eq!(bench.cache.frames(), 10);
    bench.status(4, 10, &[(4, 5)]);
    assert_eq!(bench.cache.frames(), 6);
    bench.ack(7, 1);
    assert_eq!(bench.cache.frames(), 2);
    bench.status(10, 10, &[]);
    assert_eq!((bench.cache.frames(), bench.cache.used()), (0, 0));
}

#[test]
fn a_full_cache_keeps_what_it_has_and_lets_the_rest_pass() {
    let mut bench = Bench::start(Cached);
    bench.cache = Budget::new(2);
    bench.data(0..5);
    assert_eq!(bench.forwarded(), (0..5).map(|n| (n, Data)).collect::<Vec<_>>());
    assert_eq!((bench.cache.frames(), bench.count(Metric::SentryCacheFull)), (2, 3));
    bench.status(0, 5, &[(0, 5)]);
    assert_eq!(bench.forwarded(), [(0, High), (1, High)]);
}

/// Four of five packets found no room; packet 1 is missing.
fn uncached() -> Bench {
    let mut bench = Bench::protected(Cached, 0, None);
    bench.cache = Budget::new(1);
    bench.data(0..5);
    bench.clear();
    bench.status(1, 5, &[(1, 2)]);
    bench
}

// R-REPAIR-5
#[test]
fn in_cached_a_missing_packet_that_found_no_room_leaves_the_flow_to_the_rnics() {
    let mut bench = uncached();
    assert_eq!(bench.syncs(), [Reason::Release]);
    assert_eq!(bench.cache.frames(), 0, "others may have the room");
    bench.clear();
    bench.nak(1);
    bench.data(1..6);
    let repeats = bench.forwarded();
    assert_eq!(repeats, (1..6).map(|n| (n, Data)).collect::<Vec<_>>(), "it is a wire");
    assert_eq!(bench.cache.frames(), 0);
}

// R-REPAIR-10
#[test]
fn such_a_flow_returns_after_four_round_trips_once_half_of_the_cache_is_free() {
    let mut bench = uncached();
    bench.cache = Budget::new(0);
    let epoch = bench.epoch();
    bench.wait(RTT * 6);
    bench.data([5]);
    assert_eq!(bench.epoch(), epoch, "the cache is full");
    bench.cache = Budget::new(2);
    bench.data([6]);
    assert_ne!(bench.epoch(), epoch);
    assert_eq!((bench.cache.frames(), bench.syncs().last()), (1, Some(&Reason::Open)));
}

#[test]
fn it_does_not_return_before() {
    let mut bench = uncached();
    let epoch = bench.epoch();
    bench.wait(RTT * 4 - Span::from_nanos(1));
    bench.data([5]);
    assert_eq!(bench.epoch(), epoch);
}

#[test]
fn a_status_that_claims_what_cannot_be_is_ignored() {
    let ranges: [&[(i32, i32)]; 5] =
        [&[(2, 2)], &[(3, 5), (4, 6)], &[(5, 6), (3, 4)], &[(1, 3)], &[(9, 11)]];
    for missing in ranges {
        let mut bench = Bench::start(Cached);
        bench.data(0..10);
        bench.clear();
        assert!(!bench.status(2, 10, missing), "{missing:?}");
        assert!(bench.take().is_empty() && !bench.flow.is_protected(), "{missing:?}");
    }
    let mut bench = Bench::start(Cached);
    bench.data(0..10);
    bench.clear();
    assert!(!bench.status(11, 11, &[]), "it can't have delivered what was not sent");
    assert!(!bench.status(5, 11, &[]), "nor hold it");
    assert!(!bench.status_with(5, 9, &[], |s| s.from = psn(4)), "nor list what it delivered");
    let now = bench.now;
    let future = |s: &mut Status| s.echo = now + Span::from_nanos(1);
    assert!(!bench.status_with(10, 10, &[], future), "nor have heard what was not said");
    assert!(bench.take().is_empty() && !bench.flow.is_protected());
    assert!(bench.status(10, 10, &[]));
}

// R-REPAIR-9
#[test]
fn an_ack_that_the_status_tells_of_is_issued_again_once() {
    let mut bench = Bench::protected(Lr2, 10, Some(2));
    let ack = |n| Some(LastAck { psn: psn(n), syndrome: Aeth::ACK_UNLIMITED, msn: 6 });
    bench.status_with(8, 10, &[(8, 9)], |s| s.ack = ack(1));
    assert!(!bench.take().iter().any(|d| matches!(d, Did::Ack { .. })), "the source has had it");
    bench.status_with(8, 10, &[(8, 9)], |s| s.ack = ack(5));
    assert!(bench.take().contains(&Did::Ack { psn: 5, msn: 6 }));
    bench.status_with(8, 10, &[(8, 9)], |s| s.ack = ack(5));
    assert!(!bench.take().iter().any(|d| matches!(d, Did::Ack { .. })));
    bench.status_with(8, 10, &[(8, 9)], |s| s.ack = ack(10));
    assert!(!bench.take().iter().any(|d| matches!(d, Did::Ack { .. })), "never sent");
}

// R-REPAIR-9
#[test]
fn no_ack_is_issued_where_the_requester_is_unknown_but_it_counts() {
    let mut bench = Bench::protected(Lr2, 10, Some(2));
    bench.out.src_qpn = None;
    let ack = LastAck { psn: psn(5), syndrome: Aeth::ACK_UNLIMITED, msn: 6 };
    bench.status_with(6, 10, &[], |s| s.ack = Some(ack));
    bench.out.src_qpn = Some(Qpn::new(7));
    bench.status(7, 10, &[(7, 8)]);
    assert_eq!(bench.take(), [Did::Nak { psn: 6, msn: 6 }]);
}

/// The destination acknowledged it in the flow's earlier incarnation, or before this
/// box started.
#[test]
fn no_ack_is_issued_for_a_packet_before_the_first() {
    let mut bench = Bench::start(Lr2);
    bench.data(0..4);
    bench.clear();
    let ack = LastAck { psn: psn(-1), syndrome: Aeth::ACK_UNLIMITED, msn: 6 };
    bench.status_with(0, 4, &[], |s| s.ack = Some(ack));
    assert!(bench.take().is_empty());
    let ack = LastAck { psn: psn(0), ..ack };
    bench.status_with(1, 4, &[], |s| s.ack = Some(ack));
    assert_eq!(bench.take(), [Did::Ack { psn: 0, msn: 6 }]);
}

#[test]
fn the_round_trip_is_measured_once_per_echo() {
    let mut bench = Bench::start(Lr2);
    bench.data([0]);
    let sent = bench.now;
    assert_eq!(bench.flow.rtt(), None);
    bench.wait(Span::from_millis(20));
    bench.status_with(1, 1, &[], |s| {
        s.echo = sent;
        s.hold = Span::from_millis(6);
    });
    assert_eq!(bench.flow.rtt(), Some(Span::from_millis(14)));
    bench.wait(Span::from_millis(900));
    bench.status_with(1, 1, &[], |s| s.echo = sent);
    assert_eq!(bench.flow.rtt(), Some(Span::from_millis(14)), "the same echo measures nothing");
}

#[test]
fn a_depot_that_started_anew_is_believed_from_its_first_status() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.status_with(3, 10, &[(3, 4)], |s| s.echo = Time::from_nanos(1_000_000_000));
    bench.data([1]);
    bench.clear();
    // The new one holds nothing: packets that the old one held pass again.
    let other = status(3, 3, &[]);
    bench.with(|flow, cx| flow.on_status(cx, BOOT.next(), &other));
    bench.wait(RTT * 4);
    bench.data([5]);
    assert_eq!(bench.forwarded(), [(5, High)]);
}

// R-SYNC-1
#[test]
fn every_sync_but_resent_travels_with_the_data_and_claims_the_next_psn() {
    let mut bench = Bench::protected(Cached, 10, Some(1));
    bench.data([10]);
    bench.run_timers(bench.now + RTT * 3);
    bench.status(3, 11, &[(3, 4)]);
    bench.data([3]);
    bench.with(|flow, cx| flow.bypass(cx));
    let mut seen = 0;
    for did in bench.take() {
        if let Did::Sync { reason, next, class } = did {
            let expected = if reason == Reason::Resent { (None, High) } else { (Some(11), Data) };
            assert_eq!((next, class), expected, "{reason:?}");
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
    let reasons: Vec<_> = bench.out.syncs.iter().map(|(_, sync)| sync.reason).collect();
    assert!(reasons.contains(&Reason::Resent) && reasons.contains(&Reason::Release));
}

/// A flow of `Cached` whose packets 0..10 passed a passive Depot: its first STATUS expects 10.
fn passed_a_passive_depot() -> Bench {
    let mut bench = Bench::start(Cached);
    bench.data(0..10);
    assert!(bench.status(10, 10, &[]));
    bench.wait(UNDER_WAY);
    bench.clear();
    bench
}

// R-REPAIR-7
#[test]
fn packets_that_passed_a_passive_depot_are_resent_from_the_cache() {
    let mut bench = passed_a_passive_depot();
    assert_eq!(bench.cache.frames(), 10);
    bench.status(4, 10, &[(4, 10)]);
    assert_eq!(bench.forwarded(), (4..10).map(|n| (n, High)).collect::<Vec<_>>());
    bench.ack(9, 1);
    assert_eq!(bench.cache.frames(), 0, "the destination has them");
}

/// By then the source, whose window they fill, has got an ACK of them.
// R-REPAIR-7
#[test]
fn they_are_freed_once_as_many_more_were_delivered() {
    let mut bench = passed_a_passive_depot();
    bench.data(10..20);
    bench.status(19, 20, &[]);
    assert_eq!(bench.cache.frames(), 11);
    bench.status(20, 20, &[]);
    assert_eq!(bench.cache.frames(), 0);
}

// R-REPAIR-7
/// What counts is what passed this Depot, not the age of the flow.
#[test]
fn they_are_freed_as_soon_when_a_later_depot_takes_over() {
    let mut bench = passed_a_passive_depot();
    bench.data(10..100);
    bench.status(100, 100, &[]);
    assert_eq!(bench.cache.frames(), 0);
    bench.run_timers(bench.now + RTT * 20);
    bench.data(100..105);
    assert!(!bench.flow.is_protected(), "the Depot fell silent");
    bench.status(105, 105, &[]);
    assert!(bench.flow.is_protected());
    bench.data(105..115);
    bench.status(115, 115, &[]);
    assert_eq!(bench.cache.frames(), 0);
}

#[test]
fn they_are_freed_once_the_last_tail_is_announced() {
    let mut bench = passed_a_passive_depot();
    bench.run_timers(bench.now + RTT * 200);
    assert_eq!((bench.cache.frames(), bench.deadline()), (0, Time::NEVER));
}

#[test]
fn they_are_freed_as_well_if_nothing_pays_for_that_tail() {
    let mut bench = Bench::start(Cached);
    bench.ask(0..10);
    assert!(bench.status(10, 10, &[]));
    bench.allowance = Allowance::new(0);
    bench.run_timers(bench.now + RTT * 200);
    assert_eq!((bench.cache.frames(), bench.deadline()), (0, Time::NEVER));
}

// R-REPAIR-8
#[test]
fn a_repeat_since_the_depot_went_back_is_cached() {
    let mut bench = Bench::protected(Cached, 10, Some(1));
    bench.status(10, 10, &[]);
    assert_eq!(bench.cache.frames(), 0, "all arrived at a Depot that keeps them");
    bench.status(4, 10, &[(4, 10)]);
    bench.nak(4);
    bench.wait(UNDER_WAY);
    bench.data(4..10);
    assert_eq!(bench.cache.frames(), 6);
    bench.wait(RTT * 2);
    bench.clear();
    bench.status(5, 10, &[(5, 6)]);
    assert_eq!(bench.forwarded(), [(5, High)]);
    assert_eq!(bench.cache.frames(), 5);
}
