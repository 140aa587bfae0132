//! Gaps that are given up: nothing waits for their numbers any more. R-TUN-26

use common::time::Time;

use super::{Deliver, Receiver};
use crate::gaps::Gap;
use crate::number::{Lane, Number};

impl<F> Receiver<F> {
    /// Nothing is waited for in a gap any more, which was removed from the list.
    pub(super) fn abandon<D: Deliver<F>>(&mut self, now: Time, lane: Lane, gap: Gap, out: &mut D) {
        self.deliver_all(now, out);
        self.lanes[lane.index()].abandon(gap);
        self.release_range(now, lane, gap.start, gap.end, out);
    }

    /// Delivers the frames that wait for the numbers `from` .. `to`.
    fn release_range<D: Deliver<F>>(
        &mut self,
        now: Time,
        lane: Lane,
        from: Number,
        to: Number,
        out: &mut D,
    ) {
        if !self.waiting.is_empty() {
            let mut range = core::mem::take(&mut self.range);
            self.waiting.within(lane, from, to, &mut range);
            for before in range.drain(..) {
                self.release(now, before, out);
            }
            self.range = range;
        }
    }

    /// Gives up the first gap of a lane. R-TUN-10
    pub(super) fn give_up_first<D: Deliver<F>>(
        &mut self,
        now: Time,
        lane: Lane,
        out: &mut D,
    ) -> bool {
        let state = &mut self.lanes[lane.index()];
        let Some(gap) = state.gaps.pop() else { return false };
        state.has_news = true;
        state.counts.given_up += gap.count();
        out.gave_up(lane, gap.start, gap.count());
        self.abandon(now, lane, gap, out);
        true
    }

    /// Gives up the oldest gap of all lanes. False if there is none.
    pub(super) fn give_up_oldest<D: Deliver<F>>(&mut self, now: Time, out: &mut D) -> bool {
        let lanes = Lane::all(self.lanes.len() as u8);
        let since = |lane: Lane| Some((self.lanes[lane.index()].gaps.front()?.since, lane));
        match lanes.filter_map(since).min() {
            Some((_, lane)) => self.give_up_first(now, lane, out),
            None => false,
        }
    }

    /// Gives up all of a lane before `to`.
    pub(super) fn give_up_lane<D: Deliver<F>>(
        &mut self,
        now: Time,
        lane: Lane,
        to: Number,
        out: &mut D,
    ) {
        self.deliver_all(now, out);
        while self.give_up_first(now, lane, out) {}
        let state = &mut self.lanes[lane.index()];
        let (first, count) = (state.next, to.since(state.next));
        state.counts.given_up += count;
        if count > 0 {
            out.gave_up(lane, first, count);
        }
        let state = &mut self.lanes[lane.index()];
        state.jump(to);
        self.release_range(now, lane, Number::default(), to, out);
    }
}
