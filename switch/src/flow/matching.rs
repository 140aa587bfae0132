//! The flows that a stream of responses may belong to.

use arrayvec::ArrayVec;
use common::ids::FlowId;
use common::psn::Psn;
use common::time::{Span, Time};

/// With more flows than this that fit, the next response is waited for.
const MAX_CANDIDATES: usize = 8;
/// Different responses that must confirm the last candidate; fewer do where both
/// directions use the same UDP source port, as irdma, mlx5 and often rxe do (R-PAIR-4).
const CONFIRMATIONS: u32 = 3;
const CONFIRMATIONS_SAME_PORT: u32 = 2;

/// Candidates for the flow of a stream of responses.
#[derive(Clone, Debug)]
pub(crate) struct Matching {
    candidates: ArrayVec<FlowId, MAX_CANDIDATES>,
    /// Flows that are younger than this were not considered yet.
    considered: u32,
    last: Psn,
    confirmations: u32,
    /// When the first confirmation of the last candidate came.
    since: Time,
}

impl Matching {
    /// Before the stream's first response, which has the PSN `first`.
    pub fn new(first: Psn, now: Time) -> Self {
        Self {
            candidates: ArrayVec::new(),
            considered: 0,
            last: first.prev(),
            confirmations: 0,
            since: now,
        }
    }

    /// Before the stream's first response that comes at `begin` or later. READ responses before may be copies that a FETCH of an
    /// incarnation before has brought.
    pub fn later(begin: Time) -> Self {
        Self::new(Psn::default(), begin)
    }

    /// Whether it has not begun yet.
    pub fn is_later(&self, now: Time) -> bool {
        now < self.since
    }

    /// Rules out the candidates that are not possible any more.
    pub fn rule_out(&mut self, is_possible: impl Fn(FlowId) -> bool) {
        self.candidates.retain(|id| is_possible(*id));
    }

    /// The generation up to which all flows were considered.
    pub const fn considered(&self) -> u32 {
        self.considered
    }

    /// Adds all possible flows that are younger than [`considered`](Self::considered). `None`
    /// if they are too many.
    pub fn consider(&mut self, flows: impl Iterator<Item = FlowId>, generation: u32) -> Option<()> {
        for id in flows {
            self.candidates.try_push(id).ok()?;
            self.confirmations = 0;
        }
        self.considered = generation;
        Some(())
    }

    /// Takes in a response. `confirms` tells whether it answers a packet of a flow that was
    /// seen. Returns the oldest candidate.
    pub fn note(
        &mut self,
        psn: Psn,
        confirms: impl Fn(FlowId) -> bool,
        now: Time,
    ) -> Option<FlowId> {
        match self.candidates[..] {
            [] => return None,
            [flow] if psn != self.last && confirms(flow) => {
                if self.confirmations == 0 {
                    self.since = now;
                }
                self.confirmations += 1;
            }
            [_] => {}
            _ => self.confirmations = 0,
        }
        self.last = psn;
        self.candidates.first().copied()
    }

    /// Whether the only candidate is confirmed, over at least `spread`.
    pub fn is_confirmed(&self, same_port: bool, spread: Span, now: Time) -> bool {
        let enough = if same_port { CONFIRMATIONS_SAME_PORT } else { CONFIRMATIONS };
        self.confirmations >= enough && now >= self.since + spread
    }
}
