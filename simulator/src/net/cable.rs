//! One direction of a cable or of a long-haul link.

use std::collections::VecDeque;

use common::frame::Frame;
use common::time::{Span, Time};
use common::wire::parse;
use link::{Direction, DirectionConfig, FrameKind, LossReason};

use super::Priority;
use super::spread::spread;
use crate::frame::{SimFrame, SimPool};

/// A port of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plug {
    /// The node's number.
    pub node: usize,
    /// The port's number on it.
    pub port: usize,
}

/// A PFC frame: pauses or resumes one priority. It is never lost and takes
/// no room on the cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// With which priority.
    pub priority: Priority,
    /// Whether to stop.
    pub stop: bool,
}

/// The random streams of the second route and of further ones, apart from all
/// others of the same seed: above those of switches and queue pairs.
const ROUTE_STREAMS: u64 = 1 << 34;

/// One direction of a cable, or of several routes that begin and end together. The
/// port it starts at serves it at its rate; here a frame only travels, or is lost.
pub struct Cable {
    /// A flow stays on one of them.
    routes: Vec<Direction<SimFrame>>,
    pauses: VecDeque<(Time, Pause)>,
    /// Of a PFC frame.
    delay: Span,
    /// Where it ends.
    pub to: Plug,
    /// Whether it joins the sites.
    pub is_long_haul: bool,
}

impl Cable {
    /// Cable number `number` with those routes, at least one; their random numbers
    /// follow from the number and `seed`.
    ///
    /// # Panics
    /// If one of `routes` is out of range, or there is none: scenarios are checked
    /// before.
    pub fn new(
        routes: &[DirectionConfig],
        to: Plug,
        is_long_haul: bool,
        seed: u64,
        number: u64,
    ) -> Self {
        let delay = routes[0].delay;
        let route = |(n, config): (usize, &DirectionConfig)| {
            let stream = number + n as u64 * ROUTE_STREAMS;
            Direction::new(config.clone(), seed, stream, Time::ZERO, 0)
                .expect("the scenario was checked")
        };
        let routes = routes.iter().enumerate().map(route).collect();
        Self { routes, pauses: VecDeque::new(), delay, to, is_long_haul }
    }

    /// A frame whose last bit leaves at `sent`. Returns why it is lost, if it
    /// is.
    pub fn send(&mut self, frame: SimFrame, sent: Time) -> Option<LossReason> {
        let route = match self.routes.len() {
            1 => 0,
            // Other bits than those that a switch chooses a port by.
            count => {
                parse(link::within(frame.bytes())).map_or(0, |roce| (spread(&roce) >> 24) % count)
            }
        };
        self.routes[route].offer(frame, sent, sent, &mut SimPool)
    }

    /// A PFC frame leaves at `now`.
    pub fn send_pause(&mut self, pause: Pause, now: Time) {
        self.pauses.push_back((now + self.delay, pause));
    }

    /// When something arrives next.
    pub fn next(&self) -> Time {
        let pause = self.pauses.front().map_or(Time::NEVER, |(at, _)| *at);
        self.routes.iter().map(Direction::next_due).fold(pause, Time::min)
    }

    /// The next frame that has arrived.
    pub fn arrived(&mut self, now: Time) -> Option<SimFrame> {
        self.routes.iter_mut().find_map(|route| {
            let (frame, receipt) = route.pop_due(now)?;
            route.delivered(receipt);
            Some(frame)
        })
    }

    /// The next PFC frame that has arrived.
    pub fn paused(&mut self, now: Time) -> Option<Pause> {
        self.pauses.pop_front_if(|(at, _)| *at <= now).map(|(_, pause)| pause)
    }

    /// Frames that were sent, and those of them that have arrived.
    ///
    /// # Panics
    /// If one of the others is neither lost nor on its way.
    pub fn frames(&self) -> (u64, u64) {
        let of_route = |route: &Direction<SimFrame>| {
            let counters = route.counters();
            let sent = counters.offered.total().frames;
            let arrived = counters.delivered.total().frames;
            assert_eq!(sent, arrived + counters.held + counters.lost.total(), "a cable's books");
            (sent, arrived)
        };
        self.routes.iter().map(of_route).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// Bytes on the wire of requests, and of everything else, that were sent.
    pub fn bytes(&self) -> (u64, u64) {
        let wire = |kind| -> u64 {
            let tallies = self.routes.iter().map(|route| route.counters().offered.get(kind));
            tallies.map(|tally| tally.bytes + tally.frames * link::FRAME_OVERHEAD).sum()
        };
        let others = [FrameKind::Response, FrameKind::Control, FrameKind::Other];
        (wire(FrameKind::Request), others.into_iter().map(wire).sum())
    }
}
