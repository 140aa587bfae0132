//! Several paths between the sites: the tunnel's policies beside plain ECMP.

use std::path::Path;

use common::time::Span;
use link::{LossModel, Outage};
use rayon::prelude::*;
use simulator::input::parse;
use simulator::path::packet_wire_bytes;
use simulator::results::RunResult;
use simulator::run::run;
use simulator::scenario::{Carriage, Policy, Scenario, Topology, Traffic};
use simulator::scheme::Scheme;

/// But for the default.
const POLICIES: [(Policy, &str); 4] = [
    (Policy::Pinned, "`pinned`"),
    (Policy::Oblivious, "`oblivious`"),
    (Policy::Reps, "`reps`"),
    (Policy::Strack, "`strack`"),
];

/// As in the scenario file, with so many messages.
fn websearch(messages: u32) -> Scenario {
    let text = include_str!("../scenarios/spray.toml");
    let mut scenario = parse(Path::new("spray.toml"), text, &[]).expect("a scenario");
    for traffic in &mut scenario.traffic {
        if let Traffic::Poisson { flows, .. } = traffic {
            *flows = messages;
        }
    }
    scenario.seeds = vec![1];
    scenario.limit = Span::from_millis(3_000);
    scenario
}

fn set_load(scenario: &mut Scenario, share: f64) {
    for traffic in &mut scenario.traffic {
        if let Traffic::Poisson { load, .. } = traffic {
            *load = share;
        }
    }
}

fn behind_one_port(scenario: &mut Scenario) {
    scenario.long_haul.has_own_ports = false;
    (scenario.gateway.tunnel, scenario.gateway.lanes) = (Carriage::Udp, 16);
}

