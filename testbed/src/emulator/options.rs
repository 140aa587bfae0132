//! The command line of `lr2-wan`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, error::ErrorKind};
use common::time::Span;

use super::link::{LinkOptions, frames_on_their_way};
use crate::dpdk::{DpdkOptions, RING, SLACK};
use crate::idle::IdlePolicy;
use crate::report;
use link::{DirectionConfig, Invalid};
use settings::units;

/// Emulates a long, lossy link between two DPDK ports: a bump in the wire.
///
/// Frames received at A leave at B and the other way round. Options of the
/// link hold for both directions, or for one if their value begins with "ab:"
/// or "ba:"; the last one given counts. After --next come the ports and options
/// of one more link, which the same process serves. Counters are written as
/// JSON when the program is stopped (SIGTERM or SIGINT).
#[derive(Parser, Clone, Debug)]
#[command(
    name = "lr2-wan",
    version,
    override_usage = "lr2-wan [OPTIONS] --a <DEVICE> --b <DEVICE> [--next --a <DEVICE> --b <DEVICE> ...]...",
    after_help = "Examples: 1 Gbit/s, 10 ms round trip, 1 % of the data lost in bursts of 4:\n  \
        lr2-wan --a 0000:3b:00.0 --b 0000:3b:00.1 --rate 1Gbps --delay 5ms --loss ab:1% --burst 4\n\
        The same beside a wire that loses a frame in a thousand:\n  \
        lr2-wan --name wan --a ... --next --name lan --a 0000:af:00.0 --b 0000:af:00.1 --loss 0.1%"
)]
pub struct Options {
    #[command(flatten)]
    first: LinkOptions,
    #[arg(skip)]
    more: Vec<LinkOptions>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where to write the counters at the end
    #[arg(long, value_name = "FILE", value_parser = report::file)]
    pub json: Option<PathBuf>,
    /// Write the counters to standard output this often, a line of JSON each
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub live: Option<Span>,
    /// How to wait while there is nothing to do
    #[arg(long, value_enum, default_value_t = IdlePolicy::Adaptive)]
    pub idle: IdlePolicy,
    /// Frames that may be in the program at once [default: from rate, delay and queue]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(512..=1 << 28))]
    mbufs: Option<u64>,
    /// DPDK.
    #[command(flatten)]
    pub dpdk: DpdkOptions,
}

/// Separates the options of two links.
const NEXT: &str = "--next";

impl Options {
    /// Parses a command line, the program's name first.
    ///
    /// # Errors
    /// Its fault, or the requested help text.
    pub fn from_command_line(
        line: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().collect();
        let mut parts = line.split(|word| word == NEXT);
        let mut options = Self::try_parse_from(parts.next().unwrap_or_default())?;
        for part in parts {
            let program = std::iter::once(OsString::from("lr2-wan"));
            let link = LinkOptions::try_parse_from(program.chain(part.iter().cloned()))?;
            if options.links().any(|other| other.name == link.name) {
                let message = format!(
                    "two links are called {:?}: give each its own --name, before and after --next",
                    link.name
                );
                return Err(Self::command().error(ErrorKind::ValueValidation, message));
            }
            options.more.push(link);
        }
        let devices: Vec<_> = options.links().flat_map(|link| [&link.a, &link.b]).collect();
        let twice = devices.iter().enumerate().find(|(n, device)| devices[..*n].contains(device));
        if let Some((_, device)) = twice {
            let message =
                format!("the device {device:?} is given twice: each end of a link has its own");
            return Err(Self::command().error(ErrorKind::ValueValidation, message));
        }
        let found = options.directions();
        found.map_err(|why| Self::command().error(ErrorKind::ValueValidation, why))?;
        Ok(options)
    }

