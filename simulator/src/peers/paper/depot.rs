//! Near the receiver: holds what is early, names gaps once, keeps what is not
//! yet acknowledged.

use std::collections::{BTreeMap, VecDeque};

use common::frame::{Class, Frame, Side, Sink};
use common::psn::Seq;
use common::time::{Span, Time};
use common::wire::{Answer, Roce, Verdict, parse};

use super::transmit;
use crate::frame::SimFrame;
use crate::peers::{Map, answered, flow, marks};

struct Flow {
    /// ePSN: the next packet in order.
    expected: Seq,
    /// ePSN_D: one past the highest seen.
    high: Seq,
    early: BTreeMap<Seq, SimFrame>,
    /// Delivered and not acknowledged, in order.
    backup: VecDeque<(Seq, SimFrame)>,
    /// When all of them are resent: an ACK was asked for, and is overdue then.
    resend_at: Time,
    /// How long an ACK may take: doubled by each that is overdue, as the
    /// downstream network may be congested.
    patience: Span,
}

pub(super) struct Depot {
    flows: Map<Flow>,
    reorder_limit: u64,
    backup_limit: u64,
    reorder: u64,
    backup: u64,
    t_out: Span,
    /// No flow's timer goes off earlier.
    next: Time,
}

impl Depot {
    pub(super) fn new(reorder_limit: u64, backup_limit: u64, t_out: Span) -> Self {
        Self {
            flows: Map::default(),
            reorder_limit,
            backup_limit,
            reorder: 0,
            backup: 0,
            t_out,
            next: Time::NEVER,
        }
    }

    /// A packet from the other site.
    pub(super) fn on_data(
        &mut self,
        frame: SimFrame,
        roce: &Roce,
        now: Time,
        sink: &mut impl Sink<Frame = SimFrame>,
    ) {
        let flow = self.flows.entry(flow(roce)).or_insert_with(|| Flow {
            expected: Seq::first(roce.psn),
            high: Seq::first(roce.psn),
            early: BTreeMap::new(),
            backup: VecDeque::new(),
            resend_at: Time::NEVER,
            patience: self.t_out,
        });
        let seq = roce.psn.unwrap_near(flow.expected);
        if seq < flow.expected {
            return transmit(sink, Side::Lan, Class::Data, frame);
        }
        let len = frame.bytes().len() as u64;
        if seq > flow.expected && self.reorder + len > self.reorder_limit {
            // As if it had not come: the next one that finds room shows the gap.
            return;
        }
        if seq > flow.high {
            let nak = marks::nak(&frame, roce, flow.high, seq.since(flow.high));
            transmit(sink, Side::Wan, Class::High, nak);
        }
        flow.high = flow.high.max(seq.next());
        if seq > flow.expected {
            if flow.early.insert(seq, frame).is_none() {
                self.reorder += len;
            }
            return;
        }
        let mut in_order = Some(frame);
        while let Some(frame) = in_order {
            let len = frame.bytes().len() as u64;
            while self.backup + len > self.backup_limit
                && let Some((_, oldest)) = flow.backup.pop_front()
            {
                self.backup -= oldest.bytes().len() as u64;
            }
            if self.backup + len <= self.backup_limit {
                self.backup += len;
                flow.backup.push_back((flow.expected, frame.clone()));
                if parse(frame.bytes()).is_ok_and(|roce| roce.ack_req) {
                    flow.resend_at = flow.resend_at.min(now + flow.patience);
                    self.next = self.next.min(flow.resend_at);
                }
            }
            transmit(sink, Side::Lan, Class::Data, frame);
            flow.expected = flow.expected.next();
            in_order = flow.early.remove(&flow.expected);
            if let Some(frame) = &in_order {
                self.reorder -= frame.bytes().len() as u64;
            }
        }
    }

    /// An answer of the destination.
    pub(super) fn on_answer(
        &mut self,
        frame: SimFrame,
        roce: &Roce,
        now: Time,
        sink: &mut impl Sink<Frame = SimFrame>,
    ) {
        if let Some(answer) = Answer::of(roce, frame.bytes())
            && let Some(flow) = self.flows.get_mut(&answered(roce))
        {
            let seq = answer.psn.unwrap_near(flow.expected);
            let acked = if answer.is_nak() { seq } else { seq.next() };
            while flow.backup.front().is_some_and(|(oldest, _)| *oldest < acked)
                && let Some((_, frame)) = flow.backup.pop_front()
            {
                self.backup -= frame.bytes().len() as u64;
            }
            flow.patience = self.t_out;
            if flow.backup.is_empty() {
                flow.resend_at = Time::NEVER;
            } else if flow.resend_at < Time::NEVER {
                flow.resend_at = now + flow.patience;
            }
            let has_it = flow.backup.front().is_some_and(|(oldest, _)| *oldest == seq);
            if answer.verdict == Verdict::Missing && has_it {
                return resend(flow, sink);
            }
        }
        transmit(sink, Side::Wan, Class::Data, frame);
    }

    pub(super) fn on_timer(&mut self, now: Time, sink: &mut impl Sink<Frame = SimFrame>) {
        if self.next > now {
            return;
        }
        self.next = Time::NEVER;
        // In the same order on every run: the hasher has no seed.
        for flow in self.flows.values_mut() {
            if flow.resend_at <= now {
                resend(flow, sink);
                flow.patience = flow.patience * 2;
                flow.resend_at = now + flow.patience;
            }
            self.next = self.next.min(flow.resend_at);
        }
    }

    pub(super) const fn next(&self) -> Time {
        self.next
    }

    pub(super) const fn held(&self) -> (u64, u64) {
        (self.reorder, self.backup)
    }
}

/// Everything that the destination has not acknowledged, in order, and behind
/// what still waits at the port.
fn resend(flow: &Flow, sink: &mut impl Sink<Frame = SimFrame>) {
    for (_, frame) in &flow.backup {
        transmit(sink, Side::Lan, Class::Data, frame.clone());
    }
}
