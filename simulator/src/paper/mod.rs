//! The evaluation that `lr2-sim paper` runs and writes a page on: closed forms
//! against simulation, the published evaluation of LR2, and further settings.
//!
//! [`settings()`] lists the simulations, its caller runs them, and
//! [`Page::of`] makes words, tables and figures of the results. Nothing of the
//! page depends on the clock or the machine.

mod beyond;
mod budget;
mod closed;
mod congestion;
mod data;
mod embed;
mod evaluation;
mod fabric;
pub mod forms;
mod lose;
mod markdown;
pub mod never_worse;
mod page;
mod paired;
mod published;
mod source;
mod targets;
mod within;

use std::path::Path;

use crate::input;
use crate::results::{RunResult, Summary, half_width};
use crate::scenario::Scenario;
use crate::scheme::Scheme;

pub use closed::{Closed, Job};
pub use page::Page;

/// A part of the evaluation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// One long flow against the closed forms.
    Forms,
    /// The evaluation of the LR2 paper.
    Published,
    /// Other distances, rates, losses, numbers of flows.
    Beyond,
    /// Congested LANs, against go-back-N; a page of its own.
    NeverWorse,
}

impl Part {
    /// All of them, in the order of the page.
    pub const ALL: [Self; 4] = [Self::Forms, Self::Published, Self::Beyond, Self::NeverWorse];

    /// The word for it on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forms => "forms",
            Self::Published => "published",
            Self::Beyond => "beyond",
            Self::NeverWorse => "never-worse",
        }
    }
}

/// How much is simulated.
#[derive(Clone, PartialEq, Debug)]
pub struct Effort {
    /// Whether this is the short version.
    pub is_quick: bool,
    /// Packets sent per cell of the closed forms.
    pub packets: u64,
    /// One-way delays of the published evaluation, microseconds, rising.
    pub delays_us: Vec<u32>,
    /// Losses of the published evaluation, rising.
    pub losses: Vec<f64>,
    /// Messages per run: web search, Hadoop, AliStorage.
    pub messages: [u32; 3],
    /// Runs with seeds of their own per setting of the published evaluation.
    pub seeds: u64,
    /// Rate of the links beyond on which loss changes, Gbit/s.
    pub rate_gbps: u32,
    /// Length of a message beyond, in bandwidth-delay products.
    pub products: f64,
    /// Virtual time after which a run beyond is given up, as a multiple of the time of
    /// its message on a link without loss.
    pub patience: u32,
    /// Largest bandwidth-delay product that is simulated, bytes.
    pub largest: u64,
    /// Seeds per cell of the comparison with go-back-N on congested LANs.
    pub cell_seeds: u64,
}

impl Effort {
    /// Some twenty minutes on two cores.
    pub fn full() -> Self {
        Self {
            is_quick: false,
            packets: 300_000,
            delays_us: vec![400, 800],
            losses: vec![1e-3, 3e-3, 1e-2],
            messages: [250, 1_000, 2_000],
            seeds: 4,
            rate_gbps: 100,
            products: 4.0,
            patience: 6,
            largest: 500_000_000,
            cell_seeds: 8,
        }
    }

    /// Five minutes on two cores.
    pub fn quick() -> Self {
        Self {
            is_quick: true,
            packets: 60_000,
            delays_us: vec![400, 800],
            losses: vec![1e-3, 1e-2],
            messages: [50, 600, 1_200],
            seeds: 2,
            rate_gbps: 25,
            products: 3.0,
            patience: 5,
            largest: 50_000_000,
            cell_seeds: 2,
        }
    }
}

/// A point of the evaluation that is simulated with each scheme of its scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// Where it belongs.
    pub part: Part,
    /// The table or figure that it is a point of.
    pub series: &'static str,
    /// The value that changes from point to point, as a number and as it is written.
    pub x: f64,
    /// As above.
    pub label: String,
    /// The simulated scenario.
    pub scenario: Scenario,
}

/// Results of a setting.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The simulated setting.
    pub setting: Setting,
    /// One per scheme.
    pub summaries: Vec<Summary>,
    /// Mean over time of the fullest reordering pool, bytes, one per
    /// scheme.
    pub mean_reorder: Vec<f64>,
}

impl Found {
    /// Results of `setting`.
    pub fn of(setting: Setting, results: &[RunResult]) -> Self {
        let schemes = setting.scenario.schemes.iter();
        let summaries: Vec<_> = schemes.filter_map(|s| Summary::of(*s, results)).collect();
        let mean = |summary: &Summary| {
            let runs = results.iter().filter(|run| run.scheme == summary.scheme);
            let samples: Vec<_> = runs.flat_map(|run| &run.pools).collect();
            let sum: f64 = samples.iter().map(|sample| sample.held.reorder_bytes as f64).sum();
            sum / samples.len().max(1) as f64
        };
        let mean_reorder = summaries.iter().map(mean).collect();
        Self { setting, summaries, mean_reorder }
    }

    /// How many times as long as under `base` messages take on average under `scheme`:
    /// all runs together, and half of the width of the 95 % confidence interval of the mean
    /// of the runs' ratios, which have the same messages.
    pub fn times(&self, scheme: Scheme, base: Scheme) -> Option<(f64, Option<f64>)> {
        let (own, other) = (self.scheme(scheme)?.main(), self.scheme(base)?.main());
        let pairs = own.seed_means_us.iter().zip(&other.seed_means_us);
        let ratios: Vec<f64> = pairs.map(|(own, other)| own / other).collect();
        Some((own.fct_us.mean? / other.fct_us.mean?, half_width(&ratios)))
    }

    /// The same against the lossless link.
    pub fn times_lossless(&self, scheme: Scheme) -> Option<(f64, Option<f64>)> {
        self.times(scheme, Scheme::LOSSLESS)
    }

    /// Results of `scheme`.
    pub fn scheme(&self, scheme: Scheme) -> Option<&Summary> {
        self.summaries.iter().find(|summary| summary.scheme == scheme)
    }
}

/// All that `parts` are about, seeds counted from `seed`.
///
/// # Errors
/// If a setting is none that a scenario file may have: a mistake here.
pub fn settings(effort: &Effort, seed: u64, parts: &[Part]) -> Result<Vec<Setting>, String> {
    let mut all = Vec::new();
    if parts.contains(&Part::Published) {
        all.extend(evaluation::settings(effort, seed)?);
    }
    if parts.contains(&Part::Published) {
        all.extend(congestion::settings(effort, seed)?);
        all.extend(within::settings(effort, seed)?);
        all.extend(budget::settings(effort, seed)?);
        all.extend(paired::settings(effort, seed)?);
    }
    if parts.contains(&Part::Beyond) {
        all.extend(beyond::settings(effort, seed)?);
        all.extend(fabric::settings(effort, seed)?);
    }
    Ok(all)
}

/// Those of `found` that belong to `series`.
fn of_series<'f>(found: &'f [Found], series: &str) -> Vec<&'f Found> {
    found.iter().filter(|found| found.setting.series == series).collect()
}

/// A scenario from the text of its file, so that all that is left open is as
/// in any other.
fn read(text: &str) -> Result<Scenario, String> {
    input::parse(Path::new("paper"), text, &[]).map_err(|report| report.to_string())
}
