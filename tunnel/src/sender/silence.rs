//! A lane that is silent while others are not.
//!
//! A REPORT is overdue a round trip after the one before it. Where there are other lanes, that is late: frames that were sent
//! long before have to be reported at any time, and if others are heard meanwhile, it is not the peer that stands still.

use common::time::{Span, Time};

use super::waits::{LATER, report_interval};
use crate::number::Number;

/// Transmissions of which it is remembered when they were sent.
const MARKS: usize = 32;
/// So many are remembered in a round trip.
const MARKS_PER_RTT: u64 = 16;
/// Silence of so many intervals between REPORTs,
const INTERVALS: u64 = 8;
/// and of this part of a round trip, is more than some lost REPORTs.
const PART: u64 = 4;
/// While nobody is heard no more passes than this part of it, by the [`Pulse`].
const BEATS: u64 = 4;
/// Time in which half of the longest silence is forgotten.
const FORGET: Span = Span::from_millis(4_000);

/// Time as the REPORTs of all lanes show it: it passes while any of them come, and hardly while none does. So it stands still while
/// the peer, all paths or this box do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pulse {
    passed: Span,
    newest: Time,
}

impl Pulse {
    /// A REPORT came on a good lane, with this round trip.
    pub fn beat(&mut self, now: Time, rtt: Span) {
        self.passed = self.passed + now.since(self.newest).min(quiet(rtt) / BEATS);
        self.newest = now;
    }

    /// How much of it has passed.
    pub const fn passed(&self) -> Span {
        self.passed
    }
}

/// What a lane heard, and when it sent what it has not heard of.
#[derive(Clone, Debug)]
pub(super) struct Silence {
    /// In ascending order, from `first` on: transmissions of which nothing is reported, a sixteenth of a round trip apart.
    marks: [(Number, Time); MARKS],
    first: usize,
    count: usize,
    /// From when on the next transmission is remembered.
    mark_at: Time,
    /// Time between two that are remembered, where it is more than a sixteenth of a round trip.
    apart: Span,
    /// When the newest one was sent that was [forgotten](Self::forget).
    forgotten: Time,
    /// When a REPORT was news, or the first frame was sent that waits for one.
    news_at: Time,
    heard_at: Time,
    look_at: Time,
    /// The [pulse](Pulse) since which it is silent, once that is known.
    since: Option<Span>,
    /// The newest round trip, and when it was over.
    newest: (Span, Time),
    /// The longest silence that ended, of which half is forgotten in some seconds, and since when.
    longest: (Span, Time),
}

/// What there is of other good lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others {
    /// When one of them was heard the last time.
    pub heard_at: Time,
    /// All of them wait for a REPORT.
    pub are_waiting: bool,
}

impl Others {
    /// What there is of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            heard_at: self.heard_at.max(other.heard_at),
            are_waiting: self.are_waiting && other.are_waiting,
        }
    }
}

impl Default for Silence {
    fn default() -> Self {
        Self {
            marks: [(Number::default(), Time::ZERO); MARKS],
            first: 0,
            count: 0,
            mark_at: Time::ZERO,
            apart: Span::ZERO,
            forgotten: Time::ZERO,
            news_at: Time::ZERO,
            heard_at: Time::ZERO,
            look_at: Time::NEVER,
            since: None,
            newest: (Span::ZERO, Time::ZERO),
            longest: (Span::ZERO, Time::ZERO),
        }
    }
}

impl Silence {
    /// When it is to be seen whether the lane [is silent](Self::is_over).
    #[inline]
    pub const fn look_at(&self) -> Time {
        self.look_at
    }

    /// When the newest REPORT came.
    pub const fn heard_at(&self) -> Time {
        self.heard_at
    }

    /// Transmissions from `number` on are sent.
    #[inline]
    pub fn sent(&mut self, now: Time, number: Number, rtt: Span) {
        if now >= self.mark_at {
            self.mark(now, number, rtt);
        }
    }

    #[inline(never)]
    fn mark(&mut self, now: Time, number: Number, rtt: Span) {
        self.apart = self.apart.max(rtt / MARKS_PER_RTT);
        if self.count == MARKS {
            // Without room for more, every second one stays.
            let at = |n: usize| (self.first + n) % MARKS;
            (1..MARKS / 2).for_each(|n| self.marks[at(n)] = self.marks[at(2 * n)]);
            (self.count, self.apart) = (MARKS / 2, self.apart * 2);
        }
        self.marks[(self.first + self.count) % MARKS] = (number, now);
        (self.count, self.mark_at) = (self.count + 1, now + self.apart);
    }

