//! The longest frame that each lane's path carries, while the session lasts. R-TUN-64

mod search;

use arrayvec::ArrayVec;
use common::rtt::Rtt;
use common::time::{Span, Time};

use self::search::{Bounds, SIZES, Search};
use crate::message;
use crate::number::{Lane, Port};
use crate::session::SessionConfig;

/// Time between two looks at the path of a port,
const LOOK: Span = Span::from_millis(1_000);
/// and from the beginning of a look to the next one if there is a reason.
const SOON: Span = Span::from_millis(250);
/// Time between two looks for longer frames.
const RAISE: Span = Span::from_millis(5_000);
/// The round trip, until it is measured.
const GUESS: Span = Span::from_millis(200);
/// Results of checks that are remembered for a port.
const RESULTS: u32 = 64;

/// The path of a WAN port, as the probes of all its lanes find it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathState {
    /// Length of the longest frame that reaches the peer, in bytes from the destination MAC address on; 0 until one is
    /// known to.
    pub longest: u16,
    /// The same of the lane with the shortest; 0 if a lane has none.
    pub shortest: u16,
    /// The round trip of probes; zero until it is measured.
    pub rtt: Span,
    /// Newest checks, up to 64.
    pub checks: u16,
    /// Of these, those that were not answered in time.
    pub lost: u16,
}

/// The newest checks of a port.
#[derive(Clone, Copy, Default, Debug)]
struct Results {
    count: u32,
    /// A bit for each that was not answered, the newest in bit 0.
    lost: u64,
}

/// The path of a lane.
#[derive(Clone, Copy, Default, Debug)]
struct LanePath {
    /// Length of the longest frame that may take it; 0 while no probe of it was answered.
    limit: u16,
    /// Another lane of the port has found another limit: this lane is to be looked at.
    is_open: bool,
    looked_at: Time,
    /// When longer frames were looked for.
    raised_at: Time,
}

/// The paths of a port's lanes, one of which is looked at at a time.
#[derive(Debug)]
struct PortPath {
    search: Option<Search>,
    /// A lane that loses long frames.
    doubted: Option<Lane>,
    /// The newest look was at such a lane: others have their turn.
    was_doubted: bool,
    looked_at: Time,
    raised_at: Time,
    /// When the next look begins.
    next_at: Time,
    rtt: Rtt,
    results: Results,
}

/// The paths of all lanes.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Empty without a session, and where the peer does not answer probes.
    lanes: Vec<LanePath>,
    ports: Vec<PortPath>,
    bounds: Bounds,
}

impl Paths {
    /// No session.
    pub fn new() -> Self {
        Self { lanes: Vec::new(), ports: Vec::new(), bounds: Bounds::default() }
    }

    /// Forgets all.
    pub fn end(&mut self) {
        self.lanes.clear();
        self.ports.clear();
    }

    /// A session begins, in which frames have up to `most` bytes, with a peer that answers probes.
    pub fn begin(&mut self, config: &SessionConfig, now: Time, most: u16) {
        self.end();
        let least = config.overhead + message::PATH_LEN as u16;
        self.bounds = Bounds { least, most: most.max(least) };
        self.lanes.extend(Lane::all(config.lanes).map(|_| LanePath::default()));
        // Each has a lane.
        self.ports.extend(Port::all(config.ports.min(config.lanes)).map(|_| PortPath {
            search: None,
            doubted: None,
            was_doubted: false,
            looked_at: now,
            raised_at: now,
            next_at: now + SOON,
            rtt: Rtt::guess(GUESS),
            results: Results::default(),
        }));
    }

    /// Length of the longest frame that may take a lane; 0 while no probe of it was answered.
    pub fn limit(&self, lane: Lane) -> u16 {
        self.lanes.get(lane.index()).map_or(0, |path| path.limit)
    }

    /// When probes are due.
    pub fn due(&self) -> Time {
        self.ports.iter().map(PortPath::due).min().unwrap_or(Time::NEVER)
    }

    /// The round trip and the losses of a port's path; nothing is known where the peer does not answer probes.
    pub fn state(&self, port: Port) -> PathState {
        let Some(path) = self.ports.get(port.index()) else { return PathState::default() };
        let Results { count, lost } = path.results;
        PathState {
            rtt: if path.rtt.is_measured() { path.rtt.mean() } else { Span::ZERO },
            checks: count as u16,
            lost: lost.count_ones() as u16,
            ..PathState::default()
        }
    }

    /// A lane whose probes are due, and the bytes of their frames; `None` if no more are due.
    pub fn next(&mut self, now: Time) -> Option<(Lane, ArrayVec<u16, SIZES>)> {
        loop {
            let at = self.ports.iter().position(|path| now >= path.due())?;
            let mut search = match self.ports[at].search.take() {
                Some(search) => search,
                None => self.begin_look(now, at),
            };
            let path = &mut self.ports[at];
            if search.is_first_of_check() {
                path.results.add(false);
            }
            let Some(sizes) = search.round(now, &path.rtt) else {
                // The lane is silent: nothing is learned.
                self.lanes[search.lane().index()].is_open = false;
                path.next_at = now + LOOK;
                continue;
            };
            let lane = search.lane();
            path.search = Some(search);
            return Some((lane, sizes));
        }
    }

