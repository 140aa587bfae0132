//! Ways to recover from loss on a long link.

use serde::{Serialize, Serializer};

/// Who repairs the losses of the long-haul link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scheme {
    /// The same hosts on a link that loses nothing: the yardstick.
    Lossless,
    /// Go-back-N between the RNICs, one NAK per gap, as real ones do.
    Gbn,
    /// Go-back-N as the network simulators have it: a NAK every few
    /// microseconds as long as a gap is open, each obeyed.
    GbnReNak,
    /// Selective repeat in the RNIC (IRN): bitmap and BDP cap.
    Irn,
    /// Go-back-N, and a switch near the sender that reports loss before it and
    /// drops packets that the receiver would drop anyway.
    Slr,
    /// Switches that resend from a bounded buffer in the network.
    NetRt,
    /// LR2 as published: RNICs that know a switch's NAK, small pools, no second
    /// Depot-NACK.
    Lr2Paper,
    /// This product, the source resends.
    Lr2,
    /// This product, the Sentry resends.
    Cached,
    /// This product as it is set up by default: the Sentry resends packets in
    /// its cache, the source all others.
    Auto,
}

impl Scheme {
    /// All of them, in the order of tables and plots.
    pub const ALL: [Self; 10] = [
        Self::Lossless,
        Self::Gbn,
        Self::GbnReNak,
        Self::Irn,
        Self::Slr,
        Self::NetRt,
        Self::Lr2Paper,
        Self::Lr2,
        Self::Cached,
        Self::Auto,
    ];

    /// The word for it in scenarios, tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lossless => "lossless",
            Self::Gbn => "gbn",
            Self::GbnReNak => "gbn-renak",
            Self::Irn => "irn",
            Self::Slr => "slr",
            Self::NetRt => "netrt",
            Self::Lr2Paper => "lr2-paper",
            Self::Lr2 => "lr2",
            Self::Cached => "cached",
            Self::Auto => "auto",
        }
    }

    /// The scheme of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }
}

impl Serialize for Scheme {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
