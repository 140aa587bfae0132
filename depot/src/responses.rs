//! READ responses and atomic ACKs of the destination, kept until they are
//! known to have crossed the long-haul link.
//!
//! They carry the PSNs of their requests, and can't be asked for with a NAK.
//! The gateway at the requester knows from the requests which ones to expect;
//! it requests missing ones with a FETCH.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::control::{Fetch, MAX_RANGES, PsnRange};
use common::frame::{Class, Frame, Packet, Shared};
use common::metrics::Metric;
use common::psn::Seq;
use common::time::{Span, Time};

use crate::{Actions, Context, Flow};

/// They are kept for so many round trips if nothing is heard of them.
const KEPT_FOR: u64 = 6;

/// More than this can't be missing of one READ.
const MOST_LOST: u64 = 1 << 16;

/// A packet that was sent on.
struct Response<S> {
    seq: Seq,
    /// When its newest copy left.
    sent: Time,
    /// It left more than once.
    resent: bool,
    handle: S,
}

/// The newest responses, in the order of their PSNs.
#[repr(C)]
pub(crate) struct Responses<S> {
    /// One past the newest PSN that the destination answered; 0 before.
    pub answered: Seq,
    kept: VecDeque<Response<S>>,
}

impl<S: Shared> Responses<S> {
    pub fn new() -> Self {
        Self { kept: VecDeque::new(), answered: Seq::default() }
    }

    fn position(&self, seq: Seq) -> Result<usize, usize> {
        self.kept.binary_search_by_key(&seq, |response| response.seq)
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Gives back the memory that is not in use.
    pub fn shrink(&mut self) {
        self.kept.shrink_to_fit();
    }

    /// Memory that the list takes, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<Response<S>>()
    }

    /// When the oldest one is too old.
    pub fn due(&self, rtt: Span) -> Time {
        self.kept.front().map_or(Time::NEVER, |oldest| oldest.sent + rtt * KEPT_FOR)
    }
}

impl<F: Frame> Flow<F> {
    /// The destination answers all PSNs before `next`; `from` is the first packet of the
    /// response. Responses that it left unfinished before were lost on the way here.
    pub(crate) fn note_response<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        from: Seq,
        next: Seq,
        was_within: bool,
    ) {
        let start = core::mem::replace(&mut self.responses.answered, next);
        let Some(incarnation) =
            self.incarnation.filter(|_| was_within && cx.config.keeps_responses)
        else {
            return;
        };
        let len = from.since(start);
        if start == Seq::default() || len == 0 || len > MOST_LOST {
            return;
        }
        // R-READ-16
        let range = PsnRange { start: start.psn(), len: len as u32 };
        let missing = [range].into_iter().collect();
        cx.out.absent(incarnation.epoch, Fetch { expected: start.psn(), missing }, Class::Data);
    }

    /// Keeps a response that passes, and returns the packet to transmit.
    pub(crate) fn keep_response<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
    ) -> Packet<F> {
        if !cx.config.keeps_responses || self.incarnation.is_none() {
            return Packet::Owned(frame);
        }
        // A repeated READ is answered again: from here on the old responses are
        // void (R-READ-14).
        let at = self.responses.position(seq).unwrap_or_else(|at| at);
        while self.responses.kept.len() > at {
            let newest = self.responses.kept.pop_back();
            release::<F, A>(cx, newest);
        }
        while !cx.cache.take(frame.bytes().len()) {
            let Some(oldest) = self.responses.kept.pop_front() else {
                cx.out.count(Metric::ResponseCacheFull, 1);
                return Packet::Owned(frame);
            };
            release::<F, A>(cx, Some(oldest));
        }
        cx.out.count(Metric::CreatedHandle, 1);
        let handle = frame.share();
        let packet = Packet::Shared(handle.clone());
        self.responses.kept.push_back(Response { seq, sent: cx.now, resent: false, handle });
        packet
    }

    /// The requester's gateway lacks responses; already authenticated and of
    /// this incarnation (R-READ-15).
    pub fn on_fetch<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, fetch: &Fetch) {
        let expected = fetch.expected.unwrap_near(self.sequence.expected());
        while self.responses.kept.front().is_some_and(|oldest| oldest.seq < expected) {
            let oldest = self.responses.kept.pop_front();
            release::<F, A>(cx, oldest);
        }
        let (patience, under_way) = (self.rtt.scale(5, 4), self.rtt.scale(3, 4));
        let (mut resent, mut uncached) = (0, 0);
        let answered = self.responses.answered;
        let mut absent = ArrayVec::<PsnRange, MAX_RANGES>::new();
        for range in &fetch.missing {
            let start = range.start.unwrap_near(expected);
            let end = start + u64::from(range.len);
            let first = self.responses.position(start).unwrap_or_else(|at| at);
            let (mut found, mut next) = (0, start);
            for response in self.responses.kept.range_mut(first..) {
                if response.seq >= end {
                    break;
                }
                found += 1;
                push_absent(&mut absent, next, response.seq.min(answered));
                next = response.seq.next();
                // The copy that left last may still be under way.
                let wait = if response.resent { patience } else { under_way };
                if cx.now < response.sent + wait {
                    continue;
                }
                (response.sent, response.resent) = (cx.now, true);
                resent += 1;
                cx.out.respond(Packet::Shared(response.handle.clone()), Class::High);
            }
            push_absent(&mut absent, next, end.min(answered));
            uncached += u64::from(range.len).saturating_sub(found);
        }
        cx.out.count(Metric::CreatedHandle, resent);
        if let Some(first) = fetch.missing.first() {
            cx.out.about(first.start, resent + uncached, |out| {
                out.count(Metric::ResponseResent, resent);
                out.count(Metric::ResponseUncached, uncached);
            });
        }
        if let (Some(incarnation), false) = (self.incarnation, absent.is_empty()) {
            let absent = Fetch { expected: fetch.expected, missing: absent };
            cx.out.absent(incarnation.epoch, absent, Class::High);
        }
    }

    /// Drops responses that are too old to be fetched.
    pub(crate) fn age_responses<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        while cx.now >= self.responses.due(self.rtt) {
            let oldest = self.responses.kept.pop_front();
            release::<F, A>(cx, oldest);
        }
    }

    pub(crate) fn drop_responses<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        while let Some(oldest) = self.responses.kept.pop_front() {
            release::<F, A>(cx, Some(oldest));
        }
    }
}

/// Lists `from .. to`, unless it is empty or there is no room.
fn push_absent(absent: &mut ArrayVec<PsnRange, MAX_RANGES>, from: Seq, to: Seq) {
    if from < to {
        _ = absent.try_push(PsnRange { start: from.psn(), len: to.since(from) as u32 });
    }
}

fn release<F: Frame, A: Actions<F>>(
    cx: &mut Context<'_, A>,
    response: Option<Response<F::Shared>>,
) {
    if let Some(Response { handle, .. }) = response {
        cx.cache.give(handle.bytes().len());
        cx.out.discard(Packet::Shared(handle), Metric::DropReleased);
    }
}
