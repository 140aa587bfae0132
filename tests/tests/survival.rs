//! A queue pair that would have survived without gateways survives with them.
//!
//! Requesters here give up after seven tries. The same load crosses the same
//! path without gateways and in each mode; what is compared is how many queue
//! pairs end in error. `SEEDS=n` runs that many seeds per case.

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

/// Whether the queue pair came to its end, and how long it took otherwise.
fn run(seed: u64, recovery: Option<Recovery>, case: Case) -> Option<f64> {
    let mut world = World::new(scenario(seed, recovery, case));
    let outcome = world.run(Span::from_millis(600_000));
    let finished = outcome.finished.expect("it ends one way or the other");
    (outcome.failed == 0).then(|| finished.as_secs_f64())
}

/// Queue pairs that ended in error, and the mean time of those that did not.
fn sweep(seeds: u64, recovery: Option<Recovery>, case: Case) -> (u64, f64) {
    let runs: Vec<Option<f64>> = (0..seeds).map(|seed| run(seed, recovery, case)).collect();
    let times: Vec<f64> = runs.iter().flatten().copied().collect();
    let dead = runs.len() - times.len();
    (dead as u64, times.iter().sum::<f64>() / times.len().max(1) as f64)
}

fn compare(case: Case) {
    let seeds = std::env::var("SEEDS").ok().and_then(|v| v.parse().ok()).unwrap_or(60);
    let (plain, time) = sweep(seeds, None, case);
    println!("{:32} {:7} {plain:4} of {seeds} dead, mean {time:.3} s", case.name, "plain");
    for recovery in [Recovery::Off, Recovery::Lr2, Recovery::Cached, Recovery::Auto] {
        let (dead, time) = sweep(seeds, Some(recovery), case);
        let mode = format!("{recovery:?}");
        println!("{:32} {mode:7} {dead:4} of {seeds} dead, mean {time:.3} s", case.name);
    }
}

#[test]
fn table() {
    for (name, loss, kills) in [
        ("long haul 1 %", [0.0, 0.01, 0.0, 0.0], 0),
        ("long haul 5 %", [0.0, 0.05, 0.0, 0.05], 0),
        ("source LAN 1 %", [0.01, 0.0, 0.0, 0.0], 0),
        ("source LAN 3 %", [0.03, 0.0, 0.0, 0.0], 0),
        ("source LAN 5 %", [0.05, 0.0, 0.0, 0.0], 0),
        ("destination LAN 1 %", [0.0, 0.0, 0.01, 0.0], 0),
        ("destination LAN 5 %", [0.0, 0.0, 0.05, 0.0], 0),
        ("everywhere 1 %", [0.01, 0.01, 0.01, 0.01], 0),
        ("everywhere 1 %, boxes killed", [0.01, 0.01, 0.01, 0.01], 3),
        ("boxes killed", [0.0, 0.0, 0.0, 0.0], 3),
    ] {
        compare(Case { name, loss, kills });
    }
}

#[test]
#[ignore]
fn one() {
    let num = |n: &str| std::env::var(n).ok().and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
    let l = |n: &str| num(n) as f64 / 100.0;
    let case = Case { name: "", loss: [l("SRC"), l("WAN"), l("DST"), l("BACK")], kills: 0 };
    for recovery in [None, Some(Recovery::Cached)] {
        let mut world = World::new(scenario(num("SEED"), recovery, case));
        let outcome = world.run(Span::from_millis(600_000));
        println!("{recovery:?} {outcome:?}");
        world.explain();
    }
}
