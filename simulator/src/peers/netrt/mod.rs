//! NetRT: switches that keep every packet until the next hop has it, and resend
//! it themselves.
//!
//! Modelled after the digest of LR2's paper, which calls it local retransmission,
//! offloaded wholly to switches: high throughput, RNICs as they are, a switch near
//! each end, and a buffer for all packets in flight, which is too much at a
//! large bandwidth-delay product. The original isn't at hand.
//!
//! # The model
//!
//! - The switch near the sender (`near`) numbers the data packets that
//!   it sends over the long-haul link, per queue pair, and keeps a copy of each until the
//!   other switch has it in order.
//! - The switch near the receiver (`far`) puts them in order, asks for the
//!   missing ones, and delivers packets in order at once. It keeps a copy of
//!   each until the destination's ACK, and answers the destination's NAK
//!   with it.
//! - The switches talk to each other (`hop`) in frames of their own; the number of
//!   a packet stands behind it, in 8 bytes.
//!
//! # Where the digest is silent
//! The reading that suits the original best, each with a test in `tests`:
//!
//! - *A full buffer.* All flows and all three uses share it. Near the sender a packet then
//!   passes without a copy, and those that have one keep it: a copy that gives way
//!   to a newer one would be gone when it is asked for, a round trip later. Near the
//!   receiver the flow is no longer held: waiting packets are delivered, and the
//!   destination's NAK crosses the link, as it would have done without
//!   switches.
//! - *A packet without a copy is lost.* The switch near the sender reports it, and the other one
//!   delivers the packets that wait behind it: the destination's NAK then crosses the
//!   link, and the source goes back, a round trip later than without switches.
//! - *A lost request, repeat or tail.* Requests are repeated each round trip of the
//!   link; a switch that hears nothing of its oldest copy for two round
//!   trips resends that one.
//! - *Loss before the switch near the sender.* It isn't the switch's: the numbers are its own, so
//!   that the receiver sees the gap, and its NAK goes to the source.

mod far;
mod hop;
mod near;
#[cfg(test)]
mod tests;

use common::frame::{Class, Frame, Side};
use common::time::{Span, Time};
use common::wire::parse;

use self::far::Far;
use self::hop::Message;
use self::near::Near;
use super::{Peer, Ports};
use crate::frame::SimFrame;
use crate::results::Pools;

/// The memory of a switch.
struct Memory {
    free: u64,
}

impl Memory {
    /// Room for `frame`, if there is any.
    fn take(&mut self, frame: &SimFrame) -> bool {
        let left = self.free.checked_sub(frame.bytes().len() as u64);
        self.free = left.unwrap_or(self.free);
        left.is_some()
    }

    fn release(&mut self, frame: &SimFrame) {
        self.free += frame.bytes().len() as u64;
    }
}

/// A switch's surroundings while it handles an event.
struct Context<'a, P> {
    now: Time,
    memory: &'a mut Memory,
    out: &'a mut P,
}

/// A switch, near the sender of some flows and near the receiver of others.
pub struct NetRt {
    memory: Memory,
    near: Near,
    far: Far,
}

impl NetRt {
    /// A switch with a buffer of `bytes`, at a long-haul link with a round trip of `rtt`.
    pub fn new(bytes: u64, rtt: Span) -> Self {
        Self { memory: Memory { free: bytes }, near: Near::new(rtt), far: Far::new(rtt) }
    }
}

impl Peer for NetRt {
    fn receive(&mut self, side: Side, frame: SimFrame, now: Time, out: &mut impl Ports) {
        let Self { memory, near, far } = self;
        let cx = &mut Context { now, memory, out };
        if side == Side::Wan
            && let Some(message) = Message::read(frame.bytes())
        {
            return match message {
                Message::Status(status) => near.on_status(&status, cx),
                Message::Gone { flow, gaps } => {
                    far.on_gone(flow, &gaps, cx);
                }
            };
        }
        let Ok(roce) = parse(frame.bytes()) else {
            return cx.out.send(side.other(), Class::Data, frame);
        };
        let kind = roce.opcode.kind();
        match (side, kind.is_request(), kind.is_response()) {
            (Side::Lan, true, _) => near.on_data(&frame, &roce, cx),
            (Side::Wan, true, _) => far.on_data(&frame, &roce, cx),
            (Side::Lan, _, true) => far.on_response(frame, &roce, cx),
            _ => cx.out.send(side.other(), Class::Data, frame),
        }
    }

    fn next(&self) -> Time {
        self.near.next().min(self.far.next())
    }

    /// Repeats requests, and packets that nothing is heard of.
    fn timers(&mut self, now: Time, out: &mut impl Ports) {
        let cx = &mut Context { now, memory: &mut self.memory, out };
        self.near.on_timer(cx);
        self.far.on_timer(cx);
    }

    fn held(&self) -> Pools {
        let (reorder_bytes, backup_bytes) = self.far.held();
        Pools { reorder_bytes, backup_bytes, cache_bytes: self.near.held() }
    }
}
