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
use crate::{Actions, Context, Flow};

impl<F: Frame> Flow<F> {
    /// Such a packet touches of a flow only its first so many bytes, and its slot.
    pub const FAST_PATH: usize = 96;

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

    /// A SEND or WRITE packet arrived. It has the effect of [`on_data`](Self::on_data) if it is on the fast path, and none
    /// otherwise. Returns whether [`deadline`](Self::deadline) may be earlier than before.
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

    /// A positive ACK of the destination arrived. It has the effect of [`on_response`](Self::on_response) if nothing but packets
    /// of SENDs and WRITEs is in flight and nothing is in doubt, and none otherwise. Returns the flow's [`deadline`](Self::deadline).
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
        let is_fast = self.ready
            && self.acked.is_some()
            && self.doubt.is_none()
            && self.reads.is_idle()
            && self.naks.is_idle();
        if !is_fast {
            return Err(frame);
        }
        debug_assert!(self.is_ready(cx.now) && !self.is_bypassed());
        (self.answered, self.credits) = (cx.now, ack.credits);
        let acked = ack.psn.unwrap_near(self.next).next();
        self.confirm(acked);
        self.advance_acked(cx, acked, Some(ack.msn));
        cx.out.respond(frame);
        if self.acked == Some(self.next) {
            return Ok(Time::NEVER);
        }
        Ok(self.deadline(cx.config, cx.now, cx.allowance.may_be_early(cx.now)))
    }

    /// Prefetches the state that the next packet will need.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.next);
        prefetch(&self.pmtu);
        if self.window.is_empty() {
            // The deadlines are to be found out.
            self.prefetch_all();
        }
    }

    /// Prefetches all that responses and timers need.
    #[inline]
    pub fn prefetch_all(&self) {
        let Self { next, pmtu, acked, discovery, naks, reads, .. } = self;
        prefetch(next);
        prefetch(pmtu);
        prefetch(acked);
        prefetch(discovery);
        prefetch(naks);
        prefetch(reads);
    }
}

const _: () = assert!(
    offset_of!(Flow<HeapFrame>, msn) <= Flow::<HeapFrame>::FAST_PATH,
    "the fields before `msn` are those of a packet on the fast path"
);
