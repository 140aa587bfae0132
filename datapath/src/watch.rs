//! Which pairs of hosts have the losses of their LANs repaired.

use arrayvec::ArrayVec;
use common::frame::Side;
use common::time::{Span, Time};
use common::wire::{Addr, Meta, Opcode, Sort, host_pair, hosts_of, is_message};

/// Host pairs are told apart by this many bits of a hash: those that share a slot are repaired together.
const BITS: u32 = 12;
/// Time without a NAK after which a pair is no longer repaired.
const QUIET: Span = Span::from_millis(60_000);
/// Time for which no pair is watched after all were left: to leave them takes a look at each flow, and forged packets may
/// have been the reason.
const PAUSE: Span = Span::from_millis(1_000);
/// Slots that one call of `age` looks at.
const STEP: usize = 64;

/// Which packets the LAN repair sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// All of RoCE.
    All,
    /// Those of two hosts, from a NAK for a lost packet between them until there was none for a minute.
    AfterNak,
}

/// The way of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Past the switch.
    Direct,
    /// Through the switch.
    Repair,
    /// Nowhere: a control message about packets that this box does not look at.
    Drop,
}

/// A pair of hosts, or several that share a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pair {
    /// Its packets pass.
    Unwatched,
    /// A host on this box's LAN has sent a NAK: this box sees each of them.
    Near,
    /// A host beyond the peer has. The peer keeps NAKs that it repairs, so its messages count.
    Far,
}

/// The host pairs that a box watches.
pub(crate) struct Watch {
    which: Which,
    opcode: Opcode,
    pairs: Box<[Pair]>,
    /// When the newest NAK came, or message where the NAKs are far.
    at: Box<[Time]>,
    next: usize,
    watched: u64,
    /// Slots of pairs that are left as soon as the switch has forgotten their flows.
    leaving: ArrayVec<usize, STEP>,
    /// No pair is watched before this time.
    not_before: Time,
}

impl Watch {
    /// No pair had a NAK. `opcode` is that of control messages.
    pub fn new(which: Which, opcode: Opcode) -> Self {
        let slots = 1 << BITS;
        Self {
            which,
            opcode,
            pairs: vec![Pair::Unwatched; slots].into_boxed_slice(),
            at: vec![Time::ZERO; slots].into_boxed_slice(),
            next: 0,
            watched: 0,
            leaving: ArrayVec::new(),
            not_before: Time::ZERO,
        }
    }

    /// Which packets it is for.
    pub const fn which(&self) -> Which {
        self.which
    }

