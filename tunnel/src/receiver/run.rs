//! Frames of a burst that arrive one behind the other on a lane: their shims are known before they are read.

use common::time::Time;

use super::{Deliver, Receiver, ReceiverConfig};
use crate::number::{Lane, Session};
use crate::shim::{self, NO_LANE, Next, Order};

/// First transmissions of a lane, each the next one.
#[derive(Debug)]
pub(crate) struct Run {
    lane: Lane,
    next: Next,
    /// Nothing is missing there, and nothing waits on any lane.
    is_calm: bool,
    /// Frames to deliver at once so far.
    count: u64,
}

/// The place of a frame in a run.
pub(crate) enum Step {
    /// It is to be delivered at once.
    Deliver,
    /// It is the next one, and may have to wait.
    Ask(Order),
    /// It is something else.
    Other,
}

impl Run {
    /// Looks at the next frame.
    #[inline(always)]
    pub fn step<F>(&mut self, shim: &[u8; shim::LEN], receiver: &Receiver<F>) -> Step {
        if !self.next.is(shim) {
            return Step::Other;
        }
        let is_free = || {
            let (lane, before) = self.next.predecessor(shim);
            self.next.is_on_one_lane(shim)
                || lane != NO_LANE && receiver.floors.is_before(lane, before)
        };
        if !self.is_calm || !is_free() {
            return Next::order(shim).map_or(Step::Other, Step::Ask);
        }
        self.next.number.0 = self.next.number.0.wrapping_add(1);
        self.count += 1;
        Step::Deliver
    }
}

impl<F> Receiver<F> {
    /// A run of frames on a lane; `None`, if there is no such lane. R-TUN-6
    #[inline]
    pub(crate) fn begin_run(&self, lane: Lane, session: Session) -> Option<Run> {
        let state = self.lanes.get(lane.index())?;
        let next = Next::new(lane, session, state.next.wire());
        let is_calm = state.is_calm() && self.waiting.is_empty();
        Some(Run { lane, next, is_calm, count: 0 })
    }

    /// The frames of a run were delivered. Returns how many there were.
    #[inline]
    pub(crate) fn end_run(&mut self, run: &Run) -> u64 {
        if run.count > 0 {
            let lane = &mut self.lanes[run.lane.index()];
            lane.counts.arrived += run.count;
            lane.counts.delivered += run.count;
            lane.next += run.count;
            lane.floor = lane.next;
            lane.has_news = true;
            self.floors.set(run.lane, lane.floor);
        }
        run.count
    }

    /// Takes the next frame of a lane, which may have to wait. The run goes on behind it. Returns how many frames the run had,
    /// with this one.
    #[inline]
    pub(crate) fn take_next<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        (run, order): (&mut Run, Order),
        frame: F,
        out: &mut D,
    ) -> u64 {
        let count = self.end_run(run) + 1;
        self.on_next(config, now, run.lane, order, frame, out);
        self.renew_run(run);
        count
    }

    /// The run goes on behind a frame that the lane has taken otherwise.
    #[inline]
    fn renew_run(&mut self, run: &mut Run) {
        let state = &self.lanes[run.lane.index()];
        self.floors.set(run.lane, state.floor);
        run.next.number = state.next.wire();
        (run.is_calm, run.count) = (state.is_calm() && self.waiting.is_empty(), 0);
    }
}
