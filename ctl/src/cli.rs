//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use api::Order;
use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::client::escaped;

/// Shows the state of a running lr2-gateway, and controls the gateway.
#[derive(Clone, PartialEq, Debug, Parser)]
#[command(name = "lr2ctl", version, disable_help_subcommand = true)]
pub struct Cli {
    /// Socket of the gateway (`control.socket`). Default: the only gateway of this machine, at
    /// /run/lr2-gateway/control.sock or, of an instance, /run/lr2-gateway-INSTANCE/control.sock.
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// HTTP address of the gateway (`control.listen`), in place of the socket; read-only.
    #[arg(long, global = true, value_name = "IP:PORT")]
    pub address: Option<SocketAddr>,

    /// Name of a pair of ports. Default: a table of each pair.
    #[arg(long, global = true, value_name = "NAME")]
    pub pair: Option<String>,

    /// Print the gateway's answer as JSON.
    #[arg(long, global = true)]
    pub json: bool,

    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Clone, PartialEq, Debug, Subcommand)]
pub enum Command {
    /// Health of the gateway, with reasons.
    Status,
    /// Live view: peers, repairs per second, ports, pools, the worst flows and the newest events.
    Top {
        /// Time between two snapshots, in seconds.
        #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
        interval: u64,
        /// Print one picture of two snapshots, and exit.
        #[arg(long)]
        once: bool,
    },
    /// Pairs of ports: health, workers and links of each.
    Pairs,
    /// Gateways at the other end of the long haul.
    Peers,
    /// Lanes of the tunnel.
    Lanes,
    /// The path behind each WAN port of the tunnel, now: round trip, loss and the longest frame that reaches the peer.
    Path,
    /// Counters of the Sentry and Depot pipelines: gaps, packets sent again, NAKs.
    Recovery,
    /// Flows, sorted by losses or another counter, with the reason why a flow is not protected.
    Flows(FlowsOf),
    /// Stop protecting a flow, until `protect`, or until the flow or the gateway ends.
    Unprotect(FlowTo),
    /// Protect a flow again after `unprotect`.
    Protect(FlowTo),
    /// Flight recorder: packets that were held, resent or dropped, by queue pair and PSN.
    Records(RecordsOf),
    /// Trace the packets of a flow from now on: the counters that each packet changes.
    Trace(TraceOf),
    /// Capture frames at the gateway's ports into a file, for Wireshark and lr2-analyze.
    Capture(CaptureOf),
    /// Ports: links, rates and losses.
    Ports,
    /// Pools of frames: use and limits.
    Pools,
    /// Newest events, oldest first.
    Events {
        /// Number of events.
        #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(0..=10_000))]
        last: u16,
    },
    /// Versions: release, DPDK, messages.
    Build,
    /// Effective configuration as TOML, without secrets.
    Config,
    /// Keys of the configuration: value and range of each.
    Parameters,
    /// Set a parameter, until the gateway ends.
    Set {
        /// Name, as `parameters` shows it.
        name: String,
        /// Value, as in the configuration file.
        value: String,
    },
    /// Set the level of the log, until the gateway ends.
    LogLevel {
        /// Least severe lines that are logged.
        #[arg(value_parser = ["off", "error", "warn", "info", "debug", "trace"])]
        level: String,
    },
    /// Read the configuration file again; a file with a mistake changes nothing.
    Reload,
    /// Stop the gateway: deliver held frames, and announce the end to the peers.
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
    /// Address of a host, at either end.
    #[arg(long, value_name = "IP")]
    pub host: Option<IpAddr>,
    /// Number of a queue pair, at either end, e.g. 17 or 0x11.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub qpn: Option<String>,
    /// State of the flows.
    #[arg(long, value_parser = ["protected", "unprotected", "resting", "responses"])]
    pub state: Option<String>,
    /// Counter by which flows are sorted, largest first.
    #[arg(long, default_value_t, value_parser = order())]
    pub sort: Order,
    /// Number of flows, at most.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// Number of flows to skip first.
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
    /// Address of the destination host.
    #[arg(value_name = "DESTINATION")]
    pub destination: IpAddr,
    /// Number of the destination's queue pair, e.g. 17 or 0x11.
    #[arg(value_name = "QPN", value_parser = number)]
    pub qpn: String,
    /// Address of the source host, where several hosts send to the queue pair.
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
    /// Address of a flow's host, at either end.
    #[arg(long, value_name = "IP")]
    pub host: Option<IpAddr>,
    /// Number of the destination's queue pair, e.g. 17 or 0x11.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub qpn: Option<String>,
    /// PSN of the packets, e.g. 1000 or 0x3e8.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub psn: Option<String>,
    /// Number of records, the newest.
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
    /// Address of a RoCEv2 host, at either end, also inside the tunnel.
    #[arg(long, value_name = "IP")]
    pub host: Option<IpAddr>,
    /// Number of the destination's queue pair, also inside the tunnel, e.g. 17 or 0x11.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub qpn: Option<String>,
    /// Port at which the packets arrive: lan, wan, wan1 ...
    #[arg(long)]
    pub port: Option<String>,
    /// Lane of the tunnel on which the packets arrive.
    #[arg(long, value_name = "NUMBER")]
    pub lane: Option<u8>,
    /// Number of packets after which the trace ends.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub packets: u32,
    /// Time after which the trace ends, in seconds.
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
    /// File to write, in pcapng; - for standard output.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Port of the capture: lan, wan, wan1 ...
    #[arg(long)]
    pub port: Option<String>,
    /// Direction: received or sent frames.
    #[arg(long, value_parser = ["in", "out"])]
    pub direction: Option<String>,
    /// Address of a RoCEv2 host, at either end, also inside the tunnel.
    #[arg(long, value_name = "IP")]
    pub host: Option<IpAddr>,
    /// Number of the destination's queue pair, also inside the tunnel, e.g. 17 or 0x11.
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    pub qpn: Option<String>,
    /// Lane of the tunnel.
    #[arg(long, value_name = "NUMBER")]
    pub lane: Option<u8>,
    /// Number of bytes kept of each frame.
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=16_384))]
    pub snaplen: u16,
    /// Number of frames after which the capture ends.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub frames: u32,
    /// Time after which the capture ends, in seconds.
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
