//! What a sender tells of its lanes to those who watch them.

use common::rtt::Rtt;
use common::time::{Span, Time};

use super::age::age_max;
use super::outgoing::Outgoing;
use super::{Health, Sender, Sent};
use crate::number::Lane;

impl<K> Sender<K> {
    /// Counts of a lane: of frames and REPORTs on it, and of frames whose first transmission was on it.
    pub fn lane_counts(&self, lane: Lane) -> Option<&Sent> {
        self.lanes.get(lane.index()).map(|lane| &lane.counts)
    }

    /// How long a lane with unreported frames has waited for a REPORT; zero if all is reported.
    pub fn report_age(&self, lane: Lane, now: Time) -> Option<Span> {
        self.lanes.get(lane.index()).map(|lane| lane.report_age(now))
    }

    /// When the newest REPORT came, or the first frame was sent that waits for one, of the lane for which that is longest ago; `None` if
    /// all is reported.
    pub(crate) fn waiting_since(&self) -> Option<Time> {
        self.lanes.iter().filter(|lane| !lane.is_idle()).map(Outgoing::waiting_since).min()
    }

    /// How long a frame may be in the tunnel: eight waits for a REPORT, 50 ms at least and `give_up` at most. R-TUN-62
    pub(crate) fn age_max(&self) -> Span {
        let measured = self.lanes.iter().filter(|lane| lane.rtt().is_measured());
        let wait = measured.map(|lane| lane.waits().report).max();
        wait.map_or(self.give_up, |wait| age_max(wait, self.give_up))
    }

    /// Health of a lane.
    pub fn health(&self, lane: Lane) -> Option<Health> {
        self.lanes.get(lane.index()).map(|lane| lane.health)
    }

    /// The round trip of a lane, with the time that its REPORTs wait.
    pub fn rtt(&self, lane: Lane) -> Option<&Rtt> {
        self.lanes.get(lane.index()).map(Outgoing::rtt)
    }

    /// How long a frame that is sent now is predicted to wait in queues of a lane's path. R-TUN-35
    pub fn queue(&self, lane: Lane, now: Time) -> Option<Span> {
        self.lanes.get(lane.index()).map(|lane| lane.queue(now))
    }

    /// The delay of a lane's path without a queue, in ns by the clocks of both boxes: only differences between lanes have a
    /// meaning. `None` until it is measured. R-TUN-33
    pub fn delay(&self, lane: Lane) -> Option<i64> {
        self.lanes.get(lane.index())?.delivery.base()
    }
}

impl<K> Outgoing<K> {
    /// How long the next frame is predicted to wait in queues of the path.
    pub(super) fn queue(&self, now: Time) -> Span {
        self.delivery.wait(now, self.next().wire().0, self.in_flight())
    }
}
