//! A queue pair that would have survived without gateways survives with them.
//!
//! Requesters here give up after seven tries. The same load crosses the same
//! path without gateways and in each mode; the test compares how many queue
//! pairs end in error, and how long the others take. docs/recovery.md has the
//! table. `SEEDS=n` runs that many seeds per case.

use common::time::Span;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::RetryLimit;
use switch::Recovery;
use tests::{Impairment, Scenario, World};

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

fn lossy(loss: f64) -> Impairment {
    Impairment { loss, ..Impairment::default() }
}

fn scenario(seed: u64, recovery: Option<Recovery>, case: Case) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let [source, there, destination, back] = case.loss;
    let restarts = (0..case.kills)
        .map(|_| (Span::from_micros(rng.random_range(0..400_000)), rng.random_range(0..2)))
        .collect();
    Scenario {
        wan_delay: Span::from_micros(rng.random_range(200..5_000)),
        wan: [lossy(there), lossy(back)],
        lan0: [lossy(source), lossy(source)],
        lan1: [lossy(destination), lossy(destination)],
        messages: [20, 0],
        message_max: [2_000, 40_000, 400_000][rng.random_range(0..3)],
        pmtu: 1024,
        window: [128, 1024][rng.random_range(0..2)],
        ack_req_every: [16, 64][rng.random_range(0..2)],
        timeout: Span::from_millis(67),
        retry: RetryLimit::Count(7),
        rtt_guess: Span::from_millis(2),
        restarts,
        ..Scenario::calm(seed, recovery)
    }
}

/// Whether the queue pair survived, and how long its work took or it lived.
fn run(seed: u64, recovery: Option<Recovery>, case: Case) -> (bool, f64) {
    let mut world = World::new(scenario(seed, recovery, case));
    let outcome = world.run(Span::from_millis(600_000));
    let finished = outcome.finished.expect("it ends one way or the other");
    (outcome.failed == 0, finished.as_secs_f64())
}

/// The queue pairs of one case in one mode.
struct Fates {
    /// How many ended in error.
    dead: u64,
    /// Seed by seed: how long the work took, if the queue pair survived.
    times: Vec<Option<f64>>,
}

impl Fates {
    fn of(seeds: u64, recovery: Option<Recovery>, case: Case) -> Self {
        let mut fates = Self { dead: 0, times: Vec::new() };
        for seed in 0..seeds {
            let (survived, time) = run(seed, recovery, case);
            fates.dead += u64::from(!survived);
            fates.times.push(survived.then_some(time));
        }
        fates
    }

    /// Mean times of both, over the queue pairs that survived in both: those
    /// that died had the worst of it.
    fn compare(&self, other: &Self) -> [f64; 2] {
        let both = || self.times.iter().zip(&other.times).filter_map(|(a, b)| Some(((*a)?, (*b)?)));
        let n = both().count().max(1) as f64;
        [both().map(|(a, _)| a).sum::<f64>() / n, both().map(|(_, b)| b).sum::<f64>() / n]
    }
}

#[test]
fn no_queue_pair_dies_that_would_have_survived() {
    let seeds = std::env::var("SEEDS").ok().and_then(|v| v.parse().ok()).unwrap_or(24);
    let modes = [Recovery::Lr2, Recovery::Cached, Recovery::Auto];
    let (mut plain_dead, mut dead) = (0, [0; 3]);
    println!("| loss | no gateways | `lr2` | `cached` | `auto` |");
    println!("| --- | --- | --- | --- | --- |");
    for case in CASES {
        let plain = Fates::of(seeds, None, *case);
        plain_dead += plain.dead;
        let mut row = String::new();
        let mut alone = 0.0;
        for (mode, recovery) in modes.into_iter().enumerate() {
            let fates = Fates::of(seeds, Some(recovery), *case);
            dead[mode] += fates.dead;
            let [before, after] = plain.compare(&fates);
            alone = f64::max(alone, before);
            row += &format!(" | {}, {:.0} ms", fates.dead, after * 1e3);
            let name = case.name;
            // The paths lose the same packets.
            assert!(fates.dead <= plain.dead, "{name}: {} dead in {recovery:?}", fates.dead);
            // Control messages and their answers take time of their own.
            let limit = before * 1.05 + 0.005;
            assert!(after <= limit, "{name}, {recovery:?}: {after:.3} s, was {before:.3} s");
        }
        println!("| {} | {}, {:.0} ms{row} |", case.name, plain.dead, alone * 1e3);
    }
    println!(
        "of {} each: {plain_dead} dead without gateways, {dead:?} with",
        seeds * CASES.len() as u64
    );
    assert!(dead.iter().all(|dead| *dead <= plain_dead), "{dead:?} dead, {plain_dead} without");
}
