//! Near the sender: numbers packets, and keeps a copy of each.

use std::collections::BTreeMap;

use common::frame::{Class, Frame, Side};
use common::time::{Span, Time};
use common::wire::Roce;

use super::Context;
use super::hop::{Gap, Message, Status, numbered};
use crate::frame::SimFrame;
use crate::peers::{Key, Map, Ports, flow};

struct Flow {
    number: u32,
    /// Of the next packet.
    next: u32,
    /// By their numbers, with the time at which each was resent last.
    copies: BTreeMap<u32, (SimFrame, Time)>,
    /// When the oldest of them is resent unasked.
    overdue: Time,
    /// How long nothing may be heard of it: doubled each time.
    patience: Span,
}

pub(super) struct Near {
    numbers: Map<u32>,
    flows: Vec<Flow>,
    rtt: Span,
    held: u64,
    /// No flow's timer goes off earlier.
    next: Time,
}

impl Near {
    pub(super) fn new(rtt: Span) -> Self {
        Self { numbers: Map::default(), flows: Vec::new(), rtt, held: 0, next: Time::NEVER }
    }

    fn flow(&mut self, key: Key) -> &mut Flow {
        let number = self.flows.len() as u32;
        let number = *self.numbers.entry(key).or_insert(number);
        if number as usize == self.flows.len() {
            let (copies, overdue) = (BTreeMap::new(), Time::NEVER);
            self.flows.push(Flow { number, next: 0, copies, overdue, patience: self.rtt * 2 });
        }
        &mut self.flows[number as usize]
    }

    /// A packet from the source, new or repeated: both are packets of the link.
    pub(super) fn on_data(
        &mut self,
        frame: &SimFrame,
        roce: &Roce,
        cx: &mut Context<'_, impl Ports>,
    ) {
        let flow = self.flow(flow(roce));
        let frame = numbered(frame, flow.number, flow.next);
        let has_room = cx.memory.take(&frame);
        if has_room {
            if flow.copies.is_empty() {
                flow.overdue = cx.now + flow.patience;
            }
            flow.copies.insert(flow.next, (frame.clone(), Time::ZERO));
        }
        flow.next += 1;
        let overdue = flow.overdue;
        self.next = self.next.min(overdue);
        self.held += if has_room { frame.bytes().len() as u64 } else { 0 };
        cx.out.send(Side::Wan, Class::Data, frame);
    }

    /// A report of the other switch arrived: the packets that it has, and those it lacks.
    pub(super) fn on_status(&mut self, status: &Status, cx: &mut Context<'_, impl Ports>) {
        let Some(flow) = self.flows.get_mut(status.flow as usize) else { return };
        let kept = flow.copies.split_off(&status.expected);
        for (frame, _) in core::mem::replace(&mut flow.copies, kept).values() {
            cx.memory.release(frame);
            self.held -= frame.bytes().len() as u64;
        }
        flow.patience = self.rtt * 2;
        flow.overdue = if flow.copies.is_empty() { Time::NEVER } else { cx.now + flow.patience };
        self.next = self.next.min(flow.overdue);
        let mut gone: Vec<Gap> = Vec::new();
        for number in status.gaps.iter().flat_map(|(from, to)| *from..*to) {
            match (flow.copies.get_mut(&number), gone.last_mut()) {
                // The other switch asked before the repeat had come.
                (Some((_, resent)), _) if cx.now < *resent + self.rtt.scale(9, 8) => {}
                (Some((frame, resent)), _) => {
                    *resent = cx.now;
                    cx.out.send(Side::Wan, Class::High, frame.clone());
                }
                (None, Some((_, to))) if *to == number => *to += 1,
                (None, _) => gone.push((number, number + 1)),
            }
        }
        if !gone.is_empty() {
            let message = Message::Gone { flow: status.flow, gaps: gone };
            cx.out.send(Side::Wan, Class::High, message.frame());
        }
    }

    pub(super) fn on_timer(&mut self, cx: &mut Context<'_, impl Ports>) {
        if self.next > cx.now {
            return;
        }
        self.next = Time::NEVER;
        for flow in &mut self.flows {
            if flow.overdue <= cx.now {
                if let Some((oldest, resent)) = flow.copies.values_mut().next() {
                    *resent = cx.now;
                    cx.out.send(Side::Wan, Class::High, oldest.clone());
                }
                flow.patience = flow.patience * 2;
                flow.overdue = cx.now + flow.patience;
            }
            self.next = self.next.min(flow.overdue);
        }
    }

    pub(super) const fn next(&self) -> Time {
        self.next
    }

    pub(super) const fn held(&self) -> u64 {
        self.held
    }
}
