//! Several paths between the sites: the tunnel's policies beside plain ECMP.

use std::path::Path;

use crate::support::is_long;
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

const FOUR: &str = include_str!("../../scenarios/spray.toml");
const EIGHT: &str = include_str!("../../scenarios/spray-8.toml");

/// As in a scenario file, with so many messages.
fn websearch(text: &str, messages: u32) -> Scenario {
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
    let lanes = 4 * scenario.long_haul.paths.len() as u8;
    (scenario.gateway.tunnel, scenario.gateway.lanes) = (Carriage::Udp, lanes);
}

fn kill(path: usize, scenario: &mut Scenario) {
    let (start, duration) = (Span::from_millis(20), Span::from_millis(3_600_000));
    scenario.long_haul.paths[path].outage = Some(Outage { start, duration, every: None });
}

fn lose(path: usize, scenario: &mut Scenario) {
    let path = &mut scenario.long_haul.paths[path];
    (path.loss, path.loss_back) = (LossModel::Bernoulli(1e-2), LossModel::Bernoulli(1e-2));
}

/// A name for the table, the text of a scenario file, and a change of that scenario.
type Case = (&'static str, &'static str, fn(&mut Scenario));

const CASES: [Case; 17] = [
    ("5 to 8 ms", FOUR, |_| ()),
    ("5 to 8 ms, load 0.8", FOUR, |scenario| set_load(scenario, 0.8)),
    ("5 ms each, load 0.8", FOUR, |scenario| {
        set_load(scenario, 0.8);
        scenario.long_haul.paths.iter_mut().for_each(|path| path.delay = Span::from_millis(5));
    }),
    ("one loses 1e-2", FOUR, |scenario| lose(1, scenario)),
    ("one dies", FOUR, |scenario| kill(2, scenario)),
    ("one of two dies", FOUR, |scenario| {
        set_load(scenario, 0.2);
        scenario.long_haul.paths.truncate(2);
        scenario.gateway.lanes = 2;
        kill(1, scenario);
    }),
    ("one has 2.5 Gbit/s, its port is the box's", FOUR, |scenario| {
        scenario.long_haul.paths[3].rate = Some(2_500_000_000);
    }),
    ("one has 2.5 Gbit/s, in the network (`udp`, 16 lanes)", FOUR, |scenario| {
        behind_one_port(scenario);
        scenario.long_haul.paths[3].rate = Some(2_500_000_000);
    }),
    ("5 to 8 ms, in the network (`udp`, 16 lanes)", FOUR, behind_one_port),
    ("eight, 5 to 8.5 ms", EIGHT, |_| ()),
    ("eight, 5 to 8.5 ms, in the network (`udp`, 32 lanes)", EIGHT, behind_one_port),
    ("eight, 5 to 8.5 ms, load 0.8", EIGHT, |scenario| set_load(scenario, 0.8)),
    ("eight of 5 ms each, load 0.8", EIGHT, |scenario| {
        set_load(scenario, 0.8);
        scenario.long_haul.paths.iter_mut().for_each(|path| path.delay = Span::from_millis(5));
    }),
    ("eight, one loses 1e-2", EIGHT, |scenario| lose(1, scenario)),
    ("eight, one dies", EIGHT, |scenario| kill(2, scenario)),
    ("eight, one has 2.5 Gbit/s, its port is the box's", EIGHT, |scenario| {
        scenario.long_haul.paths[3].rate = Some(2_500_000_000);
    }),
    ("eight, one has 2.5 Gbit/s, in the network (`udp`, 32 lanes)", EIGHT, |scenario| {
        behind_one_port(scenario);
        scenario.long_haul.paths[3].rate = Some(2_500_000_000);
    }),
];

/// All, or those whose name contains what `LR2_CASES` says.
fn cases() -> impl Iterator<Item = Case> {
    let part = std::env::var("LR2_CASES").unwrap_or_default();
    CASES.into_iter().filter(move |(name, ..)| name.contains(&part))
}

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

/// Through a network several lanes share each path, and each of them predicts its queue by itself: there docs/tunnel.md says
/// `reps`. Where that was found first, with one slow path of four, the default is compared still.
fn is_for_reps(name: &str) -> bool {
    name.contains("in the network") && !name.starts_with("one has")
}

