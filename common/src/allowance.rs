//! Token buckets for the control messages of transparent modes.
//!
//! A SYNC and the STATUS that answers it are frames that a network without gateways does not carry. Data pays for
//! them: a pair of hosts has a bucket that its data frames fill, so that its messages are a few per cent of its
//! frames and one per cent of its bytes. A bucket of the worker, which time fills, pays for the first messages of a
//! pair and for a flow that sends a packet now and then.

use crate::time::{Span, Time};

/// Bytes of data that pay for a SYNC and its STATUS. These are some 360 bytes on the wire: 1 %.
const PRICE: u64 = 36_000;
/// Most bytes that one frame earns: 48 frames pay for a SYNC and a STATUS, which are 4.2 % of them.
const FRAME: u64 = 750;
/// An early message costs as much as so many others, since both boxes work for it as long as for several packets.
const EARLY: u64 = 3;
/// Messages that a full bucket pays for.
const SAVED: u64 = 128;
const MOST: u64 = SAVED * PRICE;
/// Pairs of hosts with buckets of their own. Two pairs may share one.
const PAIRS: usize = 256;
/// Time is counted in units of 2^20 ns, about a millisecond.
const UNIT: u32 = 20;

/// How much a message is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Nothing suggests that anything is wrong.
    Early,
    /// A flow is to be protected from now on.
    Open,
    /// The expected event is overdue.
    Late,
}

impl Need {
    /// The price, and the level from which on it is paid: the more a message is needed, the lower.
    const fn terms(self) -> (u64, u64) {
        match self {
            Self::Early => (PRICE * EARLY, MOST / 2),
            Self::Open => (PRICE, MOST / 4),
            Self::Late => (PRICE, PRICE),
        }
    }
}

/// A pair of hosts, by a hash of its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HostPair(u8);

impl HostPair {
    /// The pair whose addresses have this hash.
    pub const fn of_hash(hash: u64) -> Self {
        Self((hash % PAIRS as u64) as u8)
    }
}

/// A worker's buckets, in bytes of data that pay for messages.
///
/// All calls are about the pair of hosts that was [selected](Self::select) last.
#[derive(Clone, Debug)]
pub struct Allowance {
    /// What the data of a pair has earned.
    pairs: Box<[u64; PAIRS]>,
    pair: HostPair,
    /// The bucket of all pairs, when time was last added.
    common: u64,
    at: Time,
    /// Bytes that a unit of time earns; 0: no message is ever granted.
    rate: u64,
    /// Whether all messages are granted.
    is_ample: bool,
    /// How long the newest response took.
    rtt: Span,
}

impl Default for Allowance {
    fn default() -> Self {
        Self::new(Self::PER_SECOND)
    }
}

impl Allowance {
    /// Messages that time earns in a second: four frames with the answers. An empty bucket is full after a minute.
    pub const PER_SECOND: u32 = 2;
    /// Every message is granted: for tests of anything but the budget.
    pub const AMPLE: u32 = u32::MAX;

