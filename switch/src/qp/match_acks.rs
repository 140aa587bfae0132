//! Pairs flows by their acknowledgements.
//!
//! Data packets don't carry the `src_qpn`, but a NAK needs it. It is found by matching the
//! responses of an unknown stream against the PSNs that the flows between the same two hosts
//! have sent (docs/protocol.md). A response can't be for a packet that was not sent yet: a flow
//! that it doesn't fit is ruled out for good. (A PSN before the first packet seen rules nothing
//! out: packets overtake each other, and boxes restart. Packets that arrived here count, also
//! if a pipeline dropped them.) Only when a single flow is left, and several different responses
//! have confirmed it, are the two paired. While there is doubt no NAK is made: one that reaches
//! a wrong queue pair would complete messages that were never delivered.
//!
//! All this takes for granted that the flow in question was seen. Where a box has just started
//! or a queue pair was reset, responses to earlier packets may still come for a round trip: so long nothing
//! is ruled out, since a source that goes back is seen to have sent less than it has; and
//! the confirmations must last longer than that.

use arrayvec::ArrayVec;
use common::frame::{Frame, Side};
use common::ids::FlowId;
use common::metrics::Counters;
use common::time::{Span, Time};

use crate::flow::entry::Track;
use crate::flow::key::Hosts;
use crate::flow::matching::Matching;
use crate::flow::psn_range::ResponseInfo;
use crate::flow::table::Table;
use crate::qp::pairing::Pairing;

/// Between hosts with more unknown flows than this nothing is matched.
const MAX_SCAN: usize = 64;
/// For how long a pairing has to be confirmed, at most, where the destination is on the LAN.
const NEAR: Span = Span::from_millis(10);

impl Pairing {
    /// Takes in a response of the stream `id`. Returns the flow that the stream belongs to,
    /// once that is sure; they are then paired.
    pub fn match_response<F: Frame>(
        &mut self,
        table: &mut Table<F>,
        counters: &mut Counters,
        id: FlowId,
        response: &ResponseInfo,
        now: Time,
    ) -> Option<FlowId> {
        let hosts = table.get(id)?.key.hosts.reversed();
        // R-PAIR-7
        if self.may_be_older(&hosts, now) {
            let [only] = self.unpaired(&hosts) else { return None };
            fits(table, *only, response)?;
        }
        let entry = table.get_mut(id)?;
        let new = || Box::new(Matching::new(response.psn, now));
        let mut matching = entry.matching.take().unwrap_or_else(new);
        self.consider(table, &mut matching, &hosts, response)?;
        let confirms = |flow| track(table, flow).is_some_and(|it| it.arrived.is_answered(response));
        if let Some(flow) = matching.note(response.psn, confirms, now) {
            let same_port = fits(table, flow, response) == Some(response.src_port);
            if matching.is_confirmed(same_port, self.spread(hosts.side), now) {
                self.pair(table, counters, flow, id, now);
                return Some(flow);
            }
        }
        table.get_mut(id)?.matching = Some(matching);
        None
    }

    /// Rules out candidates, and adds flows that have begun since. `None` if they are too many
    /// (R-PAIR-3).
    fn consider<F: Frame>(
        &self,
        table: &Table<F>,
        matching: &mut Matching,
        hosts: &Hosts,
        response: &ResponseInfo,
    ) -> Option<()> {
        matching.rule_out(|id| {
            table.get(id).is_some_and(|flow| flow.key.hosts == *hosts)
                && fits(table, id, response).is_some()
        });
        let considered = matching.considered();
        if considered == table.generation() {
            return Some(());
        }
        let flows = self.unpaired(hosts);
        // R-PAIR-2
        if flows.len() > MAX_SCAN {
            return None;
        }
        let is_young = |id| table.get(id).is_some_and(|flow| flow.born > considered);
        let young = flows.iter().copied().filter(|id| is_young(*id));
        let possible = young.filter(|id| fits(table, *id, response).is_some());
        matching.consider(possible, table.generation())
    }

    /// How far apart confirmations lie at least: more than a round trip. The requests of the
    /// flow arrive on `side`.
    pub(super) fn spread(&self, side: Side) -> Span {
        match side {
            Side::Lan => self.longest_trip,
            Side::Wan => self.longest_trip.min(NEAR),
        }
    }

    /// The flows between `hosts` with unknown `src_qpn` that `response` may be for.
    pub fn possible_flows<F: Frame>(
        &self,
        table: &Table<F>,
        hosts: &Hosts,
        response: &ResponseInfo,
    ) -> ArrayVec<FlowId, MAX_SCAN> {
        let flows = self.unpaired(hosts).iter().take(MAX_SCAN).copied();
        flows.filter(|id| fits(table, *id, response).is_some()).collect()
    }
}

fn track<F: Frame>(table: &Table<F>, id: FlowId) -> Option<&Track> {
    table.get(id)?.state.track()
}

/// The UDP source port of flow `id`, if its `src_qpn` is unknown and `response` may be for it.
fn fits<F: Frame>(table: &Table<F>, id: FlowId, response: &ResponseInfo) -> Option<u16> {
    let entry = table.get(id).filter(|entry| entry.peer().is_none() && !entry.named)?;
    let track = entry.state.track()?;
    track.arrived.may_be_answered(response).then_some(track.src_port)
}
