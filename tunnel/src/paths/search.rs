//! The search for the longest frame that the path of one lane carries (RFC 8899, in spirit).
//!
//! A *round* sends probes of several lengths, the longest first, all with one send time. An echo of a shorter probe that arrives
//! before that of a longer one of the round counts a loss of the longer length. Silence counts no loss: the path may be dead,
//! or its queues full.

use arrayvec::ArrayVec;
use common::rtt::Rtt;
use common::time::{Span, Time};

/// Time between two rounds.
const ROUND: Span = Span::from_millis(50);
/// Rounds after which the time between two rounds doubles with each one, up to [`ROUND`] times 2 to the power of `BACKOFF_MAX`.
const ROUNDS: u32 = 12;
const BACKOFF_MAX: u32 = 5;
/// Losses after which a length that was never carried counts as too long.
const LOSSES: u8 = 3;
/// Losses after which a length that was carried before counts as too long: with one probe or echo in ten lost, a path that did
/// not change is found too short once in 10^8 checks.
const LOSSES_OF_PROVEN: u8 = 8;
/// Lengths of a round, at most.
pub(super) const SIZES: usize = 5;
/// The round trip, until it is measured.
const GUESS: Span = Span::from_millis(200);

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

/// The state of a search, for the other lanes of the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    /// See [`Search::limit`].
    pub limit: u16,
    /// Whether the length is found, and no round is under way.
    pub is_settled: bool,
    /// Whether the search goes down.
    pub is_falling: bool,
    /// Whether the longest frames of the WAN ports are carried.
    pub is_whole: bool,
}

/// Rounds with the same lengths.
#[derive(Clone, Debug)]
struct Volley {
    /// In ascending order.
    asked: ArrayVec<Asked, SIZES>,
    began_at: Time,
    rounds: u32,
    /// The path of another lane of the port was found too short: [`LOSSES`] decide also about lengths that were carried.
    is_doubted: bool,
}

/// The kind of the next step of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// One probe of the length that was carried last.
    Check,
    /// A round of the volley, or of the first one of a search or a check that failed.
    Round,
    /// A look for longer frames than those that are carried.
    Raise,
}

/// The longest frame on the path of one lane.
#[derive(Clone, Debug)]
pub(super) struct Search {
    bounds: Bounds,
    /// Length of the longest frame that was carried; 0: no probe was answered yet.
    carried: u16,
    /// The shortest length that is too long.
    beyond: u16,
    /// `carried` is what is left of a longer path, or of what was assumed at the start: the search goes down.
    is_falling: bool,
    volley: Option<Volley>,
    /// When the check that is under way was sent.
    checking: Option<Time>,
    checked_at: Time,
    raised_at: Time,
    due: Time,
    rtt: Rtt,
}

impl Search {
    /// A path of which nothing is known: the first round is due at once.
    pub fn new(Bounds { least, most }: Bounds, now: Time) -> Self {
        let bounds = Bounds { least, most: most.max(least) };
        let mut this = Self {
            bounds,
            carried: 0,
            beyond: bounds.most.saturating_add(1),
            is_falling: true,
            volley: None,
            checking: None,
            checked_at: now,
            raised_at: now,
            due: now,
            rtt: Rtt::guess(GUESS),
        };
        this.ask(now, &[bounds.least, bounds.most], false);
        this
    }

    /// Length of the longest frame that may be sent, as far as it is known; 0: no probe was answered yet. While a search goes down,
    /// frames of undecided lengths may be sent.
    pub fn limit(&self) -> u16 {
        match self.carried {
            0 => 0,
            _ if self.is_falling => self.beyond - 1,
            carried => carried,
        }
    }

    /// The round trip of probes.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// When the next step is due.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Puts the next step off.
    pub fn put_off(&mut self, until: Time) {
        self.due = self.due.max(until);
    }

    /// Whether the length is found, and no round is under way.
    fn is_settled(&self) -> bool {
        self.volley.is_none() && self.beyond.saturating_sub(self.carried) <= 1
    }

    /// The state of the search.
    pub fn found(&self) -> Found {
        Found {
            limit: self.limit(),
            is_settled: self.is_settled(),
            is_falling: self.is_falling,
            is_whole: self.carried == self.bounds.most,
        }
    }