    /// Whether frames of no pair go through the switch: then all but [notable](Sort::is_notable) ones pass it.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.watched == 0 && self.which == Which::AfterNak
    }

    /// The way of a frame that came from `side`.
    #[inline]
    pub fn way(&mut self, side: Side, frame: &[u8], now: Time) -> Way {
        let meta = Meta::of(frame);
        let Some(hosts) = meta.hosts() else { return Way::Direct };
        let slot = slot(hosts);
        if meta.sort == Sort::LossNak {
            self.on_nak(slot, side, now);
        } else if meta.sort == Sort::Manufacturer && self.is_message(frame) {
            return self.on_message(slot, side, now);
        }
        if self.pairs[slot] == Pair::Unwatched { Way::Direct } else { Way::Repair }
    }

    /// Whether `frame` is a control message.
    pub fn is_message(&self, frame: &[u8]) -> bool {
        is_message(frame, self.opcode)
    }

    /// R-TUN-28
    #[cold]
    fn on_nak(&mut self, slot: usize, side: Side, now: Time) {
        if now < self.not_before {
            return;
        }
        self.watched += u64::from(self.pairs[slot] == Pair::Unwatched);
        self.at[slot] = now;
        if side == Side::Lan {
            self.pairs[slot] = Pair::Near;
        } else if self.pairs[slot] == Pair::Unwatched {
            self.pairs[slot] = Pair::Far;
        }
    }

    /// A control message. The switch drops those of hosts.
    #[cold]
    fn on_message(&mut self, slot: usize, side: Side, now: Time) -> Way {
        match self.pairs[slot] {
            _ if side == Side::Lan => Way::Repair,
            Pair::Unwatched => Way::Drop,
            Pair::Near => Way::Repair,
            Pair::Far => {
                self.at[slot] = now;
                Way::Repair
            }
        }
    }

    /// Looks at a few slots for pairs without a recent NAK, and returns a test for their hosts. They are watched until
    /// [`leave`](Self::leave) is called: their flows are to be forgotten before.
    pub fn age(&mut self, now: Time) -> Option<impl Fn(Addr, Addr) -> bool + use<>> {
        for _ in 0..STEP {
            let slot = self.next;
            self.next = (slot + 1) % self.at.len();
            if self.is_quiet(slot, now) {
                self.leaving.push(slot);
            }
        }
        let left = self.leaving.clone();
        (!left.is_empty()).then_some(move |a, b| left.contains(&slot(host_pair(a, b))))
    }

    /// Leaves the pairs that [`age`](Self::age) has found, but for those with a NAK since.
    pub fn leave(&mut self, now: Time) {
        for slot in core::mem::take(&mut self.leaving) {
            if self.is_quiet(slot, now) {
                self.pairs[slot] = Pair::Unwatched;
                self.watched -= 1;
            }
        }
    }

    fn is_quiet(&self, slot: usize, now: Time) -> bool {
        self.pairs[slot] != Pair::Unwatched && now >= self.at[slot] + QUIET
    }

    /// Whether packets of the hosts of a frame go through the switch because of a NAK.
    pub fn is_watched(&self, frame: &[u8]) -> bool {
        hosts_of(frame).is_some_and(|hosts| self.pairs[slot(hosts)] != Pair::Unwatched)
    }

    /// Leaves all pairs, and watches none for a while. Returns whether there were any.
    pub fn clear(&mut self, now: Time) -> bool {
        let had_some = self.watched > 0;
        if had_some {
            self.pairs.fill(Pair::Unwatched);
            self.watched = 0;
            self.leaving.clear();
            self.not_before = now + PAUSE;
        }
        had_some
    }

    /// How many pairs are repaired; `None` if all are.
    pub fn pairs(&self) -> Option<u64> {
        (self.which == Which::AfterNak).then_some(self.watched)
    }
}

/// The slot of two hosts with this hash.
const fn slot(hosts: u32) -> usize {
    (hosts >> (u32::BITS - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-TUN-28
    #[test]
    fn once_all_were_left_none_is_watched_for_a_second() {
        let start = Time::ZERO + QUIET;
        let mut watch = Watch::new(Which::AfterNak, Opcode(0xff));
        assert!(!watch.clear(start), "there are none");
        watch.on_nak(3, Side::Lan, start);
        assert_eq!(watch.pairs(), Some(1), "and no pause");
        assert!(watch.clear(start));
        for (later, pairs) in [(0, 0), (999_999_999, 0), (1_000_000_000, 1)] {
            watch.on_nak(3, Side::Lan, start + Span::from_nanos(later));
            assert_eq!(watch.pairs(), Some(pairs), "after {later} ns");
        }
    }

    /// R-TUN-28
    #[test]
    fn a_pair_with_a_nak_while_its_flows_are_forgotten_is_not_left() {
        let start = Time::ZERO + QUIET;
        let mut watch = Watch::new(Which::AfterNak, Opcode(0xff));
        for slot in [3, 5] {
            watch.on_nak(slot, Side::Lan, start);
        }
        let now = start + QUIET;
        assert!(watch.age(now).is_some());
        assert_eq!(watch.pairs(), Some(2), "their flows are not forgotten yet");
        watch.on_nak(5, Side::Lan, now);
        watch.leave(now);
        assert_eq!((watch.pairs(), watch.pairs[5]), (Some(1), Pair::Near));
    }
}
