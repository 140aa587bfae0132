//! Near the receiver: holds early packets, names gaps once, keeps packets that are not
//! yet acknowledged.

use std::collections::BTreeMap;

use common::frame::{Class, Frame, Side};
use common::psn::Seq;
use common::time::{Span, Time};
use common::wire::{Response, Roce, parse};
use link::wire_bytes;

use crate::frame::SimFrame;
use crate::peers::{Backup, Map, Ports, acknowledge, answered, flow, marks};

struct Flow {
    /// ePSN: the next packet in order.
    expected: Seq,
    /// ePSN_D: one past the highest seen.
    high: Seq,
    /// One past the highest that found no room.
    refused: Seq,
    early: BTreeMap<Seq, SimFrame>,
    /// Delivered and not acknowledged, in order.
    backup: Backup,
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
    fn transmit(&mut self, frame: SimFrame, now: Time, out: &mut impl Ports) {
        let bits = wire_bytes(frame.bytes().len()) * 8;
        self.free = self.free.max(now) + Span::from_nanos(bits * 1_000_000_000 / self.rate);
        out.send(Side::Lan, Class::Data, frame);
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
        out: &mut impl Ports,
    ) {
        let flow = self.flows.entry(flow(roce)).or_insert_with(|| Flow {
            expected: Seq::first(roce.psn),
            high: Seq::first(roce.psn),
            refused: Seq::first(roce.psn),
            early: BTreeMap::new(),
            backup: Backup::new(),
            resend_at: Time::NEVER,
            patience: self.limits.t_out,
        });
        let seq = roce.psn.unwrap_near(flow.expected);
        if seq < flow.expected {
            return self.lan.transmit(frame, now, out);
        }
        let len = frame.bytes().len() as u64;
        if seq > flow.expected && self.reorder + len > self.limits.reorder {
            flow.refused = flow.refused.max(seq.next());
            return;
        }
        if seq > flow.high {
            let nak = marks::nak(&frame, roce, flow.high, seq.since(flow.high));
            out.send(Side::Wan, Class::High, nak);
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
            self.lan.transmit(frame, now, out);
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
            out.send(Side::Wan, Class::High, nak);
            flow.high = flow.refused;
        }
    }

    /// A response of the destination.
    pub(super) fn on_response(
        &mut self,
        frame: SimFrame,
        roce: &Roce,
        now: Time,
        out: &mut impl Ports,
    ) {
        if let Some(response) = Response::of(roce, frame.bytes())
            && let Some(flow) = self.flows.get_mut(&answered(roce))
        {
            let is_asked = acknowledge(&mut flow.backup, &response, flow.expected, |copy| {
                self.backup -= copy.bytes().len() as u64;
            });
            flow.patience = self.limits.t_out;
            if flow.backup.is_empty() {
                flow.resend_at = Time::NEVER;
            }
            if is_asked {
                resend(flow, &mut self.lan, now, out);
                flow.resend_at = self.lan.free + flow.patience;
                self.next = self.next.min(flow.resend_at);
                return;
            }
        }
        out.send(Side::Wan, Class::Data, frame);
    }

    pub(super) fn on_timer(&mut self, now: Time, out: &mut impl Ports) {
        if self.next > now {
            return;
        }
        self.next = Time::NEVER;
        // In the same order on every run: the hasher has no seed.
        for flow in self.flows.values_mut() {
            if flow.resend_at <= now {
                resend(flow, &mut self.lan, now, out);
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
fn resend(flow: &Flow, lan: &mut Port, now: Time, out: &mut impl Ports) {
    for (_, frame) in &flow.backup {
        lan.transmit(frame.clone(), now, out);
    }
}
