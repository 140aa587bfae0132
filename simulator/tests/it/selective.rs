//! Limits of mode `lr2`: RNICs with selective repeat, and windows that are shorter than the path.

use std::sync::LazyLock;

use common::time::Span;
use link::LossModel;
use rayon::prelude::*;
use rnic::{NicConfig, QpConfig};
use simulator::node::{Middlebox, Rnic};
use simulator::results::RunResult;
use simulator::run::run_flows;
use simulator::scenario::{Scenario, Topology};
use simulator::scheme::Scheme;
use simulator::schemes::{self, Class, Look, Marker, Place, Profile, SchemeModel};

use crate::support::{flow, scenario};

/// RNICs with selective repeat behind the gateways of another scheme.
struct Selective {
    name: &'static str,
    boxes: Scheme,
    color: u32,
}

impl SchemeModel for Selective {
    fn profile(&self) -> Profile {
        let Self { name, color, .. } = *self;
        let look = Look { light: color, dark: color, dashes: "", width: 1, marker: Marker::Down };
        Profile { name, about: "Selective repeat behind gateways.", class: Class::Ours, look }
    }

    fn gateway(&self, place: &Place<'_>) -> Box<dyn Middlebox> {
        schemes::model(self.boxes).gateway(place)
    }

    fn rnic(&self, scenario: &Scenario, config: NicConfig) -> Box<dyn Rnic> {
        schemes::model(Scheme::IRN).rnic(scenario, config)
    }

    fn queue_pair(&self, scenario: &Scenario, config: QpConfig) -> QpConfig {
        schemes::model(Scheme::IRN).queue_pair(scenario, config)
    }
}

static BEHIND_LR2: LazyLock<Scheme> = LazyLock::new(|| {
    schemes::register(&Selective { name: "irn-lr2", boxes: Scheme::LR2, color: 1 })
});
static BEHIND_AUTO: LazyLock<Scheme> = LazyLock::new(|| {
    schemes::register(&Selective { name: "irn-auto", boxes: Scheme::AUTO, color: 2 })
});

/// Runs one message of so many bytes over 10 Gbit/s, with losses both ways, for each of six seeds.
fn play(
    scheme: Scheme,
    bytes: u64,
    loss: f64,
    change: impl Fn(&mut Scenario) + Sync,
) -> Vec<RunResult> {
    let seeds: Vec<u64> = (1..=6).collect();
    let one = |seed: &u64| {
        let mut scenario = scenario(Topology::Pair);
        scenario.long_haul.loss = LossModel::Bernoulli(loss);
        scenario.long_haul.loss_back = LossModel::Bernoulli(loss);
        scenario.limit = Span::from_millis(6_000);
        change(&mut scenario);
        run_flows(&scenario, scheme, *seed, &[flow(0, 0, 1, bytes)]).expect("it can be set up")
    };
    seeds.par_iter().map(one).collect()
}

/// Mean completion time in milliseconds, and the timeouts of the RNICs in all runs.
fn figures(results: &[RunResult]) -> (f64, u64) {
    let took = |result: &RunResult| {
        let flow = &result.flows[0];
        flow.completed.expect("it ends").since(flow.posted).as_secs_f64() * 1e3
    };
    let mean = results.iter().map(took).sum::<f64>() / results.len() as f64;
    (mean, results.iter().map(|result| result.hosts.timeouts).sum())
}

/// An RNIC that repeats single packets makes no pass over the packets that the Depot lacks.
// R-FILTER-15, R-FILTER-16
#[test]
fn an_rnic_with_selective_repeat_is_left_alone_by_lr2() {
    let of = |scheme| play(scheme, 12_000_000, 1e-2, |_| ());
    let [alone, lr2, auto] = [Scheme::IRN, *BEHIND_LR2, *BEHIND_AUTO].map(of);
    let [(alone, _), (behind, _), (auto, _)] = [&alone, &lr2, &auto].map(|runs| figures(runs));
    println!("alone {alone:.1}, behind lr2 {behind:.1}, behind auto {auto:.1} ms");
    // It is known only after the first losses. Without the rule: eight times as long.
    assert!(behind < 2.0 * alone);
    assert!(auto < 1.02 * alone);
    let event = "lr2_flow_events_total{event=\"selective_repeat\"}";
    for run in lr2 {
        assert!(run.counters.contains(&(event.into(), 1)), "{:?}", run.counters);
    }
}

/// The source fills its window before the Sentry has seen a response of this flow. The Sentry sends it a NAK all the same.
// R-PAIR-8
#[test]
fn a_window_shorter_than_the_path_is_no_slower_in_lr2() {
    for (window, loss) in [(64, 1e-2), (512, 1e-3), (2_048, 1e-3)] {
        let of = |scheme| {
            let runs = play(scheme, 8_000_000, loss, |scenario| {
                scenario.long_haul.delay = Span::from_millis(5);
                scenario.nic.window = Some(window);
                scenario.nic.ack_req_every = 16;
            });
            figures(&runs)
        };
        let [(plain, expired), (lr2, more)] = [Scheme::GBN, Scheme::LR2].map(of);
        println!("{window}: go-back-N {plain:.1} ms, {expired} timeouts; lr2 {lr2:.1}, {more}");
        assert!(lr2 < 1.02 * plain && more <= expired, "{window}");
    }
}
