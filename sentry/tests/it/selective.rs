//! Sources that repeat single packets (selective repeat), for which `lr2` is not.

use common::control::Reason;
use common::frame::Class::Data;
use common::metrics::Metric;
use common::time::Span;
use sentry::Recovery::{Auto, Lr2};
use sentry::Standing;
use testkit::sentry::*;

/// Ten packets, of which 0 is acknowledged and 1 was asked for by a NAK of the Sentry.
fn asked() -> Bench {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.status(5, 10, &[(5, 6)]);
    assert_eq!(bench.naks(), [1]);
    bench
}

fn is_left(bench: &Bench) -> bool {
    let is_left = bench.flow.standing() == Standing::SelectiveRepeat;
    assert_eq!(bench.count(Metric::FlowSelective), u64::from(is_left));
    is_left
}

// R-FILTER-15
#[test]
fn a_source_that_repeats_one_packet_and_goes_on_is_left_to_its_rnic() {
    let mut bench = asked();
    bench.data([1]);
    assert!(!is_left(&bench));
    bench.clear();
    bench.data([10]);
    assert!(is_left(&bench));
    let did: Vec<_> = bench.take().into_iter().filter(|d| !matches!(d, Did::Discard(..))).collect();
    let release = Did::Sync { reason: Reason::Release, next: Some(10), class: Data };
    assert_eq!(did, [release, Did::Forward(10, Data)]);
    // All that it repeats from now on crosses the link, and none is asked for.
    bench.data([5, 11, 3, 12]);
    assert_eq!(bench.forwarded(), [(5, Data), (11, Data), (3, Data), (12, Data)]);
    bench.wait(RTT * 1_000);
    bench.data([13]);
    assert!(is_left(&bench), "until the next incarnation");
}

/// The packet with which the source goes on may be a repeat, too.
// R-FILTER-15
#[test]
fn packets_without_which_it_goes_on_need_not_be_followed_by_new_ones() {
    let mut bench = asked();
    bench.data([1, 6]);
    assert!(is_left(&bench));
}

/// Of a source that goes back, some may be lost before the Sentry, and others need not be repeated any more.
// R-FILTER-15
#[test]
fn a_source_that_goes_back_is_not_taken_for_one() {
    // Three lost.
    let mut bench = asked();
    bench.data([1, 5]);
    assert!(!is_left(&bench));
    // More than three, but not behind the first.
    let mut bench = asked();
    bench.data([1, 2, 9]);
    assert!(!is_left(&bench));
    // Acknowledged meanwhile.
    let mut bench = asked();
    bench.data([1]);
    bench.ack(6, 7);
    bench.data([10]);
    assert!(!is_left(&bench));
    // The network duplicates a packet; no NAK asked for it.
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.data([1, 10]);
    assert!(!is_left(&bench));
    // Not the packet that was asked for.
    let mut bench = asked();
    bench.data([2, 10]);
    assert!(!is_left(&bench));
    // A damaged packet proves nothing.
    let mut bench = asked();
    bench.data([1]);
    bench.frame(damaged(write(10)));
    assert!(!is_left(&bench));
}

/// Where there is a cache, packets are resent from it, which such a source does not disturb.
// R-FILTER-15
#[test]
fn with_a_cache_it_stays_protected() {
    let mut bench = Bench::start(Auto);
    bench.cache = common::budget::Budget::new(0);
    bench.data(0..10);
    bench.status(0, 0, &[]);
    bench.ack(0, 1);
    bench.wait(UNDER_WAY);
    bench.clear();
    bench.status(5, 10, &[(5, 6)]);
    assert_eq!(bench.naks(), [1]);
    bench.data([1, 10]);
    assert!(!is_left(&bench));
}

/// The source stops because its window is full, or it has no further packet to send.
// R-FILTER-16
#[test]
fn a_source_that_repeats_one_packet_and_is_silent_is_left_to_its_rnic() {
    let complain = |wait, repeats: &[i32]| {
        let mut bench = asked();
        bench.data(repeats.iter().copied());
        bench.wait(wait);
        bench.clear();
        bench.status(5, 10, &[(5, 6)]);
        let syncs = bench.syncs();
        (is_left(&bench), syncs)
    };
    let patience = UNDER_WAY * 2;
    assert_eq!(complain(patience, &[1]), (true, vec![Reason::Release]));
    assert_eq!(complain(patience - Span::from_nanos(1), &[1]), (false, vec![]));
    assert_eq!(complain(patience, &[1, 2]), (false, vec![]), "it may be slow");
    // The Depot lacks nothing.
    let mut bench = asked();
    bench.data([1]);
    bench.wait(patience);
    bench.status(10, 10, &[]);
    assert!(!is_left(&bench));
}
