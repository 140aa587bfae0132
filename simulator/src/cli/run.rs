//! `lr2-sim run`.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, Runner, describe, runs, tables};
use crate::report::{self, Part, Report, Study};
use crate::scenario;
use crate::scheme::Scheme;

/// What to run, and where the results go.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The scenario (TOML)
    #[arg(value_name = "SCENARIO.toml")]
    scenario: PathBuf,
    /// Seed of a run, whatever the scenario says; may be repeated
    #[arg(long, value_name = "N")]
    seed: Vec<u64>,
    /// Scheme to run, whatever the scenario says; may be repeated
    #[arg(long, value_name = "NAME", value_parser = super::scheme)]
    scheme: Vec<Scheme>,
    /// Runs at a time [default: one per CPU]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    jobs: usize,
    /// Write all figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the figures of each scheme by message size as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write every message as CSV
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
    /// Write a report with plots, one file of HTML
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub(super) fn execute(options: &Options, runner: &impl Runner) -> Result<String, Failure> {
    let mut scenario = scenario::load(&options.scenario, &[])
        .map_err(|report| Failure::usage(report.to_string()))?;
    replace(&mut scenario.schemes, &options.scheme);
    replace(&mut scenario.seeds, &options.seed);
    let Options { json, csv, flows, report: html, .. } = options;
    super::writable([json, csv, flows, html].map(Option::as_ref))?;

    let scenarios = [scenario];
    let results = runs::all(&scenarios, options.jobs, runner)?.into_iter().flatten().collect();
    let [scenario] = scenarios;
    let study = Study {
        parameters: describe::parameters(&scenario),
        scenario: scenario.name,
        about: scenario.about,
        results,
    };
    super::write(json.as_ref(), || report::json(&study))?;
    super::write(csv.as_ref(), || report::csv_summary(&study))?;
    super::write(flows.as_ref(), || report::csv_flows(&study))?;
    let text = tables::study(&study);
    super::write(html.as_ref(), || {
        report::html(&Report {
            title: study.scenario.clone(),
            about: study.about.clone(),
            parts: vec![Part::Study(study)],
        })
    })?;
    Ok(text)
}

/// Puts what the command line says, each once, in place of `values`.
pub(super) fn replace<T: Copy + PartialEq>(values: &mut Vec<T>, given: &[T]) {
    if given.is_empty() {
        return;
    }
    values.clear();
    for value in given {
        if !values.contains(value) {
            values.push(*value);
        }
    }
}
