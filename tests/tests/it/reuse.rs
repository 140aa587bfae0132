//! Queue pairs that are used again with PSNs shortly before those of the incarnation before, at
//! 1 % loss on the long haul. Every incarnation is repaired as well as the first.

use common::psn::Psn;
use common::time::Span;
use switch::Recovery;
use tests::{NextPsns, Scenario};

const SEEDS: u64 = 10;

/// Seconds until three incarnations have sent 40 WRITEs of 64 KiB each, gaps that the Depot saw,
/// and those that it gave up.
fn write(recovery: Option<Recovery>, seed: u64) -> (f64, u64, u64) {
    let scenario = Scenario {
        messages: [40, 0],
        first_psn: Psn::new(5_000_000),
        lives: 3,
        pause: Span::from_millis(2_000),
        next_psns: NextPsns::Behind(400_000),
        ..Scenario::writes(seed, recovery, 0.01)
    };
    scenario.gaps()
}

// R-INC-17
#[test]
fn an_incarnation_whose_psns_lie_behind_those_before_is_repaired_as_well() {
    for recovery in [Recovery::Cached, Recovery::Auto] {
        let (mut seen, mut given_up, mut slowest) = (0, 0, 0.0_f64);
        for seed in 1..=SEEDS {
            let (took, gaps, lost) = write(Some(recovery), seed);
            slowest = slowest.max(took);
            seen += gaps;
            given_up += lost;
        }
        println!("{recovery:?}: {given_up} of {seen} gaps given up, at most {slowest} s");
        assert!(given_up * 100 <= seen, "{recovery:?}: {given_up} of {seen} gaps given up");
    }
}

#[test]
fn no_mode_is_slower_than_go_back_n() {
    for seed in 1..=3 {
        let (plain, ..) = write(None, seed);
        for recovery in [Recovery::Cached, Recovery::Lr2, Recovery::Auto] {
            let (took, ..) = write(Some(recovery), seed);
            println!("{recovery:?}, seed {seed}: {took} s, go-back-N {plain} s");
            assert!(took < plain, "{recovery:?}, seed {seed}: {took} s, go-back-N {plain} s");
        }
    }
}
