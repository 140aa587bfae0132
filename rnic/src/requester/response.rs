//! How a requester handles a response.
//!
//! Rules, with `rxe_comp.c` as the reference:
//!
//! - An ACK acknowledges every PSN up to its own; a NAK every PSN before its
//!   own, and makes the requester go back to it. READ data and the response to
//!   an atomic acknowledge every PSN before their own.
//! - None of them acknowledges a READ or atomic that is not answered
//!   completely. A response to a later request, or an ACK of its own PSN, shows
//!   that the response was lost: an *implied NAK*, obeyed like an explicit one
//!   ([`ImpliedNak`]).
//! - READ data is taken in order, from FIRST or ONLY to LAST or ONLY. A FIRST
//!   or ONLY in the middle is right if its PSN is that of the newest request
//!   for the READ; a responder may also continue with MIDDLE or LAST.
//! - A switch's NAK, where it is known
//!   ([`QpConfig::knows_switch_nak`](crate::QpConfig::knows_switch_nak)),
//!   acknowledges nothing and takes no try.
//! - An ACK or NAK with the PSN of the data that is expected next, between the
//!   packets of a READ response, ends the QP. So does an old ACK there, with the
//!   data that follows, with
//!   [`QpConfig::old_ack_ends_read`](crate::QpConfig::old_ack_ends_read). So does anything else that can't
//!   answer the request it is for.

use std::collections::VecDeque;

use common::psn::{Psn, Seq};
use common::time::Time;
use common::wire::{Aeth, AethKind, PacketKind, Position, Roce, has_switch_bit};

use super::{Entry, Requester, take};
use crate::config::{ImpliedNak, SecondNak, rnr_delay};
use crate::work::{Completion, Status, WorkKind};

/// READs that a responder may have completed and not acknowledged: more than
/// may be on their way.
const MAX_AHEAD: i32 = 128;

/// The kind of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Response<'a> {
    Ack {
        msn: u32,
    },
    /// PSN sequence error.
    Nak {
        msn: u32,
    },
    /// The same with the switch bit.
    SwitchNak {
        msn: u32,
    },
    Rnr {
        timer: u8,
        msn: u32,
    },
    /// A NAK after which there is nothing to try.
    Refused(Status),
    /// Data of a READ; the middle ones carry no MSN.
    Data {
        position: Position,
        msn: Option<u32>,
        payload: &'a [u8],
    },
    Atomic {
        original: u64,
        msn: u32,
    },
    /// READ data or a response to an atomic that is no positive one: nothing
    /// sends it, and rxe gives the QP up.
    Unexpected,
    /// Reserved syndrome: left to the timeout.
    Ignored,
}

impl<'a> Response<'a> {
    pub(crate) fn of(kind: PacketKind, roce: &Roce, frame: &'a [u8]) -> Self {
        let aeth = roce.aeth(frame);
        let good = aeth.is_none_or(Aeth::is_ack);
        match (kind, aeth) {
            (PacketKind::Ack, Some(aeth)) => match Self::acknowledgement(aeth) {
                Self::Nak { msn } if has_switch_bit(frame, roce) => Self::SwitchNak { msn },
                response => response,
            },
            (PacketKind::ReadResponse(position), _) if good => {
                let msn = aeth.map(|aeth| aeth.msn);
                Self::Data { position, msn, payload: roce.payload(frame) }
            }
            (PacketKind::AtomicAck, Some(aeth)) if good => match roce.atomic_original(frame) {
                Some(original) => Self::Atomic { original, msn: aeth.msn },
                None => Self::Unexpected,
            },
            _ => Self::Unexpected,
        }
    }

    /// The content of the AETH of an ACK packet.
    fn acknowledgement(aeth: Aeth) -> Self {
        let msn = aeth.msn;
        match aeth.kind() {
            AethKind::Ack { .. } => Self::Ack { msn },
            AethKind::Nak { code: 0 } => Self::Nak { msn },
            AethKind::Nak { code: 1 } => Self::Refused(Status::RemoteInvalidRequest),
            AethKind::Nak { code: 2 } => Self::Refused(Status::RemoteAccess),
            AethKind::Nak { .. } => Self::Refused(Status::RemoteOperation),
            AethKind::Rnr { timer } => Self::Rnr { timer, msn },
            AethKind::Reserved => Self::Ignored,
        }
    }
}

impl Requester {
    pub(crate) fn on_response(
        &mut self,
        response: Response<'_>,
        psn: Psn,
        now: Time,
        completions: &mut VecDeque<Completion>,
    ) {
        let response = match response {
            Response::SwitchNak { msn } if !self.config.knows_switch_nak => Response::Nak { msn },
            response => response,
        };
        let seq = psn.unwrap_near(self.acked);
        self.count(&response);
        if seq >= self.high {
            self.stats.beyond_sent += 1;
        } else if seq < self.acked {
            self.stats.stale += 1;
            let is_ack = matches!(response, Response::Ack { .. });
            self.reading &= !(self.config.old_ack_ends_read && is_ack);
        } else if let Response::SwitchNak { .. } = response {
            self.rewind(seq);
        } else if response != Response::Ignored {
            self.check_msn(&response, seq);
            self.obey(&response, seq, now, completions);
        }
        let outstanding = self.next > self.acked && !self.failed;
        self.deadline = outstanding.then(|| now + self.timeout());
    }

