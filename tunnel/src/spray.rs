//! Which lane a frame takes.
//!
//! A policy sees of each lane whether it is good, how long a frame would wait for its port, whether its frames are
//! marked, and how its delay differs from that of the others. A receiver puts each flow in order whatever
//! the policy, so it decides about load and delay only.

use arrayvec::ArrayVec;
use common::time::{Span, Time};

use crate::flow::Order;
use crate::number::Lane;

/// Good lanes that `reps` remembers.
const RECYCLED: usize = 8;
/// Round trips of marks without a pause after which `pinned` moves a flow that sends.
const REROUTE_ROUND_TRIPS: u64 = 10;
/// Frames that `earliest` gives to a lane before it looks at all of them again,
const QUANTUM: u32 = 8;
/// and the time.
const QUICK_LASTS: Span = Span::from_micros(20);
/// To `earliest`, lanes are equally fast that differ by this part of a round trip.
const MARGIN: u64 = 64;
/// No lane yet.
const NONE: u8 = u8::MAX;
/// Of a lane that takes no frame.
const NO_SCORE: i64 = i64::MAX;

/// How lanes are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Policy {
    /// Those of a flow bucket take one lane, until the bucket is idle or its lane congested for ten round trips.
    Pinned,
    /// All lanes in turn, in a random order that is another one in each turn.
    Oblivious,
    /// Lanes whose frames were reported without a mark again, else the others in turn, but for those with a mark in the last
    /// round trip (REPS, arXiv:2407.21625).
    Reps,
    /// All lanes in turn, but for those with a mark in the last round trip (STrack, arXiv:2407.15266).
    Strack,
    /// The lane on which the frame is predicted to arrive first.
    #[default]
    Earliest,
}

/// The state of one lane, on which the choice depends.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Arrived and marked, as the newest REPORT has them.
    reported: (u32, u32),
    /// The round trip.
    rtt: Span,
    /// There was a mark less than a round trip before.
    marked_until: Time,
    /// Since when marks have come without a pause.
    marked_since: Option<Time>,
}

/// The answers of the lanes to the questions of a policy.
pub trait Lanes {
    /// Whether a lane takes new frames.
    fn is_good(&self, lane: Lane) -> bool;

    /// How long a frame waits until the lane's port sends it; `None` if there is no room for it.
    fn wait(&mut self, lane: Lane) -> Option<Span>;

    /// The delay of the lane's path without a queue, in ns by the clocks of both boxes: only differences have a meaning.
    /// `None` until it is measured. R-TUN-33
    fn delay(&self, lane: Lane) -> Option<i64>;

    /// How long a frame is predicted to wait in queues of the path. Frames that wait for the port count as sent. R-TUN-35
    fn wait_in_network(&self, now: Time, lane: Lane) -> Span;

    /// Whether the newest frame of a flow bucket is reported, or there is none.
    fn is_idle(&self, bucket: u16) -> bool;
}

/// The choice of lanes.
#[derive(Debug)]
pub struct Spray {
    policy: Policy,
    ports: u8,
    dice: u64,
    lanes: Vec<Seen>,
    /// All lanes, in the order of this turn.
    turn: Vec<Lane>,
    at: usize,
    /// Lane of each flow bucket; only for [`Policy::Pinned`].
    pins: Vec<u8>,
    /// Good lanes, and how many frames each may carry, the next first; only for [`Policy::Reps`].
    recycled: ArrayVec<(Lane, u32), RECYCLED>,
    /// The lanes that the next frames take; only for [`Policy::Earliest`], as are the fields below.
    quick: Vec<Lane>,
    /// For the time of one call: by lane, when a frame is predicted to arrive.
    scores: Vec<i64>,
    /// For how many frames more.
    quick_for: u32,
    /// Since when.
    quick_at: Time,
}

impl Spray {
    /// A choice among `lanes` lanes on `ports` ports. The same `seed` makes the same choices.
    pub fn new(policy: Policy, lanes: u8, ports: u8, seed: u64) -> Self {
        let unseen = Seen {
            reported: (0, 0),
            rtt: Span::ZERO,
            marked_until: Time::ZERO,
            marked_since: None,
        };
        let buckets = if policy == Policy::Pinned { crate::BUCKETS } else { 0 };
        Self {
            policy,
            ports: ports.max(1),
            dice: seed | 1,
            lanes: vec![unseen; lanes.into()],
            turn: Lane::all(lanes).collect(),
            // The first turn has an order of its own already.
            at: lanes.into(),
            pins: vec![NONE; buckets],
            recycled: ArrayVec::new(),
            quick: Vec::with_capacity(lanes.into()),
            scores: Vec::with_capacity(lanes.into()),
            quick_for: 0,
            quick_at: Time::ZERO,
        }
    }

