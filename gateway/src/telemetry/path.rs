//! The paths of the WAN ports, as a worker publishes them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::time::Span;
use tunnel::PathState;

/// The copy of a path's state that both threads see. Written by one worker.
#[derive(Debug, Default)]
pub struct PublishedPath {
    /// From bit 0 on, 16 bits each: longest and shortest frame, checks, and those that were lost.
    counts: AtomicU64,
    /// Round trip in nanoseconds.
    rtt: AtomicU64,
}

impl PublishedPath {
    /// Replaces the copy.
    pub fn store(&self, path: &PathState) {
        let PathState { longest, shortest, rtt, checks, lost } = *path;
        let all = [longest, shortest, checks, lost];
        let counts = all.into_iter().rev().fold(0, |all, n| all << 16 | u64::from(n));
        self.counts.store(counts, Relaxed);
        self.rtt.store(rtt.as_nanos(), Relaxed);
    }

    /// The copy.
    pub fn load(&self) -> PathState {
        let counts = self.counts.load(Relaxed);
        let [longest, shortest, checks, lost] = [0, 16, 32, 48].map(|bit| (counts >> bit) as u16);
        PathState { longest, shortest, checks, lost, rtt: Span::from_nanos(self.rtt.load(Relaxed)) }
    }
}

/// Adds the state of the same path in another tunnel: the shorter frame and the round trip that is known remain.
pub fn join(all: &mut PathState, of: &PathState) {
    let known = [all.rtt, of.rtt].into_iter().filter(|rtt| *rtt > Span::ZERO);
    *all = PathState {
        longest: all.longest.min(of.longest),
        shortest: all.shortest.min(of.shortest),
        rtt: known.min().unwrap_or_default(),
        checks: all.checks.saturating_add(of.checks),
        lost: all.lost.saturating_add(of.lost),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_published_as_it_is_and_the_worse_one_remains() {
        let rtt = Span::from_micros(10_500);
        let path = PathState { longest: 9_014, shortest: 1_514, rtt, checks: 64, lost: 63 };
        let published = PublishedPath::default();
        published.store(&path);
        assert_eq!(published.load(), path);
        let other =
            PathState { longest: 1_600, shortest: 1_600, rtt: Span::ZERO, checks: 10, lost: 1 };
        let mut all = path;
        join(&mut all, &other);
        let worse = PathState { longest: 1_600, shortest: 1_514, rtt, checks: 74, lost: 64 };
        assert_eq!(all, worse);
    }
}
