//! The Depot: the pipeline of a gateway near the destination of a flow.
//!
//! It receives every request from the long-haul link, holds early packets, reports gaps to
//! the Sentry (a STATUS with missing ranges, the *Depot-NACK*), and delivers in order. Until a
//! Sentry announces the flow, it forwards all packets unchanged.
//!
//! The crate does no IO. The switch calls a [`Flow`] with frames, SYNCs and the time; the flow
//! calls [`Actions`]:
//!
//! - [`Flow::on_data`] for each request packet from the long-haul link,
//! - [`Flow::on_sync`] and [`Flow::on_fetch`] for the Sentry's messages about the flow,
//! - [`Flow::on_response`] for a response of the destination that certainly belongs to this flow,
//! - after any of these, [`Flow::deadline`], and [`Flow::on_timer`] at that time,
//! - [`Flow::shrink`] after an idle period.
//!
//! The *backup pool* (`backup`) keeps delivered packets until the destination acknowledges
//! them, and repairs loss behind the Depot. `responses` keeps READ responses until the
//! requester's gateway has them. `docs/protocol.md` lists the rules, whose ids code and tests cite.

mod backup;
mod doubt;
mod fast_path;
mod flow;
mod hosts;
mod lan;
mod lan_share;
mod memory;
mod nak;
mod pacing;
mod report;
mod responses;
mod reverse;
mod sequence;
mod short;
mod summary;
mod sync;
mod timers;
mod tolerance;

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{Epoch, Fetch, LastAck, Status};
use common::frame::{Class, Frame, Packet};
use common::histogram::Timing;
use common::ids::FlowId;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::verdict::Tolerance;
use common::wire::Qpn;

pub use flow::{Flow, Incarnation};
pub use lan::{Host, Lan};
pub use reverse::Known;

/// Configuration shared by all flows of a switch.
#[derive(Clone, Debug)]
pub struct Config {
    /// Round trip time of the long-haul link that is assumed until a SYNC carries it.
    pub rtt_guess: Span,
    /// Interval of STATUS while data flows; `None`: half a round trip.
    pub status_interval: Option<Span>,
    /// How long the oldest gap may stay open before the packets behind it are delivered;
    /// `None`: six round trips, at least 20 ms.
    pub give_up: Option<Span>,
    /// Time within which the destination responds to a packet that requests an ACK;
    /// `None`: from the measured round trip to its host ([`Rtt::timeout`](common::rtt::Rtt::timeout)),
    /// at least `t_out_min`. Doubled with each resend.
    pub t_out: Option<Span>,
    /// Lower bound of a derived `t_out`.
    pub t_out_min: Span,
    /// How often a packet without a response is resent to the destination before recovery is
    /// left to the source.
    pub local_retries: u8,
    /// Whether READ responses are cached for the requester's gateway. Both boxes of a link
    /// normally run the same mode.
    pub keeps_responses: bool,
    /// Most PSNs by which a packet may be ahead and still be held.
    pub window_max: u64,
    /// Shortest time between two CNPs for a flow; `None`: the source is sent none.
    pub cnp_interval: Option<Span>,
    /// Whether packets held behind a gap are delivered at the pace at which they came, rather
    /// than in one burst.
    pub pacing: bool,
    /// When a missing packet counts as lost.
    pub tolerance: Tolerance,
    /// Whether steady flows take the fast path. Without it the result is the same: it is off in tests that compare.
    pub fast_path: bool,
}

/// Effects of a flow. The switch implements them.
pub trait Actions<F: Frame> {
    /// Sends a data packet to the destination.
    fn deliver(&mut self, packet: Packet<F>);
    /// Forwards a response of the destination to the source.
    fn respond(&mut self, packet: Packet<F>, class: Class);
    /// Sends the source an ACK that repeats the destination's newest acknowledgement, in order
    /// with its responses.
    fn ack(&mut self, ack: LastAck);
    /// Sends the source a CNP, if its QPN is known. Returns whether it was sent.
    fn cnp(&mut self) -> bool;
    /// Frees a frame or handle, and counts it under `reason`.
    fn discard(&mut self, packet: Packet<F>, reason: Metric);
    /// Sends a STATUS about `epoch` of this flow to the Sentry.
    fn status(&mut self, epoch: Epoch, status: Status);
    /// The host that receives the flow.
    fn destination(&self) -> Host;
    /// The flow's number, by which its [turn](Flow::on_turn) is given.
    fn id(&self) -> FlowId;
    /// Tells the Sentry which READ responses this box does not have. In [`Class::Data`] the
    /// message stays in order with [responses](Self::respond).
    fn absent(&mut self, epoch: Epoch, absent: Fetch, class: Class);
    /// The requester's QPN, if it is known beyond doubt.
    fn src_qpn(&self) -> Option<Qpn>;
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
    /// Budget of all reordering pools of this worker.
    pub pool: &'a mut Budget,
    /// Budget of all backup pools of this worker.
    pub backup: &'a mut Budget,
    /// Budget of all caches of this worker, which READ responses take from.
    pub cache: &'a mut Budget,
    /// Congestion windows and response times of the hosts on the LAN.
    pub lan: &'a mut Lan,
    /// Budget of messages that are not needed for correctness.
    pub allowance: &'a mut Allowance,
    /// Receives the effects.
    pub out: &'a mut A,
}
