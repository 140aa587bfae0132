//! The flows as an operator sees them.

use common::frame::{Frame, Side};
use common::ids::FlowId;
use common::summary::Summary;
use common::time::{Span, Time};
use common::wire::{Addr, Qpn, Vlans};
use sentry::Standing;

use crate::flow::entry::FlowState;
use crate::flow::key::{FlowKey, Hosts};
use crate::switch::Switch;

/// One direction of a queue pair.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowSummary {
    /// The port that its packets arrive on.
    pub side: Side,
    /// The host that sends them.
    pub source: Addr,
    /// The host that they go to.
    pub destination: Addr,
    /// VLAN ids.
    pub vlans: Vlans,
    /// The queue pair that they go to.
    pub destination_qpn: Qpn,
    /// The queue pair that sends them, if it is known.
    pub source_qpn: Option<Qpn>,
    /// How far it has come.
    pub stage: FlowStage,
    /// Its recovery.
    pub recovery: Summary,
    /// Time since its newest packet, to a millisecond.
    pub idle: Span,
}

/// How far a flow's requests have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowStage {
    /// No request was seen: responses may travel in its direction.
    Responses,
    /// Nothing was sent for long, and it is known how its next request begins.
    Resting,
    /// Its requests leave for the long-haul link.
    Sentry(Standing),
    /// Its requests arrive from the long-haul link.
    Depot {
        /// A Sentry has announced it: else all of it passes.
        is_synced: bool,
    },
    /// The operator has left it to the RNICs.
    Unprotected,
    /// The operator has it protected again: it is from its next packet on.
    Awaited,
}

/// The name of a flow: one direction of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowName {
    /// The port that its packets arrive on.
    pub side: Side,
    /// The host that sends them.
    pub source: Addr,
    /// The host that they go to.
    pub destination: Addr,
    /// VLAN ids.
    pub vlans: Vlans,
    /// The queue pair that they go to.
    pub destination_qpn: Qpn,
}

impl FlowSummary {
    /// Its name.
    pub const fn name(&self) -> FlowName {
        let Self { side, source, destination, vlans, destination_qpn, .. } = *self;
        FlowName { side, source, destination, vlans, destination_qpn }
    }
}

impl FlowName {
    /// The key of its entry.
    pub(crate) const fn key(&self) -> FlowKey {
        let Self { side, source: src, destination: dst, vlans, destination_qpn } = *self;
        FlowKey { hosts: Hosts { side, vlans, src, dst }, dest_qpn: destination_qpn }
    }
}

impl<F: Frame> Switch<F> {
    /// One past the largest index of a [flow](Self::flow). It does not fall.
    pub fn flows_end(&self) -> u32 {
        self.table().end()
    }

    /// The flow with an index, if there is one. A caller that goes through all flows takes a few at a time: each costs some
    /// cache misses.
    pub fn flow(&self, index: u32, now: Time) -> Option<FlowSummary> {
        let entry = self.table().get(FlowId(index))?;
        let FlowKey { hosts: Hosts { side, vlans, src, dst }, dest_qpn } = entry.key;
        let (stage, recovery) = match &entry.state {
            FlowState::Responses => (FlowStage::Responses, Summary::default()),
            FlowState::Resting(announced) => {
                let pmtu = announced.pmtu();
                let known = Summary {
                    path_mtu: (pmtu != 0).then_some(pmtu),
                    round_trip: announced.rtt(),
                    ..Summary::default()
                };
                (FlowStage::Resting, known)
            }
            FlowState::Left(left) if left.is_over => (FlowStage::Awaited, Summary::default()),
            FlowState::Left(_) => (FlowStage::Unprotected, Summary::default()),
            FlowState::Sentry(it) => (FlowStage::Sentry(it.state.standing()), it.state.summary()),
            FlowState::Depot(it) => {
                (FlowStage::Depot { is_synced: it.state.is_synced() }, it.state.summary())
            }
        };
        Some(FlowSummary {
            side,
            source: src,
            destination: dst,
            vlans,
            destination_qpn: dest_qpn,
            source_qpn: entry.src_qpn(),
            stage,
            recovery,
            idle: entry.seen.since(now),
        })
    }
}
