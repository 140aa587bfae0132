//! The queue of a path, predicted.
//!
//! A PROBE finds the queue of its lane, but its echo comes a round trip later. Until then the queue grows by the frames that
//! are sent and shrinks as time passes. A sender that used the last echo alone would leave a path whose queue has drained,
//! and would fill another beyond its buffer. So it predicts the queue, and corrects the prediction by the difference between
//! an echo and what was predicted for its PROBE (a Smith predictor).

use common::time::{Span, Time};

/// PROBEs whose echoes may be awaited: four in a round trip, and those behind a queue of some round trips. Without room for more it
/// is the oldest ones that count: those of a long lane beside a short one, or behind a long queue.
const AWAITED: usize = 32;
/// Part of an error that an echo corrects: a single PROBE may have waited somewhere else.
const PART: i64 = 2;

/// A queue, as the time in ns that a frame will wait in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    at: Time,
    /// Frames of the lane that were sent until then, modulo 2^32.
    sent: u32,
    queue: i64,
    /// When a PROBE was sent, and the queue predicted for it.
    probes: [(Time, i64); AWAITED],
    newest: usize,
    /// When the newest PROBE was sent whose echo came.
    answered: Time,
    /// When the first one was sent, since then, that is not remembered.
    forgotten: Option<Time>,
}

impl Backlog {
    /// How long a frame will wait that is sent now. `sent` frames were sent so far, modulo 2^32; the path takes
    /// `per_frame` for each.
    #[inline]
    pub fn wait(&self, now: Time, sent: u32, per_frame: Span) -> Span {
        let came = per_frame * u64::from(sent.wrapping_sub(self.sent));
        let queue = self.queue.saturating_add_unsigned(came.as_nanos());
        let left = queue.saturating_sub_unsigned(now.since(self.at).as_nanos());
        Span::from_nanos(left.max(0).unsigned_abs())
    }

    /// A PROBE is sent.
    pub fn on_probe(&mut self, now: Time, sent: u32, per_frame: Span) {
        self.queue = self.wait(now, sent, per_frame).as_nanos().cast_signed();
        (self.at, self.sent) = (now, sent);
        let next = (self.newest + 1) % AWAITED;
        if self.probes[next].0 <= self.answered {
            (self.newest, self.probes[next]) = (next, (now, self.queue));
        } else {
            self.forgotten.get_or_insert(now);
        }
    }

    /// The echo of a PROBE: the last one that was sent until `sent_at` met a queue of `found` ns.
    pub fn on_echo(&mut self, sent_at: Time, found: i64) {
        if self.forgotten.is_some_and(|first| sent_at >= first) {
            (self.answered, self.forgotten) = (sent_at, None);
            return;
        }
        let known = self.probes.iter().filter(|(at, _)| *at > Time::ZERO && *at <= sent_at);
        let Some(&(probed_at, predicted)) = known.max_by_key(|(at, _)| *at) else { return };
        if probed_at <= self.answered {
            return;
        }
        self.answered = probed_at;
        let error = found.saturating_sub(predicted) / PART;
        self.queue = self.queue.saturating_add(error).max(0);
        // Later PROBEs have the same error: it is corrected once.
        for (at, queue) in &mut self.probes {
            if *at >= probed_at {
                *queue = queue.saturating_add(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);
    const PER_FRAME: Span = Span::from_micros(100);

    fn at(ms: u64) -> Time {
        Time::from_nanos(1_000_000_000) + MS * ms
    }

    #[test]
    fn a_queue_grows_by_frames_and_shrinks_with_time() {
        let mut backlog = Backlog::default();
        backlog.on_probe(at(0), 0, PER_FRAME);
        assert_eq!(backlog.wait(at(0), 50, PER_FRAME), MS * 5);
        assert_eq!(backlog.wait(at(4), 50, PER_FRAME), MS);
        assert_eq!(backlog.wait(at(9), 50, PER_FRAME), Span::ZERO);
        backlog.on_probe(at(9), 50, PER_FRAME);
        assert_eq!(backlog.wait(at(9), 60, PER_FRAME), MS, "time without a queue is not saved up");
    }

    #[test]
    fn an_echo_corrects_what_was_predicted_for_its_probe() {
        let mut backlog = Backlog::default();
        backlog.on_probe(at(0), 0, PER_FRAME);
        backlog.on_probe(at(1), 20, PER_FRAME);
        // 100 frames in 5 ms: 5 ms of them are left.
        backlog.on_probe(at(5), 100, PER_FRAME);
        let queue = |backlog: &Backlog| backlog.wait(at(5), 100, PER_FRAME).as_micros();
        backlog.on_echo(at(0), 0);
        assert_eq!(queue(&backlog), 5_000, "as it was predicted");
        // Another's frames: 4 ms more than predicted.
        backlog.on_echo(at(1), 5_000_000);
        assert_eq!(queue(&backlog), 7_000, "half of the error");
        backlog.on_echo(at(5), 9_000_000);
        assert_eq!(queue(&backlog), 8_000, "the second PROBE's prediction was corrected too");
        backlog.on_echo(Time::from_nanos(1), 90_000_000);
        assert_eq!(queue(&backlog), 8_000, "of no PROBE that is remembered");
    }

    /// R-TUN-35: behind a long queue more PROBEs are under way than are remembered.
    #[test]
    fn an_echo_that_comes_late_corrects_all_the_same() {
        let mut backlog = Backlog::default();
        (1..=100).for_each(|ms| backlog.on_probe(at(ms), 0, PER_FRAME));
        // Another's frames: 8 ms more than predicted.
        backlog.on_echo(at(1), 8_000_000);
        assert_eq!(backlog.wait(at(100), 0, PER_FRAME), MS * 4);
        (33..=100).for_each(|ms| backlog.on_echo(at(ms), 900_000_000));
        let queue = backlog.wait(at(100), 0, PER_FRAME);
        assert_eq!(queue, MS * 4, "those that are not remembered correct nothing");
        backlog.on_probe(at(101), 0, PER_FRAME);
        backlog.on_echo(at(101), 0);
        assert!(backlog.wait(at(101), 0, PER_FRAME) < queue / 2, "there is room again");
    }
}
