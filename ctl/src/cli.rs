//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use api::Order;
use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::client::escaped;

/// Asks a running lr2-gateway, and changes it.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "lr2ctl", version, disable_help_subcommand = true)]
pub struct Cli {
    /// The gateway's socket, as its control.socket says. Without it, the only gateway that runs here is asked, at
    /// /run/lr2-gateway/control.sock or, of an instance, /run/lr2-gateway-INSTANCE/control.sock.
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Ask over TCP, as control.listen says, in place of the socket: to read only.
    #[arg(long, global = true, value_name = "IP:PORT")]
    pub address: Option<SocketAddr>,

    /// One of several pairs of ports, by its name. Without it, tables of what can be read are of each.
    #[arg(long, global = true, value_name = "NAME")]
    pub pair: Option<String>,

    /// Print the gateway's answer as it is: JSON.
    #[arg(long, global = true)]
    pub json: bool,

    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Clone, PartialEq, Debug, Subcommand)]
pub enum Command {
    /// The box, and whether it does its job, with the reasons where it does not.
    Status,
    /// A live view: peers, repairs in a second, ports, pools, the worst flows and the newest events.
    Top {
        /// Time between two looks, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
        interval: u64,
        /// Print one picture of two looks, and end.
        #[arg(long)]
        once: bool,
    },
    /// The pairs of ports: health, workers and links of each.
    Pairs,
    /// The boxes at the other end.
    Peers,
    /// The lanes of the tunnel.
    Lanes,
    /// Counters of the Sentry and Depot pipelines: gaps, packets sent again, NAKs.
    Recovery,
    /// The flows, those with the most of something first, and why they are not protected.
    Flows(FlowsOf),
    /// Leave a flow to the RNICs, until it is protected again, ends, or is forgotten, or the gateway ends.
    Unprotect(FlowTo),
    /// Protect a flow again that was left to the RNICs.
    Protect(FlowTo),
    /// Records of packets that were not simply forwarded in order: what happened to PSN X of queue pair Y.
    Records(RecordsOf),
    /// The counters that each packet of a flow changes, from now on.
    Trace(TraceOf),
    /// Write frames that pass through the gateway's ports to a file, for Wireshark and lr2-analyze.
    Capture(CaptureOf),
    /// The ports.
    Ports,
    /// The pools of frames.
    Pools,
    /// The newest events, the oldest of them first.
    Events {
        /// How many.
        #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(0..=10_000))]
        last: u16,
    },
    /// What runs: release, DPDK, versions of messages.
    Build,
    /// The effective configuration, as TOML, without secrets.
    Config,
    /// Every key of the configuration, its value and range.
    Parameters,
    /// Set a parameter, until the gateway ends.
    Set {
        /// Its name, as `parameters` shows it.
        name: String,
        /// Its value, as in the file.
        value: String,
    },
    /// Set the level of the log, until the gateway ends.
    LogLevel {
        /// The least grave lines that are logged.
        #[arg(value_parser = ["off", "error", "warn", "info", "debug", "trace"])]
        level: String,
    },
    /// Read the configuration file again, and apply it as a whole or not at all.
    Reload,
    /// End the gateway: held frames leave, and peers are told.
    Drain,
    /// Print a shell's completions.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write man pages into a folder.
    Man {
        /// The folder, which exists.
        #[arg(value_parser = manual::folder())]
        folder: PathBuf,
    },
}

/// Which flows.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct FlowsOf {
    /// Of this host, at either end.
    #[arg(long, value_name = "IP")]
    pub host: Option<IpAddr>,
    /// Of this queue pair, at either end, e.g. 17 or 0x11.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub qpn: Option<String>,
    /// In this state.
    #[arg(long, value_parser = ["protected", "unprotected", "resting", "responses"])]
    pub state: Option<String>,
    /// The flows with the most packets of this kind come first.
    #[arg(long, default_value_t, value_parser = order())]
    pub sort: Order,
    /// Most flows to show.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// Flows to leave out before them.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=9000))]
    pub offset: u16,
}

fn order() -> impl TypedValueParser<Value = Order> {
    // Only these words come through.
    clap::builder::PossibleValuesParser::new(Order::ALL.map(Order::word))
        .map(|word| word.parse().unwrap_or_default())
}

/// The number of a queue pair or a PSN, as it was written.
fn number(text: &str) -> Result<String, &'static str> {
    api::number_of_24_bits(text).ok_or("it is no number up to 16777215, e.g. 17 or 0x11")?;
    Ok(text.to_owned())
}

