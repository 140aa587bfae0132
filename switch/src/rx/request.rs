//! Requests: SEND, WRITE, READ, atomic.

use common::frame::{Frame, Side};
use common::ids::FlowId;
use common::metrics::Metric;
use common::psn::Psn;
use common::wire::{Headers, NotRoce, Roce, icrc_ok};

use crate::context::Context;
use crate::flow::coarse_time::CoarseTime;
use crate::flow::entry::{Announced, By, FlowState, Stage, Track};
use crate::flow::key::FlowKey;
use crate::flow::psn_range::{PsnRange, WINDOW_MAX};
use crate::io::{Arrival, Io};

/// A request that does more than follow the one before.
#[inline(never)]
pub(crate) fn on_request<I: Io>(cx: &mut Context<'_, I>, arrival: Arrival<'_, I::Frame>) {
    let key = arrival.key();
    let Arrival { side, frame, roce, flow } = arrival;
    if side == Side::Lan && !may_have_peer(cx, flow, roce) {
        return cx.pass(side, frame, Metric::PassedPrefix);
    }
    if is_left_out(cx, flow) {
        return cx.pass(side, frame, Metric::PassedOverload);
    }
    if begins(cx, flow, roce) && !icrc_ok(frame.bytes(), roce) {
        // No flow and no incarnation begins on the word of a damaged packet (R-PASS-4).
        return cx.pass(side, frame, Metric::PassedBadIcrc);
    }
    let Some(id) = flow.or_else(|| entry_by_force(cx, key)) else {
        let why = if cx.flows.table.is_leaving(&key.hosts) {
            Metric::PassedLeaving
        } else if cx.flows.table.is_used_up(&key.hosts) {
            Metric::PassedHostsFull
        } else {
            Metric::PassedTableFull
        };
        return cx.pass(side, frame, why);
    };
    prepare(cx, id, roce.psn, frame.bytes(), roce);
    note_arrival(cx, id, frame.bytes(), roce);
    if let Some(entry) = cx.flows.table.get(id) {
        // R-PASS-6
        if matches!(entry.state, FlowState::Left(_)) {
            return cx.pass(side, frame, Metric::PassedOperator);
        }
        let allowance = &mut cx.flows.resources.allowance;
        allowance.select(entry.pair);
        allowance.earn(frame.bytes().len(), side == Side::Lan);
    }
    on_any(cx, side, frame, roce, id);
}

/// A request, noted, by the general way of its flow's pipeline. It is known to be one.
#[inline(never)]
pub(crate) fn on_noted<I: Io>(
    cx: &mut Context<'_, I>,
    side: Side,
    frame: I::Frame,
    parsed: &Result<Roce, NotRoce>,
    id: FlowId,
) {
    cx.tx.recorder.begin(cx.io.now());
    match parsed {
        Ok(roce) => on_any(cx, side, frame, roce, id),
        Err(_) => cx.pass(side, frame, Metric::PassedOther),
    }
}

fn on_any<I: Io>(cx: &mut Context<'_, I>, side: Side, frame: I::Frame, roce: &Roce, id: FlowId) {
    cx.tx.recorder.about(roce.psn, 1);
    match side {
        Side::Lan => cx.sentry(id, |flow, cx| flow.on_any(cx, frame, roce)),
        Side::Wan => cx.depot(id, |flow, cx| flow.on_any(cx, frame, roce)),
    };
}

/// A packet with an RC opcode that is not defined. If it is a request it takes PSNs, and
/// nobody can tell how many: its flow, if there is one, is left to the RNICs.
#[inline(never)]
pub(crate) fn on_unknown<I: Io>(cx: &mut Context<'_, I>, arrival: Arrival<'_, I::Frame>) {
    let flow = arrival.flow.or_else(|| cx.flows.table.find(&arrival.key()));
    let Arrival { side, frame, roce, .. } = arrival;
    if let Some(id) = flow.filter(|_| icrc_ok(frame.bytes(), roce)) {
        cx.sentry(id, |flow, cx| flow.on_unknown(cx));
        cx.depot(id, |flow, cx| flow.bypass(cx));
    }
    cx.pass(side, frame, Metric::PassedTransport);
}

