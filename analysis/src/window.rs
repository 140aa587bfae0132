//! The newest PSNs of a flow: which ones passed, and when.

use std::collections::VecDeque;

use common::psn::{Psn, Seq};
use common::time::Time;

/// PSNs that may be kept of all flows together, eight bytes each.
pub const BUDGET: u32 = 1 << 25;
/// PSNs that may be kept of a flow.
const MOST: usize = 1 << 16;
/// Acknowledged PSNs that are kept: a lost ACK makes their source send them again.
const ACKED: u64 = 4096;
/// Packets that may be lost before the first one that passes.
const EARLY: u64 = 256;

/// A PSN below the newest one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It has not passed; a later one did at this time.
    Missing(Time),
    /// It passed, the last time at this time.
    Passed(Time),
    /// It is too old: not kept.
    Old,
}

/// PSNs from `base` to before `next`.
#[derive(Debug)]
pub struct Window {
    base: Seq,
    /// The first packet that passed.
    start: Seq,
    /// When it passed, or, with the top bit, since when it is missing.
    slots: VecDeque<u64>,
    /// PSNs that were missing when they became too old.
    dropped_missing: u64,
}

const MISSING: u64 = 1 << 63;

impl Window {
    /// Begins before `psn`.
    pub fn new(psn: Psn) -> Self {
        let base = Seq::first(psn);
        Self { base, start: base, slots: VecDeque::new(), dropped_missing: 0 }
    }

    /// The sequence number after the newest one.
    pub fn next(&self) -> Seq {
        self.base + self.slots.len() as u64
    }

    /// The sequence number that a packet with this PSN has.
    pub fn unwrap(&self, psn: Psn) -> Seq {
        psn.unwrap_near(self.next())
    }

    /// Whether a response may be to a packet with this PSN. A NAK may be for one that was lost before the first that passed.
    pub fn has(&self, psn: Psn, is_nak: bool) -> bool {
        let early = if is_nak && self.base <= self.start { EARLY } else { 0 };
        let seq = self.unwrap(psn);
        seq < self.next() && seq + early >= self.base
    }

    /// Whether a packet is of before the first one that passed.
    pub fn is_early(&self, seq: Seq) -> bool {
        seq < self.start
    }

    /// A packet older than all passes, `at` the first time: none in between has passed. Not if older ones have been forgotten.
    pub fn reach_back(&mut self, seq: Seq, at: Time, budget: &mut u32) {
        let n = self.base.since(seq);
        if n == 0
            || self.base > self.start
            || self.slots.len() + n as usize > MOST
            || n > u64::from(*budget)
        {
            return;
        }
        (0..n).for_each(|_| self.slots.push_front(at.as_nanos() | MISSING));
        *budget -= n as u32;
        self.base = seq;
    }

    /// What is known of a sequence number below [`next`](Self::next).
    pub fn state(&self, seq: Seq) -> State {
        match seq.get().checked_sub(self.base.get()).and_then(|at| self.slots.get(at as usize)) {
            Some(slot) if slot & MISSING != 0 => State::Missing(Time::from_nanos(slot & !MISSING)),
            Some(slot) => State::Passed(Time::from_nanos(*slot)),
            None => State::Old,
        }
    }

    /// `n` new PSNs pass, or turn out to be missing. `budget` counts what all flows may keep.
    pub fn push(&mut self, n: u64, state: State, budget: &mut u32) {
        let slot = match state {
            State::Passed(at) => at.as_nanos() & !MISSING,
            State::Missing(at) => at.as_nanos() | MISSING,
            State::Old => return,
        };
        // The rest pushes all others out.
        let forgotten = n.saturating_sub(MOST as u64);
        if forgotten > 0 {
            while !self.slots.is_empty() {
                self.pop(budget);
            }
            self.base = self.base + forgotten;
            self.dropped_missing += if slot & MISSING != 0 { forgotten } else { 0 };
        }
        for _ in forgotten..n {
            if *budget == 0 || self.slots.len() >= MOST {
                self.pop(budget);
            }
            if *budget == 0 {
                // Another flow has it all: this one keeps nothing.
                self.base = self.base.next();
                continue;
            }
            self.slots.push_back(slot);
            *budget -= 1;
        }
    }

    /// A PSN passes that did before, or was missing.
    pub fn pass(&mut self, seq: Seq, at: Time) {
        let index = seq.get().checked_sub(self.base.get());
        if let Some(slot) = index.and_then(|at| self.slots.get_mut(at as usize)) {
            *slot = at.as_nanos() & !MISSING;
        }
    }

    /// All before `seq` is acknowledged.
    pub fn acknowledge(&mut self, seq: Seq, budget: &mut u32) {
        while self.base + ACKED < seq && !self.slots.is_empty() {
            self.pop(budget);
        }
        // The budget counts slots in use: memory of unused ones is given back.
        if self.slots.capacity() > 4 * self.slots.len() + 64 {
            self.slots.shrink_to_fit();
        }
    }

    /// PSNs that never passed.
    pub fn missing(&self) -> u64 {
        let early = self.start.since(self.base) as usize;
        let kept = self.slots.iter().skip(early).filter(|slot| *slot & MISSING != 0).count();
        self.dropped_missing + kept as u64
    }

    /// Frees everything and begins anew; what is missing stays counted.
    pub fn restart(&mut self, psn: Psn, budget: &mut u32) {
        self.dropped_missing = self.missing();
        *budget += self.slots.len() as u32;
        self.slots = VecDeque::new();
        self.base = Seq::first(psn);
        self.start = self.base;
    }

    fn pop(&mut self, budget: &mut u32) {
        if let Some(slot) = self.slots.pop_front() {
            self.dropped_missing += u64::from(slot & MISSING != 0 && self.base >= self.start);
            self.base = self.base.next();
            *budget += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_stays_counted() {
        let mut budget = 100_000;
        let mut windows = [0, 1, 2].map(|n| Window::new(Psn::new(n)));
        for n in 0..200_000_u64 {
            let state =
                if n % 10 == 0 { State::Missing(Time::ZERO) } else { State::Passed(Time::ZERO) };
            for window in &mut windows {
                window.push(1, state, &mut budget);
            }
        }
        let kept: usize = windows.iter().map(|window| window.slots.len()).sum();
        assert_eq!(kept + budget as usize, 100_000);
        assert!(windows.iter().all(|window| window.slots.len() <= MOST));
        // A flow that had no memory left has not seen what was missing then: it claims too little, never too much.
        let missing: Vec<u64> = windows.iter().map(Window::missing).collect();
        assert_eq!(missing[0], 20_000);
        assert!(missing.iter().all(|n| *n <= 20_000), "{missing:?}");
        let next = windows[0].next();
        windows[0].acknowledge(next, &mut budget);
        assert_eq!(windows[0].slots.len() as u64, ACKED);
        assert!(windows[0].slots.capacity() < 2 * ACKED as usize);
        windows[0].restart(Psn::new(7), &mut budget);
        assert_eq!(windows[0].slots.capacity(), 0);
    }

    #[test]
    fn a_leap_beyond_what_is_kept_is_counted() {
        let (mut budget, mut window) = (BUDGET, Window::new(Psn::new(5)));
        window.push(10, State::Passed(Time::ZERO), &mut budget);
        window.push(200_000, State::Missing(Time::ZERO), &mut budget);
        assert_eq!((window.missing(), window.slots.len()), (200_000, MOST));
        assert_eq!(window.next().since(Seq::first(Psn::new(5))), 200_010);
        assert_eq!(budget, BUDGET - MOST as u32);
    }
}
