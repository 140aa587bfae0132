//! The fast path: the next packet in order of a flow without gaps and without held packets.
//! It has the same effect as [`Flow::on_data`] has on such a packet, which handles all others.

use core::mem::offset_of;

use common::frame::{Frame, Packet};
use common::heap::HeapFrame;
use common::metrics::Metric;
use common::psn::Seq;
use common::wire::Roce;

use crate::backup::Backup;
use crate::sequence::{PacketInfo, Sequence};
use crate::{Actions, Context, Flow};

impl<F: Frame> Flow<F> {
    /// Such a packet touches of a flow only its first so many bytes, without the
    /// [cache line](Self::PASSED_OVER) of held packets, and its place in the backup pool.
    pub const FAST_PATH: usize = 160;
    /// Where that line begins.
    pub const PASSED_OVER: usize = 32;

    /// Whether the packet is such a one.
    #[inline]
    pub(crate) fn is_fast(&self, seq: Seq, roce: &Roce) -> bool {
        self.ready && seq == self.sequence.next() && roce.kind().is_plain()
    }

    /// Whether the next packet will be such a one, as far as it depends on the flow.
    pub(crate) fn is_ready(&self) -> bool {
        self.sequence.is_empty()
            && self.incarnation.is_some()
            && self.nak.is_none()
            && !self.pacing.is_late()
            && self.share.is_none()
    }

    #[inline]
    pub(crate) fn on_fast_path<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
        roce: &Roce,
    ) {
        debug_assert!(self.is_ready());
        self.learn_pmtu(roce);
        self.sequence.step();
        (self.heard, self.stalled) = (cx.now, cx.now);
        cx.out.count(Metric::DepotInOrder, 1);
        // Every deadline stays or moves back, but for the response that is awaited
        // from now on.
        self.due_as_before = !roce.ack_req || self.backup.awaits_response();
        let len = frame.bytes().len() as u32;
        let info = PacketInfo { len, count: 1, needs_response: roce.ack_req };
        self.transmit(cx, seq, Packet::Owned(frame), info);
        if cx.now >= self.last_status + self.status_interval(cx.config) {
            self.report_arrivals(cx, seq);
        }
    }

    /// Looks at the state that the next packet will need, so that it is in the cache by
    /// then.
    #[inline]
    pub fn prefetch(&self) {
        core::hint::black_box((self.heard, self.pmtu));
        if self.backup.is_empty() {
            // The deadlines are to be found out.
            self.prefetch_all();
        }
    }

    /// Looks at all that responses and timers need.
    #[inline]
    pub fn prefetch_all(&self) {
        let Self { heard, sequence, pmtu, backup, acked, .. } = self;
        core::hint::black_box((
            *heard,
            sequence.is_empty(),
            *pmtu,
            backup.awaits_response(),
            *acked,
        ));
        let Self { nak, responses, told, probed, .. } = self;
        core::hint::black_box((nak.is_some(), responses.is_empty(), *told, *probed));
    }

    /// Whether [`deadline`](Self::deadline) is no earlier than before the last
    /// event. False if that isn't known, which includes being asked twice.
    #[inline]
    pub fn is_due_as_before(&mut self) -> bool {
        core::mem::take(&mut self.due_as_before)
    }
}

type Checked = Flow<HeapFrame>;

const _: () = assert!(
    offset_of!(Checked, sequence) + size_of::<Seq>() == Checked::PASSED_OVER
        && offset_of!(Checked, sequence) + size_of::<Sequence<HeapFrame>>()
            == Checked::PASSED_OVER + 64
        && offset_of!(Checked, backup) + Backup::<HeapFrame>::KEPT <= Checked::FAST_PATH,
    "what lies between is not touched"
);
