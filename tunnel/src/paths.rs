//! The longest frame that each lane's path carries, while the session lasts. R-TUN-64

mod search;

use arrayvec::ArrayVec;
use common::time::{Span, Time};

use self::search::{Bounds, Found, SIZES, Search, Step};
use crate::message;
use crate::number::{Lane, Port};
use crate::session::SessionConfig;

/// Time between two checks of a lane whose length is found,
const CHECK: Span = Span::from_millis(500);
/// and at least so long for each lane.
const CHECK_LANE: Span = Span::from_millis(40);
/// Checks after which longer frames are tried.
const RAISE: u64 = 10;
/// Time that one probe takes of the allowance,
const PROBE: Span = Span::from_millis(30);
/// and the probes that may leave at once.
const BURST: u64 = 120;
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
    /// The round trip of probes, the least of the lanes; zero until it is measured.
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

/// The searches of all lanes.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Empty without a session, and where the peer does not answer probes.
    lanes: Vec<Search>,
    results: [Results; Port::COUNT_MAX as usize],
    ports: u8,
    /// The allowance is spent until this time, of the [`BURST`] before it.
    spent_until: Time,
    due: Time,
    /// Transmissions that no path carries any more, and that are not sent again.
    pub given_up: u64,
}

impl Paths {
    /// No session.
    pub fn new() -> Self {
        Self {
            lanes: Vec::new(),
            results: Default::default(),
            ports: 1,
            spent_until: Time::ZERO,
            due: Time::NEVER,
            given_up: 0,
        }
    }

    /// Forgets all.
    pub fn end(&mut self) {
        self.lanes.clear();
        self.results = Default::default();
        self.due = Time::NEVER;
    }

    /// A session begins, in which frames have up to `most` bytes, with a peer that answers probes.
    pub fn begin(&mut self, config: &SessionConfig, now: Time, most: u16) {
        self.end();
        let least = config.overhead + message::PATH_LEN as u16;
        let search = |_| Search::new(Bounds { least, most }, now);
        self.lanes.extend(Lane::all(config.lanes).map(search));
        (self.ports, self.due) = (config.ports, now);
    }

    /// Length of the longest frame that may take a lane; 0 while no probe of it was answered.
    pub fn limit(&self, lane: Lane) -> u16 {
        self.lanes.get(lane.index()).map_or(0, Search::limit)
    }

    /// When probes are due.
    pub fn due(&self) -> Time {
        self.due
    }

    /// The state of a port's path; nothing is known where the peer does not answer probes.
    pub fn state(&self, port: Port) -> PathState {
        let Results { count, lost } = self.results[port.index()];
        let mut state = PathState {
            checks: count as u16,
            lost: lost.count_ones() as u16,
            ..Default::default()
        };
        let mut shortest = None;
        for (_, search) in self.of_port(port) {
            state.longest = state.longest.max(search.limit());
            shortest = Some(search.limit().min(shortest.unwrap_or(u16::MAX)));
            if search.rtt().is_measured() {
                let rtt = search.rtt().mean();
                state.rtt = if state.rtt == Span::ZERO { rtt } else { state.rtt.min(rtt) };
            }
        }
        state.shortest = shortest.unwrap_or(0);
        state
    }

    fn of_port(&self, port: Port) -> impl Iterator<Item = (Lane, &Search)> {
        let all = Lane::all(self.lanes.len() as u8).zip(&self.lanes);
        all.filter(move |(lane, _)| lane.port(self.ports) == port)
    }

    /// Time between two checks of a lane.
    fn interval(&self) -> Span {
        CHECK.max(CHECK_LANE * self.lanes.len() as u64)
    }

