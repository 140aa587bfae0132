//! Messages of connection management: flows learn from them, and they are forwarded unchanged.

use common::frame::Side;
use common::ids::FlowId;
use common::metrics::Metric;
use common::wire::{Roce, cm, icrc_ok};

use crate::context::Context;
use crate::flow::coarse_time::CoarseTime;
use crate::flow::entry::{Announced, By, Entry, FlowState};
use crate::flow::key::Hosts;
use crate::io::Io;
use crate::qp::cm::{Connection, Event};

/// Reads connection management from a packet that isn't RC, and returns the class that
/// the packet is forwarded in. Packets held of flows that it ends are delivered first.
pub(crate) fn observe<I: Io>(
    cx: &mut Context<'_, I>,
    side: Side,
    bytes: &[u8],
    roce: &Roce,
) -> Metric {
    if cx.tx.releases.is_draining() || !cm::is_candidate(roce) {
        return Metric::PassedTransport;
    }
    let Some(message) = cm::read(bytes, roce) else { return Metric::PassedTransport };
    if !icrc_ok(bytes, roce) {
        return Metric::PassedBadIcrc;
    }
    let (hosts, now) = (Hosts::of(side, roce), cx.io.now());
    match cx.pairing.observe(&cx.flows.table, hosts, &message, now) {
        Some(Event::Established(connection)) => establish(cx, &connection),
        Some(Event::Ended(connection)) => end(cx, &connection),
        None => {}
    }
    Metric::PassedTransport
}

/// Two QPs are joined. The connections that had their numbers before are over, and packets
/// held of those are never delivered to the new one (R-INC-12, R-CM-3).
fn establish<I: Io>(cx: &mut Context<'_, I>, connection: &Connection) {
    cx.tx.counters.inc(Metric::FlowConnected);
    let keys = connection.directions.map(|direction| direction.key);
    let known = keys.map(|key| cx.flows.table.find(&key));
    for id in known.into_iter().flatten() {
        begin_anew(cx, id);
    }
    if known.iter().filter(|id| id.is_none()).count() > cx.flows.table.room() {
        return;
    }
    let [Some(there), Some(back)] = keys.map(|key| cx.entry(key)) else { return };
    if cx.flows.table.get(there).is_some_and(|entry| entry.peer() != Some(back)) {
        // The hosts' agreement is newer than the operator's configuration.
        for id in [there, back] {
            cx.pairing.unpair(&mut cx.flows.table, id, cx.io.now());
            if let Some(entry) = cx.flows.table.get_mut(id) {
                entry.named = false;
            }
        }
        cx.pair(there, back);
    }
    for (id, direction) in [there, back].into_iter().zip(&connection.directions) {
        if let Some(entry) = cx.flows.table.get_mut(id) {
            entry.seen = CoarseTime::at(cx.io.now());
            let first_psn = direction.first_psn;
            let announced = Announced::new(By::Hosts, first_psn, 0, connection.pmtu, None);
            entry.state = FlowState::Resting(announced);
        }
    }
}

/// A connection is over. Its flows begin anew with their next packets,
/// should there be any (R-CM-5).
fn end<I: Io>(cx: &mut Context<'_, I>, connection: &Connection) {
    cx.tx.counters.inc(Metric::FlowDisconnected);
    let [there, back] = connection.directions.map(|d| cx.flows.table.find(&d.key));
    // A number may be in use by a connection that was not seen being made.
    let is_in_use = |id: FlowId, other| match cx.flows.table.get(id).map(Entry::peer) {
        Some(None) => cx.flows.table.is_live(id, cx.io.now()),
        Some(peer) => peer != other,
        None => true,
    };
    let ends =
        [(there, back), (back, there)].map(|(id, other)| id.filter(|id| !is_in_use(*id, other)));
    for id in ends.into_iter().flatten() {
        cx.depot(id, |flow, cx| flow.bypass(cx));
        begin_anew(cx, id);
    }
}

/// Begins another incarnation of a flow: its next packet will be its first. Packets that
/// are still held are dropped.
fn begin_anew<I: Io>(cx: &mut Context<'_, I>, id: FlowId) {
    cx.discard(id);
    if let Some(entry) = cx.flows.table.get_mut(id) {
        entry.state = FlowState::Responses;
    }
    cx.begin_incarnation(id);
}
