//! The line: how long a frame takes, and how much waits in front of it.

use common::time::{Span, Time};

/// Bytes that a frame occupies on the wire beyond those handed to a NIC:
/// preamble and start delimiter 8, FCS 4, inter-frame gap 12 (IEEE 802.3).
pub const FRAME_OVERHEAD: u64 = 24;

/// Shortest frame without FCS; a NIC pads to it.
const MIN_FRAME: u64 = 60;

/// Bytes that a frame of `len` bytes (without FCS) occupies on the wire.
pub const fn wire_bytes(len: usize) -> u64 {
    let len = len as u64;
    FRAME_OVERHEAD + if len < MIN_FRAME { MIN_FRAME } else { len }
}

/// A FIFO served at a constant rate. Since every frame is served in turn, when
/// its last bit leaves is known when it arrives, and the backlog is the time
/// until the line is free.
pub struct Line {
    /// Bit/s; `None` is unlimited.
    rate: Option<u64>,
    limit: u64,
    free_at: Time,
    /// The remainder of rounding to whole nanoseconds, in bits × 10⁹, so that no
    /// rate is off by more than its last frame.
    carry: u64,
}

const NANOS: u64 = 1_000_000_000;

impl Line {
    /// A line of `rate` bit/s, `None`: unlimited, that lets `limit` wire bytes
    /// wait.
    pub fn new(rate: Option<u64>, limit: u64) -> Self {
        Self { rate, limit, free_at: Time::ZERO, carry: 0 }
    }

    /// Wire bytes that wait or are being sent at `now`.
    pub fn backlog(&self, now: Time) -> u64 {
        match self.rate {
            Some(rate) => self.free_at.since(now).scale(rate, 8 * NANOS).as_nanos(),
            None => 0,
        }
    }

    /// Queues `bytes` wire bytes. Returns when the last bit leaves, or `None`
    /// if the queue has no room. A line that is idle always takes a frame.
    pub fn enqueue(&mut self, bytes: u64, now: Time) -> Option<Time> {
        let Some(rate) = self.rate else { return Some(now) };
        let backlog = self.backlog(now);
        if backlog > 0 && backlog.saturating_add(bytes) > self.limit {
            return None;
        }
        if self.free_at < now {
            (self.free_at, self.carry) = (now, 0);
        }
        let work = bytes * 8 * NANOS + self.carry;
        self.carry = work % rate;
        self.free_at += Span::from_nanos(work / rate);
        Some(self.free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_does_not_change_the_rate() {
        // A 1024-byte frame takes 83.84 ns at 100 Gbit/s.
        let mut line = Line::new(Some(100_000_000_000), u64::MAX);
        let mut last = Time::ZERO;
        for _ in 0..1_000_000 {
            last = line.enqueue(wire_bytes(1024), Time::ZERO).expect("no limit");
        }
        assert_eq!(last, Time::from_nanos(83_840_000));
    }

    #[test]
    fn a_full_queue_refuses_until_it_has_drained() {
        let mut line = Line::new(Some(8_000_000), 3_000); // one byte per microsecond
        let us = |n| Time::ZERO + Span::from_micros(n);
        assert_eq!(line.enqueue(1_000, us(0)), Some(us(1_000)));
        assert_eq!(line.enqueue(2_000, us(0)), Some(us(3_000)));
        assert_eq!(line.backlog(us(0)), 3_000);
        assert_eq!(line.enqueue(1_000, us(0)), None);
        assert_eq!(line.enqueue(1_000, us(999)), None);
        assert_eq!(line.enqueue(1_000, us(1_000)), Some(us(4_000)));
        assert_eq!(line.backlog(us(5_000)), 0);
    }

    #[test]
    fn an_idle_line_takes_any_frame() {
        let mut line = Line::new(Some(8_000_000), 100);
        assert!(line.enqueue(1_000, Time::ZERO).is_some());
        assert!(line.enqueue(50, Time::ZERO).is_none());
    }

    #[test]
    fn short_frames_are_padded_on_the_wire() {
        assert_eq!(wire_bytes(42), 84);
        assert_eq!(wire_bytes(60), 84);
        assert_eq!(wire_bytes(61), 85);
    }
}
