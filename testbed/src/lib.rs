//! Stand-ins to try out a pair of gateways without a long-haul link
//! and without RNICs: a link emulator and RoCE hosts, both on DPDK ports; and a trial of real RNICs.
//!
//! - [`emulator`] is `lr2-wan`: the model of a bad link from the crate [`link`]
//!   between two ports.
//! - [`host`] is `lr2-host`: the model of an RNIC from the crate `rnic` on a
//!   port, with a workload and measurements.
//! - [`rnic_check`] is `lr2-check-rnic`: a wire between two hosts that tries on their RNICs
//!   what gateways do to them.

pub mod dpdk;
pub mod emulator;
pub mod host;
pub mod idle;
pub mod live;
pub mod reconnect;
pub mod report;
pub mod rnic_check;
pub mod signals;

use std::io::IsTerminal;
use std::process::ExitCode;

/// Runs a program: its messages go to standard error, and an error becomes a
/// line there and exit code 1.
pub fn main(program: &str, run: impl FnOnce() -> anyhow::Result<ExitCode>) -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .init();
    run().unwrap_or_else(|error| {
        manual::out::complain(format_args!("{program}: {error:#}"));
        ExitCode::FAILURE
    })
}