    /// When the first transmission was sent that is remembered and behind `number`.
    pub fn sent_before(&self, number: Number) -> Option<Time> {
        let marks = (0..self.count).map(|n| self.marks[(self.first + n) % MARKS]);
        marks.skip_while(|(at, _)| *at < number).map(|(_, sent_at)| sent_at).next()
    }

    /// A REPORT came.
    pub fn heard(&mut self, now: Time) {
        self.heard_at = now;
    }

    /// Nothing before `base` waits for a REPORT, as one said that came now.
    pub fn settled(&mut self, now: Time, base: Number) {
        if let Some(sent_at) = self.forget(base) {
            self.round_trip(now, now.since(sent_at));
        }
    }

    /// Nothing before `base` waits for a REPORT. When the last one of these that is remembered was sent.
    pub fn forget(&mut self, base: Number) -> Option<Time> {
        let mut last = None;
        while self.count > 0 && self.marks[self.first].0 < base {
            last = Some(self.marks[self.first].1);
            (self.first, self.count) = ((self.first + 1) % MARKS, self.count - 1);
            if self.count == 0 {
                (self.mark_at, self.apart) = (Time::ZERO, Span::ZERO);
            }
        }
        self.forgotten = last.unwrap_or(self.forgotten);
        last
    }

    /// Whether the oldest transmission of which nothing is reported was sent longer ago than `wait`. If the times of all of them are
    /// forgotten, the newest forgotten time counts.
    pub fn is_late(&self, now: Time, wait: Span) -> bool {
        let sent_at = if self.count > 0 { self.marks[self.first].1 } else { self.forgotten };
        now >= sent_at + wait
    }

    /// A round trip took so long.
    pub fn round_trip(&mut self, now: Time, rtt: Span) {
        self.newest = (rtt, now);
    }

    /// The first frame is sent that waits for a REPORT.
    pub fn begin(&mut self, now: Time, rtt: Span) {
        (self.news_at, self.look_at, self.since) = (now, now + quiet(rtt), None);
    }

    /// A REPORT was news, at this pulse.
    pub fn news(&mut self, now: Time, pulse: Span, wait: Span, rtt: Span) {
        self.learn(now, pulse, wait, rtt);
        self.begin(now, rtt);
        self.since = Some(pulse);
    }

    /// A silence has ended.
    fn learn(&mut self, now: Time, pulse: Span, wait: Span, rtt: Span) {
        let Some(since) = self.since else { return };
        let silent = if now < self.expected(wait, rtt) { Span::ZERO } else { pulse - since };
        let (mut longest, mut at) = self.longest;
        while longest > Span::ZERO && now >= at + FORGET {
            (longest, at) = (longest / 2, at + FORGET);
        }
        self.longest = if silent > longest { (silent, now) } else { (longest, at) };
    }

    /// The box stood still when it was `due` to be seen: it is seen again no sooner than `later`. If no transmission had to be
    /// reported by then, the time before is no silence.
    pub fn stood_still(&mut self, due: Time, later: Time, wait: Span, rtt: Span) {
        if due < self.expected(wait, rtt) {
            self.since = None;
        }
        self.look_at = self.look_at.max(later);
    }

    /// When the oldest transmission that is remembered should be reported: some intervals behind the newest round trip, or after `wait`
    /// if that was over long before it was sent.
    fn expected(&self, wait: Span, rtt: Span) -> Time {
        if self.count == 0 {
            return Time::NEVER;
        }
        let sent_at = self.marks[self.first].1;
        let (newest, at) = self.newest;
        let later = (newest + report_interval(rtt) * LATER).min(wait);
        sent_at + if sent_at < at + newest { later } else { wait }
    }

    /// Whether all good lanes wait for a REPORT, and none was heard for longer than this one: the peer may stand still, or has just
    /// begun again, and no other lane is better. Where it is not seen how long this one is silent, what others heard decides.
    pub fn is_everywhere(&self, pulse: Span, rtt: Span, others: Option<Others>) -> bool {
        let least = quiet(rtt) * 3 / 4;
        let has_just_begun =
            self.look_at < Time::NEVER && self.since.is_none_or(|since| pulse - since < least);
        others.is_some_and(|it| {
            it.are_waiting && (has_just_begun || !self.is_behind(it.heard_at, rtt))
        })
    }

    /// Whether another lane was heard, at `others`, later than two that fall silent at one time differ.
    fn is_behind(&self, others: Time, rtt: Span) -> bool {
        others > self.news_at + quiet(rtt) / 2
    }

