//! Queue pairs that can't be told apart: several between two hosts, all from PSN 0 and
//! not made by rdma_cm, as those of NCCL are. None may die that lives without gateways on
//! the same losses.
//!
//! `SEEDS=n` runs that many seeds per case.

use common::time::Span;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use switch::Recovery;
use tests::{Fates, Impairment, Scenario, number};

/// Queue pairs between the two hosts.
const QPS: u32 = 8;
const MODES: [Recovery; 3] = [Recovery::Lr2, Recovery::Cached, Recovery::Auto];

/// Share of packets that are lost: on the source's LAN, the long haul, the destination's
/// LAN; both ways.
const CASES: [[f64; 3]; 4] =
    [[0.0, 0.0, 0.01], [0.0, 0.0, 0.02], [0.0, 0.0, 0.05], [0.01, 0.02, 0.02]];

fn scenario(seed: u64, recovery: Option<Recovery>, loss: [f64; 3]) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let [source, long_haul, destination] = loss.map(|loss| [Impairment::lossy(loss); 2]);
    Scenario {
        wan_delay: Span::from_micros(rng.random_range(200..5_000)),
        lan0: source,
        wan: long_haul,
        lan1: destination,
        qps: QPS,
        zero_psn: true,
        messages: [15, 0],
        message_max: [2_000, 20_000, 60_000][rng.random_range(0..3)],
        ..Scenario::seven_tries(seed, recovery, &mut rng)
    }
}

#[test]
fn queue_pairs_that_cannot_be_told_apart_survive() {
    let seeds = number("SEEDS").unwrap_or(30);
    println!("runs that lose a queue pair, and mean time in ms against that without gateways");
    println!("| loss | no gateways | `lr2` | `cached` | `auto` |");
    println!("| --- | --- | --- | --- | --- |");
    let mut more = [0; 3];
    for loss in CASES {
        let plain = Fates::of(seeds, |seed| scenario(seed, None, loss));
        let mut row = format!("| {loss:?} | {}", plain.dead);
        for (mode, recovery) in MODES.into_iter().enumerate() {
            let ours = Fates::of(seeds, |seed| scenario(seed, Some(recovery), loss));
            let [before, after] = plain.compare(&ours).map(|mean| mean * 1e3);
            row += &format!(" | {}, {after:.0} / {before:.0}", ours.dead);
            // One more is chance: the paths lose different packets.
            assert!(ours.dead <= plain.dead + 1, "{loss:?}, {recovery:?}: {}", ours.dead);
            more[mode] += ours.dead as i64 - plain.dead as i64;
        }
        println!("{row} |");
    }
    assert!(more.iter().all(|more| *more <= 0), "{more:?} more die than without gateways");
}
