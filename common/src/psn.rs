//! Packet sequence numbers: 24 bits on the wire, unwrapped to 64 bits inside.
//!
//! A pipeline unwraps a PSN once, next to a sequence number it already knows,
//! and from then on compares plain integers.

use core::fmt;
use core::ops::{Add, Sub};

use crate::time::Span;
use crate::wire::MAX_SPAN;

/// A PSN as it stands in a BTH: 24 bits, serial arithmetic with a window of
/// 2^23 (InfiniBand Architecture 9.7.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// Number of different PSNs.
    pub const MODULUS: u32 = 1 << 24;

    /// The PSN in the low 24 bits of `raw`.
    pub const fn new(raw: u32) -> Self {
        Self(raw & (Self::MODULUS - 1))
    }

    /// The value, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Signed serial distance `self - other`, in −2^23 ..= 2^23 − 1.
    pub const fn distance(self, other: Self) -> i32 {
        (self.0.wrapping_sub(other.0) << 8) as i32 >> 8
    }

    /// The PSN `n` later, modulo 2^24.
    pub const fn offset(self, n: u32) -> Self {
        Self::new(self.0.wrapping_add(n))
    }

    /// The PSN before this one, modulo 2^24.
    pub const fn prev(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }

    /// The sequence number with this PSN that lies closest to `near`.
    pub const fn unwrap_near(self, near: Seq) -> Seq {
        Seq(near.0.wrapping_add_signed(self.distance(near.psn()) as i64))
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A PSN unwrapped to 64 bits. Its low 24 bits are the PSN on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seq(u64);

impl Seq {
    /// The first sequence number of a flow that starts at `psn`. It lies so
    /// far from both ends that neither is reached: 2^40 packets are
    /// 15 days at 100 Mpps.
    pub const fn first(psn: Psn) -> Self {
        Self((1 << 40) + psn.get() as u64)
    }

    /// The PSN on the wire.
    pub const fn psn(self) -> Psn {
        Psn::new((self.0 & 0xff_ffff) as u32)
    }

    /// The bare number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// How many PSNs lie between `earlier` and `self`; zero if it is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The number before this one.
    pub const fn prev(self) -> Self {
        Self(self.0 - 1)
    }

    /// The number after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// By how many PSNs a flow may leap, at most, if its newest packet came so long ago: with
/// the longest READ request lost, and with as many as 400 Gbit/s carry of 1 KiB packets in
/// that time. A packet that leaps further is not the next one of that flow.
pub const fn reach(silence: Span) -> u64 {
    const NANOS_PER_PACKET: u64 = 20;
    MAX_SPAN as u64 + silence.as_nanos() / NANOS_PER_PACKET
}

impl Add<u64> for Seq {
    type Output = Self;
    fn add(self, rhs: u64) -> Self {
        Self(self.0 + rhs)
    }
}

impl Sub<u64> for Seq {
    type Output = Self;
    fn sub(self, rhs: u64) -> Self {
        Self(self.0 - rhs)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#08x}", self.0 >> 24, self.psn().get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn distance_wraps() {
        assert_eq!(Psn::new(0).distance(Psn::new(0xff_ffff)), 1);
        assert_eq!(Psn::new(0xff_ffff).distance(Psn::new(0)), -1);
        assert_eq!(Psn::new(0x80_0000).distance(Psn::new(0)), -0x80_0000);
    }

    proptest! {
        #[test]
        fn unwrapping_inverts_wrapping(start in 0u32..Psn::MODULUS, at in 0u64..1 << 30, off in -0x80_0000i64..0x80_0000) {
            let near = Seq::first(Psn::new(start)) + at;
            let seq = Seq(near.0.wrapping_add_signed(off));
            prop_assert_eq!(seq.psn().unwrap_near(near), seq);
        }

        #[test]
        fn serial_order_is_antisymmetric(a in 0u32..Psn::MODULUS, b in 0u32..Psn::MODULUS) {
            let (a, b) = (Psn::new(a), Psn::new(b));
            if a.distance(b) != -0x80_0000 {
                prop_assert_eq!(a.distance(b), -b.distance(a));
            }
        }
    }
}
