//! Messages and bytes over the steady part of a run.

use common::time::{Span, Time};
use serde::Serialize;

/// Counts messages, all of them and those of the steady interval: from
/// `warm_up` after the beginning, for `length`.
pub(super) struct Meter {
    warm_up: Span,
    length: Span,
    begun: Option<Time>,
    all: Amount,
    steady: Amount,
}

/// Messages and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub(super) struct Amount {
    pub messages: u64,
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u32) {
        self.messages += 1;
        self.bytes += u64::from(bytes);
    }
}

/// Results of the steady interval.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub(super) struct Steady {
    /// Length of the interval; shorter than asked for if the run was cut.
    pub seconds: f64,
    #[serde(flatten)]
    pub amount: Amount,
    /// Bits of message content per second.
    pub goodput_bps: f64,
}

impl Meter {
    pub fn new(warm_up: Span, length: Span) -> Self {
        Self { warm_up, length, begun: None, all: Amount::default(), steady: Amount::default() }
    }

    /// The run begins, unless it has begun before.
    pub fn begin(&mut self, now: Time) {
        self.begun.get_or_insert(now);
    }

    /// Start and end of the steady interval.
    fn interval(&self) -> Option<(Time, Time)> {
        let start = self.begun? + self.warm_up;
        Some((start, start + self.length))
    }

    /// A message of `bytes` bytes is done. Returns whether that falls into the
    /// steady interval.
    pub fn add(&mut self, bytes: u32, at: Time) -> bool {
        self.all.add(bytes);
        let steady = self.is_steady(at);
        if steady {
            self.steady.add(bytes);
        }
        steady
    }

    /// Whether `at` falls into the steady interval.
    pub fn is_steady(&self, at: Time) -> bool {
        self.interval().is_some_and(|(start, end)| start <= at && at < end)
    }

    /// Whether the steady interval is over.
    pub fn is_over(&self, now: Time) -> bool {
        self.interval().is_some_and(|(_, end)| end <= now)
    }

    /// Everything, from the first to the last message.
    pub fn all(&self) -> Amount {
        self.all
    }

    /// The steady interval, as far as it had come when messages ceased to be
    /// sent at `ceased`.
    pub fn steady(&self, ceased: Time) -> Steady {
        let Some((start, end)) = self.interval() else { return Steady::default() };
        let seconds = end.min(ceased).since(start).as_secs_f64();
        let goodput_bps =
            if seconds > 0.0 { self.steady.bytes as f64 * 8.0 / seconds } else { 0.0 };
        Steady { seconds, amount: self.steady, goodput_bps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    #[test]
    fn only_the_steady_interval_counts() {
        let mut meter = Meter::new(Span::from_millis(100), Span::from_millis(1_000));
        assert!(!meter.add(1, ms(0)), "not begun");
        meter.begin(ms(50));
        meter.begin(ms(900)); // no second beginning
        for at in [60, 149, 150, 700, 1_149, 1_150, 2_000] {
            meter.add(1_000, ms(at));
        }
        assert_eq!(meter.all(), Amount { messages: 8, bytes: 7_001 });
        let steady = meter.steady(ms(5_000));
        assert_eq!(steady.amount, Amount { messages: 3, bytes: 3_000 });
        assert_eq!((steady.seconds, steady.goodput_bps), (1.0, 24_000.0));
        assert!(!meter.is_over(ms(1_149)) && meter.is_over(ms(1_150)));
    }

    #[test]
    fn a_run_cut_short_has_a_shorter_interval() {
        let mut meter = Meter::new(Span::ZERO, Span::from_millis(1_000));
        assert_eq!(meter.steady(ms(9)), Steady::default());
        meter.begin(ms(0));
        meter.add(500, ms(100));
        let steady = meter.steady(ms(250));
        assert_eq!((steady.seconds, steady.goodput_bps), (0.25, 16_000.0));
    }
}
