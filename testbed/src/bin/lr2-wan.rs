//! `lr2-wan`: a link emulator between DPDK ports.

use std::process::ExitCode;

use clap::CommandFactory;
use testbed::emulator::{Options, run};

fn main() -> ExitCode {
    if let Some(code) = manual::answer(&[Options::command()], std::env::args_os()) {
        return code;
    }
    let options =
        Options::from_command_line(std::env::args_os()).unwrap_or_else(|error| error.exit());
    testbed::main("lr2-wan", || run(&options).map(|()| ExitCode::SUCCESS))
}
