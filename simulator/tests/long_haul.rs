//! A long haul that changes the order of frames, and one of several routes.

mod support;

use common::time::Span;
use link::Reordering;
use simulator::results::RunResult;
use simulator::run::run_flows;
use simulator::scenario::{Scenario, Topology};
use simulator::scheme::Scheme;
use simulator::traffic::FlowSpec;
use support::{flow, scenario};

fn play(scenario: &Scenario, scheme: Scheme, flows: &[FlowSpec]) -> RunResult {
    let result = run_flows(scenario, scheme, 1, flows).expect("it can be set up");
    assert!(result.flows.iter().all(|flow| flow.completed.is_some()), "{}", scheme.name());
    result
}

/// A detour longer than a packet makes receivers report a gap, though nothing is
/// lost; the yardstick keeps its order.
#[test]
fn detours_change_the_order_of_packets() {
    let mut scenario = scenario(Topology::Pair);
    scenario.long_haul.reordering =
        Some(Reordering { probability: 1e-2, extra: Span::from_micros(20) });
    for scheme in [Scheme::LOSSLESS, Scheme::GBN, Scheme::IRN, Scheme::LR2, Scheme::CACHED] {
        let result = play(&scenario, scheme, &[flow(0, 0, 1, 2_000_000)]);
        assert_eq!(result.long_haul.lost_packets, 0);
        if scheme == Scheme::LOSSLESS {
            assert_eq!((result.hosts.naks, result.hosts.repeated), (0, 0));
        }
        if scheme == Scheme::GBN {
            assert!(result.hosts.naks > 0 && result.hosts.repeated > 0);
        }
    }
}

/// Queue pairs between the same hosts have the same addresses: their UDP source port
/// decides. Those between different hosts use all routes.
#[test]
fn a_flow_stays_on_one_of_several_routes() {
    let mut scenario = scenario(Topology::Dumbbell { hosts: 8 });
    scenario.long_haul.routes = 4;
    scenario.long_haul.route_delay = Span::from_millis(2);
    let flows: Vec<_> = (0..8).map(|n| flow(u64::from(n), n, 8 + n, 20_000)).collect();
    for scheme in Scheme::ALL {
        let result = play(&scenario, scheme, &flows);
        assert_eq!(result.hosts.repeated, 0, "{}: packets keep their order", scheme.name());
        // Both directions of a flow take the same route.
        let times = result.flows.iter().map(|flow| flow.fct().expect("done").as_micros());
        let mut routes: Vec<u64> = times.map(|us| (us - 1_000) / 4_000).collect();
        routes.sort_unstable();
        routes.dedup();
        assert!(routes.len() > 1 && routes.iter().all(|route| *route < 4), "{routes:?}");
    }
}