    /// The next look at the path of a port.
    fn begin_look(&mut self, now: Time, at: usize) -> Search {
        let (bounds, ports) = (self.bounds, self.ports.len());
        let (path, of) = (&mut self.ports[at], |lane: Lane| &self.lanes[lane.index()]);
        let lanes = Lane::all(self.lanes.len() as u8).skip(at).step_by(ports);
        let is_short = |lane: &Lane| (1..bounds.most).contains(&of(*lane).limit);
        let may_raise = now >= path.raised_at + RAISE;
        let doubted = path.doubted.take().filter(|_| !path.was_doubted);
        path.was_doubted = doubted.is_some();
        let short = lanes.clone().filter(|lane| may_raise && is_short(lane));
        let lane = doubted
            .or_else(|| lanes.clone().find(|lane| of(*lane).is_open))
            .or_else(|| short.min_by_key(|lane| of(*lane).raised_at))
            .or_else(|| lanes.min_by_key(|lane| of(*lane).looked_at))
            .unwrap_or(Lane::first(Port::default()));
        path.looked_at = now;
        let may_raise = is_short(&lane) && (of(lane).is_open || may_raise);
        let lane_path = &mut self.lanes[lane.index()];
        lane_path.looked_at = now;
        if may_raise {
            (path.raised_at, lane_path.raised_at) = (now, now);
            Search::raise(lane, lane_path.limit, bounds, now)
        } else {
            Search::check(lane, lane_path.limit, bounds, now)
        }
    }

    /// The probe of `len` bytes that was sent on a lane at `sent_at` has arrived.
    pub fn on_echo(&mut self, now: Time, lane: Lane, sent_at: Time, len: u16) {
        let ports = self.ports.len() as u8;
        if self.lanes.get(lane.index()).is_none() || sent_at > now {
            return;
        }
        let path = &mut self.ports[lane.port(ports).index()];
        path.rtt.sample(now.since(sent_at));
        let Some(search) = path.search.as_mut().filter(|search| search.lane() == lane) else {
            return;
        };
        let is_first = search.is_first_of_check();
        let Some(limit) = search.on_echo(now, sent_at, len) else { return };
        if is_first {
            path.results.add(true);
        }
        path.search = None;
        let is_any_open = self.found(lane, limit);
        let path = &mut self.ports[lane.port(ports).index()];
        path.next_at = if is_any_open { now } else { now + LOOK };
    }

    /// The path of a lane carries frames of `limit` bytes. Whether another lane of its port is to be looked at now.
    fn found(&mut self, lane: Lane, limit: u16) -> bool {
        let (ports, most) = (self.ports.len() as u8, self.bounds.most);
        let taken = |path: &LanePath| if path.limit == 0 { most } else { path.limit };
        let own = &mut self.lanes[lane.index()];
        let (before, was_open) = (taken(own), own.is_open);
        (own.limit, own.is_open) = (limit, false);
        let all = Lane::all(self.lanes.len() as u8).zip(&mut self.lanes);
        let of_port = all.filter(|(it, _)| it.port(ports) == lane.port(ports));
        of_port.fold(false, |is_any_open, (_, path)| {
            if limit < before && taken(path) > limit {
                // All paths of a port have become short, as a rule. Those that have not are whole again after a round trip each.
                (path.limit, path.is_open) = (limit, true);
            } else if limit > before && !was_open && (1..limit).contains(&path.limit) {
                path.is_open = true;
            }
            is_any_open || path.is_open
        })
    }

    /// A frame of `len` bytes was lost on a lane, and so was a retransmission of it.
    #[cold]
    pub fn on_loss(&mut self, now: Time, lane: Lane, len: usize) {
        // A short one says nothing about the length.
        if len * 2 > usize::from(self.limit(lane)) {
            self.doubt(now, lane.port(self.ports.len().max(1) as u8), Some(lane));
        }
    }

    /// Long frames may be lost on the path of a port, or of one of its lanes: it is looked at soon.
    #[cold]
    pub fn doubt(&mut self, now: Time, port: Port, lane: Option<Lane>) {
        let Some(path) = self.ports.get_mut(port.index()) else { return };
        path.doubted = lane.or(path.doubted);
        path.next_at = path.next_at.min(now.max(path.looked_at + SOON));
    }
}

impl PortPath {
    fn due(&self) -> Time {
        self.search.as_ref().map_or(self.next_at, Search::due)
    }
}

impl Results {
    fn add(&mut self, is_answered: bool) {
        self.count = (self.count + 1).min(RESULTS);
        self.lost = self.lost << 1 | u64::from(!is_answered);
    }
}

#[cfg(test)]
mod tests;
