//! The answers of the gateway's API, as types: `lr2-gateway` writes them, `lr2ctl` reads them. docs/api.md describes them.
//!
//! Times are seconds since 1970, and spans are seconds. `null` stands for a value that the gateway does not know. A reader ignores fields that it does
//! not know, and takes the default for those that are absent, so that the two programs may be of different releases.

mod flows;
mod pairs;
mod paths;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use flows::{Flow, Flows, Order, ParseOrderError};
pub use pairs::{Pair, Pairs};
pub use paths::{Path, Paths};

/// A word or a sentence.
pub type Text = Cow<'static, str>;

/// A queue pair number or a PSN as it is written in a request: 24 bits, decimal or, with `0x`, hexadecimal. `None` if it is none.
pub fn number_of_24_bits(text: &str) -> Option<u32> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|number| *number < 1 << 24)
}

/// Why a request was refused.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Refusal {
    /// In one sentence.
    pub error: String,
    /// Each mistake, if there may be several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// `/status`: the box, and whether it does its job.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The pair of ports, if there are several.
    pub pair: Option<String>,
    /// Node id.
    pub node: u32,
    /// Boot id; `null` until the ports are open.
    pub boot: Option<u64>,
    /// Release of the gateway.
    pub version: Text,
    /// Process id.
    pub pid: u32,
    /// When it started.
    pub started: f64,
    /// How long it has been running.
    pub uptime: f64,
    /// `role`.
    pub role: Text,
    /// `recovery.mode`, which counts without a tunnel.
    pub recovery: Text,
    /// `wan.tunnel`: `off`, `ethernet` or `udp`.
    pub tunnel: Text,
    /// `ok`, `degraded` (frames are forwarded, and not all are protected) or `down`.
    pub health: Text,
    /// Why it is not `ok`, a sentence each.
    pub reasons: Vec<String>,
    /// The workers.
    pub workers: Vec<Worker>,
    /// Flows in the tables of all workers: a queue pair has two.
    pub flows: u64,
    /// Of these, flows that a Depot protects.
    pub flows_protected: u64,
    /// Level of the log.
    pub log_level: Text,
}

/// A worker.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Worker {
    /// Its number.
    pub worker: usize,
    /// Share of the last half second in which it had something to do, 0 to 1.
    pub busy: f64,
    /// It has shown no sign of life for longer than it may.
    pub stalled: bool,
}

/// `/peers`: the boxes at the other end.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Peers {
    /// By tunnel and node id.
    pub peers: Vec<Peer>,
    /// By tunnel: the newest message that was refused.
    pub last_refused: Vec<Refused>,
}

/// A box.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Peer {
    /// Node id.
    pub node: u32,
    /// The tunnel to it, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<u8>,
    /// Boot id.
    pub boot: u64,
    /// A WAN port; without a tunnel, the address of a host behind it.
    pub via: Text,
    /// `session`, `answers`, `heard` or `silent`.
    pub state: Text,
    /// Version of its control messages.
    pub message_version: u8,
    /// Round trip to it.
    pub round_trip: Option<f64>,
    /// When it was last heard.
    pub last_heard: f64,
    /// When it last reported what arrived there.
    pub last_report: Option<f64>,
}

impl Peer {
    /// Whether it and this box hear each other.
    pub fn is_up(&self) -> bool {
        self.state == "session" || self.state == "answers"
    }
}

/// A message that was refused.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// The tunnel, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<u8>,
    /// Why.
    pub reason: Text,
    /// The host in whose name it came, without a tunnel.
    pub from: Option<String>,
    /// When it was first or, without a tunnel, last refused.
    pub time: f64,
}

/// `/lanes`: the lanes of all tunnels.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Lanes {
    /// By tunnel and number. Empty without a tunnel.
    pub lanes: Vec<Lane>,
}

