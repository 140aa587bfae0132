//! Which packets pass, which are held, and in which order they are delivered.

use common::budget::Budget;
use common::control::Reason;
use common::histogram::Timing;
use common::metrics::Metric;
use common::time::{Span, Time};
use testkit::depot::*;

// R-SYNC-2
#[test]
fn until_a_sync_comes_everything_passes_and_nothing_is_held() {
    let mut bench = Bench::default();
    bench.data([0, 3, 2, 1, 1, 9]);
    assert_eq!(bench.delivered(), [0, 3, 2, 1, 1, 9]);
    assert_eq!((bench.pool.frames(), bench.deadline()), (0, Time::NEVER));
    assert!(bench.statuses().is_empty() && !bench.flow.is_synced());
}

// R-SYNC-2
#[test]
fn a_sync_that_claims_no_next_psn_begins_nothing() {
    let mut bench = Bench::default();
    bench.data([0]);
    bench.sync_resent(LIFE);
    assert!(!bench.flow.is_synced() && bench.statuses().is_empty());
    bench.data([5]);
    assert_eq!(bench.delivered(), [0, 5]);
}

// R-SYNC-2
#[test]
fn a_flow_begins_at_the_next_psn_of_its_sync() {
    let mut bench = Bench::default();
    bench.data([0, 1]);
    bench.sync(LIFE, Reason::Keepalive, 4);
    bench.clear();
    bench.data([2, 3]); // overtaken by the SYNC
    bench.data([5, 4]);
    bench.run_timers(bench.now + RTT / 32);
    assert_eq!(bench.delivered(), [2, 3, 4, 5]);
    assert_eq!(bench.count(Metric::DepotBehind), 2);
}

// R-SYNC-2
#[test]
fn a_flow_begins_at_what_is_acknowledged_if_that_is_more() {
    let mut bench = Bench::default();
    bench.data(0..6);
    let _ = bench.ack(4);
    bench.sync(LIFE, Reason::Open, 2); // delayed
    assert_eq!(bench.statuses()[0].expected, psn(5));
    bench.clear();
    bench.data([5]);
    assert_eq!(bench.count(Metric::DepotInOrder), 1);
}

// R-ORDER-1
#[test]
fn what_is_in_order_passes() {
    let mut bench = Bench::synced();
    bench.data(1..20);
    assert_eq!(bench.delivered(), (1..20).collect::<Vec<_>>());
    assert_eq!((bench.pool.frames(), bench.deadline()), (0, bench.now + PAUSE));
}

// R-ORDER-4, R-ORDER-5
#[test]
fn what_is_ahead_waits_and_follows_what_fills_the_gap() {
    let mut bench = Bench::synced();
    bench.data([1, 4, 3, 6]);
    assert_eq!(bench.delivered(), [1]);
    assert_eq!((bench.pool.frames(), bench.flow.summary().held), (3, 3));
    bench.data([2]);
    assert_eq!(bench.delivered(), [2, 3, 4]);
    bench.data([5]);
    assert_eq!(bench.delivered(), [5, 6]);
    assert_eq!((bench.pool.frames(), bench.pool.used()), (0, 0));
    assert_eq!((bench.count(Metric::GapsSeen), bench.count(Metric::GapsFilled)), (2, 2));
    let summary = bench.flow.summary();
    assert_eq!((bench.flow.is_synced(), summary.lost, summary.held), (true, 3, 0));
}

#[test]
fn repairs_and_waits_are_timed() {
    let mut bench = Bench::synced();
    bench.config.pacing = false;
    bench.data([1, 3]);
    assert_eq!(bench.out.times, [], "in order nothing is timed");
    bench.now += Span::from_millis(2);
    bench.data([4]);
    bench.now += Span::from_millis(3);
    bench.data([2]);
    assert_eq!(bench.delivered(), [1, 2, 3, 4]);
    let mut times = std::mem::take(&mut bench.out.times);
    times.sort_by_key(|(what, time)| (*what as usize, *time));
    let ms = Span::from_millis;
    let expected = [(Timing::Recovery, ms(5)), (Timing::Hold, ms(3)), (Timing::Hold, ms(5))];
    assert_eq!(times, expected);
}

