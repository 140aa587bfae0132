//! The sending side: packets in flight, acknowledged packets and lost ones.

use std::collections::{BTreeSet, VecDeque};

use common::psn::{Psn, Seq};
use common::time::{Span, Time};
use common::wire::PacketKind;
use rnic::parts::Packet;
use rnic::{Completion, QpConfig, QpId};

use crate::peers::selective::{self, Reply, SendQueue};

/// Packets from the oldest that is not acknowledged to the newest: half of those that
/// PSNs can tell apart.
const RANGE: u64 = 1 << 22;

/// The state of a packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// With the number of its last transmission, and when its ACK can come.
    OnItsWay(u64, Time),
    Lost,
    Come,
}

/// The sender of UET.
#[derive(Debug)]
pub struct Sender {
    queue: SendQueue,
    /// Of `acked .. next`.
    states: VecDeque<State>,
    lost: BTreeSet<Seq>,
    /// Transmissions in their order, with their packets; those that came are skipped.
    order: VecDeque<(u64, Seq)>,
    transmissions: u64,
    /// Packets on their way.
    flying: u64,
    /// The path's, without queues; and the timeout.
    rtt: Span,
    rto: Span,
    /// Timeouts since anything came.
    vain: u32,
    /// When a packet was sent or acknowledged last.
    heard: Time,
}

impl Sender {
    pub(super) fn new(qp: QpId, config: &QpConfig, rtt: Span) -> Self {
        Self {
            queue: SendQueue::new(qp, config),
            states: VecDeque::new(),
            lost: BTreeSet::new(),
            order: VecDeque::new(),
            transmissions: 0,
            flying: 0,
            rtt,
            rto: (rtt * 2).max(Span::from_micros(100)),
            vain: 0,
            heard: Time::ZERO,
        }
    }

    /// Declares packets lost that were sent no later than transmission `last` and are not
    /// acknowledged.
    fn lose_up_to(&mut self, last: u64) {
        while let Some((number, seq)) = self.order.pop_front_if(|(number, _)| *number <= last) {
            if seq < self.queue.acked {
                continue;
            }
            let state = &mut self.states[seq.since(self.queue.acked) as usize];
            if matches!(*state, State::OnItsWay(last, _) if last == number) {
                *state = State::Lost;
                self.lost.insert(seq);
                self.flying -= 1;
            }
        }
    }

    /// `seq` has come: the number of its last transmission, 0 if that was known, or
    /// if it is too early for that one: then an earlier one came, whose ACK was lost.
    fn come(&mut self, seq: Seq, now: Time) -> u64 {
        let state = &mut self.states[seq.since(self.queue.acked) as usize];
        match core::mem::replace(state, State::Come) {
            State::OnItsWay(number, earliest) => {
                self.flying -= 1;
                if now < earliest { 0 } else { number }
            }
            State::Lost => {
                self.lost.remove(&seq);
                0
            }
            State::Come => 0,
        }
    }
}

impl selective::Sender for Sender {
    const RESPONSE: PacketKind = PacketKind::AtomicAck;

    fn queue(&self) -> &SendQueue {
        &self.queue
    }

    fn queue_mut(&mut self) -> &mut SendQueue {
        &mut self.queue
    }

    /// An ACK: the next packet in order at the receiver, and of the 64 packets from its MSN
    /// on those that came.
    fn on_reply(&mut self, reply: Reply, completions: &mut VecDeque<Completion>) {
        let Reply { psn, aeth, map, at: now } = reply;
        let expected = psn.unwrap_near(self.queue.acked);
        let base = Psn::new(aeth.msn).unwrap_near(self.queue.acked);
        if expected > self.queue.next {
            return;
        }
        let before = self.flying + self.lost.len() as u64;
        let mut newest = 0;
        for _ in 0..expected.max(self.queue.acked).since(self.queue.acked) {
            newest = newest.max(self.come(self.queue.acked, now));
            self.states.pop_front();
            self.queue.acked = self.queue.acked.next();
        }
        for seq in (0..64).filter(|n| map >> n & 1 == 1).map(|n| base + n) {
            if seq >= self.queue.acked && seq < self.queue.next {
                newest = newest.max(self.come(seq, now));
            }
        }
        self.queue.stats.naks += u64::from(map != 0);
        if self.flying + (self.lost.len() as u64) < before {
            self.heard = now;
            self.vain = 0;
        }
        self.lose_up_to(newest);
        self.queue.complete(now, completions);
    }

    fn deadline(&self) -> Option<Time> {
        (self.flying > 0).then(|| self.heard + self.rto * (1 << self.vain.min(10)))
    }

    fn on_timer(&mut self, _: Time) {
        self.vain += 1;
        self.lose_up_to(u64::MAX);
    }

    fn next_packet(&mut self) -> Option<Packet> {
        if self.flying >= self.queue.config.window.into() {
            return None;
        }
        let SendQueue { next, end, .. } = self.queue;
        let is_new = next < end && self.queue.in_flight() < RANGE;
        self.queue.packet(self.lost.first().copied().or(is_new.then_some(next))?)
    }

    fn sent(&mut self, packet: &Packet, now: Time) {
        let (seq, repeat) = self.queue.sent(packet);
        self.transmissions += 1;
        if repeat {
            self.lost.remove(&seq);
            let state = State::OnItsWay(self.transmissions, now + self.rtt);
            self.states[seq.since(self.queue.acked) as usize] = state;
        } else {
            self.states.push_back(State::OnItsWay(self.transmissions, now));
        }
        self.order.push_back((self.transmissions, seq));
        self.flying += 1;
        self.heard = now;
    }
}
