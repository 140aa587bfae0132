//! Flows that the operator leaves to the RNICs, and has protected again.

use common::frame::{Frame, Pool, Sink};
use common::ids::FlowId;
use common::time::Time;

use crate::context::Context;
use crate::flow::coarse_time::CoarseDeadline;
use crate::flow::entry::{FlowState, Left};
use crate::io::{Io, Ports};
use crate::summary::FlowName;
use crate::switch::Switch;

impl<F: Frame> Switch<F> {
    /// Leaves a flow to the RNICs until it is [protected](Self::protect) again, or forgotten, or connection management
    /// ends or begins its connection: held packets are delivered in order, the box at the other end is told, and the
    /// flow's packets pass. Returns whether the flow is known.
    pub fn unprotect<P, S>(
        &mut self,
        flow: &FlowName,
        now: Time,
        pool: &mut P,
        sink: &mut S,
    ) -> bool
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let Some(id) = self.table().find(&flow.key()) else { return false };
        let mut io = Ports { pool, sink, now };
        self.context(&mut io).leave_to_rnics(id);
        self.flush();
        true
    }

    /// Protects a flow that the operator has left to the RNICs, from its next packet on. Returns whether the flow is
    /// known.
    pub fn protect(&mut self, flow: &FlowName) -> bool {
        let table = self.table_mut();
        let Some(id) = table.find(&flow.key()) else { return false };
        if let Some(FlowState::Left(left)) = table.get_mut(id).map(|entry| &mut entry.state) {
            left.is_over = true;
        }
        true
    }
}

impl<F: Frame, I: Io<Frame = F>> Context<'_, I> {
    fn leave_to_rnics(&mut self, id: FlowId) {
        self.sentry(id, |flow, cx| flow.bypass(cx));
        self.depot(id, |flow, cx| flow.leave(cx));
        self.await_release(id);
        let Some(entry) = self.flows.table.get_mut(id) else { return };
        let none = FlowState::Responses;
        let track = match core::mem::replace(&mut entry.state, none) {
            FlowState::Sentry(stage) => Some(stage.track),
            FlowState::Depot(stage) => Some(stage.track),
            FlowState::Left(left) => left.track,
            FlowState::Responses | FlowState::Resting(_) => None,
        };
        entry.state = FlowState::Left(Box::new(Left { track, is_over: false }));
        // Nothing is to be done at any time.
        (entry.armed, entry.due) = (Time::NEVER, CoarseDeadline::NEVER);
    }
}
