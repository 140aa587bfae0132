//! The state of the lanes, for those who watch a tunnel.

use common::frame::Headroom;
use common::rtt::Rtt;
use common::time::{Span, Time};
use common::verdict::Limits;

use super::Tunnel;
use crate::number::{Lane, Port};
use crate::receiver::Received;
use crate::sender::{Health, Sent};

/// A lane, of both directions.
#[derive(Clone, Copy, Debug)]
pub struct LaneState<'a> {
    /// The lane.
    pub lane: Lane,
    /// The port of its frames.
    pub port: Port,
    /// Counts of the sending end, over all sessions.
    pub sent: &'a Sent,
    /// Counts of the receiving end, over all sessions.
    pub received: &'a Received,
    /// Its round trip, with the time that REPORTs wait.
    pub rtt: &'a Rtt,
    /// How long unreported frames have waited for a REPORT; zero if all is reported.
    pub report_age: Span,
    /// Whether it carries new frames; [`Health::Down`] without a session.
    pub health: Health,
    /// How long a frame is predicted to wait in queues of its path; zero while none is known.
    pub queue: Span,
    /// By how much its path takes longer, one way and without a queue, than the shortest one of this tunnel. `None` until it is
    /// measured.
    pub later_by: Option<Span>,
    /// How far numbers of the peer may be overtaken before they count as lost; `None` on a lane that keeps order.
    pub limits: Option<Limits>,
}

impl<F: Headroom> Tunnel<F> {
    /// The lanes, each with its state.
    pub fn lanes(&self, now: Time) -> impl Iterator<Item = LaneState<'_>> {
        let all = Lane::all(self.config.session.lanes);
        let is_up = self.session().up().is_some();
        let shortest = all.clone().filter_map(|lane| self.sender.delay(lane)).min();
        all.filter_map(move |lane| {
            let later_by = self.sender.delay(lane).zip(shortest);
            Some(LaneState {
                lane,
                port: lane.port(self.config.session.ports),
                sent: self.sender.lane_counts(lane)?,
                received: self.receiver.lane_counts(lane)?,
                rtt: self.sender.rtt(lane)?,
                report_age: self.sender.report_age(lane, now)?,
                health: self
                    .sender
                    .health(lane)
                    .map(|health| if is_up { health } else { Health::Down })?,
                queue: self.sender.queue(lane, now)?,
                later_by: later_by.map(|(it, least)| Span::from_nanos(it.abs_diff(least))),
                limits: self.receiver.limits(&self.config.receiver, lane),
            })
        })
    }
}
