//! The sending side of a QP: go-back-N as RNICs do it.
//!
//! Rules, with the Linux rxe driver as the reference (`rxe_req.c`,
//! `rxe_comp.c`); the handling of responses is in [`response`]:
//!
//! - Requests take consecutive PSNs: a SEND or WRITE one for each of its
//!   packets, an atomic one, a READ one for each packet of its response. It is
//!   requested by a single packet, which may overshoot the window. Data that
//!   has arrived is not requested again: the request for the rest has the
//!   PSN, address and length of the missing part.
//! - After a NAK was obeyed, or a timeout has gone off, further NAKs are not
//!   obeyed until there is *progress* ([`SecondNak::IgnoreUntilAck`]). Their
//!   implicit acknowledgement counts all the same.
//! - Progress is an ACK that acknowledges something new, data of a READ, the
//!   response to an atomic, or any response that completes a message by its
//!   implicit acknowledgement. Packets within a message that a NAK acknowledges
//!   are none. With [`SecondNak::Obey`] they are.
//! - Each NAK obeyed, explicit or implied, and each timeout takes one retry;
//!   progress restores all of them. A NAK or timeout with none left ends the
//!   QP. A NAK that is ignored takes none. RNR NAKs are counted separately.
//! - After an RNR NAK nothing is sent for the time it names, and no NAK is
//!   obeyed.
//! - The retransmission timer starts with the first packet sent while it is
//!   not running. Every response restarts it, even one that acknowledges nothing
//!   new, as long as something is unacknowledged.
//! - One difference: rxe forgets a response to packets that it has gone back
//!   over and not sent again yet; here it counts, and the packets are not
//!   sent again.

mod packets;
mod response;

use std::collections::VecDeque;

use common::psn::Seq;
use common::time::{Span, Time};
use common::wire::read_responses;

pub(crate) use self::response::Response;
use crate::config::{QpConfig, RetryLimit};
use crate::content::Stream;
use crate::packet::Packet;
use crate::stats::RequesterStats;
use crate::work::{
    ATOMIC_LEN, Completion, MAX_MESSAGE, MAX_READ_PACKETS, PostError, QpId, Status, WorkKind,
    WorkRequest,
};

/// First timeout of adaptive retransmission.
const ADAPTIVE: Span = Span::from_millis(2);
/// The most doublings of the timeout: it then exceeds a minute.
const MAX_BACKOFF: u32 = 15;

/// An entry of the send queue.
#[derive(Clone, Copy, Debug)]
struct Entry {
    work: WorkRequest,
    /// Number of the message among those of its sort; see
    /// [`Completion::index`].
    index: u64,
    /// Number of the message among all.
    number: u64,
    first: Seq,
    last: Seq,
    /// Of a READ: PSN of the newest request for it.
    asked_from: Seq,
    /// Of a READ: wrong bytes so far.
    corrupt: u64,
    posted_at: Time,
}

#[derive(Debug)]
pub(crate) struct Requester {
    qp: QpId,
    config: QpConfig,
    /// Whether the current repeat follows a switch's request.
    for_switch: bool,
    stream: Stream,

