//! Which lanes a sender uses.

use common::time::{Span, Time};

use super::outgoing::Outgoing;
use super::predecessors::Predecessors;
use super::silence::Others;
use super::{Health, Recover, Sender, SenderConfig};
use crate::flow::Order;
use crate::number::{Lane, Session};
use crate::spray::{Lanes, Spray};
use crate::tuning::Tuning;

/// Frames of a burst that take the lane chosen for the first of them: a choice costs as much as some frames, and ports send
/// in bursts anyway.
const IN_A_ROW: usize = 32;
/// In a round trip the delays of the lanes are measured so often,
const MEASURES: u64 = 4;
/// but no more often than this allows each lane,
const MEASURE_LANE: Span = Span::from_micros(250);
/// and after so many choices for each lane; after fewer
const MEASURE_CHOICES: u32 = 3;
/// so rarely.
const MEASURE_RARE: Span = Span::from_millis(1_000);
/// However few choices, so often in a session: a lane that fails is found late while the margin of its round trip is a guess.
const MEASURES_LEAST: u8 = 3;

impl<K> Sender<K> {
    /// The lane of the next frame. `wait` says how long it waits until a lane's port sends it; `None` if there is
    /// no room for it. `None` if no port has room.
    #[inline(always)]
    pub fn choose(
        &mut self,
        now: Time,
        order: Order,
        mut wait: impl FnMut(Lane) -> Option<Span>,
    ) -> Option<Lane> {
        if self.lanes.len() == 1 {
            return Lane::new(0).filter(|lane| wait(*lane).is_some());
        }
        self.choose_among(now, order, wait)
    }

    /// How many frames of a burst may take the lane chosen for the first one. R-TUN-30
    #[inline]
    pub fn in_a_row(&self) -> usize {
        match self.lanes.len() {
            1 => usize::MAX,
            _ if self.spray.is_by_flow() => 1,
            _ => IN_A_ROW,
        }
    }

    /// This lane, or a good one in its place.
    #[inline]
    pub fn usable(&self, lane: Lane) -> Lane {
        if self.is_good(lane) { lane } else { self.substitute(lane, 0) }
    }

    #[inline(never)]
    fn choose_among(
        &mut self,
        now: Time,
        order: Order,
        wait: impl FnMut(Lane) -> Option<Span>,
    ) -> Option<Lane> {
        self.choices = self.choices.saturating_add(1);
        self.spray.choose(now, order, &mut View { lanes: &self.lanes, flows: &self.flows, wait })
    }

    /// Works by another guess of the round trip, where it is not measured, another cache, and another choice of lanes and number
    /// of copies from the next frame on, and puts them into `config`. What a smaller cache has no room for stays until it is
    /// reported. R-TUN-54, R-TUN-60
    pub fn retune(&mut self, config: &mut SenderConfig, now: Time, tuning: &Tuning) {
        if config.rtt != tuning.rtt {
            self.lanes.iter_mut().for_each(|lane| lane.guess(now, tuning.rtt));
            self.measure_at = now;
        }
        (config.rtt, config.cache_max) = (tuning.rtt, tuning.cache_max);
        (config.give_up, self.give_up) = (tuning.give_up, tuning.give_up);
        if config.spray != tuning.spray {
            config.spray = tuning.spray;
            self.spray = spray(config, self.session);
            self.choices = u32::MAX;
        }
        if config.resend_copies != tuning.resend_copies {
            config.resend_copies = tuning.resend_copies;
            self.copies.set(config);
        }
    }

    /// When the lanes are measured; [`Time::NEVER`] if they need not be.
    pub(super) fn measure_due(&self) -> Time {
        if self.choices == 0 || self.lanes.len() == 1 {
            return Time::NEVER;
        }
        let is_unmeasured = |lane: &Outgoing<K>| !lane.rtt().is_measured();
        if self.measures < MEASURES_LEAST || self.lanes.iter().any(is_unmeasured) {
            self.measure_at
        } else if !self.spray.needs_delays() {
            Time::NEVER
        } else if self.choices >= MEASURE_CHOICES * self.lanes.len() as u32 {
            self.measure_at
        } else {
            self.measure_at + MEASURE_RARE
        }
    }

