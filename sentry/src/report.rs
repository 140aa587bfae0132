//! A STATUS from the Depot: its proofs, and the resends that it requires.

use common::control::{BootId, LastAck, Reason, Status};
use common::frame::{Class, Frame, Packet};
use common::histogram::Timing;
use common::metrics::Metric;
use common::psn::Seq;
use common::time::{Span, Time};

use crate::cache::release;
use crate::knowledge::Knowledge;
use crate::slot;
use crate::timers::Unanswered;
use crate::{Actions, Context, Flow, Recovery};

/// Round trips that the destination is given to make the source rewind, where
/// the Sentry can't.
const HELPLESS: u64 = 3;

/// The repair of a packet that the Depot misses.
enum Repair {
    /// Its last resend may still be under way, or it isn't ours any more.
    Wait,
    /// Sent again from a handle.
    Resent,
    /// The source has to rewind for it.
    Ask,
    /// The same; it was lost before it came here.
    AskForHole,
}

impl<F: Frame> Flow<F> {
    /// A STATUS about this flow from the Depot that booted at `boot`, already
    /// authenticated and of the current epoch. False if its claim is
    /// impossible, and was ignored.
    pub fn on_status<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        boot: BootId,
        status: &Status,
    ) -> bool {
        if self.is_bypassed() {
            if status.passive {
                self.discovery.left();
            }
            return true;
        }
        if status.echo > cx.now {
            // No SYNC of ours has been sent yet at that time.
            return false;
        }
        if status.passive {
            self.measure(cx, status, None);
            self.on_passive(cx, status.echo);
            return true;
        }
        let Some(known) = Knowledge::read(status, boot, self.next) else {
            self.deny(cx, status);
            return false;
        };
        self.unanswered = Unanswered::NONE;
        // R-PEER-2
        if self.discovery.answered() {
            cx.out.count(Metric::FlowProtected, 1);
            self.passed = known.expected;
        }
        let newest_echo = self.knowledge.as_ref().filter(|k| k.boot == boot).map(|k| k.echo);
        self.measure(cx, status, newest_echo);
        self.doubt = self.doubt.filter(|sent| {
            let later = |ack: LastAck| ack.psn.unwrap_near(self.next) >= *sent;
            let is_delivered = self.acked.is_none() && known.expected > *sent;
            // Besides, the destination's count of messages may be another one.
            !is_delivered && !status.ack.is_some_and(later)
        });
        if let Some(ack) = status.ack.filter(|_| self.doubt.is_none()) {
            let acked = ack.psn.unwrap_near(self.next).next();
            let any = acked > self.first;
            // Where responses are on their way, the ACK comes behind them.
            let in_order = self.reads.limit().is_none() && self.reads.at_boundary();
            let is_plain = self.may_be_acked(acked.prev());
            if in_order
                && self.advance_acked(cx, acked, Some(ack.msn))
                && any
                && is_plain
                && cx.out.src_qpn().is_some()
            {
                // The destination did send this ACK; should it have been lost
                // on the way, the source still gets to know of it (R-REPAIR-9).
                cx.out.ack(ack);
            }
        }
        // R-REPAIR-1
        self.release_arrived(cx, &known);
        if self.doubt.is_none() {
            self.repair(cx, &known);
        }
        self.knowledge = Some(known);
        self.release_passed(cx);
        true
    }

    /// A Depot holds a packet that was not sent from here: an injected one, if it isn't
    /// mistaken. A SYNC tells it the last PSN: it drops the rest, and its next STATUS can be
    /// believed.
    fn deny<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, status: &Status) {
        let is_beyond = status.to.unwrap_near(self.next) > self.next;
        if is_beyond && self.is_protected() && cx.now >= self.last_sync + self.rtt.mean() / 8 {
            self.sync_now(cx, Reason::Tail);
        }
    }

    /// Takes the round trip of the SYNC that `status` echoes, unless one before did.
    fn measure<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        status: &Status,
        newest_echo: Option<Time>,
    ) {
        let elapsed = cx.now.since(status.echo + status.hold);
        if newest_echo.is_none_or(|newest| status.echo > newest)
            && status.echo > Time::ZERO
            && elapsed > Span::ZERO
        {
            self.rtt.sample(elapsed);
            cx.out.record(Timing::RoundTrip, elapsed);
            cx.allowance.answered(elapsed);
        }
    }

    /// Frees the handles of packets that the Depot is known to have.
    fn release_arrived<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, known: &Knowledge) {
        // Handles before `released` are of repeats since the Depot went back.
        let before = self.knowledge.as_ref().map_or(self.released, |before| before.expected);
        let from = self.released.min(before).max(self.passed);
        self.release_till(cx, from, known.expected);
        self.released = self.released.max(known.expected);
        if cx.config.recovery == Recovery::Lr2 {
            let mut waiting = core::mem::take(&mut self.kept);
            waiting.retain(|seq| {
                let Some(slot) = self.window.get_mut(*seq) else { return false };
                let arrived = known.holds(*seq) && slot.sent <= known.echo;
                if arrived {
                    release(cx, slot.handle.take());
                }
                slot.handle.is_some()
            });
            self.kept = waiting;
        }
    }

    /// Frees the handles of `from .. end`.
    pub(crate) fn release_till<A>(&mut self, cx: &mut Context<'_, A>, from: Seq, end: Seq)
    where
        A: Actions<F>,
    {
        let mut seq = from;
        while let Some(at) = self.window.first_from(seq).filter(|at| *at < end) {
            release(cx, self.window.get_mut(at).and_then(|slot| slot.handle.take()));
            seq = at.next();
        }
    }

    /// Repairs missing packets.
    fn repair<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, known: &Knowledge) {
        // R-FILTER-16
        let is_stuck = cx.now >= self.last_data + self.rtt.with_margin() * 2;
        if is_stuck && !known.missing().is_empty() && self.repeats_singly(cx.config, self.next) {
            return self.leave_selective(cx);
        }
        let (mut resent, mut ask, mut gap) = (0, false, false);
        let oldest = self.window.start();
        for (start, end) in known.missing() {
            let (start, end) = ((*start).max(oldest), (*end).min(self.next));
            gap |= self.need_gaps(cx, start, end);
            let (mut from, mut is_resent) = (start, false);
            while let Some(seq) = self.window.first_from(from).filter(|seq| *seq < end) {
                match self.repair_one(cx, known, seq) {
                    Repair::Wait => {}
                    Repair::Resent => is_resent = true,
                    Repair::Ask => ask = true,
                    Repair::AskForHole => gap = true,
                }
                from = seq.next();
            }
            resent += u32::from(is_resent);
        }
        // R-REPAIR-11
        if resent > 1 {
            cx.out.count(Metric::SentryAggregated, 1);
        }
        if resent > 0 {
            self.sync(cx, Reason::Resent);
        }
        if ask && !self.awaits_rewind(cx.now) {
            self.ask_for_missing(cx);
        } else if gap {
            self.ask_for_gap(cx);
        }
    }

    /// PSNs of `start .. end` that never came here are needed. Returns whether the source is to be
    /// asked for them.
    fn need_gaps<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, start: Seq, end: Seq) -> bool {
        let pass = &mut self.pass;
        let first = self.gaps.need(start, end, |start, end| {
            let count = end.since(start);
            cx.out.about(start.psn(), count, |out| out.count(Metric::SentryUncached, count));
            pass.need_all(start, end);
        });
        first.is_some_and(|first| !self.pass.will_reach(first))
    }

    /// Asks the source to repeat packets that the Depot misses. If that is impossible, the Depot
    /// delivers past the gap, so that the destination sends a NAK (R-REPAIR-4).
    fn ask_for_missing<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.ask_source(cx) || self.naks.waits() {
            self.helpless = None;
            return;
        }
        // The destination may be asking already: the Depot lets an early packet
        // through while it knows of no ACK.
        let since = *self.helpless.get_or_insert(cx.now);
        // R-REPAIR-5
        if cx.config.recovery == Recovery::Cached {
            self.leave_uncached(cx);
        } else if cx.now >= since + self.rtt.mean() * HELPLESS {
            self.sync(cx, Reason::Lost);
        }
    }

    fn repair_one<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        known: &Knowledge,
        seq: Seq,
    ) -> Repair {
        let Some(slot) = self.window.get_mut(seq) else { return Repair::Wait };
        // The Depot had not heard of the last resend when it complained (R-REPAIR-2).
        let patience = self.rtt.mean().scale(5, 4);
        if slot.has(slot::RESENT) && known.echo < slot.sent && cx.now < slot.sent + patience {
            return Repair::Wait;
        }
        let was_needed = slot.has(slot::NEEDED);
        if !was_needed && !slot.has(slot::RESENT) {
            self.lost = self.lost.saturating_add(1);
        }
        // R-REPAIR-3
        if let Some(handle) = slot.handle.as_ref().map(|kept| kept.handle.clone()) {
            slot.sent = cx.now;
            slot.mark(slot::RESENT);
            if slot.unmark(slot::NEEDED) {
                self.pass.meet(1);
            }
            cx.out.count(Metric::CreatedHandle, 1);
            cx.out.about(seq.psn(), 1, |out| out.count(Metric::SentryResent, 1));
            self.resent = self.resent.saturating_add(1);
            cx.out.forward(Packet::Shared(handle), Class::High);
            return Repair::Resent;
        }
        let is_gap = slot.is_unsent();
        let let_through = slot.round != 0 && slot.round == self.naks.round();
        slot.mark(slot::NEEDED);
        if !was_needed {
            cx.out.about(seq.psn(), 1, |out| out.count(Metric::SentryUncached, 1));
            self.pass.need(seq);
        }
        if self.pass.will_reach(seq) && !let_through {
            Repair::Wait
        } else if is_gap {
            Repair::AskForHole
        } else if seq < self.released && cx.config.recovery == Recovery::Cached {
            // The Depot delivered it before. It misses it again because of a NAK of the
            // destination, which goes on to the source behind this STATUS. To release
            // held packets would flood a LAN that has just lost something (R-REPAIR-6).
            Repair::Wait
        } else {
            Repair::Ask
        }
    }
}
