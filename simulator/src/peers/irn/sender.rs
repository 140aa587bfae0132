//! The sending side of a queue pair. The rules are those of the
//! [module](super).

use std::collections::VecDeque;

use common::psn::{Psn, Seq};
use common::time::Time;
use common::window::Window;
use common::wire::{AethKind, PacketKind};
use rnic::parts::Packet;
use rnic::{Completion, QpConfig, QpId};

use super::config::Irn;
use crate::peers::selective::{self, Reply, SendQueue};

/// The sender of IRN.
#[derive(Debug)]
pub struct Sender {
    irn: Irn,
    queue: SendQueue,
    /// Of `acked .. next`: whether each is acknowledged selectively.
    sacked: Window<bool>,
    /// One past the newest of these.
    high: Seq,
    /// In loss recovery: one past the recovery sequence.
    recovery: Option<Seq>,
    /// In loss recovery, all missing packets before this have been sent again.
    resent: Seq,
    /// The oldest packet is to be sent again, even if it was acknowledged
    /// selectively.
    oldest_is_lost: bool,
    /// One past the newest packet that had been sent at the last timeout.
    overdue: Seq,
    /// Since when the timer runs.
    timer: Option<Time>,
    /// Packets since the last one that asked for an ACK.
    unasked: u32,
}

impl Sender {
    pub(super) fn new(qp: QpId, config: &QpConfig, irn: Irn) -> Self {
        let first = Seq::first(config.send_psn);
        Self {
            irn,
            queue: SendQueue::new(qp, config),
            sacked: Window::new(first),
            high: first,
            recovery: None,
            resent: first,
            oldest_is_lost: false,
            overdue: first,
            timer: None,
            unasked: 0,
        }
    }

    /// In loss recovery, the next packet that is lost and was not sent again.
    fn missing(&mut self) -> Option<Seq> {
        self.recovery?;
        if self.oldest_is_lost {
            return Some(self.queue.acked);
        }
        while self.resent < self.high && self.sacked.get(self.resent) == Some(&true) {
            self.resent = self.resent.next();
        }
        (self.resent < self.high).then_some(self.resent)
    }

    /// Begins loss recovery with the oldest packet, or begins it again.
    fn recover(&mut self) {
        self.queue.stats.recoveries += u64::from(self.recovery.is_none());
        self.recovery = Some(self.queue.next);
        self.resent = self.queue.acked;
        self.oldest_is_lost = true;
    }

    /// Everything before `expected` has arrived, and more than was known.
    fn advance(&mut self, expected: Seq, now: Time, completions: &mut VecDeque<Completion>) {
        while self.queue.acked < expected {
            self.sacked.pop();
            self.queue.acked = self.queue.acked.next();
        }
        self.recovery = self.recovery.filter(|recovery| *recovery > expected);
        // It was sent before the timeout, and is missing.
        self.oldest_is_lost =
            self.recovery.is_some() && self.resent <= expected && expected < self.overdue;
        self.resent = self.resent.max(expected);
        self.high = self.high.max(expected);
        self.timer = (self.queue.next > expected).then_some(now);
        self.queue.complete(now, completions);
    }
}

impl selective::Sender for Sender {
    const RESPONSE: PacketKind = PacketKind::Ack;

    fn queue(&self) -> &SendQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    fn on_reply(&mut self, reply: Reply, completions: &mut VecDeque<Completion>) {
        let Reply { psn, aeth, at: now, .. } = reply;
        let acked = self.queue.acked;
        let seq = psn.unwrap_near(acked);
        let (expected, caused_by) = match aeth.kind() {
            AethKind::Ack { .. } => (seq.next(), None),
            AethKind::Nak { code: 0 } => (seq, Some(Psn::new(aeth.msn).unwrap_near(acked))),
            _ => return,
        };
        self.queue.stats.naks += u64::from(caused_by.is_some());
        if expected.max(caused_by.map_or(expected, Seq::next)) > self.queue.next {
            self.queue.stats.beyond_sent += 1;
            return;
        }
        if expected > acked {
            self.advance(expected, now, completions);
        }
        // One that was overtaken by later ones says nothing new.
        if let Some(seq) = caused_by.filter(|seq| *seq > self.queue.acked) {
            if let Some(sacked) = self.sacked.get_mut(seq) {
                *sacked = true;
            }
            self.high = self.high.max(seq.next());
            if self.recovery.is_none() {
                self.recover();
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        let few = self.queue.in_flight() <= u64::from(self.irn.few);
        self.timer.map(|since| since + if few { self.irn.rto_low } else { self.irn.rto_high })
    }

    fn on_timer(&mut self, now: Time) {
        self.overdue = self.queue.next;
        self.recover();
        self.timer = Some(now);
    }

    fn next_packet(&mut self) -> Option<Packet> {
        let missing = self.missing();
        let SendQueue { next, end, .. } = self.queue;
        let room = u64::from(self.irn.cap).saturating_sub(self.queue.in_flight());
        let seq = missing.or((next < end && room > 0).then_some(next))?;
        let mut packet = self.queue.packet(seq)?;
        packet.ack_req |=
            missing.is_some() || room <= 1 || self.unasked + 1 >= self.queue.config.ack_req_every;
        Some(packet)
    }

    fn sent(&mut self, packet: &Packet, now: Time) {
        let (seq, repeat) = self.queue.sent(packet);
        self.unasked = if packet.ack_req { 0 } else { self.unasked + 1 };
        if repeat {
            self.oldest_is_lost = false;
            self.resent = self.resent.max(seq.next());
            self.recovery = Some(self.queue.next);
        } else {
            self.sacked.push(false);
        }
        if seq == self.queue.acked {
            self.timer = Some(now);
        }
    }
}