/// A lane: what this box has sent on it, and received.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Lane {
    /// The tunnel.
    pub tunnel: u8,
    /// Its number in the tunnel.
    pub lane: u8,
    /// Its WAN port.
    pub port: Text,
    /// `up`, `suspect`, `probing` or `down`.
    pub state: Text,
    /// Round trip, the configured guess until it is measured.
    pub round_trip: f64,
    /// Mean deviation of the round trip.
    pub delay_variation: f64,
    /// Time that a frame is predicted to wait in queues of its path.
    pub queue: f64,
    /// By how much its path takes longer, one way and without a queue, than the shortest one of the tunnel; 0 until it is
    /// measured.
    pub later: f64,
    /// Time for which sent frames have waited for a report.
    pub report_age: f64,
    /// Frames sent for the first time.
    pub sent: u64,
    /// Frames sent again.
    pub resent: u64,
    /// Transmissions that the peer reported missing.
    pub lost: u64,
    /// Lost frames that were not sent again.
    pub skipped: u64,
    /// Frames sent again on another lane, as this one was silent; among those sent again.
    pub moved: u64,
    /// Frames that reached the peer with a congestion mark of the path.
    pub marked: u64,
    /// Frames received and delivered.
    pub delivered: u64,
    /// Of these, frames that waited for an earlier one.
    pub waited: u64,
    /// Received twice, and dropped.
    pub duplicate: u64,
    /// Missing numbers that were given up.
    pub given_up: u64,
    /// Numbers of the peer that were reported missing and were late: sent again needlessly.
    pub misjudged: u64,
    /// Later numbers that may arrive before a missing one counts as lost; 0 on a lane that keeps order.
    pub tolerated_numbers: u64,
    /// Time after which a missing number counts as lost; 0 on a lane that keeps order.
    pub tolerated: f64,
}

/// `/recovery`: counters of the Sentry and Depot pipelines, summed over all workers. With a tunnel these pipelines repair
/// the LANs only.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovery {
    /// Gaps in the PSN sequence of packets from the WAN, in requests and in responses.
    pub gaps: u64,
    /// Of these, gaps that were filled.
    pub filled: u64,
    /// Of these, gaps that were given up.
    pub given_up: u64,
    /// Packets sent again to the WAN, from the resend cache.
    pub resent: u64,
    /// Packets that the peer missed and that were not in the resend cache.
    pub not_cached: u64,
    /// Packets sent again to hosts on the LAN, from the backup pool.
    pub resent_to_lan: u64,
    /// Packets that were reported missing, and arrived late: the peer sent them again needlessly.
    pub needless: u64,
    /// NAKs that this box made for sources on its LAN.
    pub naks: u64,
    /// Round trip of the long haul, the last measurement; `null` until there is one.
    pub round_trip: Option<f64>,
}

/// `/ports`.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    /// The LAN port first.
    pub ports: Vec<Port>,
}

/// A port.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// `lan`, `wan`, `wan1` ..
    pub port: Text,
    /// `device` of its section.
    pub device: String,
    /// `mtu` of its section, bytes.
    pub mtu: u16,
    /// Whether its link is up; `null` until it is open.
    pub up: Option<bool>,
    /// Frames that workers took from it.
    pub received: u64,
    /// Bytes of these, without FCS.
    pub received_bytes: u64,
    /// Frames that it took to transmit.
    pub transmitted: u64,
    /// Bytes of these, without FCS.
    pub transmitted_bytes: u64,
    /// Frames that wait for it.
    pub queued: u64,
    /// Frames that the device lost, as its receive queue was full.
    pub missed: u64,
    /// Frames dropped on arrival, in a handoff or in front of the port.
    pub dropped: u64,
    /// Frames received damaged, and frames that could not be transmitted.
    pub errors: u64,
    /// Receptions that failed for want of an mbuf.
    pub no_mbuf: u64,
}

/// `/pools`.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Pools {
    /// `mbufs`, which has all frames, and what may hold some of them.
    pub pools: Vec<Pool>,
}

/// A pool of frames.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Pool {
    /// `mbufs`, `reorder_pool`, `resend_cache` or `backup_pool`.
    pub pool: Text,
    /// Frames in it.
    pub frames: u64,
    /// Frames that it may have, of all workers together.
    pub limit: u64,
}

/// `/events`: the newest events, the oldest of them first.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Events {
    /// Events that were not noted, as there were too many at a time.
    pub missed: u64,
    /// The events.
    pub events: Vec<Event>,
}

