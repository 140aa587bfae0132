//! Responses of the destination.

use common::control::LastAck;
use common::frame::{Class, Frame, Packet, Shared};
use common::metrics::Metric;
use common::psn::Seq;
use common::time::Time;
use common::wire::{Answer, Verdict};

use crate::report::Cause;
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

/// The destination's newest NAK, which was absorbed. A destination sends one NAK per gap.
pub(crate) struct KeptNak<S> {
    handle: S,
    pub(crate) seq: Seq,
    /// When it was absorbed, or last answered by a local resend.
    pub(crate) at: Time,
}

impl<F: Frame> Flow<F> {
    /// A response of the destination. It is forwarded, unless it is a NAK that the Depot can
    /// repair.
    pub fn on_answer<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        answer: Answer,
    ) -> Known {
        let seq = answer.psn.unwrap_near(self.sequence.next());
        self.heard = cx.now;
        self.credits = answer.credits.unwrap_or(self.credits);
        let was_within = core::mem::replace(&mut self.within, !answer.ends_message());
        let (from, next) = if answer.is_nak() { (seq, seq) } else { (seq, seq.next()) };
        self.note_answer(cx, from, next, was_within);
        match answer.verdict {
            Verdict::Acknowledged if self.acked.is_some_and(|acked| seq.next() < acked) => {
                // It revokes an acknowledgement: another incarnation of the QP (R-INC-14).
                self.reset(cx);
                cx.out.answer(Packet::Owned(frame), Class::Data);
                return Known::NewIncarnation;
            }
            // R-ACK-3
            Verdict::Acknowledged => {
                self.advance_acked(cx, seq.next(), answer.msn);
            }
            Verdict::Response(_) => {
                // It acknowledges this PSN only if it ends the response.
                let msn = answer.msn.filter(|_| answer.ends_message());
                self.advance_acked(cx, seq.next(), msn);
                let packet = self.keep_response(cx, frame, seq);
                cx.out.answer(packet, Class::Data);
                return Known::ThisIncarnation;
            }
            Verdict::NotReady => {
                // The source repeats after the RNR delay. Until then nothing may be resent,
                // and its repeats are delivered unchanged (R-NAK-12).
                self.advance_acked(cx, seq, answer.msn);
                self.clear_backup(cx);
                self.drop_nak(cx);
            }
            Verdict::Missing => {
                self.ready = false;
                return self.on_nak(cx, frame, seq, answer.msn);
            }
            Verdict::Failed => {}
        }
        cx.out.answer(Packet::Owned(frame), Class::Data);
        Known::ThisIncarnation
    }

    /// The destination asks for `seq` (NAK, PSN sequence error).
    fn on_nak<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
        msn: Option<u32>,
    ) -> Known {
        if self.acked.is_some_and(|acked| seq < acked) {
            // It revokes an acknowledgement: another incarnation of the QP (R-INC-15).
            self.reset(cx);
            cx.out.answer(Packet::Owned(frame), Class::Data);
            return Known::NewIncarnation;
        }
        // An ACK with the PSN of a READ or atomic would complete it without its
        // response: there the NAK itself must be forwarded (R-NAK-17).
        let last = self.backup.is_plain(seq.prev());
        let is_news = self.advance_acked(cx, seq, msn.filter(|_| last != Some(false)));
        let is_answered = is_news && last == Some(false);
        let next = self.sequence.next();
        // A repair of it is on its way, or it is held here for pacing (R-NAK-13).
        let is_gap = seq == next && self.sequence.high() > next;
        let is_kept = seq < next && self.backup.holds_from(seq);
        let is_of_probe = self.probed.take_if(|gap| *gap == seq).is_some();
        if is_of_probe && self.incarnation.is_some() && is_kept && !is_answered {
            // The probe was delivered ahead of this PSN, which has been delivered since. If
            // that is lost, its own timer repairs it (R-NAK-15).
            if let Some(ack) = self.last_ack.filter(|_| is_news && last.is_some()) {
                cx.out.ack(ack);
            }
            cx.out.discard(Packet::Owned(frame), Metric::DropNakAbsorbed);
            return Known::ThisIncarnation;
        }
        if self.incarnation.is_none() || is_answered || !(is_gap || is_kept) {
            cx.out.count(Metric::NakAtOnce, 1);
            self.drop_nak(cx);
            cx.out.answer(Packet::Owned(frame), Class::Data);
            if self.incarnation.is_some() && is_kept {
                self.resend_from(cx, seq);
            } else if self.incarnation.is_some() && seq < next {
                self.go_back(cx, seq);
            }
            return Known::ThisIncarnation;
        }
        // The Depot repairs it. The part that acknowledges is forwarded as an ACK (R-NAK-14).
        if let Some(ack) = self.last_ack.filter(|_| is_news && last.is_some()) {
            cx.out.ack(ack);
        }
        // A copy that was just resent is still on its way.
        let is_answered = self
            .nak
            .as_ref()
            .is_some_and(|nak| nak.seq == seq && cx.now < nak.at + self.backup.rtt().mean());
        if is_kept && is_answered {
            cx.out.discard(Packet::Owned(frame), Metric::DropNakAbsorbed);
            return Known::ThisIncarnation;
        }
        self.keep_nak(cx, frame, seq);
        if is_kept {
            self.resend_from(cx, seq);
        } else {
            self.report(cx, Cause::Destination);
        }
        Known::ThisIncarnation
    }

    /// The destination lacks everything from `seq` on, and some of it is not in the backup pool.
    /// Those packets count as missing, and the copies are held behind them (R-NAK-16).
    pub(crate) fn go_back<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        let (backup, mut copies) = (&self.backup, 0);
        // It comes before held packets, and delays them.
        let at = self.sequence.front().unwrap_or(cx.now);
        self.sequence.go_back(seq, at, backup.oldest().max(seq), |seq| {
            let held = backup.copy(seq, at)?;
            if !cx.pool.take(held.len as usize) {
                return None;
            }
            copies += 1;
            Some(held)
        });
        cx.out.count(Metric::CreatedHandle, copies);
        cx.out.count(Metric::DepotHeld, copies);
        cx.out.count(Metric::DepotGoneBack, 1);
        self.clear_backup(cx);
        self.stalled = cx.now;
        self.report(cx, Cause::Destination);
    }

    /// Absorbs a NAK, in place of the one before.
    fn keep_nak<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, frame: F, seq: Seq) {
        self.drop_nak(cx);
        if !cx.pool.take(frame.bytes().len()) {
            return cx.out.discard(Packet::Owned(frame), Metric::DropNakAbsorbed);
        }
        self.nak = Some(KeptNak { handle: frame.share(), seq, at: cx.now });
    }

    /// The NAK is answered, or obsolete.
    pub(crate) fn drop_nak<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if let Some(KeptNak { handle, .. }) = self.nak.take() {
            cx.pool.give(handle.bytes().len());
            cx.out.discard(Packet::Shared(handle), Metric::DropNakAbsorbed);
        }
    }

    /// Forwards an absorbed NAK that the Depot could not answer, once. A repeat could meet the
    /// source's next incarnation; if it is lost, the source times out (R-NAK-19).
    pub(crate) fn forward_nak<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.within {
            // A NAK within a READ response ends the queue pair; the timer fires again.
            return;
        }
        if let Some(KeptNak { handle, .. }) = self.nak.take() {
            cx.pool.give(handle.bytes().len());
            cx.out.count(Metric::NakAfterGiveUp, 1);
            cx.out.answer(Packet::Shared(handle), Class::Data);
        }
    }

    /// When the answer to an absorbed NAK counts as lost.
    pub(crate) fn nak_due(&self, config: &crate::Config) -> Time {
        match &self.nak {
            // A gap is reported until it is given up.
            Some(nak) if nak.seq < self.sequence.next() => nak.at + self.backup.patience(config),
            _ => Time::NEVER,
        }
    }

    /// The answer to an absorbed NAK was lost.
    pub(crate) fn on_nak_timer<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let Some(nak) = &mut self.nak else { return };
        let seq = nak.seq;
        nak.at = cx.now;
        if self.backup.may_retry(cx.config) && self.backup.holds_from(seq) {
            self.resend_from(cx, seq);
        } else {
            cx.out.count(Metric::LocalExhausted, 1);
            self.forward_nak(cx);
        }
    }

    /// The packet that an absorbed NAK asks for arrived from the source. The destination gets
    /// time to acknowledge it.
    pub(crate) fn nak_is_answered(&mut self, now: Time, seq: Seq) {
        if let Some(nak) = self.nak.as_mut().filter(|nak| nak.seq == seq) {
            nak.at = now;
        }
    }

    /// The destination has everything before `acked`. Returns whether that is new.
    fn advance_acked<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        acked: Seq,
        msn: Option<u32>,
    ) -> bool {
        // An ACK beyond the delivered packets belongs to another flow or incarnation.
        if acked > self.reach() || self.acked.is_some_and(|old| acked <= old) {
            return false;
        }
        self.acked = Some(acked);
        if let Some(msn) = msn {
            let (psn, syndrome) = (acked.prev().psn(), self.credits);
            self.last_ack = Some(LastAck { psn, syndrome, msn });
        }
        if self.nak.as_ref().is_some_and(|nak| nak.seq < acked) {
            self.drop_nak(cx);
        }
        let freed = self.free_flight(cx, acked);
        let rtt = self.backup.acknowledge(cx, acked);
        self.on_room(cx, freed, rtt);
        if acked > self.sequence.next() {
            // These packets passed before the first SYNC of this incarnation.
            self.settle(cx, acked);
        }
        true
    }
}
