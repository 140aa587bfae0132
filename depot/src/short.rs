//! A reordering pool that is too small for what follows a gap: the flow is left to the RNICs.

use common::frame::Frame;
use common::psn::Seq;
use common::time::Time;

use crate::{Actions, Context, Flow};

impl<F: Frame> Flow<F> {
    /// Whether to drop packets that find the pool full: the gap has been open for half a
    /// round trip at least, so that little is dropped until it is filled, and not for longer than
    /// a repair takes.
    pub(crate) fn is_repair_near(&self, now: Time) -> bool {
        let open = now.since(self.stalled);
        open >= self.rtt / 2 && open <= self.repair_time().scale(3, 2)
    }

    /// The pool has no room for `frame`, and will have none for long. Held packets and this one are
    /// delivered in order, past the gap, and the flow is passive until the RNICs have recovered.
    /// The Sentry is told, so that it filters nothing (R-ORDER-17).
    pub(crate) fn leave_to_rnics<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
    ) {
        let (incarnation, echo) = (self.incarnation, self.echo);
        self.bypass(cx);
        self.on_passive(cx, frame, seq);
        self.await_rnics(cx);
        if let Some(incarnation) = incarnation {
            self.report_passive(cx, incarnation, echo);
        }
    }

    /// The destination discards what comes until the source has gone back. The flow is not
    /// protected again before the destination has what passed until now.
    pub(crate) fn await_rnics<A>(&mut self, cx: &Context<'_, A>) {
        self.announced = self.reach();
        self.raised = cx.now + self.give_up_after(cx.config);
    }

    /// Whether the source of this passive flow is yet to go back to a gap, and the destination
    /// discards what comes. That is assumed for no longer than a gap may be open (R-SYNC-9).
    pub(crate) fn is_recovering(&self, now: Time) -> bool {
        now < self.raised && self.acked.is_none_or(|acked| acked < self.announced)
    }
}
