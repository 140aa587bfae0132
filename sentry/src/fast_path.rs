//! The fast path: the next packet in order of a protected flow that sends only SENDs and
//! WRITEs. It has the same effect as [`Flow::on_data`] has on such a packet, which handles
//! all others.

use core::mem::offset_of;

use common::frame::{Class, Frame, Packet};
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::psn::Seq;
use common::time::Time;
use common::wire::{Identity, Roce};

use crate::cache::share;
use crate::incarnation::PAUSE_MIN;
use crate::slot::Slot;
use crate::{Actions, Context, Flow};

impl<F: Frame> Flow<F> {
    /// Such a packet touches of a flow only its first so many bytes, and its slot.
    pub const FAST_PATH: usize = 96;

    /// Whether the packet is such a one.
    #[inline]
    pub(crate) fn is_fast<A>(&self, cx: &Context<'_, A>, seq: Seq, roce: &Roce) -> bool {
        self.ready
            && seq == self.next
            && roce.kind().is_plain()
            && self.pmtu.knows(roce)
            // Not as long as `pause`, perhaps, which depends on the round trip.
            && cx.now < self.last_data + cx.config.pause.unwrap_or(PAUSE_MIN)
            // Places, of which each may have a slot.
            && self.next < self.window.start() + u64::from(self.granted)
    }

    /// Whether the next packet will be such a one, as far as it depends on the flow.
    pub(crate) fn is_ready(&self, now: Time) -> bool {
        self.is_protected() && !self.reads.is_waiting() && !self.pass.is_on() && now >= self.lossy
    }

    #[inline]
    pub(crate) fn on_fast_path<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        roce: &Roce,
    ) {
        debug_assert!(self.is_ready(cx.now) && self.window.end() == self.next);
        // Every deadline stays or moves back, if the source was sending when they
        // were last looked at: not if it had paused, and was asked about. (Early
        // SYNCs that were withheld for a while may come late once.)
        self.due_as_before = self.tails == 0 && self.last_data > self.last_sync;
        self.last_data = cx.now;
        self.tails = 0;
        cx.out.count(Metric::SentryNew, 1);
        self.next = self.next.next();
        let keep = cx.config.recovery.caches();
        let identity = Identity::of(frame.bytes(), roce);
        let (packet, handle) = if keep { share(cx, frame) } else { (Packet::Owned(frame), None) };
        self.window.push(Slot::new(cx.now, identity, roce.ack_req, handle));
        cx.out.forward(packet, Class::Data);
    }

    /// Looks at the state that the next packet will need, so that it is in the cache by
    /// then.
    #[inline]
    pub fn prefetch(&self) {
        core::hint::black_box((self.next, self.pmtu.get()));
        if self.window.is_empty() {
            // The deadlines are to be found out.
            self.prefetch_all();
        }
    }

    /// Looks at all that responses and timers need.
    #[inline]
    pub fn prefetch_all(&self) {
        let Self { next, pmtu, acked, released, quiet, naks, pass, .. } = self;
        core::hint::black_box((
            *next,
            pmtu.get(),
            *acked,
            *released,
            *quiet,
            naks.round(),
            pass.is_needed(),
        ));
        let Self { discovery, reads, answered, epoch, .. } = self;
        core::hint::black_box((discovery.is_protected(), reads.is_waiting(), *answered, *epoch));
    }

    /// Whether [`deadline`](Self::deadline) is no earlier than before the last
    /// event. False if that isn't known, which includes being asked twice.
    #[inline]
    pub fn is_due_as_before(&mut self) -> bool {
        core::mem::take(&mut self.due_as_before)
    }
}

const _: () = assert!(
    offset_of!(Flow<HeapFrame>, msn) <= Flow::<HeapFrame>::FAST_PATH,
    "the fields before `msn` are those of a packet on the fast path"
);