    fn count(&mut self, response: &Response<'_>) {
        let counter = match response {
            Response::Ack { .. } => &mut self.stats.acks,
            Response::Nak { .. } => &mut self.stats.naks,
            Response::SwitchNak { .. } => {
                self.stats.naks += 1;
                &mut self.stats.switch_naks
            }
            Response::Rnr { .. } => &mut self.stats.rnr_naks,
            Response::Data { .. } => &mut self.stats.read_responses,
            Response::Atomic { .. } => &mut self.stats.atomic_acks,
            Response::Ignored => &mut self.stats.unexpected,
            // Counted when they are looked at.
            Response::Refused(_) | Response::Unexpected => return,
        };
        *counter += 1;
    }

    /// A response for a PSN that was sent and not acknowledged.
    fn obey(
        &mut self,
        response: &Response<'_>,
        seq: Seq,
        now: Time,
        completions: &mut VecDeque<Completion>,
    ) {
        let entry = loop {
            let Some(&entry) = self.queue.front() else { return };
            if seq <= entry.last {
                break entry;
            }
            if entry.work.kind.is_fetch() {
                return self.implied_nak(now, completions);
            }
            self.complete(None, now, completions);
            self.progress();
        };
        match (entry.work.kind, response) {
            (WorkKind::Read, Response::Data { .. }) if seq > self.acked => {
                match self.config.implied_nak {
                    ImpliedNak::AnyGap => self.implied_nak(now, completions),
                    ImpliedNak::LaterRequest => self.stats.implied_naks_ignored += 1,
                }
            }
            // Nothing that a responder sends; rxe discards it.
            (WorkKind::Read, _) if seq > self.acked => self.stats.implied_naks_ignored += 1,
            (WorkKind::Read, &Response::Data { position, payload, .. }) => {
                self.on_data(&entry, position, payload, now, completions);
            }
            (WorkKind::Read, _) if self.reading => self.bad_response(now, completions),
            (kind, &Response::Atomic { original, .. }) if kind.is_atomic() => {
                self.on_original(kind, original);
                self.measure(seq, now);
                self.complete(Some(original), now, completions);
                self.progress();
            }
            (kind, Response::Ack { .. }) if !kind.is_fetch() => {
                self.measure(seq, now);
                if seq == entry.last {
                    self.complete(None, now, completions);
                } else {
                    self.reach(seq.next());
                }
                self.progress();
            }
            (kind, Response::Ack { .. })
                if self.config.ack_completes_fetch && seq == entry.last =>
            {
                self.stats.without_data += 1;
                // It was executed.
                self.on_original(kind, self.word);
                self.complete(None, now, completions);
                self.progress();
            }
            // The response was lost.
            (_, Response::Ack { .. }) => self.implied_nak(now, completions),
            (_, Response::Nak { .. }) => self.on_nak(seq, now, completions),
            (_, &Response::Rnr { timer, .. }) => self.on_rnr(timer, seq, now, completions),
            (_, &Response::Refused(status)) => {
                self.reach(seq);
                self.fail(status, now, completions);
            }
            _ => self.bad_response(now, completions),
        }
    }

    fn on_nak(&mut self, seq: Seq, now: Time, completions: &mut VecDeque<Completion>) {
        let moved = seq > self.acked;
        self.reach(seq);
        if moved && self.config.second_nak == SecondNak::Obey {
            self.progress();
        }
        let second = self.going_back && self.config.second_nak == SecondNak::IgnoreUntilAck;
        if second || self.rnr_until.is_some() {
            self.stats.naks_ignored += 1;
        } else {
            self.retry(now, completions);
        }
    }

    /// A switch lacks `seq`. Packets before it may be in flight or lost; only
    /// the destination says.
    fn rewind(&mut self, seq: Seq) {
        if seq >= self.next {
            return; // It will be sent anyway.
        }
        let at = self.covered(seq);
        let Some(entry) = self.queue.get(at) else { return };
        self.for_switch = true;
        // A READ is one request, for all of it that has not come.
        self.next = if entry.work.kind.is_fetch() { entry.first.max(self.acked) } else { seq };
        self.cursor = at;
        let fetches = self.queue.range(..at).filter(|entry| entry.work.kind.is_fetch());
        self.fetching = fetches.count() as u32; // at most max_rd_atomic
        self.asked = self.asked.filter(|asked| *asked < self.next);
        self.timed = self.timed.filter(|(timed, _)| *timed < self.next);
    }

