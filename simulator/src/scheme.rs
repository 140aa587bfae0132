//! The name of a way to recover from loss on a long link. [`crate::schemes`] has the model
//! behind each name.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;

/// A scheme, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Scheme(&'static str);

impl Scheme {
    /// The same hosts on a link that loses nothing: the yardstick.
    pub const LOSSLESS: Self = Self("lossless");
    /// Go-back-N between the RNICs, one NAK per gap, as real ones do.
    pub const GBN: Self = Self("gbn");
    /// Go-back-N with a NAK every few microseconds.
    pub const GBN_RENAK: Self = Self("gbn-renak");
    /// Selective repeat in the RNIC.
    pub const IRN: Self = Self("irn");
    /// Selective repeat with direct placement in the RNIC: an upper bound.
    pub const UET: Self = Self("uet");
    /// Feedback near the sender.
    pub const SLR: Self = Self("slr");
    /// Resends from buffers in the network.
    pub const NETRT: Self = Self("netrt");
    /// LR2 as published.
    pub const LR2_PAPER: Self = Self("lr2-paper");
    /// This product, the source resends.
    pub const LR2: Self = Self("lr2");
    /// This product, the Sentry resends.
    pub const CACHED: Self = Self("cached");
    /// This product as it is set up by default.
    pub const AUTO: Self = Self("auto");
    /// This product's tunnel.
    pub const TUNNEL: Self = Self("tunnel");
    /// Rerouting in the network, beside go-back-N between the RNICs. It is in none of the lists for any scenario, as it needs
    /// a WAN port for each path.
    pub const CONWEAVE: Self = Self("conweave");

    /// Those that come with the simulator and are for any scenario, in the order of tables and plots.
    pub const ALL: [Self; 12] = [
        Self::LOSSLESS,
        Self::GBN,
        Self::GBN_RENAK,
        Self::IRN,
        Self::UET,
        Self::SLR,
        Self::NETRT,
        Self::LR2_PAPER,
        Self::LR2,
        Self::CACHED,
        Self::AUTO,
        Self::TUNNEL,
    ];

    /// The scheme that a model calls itself; [`crate::schemes`] has all of them.
    pub(crate) const fn of(name: &'static str) -> Self {
        Self(name)
    }

    /// The word for it in scenarios, tables and files.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// The order of tables and plots: that of [`Scheme::ALL`], then by name.
impl Ord for Scheme {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |scheme: &Self| {
            Self::ALL.iter().position(|built_in| built_in == scheme).unwrap_or(usize::MAX)
        };
        (place(self), self.name()).cmp(&(place(other), other.name()))
    }
}

impl PartialOrd for Scheme {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
