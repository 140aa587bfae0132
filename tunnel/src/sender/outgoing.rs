//! The sending end of one lane.

mod probing;

use std::collections::VecDeque;

use common::rtt::Rtt;
use common::time::{Span, Time};

use super::age::{Age, Refused};
use super::dead::Dead;
use super::delivery::Delivery;
use super::handles::Handles;
use super::listed::Listed;
use super::repair::Cause;
use super::silence::{Others, Silence};
use super::waits::{LATER, report_interval};
use super::{Recover, Sent};
use crate::message::Report;
use crate::number::{FrameId, Lane, Number, Session};

/// Answers after which a suspect lane gets new frames again.
const ANSWERS: u8 = 3;
/// Who looks this much later than it was to has stood still, as a worker whose core was taken: the REPORT may have come
/// meanwhile, and wait to be received.
const STOOD_STILL: Span = Span::from_micros(100);
/// In this time a worker that stood still receives what came meanwhile: a thousand frames and more.
const CATCH_UP: Span = Span::from_micros(500);

/// Whether a lane carries new frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// Its REPORTs come in time.
    Good,
    /// A REPORT is overdue; so many PROBEs were answered since.
    Suspect {
        /// REPORTs since it became suspect.
        answers: u8,
    },
    /// Its path can't be used.
    Down,
}

/// A transmission of which nothing was reported.
#[derive(Debug)]
pub(super) struct Slot<K> {
    /// The frame; of a copy, the transmission that it is a copy of.
    pub id: FrameId,
    /// Without it the frame can't be resent.
    pub kept: Option<K>,
    pub age: Age,
    pub cause: Cause,
}

/// A transmission that is not a frame's first one, or has no handle.
#[derive(Clone, Copy, Debug)]
struct Again {
    number: Number,
    id: FrameId,
    age: Age,
}

#[derive(Debug)]
pub(super) struct Outgoing<K> {
    lane: Lane,
    /// Nothing is reported of this transmission, the first such one, or it is the next one.
    pub base: Number,
    /// By number. Those before `base` are of transmissions that arrived, and are to be freed.
    pub handles: Handles<K>,
    /// Of the transmissions from `base` on those that are not a frame's first one or have no handle, in ascending order.
    /// Any other one without a handle is settled: reported, or resent under another number.
    others: VecDeque<Again>,
    /// REPORTs have spoken of every number before.
    covered: Number,
    /// Numbers that the receiver has to give up.
    pub dead: Dead,
    sent_at: Time,
    /// When the newest frame was sent.
    frame_at: Time,
    /// When the newest PROBE was sent because of frames.
    probed_at: Time,
    /// When the newest SKIP was sent in answer to a REPORT.
    pub skipped_at: Time,
    /// PROBEs since the last REPORT that was news, and more where a frame was resent often.
    probes: u32,
    /// REPORTs in a row that were news and told of lost transmissions only.
    in_vain: u32,
    /// When a REPORT is overdue.
    report_due: Time,
    /// The wait for that REPORT was prolonged because this box had stood still.
    is_prolonged: bool,
    silence: Silence,
    pub health: Health,
    /// The next number of those that move to other lanes, while some do.
    pub moving: Option<Number>,
    /// A transmission whose round trip is measured.
    timed: Option<(Number, Time)>,
    rtt: Rtt,
    pub delivery: Delivery,
    /// When the newest REPORT came, or the first frame was sent that waits for one.
    reported_at: Time,
    /// Over all sessions.
    pub counts: Sent,
}

impl<K> Outgoing<K> {
    pub fn new(lane: Lane, session: Session, rtt: Span) -> Self {
        Self {
            lane,
            base: session.first(),
            handles: Handles::new(session.first()),
            others: VecDeque::new(),
            covered: session.first(),
            dead: Dead::default(),
            sent_at: Time::ZERO,
            frame_at: Time::ZERO,
            probed_at: Time::ZERO,
            skipped_at: Time::ZERO,
            probes: 0,
            in_vain: 0,
            report_due: Time::NEVER,
            is_prolonged: false,
            silence: Silence::default(),
            health: Health::Good,
            moving: None,
            timed: None,
            rtt: Rtt::guess(rtt),
            delivery: Delivery::default(),
            reported_at: Time::ZERO,
            counts: Sent::default(),
        }
    }