// R-ORDER-6
#[test]
fn a_duplicate_of_what_is_held_is_dropped() {
    let mut bench = Bench::synced();
    bench.data([3, 3]);
    assert_eq!(bench.out.discarded, [(3, Metric::DropReorderDuplicate)]);
    bench.data([1, 2]);
    assert_eq!(bench.delivered(), [1, 2, 3]);
}

// R-ORDER-3
#[test]
fn what_is_behind_goes_on() {
    let mut bench = Bench::synced();
    bench.data([1, 2, 5]);
    bench.clear();
    bench.data([1, 0, 2]);
    assert_eq!(bench.delivered(), [1, 0, 2]);
    assert_eq!(bench.count(Metric::DepotBehind), 3);
}

/// A Depot whose peer can't resend by itself.
fn without_cache() -> Bench {
    let mut bench = Bench::default();
    bench.config.keeps_responses = false;
    bench
}

/// A gap that a cache fills needs no NAK, which the source would obey.
// R-ORDER-14
#[test]
fn where_the_sentry_has_a_cache_the_destination_is_probed_only_if_that_does_not_help() {
    let mut bench = Bench::default();
    bench.sync(LIFE, Reason::Open, 0);
    bench.data([0, 2]);
    assert_eq!(bench.delivered(), [0], "2 waits");
    let late = RTT.scale(5, 4);
    bench.wait(late - Span::from_nanos(1));
    bench.data([3]);
    assert_eq!(bench.count(Metric::DepotProbe), 0);
    bench.wait(Span::from_nanos(1));
    bench.data([4]);
    assert_eq!(bench.delivered(), [4]);
    assert_eq!(bench.count(Metric::DepotProbe), 1);
    bench.data([1]);
    bench.run_timers(bench.now + RTT / 16);
    assert_eq!(bench.delivered(), [1, 2, 3, 4]);
    // The next gap has a time of its own.
    bench.data([6]);
    assert_eq!(bench.delivered(), []);
}

// R-ORDER-14
#[test]
fn while_the_destination_has_acknowledged_nothing_an_early_packet_probes_it() {
    let mut bench = without_cache();
    bench.sync(LIFE, Reason::Open, 0);
    bench.data([0, 2]);
    assert_eq!(bench.delivered(), [0, 2]);
    assert_eq!(bench.count(Metric::DepotProbe), 1);
    let _ = bench.nak(1); // which tells `acked`
    bench.data([3]);
    assert_eq!(bench.delivered(), [], "3 waits");
    bench.data([1]);
    assert_eq!(bench.delivered(), [1, 2, 3]);
}

/// The destination sends one NAK per gap, however many packets follow.
// R-ORDER-14
#[test]
fn a_gap_is_probed_once_in_a_round_trip() {
    let mut bench = without_cache();
    bench.sync(LIFE, Reason::Open, 0);
    bench.data([0, 2, 3, 4]);
    assert_eq!(bench.delivered(), [0, 2]);
    bench.wait(RTT - Span::from_nanos(1));
    bench.data([5]);
    assert_eq!(bench.delivered(), []);
    bench.wait(Span::from_nanos(1));
    bench.data([6, 7]); // the probe, or its NAK, may have been lost
    assert_eq!(bench.delivered(), [6]);
    bench.data([1]);
    bench.run_timers(bench.now + RTT);
    assert_eq!(bench.delivered(), [1, 2, 3, 4, 5, 6, 7]);
    bench.data([9, 10]);
    assert_eq!(bench.delivered(), [9], "the next gap");
    assert_eq!(bench.count(Metric::DepotProbe), 3);
}

