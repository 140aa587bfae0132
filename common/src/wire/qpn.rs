//! Queue pair numbers.

use core::fmt;

/// A queue pair number (QPN): 24 bits, chosen by the adapter that has the queue pair, and
/// unique there alone (InfiniBand Architecture 9.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Qpn(u32);

impl Qpn {
    /// How many there are.
    pub const COUNT: u32 = 1 << 24;

    /// QP 1, that of the general service interface, on every port.
    pub const GSI: Self = Self(1);

    /// The QPN in the low 24 bits of `raw`.
    #[inline(always)]
    pub const fn new(raw: u32) -> Self {
        Self(raw & (Self::COUNT - 1))
    }

    /// The QPN `raw`, if it has no more than 24 bits.
    pub const fn checked(raw: u32) -> Option<Self> {
        if raw < Self::COUNT { Some(Self(raw)) } else { None }
    }

    /// The QPN `n` later, modulo 2^24: hosts that are modelled number their queue pairs in turn.
    pub const fn offset(self, n: u32) -> Self {
        Self::new(self.0.wrapping_add(n))
    }

    /// The value, below 2^24.
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}
