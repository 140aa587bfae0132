//! Control messages of the peer.

use common::control::{
    Epoch, Fetch, Header, Message, Reason, Reject, Status, SyncMessage, claims_sync,
};
use common::frame::{Class, Frame, Side};
use common::ids::FlowId;
use common::metrics::Metric;
use common::time::Time;
use common::wire::{Headers, Qpn, Roce};

use crate::config::Recovery;
use crate::context::Context;
use crate::flow::entry::FlowState;
use crate::flow::key::{FlowKey, Hosts};
use crate::io::{Arrival, Io};
use crate::peer::RefusedMessage;
use crate::rx::request::{is_left_out, prepare};
use crate::tx::actions::Tx;
use crate::tx::peers::{Address, Refused};

/// A frame with the opcode of control messages. One that is ours ends here, also if it is
/// refused (R-CTL-1).
pub(crate) fn on_control<I: Io>(cx: &mut Context<'_, I>, arrival: Arrival<'_, I::Frame>) {
    let Arrival { side, frame, roce, .. } = arrival;
    let bytes = frame.bytes();
    if !cx.tx.peers.is_message(bytes, roce) {
        // Somebody else's use of the opcode.
        return cx.pass(side, frame, Metric::PassedTransport);
    }
    let booked = match side {
        // No host has anything to say to a gateway.
        Side::Lan => Metric::DropControlFromLan,
        Side::Wan => on_message(cx, bytes, roce),
    };
    cx.tx.counters.inc(booked);
}

/// A message in the name of a peer.
fn on_message<I: Io>(cx: &mut Context<'_, I>, bytes: &[u8], roce: &Roce) -> Metric {
    let (header, message) = match cx.tx.peers.decode(bytes, roce) {
        Some(Ok(message)) => message,
        Some(Err(reject)) => {
            refuse(cx, reject, bytes, roce);
            return rejected(reject);
        }
        None => return Metric::DropControlInvalid,
    };
    match cx.tx.peers.accept(&header, roce.src, cx.io.now()) {
        Err(Refused::Stranger) => return Metric::DropControlInvalid,
        Err(Refused::Replayed) => return Metric::DropControlReplayed,
        Ok(()) => {}
    }
    // While requests pass, a STATUS about them would mislead (R-CTL-5).
    let works = cx.config.recovery != Recovery::Off;
    let is_sentry = works && cx.config.role.is_sentry();
    let is_depot = works && cx.works_on(Side::Wan);
    match message {
        Message::Sync(sync) if is_depot => on_sync(cx, &header, &sync, bytes, roce),
        Message::Fetch(fetch) if is_depot => on_fetch(cx, &header, &fetch, roce),
        Message::Status(status) if is_sentry => on_status(cx, &header, &status, roce),
        Message::Absent(absent) if is_sentry => on_absent(cx, &header, &absent, roce),
        _ => Metric::DropControlUnknownFlow,
    }
}

/// Remembers a message that is refused. A SYNC with another key is answered, a few times a second, by a message that the other
/// box refuses in turn: so it learns that the keys differ, which it can't tell from silence. R-CTL-6
fn refuse<I: Io>(cx: &mut Context<'_, I>, reason: Reject, bytes: &[u8], roce: &Roce) {
    let refused = RefusedMessage { reason, address: roce.src, at: cx.io.now() };
    let is_due = cx.tx.peers.refused(refused);
    if !is_due || reason != Reject::BadTag || !claims_sync(bytes, roce) {
        return;
    }
    let headers = Headers::of(bytes, roce).reversed();
    let (qpn, epoch) = (roce.dest_qpn, Epoch(0));
    let to = Address { headers: &headers, qpn, node: None, dest_qpn: qpn, epoch };
    let status = Message::Status(Status::passive(Time::ZERO, None));
    let Tx { peers, counters, .. } = &mut *cx.tx;
    peers.send(counters, cx.io, &to, &status, Class::Data);
}

/// The flow that a SYNC is about, new if need be, with its pipeline.
fn flow_of_sync<I: Io>(
    cx: &mut Context<'_, I>,
    header: &Header,
    sync: &SyncMessage,
    bytes: &[u8],
    roce: &Roce,
) -> Option<FlowId> {
    let key = FlowKey { hosts: Hosts::of(Side::Wan, roce), dest_qpn: header.dest_qpn };
    let Some(next) = sync.next_psn else {
        // It vouches for resends only: a flow can't begin with it.
        return cx.flows.table.find(&key);
    };
    let found = cx.flows.table.find(&key);
    if is_left_out(cx, found) {
        return None;
    }
    let id = found.or_else(|| cx.entry(key))?;
    prepare(cx, id, next, bytes, roce);
    Some(id)
}

