//! The receiving end of one lane.

use arrayvec::ArrayVec;
use common::time::{Span, Time};

use super::{Received, ReceiverConfig};
use crate::gaps::{Gap, Gaps};
use crate::marks::Marks;
use crate::message::{Echo, MAX_RANGES, Report};
use crate::number::{Lane, Number};

/// REPORTs that one list of gaps may take.
const MAX_REPORTS: usize = 16;
/// Largest depth of reordering that is waited for.
const DEPTH_MAX: u64 = 1 << 10;
/// Time without reordering after which less of it is expected.
const DEPTH_HALVES: Span = Span::from_millis(1_000);
/// Ranges of numbers that were given up and may still arrive.
const MAX_ABANDONED: usize = 64;

/// The state of one lane.
#[derive(Debug)]
pub(super) struct Incoming {
    /// One past the highest number that arrived or was announced.
    pub next: Number,
    /// All numbers before are settled: delivered, or given up.
    pub floor: Number,
    /// Of the numbers from `floor` on: those that arrived, and frame ids that arrived under other numbers.
    received: Marks,
    /// Of the numbers from `floor` on: those that are settled.
    settled: Marks,
    pub gaps: Gaps,
    /// Numbers that were given up.
    abandoned: Gaps,
    /// Frames that had arrived when the session began.
    arrived_before: u64,
    /// Of the frames that have arrived since, those with a congestion mark of the path, modulo 2^32.
    pub marked: u32,
    /// The newest PROBE.
    pub echo: Option<Echo>,
    /// Something arrived since all was reported.
    pub has_news: bool,
    /// Numbers became missing that are not reported.
    is_urgent: bool,
    /// `next` of the latest REPORT.
    told: Number,
    /// When the latest REPORT was sent.
    pub reported_at: Time,
    /// When all was reported the last time.
    pub all_reported_at: Time,
    /// Later numbers that have to arrive before one counts as lost: how far numbers are overtaken here.
    depth: u64,
    /// When a number was overtaken the last time, or `depth` shrank.
    overtaken_at: Time,
    /// Over all sessions.
    pub counts: Received,
}

impl Incoming {
    pub fn new(first: Number) -> Self {
        Self {
            next: first,
            floor: first,
            received: Marks::default(),
            settled: Marks::default(),
            gaps: Gaps::default(),
            abandoned: Gaps::default(),
            arrived_before: 0,
            marked: 0,
            echo: None,
            has_news: false,
            is_urgent: false,
            told: first,
            reported_at: Time::ZERO,
            all_reported_at: Time::ZERO,
            depth: 1,
            overtaken_at: Time::ZERO,
            counts: Received::default(),
        }
    }

    /// Begins another session at number `first`.
    pub fn restart(&mut self, first: Number) {
        let counts = self.counts;
        *self = Self { counts, arrived_before: counts.arrived, ..Self::new(first) };
    }

    /// Whether nothing is missing or waits, and nothing has arrived before its turn.
    #[inline]
    pub fn is_calm(&self) -> bool {
        self.floor == self.next && !self.received.reach(self.next)
    }

    /// All numbers before `number` were sent.
    pub fn notice(&mut self, number: Number, now: Time) {
        let mut start = self.next.max(self.floor);
        self.next = self.next.max(number);
        let mut missing = 0;
        while start < number {
            // Some arrived under other numbers, on other lanes.
            start = self.received.first_unmarked(start);
            let end = self.received.first_marked(start, number);
            if start < end {
                self.gaps.open(start, end, now);
                missing += end.since(start);
            }
            start = end;
        }
        self.is_urgent |= missing > 0;
        self.counts.missing += missing;
    }

    /// Transmission `number` has arrived, and is not missing any more. R-TUN-18
    pub fn found(&mut self, number: Number, now: Time) {
        if self.gaps.take(number) {
            self.overtaken_at = now;
            self.depth = self.depth.max(self.next.since(number)).min(DEPTH_MAX);
        }
    }

    /// One past the last number that counts as lost if it is missing.
    fn lost_end(&self, now: Time, loss_wait: Span) -> Number {
        if self.depth <= 1 {
            return self.next;
        }
        let from = self.next - self.depth;
        let mut young = self.gaps.from(from).filter(|gap| now < gap.since + loss_wait);
        young.next().map_or(self.next, |gap| gap.start.max(from))
    }

    /// Whether numbers count as lost that no REPORT has listed.
    pub fn is_urgent(&mut self, now: Time, loss_wait: Span) -> bool {
        let untold = self.gaps.from(self.told).next().map(|gap| gap.start);
        // Those that became missing may have been found.
        self.is_urgent &= untold.is_some();
        self.is_urgent && untold.is_some_and(|start| start < self.lost_end(now, loss_wait))
    }

