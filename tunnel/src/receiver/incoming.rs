//! The receiving end of one lane.

use arrayvec::ArrayVec;
use common::time::{Span, Time};
use common::verdict::{Limits, Suspect, Verdict};
use fec::Plan;

use super::{Received, ReceiverConfig};
use crate::gaps::{Gap, Gaps};
use crate::marks::Marks;
use crate::message::{Echo, MAX_RANGES, Report};
use crate::number::{Lane, Number};

/// REPORTs that one list of gaps may take.
const MAX_REPORTS: usize = 16;
/// Intervals between REPORTs that a missing number is waited for at most. The sender suspects a lane on which none
/// is news for a round trip and three intervals (R-TUN-12).
const WAIT_MAX: u64 = 3;
/// Without news, each REPORT waits so many times longer than the one before, in intervals,
const REPEATED: u64 = 4;
/// but for so many times at most.
const REPEATS_MAX: u32 = 7;
/// Ranges of numbers that were given up, or repaired, and may still arrive.
const MAX_REMEMBERED: usize = 64;

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
    /// Numbers that were reported, and whose frames arrived under others.
    repaired: Gaps,
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
    /// REPORTs of all since something arrived.
    repeats: u32,
    /// `next` of the latest REPORT.
    told: Number,
    /// When the latest REPORT was sent.
    pub reported_at: Time,
    /// When all was reported the last time.
    pub all_reported_at: Time,
    /// How far numbers are overtaken here.
    verdict: Verdict,
    /// The plan of the repair frames that arrive for this lane, if any do.
    pub plan: Option<Plan>,
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
            repaired: Gaps::default(),
            arrived_before: 0,
            marked: 0,
            echo: None,
            has_news: false,
            is_urgent: false,
            repeats: 0,
            told: first,
            reported_at: Time::ZERO,
            all_reported_at: Time::ZERO,
            verdict: Verdict::default(),
            plan: None,
            counts: Received::default(),
        }
    }

    /// Begins another session at number `first`, on the same path.
    pub fn restart(&mut self, first: Number) {
        let Self { counts, verdict, .. } = *self;
        *self = Self { counts, verdict, arrived_before: counts.arrived, ..Self::new(first) };
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
        if missing > 0 {
            // A lane may have been idle.
            self.verdict.decay(now);
            self.is_urgent = true;
        }
        self.counts.missing += missing;
    }

    /// Transmission `number` has arrived, and is not missing any more. R-TUN-46
    pub fn found(&mut self, config: &ReceiverConfig, number: Number, now: Time) {
        if let Some(gap) = self.gaps.cut(number, number.next()) {
            self.counts.recovery.record(now.since(gap.since));
            let is_reported = number < self.told;
            self.overtaken(config, number, now, &gap, is_reported);
        }
    }

    /// The frame that was first sent as `number` has arrived under another number.
    pub fn repair(&mut self, number: Number, now: Time) {
        if let Some(gap) = self.gaps.cut(number, number.next()) {
            self.counts.recovery.record(now.since(gap.since));
            if number < self.told {
                remember(&mut self.repaired, gap);
            }
        }
    }

    /// Frame `number` has arrived once more; if this is its first transmission, and it was repaired, it was not lost. R-TUN-47
    pub fn doubled(&mut self, config: &ReceiverConfig, number: Number, now: Time, is_first: bool) {
        self.counts.duplicate += 1;
        if is_first && let Some(gap) = self.repaired.cut(number, number.next()) {
            self.overtaken(config, number, now, &gap, true);
        }
    }

    /// Transmission `number` has come behind later ones.
    fn overtaken(
        &mut self,
        config: &ReceiverConfig,
        number: Number,
        now: Time,
        gap: &Gap,
        is_reported: bool,
    ) {
        self.counts.overtaken += 1;
        self.counts.misjudged += u64::from(is_reported);
        let (late, depth) = (now.since(gap.since), (self.next - 1).since(number));
        self.verdict.late(now, late, depth, wait_max(config));
    }

    /// How far numbers may be overtaken before they count as lost; `None`: a later one shows the loss. R-TUN-18, R-TUN-49
    pub fn limits(&self, config: &ReceiverConfig) -> Option<Limits> {
        self.verdict.limits(&config.tolerance, wait_max(config))
    }

    /// One past the last number that counts as lost if it is missing.
    fn lost_end(&self, config: &ReceiverConfig, now: Time) -> Number {
        let end = self.overtaken_end(config, now);
        self.plan.map_or(end, |plan| self.hopeless_end(plan, config, now).min(end))
    }

    /// The same, were there no repair frames.
    fn overtaken_end(&self, config: &ReceiverConfig, now: Time) -> Number {
        let Some(limits) = self.limits(config) else { return self.next };
        let highest = self.next - 1;
        let deep = highest - limits.depth;
        let is_open = |gap: &&Gap| {
            let depth = highest.since(gap.start.max(deep));
            // Every frame of a lane has a number of its own: no more arrive meanwhile.
            let suspect = Suspect { depth, age: now.since(gap.since), meanwhile: depth };
            !limits.is_lost(&suspect)
        };
        let open = self.gaps.from(deep).find(is_open);
        open.map_or(self.next, |gap| gap.start.max(deep))
    }

    /// The first missing number that no REPORT has listed, and since when it is.
    fn untold(&self) -> Option<(Number, Time)> {
        self.gaps.from(self.told).next().map(|gap| (gap.start.max(self.told), gap.since))
    }

    /// Whether numbers became missing that no REPORT has listed.
    #[inline]
    pub const fn may_be_urgent(&self) -> bool {
        self.is_urgent
    }

    /// Whether numbers count as lost that no REPORT has listed.
    pub fn is_urgent(&mut self, config: &ReceiverConfig, now: Time) -> bool {
        let untold = self.untold();
        // Those that became missing may have been found.
        self.is_urgent &= untold.is_some();
        self.is_urgent && untold.is_some_and(|(start, _)| start < self.lost_end(config, now))
    }

    /// When numbers that became missing are to be reported, if nothing more arrives. R-TUN-48
    #[inline]
    fn urgent_due(&self, config: &ReceiverConfig) -> Time {
        if self.is_urgent { self.untold_due(config) } else { Time::NEVER }
    }

    fn untold_due(&self, config: &ReceiverConfig) -> Time {
        let at_once = self.reported_at + config.report_at_once;
        let decoding = self.plan.map(|_| wait_max(config));
        let overtaken = self.limits(config).map(|limits| limits.longest());
        match (decoding.max(overtaken), self.untold()) {
            (None, _) => at_once,
            (Some(wait), Some((_, since))) => at_once.max(since + wait),
            (Some(_), None) => Time::NEVER,
        }
    }

    #[inline]
    pub fn is_settled(&self, number: Number) -> bool {
        number < self.floor || self.settled.get(number)
    }

    /// Whether `number` did not arrive before; from now on it has.
    #[inline]
    pub fn receive(&mut self, number: Number) -> bool {
        number >= self.floor && self.received.set(number, self.floor)
    }

    /// Since when `number` was missing, if it was given up and has not arrived since; from now on it has.
    pub fn receive_late(&mut self, number: Number) -> Option<Time> {
        self.abandoned.cut(number, number.next()).map(|gap| gap.since)
    }

    /// Nothing waits for `number` any more.
    #[inline]
    pub fn settle(&mut self, number: Number) {
        if number > self.floor {
            self.settled.set(number, self.floor);
        } else if number == self.floor {
            self.settle_to(number.next());
        }
    }

    /// All before `to` are settled.
    #[inline]
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
        remember(&mut self.abandoned, gap);
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

    /// Whether nothing is missing and a REPORT has said so of all numbers.
    pub fn has_told_all(&self) -> bool {
        !self.has_news && self.gaps.is_empty() && self.told == self.next
    }

    /// When all is reported again, where news are so in each `interval`. Without news the REPORT may have been lost that lists
    /// what is missing. R-TUN-7
    pub fn all_due(&self, interval: Span) -> Time {
        let wait = match (self.has_news, self.gaps.is_empty()) {
            (true, _) => interval,
            (false, false) => interval * REPEATED.pow(self.repeats.min(REPEATS_MAX) + 1),
            (false, true) => return Time::NEVER,
        };
        self.all_reported_at + wait
    }

    /// When something is due here: a REPORT, or to give up the oldest gap.
    #[inline]
    pub fn due(&self, config: &ReceiverConfig, patience: Span) -> Time {
        let report_at = self.report_due(config);
        self.gaps.front().map_or(report_at, |gap| report_at.min(gap.since + patience))
    }

    /// When the next REPORT is due.
    #[inline]
    fn report_due(&self, config: &ReceiverConfig) -> Time {
        self.all_due(config.report_interval).min(self.urgent_due(config))
    }

    /// Sends the REPORTs about all numbers, or only about those behind the latest REPORT. R-TUN-8
    pub fn report(
        &mut self,
        lane: Lane,
        now: Time,
        all: bool,
        config: &ReceiverConfig,
        mut send: impl FnMut(Report),
    ) {
        let mut from = if all { None } else { Some(self.told) };
        let mut missing = ArrayVec::<_, MAX_RANGES>::new();
        let mut sent = 0;
        // What was reported once stays so, however much more is tolerated now.
        let mut end = self.lost_end(config, now).max(self.told);
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
            self.repeats = if self.has_news { 0 } else { self.repeats + 1 };
            (self.has_news, self.all_reported_at) = (false, now);
            self.verdict.decay(now);
        }
    }
}

/// The longest that a missing number is waited for.
pub(super) fn wait_max(config: &ReceiverConfig) -> Span {
    config.report_interval * WAIT_MAX
}

/// Adds a gap to a list of the newest ones.
fn remember(list: &mut Gaps, gap: Gap) {
    while list.len() >= MAX_REMEMBERED {
        list.pop();
    }
    list.insert(gap);
}
