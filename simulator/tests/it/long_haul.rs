//! A long haul that changes the order of frames, and one of several paths.

use crate::support::{flow, scenario};
use common::time::Span;
use link::{LossModel, Outage, Reordering};
use simulator::results::RunResult;
use simulator::run::run_flows;
use simulator::scenario::{Carriage, Dcqcn, Ecn, Scenario, Topology, WanPath};
use simulator::scheme::Scheme;
use simulator::traffic::FlowSpec;

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
/// decides. Those between different hosts use all paths.
#[test]
fn a_flow_stays_on_one_of_several_paths() {
    let mut scenario = scenario(Topology::Dumbbell { hosts: 8 });
    let path = scenario.long_haul.all_paths().remove(0);
    let delays = [500, 2_500, 4_500, 6_500].map(Span::from_micros);
    scenario.long_haul.paths = delays.map(|delay| WanPath { delay, ..path.clone() }).to_vec();
    let flows: Vec<_> = (0..8).map(|n| flow(u64::from(n), n, 8 + n, 20_000)).collect();
    // A frame of the tunnel takes the path of its lane.
    for scheme in Scheme::ALL.into_iter().filter(|scheme| *scheme != Scheme::TUNNEL) {
        let result = play(&scenario, scheme, &flows);
        assert_eq!(result.hosts.repeated, 0, "{}: packets keep their order", scheme.name());
        // Both directions of a flow take the same path.
        let times = result.flows.iter().map(|flow| flow.fct().expect("done").as_micros());
        let mut paths: Vec<u64> = times.map(|us| (us - 1_000) / 4_000).collect();
        paths.sort_unstable();
        paths.dedup();
        assert!(paths.len() > 1 && paths.iter().all(|path| *path < 4), "{paths:?}");
    }
}

/// Four paths of 2.5 Gbit/s each between eight pairs of hosts.
fn four_paths() -> Scenario {
    let mut scenario = scenario(Topology::Dumbbell { hosts: 8 });
    let path = scenario.long_haul.all_paths().remove(0);
    let path = WanPath { rate: Some(2_500_000_000), queue: 16 << 20, ..path };
    scenario.long_haul.paths = vec![path; 4];
    scenario
}

/// Two messages whose flows share a path share its line; one alone gets that line, and no more.
#[test]
fn each_path_has_a_line_of_its_own() {
    for has_own_ports in [false, true] {
        let mut scenario = four_paths();
        scenario.long_haul.has_own_ports = has_own_ports;
        let result = play(&scenario, Scheme::GBN, &[flow(0, 0, 8, 10_000_000)]);
        let alone = result.flows[0].fct().expect("done").as_micros();
        assert!((32_000..36_000).contains(&alone), "{alone}");
        let flows: Vec<_> = (0..8).map(|n| flow(0, n, 8 + n, 10_000_000)).collect();
        let result = play(&scenario, Scheme::GBN, &flows);
        let times = result.flows.iter().filter_map(|flow| flow.fct());
        let last = times.max().expect("done").as_micros();
        // By their hashes some paths carry more than two of eight, others fewer.
        assert!(last > 3 * alone / 2, "{last}");
        assert_eq!(result.long_haul.rate, 10_000_000_000);
    }
}

/// A path that is dead loses all; from the end of that time on it loses nothing.
#[test]
fn a_path_dies_and_comes_back() {
    let mut scenario = four_paths();
    scenario.nic.timeout = Some(Span::from_millis(4));
    let outage = |duration| Some(Outage { start: Span::from_millis(5), duration, every: None });
    let flows: Vec<_> = (0..8).map(|n| flow(0, n, 8 + n, 10_000_000)).collect();
    let hit = |scenario: &Scenario| {
        let result = run_flows(scenario, Scheme::GBN, 1, &flows).expect("it can be set up");
        let left = result.flows.iter().filter(|flow| flow.completed.is_none()).count();
        (left, result.long_haul.lost_packets)
    };
    assert_eq!(hit(&scenario), (0, 0));
    for path in &mut scenario.long_haul.paths[..2] {
        path.outage = outage(Span::from_millis(20));
    }
    let (left, lost) = hit(&scenario);
    assert!(left == 0 && lost > 0, "{left} {lost}");
    scenario.limit = Span::from_millis(500);
    for path in &mut scenario.long_haul.paths[..2] {
        path.outage = outage(Span::from_millis(3_600_000));
    }
    let (left, _) = hit(&scenario);
    assert!((1..8).contains(&left), "{left}");
}

/// A queue for a path's line marks frames, and loses those that it has no room for.
#[test]
fn a_paths_queue_marks_and_is_limited() {
    let mut scenario = four_paths();
    scenario.site.ecn = Some(Ecn { kmin: 32 << 20, kmax: 33 << 20, pmax: 0.1 });
    scenario.nic.dcqcn = Some(Dcqcn::DEFAULT);
    let cnps = |scenario: &Scenario| {
        let result = play(scenario, Scheme::GBN, &[flow(0, 0, 8, 5_000_000)]);
        (result.hosts.cnps, result.long_haul.lost_packets)
    };
    assert_eq!(cnps(&scenario), (0, 0));
    for path in &mut scenario.long_haul.paths {
        path.ecn = Some(Ecn { kmin: 100_000, kmax: 200_000, pmax: 0.2 });
    }
    let (marked, lost) = cnps(&scenario);
    assert!(marked > 0 && lost == 0, "{marked} {lost}");
    for path in &mut scenario.long_haul.paths {
        (path.ecn, path.queue) = (None, 50_000);
    }
    let (marked, lost) = cnps(&scenario);
    assert!(marked == 0 && lost > 0, "{marked} {lost}");
}

/// In UDP, as behind an EtherType, the tunnel makes a long haul of several paths lossless; its boxes have agreed
/// before the first message.
#[test]
fn the_tunnel_crosses_several_paths() {
    let cases = [(Carriage::Ethernet, false), (Carriage::Udp, false), (Carriage::Ethernet, true)];
    for (carriage, has_own_ports) in cases {
        let mut scenario = four_paths();
        scenario.gateway.tunnel = carriage;
        scenario.long_haul.has_own_ports = has_own_ports;
        for path in &mut scenario.long_haul.paths {
            (path.loss, path.loss_back) = (LossModel::Bernoulli(1e-2), LossModel::Bernoulli(1e-2));
        }
        let result = play(&scenario, Scheme::TUNNEL, &[flow(0, 0, 8, 2_000_000)]);
        assert!(result.long_haul.lost_packets > 0);
        assert_eq!((result.hosts.timeouts, result.hosts.repeated, result.hosts.naks), (0, 0, 0));
    }
}
