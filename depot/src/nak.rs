//! NAKs of the destination: absorbed where the Depot repairs the gap, else forwarded.

use common::frame::{Class, Frame, Packet, Shared};
use common::metrics::Metric;
use common::psn::Seq;
use common::time::Time;

use crate::report::Cause;
use crate::{Actions, Context, Flow, Known};

/// The destination's newest NAK, which was absorbed. A destination sends one NAK per gap.
pub(crate) struct KeptNak<S> {
    handle: S,
    pub(crate) seq: Seq,
    /// When it was absorbed, or last answered by a local resend.
    pub(crate) at: Time,
}

/// How a NAK is treated.
enum Treatment {
    /// It goes to the source.
    Forward,
    /// It ends here: a repair is on its way, or a timer makes one.
    Absorb,
    /// It waits here for the repair, and goes to the source if that fails.
    Keep,
}

impl<F: Frame> Flow<F> {
    /// The destination asks for `seq` (NAK, PSN sequence error).
    pub(crate) fn on_nak<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
        msn: Option<u32>,
    ) -> Known {
        if self.acked.is_some_and(|acked| seq < acked) {
            // It revokes an acknowledgement: another incarnation of the QP (R-INC-15).
            self.reset(cx);
            cx.out.respond(Packet::Owned(frame), Class::Data);
            return Known::NewIncarnation;
        }
        // An ACK with the PSN of a READ or atomic would complete it without its
        // response: there the NAK itself must be forwarded (R-NAK-17).
        let before = self.backup.is_plain(seq.prev());
        let is_news = self.advance_acked(cx, seq, msn.filter(|_| before != Some(false)));
        let treatment = match self.treat_nak(cx, seq) {
            _ if is_news && before == Some(false) => Treatment::Forward,
            treatment => treatment,
        };
        if matches!(treatment, Treatment::Forward) {
            if self.incarnation.is_none() && self.is_recovering(cx.now) {
                self.await_rnics(cx);
            }
            cx.out.count(Metric::NakAtOnce, 1);
            self.drop_nak(cx);
            cx.out.respond(Packet::Owned(frame), Class::Data);
            self.repair_beside_source(cx, seq);
            return Known::ThisIncarnation;
        }
        // The part of it that acknowledges is forwarded as an ACK (R-NAK-14).
        if let Some(ack) = self.last_ack.filter(|_| is_news && before.is_some()) {
            cx.out.ack(ack);
        }
        if matches!(treatment, Treatment::Absorb) {
            cx.out.discard(Packet::Owned(frame), Metric::DropNakAbsorbed);
            return Known::ThisIncarnation;
        }
        self.keep_nak(cx, frame, seq);
        if self.has_copy(seq) {
            self.resend_from(cx, seq);
        } else {
            self.report(cx, Cause::Destination);
        }
        Known::ThisIncarnation
    }

    /// Whether the backup pool holds the delivered packet `seq` and all behind it.
    fn has_copy(&self, seq: Seq) -> bool {
        seq < self.sequence.next() && self.backup.holds_from(seq)
    }

    /// How a NAK for `seq` is treated, which acknowledges no READ and no atomic.
    fn treat_nak<A>(&mut self, cx: &Context<'_, A>, seq: Seq) -> Treatment {
        let next = self.sequence.next();
        let has_copy = self.has_copy(seq);
        // A repair of it is on its way, or it is held here for pacing (R-NAK-13).
        let is_gap = seq == next && self.sequence.high() > next;
        let is_of_probe = self.is_probed(seq);
        if is_of_probe {
            self.probed_at = Time::ZERO;
        }
        if self.incarnation.is_none() || !(is_gap || has_copy) {
            return Treatment::Forward;
        }
        // A copy that was just resent is still on its way.
        let round_trip = cx.lan.clocks.get(self.backup.clock()).mean();
        let nak = self.nak.as_ref().filter(|nak| nak.seq == seq);
        let is_repaired = nak.is_some_and(|nak| cx.now < nak.at + round_trip);
        match has_copy && (is_of_probe || is_repaired) {
            // A probe is delivered ahead of its gap. If the gap, which has been delivered since, is
            // lost, its own timer repairs it (R-NAK-15).
            true => Treatment::Absorb,
            false => Treatment::Keep,
        }
    }

    /// A NAK for `seq` went to the source. The Depot resends the copies that it has meanwhile, or
    /// goes back to the gap.
    fn repair_beside_source<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        if self.incarnation.is_none() {
            return;
        }
        if self.has_copy(seq) {
            self.resend_from(cx, seq);
        } else if seq < self.sequence.next() {
            self.go_back(cx, seq);
        }
    }

    /// The destination lacks everything from `seq` on, and some of it is not in the backup pool.
    /// Those packets count as missing, and the copies are held behind them (R-NAK-16).
    pub(crate) fn go_back<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        let (backup, mut copies) = (&self.backup, 0);
        // It comes before held packets, and delays them.
        let at = self.sequence.front().unwrap_or(cx.now);
        self.sequence.go_back(seq, at, backup.oldest().max(seq), |seq| {
            let held = backup.copy(seq, at)?;
            if !cx.pool.take(held.info.len as usize) {
                return None;
            }
            copies += 1;
            Some(held)
        });
        cx.out.count(Metric::CreatedHandle, copies);
        cx.out.about(seq.psn(), copies, |out| {
            out.count(Metric::DepotHeld, copies);
            out.count(Metric::DepotGoneBack, 1);
        });
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
        if let Some(KeptNak { handle, seq, .. }) = self.nak.take() {
            cx.pool.give(handle.bytes().len());
            cx.out.about(seq.psn(), 1, |out| {
                out.discard(Packet::Shared(handle), Metric::DropNakAbsorbed);
            });
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
            cx.out.respond(Packet::Shared(handle), Class::Data);
        }
    }

    /// When the local repair of an absorbed NAK counts as lost.
    pub(crate) fn nak_due(&self) -> Time {
        match &self.nak {
            // A gap is reported until it is given up.
            Some(nak) if nak.seq < self.sequence.next() => nak.at + self.backup.wait(),
            _ => Time::NEVER,
        }
    }

    /// The local repair of an absorbed NAK was lost.
    pub(crate) fn on_nak_timer<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let Some(nak) = &mut self.nak else { return };
        let (seq, at) = (nak.seq, nak.at);
        if !self.backup.may_ask(cx, at) {
            return;
        }
        nak.at = cx.now;
        if self.backup.may_retry(cx) && self.backup.holds_from(seq) {
            self.resend_from(cx, seq);
        } else {
            cx.out.count(Metric::LocalExhausted, 1);
            self.forward_nak(cx);
        }
    }

    /// The packet that an absorbed NAK asks for arrived from the source. The destination gets
    /// time to acknowledge it.
    #[inline]
    pub(crate) fn nak_is_answered(&mut self, now: Time, seq: Seq) {
        if let Some(nak) = self.nak.as_mut().filter(|nak| nak.seq == seq) {
            nak.at = now;
        }
    }
}