// R-ORDER-13
#[test]
fn a_full_pool_drops_the_newest_and_leaves_it_missing() {
    let mut bench = Bench::synced();
    bench.pool = Budget::new(2);
    bench.data([2, 3]);
    bench.wait(RTT / 2);
    bench.data([4, 7]);
    let full = Metric::DropReorderFull;
    assert_eq!(bench.out.discarded, [(4, full), (7, full)]);
    assert_eq!(bench.nacks().last(), Some(&vec![(1, 2), (4, 8)]));
    // Nor does it push out held ones.
    bench.data([5]);
    assert_eq!(bench.out.discarded.last(), Some(&(5, full)));
    bench.data([1]);
    assert_eq!(bench.delivered(), [1, 2, 3]);
    bench.data([4]);
    assert_eq!(bench.delivered(), [4]);
}

// R-ORDER-12
#[test]
fn a_damaged_packet_out_of_order_goes_on_and_is_not_believed() {
    let mut bench = Bench::synced();
    bench.data([3]);
    bench.clear();
    bench.frame(damaged(write(9))); // a gap?
    bench.frame(damaged(write(2))); // a repair?
    bench.frame(damaged(write(3))); // a duplicate?
    assert_eq!(bench.delivered(), [9, 2, 3]);
    assert_eq!(bench.count(Metric::PassedBadIcrc), 3);
    assert!(bench.nacks().is_empty() && bench.out.discarded.is_empty());
    bench.data([1, 2]);
    assert_eq!(bench.delivered(), [1, 2, 3]);
}

// R-ORDER-11
#[test]
fn what_is_too_far_ahead_is_of_another_incarnation_and_passes() {
    let mut bench = Bench::synced();
    let far = 1 + WINDOW_MAX as i32;
    bench.data([far + 1]);
    assert_eq!(bench.delivered(), [far + 1]);
    assert!(bench.nacks().is_empty());
    bench.data([far]);
    assert_eq!(bench.delivered(), [], "this is the last that is held");
    assert_eq!(bench.nacks(), [[(1, far)]]);
}

#[test]
fn a_passive_flow_follows_a_leap() {
    let mut bench = Bench::default();
    bench.data([0, 5_000, 5_001]);
    assert_eq!(bench.delivered(), [0, 5_000, 5_001]);
    // ACKs before the leap prove nothing about later packets.
    bench.sync(LIFE, Reason::Open, 5_002);
    assert_eq!(bench.statuses()[0].expected, psn(5_002));
}

// R-ORDER-15
#[test]
fn a_read_whose_psns_cannot_be_told_ends_protection() {
    let mut bench = Bench::synced();
    bench.data([2, 3]);
    bench.frame(read(4, (1 << 16) + 1)); // longer than any that is followed
    assert_eq!(bench.delivered(), [2, 3, 4], "held packets go first");
    assert!(!bench.flow.is_synced());
    bench.data([9, 8]);
    assert_eq!(bench.delivered(), [9, 8]);
}

// R-SYNC-7
#[test]
fn held_packets_are_delivered_in_order_when_the_flow_is_bypassed() {
    let mut bench = Bench::synced();
    bench.data([5, 3, 7]);
    bench.sync(LIFE, Reason::Release, 8);
    assert_eq!(bench.delivered(), [3, 5, 7]);
    assert!(!bench.flow.is_synced() && bench.deadline() == Time::NEVER);
    assert_eq!(bench.count(Metric::DepotReleased), 3);
    assert_eq!((bench.pool.frames(), bench.pool.used()), (0, 0));
}

// R-SYNC-6
#[test]
fn lost_for_good_what_waits_goes_on_at_once() {
    let mut bench = Bench::synced();
    bench.data([2, 3, 6]);
    bench.clear();
    bench.sync(LIFE, Reason::Lost, 8);
    assert_eq!(bench.delivered(), [2, 3, 6]);
    assert_eq!(bench.count(Metric::GapsGivenUp), 3, "what lies before its next PSN too");
    let status = &bench.statuses()[0];
    assert_eq!((status.expected, status.to), (psn(8), psn(8)));
    assert!(bench.flow.is_synced());
    bench.data([8]);
    assert_eq!(bench.delivered(), [8]);
    // Where nothing is missing it says nothing.
    bench.sync(LIFE, Reason::Lost, 9);
    assert_eq!(bench.count(Metric::GapsGivenUp), 3);
}