    /// Buckets of which time earns `per_second` messages, up to a million; [`AMPLE`](Self::AMPLE): all are granted; 0: none is ever granted, and a
    /// flow that awaits a reply waits for ever. That is for tests.
    pub fn new(per_second: u32) -> Self {
        let is_ample = per_second == Self::AMPLE;
        let per_second = u64::from(per_second.min(1_000_000));
        Self {
            is_ample,
            pairs: Box::new([0; PAIRS]),
            pair: HostPair::default(),
            common: MOST,
            at: Time::ZERO,
            rate: ((per_second * PRICE) << UNIT) / 1_000_000_000,
            rtt: Span::ZERO,
        }
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

    /// From now on, calls are about the flows between these hosts.
    #[inline]
    pub const fn select(&mut self, pair: HostPair) {
        self.pair = pair;
    }

    /// A data frame of `bytes` bytes passes (R-MSG-7).
    #[inline]
    pub fn earn(&mut self, bytes: usize) {
        self.pairs[usize::from(self.pair.0)] += (bytes as u64).min(FRAME);
    }

    /// Whether an early message would be granted.
    #[inline]
    pub fn may_be_early(&self, now: Time) -> bool {
        let level = self.own() + self.filled(self.units(now));
        self.is_ample || self.rate > 0 && level >= Need::Early.terms().1
    }

    /// Takes the cost of a message, or refuses.
    pub fn take(&mut self, need: Need, now: Time) -> bool {
        let units = self.units(now);
        self.common = self.filled(units);
        self.at += Span::from_nanos(units << UNIT);
        let (price, least) = need.terms();
        let may = self.rate > 0 && self.own() + self.common >= least;
        if may {
            self.pay(price);
        }
        may || self.is_ample
    }

    /// A message that is sent in any case: others wait for it to be paid.
    pub fn charge(&mut self) {
        self.pay(PRICE);
    }

    /// A packet was lost, and is sent again: the message that found it was worth its price (R-MSG-10).
    pub fn repay(&mut self) {
        self.pairs[usize::from(self.pair.0)] += PRICE;
    }

    /// What the pair has earned, as far as it is saved.
    #[inline]
    fn own(&self) -> u64 {
        self.pairs[usize::from(self.pair.0)].min(MOST)
    }

    fn pay(&mut self, price: u64) {
        let own = self.own();
        self.pairs[usize::from(self.pair.0)] = own.saturating_sub(price);
        self.common = self.common.saturating_sub(price.saturating_sub(own));
    }

    /// Units of time since some were last added.
    #[inline]
    fn units(&self, now: Time) -> u64 {
        now.since(self.at).as_nanos() >> UNIT
    }

    /// The bucket of all pairs with what time has earned.
    #[inline]
    fn filled(&self, units: u64) -> u64 {
        self.common.saturating_add(units.saturating_mul(self.rate)).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(1 << 40);

    /// How many are granted at `now`.
    fn granted(allowance: &mut Allowance, need: Need, now: Time) -> u64 {
        (0..100_000).take_while(|_| allowance.take(need, now)).count() as u64
    }

    #[test]
    fn what_is_needed_more_is_granted_from_a_lower_level() {
        let mut allowance = Allowance::default();
        assert!(allowance.may_be_early(NOW));
        // Each costs three: 128, 125, ... 65.
        assert_eq!(granted(&mut allowance, Need::Early, NOW), 22);
        assert!(!allowance.may_be_early(NOW));
        assert_eq!(granted(&mut allowance, Need::Open, NOW), 31);
        assert_eq!(granted(&mut allowance, Need::Late, NOW), 31);
        assert_eq!(granted(&mut allowance, Need::Early, NOW), 0);
    }

    #[test]
    fn a_minute_of_silence_fills_a_bucket() {
        let mut allowance = Allowance::default();
        granted(&mut allowance, Need::Late, NOW);
        let seconds = |n: u64| NOW + Span::from_nanos(n * 1_000_000_000);
        assert_eq!(granted(&mut allowance, Need::Late, seconds(10)), 19);
        assert_eq!(granted(&mut allowance, Need::Late, seconds(75)), 128);
        assert_eq!(granted(&mut allowance, Need::Late, seconds(1_000_000)), 128);
    }

    #[test]
    fn messages_are_a_twentieth_of_the_frames_and_a_hundredth_of_the_bytes_at_most() {
        for (bytes, frames) in [(64, 563), (256, 141), (750, 48), (4_200, 48)] {
            let mut allowance = Allowance::default();
            granted(&mut allowance, Need::Late, NOW);
            (0..frames - 1).for_each(|_| allowance.earn(bytes));
            assert!(!allowance.take(Need::Late, NOW), "{bytes} bytes");
            allowance.earn(bytes);
            assert!(allowance.take(Need::Late, NOW), "{bytes} bytes");
            assert!(!allowance.take(Need::Late, NOW), "{bytes} bytes");
            assert!(2.0 / frames as f64 <= 0.05 && 360.0 <= 0.0101 * (frames * bytes) as f64);
        }
    }

    #[test]
    fn what_a_pair_of_hosts_earns_is_its_own() {
        let mut allowance = Allowance::default();
        granted(&mut allowance, Need::Late, NOW);
        let [busy, quiet] = [1, 2].map(HostPair::of_hash);
        allowance.select(busy);
        (0..480).for_each(|_| allowance.earn(1_082));
        allowance.select(quiet);
        assert!(!allowance.take(Need::Late, NOW));
        allowance.select(busy);
        assert_eq!(granted(&mut allowance, Need::Late, NOW), 10);
    }

    #[test]
    fn the_first_messages_of_all_pairs_come_from_one_bucket() {
        let mut allowance = Allowance::default();
        let all = (0..300).map(|hash| {
            allowance.select(HostPair::of_hash(hash));
            granted(&mut allowance, Need::Late, NOW)
        });
        assert_eq!(all.sum::<u64>(), 128);
    }

    #[test]
    fn what_is_sent_in_any_case_is_paid_before_others() {
        let mut allowance = Allowance::default();
        assert!(allowance.take(Need::Late, NOW));
        (0..99).for_each(|_| allowance.charge());
        assert_eq!(granted(&mut allowance, Need::Late, NOW), 28);
        (0..100).for_each(|_| allowance.charge());
        (0..48).for_each(|_| allowance.earn(1_082));
        assert_eq!(granted(&mut allowance, Need::Late, NOW), 1, "no debts are kept");
    }

    #[test]
    fn a_message_that_finds_a_loss_is_paid_back() {
        let mut allowance = Allowance::default();
        granted(&mut allowance, Need::Late, NOW);
        for _ in 0..10 {
            allowance.repay();
            assert_eq!(granted(&mut allowance, Need::Late, NOW), 1);
        }
    }

    #[test]
    fn without_an_allowance_nothing_is_said() {
        let mut allowance = Allowance::new(0);
        (0..1_000_000).for_each(|_| allowance.earn(1_082));
        let late = Time::from_nanos(u64::MAX / 2);
        assert!(!allowance.may_be_early(late));
        assert!(!allowance.take(Need::Early, late));
        assert!(!allowance.take(Need::Late, late));
    }

    #[test]
    fn no_more_is_saved_than_a_bucket_holds() {
        let mut allowance = Allowance::default();
        (0..1_000_000).for_each(|_| allowance.earn(1_082));
        let later = Time::from_nanos(u64::MAX / 2);
        assert!(allowance.may_be_early(later));
        assert_eq!(granted(&mut allowance, Need::Late, later), 256);
    }
}
