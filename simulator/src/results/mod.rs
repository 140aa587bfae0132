//! The results of a run.

mod distribution;
mod interval;
pub mod summary;

use common::time::{Span, Time};
use serde::Serialize;

use crate::scheme::Scheme;
use crate::traffic::FlowSpec;

pub use distribution::Distribution;
pub use interval::half_width;
pub use summary::Summary;

/// One run: one scheme, one seed.
#[derive(Clone, PartialEq, Debug)]
pub struct RunResult {
    /// Who repaired.
    pub scheme: Scheme,
    /// The seed.
    pub seed: u64,
    /// Virtual time at the end: the last message done, or the limit.
    pub end: Time,
    /// Packets that arrived at or left a host, a switch or a gateway: a measure of
    /// how much was simulated.
    pub packet_events: u64,
    /// The messages, as they were posted.
    pub flows: Vec<FlowResult>,
    /// The long-haul links, both directions and all of them together.
    pub long_haul: LongHaulUse,
    /// The hosts, together.
    pub hosts: HostUse,
    /// The counters of the product's gateways, all of them together: those of its
    /// metrics that are not zero, by name and labels as Prometheus has them.
    pub counters: Vec<(String, u64)>,
    /// What the tunnels' ends counted, both together.
    pub tunnel: TunnelUse,
    /// The gateways' pools, over time.
    pub pools: Vec<PoolSample>,
    /// Of each data packet that a long-haul link lost and that arrived later:
    /// from its loss to its arrival at the host. Not sorted.
    pub recoveries: Vec<Span>,
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowResult {
    /// The requested flow.
    pub spec: FlowSpec,
    /// When it was to be sent; [`Time::NEVER`] if that never came.
    pub due: Time,
    /// When it was posted: then, or once its queue pair was connected.
    pub posted: Time,
    /// When its sender knew it complete; `None`: not within the limit, or its
    /// queue pair failed.
    pub completed: Option<Time>,
    /// How long it would take alone on a network without loss: its bytes on the
    /// slowest link of its path, and a round trip.
    pub ideal: Span,
    /// Whether it goes over a long-haul link.
    pub is_long_haul: bool,
}

/// Traffic of the long-haul links.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LongHaulUse {
    /// bit/s of all of them in one direction.
    pub rate: u64,
    /// Bytes on the wire of data packets, in both directions, repeats and later
    /// losses included.
    pub data_bytes: u64,
    /// Of these, of packets that had been on a long-haul link before.
    pub repeated_bytes: u64,
    /// Bytes on the wire of ACKs, NAKs, CNPs and control messages.
    pub other_bytes: u64,
    /// Data packets lost on a long-haul link.
    pub lost_packets: u64,
    /// Packets lost because a queue before it was full.
    pub queue_drops: u64,
    /// While messages came: until the last one was due. `None`: all were due at the
    /// beginning, or messages came in rounds.
    pub offered: Option<OfferedUse>,
}

/// Traffic of the long-haul links until the last message was due.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OfferedUse {
    /// When it was due.
    pub until: Time,
    /// As [`LongHaulUse::data_bytes`].
    pub data_bytes: u64,
    /// As [`LongHaulUse::repeated_bytes`].
    pub repeated_bytes: u64,
}

rnic::counters! {
    /// Totals of the hosts.
    #[derive(Serialize)]
    pub struct HostUse {
        /// Data packets sent, repeats included.
        pub packets: u64,
        /// Of these, repeats.
        pub repeated: u64,
        /// Retransmission timeouts.
        pub timeouts: u64,
        /// NAKs received.
        pub naks: u64,
        /// Congestion notification packets received.
        pub cnps: u64,
        /// Queue pairs that failed.
        pub failed_qps: u64,
    }
}

/// Frames and numbers that the ends of tunnels counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TunnelUse {
    /// Frames sent for the first time.
    pub frames: u64,
    /// Transmissions that a receiver reported missing.
    pub lost: u64,
    /// Frames sent again.
    pub resent: u64,
    /// Numbers that were missing for a while.
    pub missing: u64,
    /// Numbers that were given up.
    pub given_up: u64,
    /// Times that a lane became suspect.
    pub suspected: u64,
}

impl core::ops::AddAssign for TunnelUse {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.lost += other.lost;
        self.resent += other.resent;
        self.missing += other.missing;
        self.given_up += other.given_up;
        self.suspected += other.suspected;
    }
}

/// Bytes in the pools of a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Pools {
    /// In reordering pools.
    pub reorder_bytes: u64,
    /// In backup pools.
    pub backup_bytes: u64,
    /// In resend caches.
    pub cache_bytes: u64,
}

impl Pools {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            reorder_bytes: self.reorder_bytes.max(other.reorder_bytes),
            backup_bytes: self.backup_bytes.max(other.backup_bytes),
            cache_bytes: self.cache_bytes.max(other.cache_bytes),
        }
    }
}

/// The most that a gateway held at any time since the sample before: the fullest
/// of them, for each pool.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolSample {
    /// When.
    pub at: Time,
    /// How much.
    pub held: Pools,
}
