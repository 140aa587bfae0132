//! `lr2-sim plan`.

use std::path::{Path, PathBuf};

use clap::Args;
use common::time::Span;
use link::LossModel;
use settings::sizing::PMTUS;
use settings::units;

use super::{Failure, Runner, runs};
use crate::plan::{Question, Simulated, text};
use crate::results::Summary;
use crate::scenario;

/// The link, and its load.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// Rate of the long-haul link, and of the NICs
    #[arg(long, value_parser = rate)]
    rate: u64,
    /// Round trip of the long-haul link
    #[arg(long, value_name = "TIME", value_parser = rtt)]
    rtt: Span,
    /// Share of packets that the link loses, e.g. 1e-3 or 0.1%
    #[arg(long, value_name = "SHARE", value_parser = loss)]
    loss: f64,
    /// Mean length of bursts of loss
    #[arg(long, value_name = "PACKETS", default_value_t = 1.0, value_parser = burst)]
    burst: f64,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = pmtu)]
    pmtu: u16,
    /// Long flows that share the link
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: u32,
    /// Round trip between a host and its gateway
    #[arg(long, value_name = "TIME", default_value = "20us", value_parser = units::duration)]
    lan_rtt: Span,
    /// Packets that a queue pair may have unacknowledged [default: enough for the link]
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    window: Option<u32>,
    /// Retransmission timeout of the RNICs [default: the next that is at least 4 round trips]
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    timeout: Option<Span>,
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
    if options.burst > 1.0
        && let Err(error) = LossModel::bursts(options.loss, options.burst)
    {
        return Err(Failure::usage(format!("--burst: {error}")));
    }
    let question = Question {
        rate_bps: options.rate,
        rtt: options.rtt,
        loss: options.loss,
        burst: options.burst,
        pmtu: options.pmtu,
        flows: options.flows,
        lan_rtt: options.lan_rtt,
        window: options.window,
        timeout: options.timeout,
    };
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
    let scenario = scenario::parse(Path::new("--workload"), &toml, &[]).map_err(|report| {
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

/// Within `min ..= max`, or an error that names `allowed`.
fn within<T: PartialOrd>(value: T, min: T, max: T, allowed: &str) -> Result<T, String> {
    if value >= min && value <= max { Ok(value) } else { Err(format!("expected {allowed}")) }
}

fn rate(text: &str) -> Result<u64, String> {
    within(units::rate_or_bits(text)?, 1_000_000, 10_000_000_000_000, "1Mbps to 10Tbps")
}

fn rtt(text: &str) -> Result<Span, String> {
    let (min, max) = (Span::from_micros(1), Span::from_millis(10_000));
    within(units::duration(text)?, min, max, "1us to 10s")
}

fn timeout(text: &str) -> Result<Span, String> {
    let (min, max) = (Span::from_micros(4), Span::from_millis(10_000_000));
    within(units::duration(text)?, min, max, "4us to 10000s")
}

fn loss(text: &str) -> Result<f64, String> {
    within(units::share(text)?, 0.0, 0.5, "0 to 0.5")
}

fn burst(text: &str) -> Result<f64, String> {
    let burst = text.parse().map_err(|_| format!("{text:?} is no number of packets"))?;
    within(burst, 1.0, 1e6, "1 to 1000000 packets")
}

fn pmtu(text: &str) -> Result<u16, String> {
    let allowed = || "expected 256, 512, 1024, 2048 or 4096".to_owned();
    let pmtu: u16 = text.parse().map_err(|_| allowed())?;
    if PMTUS.contains(&pmtu.into()) { Ok(pmtu) } else { Err(allowed()) }
}
