//! The sending side of a QP: go-back-N as RNICs do it.
//!
//! Rules, with the Linux rxe driver as the reference (`rxe_req.c`,
//! `rxe_comp.c`):
//!
//! - An ACK acknowledges every PSN up to its own; a NAK every PSN before its
//!   own, and makes the requester go back to it.
//! - After a NAK was obeyed, or a timeout has gone off, further NAKs are not
//!   obeyed until there is *progress* ([`SecondNak::IgnoreUntilAck`]). Their
//!   implicit acknowledgement counts all the same.
//! - Progress is an ACK that acknowledges something new, or a NAK that
//!   completes a message by what it acknowledges implicitly. Packets within a
//!   message that a NAK acknowledges are none. With [`SecondNak::Obey`] they
//!   are.
//! - Each NAK obeyed and each timeout takes one retry; progress gives all of
//!   them back. A NAK or timeout with none left ends the QP. A NAK that is
//!   ignored takes none.
//! - The retransmission timer starts with the first packet sent while it is
//!   not running, and anew with every response, even one that says nothing
//!   new, as long as something is unacknowledged.
//! - One difference: rxe forgets an ACK for packets that it has gone back
//!   over and not sent again yet; here it counts, and the packets are not
//!   sent again.
//!
//! READ and atomic requests will be further entries of the send queue that
//! are completed by responses instead of ACKs, RNR NAKs a third cause to go
//! back, with a timer and a retry count of their own.

use std::collections::VecDeque;

use common::psn::{Psn, Seq};
use common::time::{Span, Time};
use common::wire::{Aeth, Opcode, Reth};

use crate::config::{QpConfig, RetryLimit, SecondNak};
use crate::content::{Content, Stream};
use crate::stats::RequesterStats;
use crate::work::{Completion, MAX_MESSAGE, PostError, QpId, Status, WorkKind, WorkRequest};

/// An entry of the send queue.
#[derive(Clone, Copy, Debug)]
struct Entry {
    work: WorkRequest,
    /// Number of the message.
    index: u64,
    first: Seq,
    last: Seq,
    posted_at: Time,
}

/// The packet that would be sent next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) opcode: Opcode,
    pub(crate) psn: Psn,
    pub(crate) ack_req: bool,
    pub(crate) reth: Option<Reth>,
    pub(crate) content: Content,
    /// Where in the message the payload begins.
    pub(crate) offset: u64,
    /// Length of the payload.
    pub(crate) len: usize,
    ends_message: bool,
}

/// What an acknowledgement is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Response {
    Ack {
        msn: u32,
    },
    /// PSN sequence error.
    Nak {
        msn: u32,
    },
    /// A NAK after which there is nothing to try.
    Refused(Status),
    /// Something that nothing asked for; rxe gives the QP up.
    Unexpected,
    /// RNR NAK or reserved syndrome: left to the timeout.
    Ignored,
}

#[derive(Debug)]
pub(crate) struct Requester {
    qp: QpId,
    pmtu: u32,
    window: u64,
    ack_req_every: u32,
    timeout: Span,
    retry: RetryLimit,
    second_nak: SecondNak,
    va: u64,
    rkey: u32,
    region_len: u64,
    stream: Stream,

    /// Posted and not completed; consecutive PSNs.
    queue: VecDeque<Entry>,
    /// Index in `queue` of the entry that `next` belongs to.
    cursor: usize,
    /// Oldest PSN that is not acknowledged.
    acked: Seq,
    /// PSN to be sent next.
    next: Seq,
    /// One past the highest PSN that was ever sent.
    high: Seq,
    /// One past the last PSN that is posted.
    end: Seq,
    /// Messages posted.
    posted: u64,
    /// Packets since the last one that requested an ACK.
    unasked: u32,
    /// Newest packet of this pass that requested an ACK.
    asked: Option<Seq>,
    /// The packet whose round trip is being measured.
    timed: Option<(Seq, Time)>,
    deadline: Option<Time>,
    retries_left: u8,
    /// A NAK or timeout has been obeyed, without progress since.
    going_back: bool,
    failed: bool,
    pub(crate) stats: RequesterStats,
}

impl Requester {
    pub(crate) fn new(qp: QpId, config: &QpConfig) -> Self {
        let first = Seq::first(config.send_psn);
        Self {
            qp,
            pmtu: config.pmtu,
            window: u64::from(config.window),
            ack_req_every: config.ack_req_every,
            timeout: config.timeout,
            retry: config.retry,
            second_nak: config.second_nak,
            va: config.remote_region.va,
            rkey: config.remote_region.rkey,
            region_len: config.remote_region.len,
            stream: Stream::new(
                config.content_seed,
                config.local_qpn,
                config.remote_qpn,
                config.send_psn.get(),
            ),
            queue: VecDeque::new(),
            cursor: 0,
            acked: first,
            next: first,
            high: first,
            end: first,
            posted: 0,
            unasked: 0,
            asked: None,
            timed: None,
            deadline: None,
            retries_left: retries(config.retry),
            going_back: false,
            failed: false,
            stats: RequesterStats::default(),
        }
    }