    /// The probes of a lane that are due, and the bytes of their frames; `None` if no more are due.
    pub fn next(&mut self, now: Time) -> Option<(Lane, ArrayVec<u16, SIZES>)> {
        if now < self.due {
            return None;
        }
        let (interval, raise) = (self.interval(), self.interval() * RAISE);
        let mut found = None;
        for lane in Lane::all(self.lanes.len() as u8) {
            let (search, port) = (&self.lanes[lane.index()], lane.port(self.ports));
            if now < search.due() {
                continue;
            }
            let step = search.step(now, raise);
            let need = if step == Step::Check { 1 } else { SIZES as u64 };
            let spent = self.spent_until.max(now) + PROBE * need;
            // One lane of a port searches, and the others are asked for the length that it finds.
            let is_behind = search.begins(step)
                && self.of_port(port).any(|(other, it)| other != lane && it.is_searching());
            let search = &mut self.lanes[lane.index()];
            if is_behind || spent > now + PROBE * BURST {
                search.put_off((spent - PROBE * BURST).max(now + CHECK_LANE));
                continue;
            }
            if search.is_overdue(now) {
                self.results[port.index()].add(false);
            }
            let sizes = search.take(now, step, interval);
            self.spent_until = self.spent_until.max(now) + PROBE * sizes.len() as u64;
            found = Some((lane, sizes));
            break;
        }
        self.find_due();
        found
    }

    fn find_due(&mut self) {
        self.due = self.lanes.iter().map(Search::due).min().unwrap_or(Time::NEVER);
    }

    /// The probe of `len` bytes that was sent on a lane at `sent_at` has arrived.
    pub fn on_echo(&mut self, now: Time, lane: Lane, sent_at: Time, len: u16) {
        let interval = self.interval();
        let Some(search) = self.lanes.get_mut(lane.index()) else { return };
        let (port, before) = (lane.port(self.ports), search.found());
        if search.on_echo(now, sent_at, len, interval) {
            self.results[port.index()].add(true);
        }
        let after = self.lanes[lane.index()].found();
        if after.is_settled && after != before && (before.is_falling || after.limit != before.limit)
        {
            self.tell_others(now, lane, &before, &after);
        }
        self.find_due();
    }

    /// The path of a lane has another length: the paths of the port's other lanes may have it too.
    fn tell_others(&mut self, now: Time, lane: Lane, before: &Found, after: &Found) {
        let all = Lane::all(self.lanes.len() as u8).zip(&mut self.lanes);
        let is_other =
            |other: Lane| other != lane && other.port(self.ports) == lane.port(self.ports);
        for (_, search) in all.filter(|(other, _)| is_other(*other)) {
            if !after.is_whole && (before.is_falling || after.limit < before.limit) {
                search.hint(now, after.limit);
            } else if after.limit > before.limit {
                search.raise(now);
            }
        }
    }

    /// A transmission of `len` bytes on a lane was lost.
    #[cold]
    pub fn on_loss(&mut self, now: Time, lane: Lane, len: usize) {
        // A short one says nothing about the length.
        let Some(search) = self.lanes.get_mut(lane.index()) else { return };
        if len * 2 > usize::from(search.limit()) {
            search.doubt(now);
            self.due = self.due.min(search.due());
        }
    }

    /// A router says that frames are too long for the path of a port. Its word is taken for no more than a reason to look.
    #[cold]
    pub fn doubt(&mut self, now: Time, port: Port) {
        self.each_of(port, |search| search.doubt(now));
    }

    /// Messages of the peer pass a port, where none did before.
    pub fn wake(&mut self, now: Time, port: Port) {
        self.each_of(port, |search| search.wake(now));
    }

    fn each_of(&mut self, port: Port, act: impl Fn(&mut Search)) {
        let all = Lane::all(self.lanes.len() as u8).zip(&mut self.lanes);
        let of_port = all.filter(|(lane, _)| lane.port(self.ports) == port);
        of_port.for_each(|(_, search)| act(search));
        self.find_due();
    }
}

impl Results {
    fn add(&mut self, is_answered: bool) {
        self.count = (self.count + 1).min(RESULTS);
        self.lost = self.lost << 1 | u64::from(!is_answered);
    }
}
