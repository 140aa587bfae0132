//! How many frames may be resent.

use common::time::{Span, Time};

/// Of the frames sent, one in so many may be resent: a link that loses more is congested or broken,
/// and the hosts have to notice.
const ONE_IN: u64 = 4;
/// Frames of a round trip in which hardly anything was sent.
const LEAST: u64 = 256;

/// Counts frames and retransmissions: a quarter of the frames of a round trip, at least 64; and as many as there were
/// frames, at least 256, while no new frames are sent.
#[derive(Debug)]
pub(super) struct ResendShare {
    /// Retransmissions that are left, times what one takes, without those of frames after `credited`.
    credit: u64,
    /// When another round trip is counted.
    ends_at: Time,
    /// Frames of this one.
    frames: u64,
    /// Of these, in `credit`.
    credited: u64,
    /// Frames of the round trip before.
    frames_before: u64,
    /// When the last frame was sent.
    sent_at: Time,
    /// When the credit was restored for want of new frames.
    restored_at: Time,
}

impl Default for ResendShare {
    fn default() -> Self {
        Self {
            credit: LEAST,
            ends_at: Time::ZERO,
            frames: 0,
            credited: 0,
            frames_before: 0,
            sent_at: Time::ZERO,
            restored_at: Time::ZERO,
        }
    }
}

impl ResendShare {
    /// So many frames were sent for the first time.
    #[inline]
    pub fn sent(&mut self, now: Time, count: u64, rtt: Span) {
        if now >= self.ends_at {
            self.begin(now, rtt);
        }
        self.frames += count;
        self.sent_at = now;
    }

    /// Another round trip.
    fn begin(&mut self, now: Time, rtt: Span) {
        self.settle();
        (self.frames_before, self.frames, self.credited) = (self.frames, 0, 0);
        self.ends_at = now + rtt;
    }

    /// Adds what frames have earned. As the most grows by one for each at most, it may be done for many at once.
    fn settle(&mut self) {
        self.credit = (self.credit + self.frames - self.credited).min(self.most());
        self.credited = self.frames;
    }

    /// Retransmissions that are left. `idle` is the time without new frames after which the link is there for
    /// retransmissions.
    pub fn left(&mut self, now: Time, rtt: Span, idle: Span) -> u64 {
        self.settle();
        if now.since(self.sent_at.max(self.restored_at)) >= rtt {
            (self.credit, self.restored_at) = (self.most(), now);
        }
        self.credit / self.cost(now, idle)
    }

    /// A frame was resent.
    pub fn resent(&mut self, now: Time, idle: Span) {
        self.settle();
        self.credit = self.credit.saturating_sub(self.cost(now, idle));
    }

    /// The most credit.
    fn most(&self) -> u64 {
        self.frames_before.max(self.frames).max(LEAST)
    }

    /// The credit that a retransmission takes.
    fn cost(&self, now: Time, idle: Span) -> u64 {
        if now.since(self.sent_at) >= idle { 1 } else { ONE_IN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_frames_of_a_round_trip_may_be_sent_again() {
        let (mut share, rtt) = (ResendShare::default(), Span::from_millis(10));
        let at = |us| Time::from_nanos(1_000_000_000) + Span::from_micros(us);
        let idle = rtt / 8;
        share.sent(at(0), 1, rtt);
        assert_eq!(share.left(at(0), rtt, idle), 64, "at the start");
        for n in 0..10_000 {
            share.sent(at(n * 10), 1, rtt);
        }
        assert_eq!(share.left(at(100_000), rtt, idle), 250, "of a thousand");
        for _ in 0..250 {
            share.resent(at(100_000), idle);
        }
        assert_eq!(share.left(at(100_000), rtt, idle), 0);
        for n in 10_000..10_400 {
            share.sent(at(n * 10), 1, rtt);
        }
        assert_eq!(share.left(at(104_000), rtt, idle), 100);
    }

    #[test]
    fn on_an_idle_link_as_much_may_be_sent_again_as_was_sent() {
        let (mut share, rtt) = (ResendShare::default(), Span::from_millis(10));
        let at = |us| Time::from_nanos(1_000_000_000) + Span::from_micros(us);
        let idle = rtt / 8;
        for n in 0..1_000 {
            share.sent(at(n * 10), 1, rtt);
        }
        let end = at(9_990);
        assert_eq!(share.left(end + idle - Span::from_nanos(1), rtt, idle), 250);
        assert_eq!(share.left(end + idle, rtt, idle), 1_000);
        for _ in 0..900 {
            share.resent(end + idle, idle);
        }
        assert_eq!(share.left(end + idle, rtt, idle), 100);
        // Once in each round trip.
        assert_eq!(share.left(end + rtt, rtt, idle), 1_000);
        share.resent(end + rtt, idle);
        assert_eq!(share.left(end + rtt * 2 - Span::from_nanos(1), rtt, idle), 999);
        assert_eq!(share.left(end + rtt * 2, rtt, idle), 1_000);
    }
}
