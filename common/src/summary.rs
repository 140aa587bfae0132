//! What an operator is shown of a flow's recovery: the same at a Sentry and at a Depot.

use crate::time::Span;

/// One flow's recovery.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Path MTU in bytes, if it is known.
    pub path_mtu: Option<u16>,
    /// Round trip of the long haul, if it was measured on this flow.
    pub round_trip: Option<Span>,
    /// Packets that wait: at a Sentry for the destination's ACK, at a Depot behind a gap.
    pub held: u64,
    /// Packets that were missing, since the flow was last at rest: at a Sentry those that the Depot reported, at a Depot
    /// those that did not come in order, or of which the Sentry reported that they were sent.
    pub lost: u32,
    /// Packets sent again since then: from the cache, or behind the Depot.
    pub resent: u32,
}
