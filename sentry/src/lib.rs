//! The Sentry: the pipeline of a gateway near the source of a flow.
//!
//! It forwards every request to the long-haul link. The Depot at the other end reports missing
//! packets; the Sentry resends exactly these from its [resend cache](Recovery::Cached), or sends
//! the source a NAK and filters the rest of its rewind ([`Recovery::Lr2`]).
//!
//! The crate does no IO. The switch calls a [`Flow`] with frames, reports and the time; the
//! flow calls [`Actions`]:
//!
//! - [`Flow::on_data`] for each request packet of the flow,
//! - [`Flow::on_response`] for a response of the destination that certainly belongs to this flow,
//! - [`Flow::on_status`] for each STATUS about the flow,
//! - after any of these, [`Flow::deadline`], and [`Flow::on_timer`] at that time,
//! - [`Flow::shrink`] after an idle period.
//!
//! `docs/protocol.md` lists the rules, whose ids code and tests cite.

mod cache;
mod discovery;
mod fast_path;
mod filter;
mod flight;
mod flow;
mod gaps;
mod incarnation;
mod knowledge;
mod memory;
mod nak;
mod pmtu;
mod reads;
mod report;
mod responses;
mod slot;
mod summary;
mod timers;

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{Epoch, Fetch, LastAck, SyncMessage};
use common::frame::{Class, Frame, Packet};
use common::histogram::Timing;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::Qpn;

pub use flow::Flow;
pub use incarnation::Rest;
pub use summary::Standing;

/// How a loss on the long-haul link is repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// By the source, asked with a NAK; its redundant repeats are filtered.
    Lr2,
    /// From the Sentry's resend cache alone.
    Cached,
    /// From the cache; by the source where a packet isn't cached.
    Auto,
}

impl Recovery {
    /// Whether packets are kept when they are first forwarded.
    pub const fn caches(self) -> bool {
        matches!(self, Self::Cached | Self::Auto)
    }

    /// Whether the source may be asked to rewind.
    pub const fn asks_source(self) -> bool {
        matches!(self, Self::Lr2 | Self::Auto)
    }
}

/// Configuration shared by all flows of a switch.
#[derive(Clone, Debug)]
pub struct Config {
    /// The recovery mode.
    pub recovery: Recovery,
    /// Round trip time of the long-haul link that is assumed until it is measured.
    pub rtt_guess: Span,
    /// Idle time after which a flow with unacknowledged data sends SYNC(tail);
    /// `None`: an eighth of the round trip.
    pub tail_timeout: Option<Span>,
    /// Interval of SYNC(keepalive) while data flows; `None`: half a round trip.
    pub status_interval: Option<Span>,
    /// Time without a STATUS after which the peer counts as lost; `None`: two round trips, at
    /// least 10 ms.
    pub peer_timeout: Option<Span>,
    /// Time without data after which another incarnation may use the queue pair number;
    /// `None`: 24 round trips, at least 80 ms.
    pub pause: Option<Span>,
    /// Most PSNs of one flow that are tracked at a time.
    pub window_max: u64,
    /// Whether steady flows take the fast path. Without it the result is the same: it is off in tests that compare.
    pub fast_path: bool,
}

/// Effects of a flow. The switch implements them.
pub trait Actions<F: Frame> {
    /// Sends a data packet towards the destination.
    fn forward(&mut self, packet: Packet<F>, class: Class);
    /// Frees a frame or handle, and counts it under `reason`.
    fn discard(&mut self, packet: Packet<F>, reason: Metric);
    /// Sends a SYNC about this epoch of the flow to the Depot, in `class`.
    fn sync(&mut self, epoch: Epoch, sync: SyncMessage, class: Class);
    /// Nothing of the peer arrives any more: later messages tell it so.
    fn unheard(&mut self);
    /// Asks the Depot for READ responses that are missing.
    fn fetch(&mut self, epoch: Epoch, fetch: Fetch);
    /// Forwards a response of the destination to the source.
    fn respond(&mut self, frame: F);
    /// The requester's QPN, if it is known beyond doubt.
    fn src_qpn(&self) -> Option<Qpn>;
    /// Another incarnation of the queue pair begins. Its `src_qpn` is unknown from now on.
    fn new_incarnation(&mut self);
    /// Sends the source a NAK (PSN sequence error) that asks for `psn`, after
    /// `msn` messages.
    fn nak(&mut self, psn: Psn, msn: u32);
    /// Sends the source an ACK that the destination has sent before.
    fn ack(&mut self, ack: LastAck);
    /// Adds `n` to a counter.
    fn count(&mut self, metric: Metric, n: u64);
    /// Runs `act`. A flight recorder attributes its counts to `packets` packets from `psn` on, not to the packet that arrived.
    fn about(&mut self, psn: Psn, packets: u64, act: impl FnOnce(&mut Self)) {
        let _ = (psn, packets);
        act(self);
    }
    /// Adds a time to a histogram. Who has none leaves it.
    fn record(&mut self, what: Timing, time: Span) {
        let _ = (what, time);
    }
}

/// Arguments of a call besides its event.
pub struct Context<'a, A> {
    /// Now.
    pub now: Time,
    /// Shared configuration.
    pub config: &'a Config,
    /// Budget of all resend caches of this worker.
    pub cache: &'a mut Budget,
    /// Budget of the reordering pools of this worker, which responses held behind a missing READ
    /// response take from.
    pub pool: &'a mut Budget,
    /// Budget of messages that are not needed for correctness.
    pub allowance: &'a mut Allowance,
    /// The newest flow epoch given out by this switch; it only grows.
    pub epochs: &'a mut Epoch,
    /// Receives the effects.
    pub out: &'a mut A,
}

impl<A> Context<'_, A> {
    /// An epoch that no flow of this switch has had.
    fn new_epoch(&mut self) -> Epoch {
        *self.epochs = self.epochs.next();
        *self.epochs
    }
}
