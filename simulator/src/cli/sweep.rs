//! `lr2-sim sweep`.

use std::path::PathBuf;

use clap::Args;
use settings::units;

use super::choice::Choice;
use super::{Failure, Runner, describe, runs, tables};
use crate::input::{Varied, override_key};
use crate::report::{self, Part, Report, Sweep, SweepPoint};
use crate::results::{RunResult, Summary};
use crate::scenario::Scenario;
use crate::schemes;

/// Runs that are certainly a mistake.
const MOST_POINTS: usize = 10_000;

/// The values to vary, and the files for the results.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    choice: Choice,
    /// A key of the scenario and its values, e.g. loss=1e-4,1e-3 or
    /// nic.window=512,1024; once or twice. Short names: rate, rtt, delay,
    /// jitter, loss, burst, pmtu, window, timeout, hosts, load, flows, bytes,
    /// sizes
    #[arg(long, value_name = "KEY=VALUE,...", required = true, value_parser = Varied::parse)]
    over: Vec<Varied>,
    /// Write all figures as JSON: one sweep, or a list of them
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the figures of each scheme by message size as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a report with plots, one file of HTML
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub(super) fn execute(options: &Options, runner: &impl Runner) -> Result<String, Failure> {
    // Of two parameters the first is the axis; each value of the second has a
    // sweep of its own.
    let (axis, other) = match &options.over[..] {
        [axis] => (axis, None),
        [axis, other] if override_key(&axis.name) != override_key(&other.name) => {
            (axis, Some(other))
        }
        [_, other] => {
            return Err(Failure::usage(format!("--over {}: once is enough", other.name)));
        }
        _ => return Err(Failure::usage("--over: at most two keys at a time")),
    };
    let outer = other.map_or(1, |other| other.values.len());
    if outer * axis.values.len() > MOST_POINTS {
        return Err(Failure::usage(format!("--over: more than {MOST_POINTS} combinations")));
    }
    let scenarios = scenarios(options, axis, other)?;
    let Options { json, csv, report: html, .. } = options;
    super::writable([json, csv, html].map(Option::as_ref))?;

    let results = runs::all(&scenarios, options.choice.jobs, runner)?;
    let per_sweep = axis.values.len();
    let sweeps: Vec<Sweep> = scenarios
        .chunks(per_sweep)
        .zip(results.chunks(per_sweep))
        .enumerate()
        .map(|(n, (scenarios, results))| sweep(axis, other.map(|o| (o, n)), scenarios, results))
        .collect();
    super::write(json.as_ref(), || match &sweeps[..] {
        [sweep] => report::json_sweep(sweep),
        sweeps => {
            let each: Vec<_> = sweeps.iter().map(report::json_sweep).collect();
            format!("[\n{}]\n", each.join(",\n"))
        }
    })?;
    let outer = other.map(|other| (&*other.name, &other.values[..]));
    super::write(csv.as_ref(), || report::csv_sweeps(&sweeps, outer))?;
    let text = sweeps.iter().map(tables::sweep).collect::<Vec<_>>().join("\n");
    super::write(html.as_ref(), || {
        report::html(&Report {
            title: format!("{} over {}", scenarios[0].name, axis.name),
            about: scenarios[0].about.clone(),
            parts: sweeps.into_iter().map(Part::Sweep).collect(),
        })
    })?;
    Ok(text)
}

/// Every combination, the axis varying fastest.
fn scenarios(
    options: &Options,
    axis: &Varied,
    other: Option<&Varied>,
) -> Result<Vec<Scenario>, Failure> {
    let (mut scenarios, mut problems) = (Vec::new(), Vec::new());
    for outer in 0..other.map_or(1, |other| other.values.len()) {
        for n in 0..axis.values.len() {
            let overrides: Vec<_> = std::iter::once(axis.overriding(n))
                .chain(other.map(|other| other.overriding(outer)))
                .collect();
            match options.choice.load(&overrides) {
                Ok(scenario) => scenarios.push(scenario),
                // A problem of the file itself is a problem of each scenario.
                Err(report) => {
                    for line in report.to_string().lines() {
                        if !problems.iter().any(|problem| problem == line) {
                            problems.push(line.to_owned());
                        }
                    }
                }
            }
        }
    }
    if problems.is_empty() { Ok(scenarios) } else { Err(Failure::usage(problems.join("\n"))) }
}

fn sweep(
    axis: &Varied,
    other: Option<(&Varied, usize)>,
    scenarios: &[Scenario],
    results: &[Vec<RunResult>],
) -> Sweep {
    let first = &scenarios[0];
    let of_other = other.map(|(other, n)| format!("{} = {}", other.name, other.values[n]));
    let scale = Scale::of(&axis.values);
    let mut points: Vec<SweepPoint> = results
        .iter()
        .zip(&axis.values)
        .zip(&scale.xs)
        .map(|((results, label), &x)| SweepPoint {
            x,
            label: label.clone(),
            summaries: schemes::all().into_iter().filter_map(|s| Summary::of(s, results)).collect(),
        })
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let (least, most) = (points[0].x, points[points.len() - 1].x);
    Sweep {
        name: match &of_other {
            Some(other) => format!("{}, {other}", first.name),
            None => first.name.clone(),
        },
        about: first.about.clone(),
        parameters: describe::common(scenarios),
        axis: format!("{}{}", axis.name, scale.unit),
        is_log: scale.is_numeric && (least == 0.0 || most / least >= 10.0),
        points,
    }
}

/// Values of a parameter as numbers.
struct Scale {
    xs: Vec<f64>,
    /// Behind the parameter's name.
    unit: &'static str,
    is_numeric: bool,
}

impl Scale {
    fn of(values: &[String]) -> Self {
        type Reader = fn(&str) -> Option<f64>;
        let readers: [(&'static str, Reader); 5] = [
            ("", |v| v.parse().ok().filter(|x: &f64| x.is_finite())),
            ("", |v| units::share(v).ok()),
            (" (ms)", |v| units::duration(v).ok().map(|d| d.as_nanos() as f64 / 1e6)),
            (" (Gbit/s)", |v| units::rate(v).ok().map(|r| r as f64 / 1e9)),
            (" (bytes)", |v| units::size(v).ok().map(|s| s as f64)),
        ];
        for (unit, reader) in readers {
            if let Some(xs) = values.iter().map(|v| reader(v)).collect() {
                return Self { xs, unit, is_numeric: true };
            }
        }
        // Words, in their order.
        let xs = (0..values.len()).map(|n| n as f64).collect();
        Self { xs, unit: "", is_numeric: false }
    }
}
