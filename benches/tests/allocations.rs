//! In its steady state no stage allocates, and each does its job.

use benches::link::Link;
use benches::{BURST, CASES, Stage};
use common::frame::Side;
use common::metrics::Metric;
use switch::Recovery;

/// Rounds in which queues find their sizes, and those that count.
const WARM: u32 = 256;
const ROUNDS: u32 = 64;
/// The same with loss, where it is up to chance how much waits.
const LOSSY_WARM: u32 = 4_000;
const LOSSY_ROUNDS: u32 = 3_500;

fn rounds(stage: &mut dyn Stage, rounds: u32) {
    for _ in 0..rounds {
        stage.prepare();
        stage.run();
    }
}

#[test]
fn no_case_allocates_and_each_does_what_it_says() {
    for case in CASES {
        let mut stage = (case.make)();
        rounds(&mut *stage, WARM);
        let counted = allocation_counter::measure(|| {
            for _ in 0..ROUNDS {
                stage.prepare();
                let before = stage.done();
                stage.run();
                let done = stage.done() - before;
                let is_right = done == u64::from(case.per_round) || !stage.is_steady();
                assert!(is_right, "{}: {done} in a round", case.name);
            }
        });
        let is_right = counted.count_total == 0 || !stage.is_settled();
        assert!(is_right, "{}: {} allocations", case.name, counted.count_total);
    }
}

/// One packet in a hundred is lost: gaps open, later packets are held and drained,
/// the lost ones are sent again, at both ends of the link. Returns how many
/// allocations that took, and how many packets were delivered meanwhile.
fn repairs(recovery: Recovery, flows: u32, repaired: &[Metric]) -> (u64, u64) {
    let mut link = Link::lossy(Side::Lan, recovery, flows, 101);
    rounds(&mut link, LOSSY_WARM);
    let held = [Metric::DepotHeld, Metric::DepotDrained, Metric::GapsFilled];
    let all = || held.iter().chain(repaired);
    let before: Vec<u64> = all().map(|metric| link.count(*metric)).collect();
    let delivered = link.delivered;
    let counted = allocation_counter::measure(|| rounds(&mut link, LOSSY_ROUNDS));
    for (metric, before) in all().zip(before) {
        let n = link.count(*metric) - before;
        assert!(n > 10, "{recovery:?}, {flows} flows: {metric:?} {n} times");
    }
    (counted.count_total, link.delivered - delivered)
}

const BY_SENTRY: &[Metric] = &[Metric::SentryResent];
const BY_SOURCE: &[Metric] = &[Metric::CreatedNak, Metric::DropFiltered, Metric::SentryNeeded];

#[test]
fn repairs_allocate_nothing() {
    let (allocations, delivered) = repairs(Recovery::Cached, 1, BY_SENTRY);
    assert_eq!((allocations, delivered), (0, u64::from(LOSSY_ROUNDS * BURST)));
    let (allocations, delivered) = repairs(Recovery::Cached, 64, BY_SENTRY);
    // A ring or two may still meet a gap that is worse than all before; a thousand were
    // repaired.
    assert!(allocations <= 4, "{allocations} allocations");
    assert_eq!(delivered, u64::from(LOSSY_ROUNDS * BURST));
    let (allocations, delivered) = repairs(Recovery::Lr2, 1, BY_SOURCE);
    // The closed form of a rewind per loss is near a half.
    assert!(allocations == 0 && delivered > 20_000, "{allocations}, {delivered}");
}

/// A flow's rings grow to the size of its worst gap. With very many flows some do so
/// late, but no more often than this.
#[test]
fn repairs_of_many_flows_allocate_little() {
    for (recovery, repaired) in [(Recovery::Cached, BY_SENTRY), (Recovery::Lr2, BY_SOURCE)] {
        for flows in [64, 1024] {
            let (allocations, delivered) = repairs(recovery, flows, repaired);
            assert!(allocations * 64 < delivered, "{recovery:?}, {flows}: {allocations}");
        }
    }
}
