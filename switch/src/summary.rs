//! The flows as an operator sees them.

use common::frame::{Frame, Side};
use common::ids::FlowId;
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
    /// Path MTU in bytes, if it is known.
    pub path_mtu: Option<u16>,
    /// Round trip of the long haul, if it was measured on this flow.
    pub round_trip: Option<Span>,
    /// Packets that wait: at a Sentry in flight, at a Depot behind a gap.
    pub held: u64,
    /// Packets that were missing, since the flow was last at rest.
    pub lost: u32,
    /// Packets sent again, since then.
    pub resent: u32,
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
}

impl<F: Frame> Switch<F> {
    /// One past the largest index of a [flow](Self::flow). It does not fall.
    pub fn flows_end(&self) -> u32 {
        self.table().end()
    }

    /// The flow with an index, if there is one. Whoever goes through all of them takes a few at a time: each may be some cache
    /// misses.
    pub fn flow(&self, index: u32, now: Time) -> Option<FlowSummary> {
        let entry = self.table().get(FlowId(index))?;
        let FlowKey { hosts: Hosts { side, vlans, src, dst }, dest_qpn } = entry.key;
        let none = FlowSummary {
            side,
            source: src,
            destination: dst,
            vlans,
            destination_qpn: dest_qpn,
            source_qpn: entry.src_qpn(),
            stage: FlowStage::Responses,
            path_mtu: None,
            round_trip: None,
            held: 0,
            lost: 0,
            resent: 0,
            idle: entry.seen.since(now),
        };
        let known = |pmtu: u16| (pmtu != 0).then_some(pmtu);
        Some(match &entry.state {
            FlowState::Responses => none,
            FlowState::Resting(announced) => FlowSummary {
                stage: FlowStage::Resting,
                path_mtu: known(announced.pmtu()),
                round_trip: announced.rtt(),
                ..none
            },
            FlowState::Sentry(stage) => {
                let it = stage.state.summary();
                FlowSummary {
                    stage: FlowStage::Sentry(it.standing),
                    path_mtu: known(it.path_mtu),
                    round_trip: it.round_trip,
                    held: it.held,
                    lost: it.lost,
                    resent: it.resent,
                    ..none
                }
            }
            FlowState::Depot(stage) => {
                let it = stage.state.summary();
                FlowSummary {
                    stage: FlowStage::Depot { is_synced: it.is_synced },
                    path_mtu: known(it.path_mtu),
                    round_trip: it.round_trip,
                    held: it.held,
                    lost: it.lost,
                    resent: it.resent,
                    ..none
                }
            }
        })
    }
}
