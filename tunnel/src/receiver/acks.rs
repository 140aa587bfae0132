//! ACKs, which overtake each other. R-TUN-24

use common::time::Time;

use super::{Deliver, Receiver, ReceiverConfig};
use crate::number::{FrameId, Number};
use crate::shim::CLEAR_MAX;

impl<F> Receiver<F> {
    /// Whether all responses before an ACK are delivered that it must not overtake. R-TUN-24
    pub(super) fn may_overtake(&self, clear: u8, id: FrameId) -> bool {
        let newest = id.number().get().checked_sub(1 << clear.min(CLEAR_MAX));
        let floor = self.lanes[id.lane().index()].floor;
        clear > 0 && newest.is_none_or(|newest| Number::new(newest) < floor)
    }

    /// Delivers an ACK. Its successors still wait for its predecessor. R-TUN-24
    pub(super) fn deliver_early<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        before: FrameId,
        id: FrameId,
        frame: F,
        out: &mut D,
    ) {
        self.lanes[id.lane().index()].counts.delivered += 1;
        out.deliver(frame);
        let is_in_chain = self.chain(config, now, (id, Some(before)), out);
        let counts = &mut self.lanes[id.lane().index()].counts;
        counts.overtook += u64::from(is_in_chain);
        counts.unordered += u64::from(!is_in_chain);
    }

    /// Whether a later frame of its flow was delivered before frame `id`: an ACK.
    pub(super) fn is_overtaken(&self, id: FrameId) -> bool {
        self.waiting.seek(id).is_some_and(|(.., is_held)| !is_held)
    }

    /// Drops an ACK that comes behind a newer one of its flow, which acknowledges all that it does. The queue pair may have been used again
    /// since.
    pub(super) fn drop_superseded<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        frame_of: (FrameId, Option<FrameId>),
        frame: F,
        out: &mut D,
    ) {
        self.lanes[frame_of.0.lane().index()].counts.superseded += 1;
        out.discard(frame);
        self.chain(config, now, frame_of, out);
    }

    /// Successors of frame `id`, which is delivered or dropped, wait for the frame that it waits for, if it does. Whether they do.
    fn chain<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        (id, before): (FrameId, Option<FrameId>),
        out: &mut D,
    ) -> bool {
        let waits = before.is_some_and(|before| {
            self.has_room(config) && self.waiting.put(before, id, None, now).is_ok()
        });
        if !waits {
            self.settle(id);
            self.resume(config, now, id, out);
        }
        waits
    }
}
