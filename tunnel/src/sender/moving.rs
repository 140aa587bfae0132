//! What becomes of the frames of a lane that fails.

use arrayvec::ArrayVec;
use common::time::{Span, Time};

use super::outgoing::Slot;
use super::repair::Cause;
use super::{Health, Recover, Sender};
use crate::message::{MAX_RANGES, Skip};
use crate::number::{FrameId, Lane, Number};

/// Numbers that one call looks at. A lane may have a hundred thousand frames in flight, and the worker receives nothing during the call.
const PORTION: usize = 64;
/// SKIPs sent at once.
const MAX_SKIPS: usize = 8;

impl<K> Sender<K> {
    /// There is a good lane again: it takes the frames of those that can't be used, and those that are overdue.
    pub(super) fn rescue<T: Recover<Kept = K>>(&mut self, now: Time, out: &mut T) {
        for lane in Lane::all(self.lanes.len() as u8) {
            let state = &self.lanes[lane.index()];
            if state.health == Health::Down || state.is_late(now) {
                self.move_frames(lane, now, out);
            }
        }
    }

    /// Sends the unreported frames of a suspect lane on good ones, if there are any: some at once, and more each time when
    /// [`on_timer`](Self::on_timer) is called. R-TUN-12
    pub(super) fn move_frames<T: Recover<Kept = K>>(&mut self, from: Lane, now: Time, out: &mut T) {
        let state = &mut self.lanes[from.index()];
        if state.moving.is_none() {
            state.moving = Some(state.base);
            self.move_on(from, now, out);
        }
    }

    /// Sends more of them, if some are to move.
    pub(super) fn move_on<T: Recover<Kept = K>>(&mut self, from: Lane, now: Time, out: &mut T) {
        let Some(number) = self.lanes[from.index()].moving.take() else { return };
        if self.usable(from) == from {
            // The lane is good again, so that its frames stay on it, or no lane is good.
            return;
        }
        let state = &mut self.lanes[from.index()];
        let mut number = number.max(state.base);
        let end = state.next().min(number + PORTION as u64);
        while number < end {
            let state = &mut self.lanes[from.index()];
            let moved = state.can_move(number).then(|| state.settle(number));
            if let Some(slot) = moved.flatten() {
                let slot = Slot { cause: Cause::Moved, ..slot };
                self.repair(now, FrameId::new(from, number), slot, out);
            }
            number = number.next();
        }
        let state = &mut self.lanes[from.index()];
        state.moved(end);
        match state.moving {
            Some(_) => self.move_at = now + Span::from_nanos(1),
            None => self.skip_elsewhere(from, out),
        }
    }

    /// Sends more of those of all lanes, if some are to move.
    pub(super) fn move_all_on<T: Recover<Kept = K>>(&mut self, now: Time, out: &mut T) {
        if self.move_at < Time::NEVER {
            self.move_at = Time::NEVER;
            Lane::all(self.lanes.len() as u8).for_each(|lane| self.move_on(lane, now, out));
        }
    }

    /// Sends SKIPs of those numbers of `lane` on lane `via` that `is_known` to the receiver, up to [`MAX_SKIPS`]. R-TUN-9
    pub(super) fn skip<T: Recover<Kept = K>>(
        &self,
        lane: Lane,
        via: Lane,
        is_known: impl Fn(Number) -> bool,
        out: &mut T,
    ) {
        let mut all = self.lanes[lane.index()].dead.known(is_known);
        for _ in 0..MAX_SKIPS {
            let ranges: ArrayVec<_, MAX_RANGES> = all.by_ref().take(MAX_RANGES).collect();
            if ranges.is_empty() {
                break;
            }
            out.skip(via, Skip { lane, ranges });
        }
    }

    /// Tells the receiver on a good lane which numbers of a lane that is not good carry no frame any more: a REPORT that
    /// asks for them, and a SKIP that answers it, may not cross that lane. R-TUN-59
    pub(super) fn skip_elsewhere<T: Recover<Kept = K>>(&mut self, lane: Lane, out: &mut T) {
        let via = self.usable(lane);
        if via != lane {
            self.skip(lane, via, |_| true, out);
            // No REPORT shortens the list: the rest has its turn with the next PROBE.
            self.lanes[lane.index()].dead.rotate(MAX_SKIPS * MAX_RANGES);
        }
    }
}