    /// Sends a PROBE on each lane: its echo says how long the lane takes. A lane whose round trip is a guess is suspected
    /// late.
    pub(super) fn measure<T: Recover<Kept = K>>(&mut self, now: Time, out: &mut T) {
        let rtts = self.lanes.iter().map(|lane| lane.rtt().mean());
        let interval = rtts.min().unwrap_or_default() / MEASURES;
        let least = MEASURE_LANE * self.lanes.len() as u64;
        (self.measure_at, self.choices) = (now + interval.max(least), 0);
        self.measures = self.measures.saturating_add(1);
        for (lane, state) in Lane::all(self.lanes.len() as u8).zip(&mut self.lanes) {
            state.counts.probes += 1;
            out.probe(state.measure(lane, now));
        }
    }

    /// A lane's path can be used, or not: then its unreported frames go out again on others. R-TUN-29
    pub fn set_used<T: Recover<Kept = K>>(
        &mut self,
        now: Time,
        lane: Lane,
        is_used: bool,
        out: &mut T,
    ) {
        let Some(state) = self.lanes.get_mut(lane.index()) else { return };
        match (state.health, is_used) {
            (Health::Good | Health::Suspect { .. }, false) => {
                state.health = Health::Down;
                self.move_frames(lane, now, out);
            }
            // Before the first frame there is nothing to be suspicious of.
            (Health::Down, true) if state.is_unused() => {
                state.health = Health::Good;
                self.rescue(now, out);
            }
            (Health::Down, true) => state.health = Health::Suspect { answers: 0 },
            _ => {}
        }
    }

    #[inline]
    pub(super) fn is_good(&self, lane: Lane) -> bool {
        self.lanes[lane.index()].health == Health::Good
    }

    /// Whether a lane is suspect from now on. R-TUN-12, R-TUN-58
    #[inline]
    pub(super) fn suspect(&mut self, lane: Lane, now: Time) -> bool {
        if !self.lanes[lane.index()].may_be_silent(now) {
            return false;
        }
        let others =
            Lane::all(self.lanes.len() as u8).filter(|it| *it != lane && self.is_good(*it));
        let own = self.lanes[lane.index()].rtt().mean();
        let others = others.map(|it| {
            let state = &self.lanes[it.index()];
            let heard_at = as_if_on_path(state.heard_at(), state.rtt().mean(), own);
            Others { heard_at, are_waiting: !state.is_idle() }
        });
        let others = others.reduce(Others::and);
        let state = &mut self.lanes[lane.index()];
        let is_suspect = state.suspect(now, self.pulse.passed(), others);
        state.counts.suspected += u64::from(is_suspect);
        is_suspect
    }

    /// A good lane other than a suspect one, a different one for each `salt`; that one itself if there is none.
    pub(super) fn substitute(&self, suspect: Lane, salt: u64) -> Lane {
        let all = Lane::all(self.lanes.len() as u8).filter(|lane| self.is_good(*lane));
        let count = all.count() as u64;
        let nth = salt.checked_rem(count).unwrap_or(0) as usize;
        let mut good = Lane::all(self.lanes.len() as u8).filter(|lane| self.is_good(*lane));
        good.nth(nth).unwrap_or(suspect)
    }
}

/// When a REPORT would have come, at the latest, on a path with the round trip `own` in place of `rtt`: be it that the peer, or that
/// all paths fell silent at one time, none falls silent before another one by this time.
fn as_if_on_path(heard_at: Time, rtt: Span, own: Span) -> Time {
    let (rtt, own) = (rtt.as_nanos(), own.as_nanos());
    let later = own.saturating_sub(rtt) / 2;
    Time::from_nanos((heard_at.as_nanos() + later).saturating_sub(rtt.saturating_sub(own)))
}

/// The choice among lanes, in a session.
pub(super) fn spray(config: &SenderConfig, session: Session) -> Spray {
    Spray::new(config.spray, config.lanes, config.ports, session.get().into())
}

/// The lanes as [`Spray`] sees them.
struct View<'a, K, W> {
    lanes: &'a [Outgoing<K>],
    flows: &'a Predecessors,
    wait: W,
}

impl<K, W: FnMut(Lane) -> Option<Span>> Lanes for View<'_, K, W> {
    fn is_good(&self, lane: Lane) -> bool {
        self.lanes[lane.index()].health == Health::Good
    }

    fn wait(&mut self, lane: Lane) -> Option<Span> {
        (self.wait)(lane)
    }

    fn delay(&self, lane: Lane) -> Option<i64> {
        self.lanes[lane.index()].delivery.base()
    }

    fn wait_in_network(&self, now: Time, lane: Lane) -> Span {
        self.lanes[lane.index()].queue(now)
    }

    fn is_idle(&self, bucket: u16) -> bool {
        let newest = self.flows.newest(bucket);
        newest.is_none_or(|id| id.number() < self.lanes[id.lane().index()].base)
    }
}
