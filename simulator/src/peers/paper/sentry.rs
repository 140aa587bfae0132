//! Near the sender: reports gaps, filters repeats.

use std::collections::BTreeSet;

use common::frame::{Class, Frame, Side};
use common::psn::Seq;
use common::wire::{Response, Roce, Verdict, has_switch_bit};

use crate::frame::SimFrame;
use crate::peers::{Map, Ports, answered, flow, marks};

struct Flow {
    /// ePSN_s: the next new packet from the source.
    next: Seq,
    /// The SR filter: PSNs that the Depot misses.
    needed: BTreeSet<Seq>,
    /// Whether the gap before the Sentry has been reported.
    reported: bool,
}

#[derive(Default)]
pub(super) struct Sentry {
    flows: Map<Flow>,
}

impl Sentry {
    /// A packet from the source.
    pub(super) fn on_data(&mut self, frame: SimFrame, roce: &Roce, out: &mut impl Ports) {
        let flow = self.flows.entry(flow(roce)).or_insert_with(|| Flow {
            next: Seq::first(roce.psn),
            needed: BTreeSet::new(),
            reported: false,
        });
        let seq = roce.psn.unwrap_near(flow.next);
        if seq > flow.next {
            // Lost between source and Sentry.
            if !core::mem::replace(&mut flow.reported, true) {
                let nak = marks::nak(&frame, roce, flow.next, seq.since(flow.next));
                out.send(Side::Lan, Class::High, nak);
            }
            return;
        }
        if seq == flow.next {
            flow.next = seq.next();
            flow.reported = false;
            return out.send(Side::Wan, Class::Data, frame);
        }
        let is_needed = flow.needed.remove(&seq);
        if is_needed || !has_switch_bit(frame.bytes(), roce) {
            out.send(Side::Wan, Class::High, frame);
        }
    }

    /// A response from the other site, or a Depot-NACK.
    pub(super) fn on_response(&mut self, frame: SimFrame, roce: &Roce, out: &mut impl Ports) {
        if let Some(response) = Response::of(roce, frame.bytes())
            && response.verdict == Verdict::Missing
            && has_switch_bit(frame.bytes(), roce)
            && let Some(flow) = self.flows.get_mut(&answered(roce))
        {
            let first = response.psn.unwrap_near(flow.next);
            let count = u64::from(response.msn.unwrap_or_default());
            flow.needed.extend((0..count).map(|n| first + n));
        }
        out.send(Side::Lan, Class::Data, frame);
    }
}
