//! Token bucket for control messages that are not needed for correctness.
//!
//! Early SYNCs and STATUSes make a repair faster. Each costs both boxes as much as several
//! packets, and so does its reply. With thousands of flows that send few packets there would
//! be more messages than packets. The bucket bounds their share; time and data fill it.

use crate::time::{Span, Time};

/// Packets that earn one early message.
const PACKETS: u64 = 128;
/// Early messages that a full bucket would pay for, had none to be left for late
/// ones.
const MOST: u64 = 1024;
/// The level at the start, as the time that it takes to earn it.
const START: Span = Span::from_millis(50);
/// So many late messages cost as much as an early one.
const LATE: u64 = 8;

/// How much a message is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Nothing suggests that anything is wrong.
    Early,
    /// The expected event is overdue.
    Late,
}

/// A worker's token bucket for early and late messages.
///
/// Early messages: so many a second, and one for every 128 packets; 512 at once.
/// Late ones: eight times as many, and early ones leave them half of the bucket.
#[derive(Clone, Debug)]
pub struct Allowance {
    /// In the time that it takes to earn it, without what `packets` have earned.
    level: Span,
    /// Data packets that passed since `level` was last filled.
    packets: u64,
    /// When it was last filled.
    at: Time,
    /// The time that earns one early message; 0: none may ever go out.
    price: Span,
    /// How long the newest response took.
    rtt: Span,
    /// The worker does not keep up: only late messages are granted.
    is_overloaded: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        Self::new(Self::PER_SECOND)
    }
}

impl Allowance {
    /// With a response each, some two per cent of a core.
    pub const PER_SECOND: u32 = 20_000;

    /// One that earns `per_second` early messages; 0: none is ever granted, and a flow that
    /// awaits a reply waits for ever. That is for tests.
    pub fn new(per_second: u32) -> Self {
        let price = match u64::from(per_second) {
            0 => Span::ZERO,
            n => Span::from_nanos((1_000_000_000 / n).max(1)),
        };
        Self {
            level: START.min(price * MOST),
            packets: 0,
            at: Time::ZERO,
            price,
            rtt: Span::ZERO,
            is_overloaded: false,
        }
    }

    /// Whether the worker keeps up with its frames no longer (R-MSG-11). While it does not, only late messages are granted.
    pub fn set_overloaded(&mut self, is_overloaded: bool) {
        self.is_overloaded = is_overloaded;
    }

    /// Whether the worker does not keep up.
    #[inline]
    pub const fn is_overloaded(&self) -> bool {
        self.is_overloaded
    }

    /// A peer answered after `rtt`.
    pub fn answered(&mut self, rtt: Span) {
        self.rtt = rtt;
    }

    /// How long responses take at present, whichever peer's; zero while that is not
    /// known. A box that can't keep up with its messages has them answered late.
    pub const fn rtt(&self) -> Span {
        self.rtt
    }

    /// A data packet passes.
    #[inline]
    pub fn earn(&mut self) {
        self.packets += 1;
    }

    /// Whether an early message would be granted.
    #[inline]
    pub fn may_be_early(&self, now: Time) -> bool {
        let level = self.filled(Span::ZERO) + now.since(self.at);
        !self.is_overloaded && self.price > Span::ZERO && level >= self.price * (MOST / 2)
    }

    /// Takes the cost of a message, or refuses.
    pub fn take(&mut self, need: Need, now: Time) -> bool {
        (self.level, self.packets) = (self.filled(now.since(self.at)), 0);
        self.at = self.at.max(now);
        let (price, least) = match need {
            Need::Early => (self.price, self.price * (MOST / 2)),
            Need::Late => (self.price / LATE, self.price / LATE),
        };
        let is_refused = self.is_overloaded && need != Need::Late;
        let may = !is_refused && self.price > Span::ZERO && self.level >= least;
        if may {
            self.level = self.level - price;
        }
        may
    }

    /// The level with what packets and `time` have earned.
    #[inline]
    fn filled(&self, time: Span) -> Span {
        (self.level + self.price * self.packets / PACKETS + time).min(self.price * MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many are granted at `now`.
    fn granted(allowance: &mut Allowance, need: Need, now: Time) -> u64 {
        (0..100_000).take_while(|_| allowance.take(need, now)).count() as u64
    }

    #[test]
    fn a_worker_that_does_not_keep_up_is_granted_what_is_late() {
        let (mut allowance, now) = (Allowance::default(), Time::from_nanos(1_000_000_000));
        allowance.set_overloaded(true);
        assert!(!allowance.may_be_early(now) && !allowance.take(Need::Early, now));
        assert!(allowance.take(Need::Late, now));
        allowance.set_overloaded(false);
        assert!(allowance.may_be_early(now) && allowance.take(Need::Early, now));
    }

    #[test]
    fn early_messages_leave_half_to_late_ones() {
        let (mut allowance, now) = (Allowance::default(), Time::from_nanos(1_000_000_000));
        assert!(allowance.may_be_early(now));
        assert_eq!(granted(&mut allowance, Need::Early, now), 513);
        assert!(!allowance.may_be_early(now));
        assert_eq!(granted(&mut allowance, Need::Late, now), 511 * 8);
        assert_eq!(granted(&mut allowance, Need::Early, now), 0);
    }

    #[test]
    fn a_second_earns_twenty_thousand_early_ones_or_eight_times_as_many_late_ones() {
        for (need, expected) in [(Need::Early, 20_000), (Need::Late, 160_000)] {
            let mut allowance = Allowance::default();
            granted(&mut allowance, need, Time::ZERO);
            let times = (1..=10_000_u64).map(|i| Time::from_nanos(i * 100_000));
            let sum: u64 = times.map(|now| granted(&mut allowance, need, now)).sum();
            assert_eq!(sum, expected, "{need:?}");
        }
    }

    #[test]
    fn packets_earn_an_early_one() {
        let (mut allowance, now) = (Allowance::default(), Time::ZERO);
        granted(&mut allowance, Need::Early, now);
        (0..PACKETS - 1).for_each(|_| allowance.earn());
        assert!(!allowance.clone().take(Need::Early, now));
        allowance.earn();
        assert!(allowance.take(Need::Early, now));
        assert!(!allowance.take(Need::Early, now));
    }

    #[test]
    fn without_an_allowance_nothing_is_said() {
        let mut allowance = Allowance::new(0);
        (0..1_000_000).for_each(|_| allowance.earn());
        assert!(!allowance.may_be_early(Time::from_nanos(u64::MAX / 2)));
        assert!(!allowance.take(Need::Early, Time::from_nanos(u64::MAX / 2)));
        assert!(!allowance.take(Need::Late, Time::from_nanos(u64::MAX / 2)));
    }

    #[test]
    fn no_more_is_saved_than_a_bucket_holds() {
        let mut allowance = Allowance::default();
        (0..1_000_000).for_each(|_| allowance.earn());
        let later = Time::from_nanos(u64::MAX / 2);
        assert!(allowance.may_be_early(later));
        assert_eq!(granted(&mut allowance, Need::Early, later), 513);
    }
}
