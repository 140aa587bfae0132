//! Whatever the network does, every message arrives once, in order, intact.
//!
//! `SEEDS=n` runs that many seeds per mode, from `FIRST` on; `SEED=s` replays
//! one.

use common::time::Span;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use switch::Recovery;
use tests::{Scenario, World};

fn run(seed: u64, recovery: Recovery) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5eed);
    let scenario = Scenario::adverse(seed, recovery, &mut rng);
    let limit = scenario.adverse_for + Span::from_millis(120_000);
    let mut world = World::new(scenario.clone());
    let outcome = world.run(limit);
    if std::env::var_os("SEED").is_some() {
        world.explain();
    }
    assert!(outcome.finished.is_some(), "no end: {outcome:?}\n{scenario:#?}");
    assert_eq!(outcome.failed, 0, "a QP failed: {scenario:#?}");
    assert_eq!(outcome.held, 0, "frames are left: {scenario:#?}");
}

fn sweep(recovery: Recovery) {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse().ok());
    if let Some(seed) = number("SEED") {
        return run(seed, recovery);
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let first = number("FIRST").unwrap_or(0);
    let end = first + number("SEEDS").unwrap_or(700);
    std::thread::scope(|scope| {
        for t in 0..threads {
            scope.spawn(move || {
                for seed in (first + t..end).step_by(threads as usize) {
                    if std::panic::catch_unwind(|| run(seed, recovery)).is_err() {
                        panic!("replay with: SEED={seed} cargo test -p tests --test adverse {recovery:?}");
                    }
                }
            });
        }
    });
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Lr2() {
    sweep(Recovery::Lr2);
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Cached() {
    sweep(Recovery::Cached);
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Auto() {
    sweep(Recovery::Auto);
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Off() {
    sweep(Recovery::Off);
}
