//! Packets that destinations send back: ACKs, NAKs, READ responses.

use common::frame::{Frame, Side};
use common::ids::FlowId;
use common::metrics::Metric;
use common::wire::{PacketKind, Position, Response, Roce, Verdict, icrc_ok};

use crate::context::Context;
use crate::flow::coarse_time::CoarseTime;
use crate::flow::entry::FlowState;
use crate::flow::key::FlowKey;
use crate::flow::psn_range::ResponseInfo;
use crate::io::{Arrival, Io};

/// A response passes; the flow that it is for learns from it, and may hold it or answer it.
pub(crate) fn on_response<I: Io>(cx: &mut Context<'_, I>, arrival: Arrival<'_, I::Frame>) {
    let Arrival { side, frame, roce, flow } = arrival;
    let Some(response) = Response::of(roce, frame.bytes()) else {
        return cx.tx.forward(cx.io, side, frame);
    };
    match response.verdict {
        Verdict::NotReady => cx.tx.counters.inc(Metric::NakRnr),
        Verdict::Missing => cx.tx.counters.inc(Metric::NakDestination),
        _ => {}
    }
    if !icrc_ok(frame.bytes(), roce) {
        // The RNIC will drop it; believing it could complete a message that was never
        // delivered.
        return cx.pass(side, frame, Metric::PassedBadIcrc);
    }
    cx.tx.recorder.about(roce.psn, 1);
    let info = ResponseInfo { psn: roce.psn, is_nak: response.is_nak(), src_port: roce.src_port };
    let id = match flow_of(cx, side, roce, flow, &info) {
        // R-READ-17
        Err(Unknown::Later) if matches!(response.verdict, Verdict::Response(_)) => {
            return cx.tx.counters.inc(Metric::DropOldIncarnation);
        }
        found => found.ok(),
    };
    let entry = id.and_then(|id| Some((id, cx.flows.table.get(id)?)));
    if let Some((_, entry)) = entry.filter(|_| info.is_nak) {
        let metric = match response.verdict {
            Verdict::NotReady => Metric::NakRnr,
            _ => Metric::NakDestination,
        };
        cx.tx.recorder.note(entry.key.stream(), metric, 1);
    }
    match entry.map(|(id, entry)| (id, &entry.state)) {
        Some((id, FlowState::Sentry(_))) => {
            cx.sentry(id, |flow, cx| {
                if let Verdict::Response(_) = response.verdict {
                    cx.allowance.earn(frame.bytes().len(), true);
                }
                flow.on_response(cx, frame, roce, response);
            });
        }
        Some((id, FlowState::Depot(_))) => {
            let known = cx.depot(id, |flow, cx| flow.on_response(cx, frame, response));
            if known == Some(depot::Known::NewIncarnation) {
                cx.begin_incarnation(id);
            }
        }
        Some((_, FlowState::Responses | FlowState::Resting(_) | FlowState::Left(_))) | None => {
            if info.is_nak && side == Side::Wan {
                on_doubtful_nak(cx, &FlowKey::of(side, roce), &info);
            }
            cx.tx.forward(cx.io, side, frame);
        }
    }
}

/// A NAK passes, for one of several flows: none of them may filter the packets that it makes
/// a source repeat.
fn on_doubtful_nak<I: Io>(cx: &mut Context<'_, I>, key: &FlowKey, response: &ResponseInfo) {
    let flows = cx.pairing.possible_flows(&cx.flows.table, &key.hosts.reversed(), response);
    for id in flows {
        cx.sentry(id, |flow, _| flow.on_doubtful_nak(response.psn));
    }
}

/// Why the flow of a response is not known.
enum Unknown {
    /// No flow is matched for sure.
    Flow,
    /// No flow is to be matched yet: copies of READ responses to an incarnation before may arrive.
    Later,
}

/// The flow whose requests are answered in the stream of this response, if that is sure; `found` is the entry of the stream.
///
/// # Errors
/// Why it is not.
#[inline]
fn flow_of<I: Io>(
    cx: &mut Context<'_, I>,
    side: Side,
    roce: &Roce,
    found: Option<FlowId>,
    response: &ResponseInfo,
) -> Result<FlowId, Unknown> {
    let id = match found {
        Some(id) => id,
        None => entry_of(cx, FlowKey::of(side, roce)).ok_or(Unknown::Flow)?,
    };
    let (table, now) = (&mut cx.flows.table, cx.io.now());
    let entry = table.get_mut(id).ok_or(Unknown::Flow)?;
    entry.seen = CoarseTime::at(now);
    if let Some(peer) = entry.peer() {
        return Ok(peer);
    }
    entry.ends_message =
        !matches!(roce.kind(), PacketKind::ReadResponse(Position::First | Position::Middle));
    if entry.matching.as_ref().is_some_and(|matching| matching.is_later(now)) {
        // Another flow might be taken for the one that it is for.
        return Err(Unknown::Later);
    }
    let matched = cx.pairing.match_response(table, &mut cx.tx.counters, id, response, now);
    matched.ok_or(Unknown::Flow)
}

/// The entry of a stream of responses that was not found by the look-up of the burst.
#[inline(never)]
fn entry_of<I: Io>(cx: &mut Context<'_, I>, key: FlowKey) -> Option<FlowId> {
    match cx.flows.table.find(&key) {
        Some(id) => Some(id),
        // No request between these hosts was seen: nobody to learn from it.
        None if cx.pairing.unpaired(&key.hosts.reversed()).is_empty() => None,
        None => cx.entry(key),
    }
}
