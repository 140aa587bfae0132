//! Whether a missing number is lost, or only late.
//!
//! On a path that keeps order a number is lost as soon as a later one has arrived. Where numbers overtake each other
//! that would call many lost that are only late. A [`Verdict`] learns from late arrivals how far, and for how long,
//! numbers are overtaken on its path; until it has seen one, the path counts as one that keeps order.

use crate::time::{Span, Time};

/// The learned depth and lateness are halved after each period of this length without late arrivals.
const HALVES: Span = Span::from_millis(1_000);
/// Most numbers that may overtake one and are learned.
const DEPTH_MAX: u64 = 1 << 13;
/// Periods after which nothing is left.
const PERIODS_MAX: u64 = 64;

/// When a missing number counts as lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Mode {
    /// At once, always.
    Off,
    /// At once, until the path is seen to reorder; then as far as that was seen.
    #[default]
    Auto,
    /// Beyond the configured [`Limits`].
    Fixed,
}

/// Settings of a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tolerance {
    /// The rule.
    pub mode: Mode,
    /// In [`Mode::Fixed`] the limits, in [`Mode::Auto`] the least that is tolerated once the path is seen to reorder.
    pub limits: Limits,
}

/// A missing number beyond any of these is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// By how many numbers it may be overtaken, the highest one that arrived included.
    pub depth: u64,
    /// How long it may be missing, from when a later one showed it. The shorter of this time and `stall` counts.
    pub loss_wait: Span,
    /// How long an undecided gap may stand. The shorter of this time and `loss_wait` counts; twice `depth` packets may arrive meanwhile.
    pub stall: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 8, loss_wait: Span::from_micros(50), stall: Span::from_micros(80) }
    }
}

/// The state of the oldest gap that does not count as lost yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Suspect {
    /// The distance from its first number to the highest one that arrived.
    pub depth: u64,
    /// How long it has been open: so long the window stands at it.
    pub age: Span,
    /// Packets that arrived since.
    pub meanwhile: u64,
}

impl Limits {
    /// Whether the gap is lost.
    pub fn is_lost(&self, suspect: &Suspect) -> bool {
        suspect.depth > self.depth
            || suspect.age >= self.longest()
            || suspect.meanwhile > self.depth.saturating_mul(2)
    }

    /// How long an undecided gap may be open: the shorter of [`loss_wait`](Self::loss_wait) and [`stall`](Self::stall).
    pub fn longest(&self) -> Span {
        self.loss_wait.min(self.stall)
    }
}

/// How far numbers are overtaken, and for how long they are late.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Extent {
    depth: u64,
    late: Span,
}

impl Extent {
    fn max(self, other: Self) -> Self {
        Self { depth: self.depth.max(other.depth), late: self.late.max(other.late) }
    }

    fn half(self) -> Self {
        Self { depth: self.depth / 2, late: self.late / 2 }
    }
}

/// How far and how long numbers are overtaken on a path, learned from late arrivals.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Verdict {
    seen: Extent,
    /// Of the period that runs.
    fresh: Extent,
    /// When that began.
    since: Time,
}

impl Verdict {
    /// The limits of a missing number; `None`: it is lost as soon as a later one arrives. No learned wait is longer
    /// than `most`.
    pub fn limits(&self, tolerance: &Tolerance, most: Span) -> Option<Limits> {
        let least = tolerance.limits;
        match tolerance.mode {
            Mode::Off => None,
            // The sender suspects a lane that waits longer.
            Mode::Fixed => Some(Limits {
                loss_wait: least.loss_wait.min(most),
                stall: least.stall.min(most),
                ..least
            }),
            Mode::Auto if self.seen.depth == 0 => None,
            // More lie between two numbers when the load grows; the time stays.
            Mode::Auto => Some(Limits {
                depth: least.depth.max(self.seen.depth * 2),
                loss_wait: least.loss_wait.max(self.seen.late.scale(5, 4)).min(most),
                stall: most,
            }),
        }
    }

    /// A number arrived `late` after a later one, `depth` behind the highest, and no retransmission explains it. One that is
    /// later than `most` teaches nothing: it could not have been waited for. Returns whether more is tolerated than before.
    pub fn late(&mut self, now: Time, late: Span, depth: u64, most: Span) -> bool {
        self.decay(now);
        if late > most || depth == 0 {
            return false;
        }
        let before = self.seen;
        self.fresh = self.fresh.max(Extent { depth: depth.min(DEPTH_MAX), late });
        self.seen = self.seen.max(self.fresh);
        self.seen != before
    }

    /// Halves the learned depth and lateness for each second in which no number was as late.
    pub fn decay(&mut self, now: Time) {
        let periods = now.since(self.since).as_nanos() / HALVES.as_nanos();
        if periods == 0 {
            return;
        }
        self.since += HALVES * periods;
        for _ in 0..periods.min(PERIODS_MAX) {
            self.seen = self.seen.half().max(core::mem::take(&mut self.fresh));
        }
    }