type Case = (&'static str, fn(&mut Scenario));

const CASES: [Case; 8] = [
    ("5 to 8 ms", |_| ()),
    ("5 to 8 ms, load 0.8", |scenario| set_load(scenario, 0.8)),
    ("5 ms each, load 0.8", |scenario| {
        set_load(scenario, 0.8);
        scenario.long_haul.paths.iter_mut().for_each(|path| path.delay = Span::from_millis(5));
    }),
    ("one loses 1e-2", |scenario| {
        let path = &mut scenario.long_haul.paths[1];
        (path.loss, path.loss_back) = (LossModel::Bernoulli(1e-2), LossModel::Bernoulli(1e-2));
    }),
    ("one dies", |scenario| {
        let start = Span::from_millis(20);
        let duration = Span::from_millis(3_600_000);
        scenario.long_haul.paths[2].outage = Some(Outage { start, duration, every: None });
    }),
    ("one of two dies", |scenario| {
        set_load(scenario, 0.2);
        scenario.long_haul.paths.truncate(2);
        scenario.gateway.lanes = 2;
        let start = Span::from_millis(20);
        let duration = Span::from_millis(3_600_000);
        scenario.long_haul.paths[1].outage = Some(Outage { start, duration, every: None });
    }),
    ("one has 2.5 Gbit/s, its port is the box's", |scenario| {
        scenario.long_haul.paths[3].rate = Some(2_500_000_000);
    }),
    ("one has 2.5 Gbit/s, in the network (`udp`, 16 lanes)", |scenario| {
        behind_one_port(scenario);
        scenario.long_haul.paths[3].rate = Some(2_500_000_000);
    }),
];

/// Mean and 99th percentile of completion times in milliseconds, of messages that are
/// complete; how many are not, and timeouts.
struct Figures {
    mean: f64,
    p99: f64,
    left: usize,
    timeouts: u64,
}

fn figures(results: &[RunResult]) -> Figures {
    let flows = || results.iter().flat_map(|result| &result.flows);
    let mut times: Vec<f64> =
        flows().filter_map(|flow| flow.fct()).map(|fct| fct.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    Figures {
        mean: times.iter().sum::<f64>() / times.len() as f64,
        p99: times[(times.len() * 99).div_ceil(100) - 1],
        left: flows().filter(|flow| flow.completed.is_none()).count(),
        timeouts: results.iter().map(|result| result.hosts.timeouts).sum(),
    }
}

fn play(scenario: &Scenario, scheme: Scheme) -> Figures {
    let seeds = scenario.seeds.par_iter();
    let results: Vec<_> =
        seeds.map(|seed| run(scenario, scheme, *seed).expect("it can be set up")).collect();
    figures(&results)
}

fn say(case: &str, what: &str, found: &Figures) {
    let Figures { mean, p99, left, timeouts } = found;
    println!("| {case} | {what} | {mean:.1} | {p99:.1} | {left} | {timeouts} |");
}

/// In each case the default policy completes all messages without a timeout, and sooner than plain ECMP does,
/// with which some are never complete where a path dies. With `LR2_ALL_POLICIES` set the others run as well, and
/// more messages: the table of docs/simulator.md.
#[test]
fn the_default_policy_is_never_worse_than_ecmp() {
    let runs_all = std::env::var_os("LR2_ALL_POLICIES").is_some();
    for (name, change) in CASES {
        let mut scenario = websearch(if runs_all { 200 } else { 60 });
        change(&mut scenario);
        if runs_all {
            scenario.seeds = vec![1, 2];
        }
        let ecmp = play(&scenario, Scheme::GBN);
        say(name, "no gateways", &ecmp);
        if runs_all {
            say(name, "`cached`", &play(&scenario, Scheme::CACHED));
            for (policy, word) in POLICIES {
                scenario.gateway.spray = policy;
                say(name, word, &play(&scenario, Scheme::TUNNEL));
            }
        }
        scenario.gateway.spray = Policy::default();
        let tunnel = play(&scenario, Scheme::TUNNEL);
        say(name, "`earliest`", &tunnel);
        assert_eq!((tunnel.left, tunnel.timeouts), (0, 0), "{name}");
        if name.contains("dies") {
            assert!(ecmp.left > 0, "{name}");
        } else if name.contains("in the network") {
            // A queue that is not the box's own is known a round trip late.
            assert!(tunnel.p99 < ecmp.p99 && tunnel.mean < 1.1 * ecmp.mean, "{name}");
        } else {
            assert!(tunnel.mean < ecmp.mean, "{name}: {} {}", tunnel.mean, ecmp.mean);
        }
    }
}

/// One flow, frame by frame over four lanes with delays of 5 to 8 ms: an RNIC that takes packets in order
/// sees no gap, nothing is taken for lost, and the flow gets the summed rate but for the share of headers.
#[test]
fn one_flow_gets_the_summed_rate_of_lanes_with_different_delays() {
    for policy in [Policy::Oblivious, Policy::Earliest] {
        let took = |bytes: u64| {
            let mut scenario = websearch(1);
            scenario.topology = Topology::Pair;
            scenario.site.host_rate = 39_600_000_000;
            (scenario.site.ecn, scenario.site.pfc, scenario.nic.dcqcn) = (None, None, None);
            scenario.long_haul.paths.iter_mut().for_each(|path| path.ecn = None);
            scenario.gateway.spray = policy;
            scenario.traffic = vec![Traffic::Long { bytes, flows: 1 }];
            let result = run(&scenario, Scheme::TUNNEL, 1).expect("it can be set up");
            assert_eq!((result.hosts.naks, result.hosts.timeouts), (0, 0));
            assert_eq!((result.hosts.repeated, result.long_haul.repeated_bytes), (0, 0));
            result.flows[0].fct().expect("it is complete").as_secs_f64()
        };
        let (short, long) = (200_000_000, 1_200_000_000);
        let seconds = took(long) - took(short);
        let bits = (long - short) / 4096 * packet_wire_bytes(4096) * 8;
        let share = bits as f64 / seconds / 40e9;
        println!("{policy:?}: {share:.4} of the summed rate");
        assert!(share >= 0.98, "{policy:?}: {share}");
    }
}
