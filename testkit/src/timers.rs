//! The clock and the timers of a flow under test.

use common::time::{Span, Time};

/// Most timers that [`Timers::run_timers`] runs.
const MOST: u32 = 10_000;

/// A flow with a clock.
pub trait Timers {
    /// The present, which only a test moves.
    fn now(&mut self) -> &mut Time;

    /// When the next timer is due.
    fn deadline(&mut self) -> Time;

    /// Runs the timers that are due.
    fn timer(&mut self);

    /// Time passes; no timer runs.
    fn wait(&mut self, span: Span) {
        *self.now() += span;
    }

    /// Runs the next timer at its time, or now if it is overdue.
    fn next_timer(&mut self) {
        let due = self.deadline();
        *self.now() = due.max(*self.now());
        self.timer();
    }

    /// Runs all timers until `until`, which is then the present.
    ///
    /// # Panics
    /// If they don't end.
    fn run_timers(&mut self, until: Time) {
        let mut fired = 0;
        while self.deadline() <= until {
            let due = self.deadline();
            self.next_timer();
            fired += 1;
            assert!(fired < MOST && self.deadline() > due, "a timer that does nothing");
        }
        *self.now() = until;
    }

    /// Runs the timers that are due now.
    ///
    /// # Panics
    /// If one stays due after `most` calls.
    fn settle(&mut self, most: u32) {
        for _ in 0..most {
            if self.deadline() > *self.now() {
                return;
            }
            self.timer();
        }
        panic!("a timer stays due: {:?} at {:?}", self.deadline(), self.now());
    }

    /// Runs timers until none is left.
    ///
    /// # Panics
    /// If one is left after `most` of them.
    fn fall_silent(&mut self, most: u32) {
        for _ in 0..most {
            if self.deadline() == Time::NEVER {
                return;
            }
            self.next_timer();
        }
        panic!("no end of timers");
    }
}