/// An event.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// When.
    pub time: f64,
    /// The worker that noticed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<usize>,
    /// The tunnel, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<u8>,
    /// Its kind.
    pub event: String,
    /// What happened, in one sentence.
    pub text: String,
    /// The fields of its kind.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// `/records`: records of the flight recorder, the oldest first. A packet that was forwarded in order has none.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Records {
    /// Number of records that match the request. The answer has the newest of them.
    pub matched: u64,
    /// The records.
    pub records: Vec<Record>,
}

/// An event of packets with consecutive PSNs, or of a flow.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Time of the event of the first packet.
    pub time: f64,
    /// Time of the event of the last packet.
    pub until: f64,
    /// The worker.
    pub worker: usize,
    /// Source of the packets; `null`: not RoCEv2, or not known.
    pub source: Option<String>,
    /// Destination of the packets.
    pub destination: Option<String>,
    /// Queue pair at the destination.
    pub destination_qpn: Option<u32>,
    /// PSN of the first packet; `null`: it is about the flow.
    pub psn: Option<u32>,
    /// Packets, of consecutive PSNs.
    pub packets: u32,
    /// The lane of the tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<u8>,
    /// The number of the first frame on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The event: name and labels of the metric that counts it.
    pub what: String,
    /// Help text of the metric.
    pub meaning: Text,
}

/// `/build`: what runs here.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Build {
    /// Release of the gateway.
    pub version: Text,
    /// Version of DPDK.
    pub dpdk: String,
    /// `optimised` or `debug`.
    pub profile: Text,
    /// Processor and operating system.
    pub target: Text,
    /// Version of the control messages without a tunnel.
    pub message_version: u8,
    /// Version of the tunnel's shim and messages.
    pub tunnel_version: u8,
}

/// `/config`: the effective configuration. Secrets stand in files of their own, and are not among it.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Configuration {
    /// Where it was read.
    pub file: String,
    /// As the file that has this effect.
    pub toml: String,
    /// The same as an object, by section.
    pub config: Value,
}

/// `/parameters`: all keys of the configuration.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Parameters {
    /// In the order of the reference.
    pub parameters: Vec<Parameter>,
}

/// A key of the configuration.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Parameter {
    /// The key with its section.
    pub name: String,
    /// Its value, as in the file; `null`: it follows from others or from measurements.
    pub value: Value,
    /// The values that it may have, with their unit.
    pub allowed: String,
    /// Whether it can be set while the gateway runs.
    pub settable: bool,
}

/// The answer to `POST /reload`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Reloaded {
    /// Keys whose new values hold from now on; empty if the file says the same as before.
    pub applied: Vec<String>,
}

/// The answer to `PUT /log-level`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LogLevel {
    /// The level from now on.
    pub log_level: Text,
}

/// `POST /capture`: a capture that runs.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Capture {
    /// Its number: `GET /capture/NUMBER` has the next part of its pcapng file, `DELETE` ends it.
    pub capture: u64,
}

/// `DELETE /capture/NUMBER`: a capture that is over.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureEnd {
    /// Frames that it has.
    pub captured: u64,
    /// Frames that it would have if somebody had fetched them faster.
    pub missed: u64,
}

/// A line of `GET /trace/NUMBER`: a frame that arrived, and the counters that grew while the gateway processed it.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Traced {
    /// When it arrived.
    pub time: f64,
    /// Where.
    pub port: Text,
    /// Its length.
    pub bytes: u32,
    /// Source of the RoCEv2 packet, also of one in the tunnel.
    pub source: Option<String>,
    /// Its destination.
    pub destination: Option<String>,
    /// Queue pair at its destination.
    pub destination_qpn: Option<u32>,
    /// Its opcode.
    pub opcode: Option<String>,
    /// Its PSN.
    pub psn: Option<u32>,
    /// The lane of the tunnel that it came on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<u8>,
    /// Its number there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The counters that grew while the gateway processed the frame.
    pub decisions: Vec<Decision>,
}

/// A counter that grew.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// Name and labels of the metric.
    pub what: String,
    /// By how much it grew.
    pub count: u16,
    /// Help text of the metric.
    pub meaning: Text,
}

/// The answer to `POST /drain`.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Draining {
    /// What happens now, in one sentence.
    pub draining: Text,
}
