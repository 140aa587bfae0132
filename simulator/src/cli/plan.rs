//! `lr2-sim plan`.

use std::path::{Path, PathBuf};

use clap::Args;
use link::LossModel;

use super::{Failure, Runner, runs};
use crate::input;
use crate::plan::{Question, Simulated, text};
use crate::results::Summary;

/// The link, and its load.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    question: Question,
    /// Also simulate messages of these sizes: websearch, hadoop, alistorage or a file
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// How many messages that simulation has
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    messages: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn execute(options: &Options, runner: &impl Runner) -> Result<String, Failure> {
    let question = options.question;
    if question.burst > 1.0
        && let Err(error) = LossModel::bursts(question.loss, question.burst)
    {
        return Err(Failure::usage(format!("--burst: {error}")));
    }
    let mut plan = question.answer();
    if let Some(workload) = &options.workload {
        plan.simulated = Some(simulate(&question, workload, options.messages, runner)?);
    }
    if options.json {
        let json = serde_json::to_string_pretty(&plan);
        return json.map(|text| text + "\n").map_err(|error| Failure::of_run(error.to_string()));
    }
    Ok(text(&plan))
}

fn simulate(
    question: &Question,
    workload: &str,
    messages: u32,
    runner: &impl Runner,
) -> Result<Simulated, Failure> {
    let toml = question.scenario(workload, messages);
    // Its folder is the current one, where the user's file is.
    let scenario = input::parse(Path::new("--workload"), &toml, &[]).map_err(|report| {
        let lines = report
            .problems
            .iter()
            .map(|p| format!("--workload: found {}; allowed: {}", p.found, p.allowed));
        Failure::usage(lines.collect::<Vec<_>>().join("\n"))
    })?;
    let scenarios = [scenario];
    let results: Vec<_> = runs::all(&scenarios, 0, runner)?.into_iter().flatten().collect();
    let summaries = scenarios[0].schemes.iter().filter_map(|s| Summary::of(*s, &results));
    let path = PathBuf::from(workload);
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Simulated {
        about: format!("{messages} messages, sizes of {name}, half of the link's rate offered"),
        summaries: summaries.collect(),
    })
}