    /// Begins another session, with the round trip of the one before or, if it was not measured, this guess.
    pub fn restart(&mut self, session: Session, guess: Span) {
        let rtt = if self.rtt.is_measured() { self.rtt.mean() } else { guess };
        *self = Self { counts: self.counts, ..Self::new(self.lane, session, rtt) };
    }

    #[inline]
    pub fn next(&self) -> Number {
        self.handles.next()
    }

    /// Transmissions from the first one on of which nothing is reported.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.next().since(self.base) as usize
    }

    /// Whether everything is reported.
    pub fn is_idle(&self) -> bool {
        self.next() == self.base
    }

    /// Handles of transmissions that arrived, at most.
    #[inline]
    pub fn unfreed(&self) -> usize {
        self.base.since(self.handles.first()) as usize
    }

    /// Frees the handles of up to `most` transmissions that arrived. Returns how many transmissions and handles these were.
    pub fn free<T: Recover<Kept = K>>(&mut self, most: usize, out: &mut T) -> (usize, usize) {
        let mut freed = 0;
        let count = self.handles.free(self.base, most, |kept| freed += out.release_all(kept));
        self.counts.released += freed as u64;
        (count, freed)
    }

    /// Nothing is resent any more: all may be freed.
    pub fn end(&mut self) {
        (self.base, self.covered) = (self.next(), self.next());
        self.others.clear();
        self.moving = None;
    }

    /// Whether it has carried no frame in this session.
    pub fn is_unused(&self) -> bool {
        self.is_idle() && self.sent_at == Time::ZERO
    }

    /// A round trip took so long.
    pub fn sample(&mut self, now: Time, rtt: Span) {
        self.rtt.sample(rtt);
        self.silence.round_trip(now, rtt);
        self.counts.round_trips.record(rtt);
        self.delivery.round_trip(now, rtt);
    }

    /// Works by another guess, unless the round trip is measured. It waits for a REPORT as long as that says, from now on.
    pub fn guess(&mut self, now: Time, rtt: Span) {
        if self.rtt.is_measured() {
            return;
        }
        self.rtt = Rtt::guess(rtt);
        if self.report_due < Time::NEVER {
            self.await_report(now);
        }
    }

    pub const fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// When the newest REPORT came, or the first frame was sent that waits for one.
    pub const fn waiting_since(&self) -> Time {
        self.reported_at
    }

    /// How long it has waited for a REPORT; zero if all is reported.
    pub fn report_age(&self, now: Time) -> Span {
        if self.is_idle() { Span::ZERO } else { now.since(self.reported_at) }
    }

    /// A transmission of a frame that has another number, or a copy of one that has, with the lane's next number.
    pub fn push(&mut self, now: Time, id: FrameId, kept: Option<K>, age: Age) {
        let number = self.next();
        self.handles.reserve(1);
        self.handles.push(kept);
        self.others.push_back(Again { number, id, age });
        self.sent(now, number);
        if age.resends > 1 {
            // On an idle lane the distance of resends grows with that of PROBEs. R-TUN-62
            self.probes = u32::from(age.resends / 2);
            self.report_due = self.report_due.max(self.asked_by(now) + self.waits().report);
        }
    }

    /// The first transmission of frame `id`, with the lane's next number, for which there is
    /// [room](Handles::reserve).
    #[inline(always)]
    pub fn push_first(&mut self, id: FrameId, kept: Option<K>) {
        if kept.is_none() {
            self.others.push_back(Again { number: id.number(), id, age: Age::default() });
        }
        self.handles.push(kept);
    }

    /// The transmissions from `first` on, at least one, are new.
    #[inline]
    pub fn sent(&mut self, now: Time, first: Number) {
        (self.sent_at, self.frame_at, self.probes) = (now, now, 0);
        if first == self.base {
            self.await_report(now);
            self.silence.begin(now, self.rtt.mean());
            self.reported_at = now;
        }
        if self.timed.is_none() {
            self.timed = Some((first, now));
        }
        self.silence.sent(now, first, self.rtt.mean());
    }

    /// The numbers of a REPORT; `None` if none of them was ever sent.
    pub fn read<'a>(&self, report: &'a Report) -> Option<Listed<'a>> {
        Listed::read(report, self.next())
    }

    /// Takes a REPORT. Transmissions that did not arrive go to `lost`, those without a handle that did to `arrived`. Handles
    /// of the others are freed [later](Self::free). Returns how many were freed at once.
    pub fn take<T: Recover<Kept = K>>(
        &mut self,
        now: Time,
        pulse: Span,
        listed: &Listed<'_>,
        lost: &mut Vec<(Number, Slot<K>)>,
        (arrived, refused): (&mut Vec<FrameId>, &mut Refused),
        out: &mut T,
    ) -> usize {
        if let Some((number, at)) = self.timed.filter(|(number, _)| listed.covers(*number)) {
            if !listed.has(number) {
                self.sample(now, now.since(at));
            }
            self.timed = None;
        }
        self.reported_at = now;
        self.silence.heard(now);
        // A number is judged by the first REPORT that speaks of it. R-TUN-8
        let from = listed.from.unwrap_or(self.covered);
        let start = if from <= self.covered { self.covered } else { from }.max(self.base);
        // What arrived may have moved to other lanes meanwhile: this one carries something all the same. R-TUN-12
        let goes_on = from <= self.covered && self.covered < listed.next;
        let (mut number, mut is_news, mut freed) = (start, goes_on, 0);
        let mut has_arrived = false;
        let end = listed.next.max(start);
        for gap in listed.gaps(start).chain(core::iter::once((end, end))) {
            number = number.max(self.base.min(end));
            let (gap_start, gap_end) = (gap.0.clamp(number, end), gap.1.clamp(number, end));
            if number == self.base {
                // Most often all of them.
                has_arrived |= gap_start > self.base;
                self.base = gap_start;
                while let Some(it) = self.others.pop_front_if(|it| it.number < gap_start) {
                    refused.arrived(&it.age);
                    if self.handles.get_mut(it.number).is_none_or(|kept| kept.is_none()) {
                        arrived.push(it.id);
                    }
                }
                number = gap_start;
            }
            while number < gap_start {
                if let Some(Slot { id, kept, age, .. }) = self.settle(number) {
                    has_arrived = true;
                    refused.arrived(&age);
                    match kept {
                        Some(kept) => (freed += 1, out.release(kept)).1,
                        None => arrived.push(id),
                    }
                }
                number = number.next();
            }
            while number < gap_end {
                if let Some(mut slot) = self.settle(number) {
                    is_news = true;
                    if slot.age.since == Time::ZERO {
                        slot.age.since = self.sent_by(number);
                    }
                    lost.push((number, slot));
                }
                number = number.next();
            }
            self.settle_front();
        }
        if from <= self.covered {
            self.covered = self.covered.max(listed.next);
        }
        self.dead.keep_wanted(listed);
        is_news |= has_arrived;
        if has_arrived {
            self.in_vain = 0;
        } else if !lost.is_empty() {
            self.in_vain += 1;
        }
        if is_news {
            self.silence.news(now, pulse, self.waits().report, self.rtt.mean());
        }
        self.silence.settled(now, self.base);
        if self.is_idle() {
            self.report_due = Time::NEVER;
        } else if is_news {
            self.await_report(now);
        }
        self.probes = if is_news { 0 } else { self.probes };
        if let Health::Suspect { answers } = self.health {
            let answers = answers + 1;
            self.health =
                if answers < ANSWERS { Health::Suspect { answers } } else { Health::Good };
        }
        self.counts.released += freed as u64;
        freed
    }

    /// A transmission that is settled from now on, if it was not.
    pub fn settle(&mut self, number: Number) -> Option<Slot<K>> {
        if number < self.base {
            return None;
        }
        let kept = self.handles.get_mut(number)?.take();
        let (id, age) = match self.other(number).and_then(|at| self.others.remove(at)) {
            Some(it) => (it.id, it.age),
            None if kept.is_none() => return None,
            None => (FrameId::new(self.lane, number), Age::default()),
        };
        Some(Slot { id, kept, age, cause: Cause::Lost })
    }

    /// When transmission `number`, of which nothing was reported before now, was sent at the latest.
    pub fn sent_by(&self, number: Number) -> Time {
        self.silence.sent_before(number).unwrap_or(self.frame_at)
    }

    /// Undoes [`settle`](Self::settle) of a first transmission.
    pub fn restore(&mut self, number: Number, kept: K) {
        if let Some(place) = self.handle(number) {
            *place = Some(kept);
        }
    }

    /// The handle of a transmission of which nothing is reported.
    pub fn handle(&mut self, number: Number) -> Option<&mut Option<K>> {
        if number < self.base { None } else { self.handles.get_mut(number) }
    }

    /// Whether a transmission of which nothing is reported can be settled before it is: its frame was kept, or it is a copy.
    pub fn can_move(&mut self, number: Number) -> bool {
        let is_kept = self.handle(number).is_some_and(|kept| kept.is_some());
        let first = FrameId::new(self.lane, number);
        is_kept || self.other(number).is_some_and(|at| self.others[at].id != first)
    }

    /// Puts `kept` and the frame `id` in place of a copy of `of`, of which nothing is reported.
    pub fn replace(
        &mut self,
        copy: Number,
        of: FrameId,
        (id, age): (FrameId, Age),
        kept: K,
    ) -> Result<(), K> {
        let at = self.other(copy).filter(|at| self.others[*at].id == of);
        let (Some(at), Some(place)) = (at, self.handles.get_mut(copy)) else { return Err(kept) };
        *place = Some(kept);
        (self.others[at].id, self.others[at].age) = (id, age);
        Ok(())
    }

    /// Where a transmission is among [others](Self::others).
    fn other(&self, number: Number) -> Option<usize> {
        self.others.binary_search_by_key(&number, |it| it.number).ok()
    }

    /// No transmission before `base` is unsettled: finds the next one that is.
    pub fn settle_front(&mut self) {
        while self.base < self.next()
            && self.others.front().is_none_or(|it| it.number != self.base)
            && self.handles.get_mut(self.base).is_some_and(|kept| kept.is_none())
        {
            self.base += 1;
        }
    }

    /// Whether it is time to see whether a REPORT is [missing](Self::suspect).
    #[inline]
    pub fn may_be_silent(&self, now: Time) -> bool {
        self.health == Health::Good
            && !self.is_idle()
            && now >= self.report_due.min(self.silence.look_at())
    }

    /// Whether a REPORT is overdue and was not before, or the lane is silent while `others` are not. The lane is suspect from now
    /// on. If the box stood still when the REPORT was due, it waits longer, once. R-TUN-12, R-TUN-58
    pub fn suspect(&mut self, now: Time, pulse: Span, others: Option<Others>) -> bool {
        if !self.may_be_silent(now) {
            return false;
        }
        let due = self.report_due.min(self.silence.look_at());
        let (wait, rtt) = (self.waits().report, self.rtt.mean());
        if now.since(due) > STOOD_STILL && !self.is_prolonged {
            let later = now + (report_interval(rtt) * LATER).max(CATCH_UP);
            (self.report_due, self.is_prolonged) = (self.report_due.max(later), true);
            self.silence.stood_still(due, now + CATCH_UP, wait, rtt);
            return false;
        }
        let is_overdue = now >= self.report_due && !self.silence.is_everywhere(pulse, rtt, others);
        let heard_at = others.map(|it| it.heard_at);
        let is_silent = self.silence.is_over(now, pulse, wait, rtt, heard_at);
        if is_overdue || is_silent {
            self.health = Health::Suspect { answers: 0 };
        }
        is_overdue || is_silent
    }

    /// Whether frames are overdue on a suspect lane: they were sent while there was no good one. R-TUN-12
    pub fn is_late(&self, now: Time) -> bool {
        matches!(self.health, Health::Suspect { .. })
            && !self.is_idle()
            && self.silence.is_late(now, self.waits().report)
    }

    /// The frames before this number that could be moved are on other lanes now; those from there on are to move, if any.
    pub fn moved(&mut self, before: Number) {
        self.settle_front();
        self.silence.forget(self.base);
        // The timed frame may have moved, and arrive on another lane: a REPORT here would not measure this path.
        self.timed = None;
        self.moving = (before < self.next()).then_some(before);
    }

    /// When its newest REPORT came.
    pub const fn heard_at(&self) -> Time {
        self.silence.heard_at()
    }
}
