//! Whatever the network does, every message arrives once, in order, intact; and
//! no queue pair fares worse than without gateways.
//!
//! Requesters give up after seven tries. Each path is crossed without gateways
//! and in each mode, with the same losses.
//!
//! `SEEDS=n` runs that many seeds per mode, from `FIRST` on; `SEED=s` replays
//! one.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use common::time::Span;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use switch::Recovery;
use tests::{Comparison, Outcome, Scenario, World};

/// Seeds per mode.
const SEEDS: u64 = 700;

/// Queue pairs of 10,000 that may die though they live without gateways. The
/// aim is 10: losses that come later are not the same, so some die by chance as
/// others are saved by it. What is above are queue pairs that can't be told
/// apart, with losses on the destination's LAN.
const LOST: [(Recovery, u64); 4] =
    [(Recovery::Lr2, 50), (Recovery::Cached, 80), (Recovery::Auto, 60), (Recovery::Off, 0)];

/// How much longer a single queue pair may take: what is beyond is a hang, not
/// bad luck.
const FACTOR: f64 = 3.0;
const SECONDS: f64 = 1.0;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

fn run(seed: u64, recovery: Option<Recovery>) -> Outcome {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let scenario = Scenario::adverse(seed, recovery, &mut rng);
    let limit =
        (scenario.adverse_for + scenario.pause + Span::from_millis(60_000)) * scenario.lives.into();
    let mut world = World::new(scenario.clone());
    let outcome = world.run(limit);
    if std::env::var_os("SEED").is_some() {
        world.explain();
    }
    assert!(outcome.finished.is_some(), "no end: {outcome:?}\n{scenario:#?}");
    assert_eq!(outcome.held, 0, "frames are left: {scenario:#?}");
    outcome
}

/// The run with `seed` and without gateways, which all modes are compared with.
fn plain(seed: u64) -> Arc<OnceLock<Outcome>> {
    static PLAIN: Mutex<BTreeMap<u64, Arc<OnceLock<Outcome>>>> = Mutex::new(BTreeMap::new());
    let cell = PLAIN.lock().unwrap().entry(seed).or_default().clone();
    cell.get_or_init(|| run(seed, None));
    cell
}

/// Runs all seeds, and returns those with which a rule was violated.
fn compare(recovery: Recovery, seeds: u64) -> (Comparison, Vec<u64>) {
    let (first, seeds) = match number("SEED") {
        Some(seed) => (seed, 1),
        None => (number("FIRST").unwrap_or(0), number("SEEDS").unwrap_or(seeds)),
    };
    let next = AtomicU64::new(first);
    let all = Mutex::new((Comparison::default(), Vec::new()));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= first + seeds {
            return;
        }
        let pair = catch_unwind(AssertUnwindSafe(|| (plain(seed), run(seed, Some(recovery)))));
        let mut all = all.lock().unwrap();
        match &pair {
            Ok((plain, with)) => all.0.add(seed, plain.get().expect("it has run"), with),
            Err(_) => all.1.push(seed),
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    all.into_inner().unwrap()
}

fn sweep(recovery: Recovery, seeds: u64) -> Comparison {
    let (all, violations) = compare(recovery, seeds);
    println!("{recovery:?}: {}", all.report());
    println!("replay with: SEED=n cargo test -p tests --test adverse {recovery:?} -- --nocapture");
    assert!(violations.is_empty(), "rules violated with seeds {violations:?}");
    for (by, seed, plain) in &all.slowest {
        let limit = plain * (FACTOR - 1.0) + SECONDS;
        assert!(*by <= limit, "seed {seed}: {by:.3} s longer than {plain:.3} s");
    }
    let (_, lost) = LOST.iter().find(|(mode, _)| *mode == recovery).expect("every mode has one");
    let (count, of) = (all.lost.len() as u64, all.qps);
    assert!(count * 10_000 <= lost * of, "{count} of {of} died that live without gateways");
    let [plain, with] = all.means();
    assert!(with <= plain, "mean time {with:.4} s, without gateways {plain:.4} s");
    all
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Lr2() {
    sweep(Recovery::Lr2, SEEDS);
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Cached() {
    sweep(Recovery::Cached, SEEDS);
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Auto() {
    sweep(Recovery::Auto, SEEDS);
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Off() {
    // It forwards, and nothing else.
    let all = sweep(Recovery::Off, SEEDS / 7);
    assert_eq!(all.changed, 0, "queue pairs fared other than without gateways");
}
