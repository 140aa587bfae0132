//! Queue pairs that are used again within a round trip, and boxes that start again meanwhile: the state that a box keeps of an
//! ended incarnation answers for no later one.
//!
//! Without gateways the network is empty when an incarnation begins, and no run is harmed.
//!
//! `SEEDS=n` runs that many seeds per scenario and mode, from `FIRST` on; `SEED=s` replays one.

use common::psn::Psn;
use common::time::Span;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::{ImpliedNak, RetryLimit};
use switch::Recovery;
use tests::{Impairment, NextPsns, Outcome, Plain, Scenario, Tunnelling, Which, seeds, sweep};

/// Seeds per scenario and mode; in the long form, 500.
fn count() -> u64 {
    seeds(40, 500)
}

/// Longest virtual time of a run.
const LIMIT: Span = Span::from_millis(60_000);

/// Small queue pairs that are used again, on a network that loses packets.
fn reused(seed: u64, recovery: Option<Recovery>, rng: &mut impl Rng) -> Scenario {
    let wan_delay = Span::from_micros(rng.random_range(200..4_000));
    Scenario {
        wan_delay,
        lan_delay: Span::from_micros(rng.random_range(1..20)),
        lan0: [Impairment::lossy(0.01); 2],
        lan1: [Impairment::lossy(0.01); 2],
        qps: rng.random_range(1..=4),
        zero_psn: rng.random_bool(0.5),
        next_psns: if rng.random_bool(0.5) { NextPsns::Same } else { NextPsns::Various },
        first_psn: Psn::new(rng.random_range(0..Psn::MODULUS)),
        messages: [rng.random_range(5..40), [0, 10][rng.random_range(0..2)]],
        message_max: [100, 5_000, 40_000][rng.random_range(0..3)],
        implied_nak: [ImpliedNak::AnyGap, ImpliedNak::LaterRequest][rng.random_range(0..2)],
        pmtu: [1024, 4096][rng.random_range(0..2)],
        window: [128, 1024][rng.random_range(0..2)],
        retry: RetryLimit::Count(7),
        lives: 5,
        ..Scenario::calm(seed, recovery)
    }
}

/// Resets 0, 5 or 30 ms after the last message, and up to three restarts of a box within 200 ms.
fn with_restarts(seed: u64, recovery: Option<Recovery>, tunnel: Tunnelling) -> Outcome {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x0b00_7e57);
    let scenario = reused(seed, recovery, &mut rng);
    let restarts = (0..rng.random_range(0..=3))
        .map(|_| (Span::from_micros(rng.random_range(0..200_000)), rng.random_range(0..2)))
        .collect();
    let scenario = Scenario {
        tunnel,
        reads: [0.0, 0.5][rng.random_range(0..2)],
        pause: Span::from_millis([0, 5, 30][rng.random_range(0..3)]),
        restarts,
        ..scenario
    };
    scenario.outcome(LIMIT)
}

/// Resets within a round trip of the last message, with a share `reads` of READs.
fn within_a_round_trip(
    seed: u64,
    recovery: Option<Recovery>,
    tunnel: Tunnelling,
    reads: f64,
) -> Outcome {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x0e7_7219);
    let scenario = reused(seed, recovery, &mut rng);
    let mut lossy = || Impairment::lossy([0.0, 0.01, 0.03][rng.random_range(0..3)]);
    let wan = [lossy(), lossy()];
    let pause = Span::from_nanos(rng.random_range(0..=scenario.wan_delay.as_nanos() * 2));
    let scenario = Scenario { tunnel, wan, reads, pause, ..scenario };
    scenario.outcome(LIMIT)
}

/// Queue pairs of a thousand that may die though they live without gateways, as the losses that come later differ. In 500 seeds with
/// READs they are 8 in `auto`, as many as the gateways save, and 12 in `lr2`, which saves 7. Nearly all are of rxe's, which an old ACK
/// among READ data ends.
const LOST: u64 = 25;

/// Modes without a tunnel: in no run is an incarnation harmed by the one before.
fn check(run: impl Fn(u64, Option<Recovery>, Tunnelling) -> Outcome + Sync) {
    let plain = Plain::new();
    for recovery in [Recovery::Lr2, Recovery::Cached, Recovery::Auto] {
        println!("{recovery:?}");
        let findings =
            sweep(count(), &plain, recovery, |seed, recovery| run(seed, recovery, Tunnelling::No));
        findings.legal().assert_no_worse(LOST, 1_000);
    }
}

#[test]
fn resets_and_restarts_together() {
    check(with_restarts);
}

// R-READ-17
#[test]
fn resets_within_a_round_trip_with_reads() {
    check(|seed, recovery, tunnel| within_a_round_trip(seed, recovery, tunnel, 0.5));
}

#[test]
fn resets_within_a_round_trip_without_reads() {
    check(|seed, recovery, tunnel| within_a_round_trip(seed, recovery, tunnel, 0.0));
}

/// Tunnels, with and without repair of the LANs: `harmed` runs of a thousand at most. A frame behind a repaired gap comes in order, a
/// round trip later than without a tunnel: to the next incarnation, if that began within the round trip.
fn check_tunnels(harmed: u64, run: impl Fn(u64, Option<Recovery>, Tunnelling) -> Outcome + Sync) {
    let plain = Plain::new();
    let repairing = [Which::All, Which::AfterNak].map(Tunnelling::WithLanRepair);
    for tunnel in [Tunnelling::Alone, repairing[0], repairing[1]] {
        // A share of so few runs as above says little.
        let count = seeds(120, 500);
        let findings =
            sweep(count, &plain, Recovery::Off, |seed, recovery| run(seed, recovery, tunnel));
        println!("{tunnel:?}: {}", findings.comparison.report());
        println!("violations: {:#?}", findings.violations);
        let count = findings.violations.len() as u64;
        let runs = findings.comparison.runs + count;
        assert!(count * 1_000 <= harmed * runs, "{tunnel:?}: {count} of {runs} runs harmed");
    }
}

#[test]
fn resets_and_restarts_beside_a_tunnel() {
    check_tunnels(5, with_restarts);
}

#[test]
fn resets_beside_a_tunnel_with_reads() {
    check_tunnels(200, |seed, recovery, tunnel| within_a_round_trip(seed, recovery, tunnel, 0.5));
}

#[test]
fn resets_beside_a_tunnel_without_reads() {
    check_tunnels(150, |seed, recovery, tunnel| within_a_round_trip(seed, recovery, tunnel, 0.0));
}
