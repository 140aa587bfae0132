//! How many frames may be resent.

use common::time::{Span, Time};

/// Of the frames sent, one in so many may be resent: a link that loses more is congested or broken,
/// and the hosts have to notice.
const ONE_IN: u64 = 4;
/// Frames of a round trip in which hardly anything was sent.
const LEAST: u64 = 256;

/// Counts frames and retransmissions: a quarter of the frames of a round trip, at least 64.
#[derive(Debug)]
pub(super) struct ResendShare {
    /// Retransmissions that are left, times [`ONE_IN`].
    credit: u64,
    started: Time,
    /// Frames since then.
    frames: u64,
    /// Frames of the round trip before.
    frames_before: u64,
}

impl Default for ResendShare {
    fn default() -> Self {
        Self { credit: LEAST, started: Time::ZERO, frames: 0, frames_before: 0 }
    }
}

impl ResendShare {
    /// A frame was sent for the first time.
    #[inline]
    pub fn sent(&mut self, now: Time, rtt: Span) {
        if now.since(self.started) >= rtt {
            (self.frames_before, self.frames, self.started) = (self.frames, 0, now);
        }
        self.frames += 1;
        let most = self.frames_before.max(self.frames).max(LEAST);
        self.credit = (self.credit + 1).min(most);
    }

    /// Retransmissions that are left.
    pub fn left(&self) -> u64 {
        self.credit / ONE_IN
    }

    /// A frame was resent.
    pub fn resent(&mut self) {
        self.credit = self.credit.saturating_sub(ONE_IN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_frames_of_a_round_trip_may_be_sent_again() {
        let (mut share, rtt) = (ResendShare::default(), Span::from_millis(10));
        assert_eq!(share.left(), 64, "at the start");
        let at = |us| Time::from_nanos(1_000_000_000) + Span::from_micros(us);
        for n in 0..10_000 {
            share.sent(at(n * 10), rtt);
        }
        assert_eq!(share.left(), 250, "of a thousand");
        for _ in 0..250 {
            share.resent();
        }
        assert_eq!(share.left(), 0);
        for n in 10_000..10_400 {
            share.sent(at(n * 10), rtt);
        }
        assert_eq!(share.left(), 100);
    }
}