    /// Whether a search of many rounds is under way, and does not wait for a path that is silent.
    pub fn is_searching(&self) -> bool {
        let is_live = |volley: &Volley| !volley.is_doubted && volley.rounds <= ROUNDS;
        self.carried > 0 && self.volley.as_ref().is_some_and(is_live)
    }

    /// Whether a step begins a search of many rounds.
    pub fn begins(&self, step: Step) -> bool {
        step == Step::Raise || step == Step::Round && self.volley.is_none()
    }

    /// The kind of the step that is due, if longer frames are looked for every `raise`.
    pub fn step(&self, now: Time, raise: Span) -> Step {
        if self.volley.is_some() || self.checking.is_some() || !self.is_settled() {
            Step::Round
        } else if self.carried < self.bounds.most && now >= self.raised_at + raise {
            Step::Raise
        } else {
            Step::Check
        }
    }

    /// Takes a step, and returns the lengths of the probes to send, the longest first. A check that was not answered becomes a volley.
    /// The next check is due after `interval`.
    pub fn take(&mut self, now: Time, step: Step, interval: Span) -> ArrayVec<u16, SIZES> {
        let Bounds { least, most } = self.bounds;
        match step {
            Step::Check => {
                (self.checking, self.checked_at) = (Some(now), now);
                self.due = now + self.rtt.with_margin() + ROUND;
                return core::iter::once(self.carried).collect();
            }
            Step::Raise => {
                self.raised_at = now;
                let next = self.carried + 1;
                self.ask(now, &[least, self.carried, next, middle(next, most), most], false);
            }
            Step::Round if self.volley.is_none() && self.checking.take().is_some() => {
                self.ask(now, &[least, self.carried], false);
            }
            Step::Round if self.volley.is_none() => self.halve(now),
            Step::Round => {}
        }
        self.round(now, interval)
    }

    /// The probes of a round.
    fn round(&mut self, now: Time, interval: Span) -> ArrayVec<u16, SIZES> {
        let (carried, least) = (self.carried, self.bounds.least);
        let Some(volley) = &mut self.volley else {
            self.due = now + interval;
            return ArrayVec::new();
        };
        volley.rounds += 1;
        // Nothing comes back, not even the shortest one: the path may have become shorter than that.
        let shortest = volley.asked.first().map_or(least, |asked| asked.size);
        if volley.rounds > ROUNDS / 2 && shortest > least && !volley.is_answered() {
            self.ask(now, &[least, shortest], false);
            return self.round(now, interval);
        }
        let doublings = volley.rounds.saturating_sub(ROUNDS).min(BACKOFF_MAX);
        self.due = now + ROUND * (1 << doublings);
        let is_open = |(n, asked): &(usize, &Asked)| {
            *n == 0 || !asked.is_carried && !asked.is_lost(carried, volley.is_doubted)
        };
        let open = volley.asked.iter().enumerate().filter(is_open);
        open.map(|(_, asked)| asked.size).rev().collect()
    }

    /// Begins a volley of these lengths, ascending; those that are out of bounds or double are left out.
    fn ask(&mut self, now: Time, sizes: &[u16], is_doubted: bool) {
        let mut asked = ArrayVec::<Asked, SIZES>::new();
        for size in sizes.iter().map(|size| (*size).clamp(self.bounds.least, self.bounds.most)) {
            if asked.last().is_none_or(|last| last.size < size) && !asked.is_full() {
                asked.push(Asked { size, is_carried: false, losses: 0, counted: Time::ZERO });
            }
        }
        self.volley = Some(Volley { asked, began_at: now, rounds: 0, is_doubted });
        (self.checking, self.due) = (None, now);
    }

    /// Begins a volley between the longest length that is carried and the shortest that is not.
    fn halve(&mut self, now: Time) {
        let (low, high) = (self.carried.max(self.bounds.least), self.beyond);
        let mid = middle(low, high);
        self.ask(now, &[low, middle(low, mid), mid, middle(mid, high)], false);
    }

