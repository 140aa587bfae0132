//! What a flow did in equal intervals of the capture, in memory that doesn't grow with it.

use common::time::{Span, Time};
use serde::Serialize;

/// Most intervals.
const BINS: usize = 160;
/// The shortest interval.
const SHORTEST: u64 = 10_000;

/// What happened in one interval.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Bin {
    /// Payload that passed for the first time, in bytes.
    pub new_bytes: u64,
    /// Payload of resent packets, in bytes.
    pub resent_bytes: u64,
    /// Packets that were missing when a later one passed.
    pub missing: u32,
    /// NAKs for a PSN sequence error, and RNR NAKs.
    pub naks: u32,
    /// Timeouts.
    pub timeouts: u32,
}

impl Bin {
    fn add(&mut self, other: &Self) {
        self.new_bytes += other.new_bytes;
        self.resent_bytes += other.resent_bytes;
        self.missing += other.missing;
        self.naks += other.naks;
        self.timeouts += other.timeouts;
    }
}

/// Intervals from the beginning of the capture on. They double when there are too many.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Timeline {
    /// The length of an interval, in ns.
    pub bin_ns: u64,
    /// The intervals.
    pub bins: Vec<Bin>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { bin_ns: SHORTEST, bins: Vec::new() }
    }
}

impl Timeline {
    /// The interval of a time since the beginning.
    pub fn at(&mut self, since: Span) -> &mut Bin {
        while since.as_nanos() / self.bin_ns >= BINS as u64 {
            self.double();
        }
        let at = (since.as_nanos() / self.bin_ns) as usize;
        if self.bins.len() <= at {
            self.bins.resize(at + 1, Bin::default());
        }
        &mut self.bins[at]
    }

    /// Has intervals at least as long as those of a timeline that ends with `last`.
    pub fn stretch(&mut self, first: Time, last: Time) {
        while last.since(first).as_nanos() / self.bin_ns >= BINS as u64 {
            self.double();
        }
    }

    fn double(&mut self) {
        let pairs = self.bins.chunks(2).map(|pair| {
            let mut sum = pair[0];
            pair.iter().skip(1).for_each(|second| sum.add(second));
            sum
        });
        self.bins = pairs.collect();
        self.bin_ns *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_intervals_double() {
        let mut timeline = Timeline::default();
        for n in 0..1000 {
            timeline.at(Span::from_micros(n * n)).new_bytes += n;
        }
        assert!(timeline.bins.len() <= BINS && timeline.bin_ns > SHORTEST);
        assert_eq!(timeline.bins.iter().map(|bin| bin.new_bytes).sum::<u64>(), 999 * 500);
    }
}