/// In each case the policy for such a network completes all messages without a timeout (few messages), and sooner than plain ECMP does,
/// with which some are never complete where a path dies. With `LR2_ALL_POLICIES` set the others run as well, and
/// more messages: the table of docs/simulator.md.
#[test]
fn the_default_policy_is_never_worse_than_ecmp() {
    let runs_all = std::env::var_os("LR2_ALL_POLICIES").is_some();
    for (name, text, change) in cases() {
        let mut scenario = websearch(text, if runs_all { 200 } else { 60 });
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
        let mut tunnel = play(&scenario, Scheme::TUNNEL);
        say(name, "`earliest`", &tunnel);
        if is_for_reps(name) {
            scenario.gateway.spray = Policy::Reps;
            tunnel = play(&scenario, Scheme::TUNNEL);
            say(name, "`reps`", &tunnel);
        }
        assert_eq!(tunnel.left, 0, "{name}");
        assert!(runs_all || tunnel.timeouts == 0, "{name}: {} timeouts", tunnel.timeouts);
        if name.contains("dies") {
            assert!(ecmp.left > 0, "{name}");
        } else if is_for_reps(name) {
            assert!(tunnel.mean < 1.1 * ecmp.mean, "{name}: {} {}", tunnel.mean, ecmp.mean);
        } else if name.contains("in the network") {
            // A queue that is not the box's own is known a round trip late.
            assert!(tunnel.p99 < ecmp.p99 && tunnel.mean < 1.1 * ecmp.mean, "{name}");
        } else {
            assert!(tunnel.mean < ecmp.mean, "{name}: {} {}", tunnel.mean, ecmp.mean);
        }
    }
}

/// ConWeave's rerouting, with the same memory: RNICs see no packet out of order, and flows leave a path that dies.
#[test]
fn rerouting_hides_its_reordering_and_leaves_a_dead_path() {
    let conweave = Scheme::CONWEAVE;
    for (name, text, change) in cases() {
        let runs_all = std::env::var_os("LR2_ALL_POLICIES").is_some();
        let mut scenario = websearch(text, if runs_all { 200 } else { 60 });
        change(&mut scenario);
        if !scenario.long_haul.has_own_ports {
            continue;
        }
        if runs_all {
            scenario.seeds = vec![1, 2];
        } else if !["5 to 8 ms", "one dies"].contains(&name) {
            continue;
        }
        let (ecmp, found) = (play(&scenario, Scheme::GBN), play(&scenario, conweave));
        let naks = run(&scenario, conweave, 1).expect("it can be set up").hosts.naks;
        say(name, "no gateways", &ecmp);
        say(name, "`conweave`", &found);
        println!("{naks} NAKs");
        match name {
            "5 to 8 ms" => assert_eq!((naks, found.left, found.timeouts), (0, 0, 0)),
            // A lost message of connection management is sent again after seconds.
            "one dies" => assert!(found.left < ecmp.left, "{} {}", found.left, ecmp.left),
            _ => {}
        }
    }
}

/// One flow over four lanes as in the scenario file, without other traffic, marks or congestion control.
fn one_flow(bytes: u64, policy: Policy, loss: f64) -> Scenario {
    let mut scenario = websearch(FOUR, 1);
    scenario.topology = Topology::Pair;
    scenario.site.host_rate = 39_600_000_000;
    (scenario.site.ecn, scenario.site.pfc, scenario.nic.dcqcn) = (None, None, None);
    for path in &mut scenario.long_haul.paths {
        path.ecn = None;
        (path.loss, path.loss_back) = (LossModel::Bernoulli(loss), LossModel::Bernoulli(loss));
    }
    scenario.gateway.spray = policy;
    scenario.traffic = vec![Traffic::Long { bytes, flows: 1 }];
    scenario.limit = Span::from_millis(600_000);
    scenario
}

/// Share of the rate of all lanes that so many bytes take, with their headers.
fn share_of(bytes: u64, seconds: f64) -> f64 {
    (bytes / 4096 * packet_wire_bytes(4096) * 8) as f64 / seconds / 40e9
}

/// Share of the summed rate that the second part of a long flow gets.
fn share_of_the_rate(policy: Policy) -> f64 {
    let took = |bytes: u64| {
        let result =
            run(&one_flow(bytes, policy, 0.0), Scheme::TUNNEL, 1).expect("it can be set up");
        assert_eq!((result.hosts.naks, result.hosts.timeouts), (0, 0), "{policy:?}");
        assert_eq!(result.hosts.repeated, 0, "{policy:?}");
        assert_eq!(result.tunnel.lost + result.long_haul.repeated_bytes, 0, "{policy:?}");
        result.flows[0].fct().expect("it is complete").as_secs_f64()
    };
    let (short, long) = (200_000_000, 1_200_000_000);
    let share = share_of(long - short, took(long) - took(short));
    println!("{policy:?}: {share:.4} of the summed rate");
    share
}

