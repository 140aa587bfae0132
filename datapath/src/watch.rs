//! Which pairs of hosts have the losses of their LANs repaired.

use arrayvec::ArrayVec;
use common::frame::Side;
use common::time::{Span, Time};
use common::wire::{Addr, Opcode, glance, host_pair};

/// Host pairs are told apart by this many bits of a hash: those that share a slot are repaired together.
const BITS: u32 = 12;
/// Time without a NAK after which a pair is no longer repaired.
const QUIET: Span = Span::from_millis(60_000);
/// Time after that in which messages of the peer about the pair are dropped: it leaves the pair at about the same
/// time, and may not have done so yet.
const REST: Span = Span::from_millis(2_000);
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
    /// Nowhere: a control message about packets that this box no longer looks at.
    Drop,
}

/// The host pairs that a box watches.
pub(crate) struct Watch {
    which: Which,
    opcode: Opcode,
    is_watched: Box<[bool]>,
    /// Of a watched pair, when its newest NAK came; of another, until when it rests.
    at: Box<[Time]>,
    next: usize,
    watched: u64,
}

impl Watch {
    /// No pair had a NAK. `opcode` is that of control messages.
    pub fn new(which: Which, opcode: Opcode) -> Self {
        let slots = 1 << BITS;
        Self {
            which,
            opcode,
            is_watched: vec![false; slots].into_boxed_slice(),
            at: vec![Time::ZERO; slots].into_boxed_slice(),
            next: 0,
            watched: 0,
        }
    }

    /// The way of a frame that came from `side`.
    #[inline]
    pub fn way(&mut self, side: Side, frame: &[u8], now: Time) -> Way {
        let Some(seen) = glance(frame) else { return Way::Direct };
        // R-TUN-27
        if self.which == Which::All {
            return Way::Repair;
        }
        let slot = slot(seen.hosts);
        let is_control = seen.opcode == self.opcode;
        if seen.is_loss_nak || is_control {
            return self.on_sign(slot, side, is_control, now);
        }
        if self.is_watched[slot] { Way::Repair } else { Way::Direct }
    }

    /// A NAK, or a control message: the peer repairs this pair. R-TUN-28
    #[cold]
    fn on_sign(&mut self, slot: usize, side: Side, is_control: bool, now: Time) -> Way {
        // The switch drops messages from hosts.
        if is_control && side == Side::Lan {
            return Way::Repair;
        }
        if !self.is_watched[slot] {
            if now < self.at[slot] {
                return if is_control { Way::Drop } else { Way::Direct };
            }
            self.is_watched[slot] = true;
            self.watched += 1;
            self.at[slot] = now;
        } else if !is_control {
            self.at[slot] = now;
        }
        Way::Repair
    }

    /// Leaves pairs without a recent NAK. Looks at a few slots, and returns a test for the hosts that it left.
    pub fn age(&mut self, now: Time) -> Option<impl Fn(Addr, Addr) -> bool + use<>> {
        let mut left = ArrayVec::<usize, STEP>::new();
        for _ in 0..STEP {
            let slot = self.next;
            self.next = (slot + 1) % self.at.len();
            if self.is_watched[slot] && now >= self.at[slot] + QUIET {
                self.leave(slot, now + REST);
                left.push(slot);
            }
        }
        (!left.is_empty()).then_some(move |a, b| left.contains(&slot(host_pair(a, b))))
    }

    /// Leaves all pairs. Returns whether there were any.
    pub fn clear(&mut self) -> bool {
        let had_some = self.watched > 0;
        self.is_watched.fill(false);
        self.at.fill(Time::ZERO);
        self.watched = 0;
        had_some
    }

    fn leave(&mut self, slot: usize, until: Time) {
        self.is_watched[slot] = false;
        self.watched -= 1;
        self.at[slot] = until;
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
