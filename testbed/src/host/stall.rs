//! How long queue pairs stood still.

use common::time::{Span, Time};

/// The longest time between two packets that one queue pair accepted in order, while it was meant to receive all the
/// time.
pub(super) struct Stalls {
    /// Of each queue pair: packets accepted, and when that was last seen to grow.
    each: Vec<(u64, Option<Time>)>,
    longest: Span,
}

impl Stalls {
    /// Of so many queue pairs, which have accepted nothing yet.
    pub fn new(qps: usize) -> Self {
        Self { each: vec![(0, None); qps], longest: Span::ZERO }
    }

    /// Queue pair `qp` has accepted so many packets by `now`. `counts` tells whether a time belongs to the part of the run
    /// that is measured; both ends of a stall have to.
    pub fn note(&mut self, qp: usize, accepted: u64, now: Time, counts: impl Fn(Time) -> bool) {
        let Some((before, at)) = self.each.get_mut(qp) else { return };
        if *before == accepted {
            return;
        }
        *before = accepted;
        if let Some(at) = at.replace(now)
            && counts(at)
            && counts(now)
        {
            self.longest = self.longest.max(now.since(at));
        }
    }

    /// The longest that ended with a packet.
    pub fn longest(&self) -> Span {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_of_a_queue_pair_counts() {
        let ms = |n| Time::ZERO + Span::from_millis(n);
        let mut stalls = Stalls::new(2);
        let counts = |at: Time| ms(100) <= at && at < ms(1_000);
        // Before the part that counts, between two queue pairs, without news, at last, after it.
        for (qp, accepted, at) in [(0, 1, 10), (0, 2, 100), (1, 9, 200), (0, 3, 120), (0, 3, 500)] {
            stalls.note(qp, accepted, ms(at), counts);
        }
        assert_eq!(stalls.longest(), Span::from_millis(20));
        stalls.note(1, 10, ms(270), counts);
        stalls.note(0, 4, ms(150), counts);
        stalls.note(0, 5, ms(1_200), counts);
        assert_eq!(stalls.longest(), Span::from_millis(70));
    }
}
