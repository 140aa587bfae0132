//! Which two flows are the directions of one queue pair.
//!
//! Data packets don't carry the requester's QPN, but a NAK needs it. It is
//! found by matching the answers of an unknown stream against what the flows
//! between the same two hosts may have acknowledged (DESIGN §4). An answer
//! can't be for a packet that was not sent yet: what doesn't fit is ruled out
//! for good. Only when a single flow is left, and several different answers
//! have confirmed it, are the two paired. While there is doubt no NAK is made:
//! one that reaches a wrong queue pair would complete what was never delivered.

use arrayvec::ArrayVec;
use common::frame::Frame;
use common::psn::Psn;

use crate::table::{Id, Table};

/// Between hosts with more unknown flows than this nothing is matched.
const MAX_SCAN: usize = 64;
/// With more flows than this that fit, the next answer is waited for.
const MAX_CANDIDATES: usize = 8;
/// Different answers that must confirm the last candidate; fewer do where both
/// directions use the same UDP source port, as irdma, mlx5 and often rxe do.
const CONFIRMATIONS: u32 = 3;
const CONFIRMATIONS_SAME_PORT: u32 = 2;

/// An answer of a stream whose flow is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub psn: Psn,
    /// It asks for `psn`, rather than acknowledging it.
    pub is_nak: bool,
    pub src_port: u16,
}

/// What is known so far of the flow that a stream of answers belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Matching {
    candidates: ArrayVec<Id, MAX_CANDIDATES>,
    last: Psn,
    confirmations: u32,
}

impl<F: Frame> Table<F> {
    /// Takes in an answer of the stream `answers`. Returns the flow that the
    /// stream belongs to, once that is sure; they are then paired.
    pub fn match_answer(&mut self, answers: Id, answer: &Answer) -> Option<Id> {
        let entry = self.get_mut(answers)?;
        let hosts = entry.key.hosts.reversed();
        let known = entry.matching.take();
        let fits = |id: &Id| self.fits(*id, answer).is_some();
        let mut matching = match known {
            Some(mut known) => {
                known
                    .candidates
                    .retain(|id| self.get(*id).is_some_and(|e| e.key.hosts == hosts) && fits(id));
                known
            }
            None => {
                let flows = self.unpaired(&hosts);
                if flows.len() > MAX_SCAN {
                    return None;
                }
                let mut candidates = ArrayVec::new();
                for id in flows.iter().copied().filter(|id| fits(id)) {
                    candidates.try_push(id).ok()?;
                }
                Matching { candidates, last: answer.psn.prev(), confirmations: 0 }
            }
        };
        match matching.candidates[..] {
            [] => return None,
            [_] if answer.psn != matching.last => matching.confirmations += 1,
            [_] => {}
            _ => matching.confirmations = 0,
        }
        matching.last = answer.psn;
        let flow = matching.candidates[0];
        let same_port = self.fits(flow, answer) == Some(answer.src_port);
        let enough = if same_port { CONFIRMATIONS_SAME_PORT } else { CONFIRMATIONS };
        if matching.confirmations >= enough {
            self.pair(flow, answers);
            return Some(flow);
        }
        self.get_mut(answers)?.matching = Some(matching);
        None
    }

    /// The UDP source port of flow `id`, if its requester is unknown and it
    /// may have been given this answer.
    fn fits(&self, id: Id, answer: &Answer) -> Option<u16> {
        let entry = self.get(id).filter(|entry| entry.peer.is_none())?;
        let (oldest, end, port) = entry.pipeline.acknowledgeable()?;
        let seq = answer.psn.unwrap_near(end);
        // A NAK may ask for the very next packet.
        let end = if answer.is_nak { end.next() } else { end };
        (oldest <= seq && seq < end).then_some(port)
    }
}