    /// Posted and not completed; consecutive PSNs.
    queue: VecDeque<Entry>,
    /// Index in `queue` of the entry that `next` belongs to.
    cursor: usize,
    /// READs and atomics before `cursor`.
    fetching: u32,
    /// Oldest PSN that is not acknowledged, or whose data has not come.
    acked: Seq,
    /// PSN to be sent next.
    next: Seq,
    /// One past the highest PSN that was ever sent.
    high: Seq,
    /// One past the last PSN that is posted.
    end: Seq,
    /// SENDs and WRITEs posted.
    posted_messages: u64,
    /// READs and atomics posted.
    posted_fetches: u64,
    /// Of all that was posted, how much was begun.
    started: u64,
    /// The newest data is of a READ response that is not complete.
    reading: bool,
    /// The word after the answered atomics.
    word: u64,
    /// Packets since the last one that requested an ACK.
    unasked: u32,
    /// Newest packet of this pass that requested an ACK.
    asked: Option<Seq>,
    /// The packet whose round trip is being measured.
    timed: Option<(Seq, Time)>,
    deadline: Option<Time>,
    /// When the wait that an RNR NAK has ordered is over.
    rnr_until: Option<Time>,
    retries_left: u8,
    rnr_retries_left: u8,
    /// Timeouts since something new was acknowledged.
    backoff: u32,
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
            config: config.clone(),
            for_switch: false,
            stream: Stream::sent(config),
            queue: VecDeque::new(),
            cursor: 0,
            fetching: 0,
            acked: first,
            next: first,
            high: first,
            end: first,
            posted_messages: 0,
            posted_fetches: 0,
            started: 0,
            reading: false,
            word: 0,
            unasked: 0,
            asked: None,
            timed: None,
            deadline: None,
            rnr_until: None,
            retries_left: retries(config.retry),
            rnr_retries_left: retries(config.rnr_retry),
            backoff: 0,
            going_back: false,
            failed: false,
            stats: RequesterStats::default(),
        }
    }

    pub(crate) fn post(&mut self, work: WorkRequest, now: Time) -> Result<u64, PostError> {
        self.check(&work)?;
        // A READ takes a PSN for each packet of its response, and as many
        // packets fetch a message as carry one.
        let packets = u64::from(read_responses(work.len, self.config.pmtu));
        let number = self.posted();
        let count =
            if work.kind.is_fetch() { &mut self.posted_fetches } else { &mut self.posted_messages };
        let index = *count;
        *count += 1;
        let first = self.end;
        self.end = first + packets;
        self.queue.push_back(Entry {
            work,
            index,
            number,
            first,
            last: self.end.prev(),
            asked_from: first,
            corrupt: 0,
            posted_at: now,
        });
        Ok(index)
    }

    fn check(&self, work: &WorkRequest) -> Result<(), PostError> {
        if self.failed {
            return Err(PostError::QpInError);
        }
        if work.len > MAX_MESSAGE {
            return Err(PostError::TooLong(work.len));
        }
        if work.kind.is_fetch() && self.config.max_rd_atomic == 0 {
            return Err(PostError::FetchNotAllowed);
        }
        let region = self.config.remote_region.len;
        if work.kind.is_atomic() {
            let aligned = self.config.remote_region.va.is_multiple_of(u64::from(ATOMIC_LEN));
            let fits = work.len == ATOMIC_LEN && region >= u64::from(ATOMIC_LEN);
            return if aligned && fits { Ok(()) } else { Err(PostError::NoAtomicWord) };
        }
        if work.kind != WorkKind::Send && u64::from(work.len) > region {
            return Err(PostError::OutsideRegion { len: work.len, region });
        }
        if work.kind == WorkKind::Read
            && read_responses(work.len, self.config.pmtu) > MAX_READ_PACKETS
        {
            return Err(PostError::ReadTooLong(work.len));
        }
        Ok(())
    }

    /// Work requests that were ever posted.
    fn posted(&self) -> u64 {
        self.posted_messages + self.posted_fetches
    }

    /// Work requests posted and not completed.
    pub(crate) fn pending(&self) -> usize {
        self.queue.len()
    }

    /// When [`on_timer`](Self::on_timer) has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        [self.deadline, self.rnr_until].into_iter().flatten().min()
    }

    /// Where in its message the packet with this PSN begins.
    fn offset(&self, entry: &Entry, seq: Seq) -> u64 {
        seq.since(entry.first) * u64::from(self.config.pmtu)
    }

    /// `packet`, from [`next_packet`](Self::next_packet), is leaving.
    pub(crate) fn sent(&mut self, packet: &Packet, now: Time) {
        let seq = self.next;
        let Some(entry) = self.queue.get_mut(self.cursor) else { return };
        self.stats.packets += 1;
        self.stats.payload_bytes += packet.payload_len() as u64;
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
        entry.asked_from = seq;
        self.started = self.started.max(entry.number + 1);
        self.next = if entry.work.kind.is_fetch() { entry.last.next() } else { seq.next() };
        if fresh {
            self.high = self.next;
        } else {
            self.stats.retransmitted += 1;
        }
        if self.next > entry.last {
            self.cursor += 1;
            self.fetching += u32::from(entry.work.kind.is_fetch());
        }
        let timeout = self.timeout();
        self.deadline.get_or_insert(now + timeout);
    }

    fn timeout(&self) -> Span {
        match self.config.adaptive_retransmission {
            true => ADAPTIVE * (1 << self.backoff.min(MAX_BACKOFF)),
            false => self.config.timeout,
        }
    }

    /// To be called when the [deadline](Self::deadline) may have passed.
    pub(crate) fn on_timer(&mut self, now: Time, completions: &mut VecDeque<Completion>) {
        if self.rnr_until.is_some_and(|until| until <= now) {
            self.rnr_until = None;
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.stats.timeouts += 1;
            self.backoff += 1;
            self.retry(now, completions);
        }
    }

    fn progress(&mut self) {
        self.retries_left = retries(self.config.retry);
        self.rnr_retries_left = retries(self.config.rnr_retry);
        self.going_back = false;
    }

    /// Goes back, if there is a try left.
    fn retry(&mut self, now: Time, completions: &mut VecDeque<Completion>) {
        if !take(self.config.retry, &mut self.retries_left) {
            return self.fail(Status::RetryExceeded, now, completions);
        }
        self.going_back = true;
        self.go_back();
    }

    /// Everything that is not acknowledged is to be sent again.
    fn go_back(&mut self) {
        self.for_switch = false;
        self.next = self.acked;
        self.cursor = 0;
        self.fetching = 0;
        self.asked = None;
        self.timed = None;
        self.deadline = None;
    }

    /// The oldest work request is done, with all its PSNs.
    fn complete(
        &mut self,
        original: Option<u64>,
        now: Time,
        completions: &mut VecDeque<Completion>,
    ) {
        let Some(entry) = self.queue.pop_front() else { return };
        let kind = entry.work.kind;
        self.stats.messages += 1;
        self.stats.message_bytes += u64::from(entry.work.len);
        self.stats.reads += u64::from(kind == WorkKind::Read);
        self.stats.atomics += u64::from(kind.is_atomic());
        self.stats.corrupt_messages += u64::from(entry.corrupt > 0);
        completions.push_back(self.completion(&entry, Status::Ok, original, now));
        if self.cursor > 0 {
            self.cursor -= 1;
            self.fetching -= u32::from(kind.is_fetch());
        }
        self.reach(entry.last.next());
    }

    /// Nothing before `to` is missing; all work requests that end before it
    /// are completed.
    fn reach(&mut self, to: Seq) {
        if to > self.acked {
            self.backoff = 0;
        }
        self.acked = to;
        // Going back, but these had arrived: a response was lost or late.
        self.next = self.next.max(to);
        if self.timed.is_some_and(|(timed, _)| timed < to) {
            self.timed = None;
        }
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
        while let Some(entry) = self.queue.pop_front() {
            completions.push_back(self.completion(&entry, status, None, now));
            status = Status::Flushed;
        }
        self.failed = true;
        self.end = self.acked;
        self.go_back();
        self.rnr_until = None;
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    fn completion(
        &self,
        entry: &Entry,
        status: Status,
        original: Option<u64>,
        now: Time,
    ) -> Completion {
        Completion {
            qp: self.qp,
            work: entry.work,
            index: entry.index,
            status,
            original,
            corrupt_bytes: entry.corrupt,
            posted_at: entry.posted_at,
            completed_at: now,
        }
    }
}

fn retries(limit: RetryLimit) -> u8 {
    match limit {
        RetryLimit::Count(n) => n,
        RetryLimit::Infinite => 1,
    }
}

/// Takes a try of those left. Whether there was one.
fn take(limit: RetryLimit, left: &mut u8) -> bool {
    let any = *left > 0;
    if any && limit != RetryLimit::Infinite {
        *left -= 1;
    }
    any
}

#[cfg(test)]
mod tests;