    /// Whether the lane is silent, while time passes by the [pulse](Pulse) and another was heard meanwhile, at `others`:
    /// transmissions should have been reported. If not, it will be seen again later; without another lane, after the next news.
    pub fn is_over(
        &mut self,
        now: Time,
        pulse: Span,
        wait: Span,
        rtt: Span,
        others: Option<Time>,
    ) -> bool {
        if now < self.look_at {
            return false;
        }
        let Some(others) = others else {
            self.look_at = Time::NEVER;
            return false;
        };
        let expected = self.expected(wait, rtt);
        if now < expected {
            (self.look_at, self.since) = (expected, None);
            return false;
        }
        self.look_at = now + report_interval(rtt);
        let silent = pulse - *self.since.get_or_insert(pulse);
        let most = (self.longest.0 * 5 / 4).min(rtt).max(quiet(rtt));
        silent >= most && self.is_behind(others, rtt)
    }
}

/// Longer than some REPORTs in a row are lost.
fn quiet(rtt: Span) -> Span {
    (report_interval(rtt) * INTERVALS).max(rtt / PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);
    const RTT: Span = Span::from_millis(32);
    const WAIT: Span = Span::from_millis(39);

    fn at(ms: u64) -> Time {
        Time::from_nanos(1_000_000_000) + MS * ms
    }

    fn number(n: u64) -> Number {
        Number::default() + n
    }

    /// The pulse at this time, if others are heard all the time.
    fn pulse(ms: u64) -> Span {
        MS * ms
    }

    /// A frame in each ms, the newest at 100 ms; each is reported 32 ms later.
    fn steady() -> Silence {
        let mut silence = Silence::default();
        for ms in 0..=100 {
            silence.sent(at(ms), number(ms), RTT);
            if let Some(arrived) = ms.checked_sub(32) {
                report(&mut silence, ms, arrived);
            }
        }
        silence
    }

    /// A REPORT comes at `ms` of the frame that was sent at `arrived`.
    fn report(silence: &mut Silence, ms: u64, arrived: u64) {
        silence.heard(at(ms));
        silence.news(at(ms), pulse(ms), WAIT, RTT);
        silence.settled(at(ms), number(arrived + 1));
    }

    /// Whether it is over at this time, while others are heard at `others`.
    fn is_over(silence: &mut Silence, ms: u64, others: u64) -> bool {
        silence.is_over(at(ms), pulse(ms), WAIT, RTT, Some(at(others)))
    }

    #[test]
    fn a_lane_is_silent_after_some_intervals() {
        let mut silence = steady();
        assert_eq!(silence.look_at(), at(108));
        assert!(!is_over(&mut silence, 107, 107), "it is too early");
        assert!(!is_over(&mut silence, 108, 104), "nobody else was heard either");
        assert_eq!(silence.look_at(), at(109));
        assert!(is_over(&mut silence, 109, 105));
    }

    /// What round trips were, and how they differed, says nothing about the next one: the newest does.
    #[test]
    fn a_noisy_path_is_silent_as_soon() {
        let mut silence = steady();
        let noisy = WAIT * 2;
        assert!(silence.is_over(at(108), pulse(108), noisy, RTT, Some(at(108))));
    }

    #[test]
    fn what_was_just_sent_need_not_be_reported() {
        let mut silence = steady();
        silence.settled(at(131), number(101));
        silence.begin(at(140), RTT);
        silence.sent(at(140), number(101), RTT);
        assert!(!is_over(&mut silence, 148, 148));
        // A round trip and three intervals later; the newest took from 100 ms on.
        assert_eq!(silence.look_at(), at(174));
        assert!(!is_over(&mut silence, 174, 174), "it is silent from now on");
        assert!(!is_over(&mut silence, 181, 181));
        assert!(is_over(&mut silence, 182, 182));
        // The newest round trip is too old to go by.
        silence.forget(number(102));
        silence.begin(at(190), RTT);
        silence.sent(at(190), number(102), RTT);
        assert!(!is_over(&mut silence, 198, 198));
        assert_eq!(silence.look_at(), at(190) + WAIT);
        let mut idle = Silence::default();
        assert_eq!(idle.look_at(), Time::NEVER);
        assert!(!is_over(&mut idle, 1, 1));
        let mut alone = steady();
        assert!(!alone.is_over(at(120), pulse(120), WAIT, RTT, None));
        assert_eq!(alone.look_at(), Time::NEVER);
    }

    /// Nothing came for 20 ms, and then from another lane first: its path, the peer or this box stood still.
    #[test]
    fn time_in_which_nobody_is_heard_is_no_silence() {
        let mut pulse = Pulse::default();
        (0..=100).for_each(|ms| pulse.beat(at(ms), RTT));
        let mut silence = steady();
        silence.news(at(100), pulse.passed(), WAIT, RTT);
        for us in 0..50 {
            pulse.beat(at(120) + Span::from_micros(us), RTT);
        }
        let now = at(120) + Span::from_micros(50);
        assert!(!silence.is_over(now, pulse.passed(), WAIT, RTT, Some(now)));
        (121..127).for_each(|ms| pulse.beat(at(ms), RTT));
        assert!(silence.is_over(at(127), pulse.passed(), WAIT, RTT, Some(at(126))));
    }

    /// What should have been reported while the box stood still is no silence, if nothing should have been before.
    #[test]
    fn time_in_which_the_box_stood_still_is_no_silence() {
        for (due, silent_at) in [(108, 153), (150, 145)] {
            let mut silence = steady();
            silence.settled(at(110), number(101));
            silence.sent(at(110), number(101), RTT);
            // It should be reported three intervals later than a round trip, at 145 ms.
            silence.stood_still(at(due), at(145), WAIT, RTT);
            let found = (145..200).find(|ms| is_over(&mut silence, *ms, *ms));
            assert_eq!(found, Some(silent_at), "{due}");
        }
    }

    /// An overdue REPORT says something of a lane only if others are better.
    #[test]
    fn where_nobody_is_heard_no_lane_is_worse() {
        let silence = steady();
        let others = |ms, are_waiting| Some(Others { heard_at: at(ms), are_waiting });
        let is_everywhere = |now, others| silence.is_everywhere(pulse(now), RTT, others);
        assert!(is_everywhere(140, others(104, true)), "they fell silent together");
        assert!(is_everywhere(105, others(105, true)), "they have just begun again");
        assert!(!is_everywhere(106, others(105, true)), "others are better");
        assert!(!is_everywhere(140, others(104, false)), "another one has nothing to tell");
        assert!(!is_everywhere(140, None), "there is none");
        let of_both = others(104, true).zip(others(106, false)).map(|(a, b)| a.and(b));
        assert!(of_both.is_some_and(|it| it.heard_at == at(106) && !it.are_waiting));
        let mut fresh = Silence::default();
        fresh.begin(at(100), RTT);
        assert!(fresh.is_everywhere(pulse(200), RTT, others(200, true)), "not seen yet");
        assert!(!fresh.is_over(at(200), pulse(200), WAIT, RTT, None));
        assert!(!fresh.is_everywhere(pulse(200), RTT, others(200, true)), "it is not seen at all");
        assert!(fresh.is_everywhere(pulse(200), RTT, others(103, true)));
    }

    /// A path on which others' bursts delay REPORTs is silent no sooner than for a quarter longer than before.
    #[test]
    fn a_lane_that_was_silent_for_longer_is_waited_for() {
        let mut silence = steady();
        report(&mut silence, 116, 70);
        (101..=120).for_each(|ms| silence.sent(at(ms), number(ms), RTT));
        assert!(!is_over(&mut silence, 135, 135));
        assert!(is_over(&mut silence, 136, 136));
        // That was a false alarm of 26 ms. A round trip is silence, whatever was before.
        report(&mut silence, 142, 76);
        assert!(!is_over(&mut silence, 173, 173));
        assert!(is_over(&mut silence, 174, 174));
        // Half of it is forgotten in four seconds.
        silence.news(at(4_200), pulse(142), WAIT, RTT);
        assert_eq!(silence.longest.0, MS * 13);
    }

    /// Where all that wait can't be remembered, the times of some are: as far apart everywhere.
    #[test]
    fn of_many_that_wait_some_are_remembered() {
        let mut silence = Silence::default();
        (0..200).for_each(|ms| silence.sent(at(ms), number(ms), RTT));
        assert_eq!(silence.marks[silence.first], (number(0), at(0)));
        // 8 ms apart: 4 ms were 50 marks.
        let sent_before: Vec<_> =
            [0, 1, 8, 97, 192, 193].map(|n| silence.sent_before(number(n))).into();
        let expected = [Some(0), Some(8), Some(8), Some(104), Some(192), None];
        assert_eq!(sent_before, expected.map(|ms| ms.map(at)));
        silence.settled(at(200), number(1));
        assert_eq!(silence.marks[silence.first], (number(8), at(8)));
        silence.settled(at(200), number(193));
        assert_eq!((silence.count, silence.newest), (0, (MS * 8, at(200))));
        // With room for all, they are a sixteenth of a round trip apart.
        (201..204).for_each(|ms| silence.sent(at(ms), number(ms), RTT));
        assert_eq!((silence.count, silence.marks[silence.first]), (2, (number(201), at(201))));
    }
}
