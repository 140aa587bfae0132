//! READ requests take more than one place in the order.

use common::control::Reason;
use common::metrics::Metric;
use testkit::depot::*;

// R-READ-2
#[test]
fn a_read_takes_the_psns_of_its_responses() {
    let mut bench = Bench::synced();
    bench.data([1]); // a full packet: the path MTU is 256
    bench.frame(read(2, 4));
    bench.data([6, 7]);
    assert_eq!(bench.delivered(), [1, 2, 6, 7]);
    assert_eq!(bench.count(Metric::DepotInOrder), 5, "with 0");
    assert_eq!(bench.pool.frames(), 0);
}

#[test]
fn a_read_that_is_early_waits_and_all_behind_it_too() {
    let mut bench = Bench::synced();
    bench.frame(read(2, 4));
    bench.data([6, 7]);
    assert_eq!(bench.nacks(), [[(1, 2)]]);
    assert_eq!((bench.delivered(), bench.pool.frames()), (vec![], 3));
    bench.data([1]);
    assert_eq!(bench.delivered(), [1, 2, 6, 7]);
    bench.sync(LIFE, Reason::Tail, 8);
    assert_eq!(bench.nacks(), [[]]);
}

#[test]
fn a_lost_read_is_a_gap_of_as_many_psns_and_fills_it_at_once() {
    for early in [false, true] {
        let mut bench = Bench::synced();
        if !early {
            bench.data([1]);
        }
        bench.data([6, 7]);
        let lost = if early { (1, 6) } else { (2, 6) };
        assert_eq!(bench.nacks(), [[lost]]);
        bench.frame(read(2, 4));
        if early {
            assert_eq!(bench.pool.frames(), 3, "it waits in the middle of the gap");
            bench.sync(LIFE, Reason::Tail, 8);
            assert_eq!(bench.nacks(), [[(1, 2)]]);
            bench.data([1]);
        }
        assert_eq!(bench.delivered(), [1, 2, 6, 7]);
    }
}

#[test]
fn a_read_that_is_held_already_is_a_duplicate() {
    let mut bench = Bench::synced();
    bench.frame(read(2, 4));
    bench.frame(read(2, 4));
    assert_eq!(bench.out.discarded, [(2, Metric::DropReorderDuplicate)]);
    bench.data([1]);
    bench.frame(read(2, 4));
    assert_eq!(bench.delivered(), [1, 2, 2], "delivered, it may be one that was lost behind us");
}

/// A path MTU that is believed wrongly, or two incarnations: which PSN comes next
/// can't be told.
#[test]
fn requests_that_claim_the_same_psns_end_protection() {
    // In a gap.
    let mut bench = Bench::synced();
    bench.data([5, 8]);
    bench.frame(read(3, 4));
    assert_eq!(bench.delivered(), [5, 8, 3]);
    assert!(!bench.flow.is_synced());
    assert_eq!(bench.pool.frames(), 0);
    // In order.
    let mut bench = Bench::synced();
    bench.data([3]);
    bench.frame(read(1, 4));
    assert_eq!(bench.delivered(), [3, 1]);
    assert!(!bench.flow.is_synced());
}

/// Its length would be believed.
#[test]
fn a_damaged_read_passes_and_changes_nothing() {
    let mut bench = Bench::synced();
    let mut frame = read(1, 4);
    frame[69] ^= 1; // its length
    bench.frame(frame);
    assert_eq!(bench.count(Metric::PassedBadIcrc), 1);
    bench.frame(read(1, 4));
    bench.data([5]);
    assert_eq!(bench.delivered(), [1, 1, 5]);
    assert_eq!(bench.count(Metric::DepotInOrder), 3);
}

#[test]
fn a_read_that_fills_one_end_of_a_gap_closes_no_gap() {
    for (at, rest) in [(1, (5, 9)), (5, (1, 5)), (3, (1, 3))] {
        let mut bench = Bench::synced();
        bench.data([9]);
        bench.frame(read(at, 4));
        let (seen, filled) = (bench.count(Metric::GapsSeen), bench.count(Metric::GapsFilled));
        assert_eq!(filled, 0, "{at}");
        assert_eq!(seen, if at == 3 { 2 } else { 1 }, "{at}");
        bench.sync(LIFE, Reason::Tail, 10);
        assert_eq!(bench.nacks().last().and_then(|gaps| gaps.first()), Some(&rest));
        let missing = (1..9).filter(|n| !(at..at + 4).contains(n));
        bench.data(missing);
        assert_eq!(bench.count(Metric::GapsFilled), bench.count(Metric::GapsSeen));
    }
}