    /// Whether the lane depends on the flow.
    #[inline]
    pub fn is_by_flow(&self) -> bool {
        self.policy == Policy::Pinned
    }

    /// Whether the delays of the lanes have to be measured.
    pub fn needs_delays(&self) -> bool {
        self.policy == Policy::Earliest && self.lanes.len() > 1
    }

    /// A REPORT of a lane: how many frames have arrived and how many of them were marked, since the session began.
    /// Returns how many more are marked than in the one before.
    pub fn on_report(&mut self, now: Time, lane: Lane, frames: u32, marked: u32, rtt: Span) -> u32 {
        let Some(seen) = self.lanes.get_mut(lane.index()) else { return 0 };
        let (news, marks) =
            (frames.wrapping_sub(seen.reported.0), marked.wrapping_sub(seen.reported.1));
        // REPORTs may overtake each other.
        if news == 0 || news >= 1 << 31 {
            return 0;
        }
        (seen.reported, seen.rtt) = ((frames, marked), rtt);
        if marks > 0 {
            seen.marked_until = now + rtt;
            seen.marked_since.get_or_insert(now);
            self.recycled.retain(|(recycled, _)| *recycled != lane);
            return marks;
        }
        if now >= seen.marked_until {
            seen.marked_since = None;
        }
        if self.policy == Policy::Reps && !self.recycled.is_full() {
            self.recycled.push((lane, news));
        }
        0
    }

    /// The lane of the next frame; `None` if no port has room for it. R-TUN-30
    pub fn choose(&mut self, now: Time, order: Order, lanes: &mut impl Lanes) -> Option<Lane> {
        let chosen = match self.policy {
            Policy::Pinned => self.pinned(now, order, lanes),
            Policy::Oblivious => self.in_turn(lanes),
            Policy::Reps => self.recycle(now, lanes).or_else(|| self.unmarked_in_turn(now, lanes)),
            Policy::Strack => self.unmarked_in_turn(now, lanes),
            Policy::Earliest => self.earliest(now, lanes).or_else(|| self.in_turn(lanes)),
        };
        if chosen.is_some() || self.turn.iter().any(|lane| lanes.is_good(*lane)) {
            return chosen;
        }
        // Without a good lane, a suspect one.
        self.turn.iter().copied().find(|lane| lanes.wait(*lane).is_some())
    }

    /// A lane for a copy of a frame that `other` carries: on another port, if there is one.
    pub fn choose_other(&mut self, other: Lane, is_good: impl Fn(Lane) -> bool) -> Option<Lane> {
        let port = other.port(self.ports);
        let mut second = None;
        for _ in 0..2 * self.turn.len() {
            let lane = self.step();
            if lane == other || !is_good(lane) {
                continue;
            }
            if lane.port(self.ports) != port {
                return Some(lane);
            }
            second = second.or(Some(lane));
        }
        second
    }

    /// R-TUN-32
    fn pinned(&mut self, now: Time, order: Order, lanes: &mut impl Lanes) -> Option<Lane> {
        let Some(bucket) = order.bucket() else { return self.unmarked_in_turn(now, lanes) };
        let pin = self.pins.get(usize::from(bucket)).copied().and_then(Lane::new);
        let stays = pin.filter(|lane| {
            let seen = &self.lanes[lane.index()];
            let is_congested = seen.marked_since.is_some_and(|since| {
                now < seen.marked_until && now.since(since) >= seen.rtt * REROUTE_ROUND_TRIPS
            });
            lanes.is_good(*lane) && !is_congested && !lanes.is_idle(bucket)
        });
        if let Some(lane) = stays {
            // A full port does not move a flow: that would only move the queue.
            return lanes.wait(lane).map(|_| lane);
        }
        let lane = self.unmarked_in_turn(now, lanes)?;
        if let Some(pin) = self.pins.get_mut(usize::from(bucket)) {
            *pin = lane.get();
        }
        Some(lane)
    }

    fn marked_until(&self, lane: Lane) -> Time {
        self.lanes[lane.index()].marked_until
    }

    /// Whether some lanes are marked and not more than half of them: otherwise marks say nothing about one of them.
    /// R-TUN-31
    fn marks_tell(&self, now: Time) -> bool {
        let marked = self.lanes.iter().filter(|seen| now < seen.marked_until).count();
        marked > 0 && marked * 2 <= self.lanes.len()
    }

    /// The next good lane with room in the order of this turn, without a mark if that tells anything and there is one.
    fn unmarked_in_turn(&mut self, now: Time, lanes: &mut impl Lanes) -> Option<Lane> {
        let unmarked = self.marks_tell(now).then(|| {
            self.turn_until(|spray, lane| now >= spray.marked_until(lane) && takes(lanes, lane))
        });
        unmarked.flatten().or_else(|| self.in_turn(lanes))
    }