    pub(crate) fn post(&mut self, work: WorkRequest, now: Time) -> Result<u64, PostError> {
        if self.failed {
            return Err(PostError::QpInError);
        }
        if work.len > MAX_MESSAGE {
            return Err(PostError::TooLong(work.len));
        }
        if work.kind == WorkKind::Write && u64::from(work.len) > self.region_len {
            return Err(PostError::OutsideRegion { len: work.len, region: self.region_len });
        }
        let packets = u64::from(work.len.div_ceil(self.pmtu).max(1));
        let first = self.end;
        self.end = first + packets;
        let index = self.posted;
        self.posted += 1;
        let last = self.end.prev();
        self.queue.push_back(Entry { work, index, first, last, posted_at: now });
        Ok(index)
    }

    /// Work requests posted and not completed.
    pub(crate) fn pending(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// The packet to be sent next, if there is one and the window allows it.
    pub(crate) fn next_packet(&self) -> Option<Packet> {
        let outstanding = self.next.since(self.acked);
        if self.next >= self.end || outstanding >= self.window {
            return None;
        }
        let entry = self.queue.get(self.cursor)?;
        let position = self.next.since(entry.first);
        let offset = position * u64::from(self.pmtu);
        let len = (u64::from(entry.work.len) - offset).min(u64::from(self.pmtu));
        let starts = position == 0;
        let ends = self.next == entry.last;
        let opcode = match (entry.work.kind, starts, ends) {
            (WorkKind::Send, true, true) => Opcode::SEND_ONLY,
            (WorkKind::Send, true, false) => Opcode::SEND_FIRST,
            (WorkKind::Send, false, false) => Opcode::SEND_MIDDLE,
            (WorkKind::Send, false, true) => Opcode::SEND_LAST,
            (WorkKind::Write, true, true) => Opcode::WRITE_ONLY,
            (WorkKind::Write, true, false) => Opcode::WRITE_FIRST,
            (WorkKind::Write, false, false) => Opcode::WRITE_MIDDLE,
            (WorkKind::Write, false, true) => Opcode::WRITE_LAST,
        };
        let fills_window = outstanding + 1 == self.window;
        let asked = self.asked.is_some_and(|asked| asked >= self.acked);
        Some(Packet {
            opcode,
            psn: self.next.psn(),
            ack_req: ends || self.unasked + 1 >= self.ack_req_every || (fills_window && !asked),
            reth: (entry.work.kind == WorkKind::Write && starts).then_some(Reth {
                va: self.va,
                rkey: self.rkey,
                len: entry.work.len,
            }),
            content: self.stream.message(entry.index),
            offset,
            len: len as usize,
            ends_message: ends,
        })
    }

    /// `packet`, from [`next_packet`](Self::next_packet), is leaving.
    pub(crate) fn sent(&mut self, packet: &Packet, now: Time) {
        let seq = self.next;
        self.stats.packets += 1;
        self.stats.payload_bytes += packet.len as u64;
        let fresh = seq >= self.high;
        if packet.ack_req {
            self.unasked = 0;
            self.asked = Some(seq);
            if fresh && self.timed.is_none() {
                self.timed = Some((seq, now));
            }
        } else {
            self.unasked += 1;
        }
        self.next = seq.next();
        if fresh {
            self.high = self.next;
        } else {
            self.stats.retransmitted += 1;
        }
        if packet.ends_message {
            self.cursor += 1;
        }
        self.deadline.get_or_insert(now + self.timeout);
    }

    pub(crate) fn on_response(
        &mut self,
        response: Response,
        psn: Psn,
        now: Time,
        completions: &mut VecDeque<Completion>,
    ) {
        let seq = psn.unwrap_near(self.acked);
        match response {
            Response::Ack { .. } => self.stats.acks += 1,
            Response::Nak { .. } => self.stats.naks += 1,
            Response::Refused(_) => {}
            Response::Unexpected | Response::Ignored => self.stats.unexpected += 1,
        }
        if seq >= self.high {
            self.stats.beyond_sent += 1;
        } else if seq < self.acked {
            self.stats.stale += 1;
        } else {
            match response {
                Response::Ack { msn } => {
                    if let Some((timed, sent_at)) = self.timed
                        && timed == seq
                    {
                        self.stats.rtt.sample(now.since(sent_at));
                    }
                    self.acknowledge(seq.next(), now, completions);
                    self.check_msn(msn);
                    self.progress();
                }
                Response::Nak { msn } => self.on_nak(seq, msn, now, completions),
                Response::Refused(status) => {
                    self.acknowledge(seq, now, completions);
                    self.fail(status, now, completions);
                }
                Response::Unexpected => self.fail(Status::BadResponse, now, completions),
                Response::Ignored => {}
            }
        }
        let outstanding = self.next > self.acked && !self.failed;
        self.deadline = outstanding.then(|| now + self.timeout);
    }

    fn on_nak(&mut self, seq: Seq, msn: u32, now: Time, completions: &mut VecDeque<Completion>) {
        let moved = seq > self.acked;
        let completed = self.acknowledge(seq, now, completions);
        self.check_msn(msn);
        if completed || (moved && self.second_nak == SecondNak::Obey) {
            self.progress();
        }
        if self.going_back && self.second_nak == SecondNak::IgnoreUntilAck {
            self.stats.naks_ignored += 1;
        } else {
            self.go_back(now, completions);
        }
    }

    /// To be called when the [deadline](Self::deadline) may have passed.
    pub(crate) fn on_timer(&mut self, now: Time, completions: &mut VecDeque<Completion>) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.stats.timeouts += 1;
            self.go_back(now, completions);
        }
    }

    /// Everything before `to` has arrived. Whether that completed a message.
    fn acknowledge(&mut self, to: Seq, now: Time, completions: &mut VecDeque<Completion>) -> bool {
        self.acked = to;
        if self.timed.is_some_and(|(timed, _)| timed < to) {
            self.timed = None;
        }
        let mut completed = 0;
        while let Some(entry) = self.queue.front()
            && entry.last < to
        {
            self.stats.messages += 1;
            self.stats.message_bytes += u64::from(entry.work.len);
            completions.push_back(completion(self.qp, entry, Status::Ok, now));
            self.queue.pop_front();
            completed += 1;
        }
        if self.next < to {
            // Going back, but these had arrived: an ACK was lost or late.
            self.next = to;
            self.cursor = 0;
        } else {
            self.cursor -= completed;
        }
        completed > 0
    }

    /// A responder's MSN counts the messages that its acknowledgement covers.
    fn check_msn(&mut self, msn: u32) {
        let covered = self.queue.front().map_or(self.posted, |oldest| oldest.index);
        self.stats.wrong_msn += u64::from(covered % u64::from(Psn::MODULUS) != u64::from(msn));
    }

    fn progress(&mut self) {
        self.retries_left = retries(self.retry);
        self.going_back = false;
    }

    /// Everything that is not acknowledged is to be sent again.
    fn go_back(&mut self, now: Time, completions: &mut VecDeque<Completion>) {
        if self.retries_left == 0 {
            return self.fail(Status::RetryExceeded, now, completions);
        }
        if self.retry != RetryLimit::Infinite {
            self.retries_left -= 1;
        }
        self.going_back = true;
        self.next = self.acked;
        self.cursor = 0;
        self.asked = None;
        self.timed = None;
        self.deadline = None;
    }

    /// The QP is at its end: the oldest work request with `status`, all
    /// others flushed.
    pub(crate) fn fail(
        &mut self,
        status: Status,
        now: Time,
        completions: &mut VecDeque<Completion>,
    ) {
        let mut status = status;
        self.stats.failed += self.queue.len() as u64;
        for entry in self.queue.drain(..) {
            completions.push_back(completion(self.qp, &entry, status, now));
            status = Status::Flushed;
        }
        self.failed = true;
        self.cursor = 0;
        self.end = self.acked;
        self.next = self.acked;
        self.deadline = None;
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }
}

fn retries(limit: RetryLimit) -> u8 {
    match limit {
        RetryLimit::Count(n) => n,
        RetryLimit::Infinite => 1,
    }
}

fn completion(qp: QpId, entry: &Entry, status: Status, now: Time) -> Completion {
    Completion {
        qp,
        work: entry.work,
        index: entry.index,
        status,
        posted_at: entry.posted_at,
        completed_at: now,
    }
}

impl Response {
    /// What the AETH of an ACK packet says.
    pub(crate) fn of(aeth: Aeth) -> Self {
        use common::wire::AethKind;
        match aeth.kind() {
            AethKind::Ack { .. } => Self::Ack { msn: aeth.msn },
            AethKind::Nak { code: 0 } => Self::Nak { msn: aeth.msn },
            AethKind::Nak { code: 1 } => Self::Refused(Status::RemoteInvalidRequest),
            AethKind::Nak { code: 2 } => Self::Refused(Status::RemoteAccess),
            AethKind::Nak { .. } => Self::Refused(Status::RemoteOperation),
            AethKind::Rnr { .. } | AethKind::Reserved => Self::Ignored,
        }
    }
}

#[cfg(test)]
mod tests;
