//! The tunnel beside per-queue-pair recovery.

use std::path::Path;

use crate::support::{flow, scenario, with_flow_control};
use common::time::Span;
use link::LossModel;
use simulator::input::parse;
use simulator::run::{run, run_flows};
use simulator::scenario::{Scenario, Topology};
use simulator::scheme::Scheme;
use simulator::traffic::FlowSpec;

/// The mean completion time of all messages, and repeats on the long haul, in bytes.
fn mean_fct(scenario: &Scenario, scheme: Scheme, flows: &[FlowSpec]) -> (f64, u64) {
    let (mut sum, mut repeated) = (0.0, 0);
    for seed in 1..=3 {
        let result = run_flows(scenario, scheme, seed, flows).expect("it can be set up");
        assert!(result.long_haul.lost_packets > 0);
        repeated += result.long_haul.repeated_bytes;
        for flow in &result.flows {
            let done = flow.completed.expect("every message ends");
            sum += done.since(flow.posted).as_secs_f64();
        }
    }
    (sum, repeated)
}

/// Messages of all sizes from one site to the other, and back.
fn mixed(hosts: u32) -> Vec<FlowSpec> {
    (0..120)
        .map(|n| {
            let src = n % (2 * hosts);
            let dst = (src + hosts) % (2 * hosts);
            flow(u64::from(n) * 50, src, dst, 1_000 << (n % 11))
        })
        .collect()
}

/// R-TUN-8: at 1e-3, in settings of one and of many hosts, short and long messages. The headers of a tunnel are 0.4 % of a full frame.
#[test]
fn a_tunnel_is_never_slower_than_recovery_per_queue_pair() {
    let settings = [
        (Topology::Pair, vec![flow(0, 0, 1, 32 << 20)], 1),
        (Topology::Pair, mixed(1), 1),
        (Topology::Dumbbell { hosts: 4 }, mixed(4), 1),
        (Topology::Dumbbell { hosts: 4 }, mixed(4), 5),
    ];
    for (topology, flows, delay_ms) in settings {
        let mut scenario = with_flow_control(scenario(topology));
        scenario.long_haul.delay = Span::from_millis(delay_ms);
        scenario.long_haul.loss = LossModel::Bernoulli(1e-3);
        scenario.long_haul.loss_back = LossModel::Bernoulli(1e-3);
        let (cached, _) = mean_fct(&scenario, Scheme::CACHED, &flows);
        let (tunnel, _) = mean_fct(&scenario, Scheme::TUNNEL, &flows);
        println!("{topology:?} {delay_ms} ms: tunnel {tunnel:.6} s, cached {cached:.6} s");
        assert!(tunnel <= cached * 1.004, "{topology:?} {delay_ms} ms: {tunnel} {cached}");
    }
}

/// R-TUN-8: what a tunnel resends is the share that was lost, and little more.
#[test]
fn a_tunnel_resends_what_was_lost() {
    let mut scenario = scenario(Topology::Pair);
    scenario.long_haul.loss = LossModel::Bernoulli(1e-2);
    let result = run_flows(&scenario, Scheme::TUNNEL, 1, &[flow(0, 0, 1, 64 << 20)])
        .expect("it can be set up");
    let share = result.long_haul.repeated_bytes as f64 / result.long_haul.data_bytes as f64;
    assert!((0.005..0.05).contains(&share), "{share}");
}

/// R-TUN-40: behind a gap of a round trip, frames delivered at once are a burst that switches take for congestion.
#[test]
fn frames_behind_a_gap_meet_no_congestion() {
    let text = include_str!("../../scenarios/shallow.toml");
    let mut scenario = parse(Path::new("shallow.toml"), text, &[]).expect("it is one");
    let mut mean = |pacing| {
        scenario.gateway.pacing = pacing;
        let seeds =
            (1..=3).map(|seed| run(&scenario, Scheme::TUNNEL, seed).expect("it can be set up"));
        let flows = seeds.flat_map(|result| result.flows);
        flows.map(|flow| flow.fct().expect("done").as_secs_f64()).sum::<f64>() / 600.0
    };
    let [at_once, paced] = [false, true].map(&mut mean);
    println!("at once {at_once:.6} s, paced {paced:.6} s");
    assert!(paced < at_once * 0.85, "{paced} {at_once}");
}
