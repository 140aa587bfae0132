//! A gateway's port towards its site: its rate, and the order of its data frames.

use crate::support::{flow, scenario};
use common::time::Span;
use link::LossModel;
use simulator::run::run_flows;
use simulator::scenario::{LanQueue, Scenario, Topology};
use simulator::scheme::Scheme;
use simulator::traffic::FlowSpec;

const TOPOLOGIES: [Topology; 2] = [
    Topology::Dumbbell { hosts: 4 },
    Topology::LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 2, long_hauls: 1 },
];

/// Completion times of `flows` under `cached`.
fn times(scenario: &Scenario, seed: u64, flows: &[FlowSpec]) -> Vec<Span> {
    let result = run_flows(scenario, Scheme::CACHED, seed, flows).expect("it can be set up");
    result.flows.iter().map(|flow| flow.fct().expect("done")).collect()
}

/// `site.fabric_rate` bounds what a site gets from the long haul: a tenth of the
/// rate, ten times the time, and an ideal time that says so.
#[test]
fn a_gateway_sends_into_its_site_at_the_fabrics_rate() {
    for topology in TOPOLOGIES {
        let mut scenario = scenario(topology);
        scenario.site.fabric_rate = 1_000_000_000;
        let one = [flow(0, 0, 4, 4_000_000)];
        let result = run_flows(&scenario, Scheme::GBN, 1, &one).expect("it can be set up");
        let took = result.flows[0].fct().expect("done");
        let slowdown = result.flows[0].slowdown().expect("done");
        assert!(took > Span::from_millis(32), "{topology:?}: {took:?}");
        assert!((0.95..1.05).contains(&slowdown), "{topology:?}: {slowdown}");
    }
}

/// Packets held behind a gap leave in a burst. A message of another queue pair
/// waits behind all of them in a FIFO, and for a turn with a queue per flow.
#[test]
fn with_a_queue_per_flow_a_repaired_message_does_not_block_another() {
    for topology in TOPOLOGIES {
        let mut scenario = scenario(topology);
        scenario.gateway.pacing = false;
        scenario.long_haul.loss = LossModel::Bernoulli(5e-3);
        scenario.long_haul.rate = 40_000_000_000;
        scenario.site.fabric_rate = 10_000_000_000;
        let mut flows = vec![flow(0, 0, 4, 4_000_000)];
        flows.extend((0..200).map(|n| flow(1_500 + 20 * n, 1, 5, 1_000)));
        let [fifo, fair] = [LanQueue::Fifo, LanQueue::Fair].map(|queue| {
            scenario.gateway.lan_queue = queue;
            // Where losses fall differs from seed to seed.
            let others = (1..=4).flat_map(|seed| times(&scenario, seed, &flows).split_off(1));
            others.map(|time| time.as_nanos()).sum::<u64>() / 800
        });
        // Alone they take a round trip of a millisecond.
        let slower = fifo as f64 / fair as f64;
        assert!(slower > 1.05 && fair < 1_100_000, "{topology:?}: {fifo} and {fair} ns");
    }
}
