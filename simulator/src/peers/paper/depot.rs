//! Near the receiver: holds early packets, names gaps once, keeps packets that are not
//! yet acknowledged.

use std::collections::{BTreeMap, VecDeque};

use common::frame::{Class, Frame, Side, Sink};
use common::psn::Seq;
use common::time::{Span, Time};
use common::wire::{Response, Roce, Verdict, parse};
use link::wire_bytes;

use super::transmit;
use crate::frame::SimFrame;
use crate::peers::{Map, answered, flow, marks};

struct Flow {
    /// ePSN: the next packet in order.
    expected: Seq,
    /// ePSN_D: one past the highest seen.
    high: Seq,
    /// One past the highest that found no room.
    refused: Seq,
    early: BTreeMap<Seq, SimFrame>,
    /// Delivered and not acknowledged, in order.
    backup: VecDeque<(Seq, SimFrame)>,
    /// When all of them are resent: an ACK was asked for, and is overdue then.
    resend_at: Time,
    /// How long an ACK may take: doubled by each that is overdue, as the
    /// downstream network may be congested.
    patience: Span,
}

/// The box's configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Bytes of the reordering pool, for all flows together.
    pub(super) reorder: u64,
    /// Bytes of the backup pool, likewise.
    pub(super) backup: u64,
    /// How long the destination may take to acknowledge.
    pub(super) t_out: Span,
    /// bit/s of the port towards it.
    pub(super) lan_rate: u64,
}

/// When the port towards the hosts will have sent all that was handed to it.
struct Port {
    rate: u64,
    free: Time,
}

impl Port {
    fn transmit(&mut self, frame: SimFrame, now: Time, sink: &mut impl Sink<Frame = SimFrame>) {
        let bits = wire_bytes(frame.bytes().len()) * 8;
        self.free = self.free.max(now) + Span::from_nanos(bits * 1_000_000_000 / self.rate);
        transmit(sink, Side::Lan, Class::Data, frame);
    }
}

pub(super) struct Depot {
    flows: Map<Flow>,
    limits: Limits,
    lan: Port,
    /// Bytes held.
    reorder: u64,
    backup: u64,
    /// No flow's timer goes off earlier.
    next: Time,
}

impl Depot {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            flows: Map::default(),
            limits,
            lan: Port { rate: limits.lan_rate, free: Time::ZERO },
            reorder: 0,
            backup: 0,
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
            refused: Seq::first(roce.psn),
            early: BTreeMap::new(),
            backup: VecDeque::new(),
            resend_at: Time::NEVER,
            patience: self.limits.t_out,
        });
        let seq = roce.psn.unwrap_near(flow.expected);
        if seq < flow.expected {
            return self.lan.transmit(frame, now, sink);
        }
        let len = frame.bytes().len() as u64;
        if seq > flow.expected && self.reorder + len > self.limits.reorder {
            flow.refused = flow.refused.max(seq.next());
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
        let last = frame.clone();
        let mut in_order = Some(frame);
        while let Some(frame) = in_order {
            let len = frame.bytes().len() as u64;
            while self.backup + len > self.limits.backup
                && let Some((_, oldest)) = flow.backup.pop_front()
            {
                self.backup -= oldest.bytes().len() as u64;
            }
            if self.backup + len <= self.limits.backup {
                self.backup += len;
                flow.backup.push_back((flow.expected, frame.clone()));
            }
            let asks = parse(frame.bytes()).is_ok_and(|roce| roce.ack_req);
            self.lan.transmit(frame, now, sink);
            if asks {
                flow.resend_at = self.lan.free + flow.patience;
                self.next = self.next.min(flow.resend_at);
            }
            flow.expected = flow.expected.next();
            in_order = flow.early.remove(&flow.expected);
            if let Some(frame) = &in_order {
                self.reorder -= frame.bytes().len() as u64;
            }
        }
        // The box itself refused these packets.
        if flow.early.is_empty() && flow.refused > flow.high {
            let nak = marks::nak(&last, roce, flow.high, flow.refused.since(flow.high));
            transmit(sink, Side::Wan, Class::High, nak);
            flow.high = flow.refused;
        }
    }

    /// A response of the destination.
    pub(super) fn on_response(
        &mut self,
        frame: SimFrame,
        roce: &Roce,
        now: Time,
        sink: &mut impl Sink<Frame = SimFrame>,
    ) {
        if let Some(response) = Response::of(roce, frame.bytes())
            && let Some(flow) = self.flows.get_mut(&answered(roce))
        {
            let seq = response.psn.unwrap_near(flow.expected);
            let acked = if response.is_nak() { seq } else { seq.next() };
            while flow.backup.front().is_some_and(|(oldest, _)| *oldest < acked)
                && let Some((_, frame)) = flow.backup.pop_front()
            {
                self.backup -= frame.bytes().len() as u64;
            }
            flow.patience = self.limits.t_out;
            if flow.backup.is_empty() {
                flow.resend_at = Time::NEVER;
            }
            let has_it = flow.backup.front().is_some_and(|(oldest, _)| *oldest == seq);
            if response.verdict == Verdict::Missing && has_it {
                resend(flow, &mut self.lan, now, sink);
                flow.resend_at = self.lan.free + flow.patience;
                self.next = self.next.min(flow.resend_at);
                return;
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
                resend(flow, &mut self.lan, now, sink);
                flow.patience = flow.patience * 2;
                flow.resend_at = self.lan.free + flow.patience;
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
/// packets that still wait at the port.
fn resend(flow: &Flow, lan: &mut Port, now: Time, sink: &mut impl Sink<Frame = SimFrame>) {
    for (_, frame) in &flow.backup {
        lan.transmit(frame.clone(), now, sink);
    }
}
