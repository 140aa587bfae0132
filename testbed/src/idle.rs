//! How a polling loop waits when there is nothing to do.

use std::hint;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use common::time::{Span, Time};
use nix::sys::prctl;

/// How a polling loop idles.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum IdlePolicy {
    /// Never sleeps: a core of its own.
    Busy,
    /// Sleeps some tens of microseconds at a time, so that several programs
    /// share a core.
    Adaptive,
}

/// Nearer than this it is not worth to sleep: falling asleep and waking up
/// takes as long.
const SPIN: Span = Span::from_micros(5);
/// A sleep is not shorter, so that a busy loop wakes up 40,000 times a second
/// at most …
const SHORTEST: Span = Span::from_micros(25);
/// … nor longer, since a port that is polled announces nothing.
const LONGEST: Span = Span::from_micros(50);

/// The idle policy at work.
pub struct Idle(IdlePolicy);

impl Idle {
    /// Prepares the calling thread for it.
    pub fn new(policy: IdlePolicy) -> Self {
        // The kernel is allowed to round a sleep up by 50 µs unless told
        // otherwise. If it refuses, sleeps are just less exact.
        let _ = prctl::set_timerslack(1);
        Self(policy)
    }

    /// Passes the time until about `until`, the next thing known to do.
    pub fn wait(&self, now: Time, until: Time) {
        let left = until.since(now);
        if self.0 == IdlePolicy::Busy || left < SPIN {
            return hint::spin_loop();
        }
        thread::sleep(Duration::from_nanos(left.clamp(SHORTEST, LONGEST).as_nanos()));
    }
}