    /// A probe of `len` bytes that was sent at `sent_at` has arrived. The next check is due after `interval`. Returns whether the
    /// check that was under way is answered.
    pub fn on_echo(&mut self, now: Time, sent_at: Time, len: u16, interval: Span) -> bool {
        self.rtt.sample(now.since(sent_at));
        if let Some(volley) = self.volley.as_mut().filter(|volley| sent_at >= volley.began_at) {
            volley.on_echo(sent_at, len);
            self.decide(now, interval);
        } else if self.checking.is_some_and(|at| sent_at >= at) && len >= self.carried {
            (self.checking, self.due) = (None, now + interval);
            return true;
        }
        false
    }

    /// Ends the volley if it has found something.
    fn decide(&mut self, now: Time, interval: Span) {
        let Some(volley) = &self.volley else { return };
        let too_long = volley.asked.iter().find(|asked| !asked.is_carried);
        let carried = volley.asked.iter().rev().find(|asked| asked.is_carried);
        let Some(carried) = carried.map(|asked| asked.size) else { return };
        if too_long.is_some_and(|asked| !asked.is_lost(self.carried, volley.is_doubted)) {
            return;
        }
        let is_first = self.carried == 0;
        let most = self.bounds.most.saturating_add(1);
        match too_long.map(|asked| asked.size) {
            Some(size) if size <= self.carried => {
                (self.carried, self.beyond, self.is_falling) = (carried, size, true);
            }
            Some(size) => (self.carried, self.beyond) = (self.carried.max(carried), size),
            None => {
                self.carried = self.carried.max(carried);
                // The longest of the lengths is carried.
                self.beyond = if self.beyond > self.carried { self.beyond } else { most };
            }
        }
        (self.volley, self.due) = (None, now);
        if self.beyond - self.carried <= 1 {
            (self.is_falling, self.due) = (false, now + interval);
            if is_first || self.carried == self.bounds.most {
                self.raised_at = now;
            }
        }
    }

    /// Another lane of the port carries `size` bytes and not one more: this one is asked for the same.
    pub fn hint(&mut self, now: Time, size: u16) {
        let is_asked = |volley: &Volley| {
            volley.is_doubted && volley.asked.iter().any(|asked| asked.size == size)
        };
        let is_found = self.limit() == size && self.is_settled();
        if !is_found && !self.volley.as_ref().is_some_and(is_asked) {
            self.ask(now, &[self.bounds.least, size, size.saturating_add(1)], true);
        }
    }

    /// Another lane of the port carries longer frames than before: this one looks for such frames now.
    pub fn raise(&mut self, now: Time) {
        if self.is_settled() && self.carried < self.bounds.most {
            (self.raised_at, self.due) = (Time::ZERO, now);
        }
    }

    /// Frames may be too long for the path: the next check is due a moment later, unless there was one less than two rounds ago.
    pub fn doubt(&mut self, now: Time) {
        let is_idle = self.is_settled() && self.checking.is_none() && self.carried > 0;
        if is_idle {
            let soon = (self.checked_at + ROUND * 2).max(now + ROUND / 16);
            self.due = self.due.min(soon);
        }
    }

    /// Messages of the peer have arrived where none did: a search that waits goes on at once.
    pub fn wake(&mut self, now: Time) {
        if let Some(volley) = &mut self.volley {
            volley.rounds = volley.rounds.min(ROUNDS);
            self.due = self.due.min(now);
        }
    }

    /// Whether the check that is under way was not answered in time.
    pub fn is_overdue(&self, now: Time) -> bool {
        self.checking.is_some() && now >= self.due
    }
}

impl Asked {
    fn is_lost(&self, carried: u16, is_doubted: bool) -> bool {
        let is_proven = self.size <= carried && !is_doubted;
        self.losses >= if is_proven { LOSSES_OF_PROVEN } else { LOSSES }
    }
}

impl Volley {
    fn is_answered(&self) -> bool {
        self.asked.iter().any(|asked| asked.is_carried)
    }

    fn on_echo(&mut self, sent_at: Time, len: u16) {
        for asked in &mut self.asked {
            if asked.size <= len {
                asked.is_carried = true;
            } else if !asked.is_carried && asked.counted < sent_at {
                (asked.counted, asked.losses) = (sent_at, asked.losses.saturating_add(1));
            }
        }
    }
}

/// The length halfway between two.
const fn middle(low: u16, high: u16) -> u16 {
    low + high.saturating_sub(low) / 2
}
