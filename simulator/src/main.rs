//! `lr2-sim`: see the library for its purpose, `--help` for how to call it.
//!
//! Exit status: 0 after success, 1 if a run failed or a file could not be
//! written, 2 if the command line or a scenario is wrong.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use simulator::cli::Cli;

fn main() -> ExitCode {
    if let Some(code) = manual::answer(&[Cli::command()], std::env::args_os()) {
        return code;
    }
    match Cli::parse().execute(&simulator::run::run) {
        Ok(text) => {
            manual::out::print(text);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            manual::out::complain(format_args!("{}", failure.message));
            ExitCode::from(failure.code)
        }
    }
}
