//! What an operator wants to know of a flow.

use common::frame::Frame;
use common::time::Span;

use crate::Flow;
use crate::incarnation::Bypassed;

/// Whether a flow is protected, or why it is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// A Depot answers.
    Protected,
    /// It is announced, and no Depot has answered yet.
    Seeking,
    /// No Depot answers.
    Absent,
    /// It is left to the RNICs.
    Left,
    /// It is bypassed until the path MTU is known.
    PathMtuUnknown,
    /// It is bypassed, as its source's LAN loses packets.
    Crowded,
    /// It is bypassed, as the cache is full.
    CacheFull,
    /// It is bypassed until its queue pair begins anew.
    NextIncarnation,
}

/// A flow in short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Whether it is protected.
    pub standing: Standing,
    /// Path MTU in bytes; 0: unknown.
    pub path_mtu: u16,
    /// The long-haul round trip, if it was measured on this flow.
    pub round_trip: Option<Span>,
    /// Packets in flight: the destination has not acknowledged them.
    pub held: u64,
    /// Packets that the Depot reported missing, and that had come here.
    pub lost: u32,
    /// Packets sent again from the cache.
    pub resent: u32,
}

impl<F: Frame> Flow<F> {
    /// The flow in short. It takes no longer for a flow with many packets in flight.
    pub fn summary(&self) -> Summary {
        let standing = match self.bypassed {
            Bypassed::No => self.discovery.standing(),
            Bypassed::UntilPathMtu => Standing::PathMtuUnknown,
            Bypassed::WhileCrowded => Standing::Crowded,
            Bypassed::WhileCacheIsFull => Standing::CacheFull,
            Bypassed::UntilNextIncarnation => Standing::NextIncarnation,
        };
        Summary {
            standing,
            path_mtu: self.pmtu.get(),
            round_trip: self.rtt(),
            held: self.window.filled() as u64,
            lost: self.lost,
            resent: self.resent,
        }
    }
}
