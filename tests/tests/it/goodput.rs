//! Goodput of one long flow on a lossy link, against the closed forms.
//!
//! W = round trip in packets, p = loss, L = packets between `acked` and the
//! loss, T = retransmission timeout in packets.

use common::time::Span;
use rnic::RetryLimit;
use switch::Recovery;
use tests::{Impairment, Scenario, World, nonzero};

/// Until a Depot has been heard, in the first round trip, nothing is held: a loss there
/// makes one window cross the link again, 305 of 16,000 packets. So does a NAK of the
/// destination's in the first round trips, while it can't be told whose it is.
const START: f64 = 2.0 * 305.0 / 16_000.0;

struct Measured {
    /// Share of the NIC's rate that arrived as new payload packets.
    efficiency: f64,
    /// Data packets offered to the long-haul link per packet accepted.
    sends: f64,
    /// Round trip in packets.
    w: f64,
    /// Timeout in packets.
    t: f64,
    /// Mean ACK lag.
    lag: f64,
    timeouts: u64,
}

/// One flow at 1 Gbit/s, 10 ms, PMTU 4096, for `packets` packets.
fn measure(recovery: Option<Recovery>, loss: f64, seed: u64, window_bdp: f64) -> Measured {
    const PACKET: f64 = (4096 + 12 + 4 + 8 + 20 + 14 + 24) as f64;
    let slot = PACKET * 8.0 / 1e9;
    let w = 0.01002 / slot;
    let messages = 1_000;
    let mut world = World::new(Scenario {
        wan: [Impairment::lossy(loss), Impairment::default()],
        messages: [messages, 0],
        window: (w * window_bdp) as u32,
        retry: RetryLimit::Infinite,
        fixed_length: true,
        ..Scenario::calm(seed, recovery)
    });
    let outcome = world.run(Span::from_millis(600_000));
    let finished = outcome.finished.expect("it ends").as_secs_f64();
    for me in 0..2 {
        for counters in world.counters(me) {
            println!("switch {me}: {:?}", nonzero(counters));
        }
    }
    let stats = world.nic(1).totals().responder;
    let packets = stats.accepted as f64;
    let requester = world.nic(0).totals().requester;
    println!(
        "{recovery:?} p={loss}: naks {} ignored {} timeouts {} resent {}",
        requester.naks, requester.naks_ignored, requester.timeouts, requester.retransmitted
    );
    Measured {
        efficiency: packets * slot / (finished - 0.01),
        sends: world.wan(0).fate.offered as f64 / packets,
        w,
        t: 0.067 / slot,
        lag: stats.mean_ack_lag(),
        timeouts: requester.timeouts,
    }
}

/// Mean over a few seeds.
fn mean(recovery: Option<Recovery>, loss: f64) -> Measured {
    let runs: Vec<Measured> = (1..=3).map(|seed| measure(recovery, loss, seed, 4.0)).collect();
    let avg = |f: fn(&Measured) -> f64| runs.iter().map(f).sum::<f64>() / runs.len() as f64;
    Measured {
        efficiency: avg(|m| m.efficiency),
        sends: avg(|m| m.sends),
        w: avg(|m| m.w),
        t: avg(|m| m.t),
        lag: avg(|m| m.lag),
        timeouts: runs.iter().map(|m| m.timeouts).sum(),
    }
}

fn assert_near(what: &str, measured: f64, expected: f64, tolerance: f64) {
    println!("{what}: {measured:.3}, closed form {expected:.3}");
    assert!(
        (measured / expected - 1.0).abs() <= tolerance,
        "{what}: measured {measured:.3}, expected {expected:.3} ± {:.0} %",
        tolerance * 100.0
    );
}

#[test]
fn a_clean_link_costs_nothing() {
    let m = mean(Some(Recovery::Auto), 0.0);
    assert_near("lossless", m.efficiency, 1.0, 0.03);
    assert_near("sends", m.sends, 1.0, 0.01);
    assert_eq!(m.timeouts, 0);
}

#[test]
fn without_recovery_it_is_go_back_n() {
    let p = 0.01;
    for recovery in [None, Some(Recovery::Off)] {
        let m = mean(recovery, p);
        // A resend that is lost costs a timeout; so does a loss among the
        // packets before the first ACK request of a rewind, since the NAK for
        // it is a second one and ignored. Messages are of 16 packets.
        let exposed = (16.0 + 1.0) / 2.0;
        let form = 1.0 / (1.0 + p * (m.w + 1.0) + exposed * p * p * m.t / (1.0 - p));
        assert_near("GBN", m.efficiency, form, 0.15);
    }
}

#[test]
fn lr2_saves_the_link_and_half_of_the_flow() {
    for p in [0.001, 0.01] {
        let m = mean(Some(Recovery::Lr2), p);
        let form = (1.0 + p * m.w) / (1.0 + 2.0 * p * m.w + p * m.lag);
        assert_near("LR2", m.efficiency, form, 0.15);
        assert!(m.sends <= 1.06 + START, "{} sends per packet", m.sends);
    }
}

#[test]
fn the_cache_saves_the_flow() {
    for p in [0.001, 0.01] {
        let m = mean(Some(Recovery::Cached), p);
        assert!(m.efficiency >= 0.93, "{}", m.efficiency);
        assert!(m.sends <= 1.0 + p * 1.5 + 0.01 + START, "{} sends per packet", m.sends);
    }
}
