//! One end of the long-haul link: everything between a box's LAN and WAN
//! ports that is neither IO nor clock.
//!
//! A packet's way: [`Switch::burst`] looks at each frame once
//! ([`common::wire::parse`]); what is no RoCEv2 RC traffic passes unchanged.
//! A request from the LAN goes to the [`sentry::Flow`] of its flow, one from
//! the WAN to the [`depot::Flow`]; an answer passes, and tells the flow that
//! it belongs to (`pairing`) what was acknowledged; a control message of
//! the peer ends here; what the hosts tell each other on QP 1 passes, and is
//! listened to (`connections`). What the pipelines decide becomes frames in
//! `output`, and leaves through the [`Sink`](common::frame::Sink).
//!
//! Drive it like this: hand in bursts as they come; whenever
//! [`Switch::next_deadline`] has passed call [`Switch::timers`]; now and then
//! call [`Switch::housekeeping`].
//!
//! Not here yet, each with its place: several paths and egress queues (they
//! belong between `output` and the sink).

mod answers;
mod cm;
mod connections;
mod control;
mod entry;
mod farewell;
mod housekeeping;
mod index;
mod key;
mod memory;
mod operator;
mod output;
mod pairing;
mod peers;
mod pipelines;
mod setup;
mod switch;
mod table;
mod timers;

use common::allowance::Allowance;
use common::control::Keys;
use common::time::Span;
use common::wire::Opcode;

pub use ipnet::IpNet;
pub use memory::Footprint;
pub use operator::{End, QueuePair};
pub use switch::{HeldBytes, Switch};

/// Which directions a box works for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Sentry for what its own hosts send.
    Sentry,
    /// Depot for what its own hosts receive.
    Depot,
    /// Both: what a production box does.
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
    /// Not at all: the box is a wire.
    Off,
    /// By the source, whose redundant repeats are filtered.
    Lr2,
    /// From the Sentry's resend cache alone.
    Cached,
    /// From the cache, by the source where a packet isn't cached.
    Auto,
}

/// How the protocol is timed; where it may be `None`, that follows the measured
/// round trip.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Round trip of the long-haul link until it is measured.
    pub rtt_guess: Span,
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
    /// Messages a second that this worker may send its peers though nothing
    /// suggests that they are needed, besides those that data earns
    /// ([`Allowance`]); at least 1.
    pub early_per_second: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            rtt_guess: Span::from_millis(10),
            tail_timeout: None,
            status_interval: None,
            peer_timeout: None,
            give_up: None,
            t_out: None,
            t_out_min: Span::from_micros(500),
            early_per_second: Allowance::PER_SECOND,
        }
    }
}

/// Everything that a switch is told at its start.
#[derive(Clone)]
pub struct Config {
    /// Which directions it works for.
    pub role: Role,
    /// How losses are repaired.
    pub recovery: Recovery,
    /// Identity of this box towards its peers; two boxes must not share one.
    pub node: u32,
    /// Grows from start to start: the wall clock, in nanoseconds.
    pub boot: u64,
    /// Keys of the control messages.
    pub keys: Keys,
    /// BTH opcode of the control messages, from the manufacturer range.
    pub control_opcode: Opcode,
    /// Seeds the flow table's hash, against chosen QPNs and ports.
    pub hash_seed: u64,
    /// Most entries of the flow table; a queue pair takes two. What doesn't
    /// fit passes unprotected.
    pub max_flows: usize,
    /// Most of these of the same two hosts.
    pub max_flows_of_hosts: usize,
    /// Bytes that all reordering pools may hold.
    pub reorder_pool_bytes: u64,
    /// Frames that all reordering pools may hold: each pins an mbuf.
    pub reorder_pool_frames: u64,
    /// Bytes that all resend caches may hold.
    pub resend_cache_bytes: u64,
    /// Frames that all resend caches may hold.
    pub resend_cache_frames: u64,
    /// Bytes that all backup pools may hold: packets that the destination has
    /// not acknowledged yet.
    pub backup_pool_bytes: u64,
    /// Frames that all backup pools may hold.
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
    /// Queue pairs that the operator names. One that connection management
    /// joins differently is what the hosts say.
    pub queue_pairs: Vec<QueuePair>,
    /// Idle time after which a flow is forgotten.
    pub flow_idle: Span,
    /// Durations of the protocol.
    pub tuning: Tuning,
}

impl Config {
    /// Sensible values for a lab: both roles, no key.
    pub fn lab(recovery: Recovery, node: u32, boot: u64) -> Self {
        Self {
            role: Role::Both,
            recovery,
            node,
            boot,
            keys: Keys::unkeyed_lab(),
            control_opcode: common::control::DEFAULT_OPCODE,
            hash_seed: 1,
            max_flows: 65_536,
            max_flows_of_hosts: usize::MAX,
            reorder_pool_bytes: 64 << 20,
            reorder_pool_frames: 1 << 16,
            resend_cache_bytes: 64 << 20,
            resend_cache_frames: 1 << 16,
            backup_pool_bytes: 64 << 20,
            backup_pool_frames: 1 << 16,
            local_retries: 3,
            pacing: true,
            cnp_interval: Some(Span::from_micros(50)),
            remote_prefixes: Vec::new(),
            queue_pairs: Vec::new(),
            flow_idle: Span::from_millis(60_000),
            tuning: Tuning::default(),
        }
    }
}

/// What the control thread may ask of a running switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Hand on in order all that is held, tell the peers, protect nothing
    /// from now on.
    Drain,
    /// Repair losses like this from now on.
    SetRecovery(Recovery),
}
