//! One direction of a cable or of a long-haul link.

use std::collections::VecDeque;

use common::frame::Frame;
use common::time::{Span, Time};
use link::{Direction, DirectionConfig, FrameKind, LossReason};

use super::Priority;
use super::marking::{Marking, mark_ip};
use super::spread::path_of;
use crate::frame::{SimFrame, SimPool};
use crate::scenario::Ecn;

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

/// The random streams of the second path and of further ones, apart from all
/// others of the same seed: above those of switches and queue pairs.
const PATH_STREAMS: u64 = 1 << 34;
/// Those of marks, above the others.
const MARK_STREAMS: u64 = 1 << 52;

/// One direction of one of the paths of a cable.
#[derive(Clone, Debug, Default)]
pub struct PathConfig {
    /// How frames travel on it, or are lost.
    pub direction: DirectionConfig,
    /// Marking by the queue for its line.
    pub ecn: Option<Ecn>,
}

/// A path, and what marks the frames that wait for it.
struct Path {
    direction: Direction<SimFrame>,
    marking: Marking,
}

/// One direction of a cable, or of several paths that begin and end together. The
/// port it starts at serves it at its rate; here a frame waits for the line of its path if that has one, travels, or
/// is lost.
pub struct Cable {
    /// A flow, or a lane of the tunnel, stays on one of them.
    paths: Vec<Path>,
    pauses: VecDeque<(Time, Pause)>,
    /// Of a PFC frame.
    delay: Span,
    /// Where it ends.
    pub to: Plug,
    /// Its rate in bit/s, if it joins the sites.
    pub long_haul: Option<u64>,
}

impl Cable {
    /// Cable number `number` with those paths, at least one; their random numbers
    /// follow from the number and `seed`, their outages from `start` on.
    ///
    /// # Panics
    /// If one of `paths` is out of range, or there is none: scenarios are checked
    /// before.
    pub fn new(
        paths: &[PathConfig],
        to: Plug,
        long_haul: Option<u64>,
        start: Time,
        [seed, number]: [u64; 2],
    ) -> Self {
        let delay = paths[0].direction.delay;
        let path = |(n, config): (usize, &PathConfig)| {
            let stream = number + n as u64 * PATH_STREAMS;
            let direction = Direction::new(config.direction.clone(), seed, stream, start, 0);
            Path {
                direction: direction.expect("the scenario was checked"),
                marking: Marking::new(config.ecn, seed, MARK_STREAMS + (number << 6) + n as u64),
            }
        };
        let paths = paths.iter().enumerate().map(path).collect();
        Self { paths, pauses: VecDeque::new(), delay, to, long_haul }
    }

    /// A frame whose last bit leaves at `sent`. Returns why it is lost, if it
    /// is.
    pub fn send(&mut self, mut frame: SimFrame, sent: Time) -> Option<LossReason> {
        let path = path_of(frame.bytes(), self.paths.len());
        let Path { direction, marking } = &mut self.paths[path];
        if marking.marks(direction.backlog(sent)) {
            mark_ip(&mut frame);
        }
        direction.offer(frame, sent, sent, &mut SimPool)
    }

    /// A PFC frame leaves at `now`.
    pub fn send_pause(&mut self, pause: Pause, now: Time) {
        self.pauses.push_back((now + self.delay, pause));
    }

    /// When something arrives next.
    pub fn next(&self) -> Time {
        let pause = self.pauses.front().map_or(Time::NEVER, |(at, _)| *at);
        self.paths.iter().map(|path| path.direction.next_due()).fold(pause, Time::min)
    }

    /// The next frame that has arrived.
    pub fn arrived(&mut self, now: Time) -> Option<SimFrame> {
        self.paths.iter_mut().find_map(|Path { direction, .. }| {
            let (frame, receipt) = direction.pop_due(now)?;
            direction.delivered(receipt);
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
        let of_path = |path: &Path| {
            let counters = path.direction.counters();
            let sent = counters.offered.total().frames;
            let arrived = counters.delivered.total().frames;
            assert_eq!(sent, arrived + counters.held + counters.lost.total(), "a cable's books");
            (sent, arrived)
        };
        self.paths.iter().map(of_path).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// Bytes on the wire of requests, and of everything else, that were sent.
    pub fn bytes(&self) -> (u64, u64) {
        let wire = |kind| -> u64 {
            let tallies = self.paths.iter().map(|path| path.direction.counters().offered.get(kind));
            tallies.map(|tally| tally.bytes + tally.frames * link::FRAME_OVERHEAD).sum()
        };
        let others = [FrameKind::Response, FrameKind::Control, FrameKind::Other];
        (wire(FrameKind::Request), others.into_iter().map(wire).sum())
    }
}
