//! The fast path: the next packet in order of a protected flow that sends only SENDs and
//! WRITEs. It has the same effect as [`Flow::on_data`] has on such a packet, which handles
//! all others.

use core::mem::offset_of;

use common::cpu::prefetch;
use common::frame::{Class, Frame, Packet};
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::time::Time;
use common::wire::{Ack, Identity, Look};

use crate::cache::share;
use crate::incarnation::PAUSE_MIN;
use crate::slot::Slot;
use crate::{Actions, Config, Context, Flow};

impl<F: Frame> Flow<F> {
    /// Such a packet touches of a flow that has others in flight only its first so many bytes, and its slot.
    pub const FAST_PATH: usize = 96;
    /// In a calm flow, a packet that is the only one in flight, its ACK and its timer touch the first so many bytes, and its slot.
    pub const CALM: usize = 160;

    /// Whether the packet is such a one.
    #[inline(always)]
    fn is_fast<A>(&self, cx: &Context<'_, A>, look: &Look) -> bool {
        self.ready
            && look.psn == self.next.psn()
            && self.pmtu.knows(look)
            // Not as long as `pause`, perhaps, which depends on the round trip.
            && cx.now < self.last_data + cx.config.pause.unwrap_or(PAUSE_MIN)
            // Places, of which each may have a slot.
            && self.next < self.window.start() + u64::from(self.granted)
    }

    /// Whether the next packet will be such a one, as far as it depends on the flow.
    pub(crate) fn is_ready(&self, now: Time) -> bool {
        self.is_protected() && !self.reads.is_waiting() && !self.pass.is_on() && now >= self.lossy
    }

    /// Whether only packets of SENDs and WRITEs are in flight, the incarnation is certain, and neither source nor Depot is asked for
    /// packets. Only the general way changes that.
    pub(crate) fn is_calm(&self) -> bool {
        self.ready
            && self.acked.is_some()
            && self.doubt.is_none()
            && self.reads.is_idle()
            && self.naks.is_quiet()
            && self.gaps.is_empty()
            && self.helpless.is_none()
    }

    /// A SEND or WRITE packet arrived. It has the effect of [`on_data`](Self::on_data) if it is on the fast path, and none
    /// otherwise. Returns whether the flow's [deadline](Self::fast_deadline) may be earlier than before.
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
        if !self.is_fast(cx, look) {
            return Err(frame);
        }
        debug_assert!(self.is_ready(cx.now) && self.window.end() == self.next);
        // Every deadline stays or moves back, if the source was sending when they
        // were last looked at: not if it had paused, and was asked about, and there were none while nothing was in
        // flight. (Early SYNCs that were withheld for a while may come late once.)
        let was_sending =
            self.tails == 0 && self.last_data > self.last_sync && !self.window.is_empty();
        self.last_data = cx.now;
        self.tails = 0;
        cx.out.count(Metric::SentryNew, 1);
        self.next = self.next.next();
        let keep = cx.config.recovery.caches();
        let identity = Identity::within(frame.bytes(), look.l3, look.end);
        let (packet, handle) = if keep { share(cx, frame) } else { (Packet::Owned(frame), None) };
        self.window.push(Slot::new(cx.now, identity, look.ack_req, handle));
        cx.out.forward(packet, Class::Data);
        Ok(!was_sending)
    }

    /// As [`deadline`](Self::deadline), of a flow on the fast path that has packets in flight.
    #[inline]
    pub fn fast_deadline(&self, config: &Config, now: Time, may_be_early: bool) -> Time {
        if !self.calm {
            return self.deadline(config, now, may_be_early);
        }
        debug_assert!(self.is_calm() && self.is_outstanding());
        self.calm_deadline(config, now, may_be_early)
    }

    /// A positive ACK of the destination arrived. If the flow is calm, this does what [`on_response`](Self::on_response) does;
    /// otherwise it changes nothing. Returns the flow's [`deadline`](Self::deadline).
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
        if !self.calm {
            return Err(frame);
        }
        debug_assert!(self.is_calm() && self.is_ready(cx.now) && !self.is_bypassed());
        (self.answered, self.credits) = (cx.now, ack.credits);
        let acked = ack.psn.unwrap_near(self.next).next();
        self.confirm(acked);
        if acked <= self.next && self.acked < Some(acked) {
            self.note_acked(acked, ack.msn);
            self.trim_slots(cx, acked);
        }
        cx.out.respond(frame);
        if self.acked == Some(self.next) {
            return Ok(Time::NEVER);
        }
        Ok(self.fast_deadline(cx.config, cx.now, cx.allowance.may_be_early(cx.now)))
    }

    /// Prefetches the state that the next packet will need, or an ACK.
    #[inline]
    pub fn prefetch(&self) {
        let Self { next, acked, rtt, .. } = self;
        prefetch(next);
        prefetch(acked);
        prefetch(rtt);
    }

    /// Prefetches the oldest packet's slot, which an ACK takes. The rest of what an ACK needs has been prefetched.
    #[inline]
    pub fn prefetch_oldest(&self) {
        if let Some(slot) = self.window.front() {
            prefetch(slot);
        }
    }

    /// Prefetches all that timers need.
    #[inline]
    pub fn prefetch_all(&self) {
        let Self { discovery, naks, reads, knowledge, .. } = self;
        self.prefetch();
        prefetch(discovery);
        prefetch(naks);
        prefetch(reads);
        prefetch(knowledge);
    }
}

type Checked = Flow<HeapFrame>;

const _: () = assert!(
    offset_of!(Checked, rtt) == Checked::FAST_PATH && offset_of!(Checked, doubt) == Checked::CALM,
    "the fields before `rtt` are those of a packet on the fast path, those before `doubt` those of a calm flow"
);
