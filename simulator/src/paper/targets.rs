//! What the product set out to reach, met or missed.

use super::Found;
use super::markdown::{prose, table};
use super::published::ratio;
use crate::report::format::number;
use crate::results::Summary;
use crate::scheme::Scheme;

/// Mean completion time at [`LOSS`], as a multiple of that without loss.
const MEAN: f64 = 1.05;
/// 99th percentile likewise, and one round trip on top.
const P99: f64 = 1.15;
/// Where both are asked for.
const LOSS: f64 = 1e-3;

pub(super) fn section(workloads: &[(&str, Vec<&Found>)]) -> String {
    let mut text = "### Targets\n\n".to_owned();
    text += &prose(
        "Set for `lr2` and `cached`: at a loss of 1e-3 a mean completion time of at most 1.05 times \
         that of the lossless link, and a 99th percentile of at most 1.15 times its own and a round \
         trip; and better than LR2 as published everywhere.",
    );
    let mut rows = Vec::new();
    for (name, found) in workloads {
        for found in found.iter().filter(|found| found.setting.x == LOSS) {
            rows.extend([Scheme::Lr2, Scheme::Cached].iter().filter_map(|s| row(name, found, *s)));
        }
    }
    let heads =
        ["workload, delay, loss", "scheme", "mean / lossless", "p99 / (1.15 lossless + RTT)"];
    text += &table(&heads, &rows);
    text += "\n";
    for scheme in [Scheme::Lr2, Scheme::Cached] {
        text += &against_published(workloads, scheme);
    }
    text
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "**missed**" }
}

fn row(name: &str, found: &Found, scheme: Scheme) -> Option<Vec<String>> {
    let mean = ratio(found, |s| s.main().fct_us.mean, scheme, Scheme::Lossless);
    let p99 = |scheme| found.scheme(scheme)?.main().fct_us.p99;
    let rtt = found.setting.scenario.long_haul.rtt().as_nanos() as f64 / 1e3;
    let tail = p99(scheme).zip(p99(Scheme::Lossless)).map(|(us, ideal)| us / (P99 * ideal + rtt));
    let cell = |value: Option<f64>, most: f64| match value {
        Some(value) => format!("{}, {}", number(value), verdict(value <= most)),
        None => format!("not done, {}", verdict(false)),
    };
    Some(vec![
        format!("{name}, {}", found.setting.label),
        scheme.name().to_owned(),
        cell(mean, MEAN),
        cell(tail, 1.0),
    ])
}

/// Where `scheme` is not better than LR2 as published.
fn against_published(workloads: &[(&str, Vec<&Found>)], scheme: Scheme) -> String {
    type Of = fn(&Summary) -> Option<f64>;
    let figures: [(&str, Of); 2] =
        [("mean", |s| s.main().fct_us.mean), ("p99", |s| s.main().fct_us.p99)];
    let (mut worse, mut all) = (Vec::new(), 0);
    for (name, found) in workloads {
        for found in found {
            for (figure, of) in figures {
                all += 1;
                match ratio(found, of, scheme, Scheme::Lr2Paper) {
                    Some(ratio) if ratio <= 1.0 => {}
                    Some(ratio) => worse.push(format!(
                        "{name}, {}: {figure} {} times as long",
                        found.setting.label,
                        number(ratio)
                    )),
                    // Nothing to compare with is nothing to be ashamed of.
                    None if found.scheme(scheme).and_then(of).is_some() => {}
                    None => worse.push(format!("{name}, {}: not done", found.setting.label)),
                }
            }
        }
    }
    let name = scheme.name();
    if worse.is_empty() {
        return prose(&format!(
            "Against `lr2-paper`, mean and 99th percentile in all settings: `{name}` is better in \
             all {all} of them: **met**."
        ));
    }
    let list: Vec<String> = worse.iter().map(|line| format!("- {line}\n")).collect();
    let head = prose(&format!(
        "Against `lr2-paper`, mean and 99th percentile in all settings: `{name}` is not better in \
         {} of {all}: **missed**. These are:",
        worse.len()
    ));
    format!("{head}{}\n", list.concat())
}
