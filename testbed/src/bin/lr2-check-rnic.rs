//! `lr2-check-rnic`: how RNICs take what gateways send them.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use testbed::rnic_check::{Options, run};

fn main() -> ExitCode {
    if let Some(code) = manual::answer(&[Options::command()], std::env::args_os()) {
        return code;
    }
    let options = Options::parse().checked().unwrap_or_else(|error| error.exit());
    if options.list {
        manual::out::print(format_args!("{}", testbed::rnic_check::list()));
        return ExitCode::SUCCESS;
    }
    testbed::main("lr2-check-rnic", || run(&options))
}