    /// When numbers that became missing are to be reported, if nothing more arrives.
    fn urgent_due(&self, report_at_once: Span) -> Time {
        // Where numbers are overtaken, the next REPORT of all lists them.
        let is_timed = self.is_urgent && self.depth <= 1;
        if is_timed { self.reported_at + report_at_once } else { Time::NEVER }
    }

    #[inline]
    pub fn is_settled(&self, number: Number) -> bool {
        number < self.floor || self.settled.get(number)
    }

    /// Whether `number` did not arrive before; from now on it has.
    pub fn receive(&mut self, number: Number) -> bool {
        number >= self.floor && self.received.set(number, self.floor)
    }

    /// Whether `number` was given up and has not arrived since; from now on it has.
    pub fn receive_late(&mut self, number: Number) -> bool {
        self.abandoned.take(number)
    }

    pub fn settle(&mut self, number: Number) {
        if number > self.floor {
            self.settled.set(number, self.floor);
        } else if number == self.floor {
            self.settle_to(number.next());
        }
    }

    /// All before `to` are settled.
    fn settle_to(&mut self, to: Number) {
        self.floor = self.settled.first_unmarked(to);
        self.settled.trim(self.floor);
        self.received.trim(self.floor);
    }

    /// A transmission that brings no frame under its own number.
    pub fn void(&mut self, number: Number) {
        self.gaps.take(number);
        if self.receive(number) {
            self.settle(number);
        }
    }

    /// Gives up a gap, whose numbers are settled from now on. R-TUN-26
    pub fn abandon(&mut self, gap: Gap) {
        while self.abandoned.len() >= MAX_ABANDONED {
            self.abandoned.pop();
        }
        self.abandoned.insert(gap);
        let start = gap.start.max(self.floor);
        self.received.set_range(start, gap.end, self.floor);
        if start > self.floor {
            self.settled.set_range(start, gap.end, self.floor);
        } else if gap.end > self.floor {
            self.settle_to(gap.end);
        }
    }

    /// Nothing before `to` is waited for any more. There are no gaps.
    pub fn jump(&mut self, to: Number) {
        debug_assert!(self.gaps.is_empty());
        self.next = to;
        self.settle_to(to);
    }

    /// Whether the sender is to hear of this lane, now or later.
    pub fn is_report_due(&self) -> bool {
        self.has_news || !self.gaps.is_empty()
    }

    /// When the next REPORT is due.
    pub fn report_due(&self, config: &ReceiverConfig) -> Time {
        let is_due = self.is_report_due();
        let all = if is_due { self.all_reported_at + config.report_interval } else { Time::NEVER };
        all.min(self.urgent_due(config.report_at_once))
    }

    /// Sends the REPORTs about all numbers, or only about those behind the latest REPORT. R-TUN-8
    pub fn report(
        &mut self,
        lane: Lane,
        now: Time,
        all: bool,
        loss_wait: Span,
        mut send: impl FnMut(Report),
    ) {
        let mut from = if all { None } else { Some(self.told) };
        let mut missing = ArrayVec::<_, MAX_RANGES>::new();
        let mut sent = 0;
        let mut end = self.lost_end(now, loss_wait);
        if !all && end <= self.told {
            return;
        }
        self.is_urgent = end < self.next;
        let frames = (self.counts.arrived - self.arrived_before) as u32;
        let (marked, echo) = (self.marked, self.echo);
        let report = |from: Option<Number>, next: Number, missing| Report {
            lane,
            from: from.map(Number::wire),
            next: next.wire(),
            frames,
            marked,
            echo,
            missing,
        };
        for gap in self.gaps.from(from.unwrap_or_default()).take_while(|gap| gap.start < end) {
            if missing.is_full() {
                let missing = core::mem::take(&mut missing);
                let next = gap.start;
                self.counts.reports += 1;
                send(report(from, next, missing));
                from = Some(next);
                sent += 1;
                if sent == MAX_REPORTS {
                    // The rest follows once these have arrived.
                    (end, self.is_urgent) = (next, false);
                    break;
                }
            }
            let start = gap.start.max(from.unwrap_or_default());
            missing.push((start.wire(), gap.end.min(end).since(start) as u32));
        }
        if sent < MAX_REPORTS {
            self.counts.reports += 1;
            send(report(from, end, missing));
        }
        (self.told, self.reported_at) = (end, now);
        if all {
            (self.has_news, self.all_reported_at) = (false, now);
            if now.since(self.overtaken_at) >= DEPTH_HALVES {
                (self.depth, self.overtaken_at) = (1 + (self.depth - 1) / 2, now);
            }
        }
    }
}
