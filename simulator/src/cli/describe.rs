//! A scenario for the reader.

use link::LossModel;
use settings::units::{show_duration, show_rate, show_size};

use crate::report::Parameter;
use crate::report::format::number;
use crate::scenario::{Scenario, Scope, Topology, Traffic};
use crate::text::percent;

/// The most important parameters of a scenario.
pub(super) fn parameters(s: &Scenario) -> Vec<Parameter> {
    let link = &s.long_haul;
    let mut loss = loss_of(&link.loss);
    if link.loss_back != link.loss {
        loss = format!("{loss}; back: {}", loss_of(&link.loss_back));
    }
    let mut out = vec![
        Parameter::new("topology", topology(s.topology)),
        Parameter::new(
            "long haul",
            format!("{}, {} one way", show_rate(link.rate), show_duration(link.delay)),
        ),
        Parameter::new("loss", loss),
        Parameter::new(
            "hosts",
            format!(
                "{}, path MTU {}, {}",
                show_rate(s.site.host_rate),
                s.nic.pmtu,
                match s.nic.dcqcn {
                    Some(_) => "DCQCN",
                    None => "no congestion control",
                }
            ),
        ),
    ];
    out.extend(s.traffic.iter().map(|traffic| Parameter::new("traffic", traffic_of(traffic))));
    let seeds: Vec<_> = s.seeds.iter().map(u64::to_string).collect();
    out.push(Parameter::new(if seeds.len() == 1 { "seed" } else { "seeds" }, seeds.join(", ")));
    out
}

/// The parameters that all of `scenarios` share.
pub(super) fn common(scenarios: &[Scenario]) -> Vec<Parameter> {
    let mut lists = scenarios.iter().map(parameters);
    let mut common = lists.next().unwrap_or_default();
    for list in lists {
        common.retain(|parameter| list.contains(parameter));
    }
    common
}

fn topology(topology: Topology) -> String {
    match topology {
        Topology::Pair => "a host at each end".into(),
        Topology::Dumbbell { hosts } => format!("{hosts} hosts at each end, behind one switch"),
        Topology::LeafSpine { leaves, spines, hosts_per_leaf, long_hauls } => format!(
            "two sites of {leaves} leaves with {hosts_per_leaf} hosts each and {spines} spines, \
             long-haul links: {long_hauls}"
        ),
    }
}

fn loss_of(model: &LossModel) -> String {
    match *model {
        LossModel::None => "none".into(),
        LossModel::Bernoulli(p) => percent(p),
        LossModel::GilbertElliott { to_good, .. } => {
            format!("{} in bursts of {}", percent(model.mean()), number(1.0 / to_good))
        }
    }
}

fn traffic_of(traffic: &Traffic) -> String {
    match traffic {
        Traffic::Long { bytes, flows: 1 } => format!("one message of {}", show_size(*bytes)),
        Traffic::Long { bytes, flows } => {
            format!("{flows} messages of {} at once", show_size(*bytes))
        }
        Traffic::Poisson { sizes, load, flows, scope } => {
            let scope = match scope {
                Scope::Forward => "from site 0 to site 1",
                Scope::Between => "between the sites",
                Scope::Within => "within the sites",
            };
            format!("{flows} messages {scope}, sizes of {}, load {}", sizes.name, percent(*load))
        }
        Traffic::Rounds { flows, bytes, rounds, gap } => format!(
            "{rounds} rounds of {flows} messages of {} at once, {} in between",
            show_size(*bytes),
            show_duration(*gap)
        ),
        Traffic::Incast { flows, bytes, spread } => format!(
            "{flows} messages of {} to one host within {}",
            show_size(*bytes),
            show_duration(*spread)
        ),
        Traffic::Trace(flows) => format!("a trace of {} messages", flows.len()),
    }
}
