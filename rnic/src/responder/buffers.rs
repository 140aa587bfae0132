//! Buffers for SENDs.

use common::time::Time;

use crate::config::ReceiveQueue;

/// The receive queue of a QP.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) queue: ReceiveQueue,
    free: u32,
    /// Since when the next buffer is on its way back; without meaning while
    /// none is missing.
    since: Time,
}

impl Buffers {
    pub(super) fn new(queue: ReceiveQueue) -> Self {
        Self { queue, free: queue.depth, since: Time::ZERO }
    }

    /// Takes one. Whether there was one.
    pub(super) fn take(&mut self, now: Time) -> bool {
        if let Some(interval) = self.queue.refill
            && self.free < self.queue.depth
        {
            let back = now.since(self.since).as_nanos() / interval.as_nanos().max(1);
            self.since += interval * back;
            self.add(u32::try_from(back).unwrap_or(u32::MAX));
        }
        if self.free == self.queue.depth {
            self.since = now;
        }
        let any = self.free > 0;
        self.free = self.free.saturating_sub(1);
        any
    }

    /// Puts `n` back, as far as there is room.
    pub(super) fn add(&mut self, n: u32) {
        self.free = self.free.saturating_add(n).min(self.queue.depth);
    }
}

#[cfg(test)]
mod tests {
    use common::time::Span;

    use super::*;

    const TICK: Span = Span::from_micros(10);

    #[test]
    fn buffers_come_back_one_by_one() {
        let queue = ReceiveQueue { depth: 2, refill: Some(TICK), rnr_timer: 0 };
        let mut buffers = Buffers::new(queue);
        let mut now = Time::from_nanos(5_000_000);
        assert!(buffers.take(now));
        assert!(buffers.take(now));
        assert!(!buffers.take(now));
        now += TICK / 2;
        assert!(!buffers.take(now));
        now += TICK / 2;
        assert!(buffers.take(now));
        assert!(!buffers.take(now));
        // A long time later there are as many as fit, not more.
        now += TICK * 1_000;
        assert_eq!([0; 4].map(|_| buffers.take(now)), [true, true, false, false]);
    }

    #[test]
    fn without_a_rate_they_come_from_the_caller() {
        let mut buffers = Buffers::new(ReceiveQueue { depth: 2, refill: None, rnr_timer: 0 });
        let later = Time::from_nanos(1 << 40);
        assert_eq!([0; 3].map(|_| buffers.take(later)), [true, true, false]);
        buffers.add(1);
        assert_eq!([0; 2].map(|_| buffers.take(later)), [true, false]);
        buffers.add(9);
        assert_eq!([0; 3].map(|_| buffers.take(later)), [true, true, false]);
    }
}