    /// The links, as given.
    pub fn links(&self) -> impl Iterator<Item = &LinkOptions> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Of each link, the directions A to B and B to A.
    ///
    /// # Errors
    /// Everything that is out of range.
    pub fn directions(&self) -> Result<Vec<[DirectionConfig; 2]>, Invalid> {
        let (mut configs, mut wrong) = (Vec::new(), Vec::new());
        for link in self.links() {
            match link.directions() {
                Ok(config) => configs.push(config),
                Err(Invalid(why)) if self.more.is_empty() => wrong.push(why),
                Err(Invalid(why)) => {
                    wrong.extend(why.lines().map(|line| format!("{}, {line}", link.name)));
                }
            }
        }
        if wrong.is_empty() { Ok(configs) } else { Err(Invalid(wrong.join("\n"))) }
    }

    /// mbufs needed for everything that can be on its way, and the rings.
    pub fn mbufs(&self, links: &[[DirectionConfig; 2]]) -> u64 {
        let held: u64 = links.iter().flatten().map(frames_on_their_way).sum();
        let rings = 4 * u64::from(RING) * links.len() as u64;
        self.mbufs.unwrap_or(held + rings + SLACK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        let words = std::iter::once("lr2-wan").chain(line.split_whitespace());
        Options::from_command_line(words.map(OsString::from))
    }

    #[test]
    fn links_have_options_of_their_own() {
        let line = "--name wan --a net_x --b net_y --delay 5ms --seed 7 \
                    --next --name lan --a net_z --b net_w --loss 1% --next --name far --a net_p --b net_q";
        let options = parse(line).expect("parses");
        let ports: Vec<_> =
            options.links().map(|l| (l.name.as_str(), l.a.as_str(), l.b.as_str())).collect();
        assert_eq!(
            ports,
            [("wan", "net_x", "net_y"), ("lan", "net_z", "net_w"), ("far", "net_p", "net_q")]
        );
        let [wan, lan, far] = &options.directions().expect("valid")[..] else { panic!("three") };
        assert_eq!((wan[0].delay, wan[0].loss.mean()), (Span::from_millis(5), 0.0));
        assert_eq!((lan[1].delay, lan[1].loss.mean()), (Span::ZERO, 0.01));
        assert_eq!(far[0], DirectionConfig::default());
    }

    #[test]
    fn mistakes_in_links_are_told() {
        for (line, part) in [
            ("--a net_x --b net_y --next --a net_z --b net_w", "two links are called \"link\""),
            ("--a net_x --b net_y --next --name lan --a net_z", "--b <DEVICE>"),
            ("--a net_x --b net_y --next --name lan --a net_z --b net_w --seed 2", "--seed"),
            ("--a net_x", "--b <DEVICE>"),
            ("--a net_x --b bogus", "'--b <DEVICE>': expected a PCI address"),
            ("--a net_x --b net_y --mbufs 10", "10 is not in 512.."),
            ("--a net_x --b net_x", "the device \"net_x\" is given twice"),
            (
                "--a net_x --b net_y --next --name lan --a net_z --b net_x",
                "the device \"net_x\" is given twice",
            ),
            (
                "--a net_x --b net_y --json /no/such/folder/x.json",
                "there is no folder /no/such/folder",
            ),
        ] {
            let error = parse(line).expect_err(line).to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
        let two = parse(
            "--a net_x --b net_y --burst 0.5 --loss 1% --next --name lan --a net_z --b net_w --rate 0",
        );
        let error = two.expect_err("impossible");
        assert_eq!(error.exit_code(), 2);
        let error = error.to_string();
        for part in ["link, A to B: mean burst", "lan, A to B: rate 0", "lan, B to A: rate 0"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn memory_follows_from_rate_delay_and_queue() {
        let options =
            parse("--a net_x --b net_y --rate 1Gbps --delay 8.192ms --queue 0").expect("parses");
        // 8.192 ms are 1,024,000 bytes: 1000 frames each way.
        let frames = |options: &Options| options.mbufs(&options.directions().expect("valid"));
        assert_eq!(frames(&options), 2 * 1_000 + 4 * 1024 + SLACK);
        let two =
            parse("--a net_x --b net_y --next --name lan --a net_z --b net_w").expect("parses");
        assert_eq!(frames(&two), 8 * 1024 + SLACK);
    }
}
