//! `lr2-wan`: a link emulator between two DPDK ports.

use std::process::ExitCode;

use clap::Parser;
use testbed::emulator::{Options, run};

fn main() -> ExitCode {
    let options = Options::parse();
    testbed::main("lr2-wan", || run(&options).map(|()| ExitCode::SUCCESS))
}