    /// The response to the oldest work request is not complete, and never will
    /// be without asking again. Its outstanding packets cause many of
    /// these: even a NIC that obeys every NAK obeys one.
    fn implied_nak(&mut self, now: Time, completions: &mut VecDeque<Completion>) {
        if self.going_back || self.rnr_until.is_some() {
            self.stats.implied_naks_ignored += 1;
        } else {
            self.stats.implied_naks += 1;
            self.retry(now, completions);
        }
    }

    fn on_rnr(&mut self, timer: u8, seq: Seq, now: Time, completions: &mut VecDeque<Completion>) {
        self.reach(seq);
        if take(self.config.rnr_retry, &mut self.rnr_retries_left) {
            self.go_back();
            self.rnr_until = Some(now + rnr_delay(timer));
        } else {
            self.fail(Status::RnrRetryExceeded, now, completions);
        }
    }

    /// The data that is expected next.
    fn on_data(
        &mut self,
        entry: &Entry,
        position: Position,
        payload: &[u8],
        now: Time,
        completions: &mut VecDeque<Completion>,
    ) {
        let seq = self.acked;
        let offset = self.offset(entry, seq);
        let len = (u64::from(entry.work.len) - offset).min(u64::from(self.config.pmtu));
        let ends = seq == entry.last;
        let in_order = match position.starts_message() {
            true => !self.reading || seq == entry.asked_from,
            false => self.reading,
        };
        if !in_order || position.ends_message() != ends || payload.len() as u64 != len {
            return self.bad_response(now, completions);
        }
        let content = self.stream.fetched().message(entry.index);
        let corrupt = content.mismatches(offset, payload);
        self.stats.corrupt_bytes += corrupt;
        if let Some(front) = self.queue.front_mut() {
            front.corrupt += corrupt;
        }
        self.measure(seq, now);
        self.reading = !ends;
        if ends {
            self.complete(None, now, completions);
        } else {
            self.reach(seq.next());
        }
        self.progress();
    }

    /// An atomic has found `original`.
    fn on_original(&mut self, kind: WorkKind, original: u64) {
        self.stats.wrong_originals += u64::from(original != self.word);
        self.word = match kind {
            WorkKind::FetchAdd { add } => original.wrapping_add(add),
            WorkKind::CompareSwap { compare, swap } if compare == original => swap,
            _ => original,
        };
    }

    fn measure(&mut self, seq: Seq, now: Time) {
        if let Some((timed, sent_at)) = self.timed
            && timed == seq
        {
            self.stats.rtt.sample(now.since(sent_at));
        }
    }

    fn bad_response(&mut self, now: Time, completions: &mut VecDeque<Completion>) {
        self.stats.unexpected += 1;
        self.fail(Status::BadResponse, now, completions);
    }

    /// A responder's MSN counts the messages that it has completed.
    fn check_msn(&mut self, response: &Response<'_>, seq: Seq) {
        let (msn, to, ack) = match *response {
            Response::Ack { msn } => (msn, seq.next(), true),
            Response::Nak { msn } | Response::Rnr { msn, .. } => (msn, seq, false),
            Response::Data { msn: Some(msn), .. } | Response::Atomic { msn, .. } => {
                // Its own request among them, and if it is a repeated response
                // also later ones.
                let ahead = self.ahead(msn, self.covered(seq) as u64 + 1);
                let not_sent = self.ahead(msn, self.started.wrapping_sub(self.first_number()));
                self.stats.wrong_msn += u64::from(ahead < 0 || not_sent > 0);
                return;
            }
            _ => return,
        };
        let covered = self.covered(to);
        let ahead = self.ahead(msn, covered as u64);
        // The ACK of a duplicate has the PSN of the newest SEND, WRITE or
        // atomic, but counts READs behind it.
        let reads = |n: i32| {
            let behind = covered..covered + n as usize; // not negative, see below
            n <= MAX_AHEAD
                && self.queue.len() >= behind.end
                && self.queue.range(behind).all(|entry| entry.work.kind == WorkKind::Read)
        };
        let right = ahead == 0 || (ack && ahead > 0 && reads(ahead));
        self.stats.wrong_msn += u64::from(!right);
    }

    /// How many entries of the queue end before `to`.
    fn covered(&self, to: Seq) -> usize {
        self.queue.partition_point(|entry| entry.last < to)
    }

    /// Number of the oldest work request that is not completed.
    fn first_number(&self) -> u64 {
        self.queue.front().map_or(self.posted(), |oldest| oldest.number)
    }

    /// How far `msn` is ahead of the first `n` entries of the queue.
    fn ahead(&self, msn: u32, n: u64) -> i32 {
        let number = self.first_number() + n;
        Psn::new(msn).distance(Psn::new(number as u32)) // its low 24 bits
    }
}
