//! A tunnel whose feedback is lost one way, or whose peer becomes a wire.
//!
//! `SEEDS=n` runs that many seeds, from `FIRST` on, and `SEED=n` one; the long form 500.

use common::time::Span;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::RetryLimit;
use switch::Recovery;
use tests::{
    Carried, Impairment, Outcome, Plain, Scenario, Silenced, Tunnelling, Underlay, World, seeds,
    sweep,
};

/// Seeds of each test.
fn count() -> u64 {
    seeds(16, 500)
}

/// WRITEs and SENDs over a path of 0.4 to 8 ms.
fn scenario(seed: u64, recovery: Option<Recovery>, loss: f64) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x51e9);
    let wan_delay = Span::from_micros(rng.random_range(200..4_000));
    Scenario {
        tunnel: if recovery.is_some() { Tunnelling::Alone } else { Tunnelling::No },
        wan_delay,
        wan: [Impairment::lossy(loss); 2],
        qps: rng.random_range(1..=4),
        messages: [40, 10],
        message_max: 40_000,
        pmtu: 1024,
        window: 128,
        retry: RetryLimit::Count(7),
        ..Scenario::calm(seed, recovery)
    }
}

fn run(scenario: Scenario, act: impl FnOnce(&mut World)) -> Outcome {
    let has_boxes = scenario.recovery.is_some();
    let mut world = World::new(scenario);
    if has_boxes {
        act(&mut world);
    }
    let outcome = world.run(Span::from_millis(60_000));
    if tests::number("SEED").is_some() {
        world.explain();
    }
    assert!(outcome.finished.is_some(), "no end: {outcome:?}");
    outcome
}

/// R-TUN-63: no REPORT of box 1 arrives, so that nothing of what nic 0 sends is repaired: it takes no longer than without gateways.
#[test]
fn reports_that_are_lost_one_way_make_the_tunnel_a_wire() {
    for carried in [Carried::Ethernet, Carried::UdpV4] {
        let plain = Plain::new();
        let findings = sweep(count(), &plain, Recovery::Off, |seed, recovery| {
            let underlay = Underlay { carried, ..Underlay::default() };
            let scenario = Scenario { underlay, ..scenario(seed, recovery, 0.01) };
            run(scenario, |world| world.silence_from(1, Silenced::Reports))
        });
        println!("{carried:?}");
        let all = findings.legal();
        let [without, with] = all.means();
        assert!(with <= without * 1.1, "{carried:?}: {with:.3} s, without gateways {without:.3} s");
    }
}

/// R-TUN-63: a box becomes a wire at any time: no queue pair dies.
#[test]
fn a_box_that_becomes_a_wire_costs_no_queue_pair() {
    let plain = Plain::new();
    let findings = sweep(count(), &plain, Recovery::Off, |seed, recovery| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xb1fa);
        let messages = [[40, 10], [400, 100]][rng.random_range(0..2)];
        let (me, after) = (rng.random_range(0..2), rng.random_range(1_000..60_000));
        let scenario = Scenario { messages, ..scenario(seed, recovery, 0.0) };
        run(scenario, |world| {
            world.run_for(Span::from_micros(after));
            world.bypass(me);
        })
    });
    let all = findings.legal();
    assert!(all.lost.is_empty(), "{:?}", all.lost);
    // Frames in the tunnel are lost until the session is over, and the RNICs' timeouts are 67 ms.
    let [without, with] = all.means();
    assert!(with <= without + 0.4, "{with:.3} s, without gateways {without:.3} s");
}
