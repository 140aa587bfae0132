//! `lr2-sim paper`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, builder::PossibleValue};

use super::{Failure, Runner, cannot_write, runs};
use crate::paper::never_worse::{self, Judged};
use crate::paper::{self, Closed, Effort, Found, Page, Part};

/// The evaluation's extent, and the place of the page.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// Folder for the page and its figures; made if there is none
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The short version: five minutes on two cores, not twenty
    #[arg(long)]
    quick: bool,
    /// Seed of the first run of each setting
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=4_000_000_000))]
    seed: u64,
    /// Only this part; may be repeated
    #[arg(long, value_name = "NAME")]
    part: Vec<Part>,
    /// Runs at a time [default: one per CPU]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    jobs: usize,
}

impl ValueEnum for Part {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

pub(super) fn execute(options: &Options, runner: &impl Runner) -> Result<String, Failure> {
    let effort = if options.quick { Effort::quick() } else { Effort::full() };
    let mut parts = options.part.clone();
    if parts.is_empty() {
        parts.extend(Part::ALL);
    }
    let folder = options.out.join(Page::FOLDER);
    std::fs::create_dir_all(&folder).map_err(|error| cannot_write(&folder, &error))?;
    // Before the time is spent, not after.
    probe(&options.out)?;
    probe(&folder)?;

    let settings = paper::settings(&effort, options.seed, &parts).map_err(Failure::of_run)?;
    let closed = match parts.contains(&Part::Forms) {
        true => {
            let jobs = Closed::jobs(&effort);
            let done = runs::each(&jobs, options.jobs, "cells", |job| Closed::of(*job, &effort))?;
            done.into_iter().fold(Closed::default(), Closed::and)
        }
        false => Closed::default(),
    };
    let scenarios: Vec<_> = settings.iter().map(|setting| setting.scenario.clone()).collect();
    let results = runs::all(&scenarios, options.jobs, runner)?;
    let found: Vec<_> = settings
        .into_iter()
        .zip(&results)
        .map(|(setting, runs)| Found::of(setting, runs))
        .collect();
    let mut files = Vec::new();
    if parts.iter().any(|part| *part != Part::NeverWorse) {
        files.extend(Page::of(&effort, &command(options, None), &closed, &found).files);
    }
    if parts.contains(&Part::NeverWorse) {
        files.extend(congested(options, &effort, runner)?);
    }
    for (name, content) in &files {
        let file = options.out.join(name);
        std::fs::write(&file, content).map_err(|error| cannot_write(&file, &error))?;
    }
    let list: Vec<_> =
        files.iter().map(|(name, _)| options.out.join(name).display().to_string()).collect();
    Ok(format!("{}\n", list.join("\n")))
}

/// The page on congested LANs, which the same command makes with that part alone.
fn congested(
    options: &Options,
    effort: &Effort,
    runner: &impl Runner,
) -> Result<Vec<(String, String)>, Failure> {
    let cells = never_worse::cells(effort, options.seed).map_err(Failure::of_run)?;
    let scenarios: Vec<_> = cells.iter().map(|cell| cell.scenario.clone()).collect();
    let results = runs::all(&scenarios, options.jobs, runner)?;
    let judged = cells.into_iter().zip(&results).map(|(cell, runs)| Judged::of(cell, runs));
    let command = command(options, Some(Part::NeverWorse));
    Ok(never_worse::files(effort, &command, &judged.collect::<Vec<_>>()))
}

/// Whether files can be made in `folder`.
fn probe(folder: &Path) -> Result<(), Failure> {
    let file = folder.join(format!(".lr2-sim-{}", std::process::id()));
    std::fs::write(&file, "").map_err(|error| cannot_write(folder, &error))?;
    std::fs::remove_file(&file).map_err(|error| cannot_write(folder, &error))
}

/// The command that gives the reader the same page; the number of runs
/// at a time and where it goes make no difference. With `part`, that part alone.
fn command(options: &Options, part: Option<Part>) -> String {
    let mut words =
        vec!["cargo run --release -p simulator --bin lr2-sim -- paper --out docs".to_owned()];
    if options.quick {
        words.push("--quick".into());
    }
    if options.seed != 1 {
        words.push(format!("--seed {}", options.seed));
    }
    let parts = part.as_ref().map_or(&options.part[..], std::slice::from_ref);
    words.extend(parts.iter().map(|part| format!("--part {}", part.name())));
    words.join(" ")
}
