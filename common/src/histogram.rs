//! Histograms of times, with few buckets whose bounds are powers of two.

use crate::time::Span;

/// Bounds of a histogram. Longer times are in one more bucket.
pub const BOUNDS: usize = 20;
/// Binary logarithm of the lowest bound in nanoseconds: 16 us. The highest is 8.6 s.
const LOWEST: u32 = 14;

/// How often times were how long.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Histogram {
    counts: [u64; BOUNDS + 1],
    /// Of all times, in nanoseconds.
    sum: u64,
}

impl Histogram {
    /// Adds a time.
    #[inline]
    pub fn record(&mut self, time: Span) {
        let nanos = time.as_nanos();
        // A bound belongs to the bucket below it.
        let bits = u64::BITS - (nanos.saturating_sub(1) >> LOWEST).leading_zeros();
        self.counts[(bits as usize).min(BOUNDS)] += 1;
        self.sum += nanos;
    }

    /// Adds those of another one.
    pub fn join(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, n)| *sum += n);
        self.sum += other.sum;
    }

    /// The upper bounds of all buckets but the last, in seconds.
    pub fn bounds() -> impl Iterator<Item = f64> {
        (0..BOUNDS as u32).map(|n| (1_u64 << (LOWEST + n)) as f64 / 1e9)
    }

    /// Times in each bucket; the last has those above the highest bound.
    pub const fn counts(&self) -> &[u64; BOUNDS + 1] {
        &self.counts
    }

    /// Sum of all times in nanoseconds.
    pub const fn sum_nanos(&self) -> u64 {
        self.sum
    }

    /// One with these counts, and this sum in nanoseconds.
    pub const fn of(counts: [u64; BOUNDS + 1], sum_nanos: u64) -> Self {
        Self { counts, sum: sum_nanos }
    }
}

/// What is timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Timing {
    /// From when something was seen to be missing until it came.
    Recovery,
    /// From when a frame came behind something missing until it was delivered.
    Hold,
    /// From when something was sent until the peer's answer.
    RoundTrip,
}

impl Timing {
    /// All of them, with their Prometheus names, and HELP.
    pub const ALL: [(Self, &str, &str); 3] = [
        (
            Self::Recovery,
            "lr2_recovery_time_seconds",
            "Time from when a packet, or a frame of the tunnel, was seen to be missing until it came. Those that never came are not in it.",
        ),
        (
            Self::Hold,
            "lr2_hold_time_seconds",
            "Time for which a packet or frame from the WAN was held: behind one that was missing, and to be paced.",
        ),
        (
            Self::RoundTrip,
            "lr2_round_trip_time_seconds",
            "Round trips of the long haul as they were measured: of flows by STATUS messages, of the tunnel by REPORTs.",
        ),
    ];
}

/// A histogram for each [`Timing`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Timings([Histogram; Timing::ALL.len()]);

impl Timings {
    /// Adds a time.
    #[inline]
    pub fn record(&mut self, what: Timing, time: Span) {
        self.0[what as usize].record(time);
    }

    /// Adds those of another one.
    pub fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, it)| sum.join(it));
    }

    /// One of them.
    pub const fn get(&self, what: Timing) -> &Histogram {
        &self.0[what as usize]
    }

    /// One of them, to be changed.
    pub const fn get_mut(&mut self, what: Timing) -> &mut Histogram {
        &mut self.0[what as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The oracle compares with each bound.
        #[test]
        fn a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed(
            nanos in prop_oneof![0..u64::MAX / 4, 0..10_000_000_u64, (10..40_u32).prop_map(|n| 1 << n)],
        ) {
            let mut one = Histogram::default();
            one.record(Span::from_nanos(nanos));
            let bounds: Vec<u64> = (0..BOUNDS).map(|n| 16_384 << n).collect();
            let bucket = bounds.iter().position(|bound| nanos <= *bound).unwrap_or(BOUNDS);
            prop_assert_eq!(one.counts()[bucket], 1);
            prop_assert_eq!(one.counts().iter().sum::<u64>(), 1);
            prop_assert_eq!(one.sum_nanos(), nanos);
            let seconds: Vec<f64> = bounds.iter().map(|bound| *bound as f64 / 1e9).collect();
            prop_assert_eq!(Histogram::bounds().collect::<Vec<_>>(), seconds);
        }
    }

    #[test]
    fn two_are_added() {
        let mut one = Timings::default();
        one.record(Timing::Hold, Span::from_micros(10));
        let mut other = one;
        other.record(Timing::Hold, Span::from_millis(9_000));
        one.join(&other);
        let hold = one.get(Timing::Hold);
        assert_eq!((hold.counts()[0], hold.counts()[BOUNDS]), (2, 1));
        assert_eq!(hold.sum_nanos(), 9_000_020_000);
        assert_eq!(one.get(Timing::Recovery), &Histogram::default());
        assert_eq!(Histogram::of(*hold.counts(), hold.sum_nanos()), *hold);
    }
}
