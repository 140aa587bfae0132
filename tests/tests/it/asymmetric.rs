//! Requests cross the gateways, and responses take another path: two routers that choose by
//! different hashes do that. None of the queue pairs may die, or take longer on average, that would have lived
//! without gateways on the same losses. With ACKs out of sight a gateway can't know what arrived.
//!
//! `SEEDS=n` runs that many seeds per case.

use common::metrics::Metric;
use common::time::Span;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use switch::Recovery;
use tests::{Fates, Impairment, Scenario, World, seeds};

/// Not `lr2`, which has to ask a source and can't: docs/limits.md.
const MODES: [Recovery; 2] = [Recovery::Cached, Recovery::Auto];

/// Share of packets that are lost: on the source's LAN, the long haul, the destination's
/// LAN; both ways.
const CASES: [[f64; 3]; 4] = [[0.0; 3], [0.0, 0.01, 0.0], [0.0, 0.05, 0.0], [0.005, 0.005, 0.005]];

fn scenario(seed: u64, recovery: Option<Recovery>, loss: [f64; 3]) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let [source, long_haul, destination] = loss.map(|loss| [Impairment::lossy(loss); 2]);
    Scenario {
        asymmetric: true,
        wan_delay: Span::from_micros(rng.random_range(200..5_000)),
        lan0: source,
        wan: long_haul,
        lan1: destination,
        messages: [20, 0],
        message_max: [2_000, 40_000, 400_000][rng.random_range(0..3)],
        ..Scenario::seven_tries(seed, recovery, &mut rng)
    }
}

#[test]
fn queue_pairs_whose_responses_pass_no_gateway_fare_no_worse() {
    let count = seeds(12, 40);
    println!("runs that lose a queue pair, and mean time in ms against that without gateways");
    println!("| loss | no gateways | `cached` | `auto` |");
    println!("| --- | --- | --- | --- |");
    let mut worse = Vec::new();
    for loss in CASES {
        let plain = Fates::of(count, |seed| scenario(seed, None, loss));
        let mut row = format!("| {loss:?} | {}", plain.dead);
        for recovery in MODES {
            let ours = Fates::of(count, |seed| scenario(seed, Some(recovery), loss));
            let [before, after] = plain.compare(&ours).map(|mean| mean * 1e3);
            row += &format!(" | {}, {after:.1} / {before:.1}", ours.dead);
            if ours.dead > plain.dead || !plain.is_matched_by(&ours) {
                worse.push((loss, recovery));
            }
        }
        println!("{row} |");
    }
    assert!(worse.is_empty(), "worse: {worse:?}");
}

/// Without loss: a Depot that sees no ACK can't tell what is missing behind it.
#[test]
fn nothing_is_resent_without_loss() {
    for recovery in MODES {
        let mut world = World::new(scenario(1, Some(recovery), [0.0; 3]));
        let outcome = world.run(Span::from_millis(600_000));
        assert_eq!(outcome.failed, 0);
        let count = |metric| world.counters(1).map(|it| it.get(metric)).sum::<u64>();
        assert_eq!(count(Metric::LocalTimeout), 0, "{recovery:?}");
    }
}
