//! Time from the CPU's time-stamp counter.

use std::thread;
use std::time::{Duration, Instant};

use common::time::Time;

use crate::ffi;

/// Reads the time-stamp counter as nanoseconds since the EAL started. All
/// clocks of a process show the same time; reading one costs no system call.
///
/// Relies on an invariant TSC (`constant_tsc`, `nonstop_tsc`), which every
/// server CPU since about 2010 has.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: u64,
    /// Nanoseconds per tick, times 2^32.
    ns_per_tick: u64,
}

impl Clock {
    /// Now. Read it once per burst, not once per packet.
    #[inline]
    pub fn now(&self) -> Time {
        // Two CPUs' counters may differ by a few ticks around the origin.
        let ticks = tsc().saturating_sub(self.origin);
        let ns = (u128::from(ticks) * u128::from(self.ns_per_tick)) >> 32;
        // 2^64 ns are 584 years.
        Time::from_nanos(ns as u64)
    }

    /// Ticks of the counter in a second, as they were measured when the EAL started.
    pub fn hertz(&self) -> u64 {
        let ticks = (1_000_000_000_u128 << 32) / u128::from(self.ns_per_tick.max(1));
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

#[inline]
fn tsc() -> u64 {
    // SAFETY: reads a CPU register, nothing else.
    unsafe { ffi::lr2_tsc() }
}

/// Measures the counter's frequency against the kernel's clock over the
/// time between [start](Self::start) and [finish](Self::finish).
///
/// DPDK's own figure is rounded to 10 MHz where the CPU doesn't tell its
/// frequency; that may be off by 0.2 %, which is too much for a rate.
pub(crate) struct Calibration {
    ticks: u64,
    at: Instant,
}

/// Long enough for an error of a few parts per million.
const SHORTEST: Duration = Duration::from_millis(50);

impl Calibration {
    pub(crate) fn start() -> Self {
        let (ticks, at) = both();
        Self { ticks, at }
    }

    pub(crate) fn finish(self) -> Clock {
        thread::sleep(SHORTEST.saturating_sub(self.at.elapsed()));
        let (ticks, at) = both();
        let ns = at.duration_since(self.at).as_nanos();
        let passed = u128::from(ticks.saturating_sub(self.ticks)).max(1);
        // A tick is shorter than 2^32 ns.
        Clock { origin: ticks, ns_per_tick: ((ns << 32) / passed) as u64 }
    }
}

/// One instant on both clocks: of a few tries, the one that took least time.
fn both() -> (u64, Instant) {
    let sample = || {
        let before = tsc();
        let at = Instant::now();
        let after = tsc();
        (after.wrapping_sub(before), before, at)
    };
    let mut best = sample();
    for _ in 0..8 {
        let next = sample();
        if next.0 < best.0 {
            best = next;
        }
    }
    (best.1 + best.0 / 2, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequency_is_that_of_the_ticks() {
        for hertz in [1_000_000_000_u64, 2_596_128_000, 4_000_000_000] {
            let ns_per_tick = (u128::from(1_000_000_000_u32) << 32) / u128::from(hertz);
            let clock = Clock { origin: 0, ns_per_tick: ns_per_tick as u64 };
            assert!(clock.hertz().abs_diff(hertz) < 10, "{hertz}: {}", clock.hertz());
        }
    }
}
