//! The tunnel with repair of the LANs, on LANs that lose packets.

use crate::support::{flow, is_long, scenario, with_flow_control};
use common::time::{Span, Time};
use link::LossModel;
use rayon::prelude::*;
use simulator::run::run_flows;
use simulator::scenario::{LanRepair, LossIn, Scenario, Topology};
use simulator::scheme::Scheme;
use simulator::traffic::FlowSpec;

/// Rounds whose messages the boxes learn the queue pairs from.
const WARM_UP: u32 = 2;

const SEEDS: u64 = 4;

/// Two messages in each round, each `gap` after those before.
fn rounds(count: u32, bytes: u64, gap: Span) -> Vec<FlowSpec> {
    let message =
        |round, host| FlowSpec { round, start: Time::ZERO + gap, ..flow(0, host, 4 + host, bytes) };
    (0..count).flat_map(|round| [0, 1].map(|host| message(round, host))).collect()
}

/// A scheme, and where the tunnel repairs the LANs.
type Variant = (Scheme, LanRepair);

const GBN: Variant = (Scheme::GBN, LanRepair::Off);
const OFF: Variant = (Scheme::TUNNEL, LanRepair::Off);
const AUTO: Variant = (Scheme::TUNNEL, LanRepair::Auto);
const ON: Variant = (Scheme::TUNNEL, LanRepair::On);

/// The messages of some seeds: the round and the completion time in milliseconds of each.
struct Completed(Vec<(u32, f64)>);

impl Completed {
    fn of(scenario: &Scenario, flows: &[FlowSpec], seeds: u64, (scheme, lan): Variant) -> Self {
        let mut scenario = scenario.clone();
        scenario.gateway.lan = lan;
        let of_seed = |seed| {
            let result = run_flows(&scenario, scheme, seed, flows).expect("it can be set up");
            result.flows.into_iter().map(|flow| {
                let fct = flow.fct().expect("every message ends");
                (flow.spec.round, 1e3 * fct.as_secs_f64())
            })
        };
        Self((1..=seeds).into_par_iter().flat_map_iter(of_seed).collect())
    }

    /// The mean completion time in milliseconds of messages from round `from` on.
    fn mean_ms(&self, from: u32) -> f64 {
        let counted = self.0.iter().filter(|(round, _)| *round >= from);
        let times: Vec<f64> = counted.map(|(_, time)| *time).collect();
        times.iter().sum::<f64>() / times.len() as f64
    }
}

fn lossy(loss_in: LossIn, loss: f64, delay_ms: u64, haul: LossModel) -> Scenario {
    let mut scenario = with_flow_control(scenario(Topology::Dumbbell { hosts: 4 }));
    (scenario.site.loss, scenario.site.loss_in) = (loss, loss_in);
    scenario.long_haul.delay = Span::from_millis(delay_ms);
    (scenario.long_haul.loss, scenario.long_haul.loss_back) = (haul, haul);
    scenario
}

/// With repair of the LANs, messages are no later than without, nor than without gateways. Where the
/// destination's LAN loses they take less than half the time.
#[test]
fn repair_of_the_lans_is_never_worse_than_none() {
    let flows = rounds(8, 2 << 20, Span::ZERO);
    let near = [LossIn::Source, LossIn::Destination, LossIn::Both];
    let settings = [(1, LossModel::None, &near[..]), (5, LossModel::Bernoulli(1e-3), &near[..2])];
    // Without `LR2_LONG=1` the long haul loses nothing.
    for (delay_ms, haul, sites) in settings.into_iter().take(if is_long() { 2 } else { 1 }) {
        for &loss_in in sites {
            let scenario = lossy(loss_in, 1e-3, delay_ms, haul);
            let [gbn, off, on] = [GBN, OFF, ON]
                .map(|variant| Completed::of(&scenario, &flows, SEEDS, variant).mean_ms(WARM_UP));
            let what =
                format!("{delay_ms} ms, {loss_in:?}: gbn {gbn:.2}, off {off:.2}, on {on:.2} ms");
            println!("{what}");
            assert!(on < off && on < gbn, "{what}");
            if loss_in == LossIn::Destination {
                assert!(on < 0.5 * off, "{what}");
            }
        }
    }
}

/// Where the LANs lose nothing, repair of the LANs costs next to nothing.
#[test]
fn repair_of_the_lans_costs_little_where_nothing_is_lost() {
    let flows = rounds(8, 2 << 20, Span::ZERO);
    let scenario = lossy(LossIn::Both, 0.0, 1, LossModel::Bernoulli(1e-3));
    let [gbn, off, auto, on] = [GBN, OFF, AUTO, ON]
        .map(|variant| Completed::of(&scenario, &flows, SEEDS, variant).mean_ms(WARM_UP));
    println!("gbn {gbn:.2}, off {off:.2}, auto {auto:.2}, on {on:.2} ms");
    assert!(on < 1.03 * off && auto < 1.03 * off && off < gbn);
}

/// `auto` looks at the packets of two hosts once the tunnel can no longer resend responses from before: some seconds
/// behind the first NAK. From then on it is as `on`.
#[test]
fn auto_repairs_a_lan_that_goes_on_losing() {
    let flows = rounds(90, 1 << 20, Span::from_millis(100));
    let scenario = lossy(LossIn::Destination, 1e-3, 1, LossModel::None);
    // Sixty messages of a seed are counted.
    let seeds = if is_long() { SEEDS } else { 2 };
    let completed =
        [GBN, OFF, AUTO, ON].map(|variant| Completed::of(&scenario, &flows, seeds, variant));
    let [gbn, off, auto, on] = completed.each_ref().map(|completed| completed.mean_ms(60));
    println!("gbn {gbn:.2}, off {off:.2}, auto {auto:.2}, on {on:.2} ms");
    assert!(auto < 1.1 * on && on < 0.7 * off && off < 1.1 * gbn);
    // All messages: not worse before either.
    let [gbn, off, auto, _] = completed.map(|completed| completed.mean_ms(0));
    assert!(auto < off && auto < gbn, "{auto} {off} {gbn}");
}
