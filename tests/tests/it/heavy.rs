//! Five percent loss on the long haul, as the end-to-end test of the same name has it.
//!
//! The packets of the first round trip pass a Depot that is passive. Where they are lost, only
//! the destination can tell, and the Depot goes back to them.

use common::psn::Psn;
use switch::Recovery;
use tests::Scenario;

const SEEDS: u64 = 20;

/// Seconds until 75 WRITEs of 64 KiB are done, gaps that the Depot saw, and those that it gave
/// up.
fn write(recovery: Option<Recovery>, seed: u64) -> (f64, u64, u64) {
    let scenario = Scenario {
        messages: [75, 0],
        first_psn: Psn::new(0),
        ..Scenario::writes(seed, recovery, 0.05)
    };
    scenario.gaps()
}

#[test]
fn gaps_are_filled_from_the_cache_from_the_first_packet_on() {
    for recovery in [Recovery::Cached, Recovery::Auto] {
        let (mut seen, mut given_up) = (0, 0);
        for seed in 1..=SEEDS {
            let (took, gaps, lost) = write(Some(recovery), seed);
            assert!(took < 5.0, "{recovery:?}, seed {seed}: {took} s");
            seen += gaps;
            given_up += lost;
        }
        println!("{recovery:?}: {given_up} of {seen} gaps given up");
        assert!(given_up * 100 <= seen, "{recovery:?}: {given_up} of {seen} gaps given up");
    }
}

#[test]
fn no_mode_is_slower_than_go_back_n() {
    for seed in 1..=2 {
        let (plain, ..) = write(None, seed);
        for recovery in [Recovery::Cached, Recovery::Lr2, Recovery::Auto] {
            let (took, ..) = write(Some(recovery), seed);
            assert!(took < plain / 5.0, "{recovery:?}, seed {seed}: {took} s, go-back-N {plain} s");
        }
    }
}
