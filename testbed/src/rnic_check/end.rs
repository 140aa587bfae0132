//! The two ends of the wire.

use serde::Serialize;

/// A port of the wire, and the host behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum End {
    /// The first port.
    A,
    /// The second port.
    B,
}

impl End {
    /// Both, A first.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// 0 for A, 1 for B.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::A { "A" } else { "B" })
    }
}
