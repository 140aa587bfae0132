//! An egress port: a queue per priority, served in strict order at the line's
//! rate.

use std::collections::VecDeque;

use common::fair_queue::FairQueue;
use common::frame::Frame;
use common::time::{Span, Time};
use common::wire::flow_hash;
use link::{Line, wire_bytes};

use crate::frame::SimFrame;
use crate::scenario::LanQueue;

/// Priority of a frame between the queues of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priority {
    /// Frames that must not wait: CNPs, and a gateway's resends and messages.
    High,
    /// All the rest.
    Data,
}

/// How many there are.
const PRIORITIES: usize = 2;

/// Flows that a fair queue distinguishes, as in the product.
const FLOWS: usize = 1024;

/// A frame that leaves a node.
#[derive(Debug)]
pub struct Departure {
    /// By which of its ports.
    pub port: usize,
    /// The frame.
    pub frame: SimFrame,
    /// When its last bit leaves.
    pub sent: Time,
}

/// A frame that waits, with a note on where it came from.
struct Waiting {
    frame: SimFrame,
    from: usize,
}

/// Frames of one priority.
enum Queue {
    Fifo(VecDeque<Waiting>),
    Fair(FairQueue<Waiting>),
}

impl Queue {
    fn len(&self) -> usize {
        match self {
            Self::Fifo(queue) => queue.len(),
            Self::Fair(queue) => queue.len(),
        }
    }

    fn push(&mut self, waiting: Waiting, bytes: u64) {
        match self {
            Self::Fifo(queue) => queue.push_back(waiting),
            Self::Fair(queue) => {
                let hash = flow_hash(waiting.frame.bytes());
                // It has no limit that memory holds.
                let _ = queue.push(hash, bytes as u32, waiting);
            }
        }
    }

    fn pop(&mut self) -> Option<Waiting> {
        match self {
            Self::Fifo(queue) => queue.pop_front(),
            Self::Fair(queue) => queue.pop(),
        }
    }
}

/// An egress port.
pub struct Port {
    queues: [Queue; PRIORITIES],
    bytes: [u64; PRIORITIES],
    stopped: [bool; PRIORITIES],
    line: Line,
    /// bit/s.
    rate: u64,
    /// When the line can take the next frame.
    free_at: Time,
}

impl Port {
    /// A port of `rate` bit/s whose data frames leave in the order in which they came.
    pub fn new(rate: u64) -> Self {
        Self::with_queue(rate, LanQueue::Fifo)
    }

    /// A port of `rate` bit/s with that queue for data frames.
    pub fn with_queue(rate: u64, data: LanQueue) -> Self {
        let fifo = || Queue::Fifo(VecDeque::new());
        let data = match data {
            LanQueue::Fifo => fifo(),
            LanQueue::Fair => Queue::Fair(FairQueue::growing(FLOWS)),
        };
        Self {
            queues: [fifo(), data],
            bytes: [0; PRIORITIES],
            stopped: [false; PRIORITIES],
            line: Line::new(Some(rate), u64::MAX),
            rate,
            free_at: Time::ZERO,
        }
    }

    /// Bytes that wait with `priority`.
    pub fn queued(&self, priority: Priority) -> u64 {
        self.bytes[priority as usize]
    }

    /// Frames that wait.
    pub fn frames(&self) -> u64 {
        self.queues.iter().map(|queue| queue.len() as u64).sum()
    }

    /// How long a frame waits that is queued at `now`, until its last bit is sent.
    pub fn wait(&self, bytes: u64, now: Time) -> Span {
        let queued: u64 = self.bytes.iter().sum();
        self.free_at.since(now)
            + Span::from_nanos((queued + bytes) * 8).scale(1_000_000_000, self.rate)
    }

    /// Queues a frame that came from port `from` of the same node.
    pub fn push(&mut self, frame: SimFrame, priority: Priority, from: usize) {
        let bytes = wire_bytes(frame.bytes().len());
        self.bytes[priority as usize] += bytes;
        self.queues[priority as usize].push(Waiting { frame, from }, bytes);
    }

    /// The far end pauses or resumes a priority.
    pub fn set_stopped(&mut self, priority: Priority, stop: bool) {
        self.stopped[priority as usize] = stop;
    }

    /// When the next frame can leave; [`Time::NEVER`] if none waits that may.
    pub fn next(&self) -> Time {
        let waits = (0..PRIORITIES).any(|p| !self.stopped[p] && self.queues[p].len() > 0);
        if waits { self.free_at } else { Time::NEVER }
    }

    /// The next frame, if one may leave now: where it came from, with which
    /// priority, and when its last bit leaves.
    pub fn pop(&mut self, now: Time) -> Option<(SimFrame, usize, Priority, Time)> {
        if self.free_at > now {
            return None;
        }
        for priority in [Priority::High, Priority::Data] {
            let p = priority as usize;
            if self.stopped[p] {
                continue;
            }
            if let Some(Waiting { frame, from }) = self.queues[p].pop() {
                let bytes = wire_bytes(frame.bytes().len());
                self.bytes[p] -= bytes;
                // The line takes everything: it has no limit.
                self.free_at = self.line.enqueue(bytes, now).unwrap_or(now);
                return Some((frame, from, priority, self.free_at));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(len: usize) -> SimFrame {
        SimFrame::from(vec![0; len])
    }

    #[test]
    fn high_overtakes_what_waits_and_nothing_else() {
        let mut port = Port::new(8_000_000_000); // a byte per nanosecond
        port.push(frame(976), Priority::Data, 0);
        port.push(frame(976), Priority::Data, 1);
        let (_, from, _, sent) = port.pop(Time::ZERO).expect("the line is free");
        assert_eq!((from, sent), (0, Time::from_nanos(1000)));
        port.push(frame(76), Priority::High, 2);
        assert!(port.pop(Time::from_nanos(999)).is_none());
        assert_eq!(port.next(), Time::from_nanos(1000));
        assert_eq!(port.pop(port.next()).map(|(_, from, ..)| from), Some(2));
        assert_eq!(port.pop(port.next()).map(|(_, from, ..)| from), Some(1));
        assert_eq!((port.next(), port.queued(Priority::Data)), (Time::NEVER, 0));
    }

    #[test]
    fn a_stopped_priority_waits_alone() {
        let mut port = Port::new(1_000_000_000);
        port.push(frame(100), Priority::Data, 0);
        port.set_stopped(Priority::Data, true);
        assert_eq!(port.next(), Time::NEVER);
        port.push(frame(100), Priority::High, 1);
        assert_eq!(port.pop(Time::ZERO).map(|(_, from, ..)| from), Some(1));
        port.set_stopped(Priority::Data, false);
        assert_eq!(port.pop(port.next()).map(|(_, from, ..)| from), Some(0));
    }
}
