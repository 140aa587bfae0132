//! Frames that were lost and decoded from repair frames, and numbers that may be. R-TUN-68

use common::time::Time;
use fec::Plan;

use super::incoming::{Incoming, wait_max};
use super::{Deliver, Receiver, ReceiverConfig};
use crate::number::{Lane, Number};
use crate::shim::Shim;

impl<F> Receiver<F> {
    /// The number above the newest one of a lane; `None`: there is no such lane.
    pub fn next(&self, lane: Lane) -> Option<Number> {
        self.lanes.get(lane.index()).map(|lane| lane.next)
    }

    /// Frames of a lane are in repair frames by this plan from now on.
    #[inline]
    pub fn set_plan(&mut self, lane: Lane, plan: Option<Plan>) {
        if let Some(lane) = self.lanes.get_mut(lane.index()) {
            lane.plan = plan;
        }
    }

    /// A lost frame was decoded, transmission `number` of its lane.
    pub fn on_decoded<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        (shim, number): (&Shim, Number),
        frame: F,
        out: &mut D,
    ) {
        let Some(lane) = self.lanes.get_mut(shim.lane.index()) else { return };
        debug_assert_eq!(shim.number, number.wire());
        lane.counts.arrived += 1;
        self.on_slow_path(config, now, shim, true, frame, out);
        self.floors.set(shim.lane, self.lanes[shim.lane.index()].floor);
    }
}

impl Incoming {
    /// The first missing number that may still be decoded, and is not waited for too long; or the next one.
    pub(super) fn hopeless_end(&self, plan: Plan, config: &ReceiverConfig, now: Time) -> Number {
        // A window, and the rest of its newest block.
        let reach = plan.span() + u64::from(plan.streams()) * u64::from(plan.every());
        let may_be = |number: Number| plan.last_chance(number.get()) + 1 >= self.next.get();
        let mut gaps = self.gaps.from(self.next - reach);
        let open = gaps.find(|gap| now < gap.since + wait_max(config) && may_be(gap.end - 1));
        open.map_or(self.next, |gap| gap.start)
    }
}