    /// Whether the path was not seen to reorder lately.
    pub const fn keeps_order(&self) -> bool {
        self.seen.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: Span = Span::from_millis(1);

    fn us(us: u64) -> Span {
        Span::from_micros(us)
    }

    fn at(us: u64) -> Time {
        Time::from_nanos(1_000_000_000 + us * 1_000)
    }

    fn suspect(depth: u64, age: u64, meanwhile: u64) -> Suspect {
        Suspect { depth, age: us(age), meanwhile }
    }

    #[test]
    fn three_later_packets_within_20_us_are_waited_for_and_nine_are_not() {
        let limits = Limits::default();
        assert!(!limits.is_lost(&suspect(3, 20, 3)));
        assert!(!limits.is_lost(&suspect(8, 49, 16)));
        assert!(limits.is_lost(&suspect(9, 20, 9)));
        assert!(limits.is_lost(&suspect(3, 51, 3)));
        assert!(limits.is_lost(&suspect(3, 20, 17)), "the window stands");
        let limits = Limits { loss_wait: us(100), ..limits };
        assert!(!limits.is_lost(&suspect(3, 79, 3)));
        assert!(limits.is_lost(&suspect(3, 80, 3)), "the window stands");
    }

    #[test]
    fn a_path_that_keeps_order_tolerates_nothing() {
        let auto = Tolerance::default();
        let mut verdict = Verdict::default();
        assert_eq!(verdict.limits(&auto, MOST), None);
        // Later than may be waited for.
        assert!(!verdict.late(at(0), us(1_001), 9, MOST));
        assert_eq!(verdict.limits(&auto, MOST), None);
        assert!(verdict.late(at(0), us(200), 30, MOST));
        assert!(!verdict.late(at(0), us(100), 3, MOST));
        let limits = verdict.limits(&auto, MOST).expect("it reorders");
        assert_eq!((limits.depth, limits.loss_wait, limits.stall), (60, us(250), MOST));
        let off = Tolerance { mode: Mode::Off, ..auto };
        assert_eq!(verdict.limits(&off, MOST), None);
        let fixed = Tolerance { mode: Mode::Fixed, ..auto };
        assert_eq!(Verdict::default().limits(&fixed, MOST), Some(Limits::default()));
    }

    #[test]
    fn little_reordering_is_tolerated_up_to_the_least_limits() {
        let mut verdict = Verdict::default();
        verdict.late(at(0), us(2), 1, MOST);
        let limits = verdict.limits(&Tolerance::default(), MOST).expect("it reorders");
        assert_eq!((limits.depth, limits.loss_wait), (8, us(50)));
        // On a short path no wait may be as long as a repair.
        let limits = verdict.limits(&Tolerance::default(), us(30)).expect("it reorders");
        assert_eq!(limits.longest(), us(30));
    }

    #[test]
    fn what_was_learned_fades_and_stays_while_it_is_seen() {
        let mut verdict = Verdict::default();
        let depth = |verdict: &Verdict| verdict.seen.depth;
        for second in 0..20 {
            verdict.late(at(second * 1_000_000), us(200), 64, MOST);
            assert_eq!(depth(&verdict), 64);
        }
        // Less of it.
        for second in 20..30 {
            verdict.late(at(second * 1_000_000), us(20), 7, MOST);
        }
        assert_eq!((depth(&verdict), verdict.seen.late), (7, us(20)));
        verdict.decay(at(33_000_000));
        assert!(verdict.keeps_order(), "{verdict:?}");
        // A path that was silent for days.
        verdict.late(at(33_000_000), us(900), 8_000, MOST);
        verdict.decay(at(1 << 40));
        assert!(verdict.keeps_order());
    }

    proptest! {
        /// A number that is no later than an earlier one does not count as lost within a second, and no gap stays
        /// undecided for longer than the limits.
        #[test]
        fn what_was_tolerated_once_is_tolerated_for_a_second(
            samples in prop::collection::vec((0..900_u64, 1..2_000_u64, 0..400_u64), 1..200),
        ) {
            let (mut verdict, mut now, mut recent) = (Verdict::default(), 0, Vec::new());
            for (late, depth, pause) in samples {
                now += pause * 1_000;
                recent.push((now, late, depth));
                recent.retain(|(then, ..)| now - then < 1_000_000);
                verdict.late(at(now), us(late), depth, MOST);
                let limits = verdict.limits(&Tolerance::default(), MOST).expect("it reorders");
                for (_, late, depth) in &recent {
                    prop_assert!(limits.depth >= *depth && limits.longest() >= us(*late), "{limits:?}");
                    let is_late = suspect(*depth, late.saturating_sub(1), *depth);
                    prop_assert!(!limits.is_lost(&is_late), "{limits:?} {is_late:?}");
                }
                prop_assert!(limits.longest() <= MOST);
                prop_assert!(limits.is_lost(&suspect(0, MOST.as_micros(), 0)));
            }
        }
    }
}
