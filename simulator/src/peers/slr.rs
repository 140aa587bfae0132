//! SLR: a switch near the sender that tells it of loss at once.
//!
//! It watches the packets of each queue pair. A gap before it is reported to
//! the sender without waiting for the other site, and packets that the receiver would
//! drop anyway, everything between the first missing packet and its repeat, is
//! dropped here already. Loss beyond it is told by the receiver, a long-haul
//! round trip later; the NAK then starts the same filter. Nothing is kept and
//! nothing resent.
//!
//! Modelled after the description in LR2's paper and the survey that introduced it;
//! the original isn't at hand. Its NAKs need a RNIC that knows them, as LR2's
//! do: a plain NAK would acknowledge packets still on their way.

use common::frame::{Class, Frame, Packet, Side, Sink};
use common::psn::Seq;
use common::time::Time;
use common::wire::{Response, Verdict, parse};

use super::{Map, answered, flow, marks};
use crate::frame::SimFrame;
use crate::node::{Egress, Middlebox};

#[derive(Clone, Copy)]
struct Flow {
    /// One past the newest packet in order.
    next: Seq,
    /// The first missing packet: until it comes all behind it are dropped.
    awaited: Option<Seq>,
}

/// The switch near the sender. Near the receiver it only lets pass.
#[derive(Default)]
pub struct Slr {
    flows: Map<Flow>,
    /// Packets dropped because their receiver would have dropped them.
    pub filtered: u64,
}

impl Slr {
    /// A frame has arrived on `side`.
    pub fn receive(&mut self, side: Side, frame: SimFrame, sink: &mut impl Sink<Frame = SimFrame>) {
        let pass = |frame, sink: &mut _| transmit(sink, side.other(), frame);
        let Ok(roce) = parse(frame.bytes()) else { return pass(frame, sink) };
        if side == Side::Lan && roce.opcode.kind().is_request() {
            let first = Seq::first(roce.psn);
            let state =
                self.flows.entry(flow(&roce)).or_insert(Flow { next: first, awaited: None });
            let seq = roce.psn.unwrap_near(state.next);
            match state.awaited {
                Some(awaited) if seq > awaited => {
                    self.filtered += 1;
                    return;
                }
                Some(_) => state.awaited = None,
                None if seq > state.next => {
                    state.awaited = Some(state.next);
                    let nak = marks::nak(&frame, &roce, state.next, seq.since(state.next));
                    self.filtered += 1;
                    return transmit(sink, Side::Lan, nak);
                }
                None => {}
            }
            state.next = state.next.max(seq.next());
        } else if side == Side::Wan
            && let Some(response) = Response::of(&roce, frame.bytes())
            && response.verdict == Verdict::Missing
            && let Some(state) = self.flows.get_mut(&answered(&roce))
        {
            let seq = response.psn.unwrap_near(state.next);
            if seq < state.next {
                state.awaited = Some(seq);
            }
        }
        pass(frame, sink);
    }
}

impl Middlebox for Slr {
    fn receive(&mut self, side: Side, frame: SimFrame, _: Time, out: &mut Egress) {
        Self::receive(self, side, frame, out);
    }
}

fn transmit(sink: &mut impl Sink<Frame = SimFrame>, side: Side, frame: SimFrame) {
    sink.transmit(side, Class::Data, Packet::Owned(frame));
}