impl FlowsOf {
    /// The request.
    pub fn path(&self) -> String {
        let Self { host, qpn, state, sort, limit, offset } = self;
        let host = host.map(|it| it.to_string());
        with_options(
            format!("/flows?sort={sort}&limit={limit}&offset={offset}"),
            [("address", host), ("qpn", qpn.clone()), ("state", state.clone())],
        )
    }
}

/// Which flow, as `flows` shows it.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct FlowTo {
    /// The host that it goes to.
    #[arg(value_name = "DESTINATION")]
    pub destination: IpAddr,
    /// The queue pair that it goes to, e.g. 17 or 0x11.
    #[arg(value_name = "QPN", value_parser = number)]
    pub qpn: String,
    /// The host that sends it, where several send to this queue pair.
    #[arg(long, value_name = "IP")]
    pub source: Option<IpAddr>,
}

impl FlowTo {
    /// The request.
    pub fn path(&self, what: &str) -> String {
        let Self { destination, qpn, source } = self;
        with_options(
            format!("/{what}?destination={destination}"),
            [("qpn", Some(qpn.clone())), ("source", source.map(|it| it.to_string()))],
        )
    }
}

/// Which records.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct RecordsOf {
    /// Of flows from or to this host.
    #[arg(long, value_name = "IP")]
    pub host: Option<IpAddr>,
    /// Of flows to this queue pair, e.g. 17 or 0x11.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub qpn: Option<String>,
    /// Of packets with this PSN, e.g. 1000 or 0x3e8.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub psn: Option<String>,
    /// How many, the newest.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub last: u16,
}

impl RecordsOf {
    /// The request.
    pub fn path(&self) -> String {
        let Self { host, qpn, psn, last } = self;
        let host = host.map(|it| it.to_string());
        with_options(
            format!("/records?last={last}"),
            [("address", host), ("qpn", qpn.clone()), ("psn", psn.clone())],
        )
    }
}

/// A request with the options that are given.
fn with_options<const N: usize>(mut path: String, all: [(&str, Option<String>); N]) -> String {
    for (name, value) in all {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", escaped(&value)));
        }
    }
    path
}

/// Which packets.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct TraceOf {
    /// RoCEv2 from or to this host, also inside the tunnel.
    #[arg(long, value_name = "IP")]
    pub host: Option<IpAddr>,
    /// RoCEv2 to this queue pair, also inside the tunnel, e.g. 17 or 0x11.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub qpn: Option<String>,
    /// That arrive at this port: lan, wan, wan1 ...
    #[arg(long)]
    pub port: Option<String>,
    /// That arrive on this lane of the tunnel.
    #[arg(long, value_name = "NUMBER")]
    pub lane: Option<u8>,
    /// Packets after which the trace ends.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub packets: u32,
    /// Seconds after which it ends.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: u32,
}

impl TraceOf {
    /// The request.
    pub fn path(&self) -> String {
        let Self { host, qpn, port, lane, packets, .. } = self;
        with_options(
            format!("/trace?frames={packets}"),
            [
                ("address", host.map(|it| it.to_string())),
                ("qpn", qpn.clone()),
                ("port", port.clone()),
                ("lane", lane.map(|it| it.to_string())),
            ],
        )
    }
}

/// Which frames, and where to.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct CaptureOf {
    /// The file, in pcapng; - for standard output.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// At this port: lan, wan, wan1 ...
    #[arg(long)]
    pub port: Option<String>,
    /// Received, or sent.
    #[arg(long, value_parser = ["in", "out"])]
    pub direction: Option<String>,
    /// RoCEv2 from or to this host, also inside the tunnel.
    #[arg(long, value_name = "IP")]
    pub host: Option<IpAddr>,
    /// RoCEv2 to this queue pair, also inside the tunnel, e.g. 17 or 0x11.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub qpn: Option<String>,
    /// On this lane of the tunnel.
    #[arg(long, value_name = "NUMBER")]
    pub lane: Option<u8>,
    /// Bytes of each frame that are kept.
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=16_384))]
    pub snaplen: u16,
    /// Frames after which the capture ends.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub frames: u32,
    /// Seconds after which it ends.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: u32,
}

impl CaptureOf {
    /// The request.
    pub fn path(&self) -> String {
        let Self { port, direction, host, qpn, lane, snaplen, frames, .. } = self;
        with_options(
            format!("/capture?snaplen={snaplen}&frames={frames}"),
            [
                ("port", port.clone()),
                ("direction", direction.clone()),
                ("address", host.map(|it| it.to_string())),
                ("qpn", qpn.clone()),
                ("lane", lane.map(|it| it.to_string())),
            ],
        )
    }
}
