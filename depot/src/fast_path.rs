//! The fast path: the next packet in order of a flow without gaps and without held packets, which the backup pool has
//! room for, or of a passive flow; and the next packet beyond all others of a flow that holds some, which is held as well.
//! It has the same effect as the general way has on such a packet.

use core::mem::offset_of;

use common::cpu::prefetch;
use common::frame::{Class, Frame, Packet};
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::psn::Seq;
use common::time::Time;
use common::wire::{Ack, Look};

use crate::backup::{Backup, keeps_none};
use crate::sequence::{Held, PacketInfo, Sequence};
use crate::{Actions, Config, Context, Flow};

impl<F: Frame> Flow<F> {
    /// A packet in order touches of a flow only its first so many bytes, without the
    /// [cache line](Self::PASSED_OVER) of held packets, and its place in the backup pool.
    pub const FAST_PATH: usize = 160;
    /// In a calm flow, a packet that asks for a response, its ACK and its timer touch the first so many bytes, without that
    /// line, and `told`.
    pub const CALM: usize = 256;
    /// Where that line begins.
    pub const PASSED_OVER: usize = 32;

    /// Whether the next packet will be such a one, as far as it depends on the flow.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.sequence.is_empty()
            && self.incarnation.is_some()
            && self.nak.is_none()
            && !self.pacing.is_late()
            && self.share.is_none()
            && self.backup.has_clock()
    }

    /// Whether the flow is also without kept responses, and the destination has acknowledged something. Only the general way changes
    /// that.
    pub(crate) fn is_calm(&self) -> bool {
        self.ready && self.responses.is_empty() && self.acked.is_some()
    }

    /// A SEND or WRITE packet arrived. It has the effect of [`on_data`](Self::on_data) if it is on the fast path, and
    /// none otherwise. Returns whether the flow's [deadline](Self::fast_deadline) may be earlier than before.
    ///
    /// # Errors
    /// The frame, if it is to take the general way.
    // In line, so that the context is made for the general way only.
    #[inline(always)]
    pub fn on_fast_path<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        look: &Look,
    ) -> Result<bool, F> {
        let seq = self.sequence.next();
        if look.psn != seq.psn() || !cx.config.fast_path {
            return Err(frame);
        }
        if !self.ready {
            return self.on_next_of_passive(cx, frame);
        }
        let reports = cx.now >= self.last_status + self.status_interval(cx.config);
        if reports && !self.is_told_by_ack(seq) || self.seen != cx.lan.generation() {
            return Err(frame);
        }
        debug_assert!(self.is_ready());
        // Every deadline stays or moves back, but for the response that is awaited
        // from now on.
        let begins_to_await = look.ack_req && !self.backup.awaits_response();
        let packet = if keeps_none(cx) {
            Packet::Owned(frame)
        } else {
            let needs_response = look.ack_req && cx.out.src_qpn().is_some();
            let len = frame.bytes().len();
            self.backup.keep_next(cx, seq, frame, len, needs_response)?
        };
        self.learn_pmtu(look);
        self.sequence.step();
        (self.heard, self.stalled) = (cx.now, cx.now);
        if reports {
            self.note_told(cx.now);
        }
        cx.out.count(Metric::DepotInOrder, 1);
        cx.out.deliver(packet);
        Ok(begins_to_await)
    }

    /// As [`deadline`](Self::deadline), of a flow on the fast path.
    #[inline]
    pub fn fast_deadline(&mut self, config: &Config) -> Time {
        debug_assert!(!self.calm || self.is_calm());
        if self.calm { self.calm_deadline(config) } else { self.deadline(config) }
    }

    /// The same for the next SEND or WRITE packet while the flow holds earlier ones. Returns the flow's
    /// [`deadline`](Self::deadline), or an earlier time.
    ///
    /// # Errors
    /// The frame, if it is to take the general way.
    // Not part of `on_fast_path`, which calls no function with the context.
    #[inline]
    pub fn on_next_behind<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        look: &Look,
    ) -> Result<Time, F> {
        debug_assert!(look.opcode.is_plain());
        let (seq, len) = (self.sequence.high(), frame.bytes().len());
        let reports = cx.now >= self.last_status + self.status_interval(cx.config);
        let is_fast = look.psn == seq.psn()
            && cx.config.fast_path
            && !self.sequence.is_empty()
            && self.nak.is_none()
            && self.share.is_none()
            && self.seen == cx.lan.generation()
            // No packet is delivered as a probe.
            && self.acked.is_some()
            && self.keeps_order(cx.config)
            && seq.since(self.sequence.next()) <= cx.config.window_max
            && (!reports || self.is_told_by_ack(seq))
            && cx.pool.take(len);
        if !is_fast {
            return Err(frame);
        }
        debug_assert!(self.incarnation.is_some(), "a passive flow holds nothing");
        let awaited = self.backup.awaits_response();
        (self.heard, self.raised) = (cx.now, cx.now);
        self.learn_pmtu(look);
        let info = PacketInfo { len: len as u32, count: 1, needs_response: look.ack_req };
        // The slot is pushed before the event is recorded: the copy of a slot waits for all earlier stores, and the record's line is seldom in the cache.
        self.sequence.push(Held { packet: Packet::Owned(frame), info, at: cx.now });
        cx.out.about(look.psn, 1, |out| out.count(Metric::DepotHeld, 1));
        let is_in_order = self.sequence.gaps().is_empty();
        let next_due = self.deliver_due(cx);
        if is_in_order {
            self.stalled = cx.now;
        }
        if reports {
            self.note_told(cx.now);
        }
        self.ready = self.is_ready();
        if !awaited {
            self.unpaced_due = self.unpaced_due.min(self.local_due());
        }
        Ok(next_due.min(self.unpaced_due))
    }

    /// The same for the next packet of a flow that may be passive.
    #[inline(always)]
    fn on_next_of_passive<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
    ) -> Result<bool, F> {
        if self.incarnation.is_some() || !self.sequence.is_empty() {
            return Err(frame);
        }
        self.sequence.step();
        self.passed = self.passed.max(self.sequence.next());
        self.heard = cx.now;
        cx.out.count(Metric::DepotPassive, 1);
        cx.out.deliver(Packet::Owned(frame));
        // It has none.
        Ok(false)
    }

    /// A positive ACK of the destination arrived. If the flow is calm, and the ACK acknowledges delivered packets and none twice, this does what
    /// [`on_response`](Self::on_response) does; otherwise it changes nothing. Returns the flow's [`deadline`](Self::deadline).
    ///
    /// # Errors
    /// The frame, if it is to take the general way.
    #[inline(always)]
    pub fn on_ack<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        ack: &Ack,
    ) -> Result<Time, F> {
        let delivered = self.sequence.next();
        let acked = ack.psn.unwrap_near(delivered).next();
        let is_fast = self.calm && !self.within && acked <= delivered && self.acked <= Some(acked);
        if !is_fast {
            return Err(frame);
        }
        debug_assert!(self.is_calm() && self.is_ready());
        (self.heard, self.credits) = (cx.now, ack.credits);
        self.responses.answered = acked;
        if self.acked < Some(acked) {
            self.note_acked(acked, Some(ack.msn));
            self.backup.acknowledge(cx, acked);
        }
        cx.out.respond(Packet::Owned(frame), Class::Data);
        Ok(self.calm_deadline(cx.config))
    }

    /// Prefetches the state that the next packet will need, or an ACK.
    #[inline]
    pub fn prefetch(&self) {
        let Self { heard, rtt, backup, acked, .. } = self;
        prefetch(heard);
        prefetch(rtt);
        backup.prefetch();
        prefetch(acked);
    }

    /// Prefetches the oldest packet's places in the backup pool, which an ACK takes. The rest of what an ACK needs has been
    /// prefetched.
    #[inline]
    pub fn prefetch_oldest(&self) {
        self.backup.prefetch_oldest();
    }

    /// Prefetches all that timers need.
    #[inline]
    pub fn prefetch_all(&self) {
        let Self { sequence, pacing, raised, echo, .. } = self;
        self.prefetch();
        prefetch(sequence.gaps());
        prefetch(pacing);
        prefetch(raised);
        prefetch(echo);
    }
}

type Checked = Flow<HeapFrame>;

const _: () = assert!(
    offset_of!(Checked, sequence) + size_of::<Seq>() == Checked::PASSED_OVER
        && offset_of!(Checked, sequence) + size_of::<Sequence<HeapFrame>>()
            == Checked::PASSED_OVER + 64
        && offset_of!(Checked, responses) + size_of::<Seq>() == Checked::CALM
        && offset_of!(Checked, backup) + Backup::<HeapFrame>::KEPT <= Checked::FAST_PATH
        && offset_of!(Checked, unpaced_due) >= Checked::PASSED_OVER + 4 * 64
        && offset_of!(Checked, raised) == Checked::PASSED_OVER + 5 * 64
        && offset_of!(Checked, incarnation) <= Checked::PASSED_OVER + 6 * 64,
    "what lies between is not touched, and a held packet's fields lie in two lines"
);
