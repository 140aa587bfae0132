//! The peers are models of their own, and each does what its text says.

use crate::support::{flow, scenario};
use common::time::Span;
use link::LossModel;
use rayon::prelude::*;
use simulator::paper::{Effort, Part, settings};
use simulator::results::RunResult;
use simulator::run::{run, run_flows};
use simulator::scenario::{LossIn, Scenario, Topology};
use simulator::scheme::Scheme;

/// One message of 8 MB over 10 Gbit/s and 1 ms, and losses both ways.
fn long(loss: f64, change: impl Fn(&mut Scenario)) -> impl Fn(Scheme) -> RunResult {
    let mut scenario = scenario(Topology::Pair);
    scenario.long_haul.loss = LossModel::Bernoulli(loss);
    scenario.long_haul.loss_back = LossModel::Bernoulli(loss);
    scenario.limit = Span::from_millis(10_000);
    change(&mut scenario);
    move |scheme| {
        let flows = [flow(0, 0, 1, 8_000_000)];
        run_flows(&scenario, scheme, 1, &flows).expect("it can be set up")
    }
}

/// Completion time of the message, in milliseconds.
fn took(result: &RunResult) -> f64 {
    let flow = &result.flows[0];
    flow.completed.expect("it ends").since(flow.posted).as_secs_f64() * 1e3
}

/// Repeats beyond one for each loss, as a share of all packets that hosts sent.
fn needless(result: &RunResult) -> f64 {
    let repeated = result.hosts.repeated as f64 - result.long_haul.lost_packets as f64;
    repeated / result.hosts.packets as f64
}

#[test]
fn selective_repeat_in_the_rnic_repeats_little_but_what_is_lost() {
    for loss in [1e-3, 1e-2] {
        let play = long(loss, |_| ());
        let lossless = took(&long(0.0, |_| ())(Scheme::LOSSLESS));
        let [irn, uet] = [Scheme::IRN, Scheme::UET].map(play);
        println!("{loss}: {lossless} {} {} ms", took(&irn), took(&uet));
        println!("needless: {} {}", needless(&irn), needless(&uet));
        // IRN: a lost NACK leaves a packet in doubt that has come, one for each loss here.
        assert!(needless(&irn) < 3.0 * loss && needless(&uet) < 0.002);
        // The bound: a round trip for the last loss, and what is sent twice.
        assert!(took(&uet) < lossless * (1.0 + loss) + 1.5);
    }
}

/// A buffer of a quarter of a bandwidth-delay product holds a quarter of the packets in
/// flight: for the rest the source goes back.
#[test]
fn netrt_needs_a_buffer_for_all_packets_in_flight() {
    let with = |products: f64| {
        let play = long(3e-3, |scenario| {
            let bytes = products * scenario.long_haul.bdp() as f64;
            scenario.gateway.netrt_buffer = Some(bytes as u64);
        });
        took(&play(Scheme::NETRT))
    };
    let gbn = took(&long(3e-3, |_| ())(Scheme::GBN));
    let [quarter, two, six] = [0.25, 2.0, 6.0].map(with);
    println!("gbn {gbn}, netrt with 0.25, 2, 6 products: {quarter} {two} {six} ms");
    assert!(six < 0.5 * gbn && six < two && two < quarter);
}

/// Loss before it is what SLR is for: the source hears of it a long-haul round trip sooner.
#[test]
fn slr_repairs_loss_near_the_source_sooner_than_go_back_n() {
    let play = long(0.0, |scenario| {
        scenario.topology = Topology::Dumbbell { hosts: 1 };
        scenario.site.loss = 1e-3;
        scenario.site.loss_in = LossIn::Source;
    });
    let [gbn, slr] = [Scheme::GBN, Scheme::SLR].map(|scheme| took(&play(scheme)));
    println!("gbn {gbn}, slr {slr} ms");
    assert!(slr < 0.7 * gbn);
}

/// The published evaluation, much reduced.
#[test]
fn no_two_schemes_have_the_same_results() {
    let effort = Effort {
        delays_us: vec![400],
        losses: vec![3e-3, 1e-2],
        messages: [8, 40, 80],
        ..Effort::quick()
    };
    let settings = settings(&effort, 1, &[Part::Published]).expect("all are scenarios");
    let schemes = settings[0].scenario.schemes.clone();
    assert!(schemes.len() >= 9, "{schemes:?}");
    let same: Vec<_> = settings.into_iter().filter(|s| s.scenario.schemes == schemes).collect();
    let rows: Vec<Vec<_>> = schemes
        .par_iter()
        .map(|scheme| {
            let results = same.iter().map(|setting| run(&setting.scenario, *scheme, 1));
            results.map(|result| result.expect("it can be set up").flows).collect()
        })
        .collect();
    for (n, (one, scheme)) in rows.iter().zip(&schemes).enumerate() {
        for (other, rival) in rows.iter().zip(&schemes).skip(n + 1) {
            let equal = one.iter().zip(other).filter(|(a, b)| a == b).count();
            // With eight messages a loss may hit nothing that tells them apart.
            assert!(2 * equal < one.len(), "{scheme:?}, {rival:?}: {equal} of {}", one.len());
        }
    }
}
