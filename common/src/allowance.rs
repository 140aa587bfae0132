//! Token buckets for the control messages of transparent modes.
//!
//! A SYNC and the STATUS that answers it are frames that a network without gateways does not carry. Data pays for
//! them: a pair of hosts has a bucket that its data frames fill, so that its messages are at most 5 % of its frames and
//! 1 % of its bytes. A bucket of the worker, which time fills, pays for the first messages of a pair and for a flow
//! that sends a packet now and then.

use crate::time::{Span, Time};

/// Bytes of data that pay for one message. A message is some 180 bytes on the wire: 0.8 %.
const PRICE: u64 = 22_500;
/// Most bytes that one frame earns at the box of its flow's Sentry: 3.2 % of the frames are messages.
const EARNED: u64 = 720;
/// A frame earns so many bits less at the Depot's box: another 0.8 % of the frames, and 0.2 % of the bytes.
const AT_DEPOT: u32 = 2;
const MOST: u64 = Allowance::SAVED as u64 * 2 * PRICE;
/// Pairs of hosts with buckets of their own. Two pairs may share one.
const PAIRS: usize = 256;
/// Time is counted in units of 2^20 ns, about a millisecond.
const UNIT: u32 = 20;

/// A message, by how much it is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// A STATUS without a SYNC, while nothing suggests that anything is wrong. Only the pair's own data pays for it.
    Status,
    /// A FETCH, which no STATUS answers, because responses are overdue.
    Fetch,
    /// A SYNC while nothing suggests that anything is wrong.
    Early,
    /// A SYNC of a flow that is to be protected from now on.
    Open,
    /// A SYNC because the expected event is overdue.
    Late,
}

