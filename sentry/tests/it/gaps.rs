//! Gaps of any length, leaps, and a flow's share of the worker's slots.

use common::budget::Budget;
use common::control::Reason;
use common::frame::Class::{Data, High};
use common::metrics::Metric;
use common::psn::reach;
use common::time::Span;
use sentry::Flow;
use sentry::Recovery::{Auto, Cached, Lr2};
use testkit::sentry::*;

/// As long as a round trip of 100 Gbit/s and 40 ms is, of 1 KiB packets.
const LONG: i32 = 1 << 18;

/// Ten packets have gone, three of them acknowledged, with a large window.
fn ten() -> Bench {
    let mut bench = Bench::protected(Cached, 10, Some(3));
    bench.config.window_max = 1 << 19;
    bench
}

// R-GAP-4
#[test]
fn a_gap_takes_no_memory_however_long_it_is() {
    let mut bench = ten();
    bench.wait(Span::from_millis(20));
    let before = bench.flow.heap_bytes();
    // A READ: so many others would be left to the RNICs.
    bench.frame(read(LONG, 256));
    bench.wait(RTT * 2);
    bench.frame(read(LONG + 1, 60_000 * 256));
    bench.wait(RTT * 2);
    bench.status(10, LONG + 60_001, &[(10, LONG)]);
    let bytes = bench.flow.heap_bytes();
    assert!(bytes <= before + 1024 + 8 * Flow::<common::heap::HeapFrame>::SLOT, "{bytes} bytes");
    // It is filled as it comes, and needed PSNs are counted to the end.
    bench.clear();
    bench.data(3..2000);
    let expected: Vec<_> = (10..2000).map(|n| (n, High)).collect();
    assert!(bench.forwarded().ends_with(&expected));
    bench.ack(LONG, 9);
    bench.with(|flow, cx| flow.release_all(cx));
    assert_eq!((bench.cache.frames(), bench.cache.slots()), (0, 0));
}

// R-PSN-3
#[test]
fn a_leap_that_no_silence_explains_passes() {
    let mut bench = ten();
    bench.data([10]);
    bench.clear();
    let far = 11 + reach(Span::ZERO) as i32;
    bench.data([far + 1, 11]);
    assert_eq!(bench.take(), [Did::Forward(far + 1, Data), Did::Forward(11, Data)]);
    assert_eq!(bench.count(Metric::SentryLeap), 1);
    bench.data([far]);
    assert_eq!(bench.count(Metric::SentryAhead), 1);
}

/// The Depot would take it for somebody else's.
// R-GAP-2
#[test]
fn what_follows_a_long_gap_is_announced() {
    for (packet, is_announced) in [(26, false), (27, true)] {
        let mut bench = Bench::protected(Auto, 10, Some(3));
        bench.frame(read(packet, 256));
        let sync = Did::Sync { reason: Reason::Keepalive, next: Some(packet + 1), class: Data };
        assert_eq!(bench.take().contains(&sync), is_announced, "{packet}");
    }
}

#[test]
fn a_depot_that_holds_what_was_not_sent_is_told_what_was() {
    let mut bench = ten();
    assert!(!bench.status(5, 500, &[(10, 499)]));
    let sync = Did::Sync { reason: Reason::Tail, next: Some(10), class: Data };
    assert_eq!(bench.take(), [sync]);
    assert!(!bench.status(5, 500, &[(10, 499)]));
    assert_eq!(bench.take(), [], "not for each");
    bench.wait(RTT);
    assert!(!bench.status(5, 500, &[(10, 499)]));
    assert_eq!(bench.take(), [sync]);
}

/// A flow takes as many slots as it needs, half at most, and returns them.
// R-PSN-4
#[test]
fn slots_are_a_budget() {
    let mut bench = Bench::protected(Lr2, 1, Some(1));
    bench.config.window_max = 1 << 20;
    bench.cache = Budget::new(0);
    let most = Budget::slots_for(0);
    // Somebody has all but some.
    let left = 1 << 10;
    assert!(bench.cache.take_slots((most / 2) as u32, 0));
    while bench.cache.take_slots(256, 0) && most - bench.cache.slots() > 2 * left {}
    bench.data(1..2000);
    assert!(bench.count(Metric::SentrySlotsFull) > 0);
    assert_eq!(bench.forwarded().len(), 1999);
    let has = bench.flow.heap_bytes() / Flow::<common::heap::HeapFrame>::SLOT;
    assert!(has as u64 <= 2 * left, "{has} slots");
    let others = bench.cache.slots();
    bench.ack(1999, 5);
    bench.flow.shrink();
    let spare = bench.flow.spare_slots();
    assert!(spare > 0 && u64::from(spare) < others);
    bench.cache.give_slots(spare);
    bench.data(2000..2010);
    assert_eq!(bench.forwarded().len(), 10);
}
