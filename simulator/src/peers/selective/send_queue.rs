//! The messages of a queue pair that are posted and not completed.

use std::collections::VecDeque;

use common::psn::Seq;
use common::time::Time;
use common::wire::read_responses;
use rnic::parts::{Content, Packet, Stream};
use rnic::{Completion, MAX_MESSAGE, PostError, QpConfig, QpId, Status, WorkRequest};

use super::Stats;

/// An entry of the send queue.
#[derive(Clone, Copy, Debug)]
struct Message {
    work: WorkRequest,
    index: u64,
    first: Seq,
    last: Seq,
    posted_at: Time,
}

/// The send queue: a packet has its place in a message by its PSN.
#[derive(Debug)]
pub struct SendQueue {
    qp: QpId,
    /// The configuration of the queue pair.
    pub config: QpConfig,
    /// All messages, as one long one.
    content: Content,
    /// PSN of the first packet ever.
    origin: Seq,
    /// Consecutive PSNs.
    messages: VecDeque<Message>,
    posted: u64,
    /// Oldest PSN that is not acknowledged.
    pub acked: Seq,
    /// PSN of the next new packet.
    pub next: Seq,
    /// One past the last PSN that is posted.
    pub end: Seq,
    /// Counters of the sending side.
    pub stats: Stats,
}

impl SendQueue {
    /// The empty send queue of `qp`.
    pub fn new(qp: QpId, config: &QpConfig) -> Self {
        let first = Seq::first(config.send_psn);
        Self {
            qp,
            config: config.clone(),
            content: Stream::sent(config).message(0),
            origin: first,
            messages: VecDeque::new(),
            posted: 0,
            acked: first,
            next: first,
            end: first,
            stats: Stats::default(),
        }
    }

    /// Queues a SEND or WRITE, and returns its number.
    ///
    /// # Errors
    /// If it is a READ or an atomic, or too long.
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
        self.messages.push_back(Message { work, index, first, last, posted_at: now });
        Ok(index)
    }

    pub(super) fn pending(&self) -> usize {
        self.messages.len()
    }

    /// Packets from the oldest that is not acknowledged to the newest.
    pub fn in_flight(&self) -> u64 {
        self.next.since(self.acked)
    }

    /// The packet with this PSN, of a message that is not completed.
    pub fn packet(&self, seq: Seq) -> Option<Packet> {
        let place = self.messages.partition_point(|message| message.last < seq);
        let message = self.messages.get(place)?;
        let pmtu = u64::from(self.config.pmtu);
        let place = (seq.psn(), seq.since(message.first) * pmtu, self.config.pmtu);
        let content = (self.content, message.first.since(self.origin) * pmtu);
        Some(Packet::of_message(&message.work, place, self.config.remote_region, content))
    }

    /// `packet` is leaving: counts it. Returns its PSN, and whether it is a repeat.
    pub fn sent(&mut self, packet: &Packet) -> (Seq, bool) {
        let seq = packet.psn.unwrap_near(self.acked);
        let repeat = seq < self.next;
        self.stats.packets += 1;
        self.stats.repeated += u64::from(repeat);
        if !repeat {
            self.next = self.next.next();
        }
        (seq, repeat)
    }

    /// Completes the messages whose packets are all acknowledged.
    pub fn complete(&mut self, now: Time, completions: &mut VecDeque<Completion>) {
        while let Some(message) = self.messages.pop_front_if(|message| message.last < self.acked) {
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
