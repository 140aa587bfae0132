//! `lr2-sim run`.

use std::path::PathBuf;

use clap::Args;

use super::choice::Choice;
use super::{Failure, Runner, cannot_write, describe, runs, tables};
use crate::capture::{Observer, Pcap, Trace};
use crate::report::{self, Part, Report, Study};
use crate::results::RunResult;
use crate::run::run_observed;
use crate::scenario::Scenario;

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
    /// Write every message: Apache Parquet if the name ends in .parquet, else CSV
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
    /// Write a report with plots, one file of HTML
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write every frame as pcapng, an interface per cable; of one scheme and seed
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Write a line of CSV per frame; of one scheme and seed
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

pub(super) fn execute(options: &Options, runner: &impl Runner) -> Result<String, Failure> {
    let scenario = options.choice.load(&[]).map_err(|report| Failure::usage(report.to_string()))?;
    let Options { json, csv, flows, report: html, pcap, trace, .. } = options;
    super::writable([json, csv, flows, html, pcap, trace].map(Option::as_ref))?;

    let (scenario, results) = match pcap.is_some() || trace.is_some() {
        true => {
            let result = observed(&scenario, pcap.as_ref(), trace.as_ref())?;
            (scenario, vec![result])
        }
        false => {
            let scenarios = [scenario];
            let results = runs::all(&scenarios, options.choice.jobs, runner)?;
            let [scenario] = scenarios;
            (scenario, results.into_iter().flatten().collect())
        }
    };
    let study = Study {
        parameters: describe::parameters(&scenario),
        scenario: scenario.name,
        about: scenario.about,
        results,
    };
    super::write(json.as_ref(), || report::json(&study))?;
    super::write(csv.as_ref(), || report::csv_summary(&study))?;
    let is_parquet = |file: &PathBuf| file.extension().is_some_and(|end| end == "parquet");
    super::write(flows.as_ref(), || match flows.as_ref().is_some_and(is_parquet) {
        true => report::parquet_flows(&study),
        false => report::csv_flows(&study).into_bytes(),
    })?;
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

/// The only run of `scenario`, with its frames in files.
fn observed(
    scenario: &Scenario,
    pcap: Option<&PathBuf>,
    trace: Option<&PathBuf>,
) -> Result<RunResult, Failure> {
    let ([scheme], [seed]) = (&scenario.schemes[..], &scenario.seeds[..]) else {
        let runs = scenario.schemes.len() * scenario.seeds.len();
        return Err(Failure::usage(format!(
            "--pcap, --trace: {runs} runs, one is expected; choose it with --scheme and --seed"
        )));
    };
    let mut observers: Vec<Box<dyn Observer>> = Vec::new();
    if let Some(file) = pcap {
        observers.push(Box::new(Pcap::create(file).map_err(|e| cannot_write(file, &e))?));
    }
    if let Some(file) = trace {
        observers.push(Box::new(Trace::create(file).map_err(|e| cannot_write(file, &e))?));
    }
    run_observed(scenario, *scheme, *seed, &mut observers).map_err(Failure::of_run)
}
