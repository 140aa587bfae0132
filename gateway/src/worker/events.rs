//! Finds [events](crate::event) in a worker, by comparing the state of the tunnels from one housekeeping to
//! the next, and gives them to the main thread. No packet pays for it, and however often a lane fails, the number
//! of events in a second is bounded. R-TUN-53

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::frame::Headroom;
use common::time::{Span, Time};
use common::verdict::Limits;
use datapath::Datapath;
use rtrb::{Consumer, Producer, RingBuffer};
use tunnel::session::Peer;
use tunnel::{Health, LaneState, Part, Tunnel};

use super::peers::{self, Reporter};
use crate::peer::Report;

use crate::event::{self, Event, What};
use crate::port::PortId;

/// Events that may wait for the main thread. All lanes may fail at once.
const DEPTH: usize = 1_024;
/// Numbers of a lane that are given up within this time are one event, and so are rises of its tolerance.
const SECOND: Span = Span::from_millis(1_000);

/// The worker's end.
pub struct Watch {
    to: Producer<Event>,
    missed: Arc<AtomicU64>,
    tunnels: Vec<Seen>,
    peers: Reporter,
}

/// A tunnel at the last look.
struct Seen {
    index: u8,
    session: Session,
    lanes: Vec<Lane>,
}

/// The session at the last look.
#[derive(Clone, Copy, Default)]
struct Session {
    is_up: bool,
    /// Sessions that had begun.
    began: u64,
}

/// A lane at the last look.
#[derive(Clone, Copy, Default)]
struct Lane {
    state: State,
    suspected: u64,
    moved: u64,
    /// The tolerance that was said last, since the lane kept order, and when.
    tolerance: (Option<Limits>, Option<Time>),
    /// Numbers that were given up when this was last said, and when.
    given_up: (u64, Option<Time>),
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// It carried no new frame in this session yet.
    #[default]
    Unused,
    Good,
    Down,
}

/// The main thread's end.
pub struct ControlEnd {
    from: Consumer<Event>,
    missed: Arc<AtomicU64>,
    peers: peers::ControlEnd,
}

/// Both ends.
pub fn pair() -> (Watch, ControlEnd) {
    let ((to, from), missed) = (RingBuffer::new(DEPTH), Arc::new(AtomicU64::new(0)));
    let (reporter, peers) = peers::pair();
    let watch = Watch { to, missed: Arc::clone(&missed), tunnels: Vec::new(), peers: reporter };
    (watch, ControlEnd { from, missed, peers })
}

impl ControlEnd {
    /// The next event.
    pub fn event(&mut self) -> Option<Event> {
        self.from.pop().ok()
    }

    /// The next report of a box at the other end.
    pub fn report(&mut self) -> Option<Report> {
        self.peers.pop().ok()
    }

    /// Events for which there was no room.
    pub fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }
}

impl Watch {
    /// A worker with those tunnels, each of so many lanes.
    pub fn of_tunnels(mut self, parts: impl Iterator<Item = Part>, lanes: u8) -> Self {
        let seen = |part: Part| Seen {
            index: part.index(),
            session: Session::default(),
            lanes: vec![Lane::default(); lanes.into()],
        };
        self.tunnels = parts.map(seen).collect();
        self
    }

    /// Finds the events since the last look.
    pub fn look<'a, F: Headroom + 'a>(
        &mut self,
        now: Time,
        tunnels: impl Iterator<Item = &'a Tunnel<F>>,
    ) {
        let Self { to, missed, tunnels: seen, .. } = self;
        for (seen, tunnel) in seen.iter_mut().zip(tunnels) {
            let index = seen.index;
            let mut say = |at, what| {
                if to.push(Event { at, tunnel: index, what }).is_err() {
                    missed.fetch_add(1, Relaxed);
                }
            };
            seen.look(now, tunnel, &mut say);
        }
    }
}

impl Watch {
    /// Tells of the boxes at the other end, if it is time to.
    pub fn report<F: Headroom>(&mut self, now: Time, paths: &[Datapath<F>]) {
        if !self.peers.is_due(now) {
            return;
        }
        for (n, path) in paths.iter().enumerate() {
            match (path.as_tunnel(), path.as_switch()) {
                (Some(path), _) => {
                    let index = self.tunnels.get(n).map_or(0, |seen| seen.index);
                    self.peers.tunnel(index, path.tunnel(), now);
                }
                (None, Some(switch)) => self.peers.switch(switch),
                (None, None) => {}
            }
        }
    }
}

/// What the peer told of itself as a session began.
pub fn session_up(peer: &Peer) -> What {
    What::SessionUp {
        peer: peer.node.0,
        lanes: peer.lanes,
        frame_max: peer.frame_max,
        wan_ports: peer.features.map(|features| features.ports),
        lan_repair: peer.features.map(|features| event::lan_repair(features.lans)),
    }
}

