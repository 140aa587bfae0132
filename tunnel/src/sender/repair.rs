//! What becomes of a transmission that brought nothing.

use common::time::{Span, Time};

use super::age::{Age, slot};
use super::outgoing::Slot;
use super::{Recover, Sender};
use crate::number::{FrameId, Lane, Number};
use crate::shim::Shim;

/// Why a frame is resent, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// Its transmission was lost.
    Lost,
    /// The same, and the share of retransmissions is used up.
    Beyond,
    /// The same, and the frame is too old.
    Old,
    /// The same, and so were all resends of its flow.
    Refused,
    /// Its lane is suspect.
    Moved,
}

impl<K> Sender<K> {
    /// A REPORT says that transmissions of a lane were lost.
    pub(super) fn repair_all<T: Recover<Kept = K>>(
        &mut self,
        now: Time,
        lane: Lane,
        lost: &mut Vec<(Number, Slot<K>)>,
        out: &mut T,
    ) {
        let (mut wanted, most) = (0, self.age_max());
        for (_, slot) in &mut *lost {
            slot.cause = self.judge((now, most), lane, slot, out);
            wanted += u64::from(slot.cause == Cause::Lost && slot.kept.is_some());
        }
        let state = &self.lanes[lane.index()];
        let (rtt, idle) = (state.rtt().mean(), state.waits().probe);
        let mut beyond = wanted.saturating_sub(self.share.left(now, rtt, idle));
        for (number, mut slot) in lost.drain(..) {
            // The oldest are skipped. R-TUN-9
            if beyond > 0 && slot.cause == Cause::Lost && slot.kept.is_some() {
                beyond -= 1;
                slot.cause = Cause::Beyond;
            }
            self.repair(now, FrameId::new(lane, number), slot, out);
        }
    }

    /// Whether a frame is resent of which a transmission was lost, if the share lasts. R-TUN-62
    fn judge<T: Recover<Kept = K>>(
        &mut self,
        (now, most): (Time, Span),
        lane: Lane,
        slot: &mut Slot<K>,
        out: &mut T,
    ) -> Cause {
        let Some(kept) = &slot.kept else { return Cause::Lost };
        if slot.age.resends == 0 {
            slot.age.slot = self::slot(out.order(kept));
        } else {
            out.lost_again(now, lane, kept);
        }
        let rtt = self.lanes[lane.index()].rtt().mean();
        let is_refused = self.refused.lost(now, &slot.age, rtt);
        if slot.age.is_over(now, most) {
            Cause::Old
        } else if is_refused {
            Cause::Refused
        } else {
            Cause::Lost
        }
    }

    /// Transmission `lost` of a frame brought nothing.
    pub(super) fn repair<T: Recover<Kept = K>>(
        &mut self,
        now: Time,
        lost: FrameId,
        slot: Slot<K>,
        out: &mut T,
    ) {
        let Slot { id, kept, age, cause } = slot;
        let again = lost != id;
        if again {
            // No frame has this number, so that the receiver need not wait for it.
            self.lanes[lost.lane().index()].dead.push(lost.number());
        }
        // R-TUN-34
        let is_left = !matches!(cause, Cause::Beyond | Cause::Moved);
        let kept = match kept {
            None if again => return self.lose_copy(id),
            Some(kept) if again && is_left => match self.leave_to_copy(lost, (id, age), kept) {
                Ok(()) => return,
                Err(kept) => Some(kept),
            },
            kept => kept,
        };
        if let Some(kept) = kept {
            let lane = if self.is_good(lost.lane()) {
                lost.lane()
            } else {
                self.substitute(lost.lane(), lost.number().get())
            };
            let kept = match cause {
                Cause::Beyond | Cause::Old | Cause::Refused => Err(kept),
                Cause::Lost => self.resend(now, lane, (id, age.resent()), kept, out),
                Cause::Moved => self.resend(now, lane, (id, age), kept, out),
            };
            // The frame is on its way, and without memory it can't be moved: a REPORT decides.
            let kept = match kept {
                Err(kept) if cause == Cause::Moved && !again => {
                    let from = &mut self.lanes[lost.lane().index()];
                    return from.restore(lost.number(), kept);
                }
                kept => kept,
            };
            let Err(kept) = kept else {
                let from = &mut self.lanes[lost.lane().index()];
                match cause {
                    Cause::Moved => from.counts.moved += 1,
                    _ => self.share.resent(now, from.waits().probe),
                }
                from.counts.resent_again += u64::from(again);
                return;
            };
            self.kept -= 1;
            self.lanes[lost.lane().index()].counts.released += 1;
            out.release(kept);
        }
        let first = &mut self.lanes[id.lane().index()];
        first.counts.skipped += 1;
        match cause {
            Cause::Beyond => first.counts.skipped_beyond += 1,
            Cause::Old => first.counts.skipped_old += 1,
            Cause::Refused => first.counts.skipped_refused += 1,
            Cause::Lost | Cause::Moved => {}
        }
        first.dead.push(id.number());
    }

    /// Sends a frame again, or returns its handle if there is no memory for it.
    fn resend<T: Recover<Kept = K>>(
        &mut self,
        now: Time,
        lane: Lane,
        (id, age): (FrameId, Age),
        kept: K,
        out: &mut T,
    ) -> Result<(), K> {
        let state = &mut self.lanes[lane.index()];
        let shim = Shim {
            lane,
            number: state.next().wire(),
            session: self.session,
            predecessor: None,
            original: Some(id.wire()),
            is_kept: true,
            clear: 0,
        };
        if !out.resend(&shim, &kept) {
            return Err(kept);
        }
        state.counts.resent += 1;
        let sent = FrameId::new(lane, state.next());
        self.copy(now, sent, &shim, &kept, out);
        self.lanes[lane.index()].push(now, id, Some(kept), age);
        Ok(())
    }
}
