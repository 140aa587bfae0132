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
//! - [`Flow::on_sync`] for each SYNC about the flow,
//! - [`Flow::on_ack`], [`Flow::on_nak`] for what the destination sends back,
//!   once the switch is sure that it belongs to this flow,
//! - after any of these, ask [`Flow::deadline`] and call [`Flow::on_timer`]
//!   when that time has come.
//!
//! `docs/protocol.md` lists the rules with their tests. Loss behind the Depot is left to the RNICs so far: there is no
//! backup pool yet, so a NAK for what was delivered goes on to the source.

mod flow;
mod report;
mod reverse;
mod sequence;
mod timers;

use common::budget::Budget;
use common::control::Status;
use common::frame::{Frame, Packet};
use common::metrics::Metric;
use common::time::{Span, Time};

pub use flow::{Flow, Life};
pub use reverse::Verdict;

/// What is the same for all flows of a switch.
#[derive(Clone, Debug)]
pub struct Config {
    /// Round trip of the long-haul link until a SYNC tells it.
    pub rtt_guess: Span,
    /// Interval of STATUS while data flows; `None`: half a round trip.
    pub status_interval: Option<Span>,
    /// How long the oldest hole may stay open before what waits behind it is
    /// released; `None`: six round trips, at least 20 ms.
    pub give_up: Option<Span>,
    /// Most PSNs by which a packet may be ahead and still be held.
    pub window_max: u64,
}

/// What a flow makes happen. The switch implements it.
pub trait Actions<F: Frame> {
    /// Sends a data packet on to the destination.
    fn deliver(&mut self, packet: Packet<F>);
    /// Ends the life of a frame or handle, booked under `reason`.
    fn discard(&mut self, packet: Packet<F>, reason: Metric);
    /// Sends a STATUS about `epoch` of this flow to the Sentry.
    fn status(&mut self, epoch: u32, status: Status);
    /// The requester's QPN, if it is known beyond doubt.
    fn requester(&self) -> Option<u32>;
    /// Bumps a counter.
    fn count(&mut self, metric: Metric, n: u64);
}

/// What a call is given besides its event.
pub struct Cx<'a, A> {
    /// Now.
    pub now: Time,
    /// Shared configuration.
    pub config: &'a Config,
    /// The bytes that all reordering pools of this worker may hold.
    pub pool: &'a mut Budget,
    /// Takes what is to happen.
    pub out: &'a mut A,
}
