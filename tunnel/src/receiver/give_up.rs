//! Gaps that are given up: nothing waits for their numbers any more. R-TUN-26

use common::time::{Span, Time};

use super::{Deliver, Receiver, ReceiverConfig};
use crate::gaps::Gap;
use crate::message::Skip;
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

    /// The sender does not send these transmissions again. R-TUN-9
    pub fn on_skip<D: Deliver<F>>(&mut self, now: Time, skip: &Skip, out: &mut D) {
        let Some(lane) = self.lanes.get(skip.lane.index()) else {
            self.strangers.refused += 1;
            return;
        };
        let near = lane.next;
        self.mark_repaired(now);
        for (start, count) in &skip.ranges {
            let Some(start) = Number::read(*start, near) else { continue };
            let end = start + u64::from(*count);
            while let Some(gap) = self.lanes[skip.lane.index()].gaps.cut(start, end) {
                // If the SKIP were lost, what is missing would be reported again: nothing need be said of it.
                self.lanes[skip.lane.index()].counts.skipped += gap.count();
                self.abandon(now, skip.lane, gap, out);
            }
        }
    }

    /// The sender repairs what is missing.
    pub(super) const fn mark_repaired(&mut self, now: Time) {
        (self.repaired_at, self.is_unrepaired) = (now, false);
    }

    /// How long a number is missing until it is given up. R-TUN-10, R-TUN-63
    #[inline]
    pub(super) const fn patience(&self, config: &ReceiverConfig) -> Span {
        if self.is_unrepaired { Span::ZERO } else { config.give_up }
    }

    /// Gives up the gaps of all lanes that are too old.
    pub(super) fn give_up_all_old<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        out: &mut D,
    ) {
        loop {
            let patience = self.patience(config);
            for lane in Lane::all(self.lanes.len() as u8) {
                self.give_up_old(config, now, lane, out);
            }
            // Once a gap shows that the sender repairs nothing, the gaps of lanes before it are not waited for either.
            if self.patience(config) == patience {
                break;
            }
        }
    }

    /// Gives up the gaps of a lane that are too old.
    fn give_up_old<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        lane: Lane,
        out: &mut D,
    ) {
        while let Some(gap) = self.lanes[lane.index()].gaps.front()
            && now >= gap.since + self.patience(config)
        {
            self.is_unrepaired |= gap.since > self.repaired_at;
            self.give_up_first(now, lane, out);
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
        self.release_range(now, lane, first, to, out);
    }
}
