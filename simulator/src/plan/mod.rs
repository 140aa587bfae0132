//! The goodput of each scheme on a link, and its cost: without simulating
//! anything ([`forms`]), on one screen.

mod advice;
pub mod forms;
mod memory;
mod options;
mod text;

use clap::Args;
use common::time::Span;
use serde::{Serialize, Serializer};
use settings::{sizing, units};

use crate::results::Summary;
use crate::scheme::Scheme;
use crate::schemes;
use crate::traffic::PACKET_OVERHEAD;
use forms::Path;

pub use memory::{Memory, Ports};
pub use text::text;

/// Messages whose completion time the plan reports, bytes.
pub const MESSAGES: [u64; 3] = [10_000, 1_000_000, 100_000_000];

/// An RNIC asks for an ACK every so many packets: so far before a loss a rewind
/// begins, and up to there a second NAK is ignored.
pub(crate) const ACK_EVERY: f64 = 16.0;

/// The question: a link, and its load.
#[derive(Args, Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Question {
    /// Rate of the long-haul link, and of the NICs
    #[arg(long = "rate", value_name = "RATE", value_parser = options::rate)]
    pub rate_bps: u64,
    /// Round trip of the long-haul link
    #[arg(long, value_name = "TIME", value_parser = options::rtt)]
    #[serde(rename = "rtt_ns", serialize_with = "nanos")]
    pub rtt: Span,
    /// Share of packets that the link loses, e.g. 1e-3 or 0.1%
    #[arg(long, value_name = "SHARE", value_parser = options::loss)]
    pub loss: f64,
    /// Mean length of bursts of loss
    #[arg(long, value_name = "PACKETS", default_value_t = 1.0, value_parser = options::burst)]
    pub burst: f64,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096
    #[arg(long, value_name = "BYTES", default_value = "4096", value_parser = options::pmtu)]
    pub pmtu: u16,
    /// Long flows that share the link
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub flows: u32,
    /// Round trip between a host and its gateway
    #[arg(long, value_name = "TIME", default_value = "20us", value_parser = units::duration)]
    #[serde(rename = "lan_rtt_ns", serialize_with = "nanos")]
    pub lan_rtt: Span,
    /// Packets that a queue pair may have unacknowledged [default: enough for the link]
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    pub window: Option<u32>,
    /// Retransmission timeout of the RNICs [default: the next that is at least 4 round trips]
    #[arg(long, value_name = "TIME", value_parser = options::timeout)]
    #[serde(rename = "timeout_ns", serialize_with = "maybe_nanos")]
    pub timeout: Option<Span>,
    /// Workers of a gateway
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub workers: u16,
    /// Descriptors of each ring of a port
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u16).range(64..=32768))]
    pub descriptors: u16,
    /// MTU of the gateways' ports [default: 1500, or a little more than the path MTU]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(340..=9600))]
    pub mtu: Option<u16>,
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Plan {
    /// The question.
    pub question: Question,
    /// Packets in flight that fill the link for a round trip.
    pub packets_in_flight: f64,
    /// Retransmission timeout reckoned with.
    #[serde(rename = "timeout_ns", serialize_with = "nanos")]
    pub timeout: Span,
    /// Packets that each queue pair must be allowed to have unacknowledged.
    pub window_needed: u64,
    /// Each scheme.
    pub schemes: Vec<Outlook>,
    /// For each of the two gateways.
    pub memory: Memory,
    /// Warnings, a sentence or two each.
    pub warnings: Vec<String>,
    /// Result of a short simulation, if asked for.
    pub simulated: Option<Simulated>,
}

/// The result of a scheme.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Outlook {
    /// Which.
    pub scheme: Scheme,
    /// Who repairs, in a few words.
    #[serde(skip)]
    pub about: &'static str,
    /// Share of the NIC's time that delivers something new, of a long flow.
    pub efficiency: f64,
    /// Payload of all flows, bit/s.
    pub goodput_bps: f64,
    /// Packets on the long-haul link per packet delivered.
    pub sends_per_packet: f64,
    /// Mean completion time of a message that is alone, seconds, for each of
    /// [`MESSAGES`].
    pub fct_s: [f64; MESSAGES.len()],
}

/// Result of a short simulation of a workload.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Simulated {
    /// The workload, its load and how many messages.
    pub about: String,
    /// A line per scheme.
    pub summaries: Vec<Summary>,
}

impl Question {
    /// Bytes of a packet on the wire.
    fn wire_bytes(&self) -> u64 {
        u64::from(self.pmtu) + PACKET_OVERHEAD
    }

    /// Seconds that a packet takes at line rate.
    fn slot(&self) -> f64 {
        8.0 * self.wire_bytes() as f64 / self.rate_bps as f64
    }

    /// Packets that fill the link for a round trip.
    fn packets_in_flight(&self) -> f64 {
        self.rtt.as_secs_f64() / self.slot()
    }

    /// Exponent x of the shortest retransmission timeout, 4.096 µs · 2^x, that is
    /// not less than four round trips or a millisecond.
    pub fn good_exponent(&self) -> u32 {
        let least = self.rtt.scale(4, 1).max(Span::from_millis(1));
        (0..31).find(|x| exponential(*x) >= least).unwrap_or(31)
    }

