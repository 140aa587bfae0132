//! Histograms of times, as both threads see them.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::histogram::{BOUNDS, Histogram, Timing, Timings};

/// Those of the flows of a worker, or of its tunnels.
#[derive(Debug, Default)]
pub struct PublishedTimings([Published; Timing::ALL.len()]);

#[derive(Debug, Default)]
struct Published {
    counts: [AtomicU64; BOUNDS + 1],
    sum: AtomicU64,
}

impl PublishedTimings {
    /// Replaces the copy.
    pub fn store(&self, timings: &Timings) {
        for (what, ..) in Timing::ALL {
            let (to, from) = (&self.0[what as usize], timings.get(what));
            to.counts.iter().zip(from.counts()).for_each(|(to, from)| to.store(*from, Relaxed));
            to.sum.store(from.sum_nanos(), Relaxed);
        }
    }

    /// One of them.
    pub fn get(&self, what: Timing) -> Histogram {
        let Published { counts, sum } = &self.0[what as usize];
        Histogram::of(array::from_fn(|n| counts[n].load(Relaxed)), sum.load(Relaxed))
    }
}
