//! READs where the responder's LAN loses: storage targets fetch the data of writes this way.
//! No gateway has a packet lost there, and nothing may wait for it.
//!
//! `SEEDS=n` runs that many seeds (12 by default).

use common::metrics::Metric;
use common::time::Span;
use switch::Recovery;
use tests::{Impairment, Scenario, World, number};

/// 40 READs of 64 KiB in a row; the responder's LAN loses on the way to its box, and the
/// long haul loses `wan`.
fn scenario(seed: u64, recovery: Option<Recovery>, wan: f64) -> Scenario {
    Scenario {
        lan1: [Impairment::default(), Impairment::lossy(0.005)],
        wan: [Impairment::lossy(wan); 2],
        messages: [40, 0],
        fixed_length: true,
        reads: 1.0,
        ..Scenario::calm(seed, recovery)
    }
}

/// Seconds on average, and gaps among responses: seen, and given up without a response that
/// says why.
fn mean(recovery: Option<Recovery>, wan: f64) -> (f64, u64, u64) {
    let seeds: u32 = number("SEEDS").map_or(12, |n| n as u32);
    let (mut sum, mut seen, mut given_up) = (0.0, 0, 0);
    for seed in 0..seeds {
        let mut world = World::new(scenario(seed.into(), recovery, wan));
        let outcome = world.run(Span::from_millis(600_000));
        assert_eq!((outcome.failed, outcome.held), (0, 0), "seed {seed}");
        sum += outcome.finished.expect("it ends").as_secs_f64();
        for counters in world.counters(0) {
            let absent = counters.get(Metric::ReadGapsAbsent);
            seen += counters.get(Metric::ReadGapsSeen);
            given_up += counters.get(Metric::ReadGapsGivenUp) - absent;
        }
    }
    (sum / f64::from(seeds), seen, given_up)
}

#[test]
fn where_the_responders_lan_loses_reads_take_no_longer_than_without_gateways() {
    for wan in [0.0, 0.005] {
        let (plain, ..) = mean(None, wan);
        for recovery in [Recovery::Auto, Recovery::Cached, Recovery::Lr2] {
            let (ours, seen, given_up) = mean(Some(recovery), wan);
            println!(
                "{recovery:?}, long haul {wan}: {:.0} ms, plain {:.0} ms; {given_up} of {seen} gaps",
                ours * 1e3,
                plain * 1e3
            );
            assert!(ours <= plain * 1.05, "{recovery:?}, long haul {wan}: {ours:.3} of {plain:.3}");
            assert!(
                given_up * 20 <= seen,
                "{recovery:?}: {given_up} of {seen} gaps were tried thrice"
            );
        }
    }
}
