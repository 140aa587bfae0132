//! How frames are carried.

/// An encapsulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Ethernet,
    UdpV4,
    UdpV6,
}

impl Kind {
    /// Bytes in front of the shim.
    pub const fn shim_at(self) -> usize {
        match self {
            Self::Ethernet => 14,
            Self::UdpV4 => 42,
            Self::UdpV6 => 62,
        }
    }
}
