//! The timers of all QPs of a NIC.
//!
//! A retransmission timer is restarted by every ACK. Instead of moving it in
//! the heap each time, a timer that goes off early is looked at and set again:
//! its owner knows the true deadline.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use common::time::Time;

/// The timers of one QP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Timer {
    /// Nothing has been heard for the retransmission timeout.
    Retransmit,
    /// A coalesced ACK has waited long enough.
    Ack,
}

impl Timer {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Retransmit, Self::Ack];
}

/// The timers of all QPs of a NIC.
#[derive(Default, Debug)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Time, u32, Timer)>>,
    /// The entry of each timer that counts; others in the heap are stale.
    armed: Vec<[Time; Timer::ALL.len()]>,
}

impl Timers {
    /// Makes room for one more QP.
    pub fn add_qp(&mut self) {
        self.armed.push([Time::NEVER; Timer::ALL.len()]);
    }

    /// `timer` of `qp` has to be looked at by `at`.
    pub fn arm(&mut self, qp: u32, timer: Timer, at: Time) {
        let armed = &mut self.armed[qp as usize][timer as usize];
        if at < *armed {
            *armed = at;
            self.heap.push(Reverse((at, qp, timer)));
        }
    }

    /// No timer has to be looked at earlier.
    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// One timer that has to be looked at now. It has to be armed again.
    pub fn pop(&mut self, now: Time) -> Option<(u32, Timer)> {
        while let Some(&Reverse((at, qp, timer))) = self.heap.peek()
            && at <= now
        {
            self.heap.pop();
            let armed = &mut self.armed[qp as usize][timer as usize];
            if *armed == at {
                *armed = Time::NEVER;
                return Some((qp, timer));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_looked_at_once_and_in_time() {
        let at = Time::from_nanos;
        let mut timers = Timers::default();
        timers.add_qp();
        timers.add_qp();
        timers.arm(0, Timer::Retransmit, at(100));
        timers.arm(0, Timer::Retransmit, at(200)); // later: found out at 100
        timers.arm(1, Timer::Ack, at(50));
        timers.arm(1, Timer::Ack, at(40)); // earlier: the entry at 50 is stale
        assert_eq!(timers.next(), Some(at(40)));
        assert_eq!(timers.pop(at(39)), None);
        assert_eq!(timers.pop(at(40)), Some((1, Timer::Ack)));
        assert_eq!(timers.pop(at(99)), None);
        assert_eq!(timers.next(), Some(at(100)));
        assert_eq!(timers.pop(at(100)), Some((0, Timer::Retransmit)));
        assert_eq!(timers.next(), None);
    }
}
