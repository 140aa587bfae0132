//! Configuration of a switch, and commands that change it.

use common::allowance::Allowance;
use common::control::{BootId, Keys, NodeId};
use common::time::Span;
use common::verdict::Tolerance;
use common::wire::{Addr, Opcode, Qpn, Vlans};

use ipnet::IpNet;

use crate::capacity::Pools;

/// Which directions a box works for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Sentry for requests of its own hosts.
    Sentry,
    /// Depot for requests to its own hosts.
    Depot,
    /// Both, as in production.
    Both,
}

impl Role {
    /// Whether the box is a Sentry for frames from the LAN.
    pub const fn is_sentry(self) -> bool {
        matches!(self, Self::Sentry | Self::Both)
    }

    /// Whether the box is a Depot for frames from the WAN.
    pub const fn is_depot(self) -> bool {
        matches!(self, Self::Depot | Self::Both)
    }
}

/// How losses on the long-haul link are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// Not at all: every frame is forwarded unchanged.
    Off,
    /// By the source, whose redundant repeats are filtered.
    Lr2,
    /// From the Sentry's resend cache alone.
    Cached,
    /// From the cache, by the source where a packet isn't cached.
    Auto,
}

/// Durations of the protocol. `None` derives one from the measured round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Round trip time of the long-haul link that is assumed until it is measured.
    pub rtt_guess: Span,
    /// The longest time that a packet takes to the other site and its response back, once the box sees no
    /// packet that it missed before: for so long a response may be to a packet that it has not seen, and pairs no
    /// flows. `None`: twice `rtt_guess`.
    pub longest_trip: Option<Span>,
    /// See [`sentry::Config::tail_timeout`].
    pub tail_timeout: Option<Span>,
    /// See [`sentry::Config::status_interval`]; the Depot's too.
    pub status_interval: Option<Span>,
    /// See [`sentry::Config::peer_timeout`].
    pub peer_timeout: Option<Span>,
    /// See [`depot::Config::give_up`].
    pub give_up: Option<Span>,
    /// See [`depot::Config::t_out`].
    pub t_out: Option<Span>,
    /// See [`depot::Config::t_out_min`].
    pub t_out_min: Span,
    /// See [`depot::Config::tolerance`].
    pub tolerance: Tolerance,
    /// Messages per second that this worker may send without need, besides those that data
    /// earns ([`Allowance`]); at least 1.
    pub early_per_second: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            rtt_guess: Span::from_millis(10),
            longest_trip: None,
            tail_timeout: None,
            status_interval: None,
            peer_timeout: None,
            give_up: None,
            t_out: None,
            t_out_min: Span::from_micros(500),
            tolerance: Tolerance::default(),
            early_per_second: Allowance::PER_SECOND,
        }
    }
}

/// A queue pair that two hosts always have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePair {
    /// The VLANs its packets are in.
    pub vlans: Vlans,
    /// Its two ends. It doesn't matter on which side of the link they are.
    pub ends: [End; 2],
}

/// One end of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct End {
    /// The host.
    pub addr: Addr,
    /// Its QP, below 2^24.
    pub qpn: Qpn,
}

/// Configuration of a switch.
#[derive(Clone)]
pub struct Config {
    /// Which directions it works for.
    pub role: Role,
    /// How losses are repaired.
    pub recovery: Recovery,
    /// Identity of this box towards its peers; two boxes must not share one.
    pub node: NodeId,
    /// Grows from start to start: the wall clock, in nanoseconds.
    pub boot: BootId,
    /// Keys of the control messages.
    pub keys: Keys,
    /// BTH opcode of the control messages, from the manufacturer range.
    pub control_opcode: Opcode,
    /// Seeds the flow table's hash, against chosen QPNs and ports.
    pub hash_seed: u64,
    /// Most entries of the flow table; a queue pair takes two. Further flows are not
    /// protected.
    pub max_flows: usize,
    /// Most entries of the flows between two hosts.
    pub max_flows_of_hosts: usize,
    /// Frames that all reordering pools may hold: each pins an mbuf.
    pub reorder_pool_frames: u64,
    /// Frames that all resend caches may hold.
    pub resend_cache_frames: u64,
    /// Frames that all backup pools may hold: delivered packets that the destination has not
    /// acknowledged yet.
    pub backup_pool_frames: u64,
    /// See [`depot::Config::local_retries`].
    pub local_retries: u8,
    /// See [`depot::Config::pacing`].
    pub pacing: bool,
    /// See [`depot::Config::cnp_interval`].
    pub cnp_interval: Option<Span>,
    /// Where a peer may be: flows to other destinations are not announced.
    /// Empty: everywhere.
    pub remote_prefixes: Vec<IpNet>,
    /// Queue pairs that the operator configured. Connection management overrides them.
    pub queue_pairs: Vec<QueuePair>,
    /// Idle time after which an entry leaves the flow table.
    pub flow_idle: Span,
    /// Records of the [flight recorder](common::recorder); 0: nothing is recorded.
    pub records: usize,
    /// Durations of the protocol.
    pub tuning: Tuning,
}

/// The part of a configuration that can be changed while the switch works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// See [`Config::recovery`].
    pub recovery: Recovery,
    /// Durations of the protocol. The rate of early messages stays as it is.
    pub tuning: Tuning,
    /// Frames that the pools may hold.
    pub pools: Pools,
    /// See [`depot::Config::cnp_interval`].
    pub cnp_interval: Option<Span>,
}

impl Config {
    /// The part that can be changed.
    pub const fn settings(&self) -> Settings {
        let pools = Pools {
            resend_cache: self.resend_cache_frames,
            reorder_pool: self.reorder_pool_frames,
            backup_pool: self.backup_pool_frames,
        };
        let Self { recovery, tuning, cnp_interval, .. } = *self;
        Settings { recovery, tuning, pools, cnp_interval }
    }

    /// Configuration for a lab: both roles, no key.
    pub fn lab(recovery: Recovery, node: impl Into<NodeId>, boot: impl Into<BootId>) -> Self {
        Self {
            role: Role::Both,
            recovery,
            node: node.into(),
            boot: boot.into(),
            keys: Keys::unkeyed_lab(),
            control_opcode: common::control::DEFAULT_OPCODE,
            hash_seed: 1,
            max_flows: 65_536,
            max_flows_of_hosts: usize::MAX,
            reorder_pool_frames: 1 << 16,
            resend_cache_frames: 1 << 16,
            backup_pool_frames: 1 << 16,
            local_retries: 3,
            pacing: true,
            cnp_interval: Some(Span::from_micros(50)),
            remote_prefixes: Vec::new(),
            queue_pairs: Vec::new(),
            flow_idle: Span::from_millis(60_000),
            records: 0,
            tuning: Tuning::default(),
        }
    }
}
