//! The boxes at the other end, as they are known here: for an operator.

use common::control::{BootId, NodeId, Reject};
use common::time::{Span, Time};
use common::wire::Addr;

/// A box that hears this one names it in some message in such a time, as it does in each STATUS.
const HEARS: Span = Span::from_millis(30_000);

/// A box of which messages were accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerState {
    /// Its node id.
    pub node: NodeId,
    /// Its boot id.
    pub boot: BootId,
    /// The host in whose name its newest message came.
    pub address: Addr,
    /// When that came.
    pub heard: Time,
    /// When a message of it last named this boot of this box: the way back works.
    pub named_us: Option<Time>,
    /// When its newest STATUS about a flow of ours came.
    pub reported: Option<Time>,
    /// Round trip to it, measured by the flow of that STATUS.
    pub round_trip: Option<Span>,
}

impl PeerState {
    /// Whether it hears this box: one of its newest messages has named this boot.
    pub fn hears_us(&self) -> bool {
        self.named_us.is_some_and(|named_us| self.heard.since(named_us) < HEARS)
    }
}

/// A message that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedMessage {
    /// Why.
    pub reason: Reject,
    /// The host in whose name it came.
    pub address: Addr,
    /// When.
    pub at: Time,
}
