//! Which pairs of hosts have the losses of their LANs repaired.

use common::frame::Side;
use common::time::{Span, Time};
use common::wire::{Opcode, glance};

/// Host pairs are told apart by this many bits of a hash: those that share a slot are repaired together.
const BITS: u32 = 12;
/// Time without a NAK after which a pair is no longer repaired.
const QUIET: Span = Span::from_millis(60_000);
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
    /// Time for which a pair that was left stays out: longer than the switch remembers its flows, since
    /// it would take the packets that it has not seen for lost.
    rest: Span,
    is_watched: Box<[bool]>,
    /// Of a watched pair, when its newest NAK came; of another, until when it rests.
    at: Box<[Time]>,
    next: usize,
    watched: u64,
}

impl Watch {
    /// No pair had a NAK. `opcode` is that of control messages; flows are forgotten after `flow_idle`.
    pub fn new(which: Which, opcode: Opcode, flow_idle: Span) -> Self {
        let slots = 1 << BITS;
        Self {
            which,
            opcode,
            rest: flow_idle * 2,
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
        if self.which == Which::All {
            return Way::Repair;
        }
        let slot = (seen.hosts >> (u32::BITS - BITS)) as usize;
        let is_control = seen.opcode == self.opcode;
        if seen.is_loss_nak || is_control {
            return self.on_sign(slot, side, is_control, now);
        }
        if self.is_watched[slot] { Way::Repair } else { Way::Direct }
    }

    /// A NAK, or a control message: the peer repairs this pair.
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

    /// Leaves pairs without a recent NAK, a few slots at a time, if the switch holds no frame.
    pub fn age(&mut self, now: Time, holds: bool) {
        for _ in 0..STEP {
            let slot = self.next;
            self.next = (slot + 1) % self.at.len();
            if self.is_watched[slot] && !holds && now >= self.at[slot] + QUIET {
                self.is_watched[slot] = false;
                self.watched -= 1;
                self.at[slot] = now + self.rest;
            }
        }
    }

    /// How many pairs are repaired; `None` if all are.
    pub fn pairs(&self) -> Option<u64> {
        (self.which == Which::AfterNak).then_some(self.watched)
    }
}
