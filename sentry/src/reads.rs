//! The READ responses and atomic ACKs that a source waits for.
//!
//! They carry the PSNs of their requests, so the requests tell which ones to
//! expect, and in which order with ACKs. The responses of a queue pair are one
//! ordered stream: an ACK that overtakes a response tells the requester that
//! the response was lost. So behind a gap everything waits, while the
//! responses that are missing are fetched from the gateway at the other end.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::control::{MAX_RANGES, PsnRange};
use common::psn::{Psn, Seq};
use common::time::{Span, Time};
use common::wire::{Response, Verdict};

/// How often missing responses are fetched before the source has to ask again.
const TRIES: u8 = 3;

/// A response that waits.
#[derive(Debug)]
pub(crate) struct Waiting<F> {
    /// Place in the stream: the highest PSN that it answers, and whether it
    /// comes after the response with that PSN.
    place: (Seq, bool),
    pub frame: F,
    pub response: Response,
}

/// How to treat a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// It is forwarded, and is the response that was expected.
    Expected,
    /// It is forwarded, and tells nothing of the responses.
    Pass,
    /// Responses before it are missing.
    Early,
}

/// The responses of one flow.
#[derive(Debug)]
pub(crate) struct Reads<F> {
    /// PSNs of the requests that are not answered completely, in order, and
    /// when each was asked.
    ranges: VecDeque<(Seq, Seq, Time)>,
    /// The oldest response that the source lacks, if there are `ranges`.
    expected: Seq,
    /// Whether `expected` is: not after something was lost for good, until
    /// the source has asked again and it was seen.
    sure: bool,
    /// The source is certainly not in the middle of a READ response message.
    /// Not so at first: some of one may have gone past unseen.
    at_boundary: bool,
    /// One past the newest response that went on in its turn. A source that asks again
    /// may have got all of that meanwhile.
    high: Psn,
    held: VecDeque<Waiting<F>>,
    /// When a request or an expected response last passed.
    progress: Time,
    /// Since the last progress: when responses were last asked for ...
    asked: Option<Time>,
    /// ... and how often.
    tries: u8,
    /// The peer was told of everything before this.
    told: Psn,
    /// Requests before this were not seen here, or are forgotten; their responses may come all the same.
    from: Psn,
    /// The oldest response that is awaited and not to be had, as far as is known.
    absent: Option<Psn>,
}

impl<F> Reads<F> {
    pub fn new(next: Seq, now: Time) -> Self {
        Self {
            ranges: VecDeque::new(),
            expected: next,
            sure: true,
            at_boundary: false,
            high: next.psn(),
            held: VecDeque::new(),
            progress: now,
            asked: None,
            tries: 0,
            told: next.psn(),
            from: next.psn(),
            absent: None,
        }
    }

    /// No response to anything before can be on its way.
    pub fn begin(&mut self) {
        self.at_boundary = true;
    }

