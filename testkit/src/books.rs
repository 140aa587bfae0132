//! The books of a flow: every frame that enters leaves, or is held.

use common::budget::Budget;
use common::metrics::{Counters, Metric};

/// An amount of memory that never runs out, in frames.
pub const PLENTY: u64 = 1 << 30;

/// The checks that a harness makes with its recorder after each event.
pub trait Ledger {
    /// in + created = out + held, by these budgets. A recorder without books has nothing to check.
    ///
    /// # Panics
    /// If a frame got lost.
    #[inline]
    fn check<const N: usize>(&self, _: [&Budget; N]) {}
}

/// A recorder that keeps books.
pub trait Account: Ledger {
    /// Its books.
    fn books(&self) -> &Books;
    /// Its books, to be written.
    fn books_mut(&mut self) -> &mut Books;
}

/// Counters, and the frames that came and went.
#[derive(Default)]
pub struct Books {
    /// As the flow counts.
    pub counters: Counters,
    /// Frames that the flow was given, and handles that it made.
    pub entered: u64,
    /// Frames that it sent or dropped.
    pub left: u64,
}

impl Books {
    /// The flow counts.
    pub fn count(&mut self, metric: Metric, n: u64) {
        self.counters.add(metric, n);
        if metric == Metric::CreatedHandle {
            self.entered += n;
        }
    }

    /// in + created = out + held.
    ///
    /// # Panics
    /// If a frame got lost.
    pub fn check<const N: usize>(&self, budgets: [&Budget; N]) {
        let held = budgets.iter().map(|budget| budget.frames()).sum::<u64>();
        assert_eq!(self.entered, self.left + held, "a frame got lost");
    }
}

/// # Panics
/// If one of these holds something.
pub fn assert_empty<const N: usize>(budgets: [&Budget; N]) {
    let held = budgets.map(|budget| (budget.frames(), budget.used()));
    assert_eq!(held, [(0, 0); N], "something is held for ever");
}
