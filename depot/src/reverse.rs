//! What the destination answers.

use common::control::LastAck;
use common::frame::Frame;
use common::psn::{Psn, Seq};
use common::wire::Aeth;

use crate::report::Cause;
use crate::{Actions, Cx, Flow};

/// What becomes of a NAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Verdict {
    /// It goes on to the source.
    Forward,
    /// It goes on to the source, and shows that another life of the queue pair
    /// has begun: what was known of its requester is void.
    NewLife,
    /// It ends here: the hole it speaks of is already being repaired.
    Absorb,
}

impl<F: Frame> Flow<F> {
    /// The destination acknowledged everything up to and including `psn`.
    /// Always forwarded.
    pub fn on_ack<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, psn: Psn, msn: u32) -> Verdict {
        let acked = psn.unwrap_near(self.sequence.expected()).next();
        self.advance_acked(cx, acked, msn);
        Verdict::Forward
    }

    /// The destination's receive queue isn't ready: it has everything before
    /// `psn`, and the source will come again. Always forwarded.
    pub fn on_rnr<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, psn: Psn, msn: u32) -> Verdict {
        self.on_ack(cx, psn.prev(), msn)
    }

    /// The destination asks for `psn` (NAK, PSN sequence error).
    pub fn on_nak<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, psn: Psn, msn: u32) -> Verdict {
        let seq = psn.unwrap_near(self.sequence.expected());
        if self.acked.is_some_and(|acked| seq < acked) {
            // It takes back what it acknowledged: another life of the QP†.
            self.forget(cx);
            return Verdict::NewLife;
        }
        self.advance_acked(cx, seq, msn);
        let ours = self.life.is_some()
            && seq == self.sequence.expected()
            && !self.sequence.gaps().is_empty();
        if !ours {
            return Verdict::Forward;
        }
        self.report(cx, Cause::Destination);
        Verdict::Absorb
    }

    fn advance_acked<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, acked: Seq, msn: u32) {
        // Beyond what went past here it belongs to another flow or another
        // life, and proves nothing.
        if acked > self.reach() || self.acked.is_some_and(|old| acked <= old) {
            return;
        }
        self.acked = Some(acked);
        self.last_ack =
            Some(LastAck { psn: acked.prev().psn(), syndrome: Aeth::ACK_UNLIMITED, msn });
        if acked > self.sequence.expected() {
            // It passed before the SYNC that this life began with.
            self.settle(cx, acked);
        }
    }
}
