//! The command line of `lr2-sim`.

mod choice;
mod describe;
mod paper;
mod plan;
mod run;
mod runs;
mod sweep;
mod tables;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::scheme::Scheme;
use crate::schemes;

pub use runs::Runner;

/// Exit status when the command line or a scenario is wrong.
const USAGE: u8 = 2;

/// Exit status when a run or the writing of its results fails.
const FAILURE: u8 = 1;

/// The benefit of a pair of gateways on a link: simulated, or reckoned.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "lr2-sim",
    version,
    // Without a command: an error that says so, as for any other mistake.
    arg_required_else_help = false,
    after_help = "Examples:\n  \
        lr2-sim plan --rate 100Gbps --rtt 10ms --loss 1e-3\n  \
        lr2-sim run simulator/scenarios/pair.toml --report pair.html\n  \
        lr2-sim sweep simulator/scenarios/pair.toml --over loss=1e-5,1e-4,1e-3 --over rtt=1ms,10ms"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Run a scenario with each of its schemes and compare them
    Run(run::Options),
    /// Run a scenario with other values of one or two of its keys
    Sweep(sweep::Options),
    /// Run the whole evaluation and write a page on it, with figures and data
    Paper(paper::Options),
    /// Reckon the goodput of each scheme on a link, and its cost
    Plan(plan::Options),
}

/// The reason why a command ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// For the user; may have several lines.
    pub message: String,
    /// Exit status.
    pub code: u8,
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: USAGE }
    }

    fn of_run(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: FAILURE }
    }
}

impl Cli {
    /// Runs the command; `runner` simulates. Returns the text for standard
    /// output. Files have been written then; progress goes to standard error, if
    /// that is a terminal.
    ///
    /// # Errors
    /// The fault of the command line, the scenario (all of its problems at once) or a
    /// run, or the file that can't be written.
    pub fn execute(&self, runner: &impl Runner) -> Result<String, Failure> {
        match &self.command {
            Command::Run(options) => run::execute(options, runner),
            Command::Sweep(options) => sweep::execute(options, runner),
            Command::Paper(options) => paper::execute(options, runner),
            Command::Plan(options) => plan::execute(options, runner),
        }
    }
}

/// A scheme by its name.
fn scheme(text: &str) -> Result<Scheme, String> {
    schemes::named(text).ok_or_else(|| {
        let names: Vec<_> = schemes::all().into_iter().map(Scheme::name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// Writes an output file, if one is named.
fn write<C: AsRef<[u8]>>(
    file: Option<&PathBuf>,
    content: impl FnOnce() -> C,
) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, content()).map_err(|error| cannot_write(file, &error))
}

/// Refuses files that can't be written before hours are spent on their
/// content.
fn writable<'f>(files: impl IntoIterator<Item = Option<&'f PathBuf>>) -> Result<(), Failure> {
    for file in files.into_iter().flatten() {
        let open = std::fs::OpenOptions::new().append(true).create(true).open(file);
        open.map_err(|error| cannot_write(file, &error))?;
    }
    Ok(())
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    Failure::of_run(format!("{}: can't be written: {error}", file.display()))
}
