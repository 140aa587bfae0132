//! Responses of the destination.

use common::control::LastAck;
use common::frame::{Class, Frame, Packet};
use common::psn::Seq;
use common::wire::{Response, Verdict};

use crate::{Actions, Context, Flow};

/// Whether a response belongs to the flow's known incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Known {
    /// It does, or nothing shows otherwise.
    ThisIncarnation,
    /// It shows that another incarnation of the queue pair has begun, whose `src_qpn` is
    /// unknown.
    NewIncarnation,
}

impl<F: Frame> Flow<F> {
    /// A response of the destination. It is forwarded, unless it is a NAK that the Depot can
    /// repair.
    pub fn on_response<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        response: Response,
    ) -> Known {
        let seq = response.psn.unwrap_near(self.sequence.next());
        self.heard = cx.now;
        self.credits = response.credits.unwrap_or(self.credits);
        let was_within = core::mem::replace(&mut self.within, !response.ends_message());
        let (from, next) = if response.is_nak() { (seq, seq) } else { (seq, seq.next()) };
        self.note_response(cx, from, next, was_within);
        match response.verdict {
            Verdict::Acknowledged if self.acked.is_some_and(|acked| seq.next() < acked) => {
                // It revokes an acknowledgement: another incarnation of the QP (R-INC-14).
                self.reset(cx);
                cx.out.respond(Packet::Owned(frame), Class::Data);
                return Known::NewIncarnation;
            }
            // R-ACK-3
            Verdict::Acknowledged => {
                self.advance_acked(cx, seq.next(), response.msn);
            }
            Verdict::Response(_) => {
                // It acknowledges this PSN only if it ends the response.
                let msn = response.msn.filter(|_| response.ends_message());
                self.advance_acked(cx, seq.next(), msn);
                let packet = self.keep_response(cx, frame, seq);
                cx.out.respond(packet, Class::Data);
                return Known::ThisIncarnation;
            }
            Verdict::NotReady => {
                // The source repeats after the RNR delay. Until then nothing may be resent,
                // and its repeats are delivered unchanged (R-NAK-12).
                self.advance_acked(cx, seq, response.msn);
                self.clear_backup(cx);
                self.drop_nak(cx);
            }
            Verdict::Missing => {
                self.ready = false;
                return self.on_nak(cx, frame, seq, response.msn);
            }
            Verdict::Failed => {}
        }
        cx.out.respond(Packet::Owned(frame), Class::Data);
        Known::ThisIncarnation
    }

    /// The destination has everything before `acked`. Returns whether that is new.
    pub(crate) fn advance_acked<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        acked: Seq,
        msn: Option<u32>,
    ) -> bool {
        // An ACK beyond the delivered packets belongs to another flow or incarnation.
        if acked > self.reach() || self.acked.is_some_and(|old| acked <= old) {
            return false;
        }
        self.note_acked(acked, msn);
        if self.nak.as_ref().is_some_and(|nak| nak.seq < acked) {
            self.drop_nak(cx);
        }
        let freed = self.free_flight(cx, acked);
        self.backup.acknowledge(cx, acked);
        self.on_room(cx, freed);
        if acked > self.sequence.next() {
            // These packets passed before the first SYNC of this incarnation.
            self.settle(cx, acked);
        }
        true
    }

    /// The destination has acknowledged all before `acked`, and told its MSN if it did so by an ACK.
    #[inline]
    pub(crate) fn note_acked(&mut self, acked: Seq, msn: Option<u32>) {
        self.acked = Some(acked);
        if let Some(msn) = msn {
            let (psn, syndrome) = (acked.prev().psn(), self.credits);
            self.last_ack = Some(LastAck { psn, syndrome, msn });
        }
    }
}
