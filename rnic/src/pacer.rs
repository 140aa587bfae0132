//! The line rate of a port.

use common::time::{Span, Time};

use crate::config::{MIN_FRAME, WIRE_OVERHEAD};

/// When the next frame may leave. Keeps fractions of a nanosecond, so that the
/// rate is exact in the long run.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// bit/s.
    rate: Option<u64>,
    slack: Span,
    free_at: Time,
    /// What `free_at` lacks, in 1/rate nanoseconds.
    remainder: u64,
}

impl Pacer {
    /// A rate of zero counts as 1 bit/s.
    pub(crate) fn new(rate: Option<u64>, slack: Span) -> Self {
        Self { rate: rate.map(|r| r.max(1)), slack, free_at: Time::ZERO, remainder: 0 }
    }

    /// When the last frame has left the port.
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }

    pub(crate) fn is_free(&self, now: Time) -> bool {
        self.free_at <= now
    }

    /// A frame of `len` bytes starts to leave.
    pub(crate) fn sent(&mut self, len: usize, now: Time) {
        let Some(rate) = self.rate else { return };
        let earliest = now - self.slack;
        if self.free_at < earliest {
            self.free_at = earliest;
            self.remainder = 0;
        }
        let bits = ((len as u64).max(MIN_FRAME) + WIRE_OVERHEAD) * 8;
        let scaled = bits * 1_000_000_000 + self.remainder;
        self.free_at += Span::from_nanos(scaled / rate);
        self.remainder = scaled % rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of `len` bytes sent until `end` by someone who looks every
    /// `poll` nanoseconds.
    fn frames(pacer: &mut Pacer, len: usize, poll: u64, end: u64) -> u64 {
        let mut sent = 0;
        for now in (0..end).step_by(poll as usize).map(Time::from_nanos) {
            while pacer.is_free(now) {
                pacer.sent(len, now);
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn the_rate_is_exact() {
        // 1 KiB of payload: 1082 + 24 bytes are 8.848 bits at 1 Gbit/s; a
        // rate of 3 Gbit/s leaves a remainder.
        let mut pacer = Pacer::new(Some(3_000_000_000), Span::ZERO);
        let mut now = Time::ZERO;
        for _ in 0..3_000 {
            assert!(pacer.is_free(now));
            pacer.sent(1082, now);
            now = pacer.free_at();
        }
        assert_eq!(now, Time::from_nanos(8_848_000));
    }

    #[test]
    fn slack_makes_up_for_late_polls() {
        let second_100th = 10_000_000;
        let strict =
            frames(&mut Pacer::new(Some(1_000_000_000), Span::ZERO), 1082, 10_000, second_100th);
        let loose = frames(
            &mut Pacer::new(Some(1_000_000_000), Span::from_micros(50)),
            1082,
            10_000,
            second_100th,
        );
        // The first 50 µs are a credit of 6 frames.
        assert_eq!(strict, 1_000);
        assert!((1_130..=1_136).contains(&loose), "{loose}");
    }

    #[test]
    fn short_frames_are_padded_on_the_wire() {
        let mut pacer = Pacer::new(Some(1_000_000_000), Span::ZERO);
        pacer.sent(42, Time::ZERO);
        assert_eq!(pacer.free_at(), Time::from_nanos(672));
    }
}
