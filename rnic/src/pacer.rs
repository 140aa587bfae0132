//! The line rate of a port, or the rate of a queue pair.

use common::time::{Span, Time};

use crate::config::{MIN_FRAME, WIRE_OVERHEAD};

/// When the next frame may leave. Keeps fractions of a nanosecond, so that the
/// rate is exact in the long run.
#[derive(Debug)]
pub struct Pacer {
    /// bit/s.
    rate: Option<u64>,
    slack: Span,
    free_at: Time,
    /// The remainder of `free_at`, in 1/rate nanoseconds.
    remainder: u64,
    paused: bool,
}

impl Pacer {
    /// Of `rate` bit/s, where zero counts as 1 bit/s and `None` is without
    /// limit; time that went unused for longer than `slack` is lost.
    pub fn new(rate: Option<u64>, slack: Span) -> Self {
        Self {
            rate: rate.map(|r| r.max(1)),
            slack,
            free_at: Time::ZERO,
            remainder: 0,
            paused: false,
        }
    }

    /// Another rate in bit/s, for frames that start to leave from now on; zero
    /// counts as 1 bit/s. If it is another one, a fraction of a nanosecond is
    /// lost.
    pub fn set_rate(&mut self, rate: u64) {
        let rate = Some(rate.max(1));
        if self.rate != rate {
            self.rate = rate;
            self.remainder = 0;
        }
    }

    /// Priority flow control (IEEE 802.1Qbb) pauses or resumes transmission.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// When the last frame has left the port; [`Time::NEVER`] while it is
    /// paused.
    pub fn free_at(&self) -> Time {
        if self.paused { Time::NEVER } else { self.free_at }
    }

    /// Whether a frame may start to leave.
    pub fn is_free(&self, now: Time) -> bool {
        self.free_at() <= now
    }

    /// A frame of `len` bytes starts to leave.
    pub fn sent(&mut self, len: usize, now: Time) {
        self.sent_within(len, now, self.slack);
    }

    /// The same with another slack.
    pub fn sent_within(&mut self, len: usize, now: Time, slack: Span) {
        let Some(rate) = self.rate else { return };
        let earliest = now - slack;
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
    fn another_rate_holds_from_the_next_frame_on() {
        let mut pacer = Pacer::new(Some(1_000_000_000), Span::ZERO);
        pacer.sent(1082, Time::ZERO);
        pacer.set_rate(100_000_000);
        assert_eq!(pacer.free_at(), Time::from_nanos(8_848));
        pacer.sent(1082, pacer.free_at());
        assert_eq!(pacer.free_at(), Time::from_nanos(8_848 + 88_480));
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
    fn while_it_is_paused_nothing_leaves() {
        let mut pacer = Pacer::new(Some(1_000_000_000), Span::ZERO);
        pacer.set_paused(true);
        assert!(!pacer.is_free(Time::from_nanos(1)) && pacer.free_at() == Time::NEVER);
        pacer.set_paused(false);
        assert!(pacer.is_free(Time::from_nanos(1)));
    }

    #[test]
    fn short_frames_are_padded_on_the_wire() {
        let mut pacer = Pacer::new(Some(1_000_000_000), Span::ZERO);
        pacer.sent(42, Time::ZERO);
        assert_eq!(pacer.free_at(), Time::from_nanos(672));
    }
}