    /// Whether responses are awaited.
    pub fn is_waiting(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Whether something is held.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether nothing is awaited or held, and a positive ACK says nothing new.
    #[inline]
    pub fn is_idle(&self) -> bool {
        !self.is_waiting() && !self.is_holding() && self.at_boundary
    }

    /// Whether it is known which response comes next.
    pub fn is_sure(&self) -> bool {
        self.sure
    }

    /// Whether a response may be inserted here: not within a READ response
    /// message.
    pub fn at_boundary(&self) -> bool {
        self.at_boundary
    }

    /// No acknowledgement may go beyond this: responses before are missing.
    pub fn limit(&self) -> Option<Seq> {
        self.ranges.front().map(|_| self.expected)
    }

    /// A READ or atomic request passes for the first time.
    pub fn request(&mut self, start: Seq, count: u32, now: Time) {
        if self.ranges.is_empty() {
            self.expected = start;
            // Nothing beyond a request that is new can have gone on.
            self.high = start.psn();
        }
        self.ranges.push_back((start, start + u64::from(count), now));
        self.made_progress(now);
    }

    /// The source requests `start .. end` again: its first missing response is there at
    /// the latest.
    /// Responses to its earlier request may still come.
    pub fn request_again(&mut self, start: Seq, end: Seq, now: Time) {
        self.lose_track();
        self.expected = if self.ranges.is_empty() { start } else { self.expected.min(start) };
        // Not known if it was lost before it came here, or its responses were
        // on their way to the source.
        let i = self.ranges.partition_point(|(_, end, _)| *end <= start);
        if self.ranges.get(i).is_none_or(|(other, ..)| *other >= end) {
            self.ranges.insert(i, (start, end, now));
        }
        for (.., asked) in &mut self.ranges {
            *asked = now;
        }
        self.made_progress(now);
    }

    /// The source goes back to `to`: it has all that comes before.
    pub fn go_back(&mut self, to: Seq) {
        if !self.sure {
            self.expected = self.expected.max(to);
            self.drop_answered();
        }
    }

    /// Responses may have passed: none is awaited. Those to requests before `next` may come all the same.
    pub fn clear(&mut self, next: Seq) {
        self.lose_track();
        self.from = next.psn();
        self.at_boundary = false;
        self.ranges.clear();
    }

    /// When the response that is expected next should have come, if it takes
    /// `rtt` to be answered.
    pub fn due(&self, rtt: Span) -> Time {
        self.ranges.front().map_or(self.progress, |(.., asked)| self.progress.max(*asked + rtt))
    }

    /// The peer hasn't got the responses `start .. end`.
    pub fn note_absent(&mut self, start: Seq, end: Seq) {
        let mut missing = ArrayVec::new();
        self.push_awaited(start.max(self.expected), end, &mut missing);
        if let Some(PsnRange { start, .. }) = missing.first().filter(|_| self.sure) {
            let known = self.absent.map_or(*start, |known| {
                if known.distance(*start) < 0 && known.distance(self.expected.psn()) >= 0 {
                    known
                } else {
                    *start
                }
            });
            self.absent = Some(known);
        }
    }

    /// Whether the response that is expected next is not to be had.
    pub fn is_absent(&self) -> bool {
        self.is_waiting() && self.absent == Some(self.expected.psn())
    }

    /// Missing responses are fetched now.
    pub fn fetched(&mut self, now: Time) {
        self.asked = Some(now);
    }

    /// A gap shows that responses were lost: the first of the [`TRIES`].
    pub fn begin_tries(&mut self) {
        self.tries = self.tries.max(1);
    }

    /// They are about to be fetched again.
    pub fn try_again(&mut self) {
        self.tries += 1;
    }

    /// Whether they were fetched often enough.
    pub fn is_exhausted(&self) -> bool {
        self.tries >= TRIES
    }

    /// When missing responses count as lost, or as lost again: `patience` after they were fetched;
    /// if they were not, when they could have come for `tail` (R-READ-7, R-READ-10).
    pub fn lost_at(&self, patience: Span, rtt: Span, tail: Span) -> Time {
        match self.asked {
            Some(at) if self.is_holding() => at + patience,
            Some(_) if self.is_exhausted() => Time::NEVER,
            Some(at) => at + patience * (1 << self.tries),
            None => self.due(rtt) + tail,
        }
    }

    fn made_progress(&mut self, now: Time) {
        self.progress = now;
        (self.asked, self.tries) = (None, 0);
    }

    /// Something was lost for good.
    pub fn lose_track(&mut self) {
        self.sure = false;
        self.at_boundary &= self.is_between();
        self.absent = None;
        (self.asked, self.tries) = (None, 0);
    }

    /// One past the response that has passed in part, if one has.
    fn unfinished(&self) -> Option<Seq> {
        let (start, end, _) = self.ranges.front()?;
        (*start < self.expected).then_some(*end)
    }

    /// None of the response that is expected next was seen to pass.
    fn is_between(&self) -> bool {
        self.unfinished().is_none()
    }

    fn place_of(seq: Seq, response: &Response) -> (Seq, bool) {
        match response.verdict {
            Verdict::Response(_) => (seq, false),
            _ if response.is_nak() => (seq.prev(), true),
            _ => (seq, true),
        }
    }

    fn is_awaited(&self, seq: Seq) -> bool {
        let i = self.ranges.partition_point(|(_, end, _)| *end <= seq);
        self.ranges.get(i).is_some_and(|(start, ..)| *start <= seq)
    }

    /// Whether the source waits for no response with the PSN `seq`, and it is known which ones it has.
    pub fn is_answered(&self, seq: Seq) -> bool {
        self.sure && !(seq >= self.expected && self.is_awaited(seq))
    }

    /// Whether any of `from .. to` has a response.
    fn awaits_any(&self, from: Seq, to: Seq) -> bool {
        let i = self.ranges.partition_point(|(_, end, _)| *end <= from);
        self.ranges.get(i).is_some_and(|(start, ..)| (*start).max(from) < to)
    }

    /// Where a response with the PSN `seq` stands.
    pub fn order(&self, seq: Seq, response: &Response) -> Order {
        let (last, is_plain) = Self::place_of(seq, response);
        let is_response = !is_plain;
        if self.ranges.is_empty() || (is_response && !self.is_awaited(seq)) {
            return Order::Pass;
        }
        // R-READ-4
        if is_response && seq == self.expected {
            return Order::Expected;
        }
        // Behind a gap all wait, so that their order remains (R-READ-9).
        let waits = last >= self.expected || (is_plain && !self.held.is_empty());
        if waits && self.sure { Order::Early } else { Order::Pass }
    }

    /// Holds a response that is [early](Order::Early); whether it shows a gap
    /// that was not seen before. An `Err` gives it back: it is already there.
    pub fn hold(&mut self, seq: Seq, response: Response, frame: F) -> Result<bool, F> {
        let mut place = Self::place_of(seq, &response);
        if let Some(end) = self.unfinished().filter(|_| place.1 && place.0 < self.expected) {
            // For example an ACK of acknowledged PSNs. Between the packets of
            // a READ response message even that would end the queue pair.
            place.0 = end.prev();
        }
        let at = self.held.partition_point(|waiting| waiting.place <= place);
        let is_known = |waiting: &Waiting<F>| waiting.place == place && !place.1;
        if at.checked_sub(1).and_then(|i| self.held.get(i)).is_some_and(is_known) {
            return Err(frame);
        }
        let high = self.held.back().map_or(self.expected, |newest| newest.place.0.next());
        let opens = self.awaits_any(high, if place.1 { place.0.next() } else { place.0 });
        self.held.insert(at, Waiting { place, frame, response });
        Ok(opens)
    }

    /// The oldest response that waits and need not any more; all of them, in
    /// order, if `any`.
    pub fn next_held(&mut self, any: bool) -> Option<Waiting<F>> {
        let (last, is_plain) = self.held.front()?.place;
        let ready = match is_plain {
            _ if any || self.ranges.is_empty() => true,
            false => last <= self.expected,
            true => last < self.expected,
        };
        if ready { self.held.pop_front() } else { None }
    }

    /// A response is forwarded to the source.
    pub fn passed(&mut self, seq: Seq, response: &Response, now: Time) {
        let (_, is_plain) = Self::place_of(seq, response);
        if !is_plain && seq == self.expected && self.is_awaited(seq) {
            self.sure = true;
            self.expected = seq.next();
            self.at_boundary = response.ends_message() && self.is_farthest();
            if self.is_farthest() {
                self.high = self.expected.psn();
            }
            self.made_progress(now);
        } else if is_plain && self.sure && self.is_between() && self.is_farthest() {
            self.at_boundary = true;
        } else {
            // The source may take a response, or not, but for one it has.
            let is_unseen = !is_plain && seq < self.from.unwrap_near(seq);
            let is_known = self.sure && seq < self.expected;
            // It may lack responses to requests from before they were seen.
            self.at_boundary &= is_plain || is_known && !is_unseen;
            self.sure &= is_plain || is_known || self.is_awaited(seq);
        }
        self.drop_answered();
    }

    /// No response went on that comes after the one that is expected next.
    fn is_farthest(&self) -> bool {
        self.expected >= self.high.unwrap_near(self.expected)
    }

    fn drop_answered(&mut self) {
        while let Some((start, end, _)) = self.ranges.front().copied() {
            if self.expected < end {
                self.expected = self.expected.max(start);
                break;
            }
            self.ranges.pop_front();
        }
    }

    /// PSNs missing before the held responses; with none held, all
    /// awaited ones.
    pub fn missing(&self) -> ArrayVec<PsnRange, MAX_RANGES> {
        let mut missing = ArrayVec::new();
        let mut from = self.expected;
        for waiting in &self.held {
            let (last, is_plain) = waiting.place;
            self.push_awaited(from, if is_plain { last.next() } else { last }, &mut missing);
            from = from.max(last.next());
        }
        if self.held.is_empty() {
            let end = self.ranges.back().map_or(from, |(_, end, _)| *end);
            self.push_awaited(from, end, &mut missing);
        }
        missing
    }

    /// The PSNs of `from .. to` that responses have.
    fn push_awaited(&self, from: Seq, to: Seq, missing: &mut ArrayVec<PsnRange, MAX_RANGES>) {
        let i = self.ranges.partition_point(|(_, end, _)| *end <= from);
        for (start, end, _) in self.ranges.range(i..) {
            let (start, end) = ((*start).max(from), (*end).min(to));
            if start >= end || missing.is_full() {
                break;
            }
            // A range is at most MAX_SPAN long.
            missing.push(PsnRange { start: start.psn(), len: end.since(start) as u32 });
        }
    }

    /// The oldest response that is awaited, if the peer has not been told yet
    /// that the source has those before.
    pub fn news(&mut self) -> Option<Seq> {
        let is_news = self.expected > self.told.unwrap_near(self.expected);
        self.told = self.expected.psn();
        is_news.then_some(self.expected)
    }

    /// The oldest response that is awaited.
    pub fn expected(&self) -> Seq {
        self.expected
    }

    /// Gives back the memory that is not in use.
    pub fn shrink(&mut self) {
        self.ranges.shrink_to_fit();
        self.held.shrink_to_fit();
    }

    /// Memory that the lists take, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let ranges = self.ranges.capacity() * size_of::<(Seq, Seq, Time)>();
        ranges + self.held.capacity() * size_of::<Waiting<F>>()
    }
}

