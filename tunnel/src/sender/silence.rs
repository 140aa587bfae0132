//! A lane that is silent while others are not.
//!
//! A REPORT is overdue a round trip after the one before it. Where there are other lanes, that is late: frames that were sent
//! long before have to be reported at any time, and if others are heard meanwhile, it is not the peer that stands still.

use common::time::{Span, Time};

use super::outgoing::report_interval;
use crate::number::Number;

/// Transmissions of which it is remembered when they were sent.
const MARKS: usize = 16;
/// Silence of so many intervals between REPORTs,
const INTERVALS: u64 = 8;
/// and of this part of a round trip, is more than some lost REPORTs.
const PART: u64 = 4;

/// What a lane heard, and when it sent what it has not heard of.
#[derive(Clone, Debug)]
pub(super) struct Silence {
    /// In ascending order, from `first` on: transmissions of which nothing is reported, a sixteenth of a round trip apart.
    marks: [(Number, Time); MARKS],
    first: usize,
    count: usize,
    /// From when on the next transmission is remembered.
    mark_at: Time,
    /// When a REPORT settled something, or the first frame was sent that waits for one.
    news_at: Time,
    heard_at: Time,
    look_at: Time,
}

impl Default for Silence {
    fn default() -> Self {
        Self {
            marks: [(Number::default(), Time::ZERO); MARKS],
            first: 0,
            count: 0,
            mark_at: Time::ZERO,
            news_at: Time::ZERO,
            heard_at: Time::ZERO,
            look_at: Time::NEVER,
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
        self.marks[(self.first + self.count) % MARKS] = (number, now);
        self.count += 1;
        // Without room for more it is the oldest ones that count.
        self.mark_at = if self.count < MARKS { now + rtt / MARKS as u64 } else { Time::NEVER };
    }

    /// A REPORT came.
    pub fn heard(&mut self, now: Time) {
        self.heard_at = now;
    }

    /// Nothing before `base` waits for a REPORT.
    pub fn settled(&mut self, base: Number) {
        while self.count > 0 && self.marks[self.first].0 < base {
            let was_full = self.count == MARKS;
            (self.first, self.count) = ((self.first + 1) % MARKS, self.count - 1);
            if was_full || self.count == 0 {
                self.mark_at = Time::ZERO;
            }
        }
    }

    /// A REPORT settled something, or the first frame is sent that waits for one.
    pub fn news(&mut self, now: Time, rtt: Span) {
        (self.news_at, self.look_at) = (now, now + quiet(rtt));
    }

    /// It is to be seen no sooner than `later`.
    pub fn look_again(&mut self, later: Time) {
        self.look_at = self.look_at.max(later);
    }

    /// Whether the lane is silent, and another was heard meanwhile, at `others`: transmissions that are older than `wait` are not
    /// reported. If not, it will be seen again later; without another lane, after the next news.
    pub fn is_over(&mut self, now: Time, wait: Span, rtt: Span, others: Option<Time>) -> bool {
        if now < self.look_at {
            return false;
        }
        let Some(others) = others else {
            self.look_at = Time::NEVER;
            return false;
        };
        let oldest = if self.count > 0 { self.marks[self.first].1 + wait } else { Time::NEVER };
        self.look_at = if now < oldest { oldest } else { now + report_interval(rtt) };
        now >= oldest && others > self.news_at + quiet(rtt) / 2
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

    /// A frame in each ms, the newest at 100 ms; each is reported 32 ms later.
    fn steady() -> Silence {
        let mut silence = Silence::default();
        for ms in 0..=100 {
            silence.sent(at(ms), number(ms), RTT);
            if let Some(arrived) = ms.checked_sub(32) {
                silence.heard(at(ms));
                silence.settled(number(arrived + 1));
                silence.news(at(ms), RTT);
            }
        }
        silence
    }

    #[test]
    fn a_lane_is_silent_after_some_intervals() {
        let mut silence = steady();
        assert_eq!(silence.look_at(), at(108));
        assert!(!silence.is_over(at(107), WAIT, RTT, Some(at(107))), "it is too early");
        assert!(
            !silence.is_over(at(108), WAIT, RTT, Some(at(104))),
            "nobody else was heard either"
        );
        assert_eq!(silence.look_at(), at(109));
        assert!(silence.is_over(at(109), WAIT, RTT, Some(at(105))));
    }

    #[test]
    fn what_was_just_sent_need_not_be_reported() {
        let mut silence = steady();
        silence.settled(number(101));
        silence.sent(at(105), number(101), RTT);
        assert!(!silence.is_over(at(110), WAIT, RTT, Some(at(110))));
        assert_eq!(silence.look_at(), at(105) + WAIT);
        assert!(silence.is_over(at(144), WAIT, RTT, Some(at(144))));
        let mut idle = Silence::default();
        assert_eq!(idle.look_at(), Time::NEVER);
        assert!(!idle.is_over(at(1), WAIT, RTT, Some(at(1))));
        let mut alone = steady();
        assert!(!alone.is_over(at(120), WAIT, RTT, None));
        assert_eq!(alone.look_at(), Time::NEVER);
    }

    #[test]
    fn of_many_that_wait_the_oldest_are_remembered() {
        let mut silence = Silence::default();
        (0..200).for_each(|ms| silence.sent(at(ms), number(ms), RTT));
        assert_eq!(silence.marks[silence.first], (number(0), at(0)));
        silence.settled(number(1));
        assert_eq!(silence.marks[silence.first], (number(2), at(2)));
        silence.sent(at(200), number(200), RTT);
        assert_eq!(silence.marks[silence.first], (number(2), at(2)));
        assert_eq!((silence.count, silence.marks[0]), (MARKS, (number(200), at(200))));
        silence.settled(number(190));
        assert_eq!((silence.marks[silence.first], silence.count), ((number(200), at(200)), 1));
        // With room for more, too, they are a sixteenth of a round trip apart.
        silence.sent(at(202), number(202), RTT);
        silence.settled(number(201));
        silence.sent(at(203), number(203), RTT);
        assert_eq!(silence.count, 1);
        silence.sent(at(204), number(204), RTT);
        assert_eq!(silence.count, 2);
    }
}
