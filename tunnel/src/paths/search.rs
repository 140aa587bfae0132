//! The search for the longest frame that the path of one lane carries (RFC 8899, in spirit).
//!
//! A *round* sends probes of several lengths, the longest first, all with one send time. An echo of a shorter probe that arrives
//! before that of a longer one of the round counts a loss of the longer length. Silence counts no loss: the path may be dead,
//! or its queues full.

use arrayvec::ArrayVec;
use common::rtt::Rtt;
use common::time::{Span, Time};

use crate::number::Lane;

/// Time between two rounds, and at least a quarter of a round trip.
const ROUND: Span = Span::from_millis(50);
/// Losses after which a length that was not carried before counts as too long.
const LOSSES: u8 = 3;
/// Losses after which a length that was carried before counts as too long: with one probe or echo in ten lost, a path that did
/// not change is found too short once in 10^8 checks.
const LOSSES_OF_PROVEN: u8 = 8;
/// Lengths of a round, at most.
pub(super) const SIZES: usize = 4;

/// Bounds of the lengths of frames, in bytes from the destination MAC address on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Bounds {
    /// Length of the shortest probe.
    pub least: u16,
    /// Length of the longest frame that the WAN ports of both boxes carry.
    pub most: u16,
}

/// A length that is asked for in each round until it is decided.
#[derive(Clone, Copy, Debug)]
struct Asked {
    size: u16,
    is_carried: bool,
    losses: u8,
    /// The newest round whose loss was counted.
    counted: Time,
}

/// A look at the path of one lane.
#[derive(Clone, Debug)]
pub(super) struct Search {
    lane: Lane,
    bounds: Bounds,
    /// Length of the longest frame that was carried before; 0: none is known.
    proven: u16,
    /// Length of the longest probe that was carried in this search; 0: none was.
    low: u16,
    /// The shortest length that is too long.
    high: u16,
    /// In ascending order. The first is as short as a probe can be: its echoes show the losses of the others.
    asked: ArrayVec<Asked, SIZES>,
    /// When these lengths were first asked for.
    asked_at: Time,
    /// When the newest echo came; until there is one, when the search began.
    heard_at: Time,
    /// Only one length is in doubt: the first round asks for nothing else.
    is_check: bool,
    rounds: u32,
    due: Time,
}

impl Search {
    /// Checks whether the longest frames still arrive, of `proven` bytes as far as such are known.
    pub fn check(lane: Lane, proven: u16, bounds: Bounds, now: Time) -> Self {
        let size = if proven == 0 { bounds.most } else { proven };
        let mut this = Self::new(lane, proven, bounds, now);
        (this.high, this.is_check) = (size.saturating_add(1), true);
        this.ask(now, &[size]);
        this
    }

    /// Looks for frames that are longer than `proven`.
    pub fn raise(lane: Lane, proven: u16, bounds: Bounds, now: Time) -> Self {
        let mut this = Self::new(lane, proven, bounds, now);
        this.ask(now, &[proven, proven.saturating_add(1), bounds.most]);
        this
    }

    fn new(lane: Lane, proven: u16, bounds: Bounds, now: Time) -> Self {
        Self {
            lane,
            bounds,
            proven,
            low: 0,
            high: bounds.most.saturating_add(1),
            asked: ArrayVec::new(),
            asked_at: now,
            heard_at: now,
            is_check: false,
            rounds: 0,
            due: now,
        }
    }

    /// The lane whose path it is.
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// When the next round is due.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Whether only the first probe of a check was sent.
    pub fn is_first_of_check(&self) -> bool {
        self.is_check && self.rounds == 1
    }

    /// The lengths of the probes of a round, the longest first; `None` if nothing comes back.
    pub fn round(&mut self, now: Time, rtt: &Rtt) -> Option<ArrayVec<u16, SIZES>> {
        let wait = ROUND.max(rtt.mean() / 4);
        if now >= self.heard_at + rtt.with_margin() * 2 + wait * 4 {
            return None;
        }
        self.rounds += 1;
        if self.is_first_of_check() {
            self.due = now + rtt.with_margin() + wait;
            return Some(self.asked.last().map(|asked| asked.size).into_iter().collect());
        }
        self.due = now + wait;
        let is_open =
            |(n, asked): &(usize, &Asked)| *n == 0 || !asked.is_carried && !self.is_lost(asked);
        let open = self.asked.iter().enumerate().filter(is_open);
        Some(open.map(|(_, asked)| asked.size).rev().collect())
    }

    /// A probe of `len` bytes that was sent at `sent_at` has arrived. Returns the length of the longest frame that is carried, once it
    /// is found.
    pub fn on_echo(&mut self, now: Time, sent_at: Time, len: u16) -> Option<u16> {
        if sent_at < self.asked_at {
            return None;
        }
        self.heard_at = now;
        for asked in &mut self.asked {
            if asked.size <= len {
                asked.is_carried = true;
            } else if !asked.is_carried && asked.counted < sent_at {
                (asked.counted, asked.losses) = (sent_at, asked.losses.saturating_add(1));
            }
        }
        let too_long = self.asked.iter().find(|asked| !asked.is_carried);
        if too_long.is_some_and(|asked| !self.is_lost(asked)) {
            return None;
        }
        self.high = too_long.map_or(self.high, |asked| asked.size);
        let carried = self.asked.iter().filter(|asked| asked.is_carried).map(|asked| asked.size);
        self.low = carried.max().unwrap_or(0).max(self.low);
        let between = self.high.saturating_sub(self.low);
        if between <= 1 {
            return Some(self.low);
        }
        let quarters = [1, 2, 3].map(|n| self.low + (u32::from(between) * n / 4) as u16);
        self.ask(now, &quarters);
        None
    }

    /// Whether a length that is not carried is too long.
    fn is_lost(&self, asked: &Asked) -> bool {
        // Once one proven length is too long, others are no better than any.
        let is_proven = asked.size <= self.proven && self.proven < self.high;
        asked.losses >= if is_proven { LOSSES_OF_PROVEN } else { LOSSES }
    }

    /// Asks for these lengths, ascending, from now on.
    fn ask(&mut self, now: Time, sizes: &[u16]) {
        let Bounds { least, most } = self.bounds;
        self.asked.clear();
        for size in core::iter::once(least).chain(sizes.iter().map(|size| (*size).min(most))) {
            if self.asked.last().is_none_or(|last| last.size < size) {
                self.asked.push(Asked { size, is_carried: false, losses: 0, counted: Time::ZERO });
            }
        }
        (self.asked_at, self.due) = (now, now);
    }
}
