//! The command line of `lr2-check-rnic`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use common::time::Span;

use super::checker::{Config, HELD_MAX};
use super::checks::Name;
use crate::dpdk::{DpdkOptions, RING, SLACK};
use crate::idle::IdlePolicy;
use crate::report;
use settings::{device, units};

/// Tries on two RNICs what LR2 gateways do to them, and reports how they take it.
///
/// A wire between two DPDK ports: frames received at A leave at B and the other way round. On queue pairs of the traffic
/// that crosses it, packets are lost, held, repeated and added, one check after the other; the report says of each what
/// the RNICs did, and whether LR2 relies on something else. SIGUSR1: the kind of traffic that is awaited will not come.
/// SIGTERM and SIGINT end the run, and the report has what was seen until then. Exit code: 0 nothing differs, 1 something does or the
/// program can't run, 2 wrong options.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "lr2-check-rnic",
    version,
    after_help = "Example, with perftest between the hosts at both ports (docs/check-rnic.md):\n  \
        lr2-check-rnic --a 0000:3b:00.0 --b 0000:3b:00.1 --rnic 'ConnectX-6 Dx, 22.36.1010' --markdown report.md"
)]
pub struct Options {
    /// First port: a DPDK virtual device (net_memif0,...) or PCI address
    #[arg(long, value_name = "DEVICE", required_unless_present = "list", value_parser = device::parse)]
    a: Option<String>,
    /// Second port
    #[arg(long, value_name = "DEVICE", required_unless_present = "list", value_parser = device::parse)]
    b: Option<String>,
    /// The RNICs, in your words, for the report: model, firmware, driver, settings
    #[arg(long, value_name = "TEXT", default_value = "not described")]
    pub rnic: String,
    /// Run only these checks, in their own order; --list has them
    #[arg(
        long,
        value_name = "CHECK",
        value_delimiter = ',',
        value_enum,
        hide_possible_values = true
    )]
    only: Vec<Name>,
    /// Leave these checks out
    #[arg(
        long,
        value_name = "CHECK",
        value_delimiter = ',',
        value_enum,
        hide_possible_values = true
    )]
    skip: Vec<Name>,
    /// List the checks and end
    #[arg(long)]
    pub list: bool,
    /// For how long packets may be held: less than a third of the queue pairs' local ACK timeout, and longer than the
    /// RNICs take to answer; 1ms to 1s
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = units::duration)]
    pub hold: Span,
    /// For how long each kind of traffic is awaited; 1s to 3600s
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = units::duration)]
    pub wait: Span,
    /// Where to write the report for programs
    #[arg(long, value_name = "FILE", value_parser = report::file)]
    pub json: Option<PathBuf>,
    /// Where to write the report for people, in Markdown
    #[arg(long, value_name = "FILE", value_parser = report::file)]
    pub markdown: Option<PathBuf>,
    /// How to wait while there is nothing to do
    #[arg(long, value_enum, default_value_t = IdlePolicy::Busy)]
    pub idle: IdlePolicy,
    /// DPDK.
    #[command(flatten)]
    pub dpdk: DpdkOptions,
}

impl Options {
    /// These, if they make sense together.
    ///
    /// # Errors
    /// What does not, and what is allowed.
    pub fn checked(self) -> Result<Self, clap::Error> {
        let wrong =
            |message: String| Err(Self::command().error(ErrorKind::ValueValidation, message));
        let within = |span: Span, least: u64, most: u64| {
            (Span::from_millis(least)..=Span::from_millis(most)).contains(&span)
        };
        if !within(self.hold, 1, 1_000) {
            return wrong("--hold must be 1ms to 1s".into());
        }
        if !within(self.wait, 1_000, 3_600_000) {
            return wrong("--wait must be 1s to 3600s".into());
        }
        if self.a.is_some() && self.a == self.b {
            return wrong("--a and --b are the same port: give one for each host".into());
        }
        if self.checks().is_empty() {
            return wrong("--only and --skip leave no check: see --list".into());
        }
        Ok(self)
    }

    /// The devices A and B.
    pub fn devices(&self) -> [&str; 2] {
        [&self.a, &self.b].map(|device| device.as_deref().unwrap_or_default())
    }

    /// The chosen checks.
    pub fn checks(&self) -> Vec<Name> {
        let is_chosen = |name: &Name| {
            (self.only.is_empty() || self.only.contains(name)) && !self.skip.contains(name)
        };
        Name::ALL.iter().copied().filter(is_chosen).collect()
    }

    /// Settings of the core.
    pub fn config(&self) -> Config {
        Config { checks: self.checks(), hold: self.hold, wait: self.wait }
    }

    /// mbufs: for the rings, for held frames, and for frames on their way through.
    pub fn mbufs(&self) -> u64 {
        4 * u64::from(RING) + HELD_MAX as u64 + 2 * SLACK
    }
}

/// The checks in words, for `--list`.
pub fn list() -> String {
    let line = |name: &Name| {
        let about = name.about();
        format!("{}: {}\n    LR2 relies on: {}\n", name.text(), about.does, about.relies)
    };
    Name::ALL.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Options, clap::Error> {
        let words = std::iter::once("lr2-check-rnic").chain(words.split_whitespace());
        Options::try_parse_from(words)?.checked()
    }

    #[test]
    fn mistakes_are_told_in_one_line_and_end_with_exit_code_2() {
        for (words, part) in [
            ("--b net_y", "--a <DEVICE>"),
            ("--a net_x --b net_x", "the same port"),
            ("--a net_x --b net_y --hold 2s", "--hold must be 1ms to 1s"),
            ("--a net_x --b net_y --hold 5", "\"5\""),
            ("--a net_x --b net_y --wait 10ms", "--wait must be 1s to 3600s"),
            ("--a net_x --b net_y --only gaps", "'gaps'"),
            ("--a net_x --b net_y --only gap --skip gap", "leave no check"),
        ] {
            let error = parse(words).expect_err("wrong");
            assert!(error.to_string().contains(part), "{words}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn checks_run_in_their_own_order() {
        let chosen =
            parse("--a net_x --b net_y --only nak,gap,timeout --skip timeout").expect("right");
        assert_eq!(chosen.checks(), [Name::Gap, Name::Nak]);
        assert_eq!(parse("--a net_x --b net_y").expect("right").checks(), Name::ALL);
    }

    #[test]
    fn the_list_needs_no_port() {
        assert!(parse("--list").expect("right").list);
        let text = list();
        assert!(Name::ALL.iter().all(|name| text.contains(&format!("{}: ", name.text()))));
    }
}
