//! Results for programs.
//!
//! Names end in their unit (`_us`, `_bytes`, `_bps`); shares are from 0 to 1. `null` stands for
//! an event that did not end, or for a measure of no events (its `count` is 0).

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Parameter, Study, Sweep, series};
use crate::results::Summary;

#[derive(Serialize)]
struct StudyJson<'a> {
    scenario: &'a str,
    about: &'a str,
    parameters: &'a [Parameter],
    schemes: Vec<SchemeJson>,
}

#[derive(Serialize)]
struct SchemeJson {
    #[serde(flatten)]
    summary: Summary,
    /// The counters of the product's gateways, in all runs.
    gateway_counters: BTreeMap<String, u64>,
    series: SeriesJson,
}

/// The data of plots.
#[derive(Serialize)]
struct SeriesJson {
    /// (completion time, share of the messages that took no longer).
    fct_us_cdf: Vec<(f64, f64)>,
    /// (recovery time, share of the packets that took no longer).
    recovery_us_cdf: Vec<(f64, f64)>,
    /// The run with the first seed.
    pools: Vec<series::PoolPoint>,
}

/// A study: its summaries, and the series that its plots show.
pub fn json(study: &Study) -> String {
    let of_scheme = |summary: Summary| {
        let (scheme, results) = (summary.scheme, &study.results);
        let series = SeriesJson {
            fct_us_cdf: series::fct_us(scheme, results),
            recovery_us_cdf: series::recovery_us(scheme, results),
            pools: series::pools(scheme, results),
        };
        let mut gateway_counters = BTreeMap::new();
        for run in results.iter().filter(|run| run.scheme == scheme) {
            for (name, count) in &run.counters {
                *gateway_counters.entry(name.clone()).or_default() += count;
            }
        }
        SchemeJson { summary, gateway_counters, series }
    };
    text(&StudyJson {
        scenario: &study.scenario,
        about: &study.about,
        parameters: &study.parameters,
        schemes: study.summaries().into_iter().map(of_scheme).collect(),
    })
}

/// A sweep: the summaries at each of its points.
pub fn json_sweep(sweep: &Sweep) -> String {
    text(sweep)
}

fn text(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value);
    let mut text = text.expect("plain data with names for keys is always JSON");
    text.push('\n');
    text
}
