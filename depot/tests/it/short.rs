//! A reordering pool that is too small for what follows a gap.

use common::budget::Budget;
use common::control::Reason;
use common::metrics::Metric;
use common::time::Span;
use testkit::depot::*;

/// Packet 1 is missing, and the pool had room for two of those behind it. Packets 2 to 4 went
/// to the destination.
fn left() -> Bench {
    let mut bench = Bench::synced();
    bench.pool = Budget::new(2);
    bench.data([2, 3, 4]);
    assert_eq!(bench.delivered(), [2, 3, 4]);
    bench
}

/// The last STATUS is passive.
fn is_passive(bench: &mut Bench) -> bool {
    bench.statuses().last().is_some_and(|status| status.passive)
}

// R-ORDER-17
#[test]
fn a_pool_that_is_full_soon_after_a_gap_leaves_the_flow_to_the_rnics() {
    let mut bench = left();
    assert!(bench.out.discarded.is_empty(), "{:?}", bench.out.discarded);
    assert!(is_passive(&mut bench) && !bench.flow.is_synced());
    assert_eq!(bench.pool.frames(), 0, "others may have the room");
    bench.data([6]);
    assert_eq!(bench.delivered(), [6], "nothing is held");
    assert_eq!(bench.nak(1), Became::Forward);
    bench.data([1, 2]);
    assert_eq!(bench.delivered(), [1, 2]);
}

/// A repair that is overdue frees no room.
// R-ORDER-17
#[test]
fn so_does_one_that_is_full_when_the_repair_was_lost() {
    let mut bench = Bench::synced();
    bench.pool = Budget::new(2);
    bench.data([2, 3]);
    bench.wait(RTT * 3);
    bench.data([4]);
    assert_eq!(bench.delivered(), [2, 3, 4]);
    assert!(!bench.flow.is_synced());
}

// R-SYNC-9
#[test]
fn it_is_protected_again_once_the_destination_has_all_that_passed() {
    let mut bench = left();
    bench.sync(LIFE, Reason::Open, 5);
    assert!(is_passive(&mut bench) && !bench.flow.is_synced());
    let _ = bench.ack(3);
    bench.sync(LIFE, Reason::Open, 5);
    assert!(!bench.flow.is_synced(), "4 was discarded");
    let _ = bench.ack(4);
    bench.sync(LIFE, Reason::Open, 5);
    assert!(!is_passive(&mut bench) && bench.flow.is_synced());
    bench.clear();
    bench.data([6]);
    assert_eq!(bench.nacks(), [vec![(5, 6)]]);
}

/// The destination discards packets behind the one that it asks for.
// R-SYNC-9
#[test]
fn another_nak_meanwhile_begins_another_round() {
    let mut bench = left();
    bench.data([6, 7]);
    let _ = bench.nak(1);
    let _ = bench.ack(4);
    bench.sync(LIFE, Reason::Open, 8);
    assert!(!bench.flow.is_synced());
    let _ = bench.ack(7);
    bench.sync(LIFE, Reason::Open, 8);
    assert!(bench.flow.is_synced());
}

/// Where the destination's ACKs are not recognised.
// R-SYNC-9
#[test]
fn it_waits_for_no_longer_than_a_gap_is_open() {
    let mut bench = left();
    bench.wait(GIVE_UP - Span::from_nanos(1));
    bench.sync(LIFE, Reason::Open, 5);
    assert!(!bench.flow.is_synced());
    bench.wait(Span::from_nanos(1));
    bench.sync(LIFE, Reason::Open, 5);
    assert!(bench.flow.is_synced());
}

#[test]
fn a_pool_without_room_holds_nothing() {
    let mut bench = Bench::synced();
    bench.pool = Budget::new(0);
    bench.data([1, 3]);
    assert_eq!(bench.delivered(), [1, 3]);
    assert_eq!(bench.count(Metric::DropReorderFull), 0);
}