fn on_sync<I: Io>(
    cx: &mut Context<'_, I>,
    header: &Header,
    sync: &SyncMessage,
    bytes: &[u8],
    roce: &Roce,
) -> Metric {
    let Some(id) = flow_of_sync(cx, header, sync, bytes, roce) else {
        return Metric::DropControlUnknownFlow;
    };
    let incarnation = incarnation_of(header);
    let Some(FlowState::Depot(stage)) = cx.flows.table.get_mut(id).map(|entry| &mut entry.state)
    else {
        return Metric::DropControlUnknownFlow;
    };
    if stage.state.is_replaced_by(incarnation) {
        // Another incarnation may have another `src_qpn`, too.
        stage.node = Some(header.node);
        if let Some(next) = sync.next_psn {
            stage.track.arrived.reset(next);
        }
        cx.begin_incarnation(id);
    } else if stage.state.is_synced() && !stage.state.is_of(incarnation) {
        // Of an older one, overtaken.
        return Metric::DropSyncConsumed;
    } else {
        stage.node = Some(header.node);
    }
    adopt_src_qpn(cx, id, sync.src_qpn);
    // Otherwise it shows nothing of the way back.
    let hears = header.seen_boot == cx.tx.peers.boot();
    cx.depot(id, |flow, cx| match sync.reason {
        Reason::Release => flow.on_sync(cx, incarnation, sync),
        _ if hears => flow.on_sync(cx, incarnation, sync),
        _ => flow.on_unheard(cx, incarnation, sync),
    });
    if sync.reason == Reason::Release
        && let Some(entry) = cx.flows.table.get_mut(id)
    {
        // Nothing is held any more. The next SYNC may announce another incarnation, which
        // the acknowledgements so far are not for.
        entry.state = FlowState::Responses;
    }
    Metric::DropSyncConsumed
}

fn on_fetch<I: Io>(cx: &mut Context<'_, I>, header: &Header, fetch: &Fetch, roce: &Roce) -> Metric {
    let hosts = Hosts::of(Side::Wan, roce);
    let id = cx.flows.table.find(&FlowKey { hosts, dest_qpn: header.dest_qpn });
    match id.and_then(|id| Some((id, &cx.flows.table.get(id)?.state))) {
        Some((id, FlowState::Depot(stage))) if stage.state.is_of(incarnation_of(header)) => {
            cx.depot(id, |flow, cx| flow.on_fetch(cx, fetch));
            Metric::DropFetchConsumed
        }
        _ => Metric::DropControlUnknownFlow,
    }
}

// R-CTL-4
fn on_status<I: Io>(
    cx: &mut Context<'_, I>,
    header: &Header,
    status: &Status,
    roce: &Roce,
) -> Metric {
    let key = reported_flow(header, roce);
    if status.passive && header.seen_boot == cx.tx.peers.boot() {
        cx.tx.releases.answered(&key, header.epoch);
    }
    let Some(id) = sentry_of(cx, header, &key) else { return Metric::DropControlUnknownFlow };
    if let Some(FlowState::Sentry(stage)) = cx.flows.table.get_mut(id).map(|entry| &mut entry.state)
    {
        stage.node = Some(header.node);
        cx.tx.peers.learn_route(roce.src, header.node);
    }
    adopt_src_qpn(cx, id, status.src_qpn);
    let understood =
        cx.sentry(id, |flow, cx| (flow.on_status(cx, header.boot, status), flow.rtt()));
    match understood {
        Some((true, rtt)) => {
            cx.tx.peers.reported(header.node, cx.io.now(), rtt);
            if let Some(rtt) = rtt {
                cx.tx.counters.set(Metric::PathRtt, rtt.as_nanos());
            }
            Metric::DropStatusConsumed
        }
        _ => Metric::DropControlInvalid,
    }
}

fn on_absent<I: Io>(
    cx: &mut Context<'_, I>,
    header: &Header,
    absent: &Fetch,
    roce: &Roce,
) -> Metric {
    let Some(id) = sentry_of(cx, header, &reported_flow(header, roce)) else {
        return Metric::DropControlUnknownFlow;
    };
    cx.sentry(id, |flow, cx| flow.on_absent(cx, absent));
    Metric::DropAbsentConsumed
}

/// The flow whose reverse a Depot's message travels on.
fn reported_flow(header: &Header, roce: &Roce) -> FlowKey {
    FlowKey { hosts: Hosts::of(Side::Wan, roce).reversed(), dest_qpn: header.dest_qpn }
}

/// The Sentry's flow of a Depot's message, if it speaks of this incarnation of the flow, and to this
/// incarnation of this box.
fn sentry_of<I: Io>(cx: &Context<'_, I>, header: &Header, key: &FlowKey) -> Option<FlowId> {
    let id = cx.flows.table.find(key).filter(|_| header.seen_boot == cx.tx.peers.boot())?;
    match &cx.flows.table.get(id)?.state {
        FlowState::Sentry(stage) if stage.state.epoch() == header.epoch => Some(id),
        _ => None,
    }
}

/// The peer knows the `src_qpn` of flow `id` (R-PAIR-5).
fn adopt_src_qpn<I: Io>(cx: &mut Context<'_, I>, id: FlowId, qpn: Option<Qpn>) {
    let (Some(qpn), Some(entry)) = (qpn, cx.flows.table.get(id)) else { return };
    if entry.peer().is_some() {
        return;
    }
    let responses = FlowKey { hosts: entry.key.hosts.reversed(), dest_qpn: qpn };
    let Some(other) = cx.entry(responses) else { return };
    let Some(stream) = cx.flows.table.get(other).filter(|entry| entry.peer().is_none()) else {
        return;
    };
    let is_between = stream.ends_message;
    cx.pair(id, other);
    // R-PAIR-8
    if is_between {
        cx.sentry(id, |flow, _| flow.begin());
    }
}

const fn incarnation_of(header: &Header) -> depot::Incarnation {
    depot::Incarnation { node: header.node, boot: header.boot, epoch: header.epoch }
}

const fn rejected(reject: Reject) -> Metric {
    match reject {
        Reject::BadIcrc => Metric::DropControlBadIcrc,
        Reject::Truncated => Metric::DropControlTruncated,
        Reject::Version => Metric::DropControlVersion,
        Reject::BadTag => Metric::DropControlBadTag,
        Reject::Invalid => Metric::DropControlInvalid,
    }
}
