//! When which flow is due.
//!
//! An entry is in the queue at most once for each time that its deadline moved
//! forward; a deadline that moves back is noticed when the old one fires. So a
//! flow with nothing outstanding costs nothing, and a busy one little.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use common::time::Time;

use crate::entry::Id;

/// Deadlines that there is always room for.
const LEAST: usize = 64;

/// A priority queue of deadlines.
#[derive(Default)]
pub(crate) struct Timers {
    /// Time, entry and generation in one number each: most of what a queue does is to
    /// compare.
    queue: BinaryHeap<Reverse<u128>>,
}

const fn pack(at: Time, id: Id, generation: u32) -> u128 {
    // There is memory for fewer entries than that, by far.
    debug_assert!(id as u64 <= u32::MAX as u64);
    (at.as_nanos() as u128) << 64 | (id as u128) << 32 | generation as u128
}

const fn unpack(timer: u128) -> (Time, Id, u32) {
    let [at, id] = [timer >> 64, timer >> 32 & u32::MAX as u128];
    (Time::from_nanos(at as u64), id as Id, timer as u32)
}

impl Timers {
    /// The entry `id` of `generation`, which is woken at `armed`, is due at
    /// `deadline`.
    #[inline]
    pub fn arm(&mut self, armed: &mut Time, deadline: Time, id: Id, generation: u32) {
        if deadline < *armed {
            *armed = deadline;
            self.push(deadline, id, generation);
        }
    }

    /// Wakes the entry `id` of `generation` at `at`.
    fn push(&mut self, at: Time, id: Id, generation: u32) {
        self.queue.push(Reverse(pack(at, id, generation)));
    }

    /// Gives back room that is not going to be used soon.
    pub fn shrink(&mut self) {
        let room = (2 * self.queue.len()).max(LEAST);
        if self.queue.capacity() > 2 * room {
            self.queue.shrink_to(room);
        }
    }

    /// When the next one fires.
    pub fn next(&self) -> Time {
        self.queue.peek().map_or(Time::NEVER, |Reverse(timer)| unpack(*timer).0)
    }

    /// Takes one that is due.
    pub fn pop(&mut self, now: Time) -> Option<(Time, Id, u32)> {
        if self.next() > now {
            return None;
        }
        self.queue.pop().map(|Reverse(timer)| unpack(timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out() {
        let most = u32::MAX;
        for timer in
            [(Time::NEVER, most as Id, most), (Time::ZERO, 0, 0), (Time::from_nanos(1), 2, 3)]
        {
            assert_eq!(unpack(pack(timer.0, timer.1, timer.2)), timer);
        }
    }

    #[test]
    fn timers_come_in_their_order_and_none_too_early() {
        let at = Time::from_nanos;
        let mut timers = Timers::default();
        assert_eq!((timers.next(), timers.pop(at(1))), (Time::NEVER, None));
        for (due, id) in [(30, 1), (10, 2), (20, 3)] {
            timers.push(at(due), id, 0);
        }
        assert_eq!(timers.pop(at(9)), None);
        assert_eq!(timers.pop(at(25)), Some((at(10), 2, 0)));
        assert_eq!(timers.pop(at(25)), Some((at(20), 3, 0)));
        assert_eq!((timers.pop(at(25)), timers.next()), (None, at(30)));
    }
}