/// Whether a packet makes a flow or its pipeline, and not with the PSN that was
/// announced.
#[inline]
fn begins<I: Io>(cx: &Context<'_, I>, found: Option<FlowId>, roce: &Roce) -> bool {
    match found.and_then(|id| cx.flows.table.get(id)).map(|entry| &entry.state) {
        None => cx.flows.table.has_room(),
        Some(FlowState::Responses) => true,
        Some(FlowState::Resting(announced)) => announced.first_psn != roce.psn,
        Some(FlowState::Sentry(_) | FlowState::Depot(_)) => false,
        Some(FlowState::Left(left)) => left.is_over || left.track.is_none(),
    }
}

/// Whether a flow is new, and the worker does not keep up: the flow's packets pass (R-PASS-7).
#[inline]
pub(crate) fn is_left_out<I: Io>(cx: &Context<'_, I>, found: Option<FlowId>) -> bool {
    cx.flows.resources.allowance.is_overloaded()
        && match found.and_then(|id| cx.flows.table.get(id)).map(|entry| &entry.state) {
            None | Some(FlowState::Responses) => true,
            Some(FlowState::Resting(announced)) => announced.by == By::Hosts,
            Some(FlowState::Sentry(_) | FlowState::Depot(_) | FlowState::Left(_)) => false,
        }
}

/// Whether there may be a gateway at a flow's destination. It is asked once per
/// flow: one that has a pipeline is known to be.
fn may_have_peer<I: Io>(cx: &Context<'_, I>, found: Option<FlowId>, roce: &Roce) -> bool {
    let prefixes = &cx.config.remote_prefixes;
    if prefixes.is_empty() {
        return true;
    }
    let entry = found.and_then(|id| cx.flows.table.get(id));
    let dst = roce.dst.to_ip();
    entry.is_some_and(|entry| entry.state.is_noted())
        || prefixes.iter().any(|prefix| prefix.contains(&dst))
}

/// Notes the PSNs that may be answered.
fn note_arrival<I: Io>(cx: &mut Context<'_, I>, id: FlowId, bytes: &[u8], roce: &Roce) {
    let track = cx.flows.table.get_mut(id).and_then(|entry| entry.state.track_mut());
    let Some(Track { arrived, .. }) = track else { return };
    let mut next = *arrived;
    // The path MTU need not be known: with the smallest one a READ has the
    // most responses.
    let leapt = next.add(roce.psn, roce.psn_count(bytes, 256));
    if !(leapt || arrived.is_ahead(roce.psn)) || icrc_ok(bytes, roce) {
        *arrived = next;
        if leapt {
            cx.begin_incarnation(id);
        }
    }
}

/// The entry of `key`, new if need be, in place of a flow of which only one packet was seen
/// (R-PASS-2).
fn entry_by_force<I: Io>(cx: &mut Context<'_, I>, key: FlowKey) -> Option<FlowId> {
    if let Some(id) = cx.entry(key) {
        return Some(id);
    }
    if cx.flows.table.is_used_up(&key.hosts) || cx.flows.table.is_leaving(&key.hosts) {
        return None;
    }
    let least = cx.flows.table.least(cx.io.now())?;
    cx.remove(least);
    cx.tx.counters.inc(Metric::FlowEvicted);
    cx.entry(key)
}

