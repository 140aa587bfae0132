//! The common case, short: the next packet of a flow in which nothing is
//! missing and nothing waits. What [`Flow::on_data`] would do with it comes to
//! this; all else is its business.

use common::frame::{Frame, Packet};
use common::metrics::Metric;
use common::psn::Seq;
use common::wire::Roce;

use crate::{Actions, Cx, Flow};

impl<F: Frame> Flow<F> {
    /// Whether the packet is such a one.
    #[inline]
    pub(crate) fn is_steady(&self, seq: Seq, roce: &Roce) -> bool {
        seq == self.sequence.next()
            && self.sequence.is_empty()
            && self.life.is_some()
            && self.nak.is_none()
            && roce.kind().is_plain()
    }

    #[inline]
    pub(crate) fn on_steady<A: Actions<F>>(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: F,
        seq: Seq,
        roce: &Roce,
    ) {
        self.learn_pmtu(roce);
        self.playout.reset();
        self.sequence.pass_next(1);
        (self.heard, self.stalled) = (cx.now, cx.now);
        cx.out.count(Metric::DepotInOrder, 1);
        // Every deadline stays or moves back, but for the answer that is awaited
        // from now on.
        self.due_as_before = !roce.ack_req || self.backup.awaits_answer();
        let len = frame.bytes().len() as u32;
        self.hand_over(cx, seq, 1, roce.ack_req, Packet::Owned(frame), len);
        if cx.now >= self.last_status + self.status_interval(cx.config) {
            self.report_arrivals(cx, seq);
        }
    }

    /// Looks at the state that the next packet will need, so that it is in the cache
    /// by then.
    #[inline]
    pub fn warm(&self) {
        core::hint::black_box((self.sequence.next(), self.life.is_some(), self.heard));
    }

    /// Whether [`deadline`](Self::deadline) is no earlier than before the last
    /// event. False if that isn't known, which includes being asked twice.
    #[inline]
    pub fn is_due_as_before(&mut self) -> bool {
        core::mem::take(&mut self.due_as_before)
    }
}
