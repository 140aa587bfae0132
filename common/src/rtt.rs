//! A smoothed round-trip time in the manner of RFC 6298.

use crate::time::Span;

/// Mean and mean deviation of a round trip, from samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtt {
    mean: Span,
    /// [`UNMEASURED`](Self::UNMEASURED) before the first sample.
    deviation: Span,
}

impl Rtt {
    const UNMEASURED: Span = Span::from_nanos(u64::MAX);

    /// An estimate that holds until the first sample.
    pub const fn guess(guess: Span) -> Self {
        Self { mean: guess, deviation: Self::UNMEASURED }
    }

    /// Takes a sample: gain 1/8 for the mean, 1/4 for the deviation.
    pub fn sample(&mut self, sample: Span) {
        if !self.is_measured() {
            *self = Self { mean: sample, deviation: sample / 2 };
            return;
        }
        let (mean, s) = (self.mean.as_nanos(), sample.as_nanos());
        let error = mean.abs_diff(s);
        self.deviation = Span::from_nanos((self.deviation.as_nanos() * 3 + error) / 4);
        self.mean = Span::from_nanos((mean * 7 + s) / 8);
    }

    /// The smoothed round trip, or the guess.
    pub const fn mean(&self) -> Span {
        self.mean
    }

    /// The smoothed mean deviation of the samples from the mean; zero before the first one.
    pub const fn deviation(&self) -> Span {
        if self.is_measured() { self.deviation } else { Span::ZERO }
    }

    /// The round trip with a margin that a later sample will rarely exceed:
    /// the larger of an eighth and four mean deviations (at most one more
    /// round trip) on top.
    pub fn with_margin(&self) -> Span {
        let spread = (self.deviation() * 4).min(self.mean);
        self.mean + spread.max(self.mean / 8)
    }

    /// The time after which a round trip without a response counts as lost (RFC 6298): four
    /// mean deviations beyond the mean. A guess counts as the first sample would.
    pub fn timeout(&self) -> Span {
        self.mean + if self.is_measured() { self.deviation * 4 } else { self.mean * 2 }
    }

    /// Whether any sample was taken.
    pub const fn is_measured(&self) -> bool {
        self.deviation.as_nanos() < Self::UNMEASURED.as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converges_and_keeps_a_margin() {
        let mut rtt = Rtt::guess(Span::from_millis(100));
        assert_eq!(rtt.mean(), Span::from_millis(100));
        for _ in 0..100 {
            rtt.sample(Span::from_millis(10));
        }
        assert!(rtt.is_measured());
        assert_eq!(rtt.mean(), Span::from_millis(10));
        assert!(rtt.with_margin() >= Span::from_micros(11_250));
        assert!(rtt.with_margin() <= Span::from_millis(12));
    }

    #[test]
    fn the_margin_covers_the_spread_of_the_samples() {
        let mut rtt = Rtt::guess(Span::ZERO);
        for i in 0..1_000 {
            rtt.sample(Span::from_millis(if i % 2 == 0 { 10 } else { 14 }));
        }
        assert!(rtt.with_margin() >= Span::from_millis(14));
    }
}
