//! Queue pairs that can't be told apart: several between two hosts, all from PSN 0 and
//! not made by rdma_cm, as those of NCCL are. None may die that lives without gateways on
//! the same losses.
//!
//! `SEEDS=n` runs that many seeds per case.

use common::time::Span;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::RetryLimit;
use switch::Recovery;
use tests::{Impairment, Scenario, World};

/// Queue pairs between the two hosts.
const QPS: u32 = 8;
const MODES: [Recovery; 3] = [Recovery::Lr2, Recovery::Cached, Recovery::Auto];

/// Share of packets that are lost: on the source's LAN, the long haul, the destination's
/// LAN; both ways.
const CASES: [[f64; 3]; 4] =
    [[0.0, 0.0, 0.01], [0.0, 0.0, 0.02], [0.0, 0.0, 0.05], [0.01, 0.02, 0.02]];

fn scenario(seed: u64, recovery: Option<Recovery>, loss: [f64; 3]) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let [source, long_haul, destination] =
        loss.map(|loss| [Impairment { loss, ..Impairment::default() }; 2]);
    Scenario {
        wan_delay: Span::from_micros(rng.random_range(200..5_000)),
        lan0: source,
        wan: long_haul,
        lan1: destination,
        qps: QPS,
        zero_psn: true,
        messages: [15, 0],
        message_max: [2_000, 20_000, 60_000][rng.random_range(0..3)],
        pmtu: 1024,
        window: [128, 1024][rng.random_range(0..2)],
        ack_req_every: [16, 64][rng.random_range(0..2)],
        timeout: Span::from_millis(67),
        retry: RetryLimit::Count(7),
        rtt_guess: Span::from_millis(2),
        ..Scenario::calm(seed, recovery)
    }
}

/// Whether all queue pairs survived, and how long all of it took.
fn run(seed: u64, recovery: Option<Recovery>, loss: [f64; 3]) -> (bool, f64) {
    let mut world = World::new(scenario(seed, recovery, loss));
    let outcome = world.run(Span::from_millis(600_000));
    let finished = outcome.finished.expect("it ends one way or the other");
    (outcome.failed == 0, finished.as_secs_f64())
}

/// The runs of one case in one mode, seed by seed.
fn runs(seeds: u64, recovery: Option<Recovery>, loss: [f64; 3]) -> Vec<(bool, f64)> {
    (0..seeds).map(|seed| run(seed, recovery, loss)).collect()
}

fn dead(runs: &[(bool, f64)]) -> usize {
    runs.iter().filter(|(survived, _)| !survived).count()
}

#[test]
fn queue_pairs_that_cannot_be_told_apart_survive() {
    let seeds = std::env::var("SEEDS").ok().and_then(|v| v.parse().ok()).unwrap_or(30);
    println!("runs that lose a queue pair, and mean time in ms against that without gateways");
    println!("| loss | no gateways | `lr2` | `cached` | `auto` |");
    println!("| --- | --- | --- | --- | --- |");
    let mut more = [0; 3];
    for loss in CASES {
        let plain = runs(seeds, None, loss);
        let mut row = format!("| {loss:?} | {}", dead(&plain));
        for (mode, recovery) in MODES.into_iter().enumerate() {
            let ours = runs(seeds, Some(recovery), loss);
            let both = || plain.iter().zip(&ours).filter(|(a, b)| a.0 && b.0);
            let count = both().count().max(1) as f64;
            let before = both().map(|(a, _)| a.1).sum::<f64>() / count * 1e3;
            let after = both().map(|(_, b)| b.1).sum::<f64>() / count * 1e3;
            row += &format!(" | {}, {after:.0} / {before:.0}", dead(&ours));
            // One more is chance: the paths lose different packets.
            assert!(dead(&ours) <= dead(&plain) + 1, "{loss:?}, {recovery:?}: {}", dead(&ours));
            more[mode] += dead(&ours) as i64 - dead(&plain) as i64;
        }
        println!("{row} |");
    }
    assert!(more.iter().all(|more| *more <= 0), "{more:?} more die than without gateways");
}
