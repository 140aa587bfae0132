//! Damaged headers that only the ICRC reveals: the IP checksum is right.
//!
//! RNICs drop such packets. A gateway that believes one is worse than none.
//!
//! `SEEDS=n` runs that many seeds per mode, from `FIRST` on; `SEED=s` replays
//! one.

use common::psn::Psn;
use common::time::Span;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::RetryLimit;
use switch::Recovery;
use tests::{Impairment, Outcome, Plain, Scenario, sweep};

/// Seeds per mode.
const SEEDS: u64 = 150;

/// Queue pairs of a thousand that may die though they live without gateways.
const LOST: u64 = 1;

static PLAIN: Plain = Plain::new();

fn run(seed: u64, recovery: Option<Recovery>) -> Outcome {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xbad);
    let mut segment = || {
        let mangle = [0.0, 0.002, 0.01][rng.random_range(0..3)];
        let loss = [0.0, 0.0, 0.002][rng.random_range(0..3)];
        Impairment { mangle, loss, ..Impairment::default() }
    };
    let [wan, lan0, lan1] = [(); 3].map(|()| [segment(), segment()]);
    let scenario = Scenario {
        wan_delay: Span::from_micros(rng.random_range(200..5_000)),
        lan_delay: Span::from_micros(rng.random_range(1..20)),
        wan,
        lan0,
        lan1,
        qps: [1, 2, 8][rng.random_range(0..3)],
        zero_psn: rng.random_bool(0.5),
        first_psn: Psn::new(rng.random_range(0..Psn::MODULUS)),
        messages: [rng.random_range(10..60), [0, 10][rng.random_range(0..2)]],
        message_max: [100, 5_000, 40_000][rng.random_range(0..3)],
        reads: [0.0, 0.0, 0.5][rng.random_range(0..3)],
        atomics: [0.0, 0.0, 0.3][rng.random_range(0..3)],
        pmtu: [256, 1024, 4096][rng.random_range(0..3)],
        window: [128, 1024][rng.random_range(0..2)],
        retry: RetryLimit::Count(7),
        ..Scenario::calm(seed, recovery)
    };
    scenario.outcome(Span::from_millis(60_000))
}

fn check(recovery: Recovery) {
    let findings = sweep(SEEDS, &PLAIN, recovery, run);
    println!(
        "replay with: SEED=n cargo test -p tests --test it headers::{recovery:?} -- --nocapture"
    );
    let all = findings.legal();
    all.assert_no_worse(LOST, 1_000);
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Lr2() {
    check(Recovery::Lr2);
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Cached() {
    check(Recovery::Cached);
}

#[test]
#[expect(non_snake_case, reason = "the name is what a replay is filtered by")]
fn Auto() {
    check(Recovery::Auto);
}