    /// The next good lane with room in the order of this turn.
    fn in_turn(&mut self, lanes: &mut impl Lanes) -> Option<Lane> {
        self.turn_until(|_, lane| takes(lanes, lane))
    }

    fn turn_until(&mut self, mut fits: impl FnMut(&Self, Lane) -> bool) -> Option<Lane> {
        // The rest of this turn, and all of the next.
        for _ in 0..2 * self.turn.len() {
            let lane = self.step();
            if fits(self, lane) {
                return Some(lane);
            }
        }
        None
    }

    /// The next lane of the turn; behind the last one begins another turn, in another order.
    fn step(&mut self) -> Lane {
        if self.at >= self.turn.len() {
            self.at = 0;
            for last in (1..self.turn.len()).rev() {
                let other = self.roll() % (last as u64 + 1);
                self.turn.swap(last, other as usize);
            }
        }
        let lane = self.turn[self.at];
        self.at += 1;
        lane
    }

    /// A lane whose frames came without a mark. A REPORT without marks may follow one with marks within a round trip: that
    /// lane is forgotten when its turn comes.
    fn recycle(&mut self, now: Time, lanes: &mut impl Lanes) -> Option<Lane> {
        let avoids_marks = self.marks_tell(now);
        while let Some((lane, left)) = self.recycled.pop_at(0) {
            let is_avoided = avoids_marks && now < self.marked_until(lane);
            if is_avoided || !lanes.is_good(lane) {
                continue;
            }
            if left > 1 {
                self.recycled.push((lane, left - 1));
            }
            if lanes.wait(lane).is_some() {
                return Some(lane);
            }
            return None;
        }
        None
    }

    /// In turn, the lanes on which a frame is predicted to arrive first, or hardly later. To take only the very first
    /// would put all frames on one of several equal lanes, and follow every error of a measurement.
    fn earliest(&mut self, now: Time, lanes: &mut impl Lanes) -> Option<Lane> {
        if self.quick_for == 0 || now >= self.quick_at + QUICK_LASTS {
            self.find_quick(now, lanes);
        }
        self.quick_for = self.quick_for.saturating_sub(1);
        for _ in 0..self.quick.len() {
            self.at = self.at.wrapping_add(1);
            let lane = self.quick[self.at % self.quick.len()];
            if takes(lanes, lane) {
                return Some(lane);
            }
        }
        self.quick_for = 0;
        None
    }

    fn find_quick(&mut self, now: Time, lanes: &mut impl Lanes) {
        let avoids_marks = self.marks_tell(now);
        self.scores.clear();
        let all = Lane::all(self.lanes.len() as u8);
        self.scores.extend(all.map(|lane| lanes.delay(lane).unwrap_or(NO_SCORE)));
        let measured = self.scores.iter().copied().filter(|delay| *delay != NO_SCORE);
        let least = measured.min().unwrap_or(0);
        let (mut first, mut margin) = (NO_SCORE, Span::ZERO);
        let all = Lane::all(self.lanes.len() as u8).zip(&self.lanes);
        for ((lane, seen), score) in all.zip(&mut self.scores) {
            // One that is not measured yet is tried.
            let delay = if *score == NO_SCORE { least } else { *score };
            let is_avoided = avoids_marks && now < seen.marked_until;
            let wait = lanes.wait(lane).filter(|_| !is_avoided && lanes.is_good(lane));
            *score = wait.map_or(NO_SCORE, |wait| {
                // A frame that waits for its port does so while the queue behind it shrinks.
                let longest = wait.max(lanes.wait_in_network(now, lane));
                delay.saturating_add_unsigned(longest.as_nanos())
            });
            if *score < first {
                (first, margin) = (*score, seen.rtt / MARGIN);
            }
        }
        self.quick.clear();
        if first == NO_SCORE {
            return;
        }
        let most = first.saturating_add_unsigned(margin.as_nanos()).min(NO_SCORE - 1);
        let all = Lane::all(self.lanes.len() as u8).zip(&self.scores);
        self.quick.extend(all.filter(|(_, score)| **score <= most).map(|(lane, _)| lane));
        self.quick_for = QUANTUM * self.quick.len() as u32;
        self.quick_at = now;
    }

    /// xorshift64*.
    fn roll(&mut self) -> u64 {
        self.dice ^= self.dice >> 12;
        self.dice ^= self.dice << 25;
        self.dice ^= self.dice >> 27;
        self.dice.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
}

/// Whether a lane is good and has room.
fn takes(lanes: &mut impl Lanes, lane: Lane) -> bool {
    lanes.is_good(lane) && lanes.wait(lane).is_some()
}
