//! How a worker waits after a round with nothing to do.

use std::hint;
use std::thread;
use std::time::Duration;

use common::time::{Span, Time};

use crate::config::Idle;

/// Empty rounds before the first sleep.
const SPINS: u32 = 50;

/// Longest sleep at first: the delay that a frame may meet. A few
/// per cent of the shortest round trip that is called long-haul.
const DOZE: Span = Span::from_micros(50);

/// Longest sleep of a lone worker that has had nothing to do for [`QUIET`] rounds: the delay
/// of the first frame after such a silence. A sleep of any length costs the processor some
/// 5 µs, or 25 in a virtual machine. A receive ring of 1,024 takes
/// a millisecond of frames at a million a second, and loses the rest: who gets
/// bursts at line rate out of the blue wants [`Idle::Busy`].
const LONGEST: Span = Span::from_micros(1_000);

/// Empty rounds before sleeps become longer than a doze: some 50 ms. No flow that
/// is busy across a link of 10 ms is as silent.
const QUIET: u32 = 1_000;

/// Going to sleep and waking up takes about this long, so that a shorter
/// sleep is no sleep.
const SHORTEST: Span = Span::from_micros(3);

/// The next step until the next round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rest {
    /// Nothing: go on.
    None,
    /// Let the other hardware thread of the core run for a moment.
    Pause,
    /// Let other threads run.
    Sleep(Span),
}

/// Counts empty rounds.
#[derive(Debug)]
pub struct Idler {
    policy: Idle,
    longest: Span,
    empty: u32,
}

impl Idler {
    /// An idler with this policy, of one of several `workers`. Where there are others,
    /// one may be busy while this one is not, and its ring to this one is short.
    pub fn new(policy: Idle, workers: u16) -> Self {
        let longest = if workers > 1 { DOZE } else { LONGEST };
        Self { policy, longest, empty: 0 }
    }

    /// Ends a round that did some work or none. Returns in time for
    /// `deadline`.
    #[inline]
    pub fn end_round(&mut self, worked: bool, now: Time, deadline: Time) {
        match self.rest(worked, now, deadline) {
            Rest::None => {}
            Rest::Pause => hint::spin_loop(),
            Rest::Sleep(span) => thread::sleep(Duration::from_nanos(span.as_nanos())),
        }
    }

    fn rest(&mut self, worked: bool, now: Time, deadline: Time) -> Rest {
        if worked {
            self.empty = 0;
            return Rest::None;
        }
        if self.policy == Idle::Busy {
            return Rest::Pause;
        }
        self.empty = self.empty.saturating_add(1);
        // One microsecond more per empty round, so that a worker that has
        // just been busy wakes soonest.
        let ramp = Span::from_micros(self.empty.saturating_sub(SPINS).into());
        let longest = if self.empty < QUIET { DOZE } else { self.longest };
        let sleep = ramp.min(longest).min(deadline.since(now));
        if sleep < SHORTEST { Rest::Pause } else { Rest::Sleep(sleep) }
    }
}

/// Lets sleeps of this thread end when they should, and not up to 50 µs late
/// for the sake of fewer wake-ups.
pub fn sharpen_timers() {
    if let Err(e) = nix::sys::prctl::set_timerslack(1) {
        tracing::debug!("timer slack stays as it is: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_never_sleeps() {
        let mut idler = Idler::new(Idle::Busy, 1);
        for _ in 0..10_000 {
            assert_eq!(idler.rest(false, Time::ZERO, Time::NEVER), Rest::Pause);
        }
    }

    #[test]
    fn adaptive_pauses_then_sleeps_ever_longer_until_there_is_work() {
        let mut idler = Idler::new(Idle::Adaptive, 1);
        let mut last = Span::ZERO;
        for round in 0..10_000 {
            match idler.rest(false, Time::ZERO, Time::NEVER) {
                Rest::Sleep(span) => {
                    assert!(round >= SPINS && span >= last);
                    assert!(span <= if round < QUIET - 1 { DOZE } else { LONGEST });
                    last = span;
                }
                rest => assert_eq!((rest, last), (Rest::Pause, Span::ZERO)),
            }
        }
        assert_eq!(last, LONGEST);
        let mut one_of_two = Idler::new(Idle::Adaptive, 2);
        let longest = (0..10_000).map(|_| one_of_two.rest(false, Time::ZERO, Time::NEVER)).last();
        assert_eq!(longest, Some(Rest::Sleep(DOZE)));
        assert_eq!(idler.rest(true, Time::ZERO, Time::NEVER), Rest::None);
        assert_eq!(idler.rest(false, Time::ZERO, Time::NEVER), Rest::Pause);
    }

    #[test]
    fn no_sleep_goes_past_a_deadline() {
        let mut idler = Idler::new(Idle::Adaptive, 1);
        for _ in 0..1000 {
            idler.rest(false, Time::ZERO, Time::NEVER);
        }
        let now = Time::from_nanos(1_000_000);
        let mut rest = |deadline| idler.rest(false, now, deadline);
        assert_eq!(rest(now + Span::from_micros(20)), Rest::Sleep(Span::from_micros(20)));
        assert_eq!(rest(now + Span::from_micros(1)), Rest::Pause);
        assert_eq!(rest(now - Span::from_micros(9)), Rest::Pause);
    }
}
