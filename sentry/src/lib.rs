//! The Sentry: the half of a box that stands near the source of a flow.
//!
//! It sees every request on its way to the long-haul link, learns from the
//! Depot at the other end what is missing there, and gets exactly that across
//! again: from its own [resend cache](Recovery::Cached), or by a NAK that
//! makes the source rewind while the rest of the rewind is filtered
//! ([`Recovery::Lr2`]).
//!
//! Sans-IO: a [`Flow`] is given frames, reports and the time, and calls
//! [`Actions`] for what is to happen. It must be driven like this:
//!
//! - [`Flow::on_data`] for each request packet of the flow,
//! - [`Flow::on_answer`] for what the destination sends back, once the switch
//!   is sure that it belongs to this flow,
//! - [`Flow::on_status`] for each STATUS about the flow,
//! - after any of these, ask [`Flow::deadline`] and call [`Flow::on_timer`]
//!   when that time has come,
//! - [`Flow::shrink`] once it has been idle for a while.
//!
//! `docs/protocol.md` lists the rules with their tests.

mod answers;
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
mod slot;
mod timers;

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{Fetch, LastAck, SyncMessage};
use common::frame::{Class, Frame, Packet};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};

pub use flow::Flow;
pub use incarnation::Rest;

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

/// What is the same for all flows of a switch.
#[derive(Clone, Debug)]
pub struct Config {
    /// The recovery mode.
    pub recovery: Recovery,
    /// Round trip of the long-haul link until it is measured.
    pub rtt_guess: Span,
    /// Idle time after which a flow with unacknowledged data sends SYNC(tail);
    /// `None`: an eighth of the round trip.
    pub tail_timeout: Option<Span>,
    /// Interval of SYNC(keepalive) while data flows; `None`: half a round trip.
    pub status_interval: Option<Span>,
    /// Time without any answer after which the peer counts as gone; `None`:
    /// two round trips, at least 10 ms.
    pub peer_timeout: Option<Span>,
    /// Time without data after which a queue pair may have come to its end, and
    /// its number to another incarnation; `None`: 24 round trips, at least 80 ms.
    pub forget: Option<Span>,
    /// Most PSNs of one flow that are tracked at a time.
    pub window_max: u64,
}

/// What a flow makes happen. The switch implements it.
pub trait Actions<F: Frame> {
    /// Sends a data packet on towards the destination.
    fn forward(&mut self, packet: Packet<F>, class: Class);
    /// Ends the incarnation of a frame or handle, booked under `reason`.
    fn discard(&mut self, packet: Packet<F>, reason: Metric);
    /// Sends a SYNC about this epoch of the flow to the Depot, in `class`.
    fn sync(&mut self, epoch: u32, sync: SyncMessage, class: Class);
    /// What the peer says doesn't arrive, as far as is known: messages say so from now on.
    fn unheard(&mut self);
    /// Asks the Depot for READ responses that are missing.
    fn fetch(&mut self, epoch: u32, fetch: Fetch);
    /// Sends an answer of the destination on to the source.
    fn answer(&mut self, frame: F);
    /// The requester's QPN, if it is known beyond doubt.
    fn src_qpn(&self) -> Option<u32>;
    /// Another incarnation of the flow's QP number begins: its requester may be
    /// another one, and is unknown from now on.
    fn new_incarnation(&mut self);
    /// Sends the source a NAK (PSN sequence error) that asks for `psn`, after
    /// `msn` messages.
    fn nak(&mut self, psn: Psn, msn: u32);
    /// Sends the source an ACK that the destination has sent before.
    fn ack(&mut self, ack: LastAck);
    /// Bumps a counter.
    fn count(&mut self, metric: Metric, n: u64);
}

/// What a call is given besides its event.
pub struct Context<'a, A> {
    /// Now.
    pub now: Time,
    /// Shared configuration.
    pub config: &'a Config,
    /// What all resend caches of this worker may hold.
    pub cache: &'a mut Budget,
    /// What answers that wait for READ responses may take, with all
    /// reordering pools of this worker.
    pub pool: &'a mut Budget,
    /// What this worker may say that need not be said.
    pub allowance: &'a mut Allowance,
    /// The newest flow epoch given out by this switch; it only grows.
    pub epochs: &'a mut u32,
    /// Takes what is to happen.
    pub out: &'a mut A,
}

impl<A> Context<'_, A> {
    /// An epoch that no flow of this switch has had.
    fn new_epoch(&mut self) -> u32 {
        *self.epochs = self.epochs.wrapping_add(1);
        *self.epochs
    }
}
