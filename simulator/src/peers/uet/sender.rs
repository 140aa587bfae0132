//! The sending side: what is on its way, what came, what is lost.

use std::collections::{BTreeSet, VecDeque};

use common::psn::{Psn, Seq};
use common::time::{Span, Time};
use common::wire::read_responses;
use rnic::parts::{Content, Packet, Stream};
use rnic::{Completion, MAX_MESSAGE, PostError, QpConfig, QpId, Status, WorkRequest};

use super::UetStats;

/// Packets from the oldest that is not acknowledged to the newest: half of those that
/// PSNs can tell apart.
const RANGE: u64 = 1 << 22;

/// An entry of the send queue.
#[derive(Clone, Copy, Debug)]
struct Message {
    work: WorkRequest,
    index: u64,
    first: Seq,
    last: Seq,
    posted_at: Time,
}

/// The state of a packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// With the number of its last transmission, and when its ACK can come.
    OnItsWay(u64, Time),
    Lost,
    Come,
}

#[derive(Debug)]
pub(super) struct Sender {
    qp: QpId,
    config: QpConfig,
    content: Content,
    origin: Seq,
    /// Posted and not completed; consecutive PSNs.
    queue: VecDeque<Message>,
    posted: u64,
    /// Oldest packet that is not acknowledged, next new one, one past the last posted.
    acked: Seq,
    next: Seq,
    end: Seq,
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
    pub(super) stats: UetStats,
}

impl Sender {
    pub(super) fn new(qp: QpId, config: &QpConfig, rtt: Span) -> Self {
        let first = Seq::first(config.send_psn);
        Self {
            qp,
            config: config.clone(),
            content: Stream::sent(config).message(0),
            origin: first,
            queue: VecDeque::new(),
            posted: 0,
            acked: first,
            next: first,
            end: first,
            states: VecDeque::new(),
            lost: BTreeSet::new(),
            order: VecDeque::new(),
            transmissions: 0,
            flying: 0,
            rtt,
            rto: (rtt * 2).max(Span::from_micros(100)),
            vain: 0,
            heard: Time::ZERO,
            stats: UetStats::default(),
        }
    }

    pub(super) fn post(&mut self, work: WorkRequest, now: Time) -> Result<u64, PostError> {
        if work.kind.is_fetch() {
            return Err(PostError::FetchNotAllowed);
        }
        if work.len > MAX_MESSAGE {
            return Err(PostError::TooLong(work.len));
        }
        let (index, first) = (self.posted, self.end);
        self.posted += 1;
        // As many packets as a READ of it would have in response.
        self.end = first + u64::from(read_responses(work.len, self.config.pmtu));
        let last = self.end.prev();
        self.queue.push_back(Message { work, index, first, last, posted_at: now });
        Ok(index)
    }

    pub(super) fn pending(&self) -> usize {
        self.queue.len()
    }

    /// The next packet to leave, if one may.
    pub(super) fn next_packet(&self) -> Option<Packet> {
        if self.flying >= self.config.window.into() {
            return None;
        }
        let is_new = self.next < self.end && self.next.since(self.acked) < RANGE;
        let seq = self.lost.first().copied().or(is_new.then_some(self.next))?;
        let message = self.queue.get(self.queue.partition_point(|message| message.last < seq))?;
        let pmtu = u64::from(self.config.pmtu);
        let place = (seq.psn(), seq.since(message.first) * pmtu, self.config.pmtu);
        let content = (self.content, message.first.since(self.origin) * pmtu);
        Some(Packet::of_message(&message.work, place, self.config.remote_region, content))
    }

    /// `packet`, from [`next_packet`](Self::next_packet), is leaving.
    pub(super) fn sent(&mut self, packet: &Packet, now: Time) {
        let seq = packet.psn.unwrap_near(self.acked);
        self.stats.packets += 1;
        self.transmissions += 1;
        if seq < self.next {
            self.stats.repeated += 1;
            self.lost.remove(&seq);
            let state = State::OnItsWay(self.transmissions, now + self.rtt);
            self.states[seq.since(self.acked) as usize] = state;
        } else {
            self.states.push_back(State::OnItsWay(self.transmissions, now));
            self.next = self.next.next();
        }
        self.order.push_back((self.transmissions, seq));
        self.flying += 1;
        self.heard = now;
    }

    /// When [`on_timer`](Self::on_timer) has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        (self.flying > 0).then(|| self.heard + self.rto * (1 << self.vain.min(10)))
    }

    /// To be called when the [deadline](Self::deadline) may have passed.
    pub(super) fn on_timer(&mut self, now: Time) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.stats.timeouts += 1;
            self.vain += 1;
            self.lose_up_to(u64::MAX);
        }
    }

    /// What was sent no later than transmission `last` and has not come is lost.
    fn lose_up_to(&mut self, last: u64) {
        while let Some((number, seq)) = self.order.pop_front_if(|(number, _)| *number <= last) {
            if seq < self.acked {
                continue;
            }
            let state = &mut self.states[seq.since(self.acked) as usize];
            if matches!(*state, State::OnItsWay(last, _) if last == number) {
                *state = State::Lost;
                self.lost.insert(seq);
                self.flying -= 1;
            }
        }
    }

    /// An ACK: the next packet in order at the receiver, and of the 64 packets from `base`
    /// on those that came.
    pub(super) fn on_ack(
        &mut self,
        expected: Psn,
        base: u32,
        map: u64,
        now: Time,
        completions: &mut VecDeque<Completion>,
    ) {
        let expected = expected.unwrap_near(self.acked);
        let base = Psn::new(base).unwrap_near(self.acked);
        if expected > self.next {
            return;
        }
        let before = self.flying + self.lost.len() as u64;
        let mut newest = 0;
        for _ in 0..expected.max(self.acked).since(self.acked) {
            newest = newest.max(self.come(self.acked, now));
            self.states.pop_front();
            self.acked = self.acked.next();
        }
        for seq in (0..64).filter(|n| map >> n & 1 == 1).map(|n| base + n) {
            if seq >= self.acked && seq < self.next {
                newest = newest.max(self.come(seq, now));
            }
        }
        self.stats.gaps += u64::from(map != 0);
        if self.flying + (self.lost.len() as u64) < before {
            self.heard = now;
            self.vain = 0;
        }
        self.lose_up_to(newest);
        while let Some(message) = self.queue.pop_front_if(|message| message.last < self.acked) {
            completions.push_back(Completion {
                qp: self.qp,
                work: message.work,
                index: message.index,
                status: Status::Ok,
                original: None,
                corrupt_bytes: 0,
                posted_at: message.posted_at,
                completed_at: now,
            });
        }
    }

    /// `seq` has come: the number of its last transmission, 0 if that was known, or
    /// if it is too early for that one: then an earlier one came, whose ACK was lost.
    fn come(&mut self, seq: Seq, now: Time) -> u64 {
        let state = &mut self.states[seq.since(self.acked) as usize];
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
