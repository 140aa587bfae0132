//! What an operator is shown of a flow.

use common::frame::Frame;
use common::summary::Summary;

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
    /// The data of its hosts has not paid for control messages yet.
    Deferred,
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
    /// The flow is bypassed until its queue pair begins anew: its source repeats single packets.
    SelectiveRepeat,
}

impl<F: Frame> Flow<F> {
    /// Whether the flow is protected, or why it is not.
    pub fn standing(&self) -> Standing {
        match self.bypassed {
            Bypassed::No => self.discovery.standing(),
            Bypassed::UntilPathMtu => Standing::PathMtuUnknown,
            Bypassed::WhileCrowded => Standing::Crowded,
            Bypassed::WhileCacheIsFull => Standing::CacheFull,
            Bypassed::UntilNextIncarnation => Standing::NextIncarnation,
            Bypassed::SelectiveRepeat => Standing::SelectiveRepeat,
        }
    }

    /// The flow in short. It takes no longer for a flow with many packets in flight.
    pub fn summary(&self) -> Summary {
        let pmtu = self.pmtu.get();
        Summary {
            path_mtu: (pmtu != 0).then_some(pmtu),
            round_trip: self.rtt(),
            held: self.window.filled() as u64,
            lost: self.lost,
            resent: self.resent,
        }
    }
}