impl Seen {
    fn look<F: Headroom>(
        &mut self,
        now: Time,
        tunnel: &Tunnel<F>,
        say: &mut impl FnMut(Time, What),
    ) {
        let (peer, began) = (tunnel.session().up(), tunnel.counts().began);
        let before = self.session;
        self.session = Session { is_up: peer.is_some(), began };
        let is_new = began != before.began;
        let lost = What::SessionLost { reason: event::end(tunnel.last_end()) };
        if before.is_up && (is_new || peer.is_none()) {
            say(now, lost);
        }
        if is_new && let Some(peer) = peer {
            say(now, session_up(peer));
        }
        let is_same = before.is_up && !is_new && peer.is_some();
        for (n, state) in tunnel.lanes(now).enumerate().take(self.lanes.len()) {
            let mut lane = self.lanes[n];
            if !is_same {
                lane.state = State::Unused;
            }
            lane.look(now, &state, say);
            self.lanes[n] = lane;
        }
    }
}

impl Lane {
    fn look(&mut self, now: Time, state: &LaneState<'_>, say: &mut impl FnMut(Time, What)) {
        let (n, port) = (state.lane.get(), PortId::wan(state.port).name());
        let (suspected, moved) = (state.sent.suspected, state.sent.moved);
        let is_good = state.health == Health::Good;
        let failed = suspected != self.suspected || !is_good;
        if self.state == State::Good && failed {
            let reason = match state.health {
                Health::Down => "its link is down, or messages of the boxes do not pass its port",
                Health::Good | Health::Suspect { .. } => "a REPORT of the peer is overdue",
            };
            say(now, What::LaneDown { lane: n, port, reason, moved: moved - self.moved });
            self.state = State::Down;
        }
        if is_good {
            if self.state == State::Down {
                let round_trip_us = state.rtt.mean().as_nanos() / 1_000;
                say(now, What::LaneBack { lane: n, port, round_trip_us });
            }
            self.state = State::Good;
        }
        (self.suspected, self.moved) = (suspected, moved);
        let is_due = |said_at: Option<Time>| said_at.is_none_or(|at| now.since(at) >= SECOND);
        let (before, said_at) = self.tolerance;
        let is_more = |limits: &Limits| {
            before.is_none_or(|before| {
                limits.depth > before.depth * 2 || limits.loss_wait > before.loss_wait * 3 / 2
            })
        };
        match state.limits {
            Some(limits) if is_more(&limits) && is_due(said_at) => {
                let Limits { depth, loss_wait, .. } = limits;
                let loss_wait_us = loss_wait.as_nanos() / 1_000;
                say(now, What::ToleranceRaised { lane: n, depth, loss_wait_us });
                self.tolerance = (Some(limits), Some(now));
            }
            Some(_) => {}
            None => self.tolerance.0 = None,
        }
        let (said, said_at) = self.given_up;
        if state.received.given_up > said && is_due(said_at) {
            let numbers = state.received.given_up - said;
            say(now, What::GapGivenUp { lane: n, numbers });
            self.given_up = (state.received.given_up, Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use common::rtt::Rtt;
    use common::verdict::{Tolerance, Verdict};

    use super::*;

    /// R-TUN-53: each 100 us a number is late by up to 200 us, evenly.
    #[test]
    fn a_lane_that_reorders_all_the_same_is_said_seldom() {
        let (sent, received) = (Default::default(), Default::default());
        let (rtt, most) = (Rtt::guess(Span::from_millis(1)), Span::from_millis(3));
        let (mut verdict, mut lane, mut said) = (Verdict::default(), Lane::default(), 0);
        let (mut now, mut dice) = (Time::from_nanos(1_000_000_000), 1_u64);
        for n in 0..600_000_u64 {
            now += Span::from_micros(100);
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let late = (dice >> 33) % 200_000;
            verdict.late(now, Span::from_nanos(late), late / 1_500, most);
            verdict.decay(now);
            if n % 50 == 0 {
                let state = LaneState {
                    lane: tunnel::Lane::new(0).expect("a lane"),
                    port: tunnel::Port::default(),
                    sent: &sent,
                    received: &received,
                    rtt: &rtt,
                    report_age: Span::ZERO,
                    health: Health::Good,
                    queue: Span::ZERO,
                    later_by: None,
                    limits: verdict.limits(&Tolerance::default(), most),
                };
                lane.look(now, &state, &mut |_, what| {
                    said += u32::from(matches!(what, What::ToleranceRaised { .. }));
                });
            }
        }
        assert!((1..10).contains(&said), "{said} events in 60 s of the same reordering");
    }
}
