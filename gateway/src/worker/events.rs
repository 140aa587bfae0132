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
use tunnel::{Health, LaneState, Part, Port, Tunnel};

use super::peers::{self, Reporter};
use crate::peer::Report;

use crate::event::{self, Event, What};
use crate::port::PortId;

/// Events that may wait for the main thread. All lanes may fail at once.
const DEPTH: usize = 1_024;
/// Numbers of a lane that are given up within this time are one event, and so are rises of its tolerance.
const SECOND: Span = Span::from_millis(1_000);
/// Time for which a lane is down, or good again, before that is an event. A lane that is back sooner is counted in
/// `lr2_tunnel_overdue_reports_total`.
const STANDS: Span = Span::from_millis(250);

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
    /// As it was said.
    state: State,
    port: Port,
    /// Its path can't be used.
    is_cut: bool,
    /// Since when it is another than was said.
    other_since: Option<Time>,
    /// Frames that went out again on other lanes, and how many had when it was last good.
    moved: [u64; 2],
    round_trip: Span,
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
        if !is_same {
            self.lanes.iter_mut().for_each(|lane| lane.state = State::Unused);
        }
        self.look_at_lanes(now, tunnel.lanes(now), say);
    }

    fn look_at_lanes<'a>(
        &mut self,
        now: Time,
        states: impl Iterator<Item = LaneState<'a>>,
        say: &mut impl FnMut(Time, What),
    ) {
        let mut is_due = false;
        for (lane, state) in self.lanes.iter_mut().zip(states) {
            lane.look(now, &state, say);
            is_due |= lane.is_due(now);
        }
        if is_due {
            for port in Port::all(Port::COUNT_MAX) {
                self.say_of(port, State::Good, now, say);
                self.say_of(port, State::Down, now, say);
            }
        }
    }

    /// Says that lanes of a port are no longer in the state `from`: in one event if these are several, and all lanes of the port are in
    /// the other state now.
    fn say_of(&mut self, port: Port, from: State, now: Time, say: &mut impl FnMut(Time, What)) {
        let of_port = |lane: &Lane| lane.port == port && lane.state != State::Unused;
        let has_left = |lane: &Lane| lane.state == from && lane.other_since.is_some();
        let lanes = || self.lanes.iter().filter(|lane| of_port(lane));
        if !lanes().any(|lane| has_left(lane) && lane.is_due(now)) {
            return;
        }
        let count = lanes().filter(|lane| has_left(lane)).count();
        let is_whole =
            count > 1 && lanes().all(|lane| (lane.state == from) == lane.other_since.is_some());
        let name = PortId::wan(port).name();
        if is_whole && let Some(first) = lanes().find(|lane| has_left(lane)) {
            let at = first.other_since.unwrap_or(now);
            let lanes_of = u8::try_from(count).unwrap_or(u8::MAX);
            let what = if from == State::Good {
                let moved = lanes().filter(|lane| has_left(lane)).map(Lane::moved).sum();
                What::PortLanesDown { port: name, lanes: lanes_of, reason: first.reason(), moved }
            } else {
                let trips = lanes().filter(|lane| has_left(lane)).map(|lane| lane.round_trip);
                let round_trip_us = trips.min().unwrap_or_default().as_nanos() / 1_000;
                What::PortLanesBack { port: name, lanes: lanes_of, round_trip_us }
            };
            say(at, what);
        }
        for (n, lane) in (0..).zip(&mut self.lanes) {
            if !(of_port(lane) && has_left(lane) && (is_whole || lane.is_due(now))) {
                continue;
            }
            if !is_whole {
                let what = if from == State::Good {
                    What::LaneDown {
                        lane: n,
                        port: name,
                        reason: lane.reason(),
                        moved: lane.moved(),
                    }
                } else {
                    let round_trip_us = lane.round_trip.as_nanos() / 1_000;
                    What::LaneBack { lane: n, port: name, round_trip_us }
                };
                say(lane.other_since.unwrap_or(now), what);
            }
            lane.state = if from == State::Good { State::Down } else { State::Good };
            lane.other_since = None;
        }
    }
}