    /// The retransmission timeout of that exponent.
    pub fn good_timeout(&self) -> Span {
        exponential(self.good_exponent())
    }

    /// One of the flows: its share of the link.
    fn path(&self, window: f64) -> Path {
        let timeout = self.timeout.unwrap_or_else(|| self.good_timeout());
        let per_slot = window / self.rtt.as_secs_f64();
        Path {
            window,
            loss: self.loss,
            burst: self.burst,
            timeout: timeout.as_secs_f64() * per_slot,
        }
    }

    /// How many round trips must fit into the window of a queue pair: one to
    /// send, and one or more for each repair.
    fn window_round_trips(&self) -> f64 {
        1.0 + memory::reordered_round_trips(self.loss)
    }

    fn outlook(&self, scheme: Scheme) -> Option<Outlook> {
        let form = schemes::model(scheme).form()?;
        let packets = self.packets_in_flight();
        let shared = self.path((packets / f64::from(self.flows)).max(1.0));
        let alone = self.path(packets);
        // Of one flow: the packets that its window allows in flight.
        let round_trips = match self.window {
            Some(window) => f64::from(window) / shared.window,
            None => self.window_round_trips(),
        };
        let [tunnelled, messages] = schemes::tunnel_overhead(self.rtt, self.pmtu.into());
        let nic = forms::Nic {
            window: round_trips,
            ack_every: ACK_EVERY,
            rewind: ACK_EVERY,
            re_nak: 4e-6 / self.slot(),
            irn_cap: round_trips,
            irn_timeout: 4.0,
            tunnelled,
            messages,
        };
        let fct = |bytes: u64| {
            let packets = bytes.div_ceil(self.pmtu.into()) as f64;
            (form.fct)(&alone, &nic, packets) * self.slot()
        };
        let efficiency = (form.goodput)(&shared, &nic);
        let payload = f64::from(self.pmtu) / self.wire_bytes() as f64;
        Some(Outlook {
            scheme,
            about: form.about,
            efficiency,
            goodput_bps: self.rate_bps as f64 * payload * efficiency,
            sends_per_packet: (form.sends)(&shared),
            fct_s: MESSAGES.map(fct),
        })
    }

    fn memory(&self) -> Memory {
        // As hosts have them: 1500, or a little more than headers need.
        let mtu = self.mtu.unwrap_or(sizing::mtu(self.pmtu).next_multiple_of(100).max(1500));
        let ports = Ports { workers: self.workers, descriptors: self.descriptors, mtu };
        Memory::of(self.rate_bps, self.rtt, self.lan_rtt, self.loss, self.pmtu, ports)
    }

    /// The answer, but for a simulation.
    pub fn answer(&self) -> Plan {
        const SCHEMES: [Scheme; 6] = [
            Scheme::LOSSLESS,
            Scheme::GBN,
            Scheme::IRN,
            Scheme::LR2,
            Scheme::CACHED,
            Scheme::TUNNEL,
        ];
        let packets = self.packets_in_flight();
        let per_flow = packets / f64::from(self.flows);
        let mut plan = Plan {
            question: *self,
            packets_in_flight: packets,
            timeout: self.timeout.unwrap_or_else(|| self.good_timeout()),
            window_needed: (per_flow * self.window_round_trips()).ceil().max(1.0) as u64,
            schemes: SCHEMES.iter().filter_map(|scheme| self.outlook(*scheme)).collect(),
            memory: self.memory(),
            warnings: Vec::new(),
            simulated: None,
        };
        plan.warnings = advice::on(&plan);
        plan
    }

    /// A scenario to try a workload on this link: eight hosts per site, half of
    /// the link's rate offered.
    pub fn scenario(&self, workload: &str, flows: u32) -> String {
        let Self { rate_bps, rtt, loss, burst, pmtu, .. } = self;
        let half = units::show_duration(rtt.scale(1, 2));
        let loss = match *burst > 1.0 {
            true => format!("{{ rate = {loss:?}, burst = {burst:?} }}"),
            false => format!("{loss:?}"),
        };
        format!(
            "name = \"plan\"\nschemes = [\"lossless\", \"gbn\", \"lr2\", \"cached\"]\n\
             [topology]\nkind = \"dumbbell\"\nhosts = 8\n\
             [long_haul]\nrate = \"{rate_bps}bps\"\ndelay = \"{half}\"\nloss = {loss}\n\
             [nic]\npmtu = {pmtu}\n\
             [[traffic]]\nkind = \"poisson\"\nsizes = {workload:?}\nload = 0.5\nflows = {flows}\n"
        )
    }
}

/// 4.096 µs · 2^x, the retransmission timeouts of InfiniBand.
fn exponential(x: u32) -> Span {
    Span::from_nanos(4_096 << x)
}

fn nanos<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(span.as_nanos())
}

fn maybe_nanos<S: Serializer>(span: &Option<Span>, serializer: S) -> Result<S::Ok, S::Error> {
    span.map(Span::as_nanos).serialize(serializer)
}

#[cfg(test)]
mod tests;
