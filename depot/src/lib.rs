//! The Depot: the half of a box that stands near the destination of a flow.
//!
//! It sees every request that arrives from the long-haul link, holds what is
//! early, tells the Sentry what is missing (a STATUS with missing ranges, the
//! *Depot-NACK*), and delivers in order. While it knows nothing it is a wire.
//!
//! Sans-IO: a [`Flow`] is given frames, SYNCs and the time, and calls
//! [`Actions`] for what is to happen:
//!
//! - [`Flow::on_data`] for each request packet from the long-haul link,
//! - [`Flow::on_sync`] and [`Flow::on_fetch`] for what the Sentry says of the
//!   flow,
//! - [`Flow::on_answer`] for what the destination sends back, once the switch
//!   is sure that it belongs to this flow,
//! - after any of these, ask [`Flow::deadline`] and call [`Flow::on_timer`]
//!   when that time has come,
//! - [`Flow::shrink`] once it has been idle for a while.
//!
//! What the destination has not acknowledged is kept in the *backup pool*
//! (`backup`), so that loss behind the Depot is repaired from here; its READ
//! responses are kept (`responses`) until the requester's gateway has them.
//! `docs/protocol.md` lists the rules with their tests.

mod backup;
mod doubt;
mod fast_path;
mod flow;
mod lan;
mod memory;
mod pacing;
mod report;
mod responses;
mod reverse;
mod sequence;
mod share;
mod sync;
mod timers;

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{Fetch, LastAck, Status};
use common::frame::{Class, Frame, Packet};
use common::metrics::Metric;
use common::time::{Span, Time};

pub use flow::{Flow, Incarnation};
pub use lan::{Host, Lan};
pub use reverse::Known;

/// What is the same for all flows of a switch.
#[derive(Clone, Debug)]
pub struct Config {
    /// Round trip of the long-haul link until a SYNC tells it.
    pub rtt_guess: Span,
    /// Interval of STATUS while data flows; `None`: half a round trip.
    pub status_interval: Option<Span>,
    /// How long the oldest gap may stay open before what waits behind it is
    /// released; `None`: six round trips, at least 20 ms.
    pub give_up: Option<Span>,
    /// Time that the destination is given to answer a packet that asks for it;
    /// `None`: from the measured round trip to it ([`Rtt::timeout`](common::rtt::Rtt::timeout)),
    /// at least `t_out_min`. Doubled with each resend.
    pub t_out: Option<Span>,
    /// The shortest `t_out` that is derived from a round trip.
    pub t_out_min: Span,
    /// How often unanswered packets are resent to the destination before the
    /// source has to find out.
    pub local_retries: u8,
    /// Whether READ responses are kept for the requester's gateway, as requests
    /// are at the Sentry: both boxes of a link have the same mode, as a rule.
    pub keeps_responses: bool,
    /// Most PSNs by which a packet may be ahead and still be held.
    pub window_max: u64,
    /// Shortest time between two CNPs for a flow; `None`: the source is sent none.
    pub cnp_interval: Option<Span>,
    /// Whether what waited behind a gap goes on at the pace at which it came,
    /// rather than all at once.
    pub pacing: bool,
}

/// What a flow makes happen. The switch implements it.
pub trait Actions<F: Frame> {
    /// Sends a data packet on to the destination.
    fn deliver(&mut self, packet: Packet<F>);
    /// Sends an answer of the destination on to the source.
    fn answer(&mut self, packet: Packet<F>, class: Class);
    /// Sends the source an ACK of what the destination has acknowledged, in
    /// order with its answers.
    fn ack(&mut self, ack: LastAck);
    /// Sends the source a CNP, if its QPN is known. Returns whether it went.
    fn cnp(&mut self) -> bool;
    /// Ends the incarnation of a frame or handle, booked under `reason`.
    fn discard(&mut self, packet: Packet<F>, reason: Metric);
    /// Sends a STATUS about `epoch` of this flow to the Sentry.
    fn status(&mut self, epoch: u32, status: Status);
    /// The host that the flow leads to.
    fn destination(&self) -> Host;
    /// The flow's number, by which it is called when it is its [turn](Flow::on_turn).
    fn id(&self) -> u32;
    /// Tells the Sentry which READ responses are not to be had. In [`Class::Data`] it goes in
    /// order with what is [answered](Self::answer).
    fn absent(&mut self, epoch: u32, absent: Fetch, class: Class);
    /// The requester's QPN, if it is known beyond doubt.
    fn src_qpn(&self) -> Option<u32>;
    /// Bumps a counter.
    fn count(&mut self, metric: Metric, n: u64);
}

/// What a call is given besides its event.
pub struct Context<'a, A> {
    /// Now.
    pub now: Time,
    /// Shared configuration.
    pub config: &'a Config,
    /// What all reordering pools of this worker may hold.
    pub pool: &'a mut Budget,
    /// What all backup pools of this worker may hold.
    pub backup: &'a mut Budget,
    /// What all caches of this worker may hold: READ responses take from it.
    pub cache: &'a mut Budget,
    /// What is on the way to the hosts of the LAN.
    pub lan: &'a mut Lan,
    /// What this worker may say that need not be said.
    pub allowance: &'a mut Allowance,
    /// Takes what is to happen.
    pub out: &'a mut A,
}
