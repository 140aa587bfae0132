//! The path MTU of a flow: without it, it can't be told how many PSNs a READ
//! request takes.

use common::psn::Psn;
use common::wire::{Look, PacketKind, Roce};

/// READ requests in a row that must agree. A lost one looks like a smaller
/// path MTU, once.
const STREAK: u8 = 3;
/// All that there are.
const ALL: [u16; 5] = [256, 512, 1024, 2048, 4096];

/// The path MTU, as far as it is known. In as little room as it takes: it is in the first cache line of a flow.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C, packed)]
pub(crate) struct PathMtu {
    known: u16,
    /// Whether a [guess](Guess) is being made, so that it need not be looked at.
    guesses: bool,
}

/// What READ requests have told of a path MTU that is not known.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Guess {
    /// The READ request before, and its length in bytes.
    last: Option<(Psn, u32)>,
    pmtu: u16,
    streak: u8,
}

impl PathMtu {
    /// In bytes; 0 while it is unknown.
    pub const fn get(&self) -> u16 {
        self.known
    }

    /// Whether there is nothing to learn from a packet.
    #[inline]
    pub fn knows(&self, look: &Look) -> bool {
        self.is_filled(look.payload.into()) || self.agrees(look)
    }

    /// Whether a packet's payload is as long as the path MTU allows, which says nothing new.
    fn is_filled(&self, payload: usize) -> bool {
        self.known != 0 && usize::from(self.known) == payload
    }

    #[inline(never)]
    fn agrees(&self, look: &Look) -> bool {
        match self.known {
            0 => !self.guesses && look.path_mtu().is_none(),
            known => look.path_mtu().is_none_or(|pmtu| pmtu == known),
        }
    }

    /// Somebody knows.
    pub fn set(&mut self, pmtu: u16) {
        self.known = pmtu;
    }

    /// Learns from a packet: first and middle ones are full, and the PSN steps
    /// from READ request to READ request tell as well.
    #[inline]
    pub fn learn(&mut self, guess: &mut Guess, roce: &Roce, frame: &[u8]) {
        if !self.is_filled(roce.payload_len()) {
            self.learn_from(guess, roce, frame);
        }
    }

    // R-READ-3
    fn learn_from(&mut self, guess: &mut Guess, roce: &Roce, frame: &[u8]) {
        if let Some(pmtu) = roce.path_mtu() {
            self.known = pmtu;
        }
        if self.known != 0 {
            return;
        }
        let request = match roce.kind() {
            PacketKind::ReadRequest => roce.reth(frame).map(|reth| (roce.psn, reth.len)),
            _ => None,
        };
        self.guesses = request.is_some();
        if let Some((psn, len)) = core::mem::replace(&mut guess.last, request) {
            self.known = guess.step(roce.psn.distance(psn), len).unwrap_or(0);
        }
    }
}

impl Guess {
    /// A READ of `len` bytes took `step` PSNs. Returns the path MTU, if it is certain.
    fn step(&mut self, step: i32, len: u32) -> Option<u16> {
        let fits = |pmtu: &u16| len.div_ceil((*pmtu).into()).max(1).try_into() == Ok(step);
        let mut all = ALL.into_iter().filter(fits);
        match (all.next(), all.next()) {
            (Some(pmtu), None) if pmtu == self.pmtu => self.streak += 1,
            (Some(pmtu), None) => (self.pmtu, self.streak) = (pmtu, 1),
            // Several fit: this proves nothing.
            (Some(_), Some(_)) => {}
            (None, _) => self.streak = 0,
        }
        (self.streak >= STREAK).then_some(self.pmtu)
    }
}
