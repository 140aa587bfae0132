//! `lr2-host`: RoCE traffic from the model of an RNIC on a DPDK port.

use std::process::ExitCode;

use clap::Parser;
use testbed::host::{Options, run};

fn main() -> ExitCode {
    let options = Options::parse();
    testbed::main("lr2-host", || run(&options))
}
