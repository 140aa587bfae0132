//! `lr2-host`: RoCE traffic from the model of an RNIC on a DPDK port.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use testbed::host::{Options, run};

fn main() -> ExitCode {
    if let Some(code) = manual::answer(&[Options::command()], std::env::args_os()) {
        return code;
    }
    let options = Options::parse().checked().unwrap_or_else(|error| error.exit());
    testbed::main("lr2-host", || run(&options))
}
