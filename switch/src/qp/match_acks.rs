//! Which two flows are the directions of one queue pair.
//!
//! Data packets don't carry the requester's QPN, but a NAK needs it. It is
//! found by matching the answers of an unknown stream against what the flows
//! between the same two hosts may have acknowledged (docs/protocol.md). An answer
//! can't be for a packet that was not sent yet: what doesn't fit is ruled out
//! for good. (That it lies before the first packet seen rules nothing out:
//! packets overtake each other, and boxes restart. What counts is what arrived
//! here, whatever a pipeline made of it.) Only when a single flow is
//! left, and several different answers have confirmed it, are the two paired.
//! While there is doubt no NAK is made: one that reaches a wrong queue pair
//! would complete what was never delivered.
//!
//! All this takes for granted that the flow in question was seen. Where a box
//! has just started or a queue pair was reset, answers to what passed before
//! may still come for a round trip, so the confirmations must go on for longer
//! than that.

use arrayvec::ArrayVec;
use common::frame::Frame;
use common::psn::Psn;
use common::time::{Span, Time};

use crate::flow::entry::{Id, Pipeline};
use crate::flow::key::Hosts;
use crate::flow::psn_range::ResponseInfo;
use crate::flow::table::Table;

/// Between hosts with more unknown flows than this nothing is matched.
const MAX_SCAN: usize = 64;
/// With more flows than this that fit, the next answer is waited for.
const MAX_CANDIDATES: usize = 8;
/// Different answers that must confirm the last candidate; fewer do where both
/// directions use the same UDP source port, as irdma, mlx5 and often rxe do.
const CONFIRMATIONS: u32 = 3;
const CONFIRMATIONS_SAME_PORT: u32 = 2;

/// What is known so far of the flow that a stream of answers belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Matching {
    candidates: ArrayVec<Id, MAX_CANDIDATES>,
    /// Flows that are younger than this were not considered yet.
    considered: u32,
    last: Psn,
    confirmations: u32,
    /// When the first confirmation of the last candidate came.
    since: Time,
}

impl<F: Frame> Table<F> {
    /// Takes in an answer of the stream `answers`. Returns the flow that the
    /// stream belongs to, once that is sure; they are then paired. `spread` is
    /// how far apart confirmations must lie: more than a round trip.
    pub fn match_answer(
        &mut self,
        answers: Id,
        answer: &ResponseInfo,
        now: Time,
        spread: Span,
    ) -> Option<Id> {
        let entry = self.get_mut(answers)?;
        let hosts = entry.key.hosts.reversed();
        let mut matching = entry.matching.take().unwrap_or_else(|| {
            Box::new(Matching {
                candidates: ArrayVec::new(),
                considered: 0,
                last: answer.psn.prev(),
                confirmations: 0,
                since: now,
            })
        });
        matching.candidates.retain(|id| {
            self.get(*id).is_some_and(|flow| flow.key.hosts == hosts)
                && self.fits(*id, answer).is_some()
        });
        if matching.considered != self.generation() {
            let flows = self.unpaired(&hosts);
            if flows.len() > MAX_SCAN {
                return None;
            }
            for id in flows.iter().copied() {
                let young = self.get(id).is_some_and(|flow| flow.born > matching.considered);
                if young && self.fits(id, answer).is_some() {
                    matching.candidates.try_push(id).ok()?;
                    matching.confirmations = 0;
                }
            }
            matching.considered = self.generation();
        }
        match matching.candidates[..] {
            [] => {
                self.get_mut(answers)?.matching = Some(matching);
                return None;
            }
            [flow] if answer.psn != matching.last && self.confirms(flow, answer) => {
                if matching.confirmations == 0 {
                    matching.since = now;
                }
                matching.confirmations += 1;
            }
            [_] => {}
            _ => matching.confirmations = 0,
        }
        matching.last = answer.psn;
        let flow = matching.candidates[0];
        let same_port = self.fits(flow, answer) == Some(answer.src_port);
        let enough = if same_port { CONFIRMATIONS_SAME_PORT } else { CONFIRMATIONS };
        if matching.confirmations >= enough && now >= matching.since + spread {
            self.pair(flow, answers);
            return Some(flow);
        }
        self.get_mut(answers)?.matching = Some(matching);
        None
    }

    /// The flows between `hosts` with unknown requester that may have been
    /// given this answer.
    pub fn possible_flows(&self, hosts: &Hosts, answer: &ResponseInfo) -> ArrayVec<Id, MAX_SCAN> {
        let flows = self.unpaired(hosts).iter().take(MAX_SCAN).copied();
        flows.filter(|id| self.fits(*id, answer).is_some()).collect()
    }

    /// Whether an answer that fits flow `id` speaks for it.
    fn confirms(&self, id: Id, answer: &ResponseInfo) -> bool {
        match self.get(id).map(|entry| &entry.pipeline) {
            Some(Pipeline::Sentry(stage)) => stage.track.arrived.is_answered(answer),
            Some(Pipeline::Depot(stage)) => stage.track.arrived.is_answered(answer),
            _ => false,
        }
    }

    /// The UDP source port of flow `id`, if its requester is unknown and it
    /// may have been given this answer.
    fn fits(&self, id: Id, answer: &ResponseInfo) -> Option<u16> {
        let entry = self.get(id).filter(|entry| entry.peer().is_none() && !entry.named)?;
        let track = match &entry.pipeline {
            Pipeline::None => return None,
            Pipeline::Sentry(stage) => &stage.track,
            Pipeline::Depot(stage) => &stage.track,
        };
        track.arrived.may_be_answered(answer).then_some(track.src_port)
    }
}
