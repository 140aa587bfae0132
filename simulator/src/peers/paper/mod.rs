//! LR2 as published, for Tofino switches and RNICs that know a switch's NAK.
//!
//! What is modelled, from a description of the paper: a Sentry that reports gaps
//! before it at once and filters the repeats of a rewind by a bitmap; a Depot
//! that holds what arrives early, names each gap once, in a Depot-NACK that the
//! Sentry hands to the source, and repairs loss behind it from a small pool of
//! what was not yet acknowledged, on a NAK or after two downstream round trips;
//! pools of 1 MB and 50 KB. Repeats are marked by the RNIC when a switch asked
//! for them: those are filtered; repeats after a timeout or for the receiver's
//! own NAK all pass.
//!
//! What it does without, as the paper does: a second Depot-NACK when a repeat
//! or the NACK itself is lost (the source's timeout repairs that), and any
//! knowledge of lost tails. The switches know each other and every queue pair
//! from the first packet on.

mod depot;
mod sentry;

use common::frame::{Class, Frame, Packet, Side, Sink};
use common::time::{Span, Time};
use common::wire::parse;

use self::depot::{Depot, Limits};
use self::sentry::Sentry;
use crate::frame::SimFrame;

/// The shortest time that the destination is given to acknowledge. Twice the
/// bare round trip, as published, goes off in the middle of what a filled gap
/// releases: RNICs acknowledge one packet in many, and the burst itself waits at
/// the port. The model would drown in resends of its own.
const T_OUT_MIN: Span = Span::from_micros(0);

/// Both roles of a box.
pub struct Paper {
    sentry: Sentry,
    depot: Depot,
}

impl Paper {
    /// A box with `reorder` and `backup` bytes of pool, whose port towards the
    /// hosts has `lan_rate` bit/s, at a site whose own round trip is `local_rtt`.
    pub fn new(reorder: u64, backup: u64, local_rtt: Span, lan_rate: u64) -> Self {
        let limits = Limits { reorder, backup, t_out: (local_rtt * 2).max(T_OUT_MIN), lan_rate };
        Self { sentry: Sentry::default(), depot: Depot::new(limits) }
    }

    /// A frame has arrived on `side`.
    pub fn receive(
        &mut self,
        side: Side,
        frame: SimFrame,
        now: Time,
        sink: &mut impl Sink<Frame = SimFrame>,
    ) {
        let Ok(roce) = parse(frame.bytes()) else {
            return transmit(sink, side.other(), Class::Data, frame);
        };
        let kind = roce.opcode.kind();
        match (side, kind.is_request(), kind.is_response()) {
            (Side::Lan, true, _) => self.sentry.on_data(frame, &roce, sink),
            (Side::Wan, true, _) => self.depot.on_data(frame, &roce, now, sink),
            (Side::Lan, _, true) => self.depot.on_answer(frame, &roce, now, sink),
            (Side::Wan, _, true) => self.sentry.on_answer(frame, &roce, sink),
            _ => transmit(sink, side.other(), Class::Data, frame),
        }
    }

    /// Resends what the destination has not acknowledged for too long.
    pub fn timers(&mut self, now: Time, sink: &mut impl Sink<Frame = SimFrame>) {
        self.depot.on_timer(now, sink);
    }

    /// When [`timers`](Self::timers) has something to do.
    pub fn next(&self) -> Time {
        self.depot.next()
    }

    /// Bytes held in the reordering and the backup pool.
    pub const fn held(&self) -> (u64, u64) {
        self.depot.held()
    }
}

fn transmit(sink: &mut impl Sink<Frame = SimFrame>, side: Side, class: Class, frame: SimFrame) {
    sink.transmit(side, class, Packet::Owned(frame));
}
