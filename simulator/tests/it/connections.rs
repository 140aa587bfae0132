//! Queue pairs that are connected over the network before they are used.

use crate::support::{flow, scenario};
use common::time::Span;
use link::LossModel;
use simulator::results::RunResult;
use simulator::run::run_flows;
use simulator::scenario::{Connections, LongHaul, NicModel, Scenario, Topology};
use simulator::scheme::Scheme;
use simulator::traffic::FlowSpec;

fn managed(loss: LossModel) -> Scenario {
    let base = scenario(Topology::Pair);
    Scenario {
        long_haul: LongHaul { loss, loss_back: loss, ..base.long_haul },
        nic: NicModel { connections: Connections::Managed, ..base.nic },
        ..base
    }
}

fn run(scenario: &Scenario, scheme: Scheme, flows: &[FlowSpec]) -> RunResult {
    run_flows(scenario, scheme, 1, flows).expect("it can be set up")
}

fn count(result: &RunResult, name: &str) -> u64 {
    result.counters.iter().find(|(found, _)| found == name).map_or(0, |(_, count)| *count)
}

/// Its time counts from then on.
#[test]
fn a_message_is_posted_when_the_reply_is_there() {
    let managed = managed(LossModel::None);
    let known = Scenario {
        nic: NicModel { connections: Connections::Known, ..managed.nic.clone() },
        ..managed.clone()
    };
    let flows = [flow(0, 0, 1, 100_000), flow(50_000, 0, 1, 100_000)];
    let [waited, at_once] =
        [&managed, &known].map(|scenario| run(scenario, Scheme::LOSSLESS, &flows).flows);
    let wait = waited[0].posted.since(waited[0].spec.start);
    let rtt = managed.long_haul.rtt();
    assert!(wait >= rtt && wait < rtt + Span::from_micros(20), "{wait:?} of {rtt:?}");
    // Its time is told with the connection, and without.
    assert_eq!(waited[0].fct_with_setup(), waited[0].fct().map(|fct| fct + wait));
    assert_eq!(waited[1].fct_with_setup(), waited[1].fct());
    assert_eq!(at_once[0].posted, at_once[0].spec.start);
    assert_eq!(waited[1].posted, waited[1].spec.start, "on the same queue pair");
    // The RTU leaves before its first packet: 342 bytes at 10 Gbit/s.
    let rtu = waited[0].fct().expect("it ends") - at_once[0].fct().expect("it ends");
    assert!(rtu < Span::from_nanos(300), "{rtu:?}");
    assert_eq!(waited[1].fct(), at_once[1].fct());
}

#[test]
fn what_is_lost_of_an_exchange_is_sent_again() {
    let scenario = managed(LossModel::Bernoulli(0.3));
    // All at the same time, so that each needs a queue pair of its own.
    let flows = [flow(0, 0, 1, 1); 40];
    for scheme in [Scheme::GBN, Scheme::IRN, Scheme::SLR, Scheme::LR2_PAPER, Scheme::AUTO] {
        let result = run(&scenario, scheme, &flows);
        let at_once = scenario.long_haul.rtt() + Span::from_millis(1);
        let waits = result.flows.iter().map(|flow| flow.posted.since(flow.spec.start));
        let late = waits.filter(|wait| *wait > at_once).count();
        // A REQ or its REP: half of them.
        assert!((10..=30).contains(&late), "{late} of 40 waited for a repeat, {scheme:?}");
        assert!(result.flows.iter().all(|flow| flow.completed.is_some()), "{scheme:?}");
        if scheme == Scheme::AUTO {
            // At either gateway; RTUs of lost REPs are repeats, too.
            assert_eq!(count(&result, "lr2_flow_events_total{event=\"connected\"}"), 80);
        }
    }
}

/// The first round trip of a queue pair is protected like any other, once the gateways
/// have heard each other: an earlier message of the same hosts sees to that.
#[test]
fn no_source_hears_of_what_is_lost_on_a_new_connection() {
    let scenario = managed(LossModel::Bernoulli(1e-2));
    let later = 100_000..100_030;
    let flows: Vec<_> =
        core::iter::once(flow(0, 0, 1, 1)).chain(later.map(|n| flow(n, 0, 1, 500_000))).collect();
    for scheme in [Scheme::CACHED, Scheme::AUTO] {
        let result = run(&scenario, scheme, &flows);
        let hosts = result.hosts;
        assert!(result.long_haul.lost_packets > 50, "{}", result.long_haul.lost_packets);
        assert_eq!((hosts.naks, hosts.repeated, hosts.timeouts), (0, 0, 0), "{scheme:?}");
        assert_eq!(count(&result, "lr2_flow_events_total{event=\"paired\"}"), 60);
    }
}
