//! Queue pairs that are reset and used again at once: nothing of the incarnation before
//! may reach the next one.
//!
//! An incarnation is done, or the programs at both ends are killed; a round trip later,
//! or somewhat more, both connect anew, half of the time with the very same PSNs.
//! Without gateways the network is empty by then.
//!
//! `SEEDS=n` runs that many seeds per pause and mode, from `FIRST` on.

use common::psn::Psn;
use common::time::Span;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::{ImpliedNak, RetryLimit};
use switch::Recovery;
use tests::{Impairment, NextPsns, Outcome, Plain, Scenario, sweep};

/// Seeds per pause and mode.
const SEEDS: u64 = 60;

/// Queue pairs of a thousand that may die though they live without gateways; of 1,000 seeds
/// it is 1, as many as the gateways save.
const LOST: u64 = 5;

fn run(seed: u64, recovery: Option<Recovery>, later: Span) -> Outcome {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x2e5e7);
    let mut lossy = |worst: &[f64]| Impairment::lossy(worst[rng.random_range(0..worst.len())]);
    let wan = [(); 2].map(|()| lossy(&[0.0, 0.01, 0.03]));
    let lan0 = [(); 2].map(|()| lossy(&[0.0, 0.0, 0.01]));
    let lan1 = [(); 2].map(|()| lossy(&[0.0, 0.0, 0.01]));
    let wan_delay = Span::from_micros(rng.random_range(200..5_000));
    let lan_delay = Span::from_micros(rng.random_range(1..20));
    let scenario = Scenario {
        wan_delay,
        lan_delay,
        wan,
        lan0,
        lan1,
        qps: rng.random_range(1..=3),
        zero_psn: rng.random_bool(0.5),
        next_psns: if rng.random_bool(0.5) { NextPsns::Same } else { NextPsns::Various },
        first_psn: Psn::new(rng.random_range(0..Psn::MODULUS)),
        messages: [rng.random_range(5..60), [0, 10][rng.random_range(0..2)]],
        message_max: [100, 5_000, 40_000][rng.random_range(0..3)],
        reads: [0.0, 0.5, 1.0][rng.random_range(0..3)],
        atomics: [0.0, 0.0, 0.3][rng.random_range(0..3)],
        implied_nak: [ImpliedNak::AnyGap, ImpliedNak::LaterRequest][rng.random_range(0..2)],
        pmtu: [1024, 4096][rng.random_range(0..2)],
        window: [128, 1024][rng.random_range(0..2)],
        retry: RetryLimit::Count(7),
        lives: 5,
        abort_after: rng.random_bool(0.8).then(|| Span::from_micros(rng.random_range(500..25_000))),
        pause: (wan_delay + lan_delay * 2) * 2 + later,
        ..Scenario::calm(seed, recovery)
    };
    scenario.outcome(Span::from_millis(60_000))
}

/// `harmed`: runs of a thousand in which something of an incarnation before may be delivered or
/// believed. A packet that is repaired arrives half a round trip and more after it would
/// have arrived without gateways, so where both ends reset and connect anew within a
/// round trip some meet the next incarnation.
fn check(later: Span, harmed: u64) {
    let plain = Plain::new();
    for recovery in [Recovery::Lr2, Recovery::Cached, Recovery::Auto] {
        let findings = sweep(SEEDS, &plain, recovery, |seed, recovery| run(seed, recovery, later));
        let all = &findings.comparison;
        println!("{recovery:?}, a round trip and {later:?}: {}", all.report());
        println!("violations: {:#?}", findings.violations);
        let (count, runs) = (findings.violations.len() as u64, all.runs);
        let runs = runs + count;
        assert!(count * 1000 <= harmed * runs, "{recovery:?}: {count} of {runs} runs harmed");
        all.assert_no_worse(LOST, 1_000);
    }
}

#[test]
fn after_a_round_trip() {
    check(Span::ZERO, 35);
}

#[test]
fn after_a_round_trip_and_30_ms() {
    check(Span::from_millis(30), 2);
}

#[test]
fn after_a_round_trip_and_300_ms() {
    check(Span::from_millis(300), 0);
}