impl Lane {
    /// Whether it is another than was said for long enough.
    fn is_due(&self, now: Time) -> bool {
        self.other_since.is_some_and(|since| now.since(since) >= STANDS)
    }

    fn moved(&self) -> u64 {
        self.moved[0] - self.moved[1]
    }

    const fn reason(&self) -> &'static str {
        if self.is_cut {
            "its link is down, or messages of the boxes do not pass its port"
        } else {
            "a REPORT of the peer is overdue"
        }
    }

    fn look(&mut self, now: Time, state: &LaneState<'_>, say: &mut impl FnMut(Time, What)) {
        let n = state.lane.get();
        (self.port, self.round_trip) = (state.port, state.rtt.mean());
        self.is_cut = state.health == Health::Down;
        self.moved[0] = state.sent.moved;
        let is_good = state.health == Health::Good;
        match (self.state, is_good) {
            (State::Unused, false) | (State::Down, false) => self.other_since = None,
            (State::Unused, true) | (State::Good, true) => {
                (self.state, self.other_since) = (State::Good, None);
                self.moved[1] = self.moved[0];
            }
            (State::Good, false) | (State::Down, true) => {
                self.other_since.get_or_insert(now);
            }
        }
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
                    port: Port::default(),
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

    /// Looks at four lanes of two ports each 5 ms from `from` ms to `to` ms, and says what is found.
    fn watch(seen: &mut Seen, from: u64, to: u64, good: impl Fn(u8, u64) -> bool) -> Vec<What> {
        let (sent, received) = (Default::default(), Default::default());
        let rtt = Rtt::guess(Span::from_millis(1));
        let mut said = Vec::new();
        for ms in (from..to).step_by(5) {
            let state = |n| LaneState {
                lane: tunnel::Lane::new(n).expect("a lane"),
                port: Port::new(n % 2).expect("a port"),
                sent: &sent,
                received: &received,
                rtt: &rtt,
                report_age: Span::ZERO,
                health: if good(n, ms) { Health::Good } else { Health::Down },
                queue: Span::ZERO,
                later_by: None,
                limits: None,
            };
            let now = Time::from_nanos(1_000_000_000) + Span::from_millis(ms);
            seen.look_at_lanes(now, (0..4).map(state), &mut |_, what| said.push(what));
        }
        said
    }

    fn seen() -> Seen {
        Seen { index: 0, session: Session::default(), lanes: vec![Lane::default(); 4] }
    }

    /// R-TUN-53
    #[test]
    fn a_lane_that_is_back_within_milliseconds_is_no_event() {
        let mut seen = seen();
        assert_eq!(watch(&mut seen, 0, 10_000, |n, ms| n != 1 || ms % 300 < 100), []);
        // Down for longer; it flaps before it is back to stay.
        let said = watch(&mut seen, 10_000, 20_000, |n, ms| {
            n != 1 || ms > 15_000 && (ms > 16_000 || ms % 100 < 50)
        });
        let [
            What::LaneDown { lane: 1, port: "wan1", .. },
            What::LaneBack { lane: 1, port: "wan1", .. },
        ] = said[..]
        else {
            panic!("{said:?}")
        };
    }

    /// R-TUN-53
    #[test]
    fn all_lanes_of_a_port_that_go_are_one_event_and_so_are_those_that_come_back() {
        let mut seen = seen();
        // The second lane goes a little later.
        let good = |n: u8, ms: u64| {
            n.is_multiple_of(2) || !(1_000 + 10 * u64::from(n)..5_000).contains(&ms)
        };
        let said = watch(&mut seen, 0, 10_000, good);
        let [
            What::PortLanesDown { port: "wan1", lanes: 2, .. },
            What::PortLanesBack { port: "wan1", lanes: 2, round_trip_us: 1_000 },
        ] = said[..]
        else {
            panic!("{said:?}")
        };
        // One of two is a lane's event.
        let said = watch(&mut seen, 10_000, 12_000, |n, _| n != 2);
        assert!(matches!(said[..], [What::LaneDown { lane: 2, port: "wan", .. }]), "{said:?}");
    }
}
