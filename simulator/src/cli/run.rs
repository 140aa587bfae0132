//! `lr2-sim run`.

use std::path::PathBuf;

use clap::Args;

use super::choice::Choice;
use super::{Failure, Runner, describe, runs, tables};
use crate::report::{self, Part, Report, Study};

/// The scenario, and the files for the results.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    choice: Choice,
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
    let scenario = options.choice.load(&[]).map_err(|report| Failure::usage(report.to_string()))?;
    let Options { json, csv, flows, report: html, .. } = options;
    super::writable([json, csv, flows, html].map(Option::as_ref))?;

    let scenarios = [scenario];
    let results =
        runs::all(&scenarios, options.choice.jobs, runner)?.into_iter().flatten().collect();
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