impl Need {
    /// The price, and the level from which on it is paid: the more a message is needed, the lower.
    const fn terms(self) -> (u64, u64) {
        match self {
            Self::Status | Self::Fetch => (PRICE, PRICE),
            Self::Early => (PRICE * 2, MOST / 2),
            Self::Open => (PRICE * 2, MOST / 4),
            Self::Late => (PRICE * 2, PRICE * 2),
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
    /// Bytes earned by the data of each pair, and not spent.
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
    /// The worker does not keep up: only late messages are granted.
    is_overloaded: bool,
}

impl Default for Allowance {
    fn default() -> Self {
        Self::new(Self::PER_SECOND)
    }
}

impl Allowance {
    /// SYNCs with their STATUS that a full bucket pays for. The worker's is full at the start.
    pub const SAVED: u32 = 96;
    /// SYNCs with their STATUS that time earns in a second. An empty bucket is full after 48 s.
    pub const PER_SECOND: u32 = 2;
    /// Every message is granted: for tests of anything but the budget.
    pub const AMPLE: u32 = u32::MAX;

    /// Buckets for which time earns `per_second` SYNCs with their STATUS, up to a million; [`AMPLE`](Self::AMPLE): all are
    /// granted; 0: none is ever granted, and a flow that awaits a reply waits for ever. That is for tests.
    pub fn new(per_second: u32) -> Self {
        let is_ample = per_second == Self::AMPLE;
        let per_second = u64::from(per_second.min(1_000_000));
        Self {
            is_ample,
            pairs: Box::new([0; PAIRS]),
            pair: HostPair::default(),
            common: MOST,
            at: Time::ZERO,
            rate: ((per_second * PRICE * 2) << UNIT) / 1_000_000_000,
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

    /// From now on, calls are about the flows between these hosts.
    #[inline]
    pub const fn select(&mut self, pair: HostPair) {
        self.pair = pair;
    }

    /// A data frame of `bytes` bytes passes at the box of its flow's Sentry, else of its Depot (R-MSG-7).
    #[inline]
    pub fn earn(&mut self, bytes: usize, is_sentry: bool) {
        let bits = if is_sentry { 0 } else { AT_DEPOT };
        self.pairs[usize::from(self.pair.0)] += (bytes as u64).min(EARNED) >> bits;
    }

    /// Whether an early message would be granted.
    #[inline]
    pub fn may_be_early(&self, now: Time) -> bool {
        let level = self.own() + self.filled(self.units(now));
        let may = self.is_ample || self.rate > 0 && level >= Need::Early.terms().1;
        may && !self.is_overloaded
    }

    /// Takes the cost of a message, or refuses.
    pub fn take(&mut self, need: Need, now: Time) -> bool {
        let units = self.units(now);
        self.common = self.filled(units);
        self.at += Span::from_nanos(units << UNIT);
        let (price, least) = need.terms();
        let common = if need == Need::Status { 0 } else { self.common };
        if self.is_overloaded && !matches!(need, Need::Late | Need::Fetch) {
            return false;
        }
        let may = self.rate > 0 && self.own() + common >= least;
        if may {
            self.pay(price);
        }
        may || self.is_ample
    }

    /// A message that is sent in any case: others wait for it to be paid.
    pub fn charge(&mut self, need: Need) {
        self.pay(need.terms().0);
    }

    /// Level of the selected pair's bucket: a full one holds no more.
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
    fn a_worker_that_does_not_keep_up_is_granted_what_is_late() {
        let (mut allowance, now) = (Allowance::default(), Time::from_nanos(1_000_000_000));
        allowance.set_overloaded(true);
        assert!(!allowance.may_be_early(now) && !allowance.take(Need::Early, now));
        assert!(!allowance.take(Need::Open, now) && allowance.take(Need::Late, now));
        allowance.set_overloaded(false);
        assert!(allowance.may_be_early(now) && allowance.take(Need::Early, now));
    }

    #[test]
    fn what_is_needed_more_is_granted_from_a_lower_level() {
        let mut allowance = Allowance::default();
        assert!(allowance.may_be_early(NOW));
        // From 96 on, as long as 48 are left.
        assert_eq!(granted(&mut allowance, Need::Early, NOW), 49);
        assert!(!allowance.may_be_early(NOW));
        assert_eq!(granted(&mut allowance, Need::Open, NOW), 24);
        assert_eq!(granted(&mut allowance, Need::Late, NOW), 23);
        assert_eq!(granted(&mut allowance, Need::Early, NOW), 0);
    }

    #[test]
    fn only_data_pays_for_a_status_without_a_sync() {
        let mut allowance = Allowance::default();
        assert!(!allowance.take(Need::Status, NOW));
        (0..64).for_each(|_| allowance.earn(1_082, true));
        assert_eq!(granted(&mut allowance, Need::Status, NOW), 2);
    }

    #[test]
    fn a_minute_of_silence_fills_a_bucket() {
        let mut allowance = Allowance::default();
        granted(&mut allowance, Need::Late, NOW);
        let seconds = |n: u64| NOW + Span::from_nanos(n * 1_000_000_000);
        assert_eq!(granted(&mut allowance, Need::Late, seconds(10)), 19);
        assert_eq!(granted(&mut allowance, Need::Late, seconds(59)), 96);
        assert_eq!(granted(&mut allowance, Need::Late, seconds(1_000_000)), 96);
    }

    /// Bytes of a frame; frames that pay for a SYNC and its STATUS at the Sentry's box; for these at the Depot's.
    #[test]
    fn messages_are_a_twentieth_of_the_frames_and_a_hundredth_of_the_bytes_at_most() {
        for (bytes, at_sentry, at_depot) in
            [(64, 704, 2_813), (256, 176, 704), (720, 63, 250), (4_200, 63, 250)]
        {
            for (frames, is_sentry) in [(at_sentry, true), (at_depot, false)] {
                let mut allowance = Allowance::default();
                granted(&mut allowance, Need::Late, NOW);
                (0..frames - 1).for_each(|_| allowance.earn(bytes, is_sentry));
                assert!(!allowance.take(Need::Late, NOW), "{bytes} bytes");
                allowance.earn(bytes, is_sentry);
                assert!(allowance.take(Need::Late, NOW), "{bytes} bytes");
                assert!(!allowance.take(Need::Late, NOW), "{bytes} bytes");
            }
            let messages = 2.0 / f64::from(at_sentry) + 2.0 / f64::from(at_depot);
            assert!(messages <= 0.04 && messages * 180.0 <= 0.01 * bytes as f64, "{bytes} bytes");
        }
    }

    #[test]
    fn what_a_pair_of_hosts_earns_is_its_own() {
        let mut allowance = Allowance::default();
        granted(&mut allowance, Need::Late, NOW);
        let [busy, quiet] = [1, 2].map(HostPair::of_hash);
        allowance.select(busy);
        (0..625).for_each(|_| allowance.earn(1_082, true));
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
        assert_eq!(all.sum::<u64>(), 96);
    }

    #[test]
    fn what_is_sent_in_any_case_is_paid_before_others() {
        let mut allowance = Allowance::default();
        assert!(allowance.take(Need::Late, NOW));
        (0..69).for_each(|_| allowance.charge(Need::Open));
        assert_eq!(granted(&mut allowance, Need::Late, NOW), 26);
        (0..100).for_each(|_| allowance.charge(Need::Open));
        (0..63).for_each(|_| allowance.earn(1_082, true));
        assert_eq!(granted(&mut allowance, Need::Late, NOW), 1, "no debts are kept");
    }

    #[test]
    fn without_an_allowance_nothing_is_said() {
        let mut allowance = Allowance::new(0);
        (0..1_000_000).for_each(|_| allowance.earn(1_082, true));
        let late = Time::from_nanos(u64::MAX / 2);
        assert!(!allowance.may_be_early(late));
        assert!(!allowance.take(Need::Early, late));
        assert!(!allowance.take(Need::Late, late));
    }

    #[test]
    fn no_more_is_saved_than_a_bucket_holds() {
        let mut allowance = Allowance::default();
        (0..1_000_000).for_each(|_| allowance.earn(1_082, true));
        let later = Time::from_nanos(u64::MAX / 2);
        assert!(allowance.may_be_early(later));
        assert_eq!(granted(&mut allowance, Need::Late, later), 192);
    }
}
