//! The sending side of a queue pair. The rules are those of the
//! [module](super).

use std::collections::VecDeque;

use common::psn::{Psn, Seq};
use common::time::Time;
use common::window::Window;
use common::wire::{Aeth, AethKind, read_responses};
use rnic::parts::{Content, Packet, Stream};
use rnic::{Completion, MAX_MESSAGE, PostError, QpConfig, QpId, Status, WorkRequest};

use super::config::Irn;
use super::stats::IrnStats;

/// An entry of the send queue.
#[derive(Clone, Copy, Debug)]
struct Message {
    work: WorkRequest,
    index: u64,
    first: Seq,
    last: Seq,
    posted_at: Time,
}

#[derive(Debug)]
pub(super) struct Sender {
    qp: QpId,
    irn: Irn,
    config: QpConfig,
    /// All it sends, as one long message: a packet has its place by its PSN.
    content: Content,
    /// PSN of the first packet ever.
    origin: Seq,

    /// Posted and not completed; consecutive PSNs.
    queue: VecDeque<Message>,
    posted: u64,
    /// Oldest PSN that is not acknowledged.
    acked: Seq,
    /// PSN of the next new packet.
    next: Seq,
    /// One past the last PSN that is posted.
    end: Seq,
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
    pub(super) stats: IrnStats,
}

impl Sender {
    pub(super) fn new(qp: QpId, config: &QpConfig, irn: Irn) -> Self {
        let first = Seq::first(config.send_psn);
        Self {
            qp,
            irn,
            config: config.clone(),
            content: Stream::sent(config).message(0),
            origin: first,
            queue: VecDeque::new(),
            posted: 0,
            acked: first,
            next: first,
            end: first,
            sacked: Window::new(first),
            high: first,
            recovery: None,
            resent: first,
            oldest_is_lost: false,
            overdue: first,
            timer: None,
            unasked: 0,
            stats: IrnStats::default(),
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

    /// Packets from the oldest that is not acknowledged to the newest.
    pub(super) fn in_flight(&self) -> u64 {
        self.next.since(self.acked)
    }

    /// The next packet to leave, if one may.
    pub(super) fn next_packet(&mut self) -> Option<Packet> {
        let (seq, repeat) = match self.missing() {
            Some(seq) => (seq, true),
            None if self.next < self.end && self.in_flight() < u64::from(self.irn.cap) => {
                (self.next, false)
            }
            None => return None,
        };
        let message = self.queue.get(self.queue.partition_point(|message| message.last < seq))?;
        let pmtu = u64::from(self.config.pmtu);
        let place = (seq.psn(), seq.since(message.first) * pmtu, self.config.pmtu);
        let content = (self.content, message.first.since(self.origin) * pmtu);
        let mut packet =
            Packet::of_message(&message.work, place, self.config.remote_region, content);
        let fills_cap = self.in_flight() + 1 >= u64::from(self.irn.cap);
        packet.ack_req |= repeat || fills_cap || self.unasked + 1 >= self.config.ack_req_every;
        Some(packet)
    }

    /// In loss recovery, the next packet that is lost and was not sent again.
    fn missing(&mut self) -> Option<Seq> {
        self.recovery?;
        if self.oldest_is_lost {
            return Some(self.acked);
        }
        while self.resent < self.high && self.sacked.get(self.resent) == Some(&true) {
            self.resent = self.resent.next();
        }
        (self.resent < self.high).then_some(self.resent)
    }

    /// `packet`, from [`next_packet`](Self::next_packet), is leaving.
    pub(super) fn sent(&mut self, packet: &Packet, now: Time) {
        let seq = packet.psn.unwrap_near(self.acked);
        self.stats.packets += 1;
        self.stats.payload_bytes += packet.payload_len() as u64;
        self.unasked = if packet.ack_req { 0 } else { self.unasked + 1 };
        if seq < self.next {
            self.stats.repeated += 1;
            self.oldest_is_lost = false;
            self.resent = self.resent.max(seq.next());
            self.recovery = Some(self.next);
        } else {
            self.sacked.push(false);
            self.next = self.next.next();
        }
        if seq == self.acked {
            self.timer = Some(now);
        }
    }

    /// When [`on_timer`](Self::on_timer) has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        let few = self.in_flight() <= u64::from(self.irn.few);
        self.timer.map(|since| since + if few { self.irn.rto_low } else { self.irn.rto_high })
    }

    /// To be called when the [deadline](Self::deadline) may have passed.
    pub(super) fn on_timer(&mut self, now: Time) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.stats.timeouts += 1;
            self.overdue = self.next;
            self.recover();
            self.timer = Some(now);
        }
    }

    /// Begins loss recovery with the oldest packet, or begins it again.
    fn recover(&mut self) {
        self.stats.recoveries += u64::from(self.recovery.is_none());
        self.recovery = Some(self.next);
        self.resent = self.acked;
        self.oldest_is_lost = true;
    }

    /// An ACK or NACK has arrived.
    pub(super) fn on_response(
        &mut self,
        psn: Psn,
        aeth: Aeth,
        now: Time,
        completions: &mut VecDeque<Completion>,
    ) {
        let seq = psn.unwrap_near(self.acked);
        let (expected, caused_by) = match aeth.kind() {
            AethKind::Ack { .. } => (seq.next(), None),
            AethKind::Nak { code: 0 } => (seq, Some(Psn::new(aeth.msn).unwrap_near(self.acked))),
            _ => return,
        };
        match caused_by {
            Some(_) => self.stats.naks += 1,
            None => self.stats.acks += 1,
        }
        if expected.max(caused_by.map_or(expected, Seq::next)) > self.next {
            self.stats.beyond_sent += 1;
            return;
        }
        if expected > self.acked {
            self.advance(expected, now, completions);
        }
        // One that was overtaken by later ones says nothing new.
        if let Some(seq) = caused_by.filter(|seq| *seq > self.acked) {
            if let Some(sacked) = self.sacked.get_mut(seq) {
                *sacked = true;
            }
            self.high = self.high.max(seq.next());
            if self.recovery.is_none() {
                self.recover();
            }
        }
    }

    /// Everything before `expected` has arrived, and more than was known.
    fn advance(&mut self, expected: Seq, now: Time, completions: &mut VecDeque<Completion>) {
        while self.acked < expected {
            self.sacked.pop();
            self.acked = self.acked.next();
        }
        self.recovery = self.recovery.filter(|recovery| *recovery > expected);
        // It was sent before the timeout, and is missing.
        self.oldest_is_lost =
            self.recovery.is_some() && self.resent <= expected && expected < self.overdue;
        self.resent = self.resent.max(expected);
        self.high = self.high.max(expected);
        self.timer = (self.next > expected).then_some(now);
        while let Some(message) = self.queue.front().copied()
            && message.last < expected
        {
            self.queue.pop_front();
            self.stats.messages += 1;
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
}
