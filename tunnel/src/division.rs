//! How the flows between two boxes are divided into tunnels.
//!
//! Two boxes have one tunnel or several, each with a session and lanes of its own, so that several workers can share the
//! work: all frames of two hosts belong to one tunnel, and a tunnel to one worker. Both boxes have the same
//! division, whatever their numbers of workers. R-TUN-41

use common::wire::{BUCKETS, Spread};

use crate::message;
use crate::number::Session;
use crate::shim;

/// The flows of each of the tunnels between two boxes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    /// A power of two.
    tunnels: u8,
    spread: Spread,
}

impl Division {
    /// Most tunnels.
    pub const COUNT_MAX: u8 = BUCKETS as u8;
    /// One tunnel with all flows.
    pub const NONE: Self = Self { tunnels: 1, spread: Spread::Mixed };

    /// So many tunnels, a power of two and [`COUNT_MAX`](Self::COUNT_MAX) at most, with flows by their addresses as
    /// `spread` says.
    pub const fn new(tunnels: u8, spread: Spread) -> Option<Self> {
        match tunnels {
            1 => Some(Self::NONE),
            2..=Self::COUNT_MAX if tunnels.is_power_of_two() => Some(Self { tunnels, spread }),
            _ => None,
        }
    }

    /// How many there are.
    #[inline]
    pub const fn tunnels(self) -> u8 {
        self.tunnels
    }

    /// Each part.
    pub fn parts(self) -> impl Iterator<Item = Part> + Clone {
        (0..self.tunnels).map(move |index| Part { division: self, index })
    }

    /// The tunnel of a frame as hosts send it.
    #[inline]
    pub fn of_frame(self, frame: &[u8]) -> u8 {
        match self.tunnels {
            1 => 0,
            tunnels => self.spread.bucket(frame) as u8 & (tunnels - 1),
        }
    }

    /// The tunnel of a shim or control message, which `bytes` begins with; any, if it is faulty. R-TUN-42
    #[inline]
    pub(crate) fn of_shim(self, bytes: &[u8]) -> u8 {
        let at = if shim::is_control(bytes) { message::TUNNEL_AT } else { shim::SESSION_END };
        bytes.get(at).copied().unwrap_or(0) & (self.tunnels - 1)
    }

    /// Its transmitted form: the binary logarithm of the number of tunnels, and bit 7 for [`Spread::Mixed`]; 0 with one
    /// tunnel.
    pub(crate) const fn code(self) -> u8 {
        match (self.tunnels, self.spread) {
            (1, _) => 0,
            (tunnels, Spread::Rss) => tunnels.trailing_zeros() as u8,
            (tunnels, Spread::Mixed) => 1 << 7 | tunnels.trailing_zeros() as u8,
        }
    }
}

/// One of the tunnels between two boxes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    division: Division,
    index: u8,
}

impl Part {
    /// The only tunnel.
    pub const WHOLE: Self = Self { division: Division::NONE, index: 0 };

    /// The division that it is a part of.
    pub const fn division(self) -> Division {
        self.division
    }

    /// Its number, from 0 on.
    #[inline]
    pub const fn index(self) -> u8 {
        self.index
    }

    /// The session with these bits, but for the low ones, which say which tunnel it is.
    pub(crate) const fn session(self, bits: u32) -> Session {
        let low = self.division.tunnels as u32 - 1;
        Session::new(bits & !low | self.index as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_division_is_by_a_power_of_two() {
        for tunnels in 0..=u8::MAX {
            let is_valid = [1, 2, 4, 8, 16, 32, 64].contains(&tunnels);
            assert_eq!(Division::new(tunnels, Spread::Rss).is_some(), is_valid, "{tunnels}");
        }
        let all =
            [1, 2, 4, 8, 16, 32, 64].into_iter().filter_map(|n| Division::new(n, Spread::Rss));
        let mut codes: Vec<_> = all.map(Division::code).collect();
        codes.extend(Division::new(4, Spread::Mixed).map(Division::code));
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 0x82]);
        assert_eq!(Division::new(1, Spread::Rss), Division::new(1, Spread::Mixed));
    }
}
