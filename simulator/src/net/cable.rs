//! One direction of a cable or of a long-haul link.

use std::collections::VecDeque;

use common::time::Time;
use link::{Direction, DirectionConfig, FrameKind, LossReason};

use super::Priority;
use crate::frame::{SimFrame, SimPool};

/// A port of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plug {
    /// The node's number.
    pub node: usize,
    /// The port's number on it.
    pub port: usize,
}

/// A PFC frame: go on, or stop, with one priority. It is never lost and takes
/// no room on the cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// With which priority.
    pub priority: Priority,
    /// Whether to stop.
    pub stop: bool,
}

/// One direction of a cable. The port it starts at serves it at its rate; here
/// a frame only travels, or is lost.
pub struct Cable {
    link: Direction<SimFrame>,
    pauses: VecDeque<(Time, Pause)>,
    config: DirectionConfig,
    /// Where it ends.
    pub to: Plug,
    /// Whether it joins the sites.
    pub is_long_haul: bool,
}

impl Cable {
    /// Cable number `number`; its random numbers follow from that and `seed`.
    ///
    /// # Panics
    /// If `config` is out of range: scenarios are checked before.
    pub fn new(
        config: DirectionConfig,
        to: Plug,
        is_long_haul: bool,
        seed: u64,
        number: u64,
    ) -> Self {
        let link = Direction::new(config.clone(), seed, number, Time::ZERO, 0)
            .expect("the scenario was checked");
        Self { link, pauses: VecDeque::new(), config, to, is_long_haul }
    }

    /// A frame whose last bit leaves at `sent`. Returns why it is lost, if it
    /// is.
    pub fn send(&mut self, frame: SimFrame, sent: Time) -> Option<LossReason> {
        self.link.offer(frame, sent, sent, &mut SimPool)
    }

    /// A PFC frame leaves at `now`.
    pub fn send_pause(&mut self, pause: Pause, now: Time) {
        self.pauses.push_back((now + self.config.delay, pause));
    }

    /// When something arrives next.
    pub fn next(&self) -> Time {
        let pause = self.pauses.front().map_or(Time::NEVER, |(at, _)| *at);
        self.link.next_due().min(pause)
    }

    /// The next frame that has arrived.
    pub fn arrived(&mut self, now: Time) -> Option<SimFrame> {
        let (frame, receipt) = self.link.pop_due(now)?;
        self.link.delivered(receipt);
        Some(frame)
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
        let counters = self.link.counters();
        let (sent, arrived) = (counters.offered.total().frames, counters.delivered.total().frames);
        assert_eq!(sent, arrived + counters.held + counters.lost.total(), "a cable's books");
        (sent, arrived)
    }

    /// Bytes on the wire of requests, and of everything else, that were sent.
    pub fn bytes(&self) -> (u64, u64) {
        let offered = &self.link.counters().offered;
        let wire = |kind| {
            let tally = offered.get(kind);
            tally.bytes + tally.frames * link::FRAME_OVERHEAD
        };
        let others = [FrameKind::Response, FrameKind::Control, FrameKind::Other];
        (wire(FrameKind::Request), others.into_iter().map(wire).sum())
    }
}
