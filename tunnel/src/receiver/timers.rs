//! What a receiver does when the time has come.

use common::time::Time;

use super::{Deliver, Incoming, Receiver, ReceiverConfig};
use crate::number::Lane;

impl<F> Receiver<F> {
    /// When [`on_timer`](Self::on_timer) has to be called; [`Time::NEVER`] if nothing is due.
    pub fn deadline(&self, config: &ReceiverConfig) -> Time {
        let each = self.lanes.iter().map(|lane| lane.due(config, self.patience(config)));
        each.min().unwrap_or(Time::NEVER).min(self.due_of_all(config))
    }

    /// When it has to be called for a lane, or for the frames that wait.
    #[inline]
    pub fn due_of(&self, config: &ReceiverConfig, lane: Lane) -> Time {
        let of_lane = self
            .lanes
            .get(lane.index())
            .map_or(Time::NEVER, |lane| lane.due(config, self.patience(config)));
        of_lane.min(self.due_of_all(config))
    }

    #[inline]
    fn due_of_all(&self, config: &ReceiverConfig) -> Time {
        self.waiting.deadline(config.give_up).min(self.paced_due())
    }

    /// Gives up old gaps and sends the REPORTs that are due.
    pub fn on_timer<D: Deliver<F>>(&mut self, config: &ReceiverConfig, now: Time, out: &mut D) {
        let interval = config.report_interval;
        let is_due = |lane: &Incoming| now >= lane.all_due(interval);
        // Lanes whose REPORTs would be due soon join the first one that is: all have their time together from then
        // on. R-TUN-57
        let since = if self.lanes.iter().any(is_due) { interval / 2 } else { interval };
        self.give_up_all_old(config, now, out);
        for lane in Lane::all(self.lanes.len() as u8) {
            if now >= self.lanes[lane.index()].all_due(since) {
                self.report(config, now, lane, true, out);
            }
            self.report_urgent(config, now, lane, out);
        }
        self.deliver_due(config, now, out);
        if now >= self.waiting.deadline(config.give_up) {
            // `give_up` was made shorter: paced frames that have waited for longer are delivered now. R-TUN-60
            self.deliver_all(now, out);
        }
        // A frame can wait for `give_up` although no gap is that old: its predecessor was sent on a lane that is silent
        // since, or the frame names an impossible one. R-TUN-10
        while let Some((since, before)) = self.waiting.oldest() {
            if now < since + config.give_up {
                break;
            }
            let count = self.waiting.frames();
            self.release(now, before, out);
            let lane = &mut self.lanes[before.lane().index()];
            lane.counts.unordered += u64::from(self.waiting.frames() < count);
        }
    }
}