/// Makes sure that the entry has its pipeline, and renews the headers that
/// the flow's own frames are made from.
pub(crate) fn prepare<I: Io>(
    cx: &mut Context<'_, I>,
    id: FlowId,
    psn: Psn,
    bytes: &[u8],
    roce: &Roce,
) {
    let now = cx.io.now();
    let Some(entry) = cx.flows.table.get_mut(id) else { return };
    entry.seen = CoarseTime::at(now);
    match &mut entry.state {
        FlowState::Sentry(stage) => {
            stage.renew_headers(|state| state.expects(psn), bytes, roce, now);
        }
        FlowState::Depot(stage) => {
            stage.renew_headers(|state| state.expects(psn), bytes, roce, now);
        }
        FlowState::Responses => begin(cx, id, Start::unannounced(psn), bytes, roce),
        FlowState::Resting(announced) => {
            let start = Start::announced(*announced, entry.key.hosts.side, psn);
            begin(cx, id, start, bytes, roce);
        }
        FlowState::Left(left) if left.is_over => {
            let arrived = left.track.as_ref().map(|track| track.arrived);
            begin(cx, id, Start::midway(psn, arrived), bytes, roce);
        }
        FlowState::Left(left) if left.track.is_none() => {
            left.track = Some(Track::new(PsnRange::none(psn), roce, now));
            cx.pairing.await_pairing(&cx.flows.table, id, now);
        }
        FlowState::Left(_) => {}
    }
}

/// Where a pipeline begins.
struct Start {
    /// The announcement, if the flow begins as it says.
    announced: Option<Announced>,
    /// The PSN of the flow's first request.
    first: Psn,
    /// The requests that have arrived.
    arrived: PsnRange,
    /// The flow does not continue where it rested: another incarnation, unannounced.
    is_elsewhere: bool,
    /// The flow has sent other packets before.
    is_midway: bool,
}

impl Start {
    fn unannounced(psn: Psn) -> Self {
        let arrived = PsnRange::none(psn);
        Self { announced: None, first: psn, arrived, is_elsewhere: false, is_midway: false }
    }

    /// The pipeline begins in the middle of the flow: others passed.
    fn midway(psn: Psn, arrived: Option<PsnRange>) -> Self {
        let arrived = arrived.unwrap_or(PsnRange::none(psn));
        Self { arrived, is_midway: true, ..Self::unannounced(psn) }
    }

    /// Whether the flow begins as announced, if `psn` is its first here. Next to the source it
    /// begins at the announced PSN, or the announcement was wrong, or packets were lost on the
    /// LAN: then the RNICs recover, rather than that a gap is waited for that nothing may ever
    /// fill. Behind the link the first packets may be missing; the SYNC tells where it begins
    /// (R-CM-6).
    fn announced(announced: Announced, side: Side, psn: Psn) -> Self {
        let first = announced.first_psn;
        let ahead = i64::from(psn.distance(first));
        let is_as_announced = match side {
            Side::Lan => ahead == 0,
            Side::Wan => (0..=WINDOW_MAX as i64).contains(&ahead),
        };
        match announced.by {
            _ if is_as_announced => Self { announced: Some(announced), ..Self::unannounced(first) },
            // A leap from the PSN that the hosts agreed on shows up as one.
            By::Hosts => Self { arrived: PsnRange::none(first), ..Self::unannounced(psn) },
            By::Past => Self { is_elsewhere: true, ..Self::unannounced(psn) },
        }
    }
}

/// Makes the pipeline of an entry.
fn begin<I: Io>(cx: &mut Context<'_, I>, id: FlowId, start: Start, bytes: &[u8], roce: &Roce) {
    let (resources, now) = (&mut cx.flows.resources, cx.io.now());
    let Some(entry) = cx.flows.table.get_mut(id) else { return };
    let Start { announced, first, arrived, is_elsewhere, is_midway } = start;
    let track = Track::new(arrived, roce, now);
    let headers = Headers::of(bytes, roce);
    entry.state = match entry.key.hosts.side {
        Side::Lan => {
            let state = resources.new_sentry(announced, first, is_midway, now);
            // A Depot that was heard lately may hold early packets from the first packet on.
            let node = cx.tx.peers.towards(&roce.dst);
            FlowState::Sentry(Box::new(Stage { track, state, node, headers }))
        }
        Side::Wan => {
            let state = resources.new_depot(announced, first, now);
            FlowState::Depot(Box::new(Stage { track, state, node: None, headers }))
        }
    };
    if is_elsewhere {
        cx.begin_incarnation(id);
    }
    cx.pairing.await_pairing(&cx.flows.table, id, cx.io.now());
}
