//! A queue pair that would have survived without gateways survives with them.
//!
//! Requesters here give up after seven tries. The same load crosses the same
//! path without gateways and in each mode; the test compares how many queue
//! pairs end in error, and how long the others take. docs/recovery.md has the
//! table. `SEEDS=n` runs that many seeds per case.

use common::time::Span;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use switch::Recovery;
use tests::{Fates, Impairment, Scenario, seeds};

/// Where frames are lost, and how many of them.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    /// Source LAN, long haul there, destination LAN, long haul back.
    loss: [f64; 4],
    /// Boxes are killed.
    kills: u32,
}

const fn case(name: &'static str, loss: [f64; 4], kills: u32) -> Case {
    Case { name, loss, kills }
}

const CASES: &[Case] = &[
    case("long haul 1 %", [0.0, 0.01, 0.0, 0.0], 0),
    case("long haul 5 %, both ways", [0.0, 0.05, 0.0, 0.05], 0),
    case("source LAN 1 %", [0.01, 0.0, 0.0, 0.0], 0),
    case("source LAN 3 %", [0.03, 0.0, 0.0, 0.0], 0),
    case("source LAN 5 %", [0.05, 0.0, 0.0, 0.0], 0),
    case("destination LAN 1 %", [0.0, 0.0, 0.01, 0.0], 0),
    case("destination LAN 5 %", [0.0, 0.0, 0.05, 0.0], 0),
    case("everywhere 1 %", [0.01; 4], 0),
    case("everywhere 1 %, boxes killed", [0.01; 4], 3),
    case("none, boxes killed", [0.0; 4], 3),
];

fn scenario(seed: u64, recovery: Option<Recovery>, case: Case) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let [source, there, destination, back] = case.loss.map(Impairment::lossy);
    let restarts = (0..case.kills)
        .map(|_| (Span::from_micros(rng.random_range(0..400_000)), rng.random_range(0..2)))
        .collect();
    Scenario {
        wan_delay: Span::from_micros(rng.random_range(200..5_000)),
        wan: [there, back],
        lan0: [source; 2],
        lan1: [destination; 2],
        messages: [20, 0],
        message_max: [2_000, 40_000, 400_000][rng.random_range(0..3)],
        restarts,
        ..Scenario::seven_tries(seed, recovery, &mut rng)
    }
}

#[test]
fn no_queue_pair_dies_that_would_have_survived() {
    let count = seeds(10, 24);
    let modes = [Recovery::Lr2, Recovery::Cached, Recovery::Auto];
    let (mut plain_dead, mut dead) = (0, [0; 3]);
    println!("| loss | no gateways | `lr2` | `cached` | `auto` |");
    println!("| --- | --- | --- | --- | --- |");
    for case in CASES {
        let plain = Fates::of(count, |seed| scenario(seed, None, *case));
        plain_dead += plain.dead;
        let mut row = String::new();
        let mut alone = 0.0;
        for (mode, recovery) in modes.into_iter().enumerate() {
            let fates = Fates::of(count, |seed| scenario(seed, Some(recovery), *case));
            dead[mode] += fates.dead;
            let [before, after] = plain.compare(&fates);
            alone = f64::max(alone, before);
            row += &format!(" | {}, {:.0} ms", fates.dead, after * 1e3);
            let name = case.name;
            // The paths lose the same packets.
            assert!(fates.dead <= plain.dead, "{name}: {} dead in {recovery:?}", fates.dead);
            // Control messages and their responses take time of their own.
            let limit = before * 1.05 + 0.005;
            assert!(after <= limit, "{name}, {recovery:?}: {after:.3} s, was {before:.3} s");
        }
        println!("| {} | {}, {:.0} ms{row} |", case.name, plain.dead, alone * 1e3);
    }
    println!(
        "of {} each: {plain_dead} dead without gateways, {dead:?} with",
        count * CASES.len() as u64
    );
    assert!(dead.iter().all(|dead| *dead <= plain_dead), "{dead:?} dead, {plain_dead} without");
}
