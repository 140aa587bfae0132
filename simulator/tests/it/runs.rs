//! Whole runs: every message arrives, every frame is accounted for, and a seed
//! gives the same result each time.

use crate::support::{flow, scenario, with_flow_control};
use common::time::Span;
use link::LossModel;
use simulator::results::{Pools, RunResult, Summary};
use simulator::run::run_flows;
use simulator::scenario::{Connections, Dcqcn, LossIn, Scenario, Topology};
use simulator::scheme::Scheme;
use simulator::traffic::FlowSpec;

const FABRIC: Topology =
    Topology::LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 2, long_hauls: 2 };

fn play(scenario: &Scenario, scheme: Scheme, seed: u64, flows: &[FlowSpec]) -> RunResult {
    run_flows(scenario, scheme, seed, flows).expect("it can be set up")
}

/// Messages between all sites of a fabric with two leaves of two hosts each.
fn mixed() -> Vec<FlowSpec> {
    (0..60)
        .map(|n| {
            let src = n % 8;
            let dst = (src + 1 + n % 7) % 8;
            flow(u64::from(n) * 20, src, dst, 1_000 + u64::from(n) * 7_000)
        })
        .collect()
}

#[test]
fn every_message_ends_under_every_scheme_in_every_topology() {
    for topology in [Topology::Pair, Topology::Dumbbell { hosts: 4 }, FABRIC] {
        let hosts = 2 * topology.hosts_per_site();
        let mut scenario = with_flow_control(scenario(topology));
        scenario.long_haul.loss = LossModel::Bernoulli(5e-3);
        scenario.long_haul.loss_back = LossModel::Bernoulli(5e-3);
        scenario.site.loss = 1e-4;
        let mut flows = mixed();
        flows.retain(|flow| flow.src < hosts && flow.dst < hosts);
        for scheme in Scheme::ALL {
            let result = play(&scenario, scheme, 7, &flows);
            let late = result.flows.iter().filter(|flow| flow.completed.is_none()).count();
            assert_eq!((late, result.hosts.failed_qps), (0, 0), "{topology:?} {}", scheme.name());
            assert!(result.flows.iter().all(|f| f.completed.is_some_and(|at| at > f.posted)));
            if scheme == Scheme::LOSSLESS {
                assert_eq!(result.long_haul.lost_packets, 0);
            } else {
                assert!(result.long_haul.lost_packets > 0, "{topology:?} {}", scheme.name());
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_result_each_time_and_another_seed_another() {
    let mut scenario = with_flow_control(scenario(FABRIC));
    scenario.long_haul.loss = LossModel::Bernoulli(1e-2);
    scenario.long_haul.jitter = Span::from_micros(3);
    for scheme in [Scheme::GBN, Scheme::LR2, Scheme::CACHED] {
        let [first, again, other] = [3, 3, 4].map(|seed| play(&scenario, scheme, seed, &mixed()));
        assert_eq!(first, again);
        assert_ne!(first.recoveries, other.recoveries);
    }
}

#[test]
fn alone_a_message_takes_as_long_as_it_must() {
    for (topology, src, dst) in [
        (Topology::Pair, 0, 1),
        (Topology::Dumbbell { hosts: 3 }, 1, 5),
        (Topology::Dumbbell { hosts: 3 }, 1, 2),
        (FABRIC, 0, 7),
        (FABRIC, 0, 3),
    ] {
        for bytes in [1, 1024, 1_000_000] {
            for scheme in [Scheme::LOSSLESS, Scheme::GBN, Scheme::LR2, Scheme::CACHED] {
                let result = play(&scenario(topology), scheme, 1, &[flow(5, src, dst, bytes)]);
                let only = result.flows[0];
                let took = only.completed.expect("nothing is lost").since(only.posted);
                let ratio = took.as_secs_f64() / only.ideal.as_secs_f64();
                assert!((0.9..1.02).contains(&ratio), "{topology:?} {bytes} {ratio}");
            }
        }
    }
}

#[test]
fn rounds_wait_for_each_other() {
    let rounds: Vec<FlowSpec> = (0..9)
        .map(|n| FlowSpec {
            round: n / 3,
            ..flow(if n < 3 { 0 } else { 100 }, n % 3, 3 + n % 3, 50_000)
        })
        .collect();
    let result = play(&scenario(Topology::Dumbbell { hosts: 3 }), Scheme::LOSSLESS, 1, &rounds);
    for round in 1..3 {
        let of = |round| result.flows.iter().filter(move |flow| flow.spec.round == round);
        let ended = of(round - 1).map(|flow| flow.completed).max().flatten().expect("done");
        assert!(of(round).all(|flow| flow.posted == ended + Span::from_micros(100)));
    }
}

#[test]
fn priority_flow_control_keeps_buffers_from_overflowing() {
    let flows: Vec<FlowSpec> = (1..8).map(|n| flow(0, n, 0, 2_000_000)).collect();
    let mut scenario = with_flow_control(scenario(Topology::Dumbbell { hosts: 8 }));
    scenario.site.ecn = None;
    let lossless = play(&scenario, Scheme::GBN, 1, &flows);
    assert_eq!((lossless.long_haul.queue_drops, lossless.hosts.repeated), (0, 0));
    scenario.site.pfc = None;
    scenario.site.buffer = 400_000;
    let lossy = play(&scenario, Scheme::GBN, 1, &flows);
    assert!(lossy.long_haul.queue_drops > 0 && lossy.hosts.repeated > 0);
    assert!(lossy.flows.iter().all(|flow| flow.completed.is_some()));
}

/// So that long runs may do without.
#[test]
fn content_makes_no_difference_to_the_results() {
    let mut checked = with_flow_control(scenario(Topology::Dumbbell { hosts: 4 }));
    checked.long_haul.loss = LossModel::Bernoulli(1e-2);
    checked.long_haul.loss_back = LossModel::Bernoulli(1e-2);
    let mut unchecked = checked.clone();
    unchecked.nic.content = false;
    let flows: Vec<_> = mixed().into_iter().filter(|flow| flow.src < 8 && flow.dst < 8).collect();
    for scheme in Scheme::ALL {
        let [a, b] = [&checked, &unchecked].map(|scenario| play(scenario, scheme, 3, &flows));
        assert_eq!(a, b, "{}", scheme.name());
    }
}

#[test]
fn what_crosses_twice_is_told_from_what_crosses_once() {
    let mut scenario = scenario(Topology::Pair);
    scenario.long_haul.loss = LossModel::Bernoulli(5e-3);
    // 2000 packets of 1024 bytes, 58 of headers and 24 around the frame; the
    // first has a RETH.
    let once = 2_000 * (1_024 + 58 + 24) + 16;
    for scheme in [Scheme::LOSSLESS, Scheme::GBN, Scheme::LR2, Scheme::IRN] {
        let link = play(&scenario, scheme, 1, &[flow(0, 0, 1, 2_000 * 1_024)]).long_haul;
        assert_eq!(link.data_bytes - link.repeated_bytes, once, "{}", scheme.name());
        assert_eq!(link.repeated_bytes == 0, scheme == Scheme::LOSSLESS, "{}", scheme.name());
    }
}

#[test]
fn marks_make_receivers_complain_and_queues_short() {
    let flows: Vec<FlowSpec> = (1..8).map(|n| flow(0, n, 0, 2_000_000)).collect();
    let mut scenario = with_flow_control(scenario(Topology::Dumbbell { hosts: 8 }));
    scenario.nic.dcqcn = Some(Dcqcn::DEFAULT);
    scenario.site.pfc = None;
    let marked = play(&scenario, Scheme::GBN, 1, &flows);
    scenario.site.ecn = None;
    let bare = play(&scenario, Scheme::GBN, 1, &flows);
    assert!(marked.hosts.cnps > 0 && bare.hosts.cnps == 0);
    assert!(marked.long_haul.queue_drops < bare.long_haul.queue_drops);
}

/// However seldom they are looked at.
#[test]
fn the_most_that_pools_hold_is_not_missed() {
    let mut scenario = scenario(Topology::Pair);
    scenario.long_haul.loss = LossModel::Bernoulli(5e-3);
    for scheme in [Scheme::LR2, Scheme::CACHED, Scheme::LR2_PAPER] {
        let [often, once] = [Span::from_micros(1), scenario.limit].map(|sample_every| {
            let scenario = Scenario { sample_every, ..scenario.clone() };
            let pools = play(&scenario, scheme, 1, &[flow(0, 0, 1, 2_000_000)]).pools;
            pools.iter().map(|sample| sample.held).fold(Pools::default(), Pools::max)
        });
        assert_eq!(once, often, "{}", scheme.name());
        assert!(once.reorder_bytes > 100_000, "{} held {once:?}", scheme.name());
    }
}

/// The source sends packets again that find no room in the cache, if it may be asked.
#[test]
fn auto_asks_the_source_for_what_is_not_cached() {
    let mut scenario = scenario(Topology::Pair);
    scenario.long_haul.loss = LossModel::Bernoulli(2e-3);
    scenario.gateway.cache = Some(500_000);
    let naks = |scheme| {
        let result = play(&scenario, scheme, 1, &[flow(0, 0, 1, 8_000_000)]);
        assert!(result.flows[0].completed.is_some());
        let asked = |name: &&(String, u64)| name.0 == "lr2_naks_total{from=\"sentry\"}";
        result.counters.iter().find(asked).map_or(0, |(_, count)| *count)
    };
    assert_eq!(naks(Scheme::CACHED), 0);
    assert!(naks(Scheme::AUTO) > 0);
}

/// A straggler does not make a busy link look idle.
#[test]
fn the_use_of_a_link_is_measured_while_messages_come() {
    let mut scenario = scenario(Topology::Dumbbell { hosts: 4 });
    let flows: Vec<FlowSpec> = (0..40).map(|n| flow(50 * n, n as u32 % 4, 4, 40_000)).collect();
    let busy = play(&scenario, Scheme::LOSSLESS, 1, &flows);
    scenario.site.host_rate = 1_000_000_000;
    let slow = play(&scenario, Scheme::LOSSLESS, 1, &flows);
    for result in [&busy, &slow] {
        let offered = result.long_haul.offered.expect("they come one after the other");
        assert_eq!(offered.until.as_nanos(), 50 * 39 * 1_000);
        assert!(offered.data_bytes < result.long_haul.data_bytes);
        let used = Summary::of(Scheme::LOSSLESS, std::slice::from_ref(result));
        let share = used.expect("a run").link.useful_share;
        let bits = 8 * (offered.data_bytes - offered.repeated_bytes);
        assert_eq!(share, bits as f64 / (50.0 * 39.0 * 10_000.0));
    }
    assert!(slow.end.as_nanos() > 3 * slow.long_haul.offered.map_or(0, |o| o.until.as_nanos()));
    let at_once = play(&scenario, Scheme::LOSSLESS, 1, &[flow(0, 0, 4, 40_000)]);
    assert_eq!(at_once.long_haul.offered, None);
}

/// Each site loses what its own cables lose.
#[test]
fn loss_can_be_in_one_site_only() {
    let mut scenario = scenario(Topology::Dumbbell { hosts: 4 });
    scenario.site.loss = 5e-3;
    scenario.nic.connections = Connections::Managed;
    let count = |result: &RunResult, name: &str| {
        result.counters.iter().find(|of| of.0 == name).map_or(0, |of| of.1)
    };
    let [source, destination] = [LossIn::Source, LossIn::Destination].map(|place| {
        scenario.site.loss_in = place;
        play(&scenario, Scheme::CACHED, 1, &[flow(0, 0, 4, 2_000_000)])
    });
    for (name, where_it_counts, other) in [
        ("lr2_naks_total{from=\"sentry_source_lan\"}", &source, &destination),
        ("lr2_depot_local_resent_total{cause=\"nak\"}", &destination, &source),
    ] {
        assert!(count(where_it_counts, name) > 0 && count(other, name) == 0, "{name}");
    }
}

/// Set-ups of network simulators: 1000 bytes per packet, and NACKs that slow the sender
/// down.
#[test]
fn set_ups_of_network_simulators_can_be_typed_in() {
    let mut scenario = with_flow_control(scenario(Topology::Dumbbell { hosts: 4 }));
    scenario.nic.pmtu = 1000;
    scenario.nic.connections = Connections::Managed;
    scenario.nic.dcqcn = Some(Dcqcn::DEFAULT);
    scenario.long_haul.loss = LossModel::Bernoulli(2e-3);
    let flows = [flow(0, 0, 4, 3_000_000), flow(0, 1, 5, 2_999_999)];
    for scheme in Scheme::ALL {
        let result = play(&scenario, scheme, 1, &flows);
        assert!(result.flows.iter().all(|flow| flow.completed.is_some()), "{}", scheme.name());
    }
    let repaired = play(&scenario, Scheme::CACHED, 1, &flows);
    assert_eq!((repaired.hosts.naks, repaired.hosts.repeated), (0, 0), "gateways know the flow");
    scenario.site.ecn = None;
    let plain = play(&scenario, Scheme::GBN, 1, &flows).hosts;
    scenario.nic.cnp_with_nak = true;
    let slowed = play(&scenario, Scheme::GBN, 1, &flows).hosts;
    assert!(plain.naks > 0 && plain.cnps == 0, "no marks, no CNPs: {plain:?}");
    assert_eq!(slowed.cnps, slowed.naks, "one per NAK");
}