#[cfg(test)]
mod tests {
    use common::wire::Position;

    use super::*;

    /// A READ, and half of all PSNs later another: the source is between messages after
    /// each.
    #[test]
    fn responses_that_lie_far_apart_end_where_they_end() {
        let (first, now) = (Seq::first(Psn::new(0)), Time::ZERO);
        let mut reads = Reads::<()>::new(first, now);
        reads.begin();
        for seq in [first, first + 1, first + ((1 << 23) + 10)] {
            reads.request(seq, 1, now);
            let verdict = Verdict::Response(Position::Only);
            reads.passed(
                seq,
                &Response { verdict, psn: seq.psn(), msn: Some(1), credits: None },
                now,
            );
            assert!(!reads.is_waiting() && reads.at_boundary(), "{seq:?}");
        }
    }

    /// Three READs, of which the first two are forgotten, and the source repeats the first only: the response to the second has a middle.
    // R-NAK-9
    #[test]
    fn a_response_to_a_read_that_was_forgotten_is_not_between_messages() {
        let (first, now) = (Seq::first(Psn::new(0)), Time::ZERO);
        let mut reads = Reads::<()>::new(first, now);
        reads.begin();
        reads.request(first, 1, now);
        reads.request(first + 1, 2, now);
        reads.clear(first + 3);
        reads.request_again(first, first + 1, now);
        reads.request(first + 3, 1, now);
        let mut pass = |seq: Seq, position| {
            let verdict = Verdict::Response(position);
            let response = Response { verdict, psn: seq.psn(), msn: None, credits: None };
            reads.passed(seq, &response, now);
            reads.at_boundary()
        };
        assert!(pass(first, Position::Only));
        assert!(!pass(first + 1, Position::First));
    }
}