/// The same lanes, each of which loses one frame in a hundred, both ways. No frame is given up. Four messages, since one has
/// 2 GiB at most, and their last frames may take two round trips more. Without `LR2_LONG=1` the messages are shorter.
#[test]
fn four_flows_get_the_summed_rate_although_each_lane_loses() {
    let took = |bytes: u64| {
        let mut scenario = one_flow(bytes, Policy::default(), 1e-2);
        scenario.traffic = vec![Traffic::Long { bytes, flows: 4 }];
        // Room for the frames of three round trips, as some retransmissions are lost together with their copies; and, as
        // in the product, for all of these in the queue of the LAN port.
        scenario.gateway.reorder = Some(256 << 20);
        scenario.gateway.queue = 320 << 20;
        let result = run(&scenario, Scheme::TUNNEL, 1).expect("it can be set up");
        let (hosts, tunnel) = (result.hosts, result.tunnel);
        assert_eq!((hosts.naks, hosts.timeouts, hosts.repeated, tunnel.given_up), (0, 0, 0, 0));
        assert!(tunnel.lost > tunnel.frames / 120, "{tunnel:?}");
        let all = result.flows.iter().map(|flow| flow.fct().expect("it is complete"));
        println!("{bytes}: {tunnel:?} {all:?}", all = all.clone().collect::<Vec<_>>());
        all.max().expect("flows").as_secs_f64()
    };
    let (short, long) = (100_000_000, if is_long() { 2_000_000_000 } else { 500_000_000 });
    let share = share_of(4 * (long - short), took(long) - took(short));
    println!("loss 1e-2: {share:.4} of the summed rate");
    assert!(share >= 0.95, "{share}");
}

/// Lanes with different delays and no loss: of a million frames none is taken for lost. `LR2_FRAMES` is another number.
#[test]
fn no_frame_is_taken_for_lost_on_lanes_with_different_delays() {
    let frames = std::env::var("LR2_FRAMES").map_or(1_000_000, |n| n.parse().expect("a number"));
    // A message has 2 GiB at most.
    let (each, mut scenario) = (1_u64 << 30, one_flow(1, Policy::default(), 0.0));
    let flows = u32::try_from((frames * 4096_u64).div_ceil(each)).expect("not too many");
    scenario.traffic = vec![Traffic::Long { bytes: each, flows }];
    let found = run(&scenario, Scheme::TUNNEL, 1).expect("it can be set up");
    assert!(found.flows.iter().all(|flow| flow.completed.is_some()), "in {:?}", found.end);
    let tunnel = found.tunnel;
    println!("{tunnel:?}");
    assert!(tunnel.frames >= frames, "{tunnel:?}");
    assert_eq!((tunnel.lost, tunnel.missing, tunnel.resent), (0, 0, 0));
    assert_eq!((tunnel.given_up, tunnel.suspected), (0, 0));
    assert_eq!((found.hosts.naks, found.hosts.timeouts, found.long_haul.lost_packets), (0, 0, 0));
}

/// One flow, frame by frame over four lanes with delays of 5 to 8 ms: an RNIC that takes packets in order
/// sees no gap, nothing is taken for lost, and the flow gets the summed rate but for the share of headers.
#[test]
fn one_flow_gets_the_summed_rate_of_lanes_with_different_delays() {
    for policy in [Policy::Oblivious, Policy::Earliest] {
        let share = share_of_the_rate(policy);
        assert!(share >= 0.98, "{policy:?}: {share}");
    }
}

/// R-TUN-35: four paths behind one port, one of which dies. The three others have a tenth more than the flow needs:
/// their queues are predicted well enough that nothing overflows.
#[test]
fn a_path_dies_and_the_others_are_not_overrun() {
    let text = include_str!("../../scenarios/dying-path.toml");
    let scenario = parse(Path::new("dying-path.toml"), text, &[]).expect("a scenario");
    let found = run(&scenario, Scheme::TUNNEL, 1).expect("it can be set up");
    let (hosts, tunnel, link) = (found.hosts, found.tunnel, found.long_haul);
    println!("{tunnel:?} {link:?}");
    assert!(found.flows.iter().all(|flow| flow.completed.is_some()), "in {:?}", found.end);
    assert_eq!((hosts.naks, hosts.timeouts, tunnel.given_up), (0, 0, 0));
    // A round trip of frames was on the path that died.
    let on_the_dead_path = 50_000_000 * 2 * 16 / 1_000 / 8 / 1_100;
    assert!(tunnel.lost < on_the_dead_path, "{tunnel:?}");
    assert!(link.lost_packets < 2 * on_the_dead_path, "{link:?}");
}
