//! One direction of the link.

use common::frame::{Frame, Pool};
use common::time::{Span, Time};

use crate::config::{DirectionConfig, Invalid};
use crate::corrupt::corrupt;
use crate::counters::{Counters, LossReason};
use crate::dice::{Dice, Purpose};
use crate::kind::FrameKind;
use crate::line::{Line, wire_bytes};
use crate::loss::{ListedLoss, RandomLoss, in_outage};
use crate::transit::Transit;

/// One direction of an emulated link. Frames go in by [`offer`](Self::offer)
/// and come out by [`pop_due`](Self::pop_due), which must be called again at
/// [`next_due`](Self::next_due).
pub struct Direction<F> {
    config: DirectionConfig,
    start: Time,
    line: Line,
    random: RandomLoss,
    listed: ListedLoss,
    corruption: Dice,
    duplication: Dice,
    reordering: Dice,
    jitter: Dice,
    transit: Transit<Parcel<F>>,
    /// When the last frame on the regular way is due.
    last_due: Time,
    /// Frames offered.
    offered: u64,
    /// Highest number delivered.
    highest: u64,
    counters: Counters,
}

/// A frame with the fields that counters need when it leaves.
struct Parcel<F> {
    frame: F,
    kind: FrameKind,
}

/// Counting that is still due for a frame that has left
/// [`Direction::pop_due`].
#[derive(Clone, Copy, Debug)]
#[must_use = "settle it with Direction::delivered or Direction::refused"]
pub struct Receipt {
    /// When the frame was due.
    pub due: Time,
    number: u64,
    kind: FrameKind,
    len: usize,
}

impl<F: Frame> Direction<F> {
    /// Direction number `direction` of all that an emulation has, which starts at `start`,
    /// its random numbers derived from `seed`. Room for `frames` frames on
    /// their way is set aside.
    ///
    /// # Errors
    /// Every value of `config` that is out of range.
    pub fn new(
        config: DirectionConfig,
        seed: u64,
        direction: u64,
        start: Time,
        frames: usize,
    ) -> Result<Self, Vec<Invalid>> {
        config.check()?;
        let dice = |purpose| Dice::new(seed, direction, purpose);
        Ok(Self {
            start,
            line: Line::new(config.rate, config.queue),
            random: RandomLoss::new(config.loss, dice(Purpose::Loss)),
            listed: ListedLoss::new(&config.drop),
            corruption: dice(Purpose::Corruption),
            duplication: dice(Purpose::Duplication),
            reordering: dice(Purpose::Reordering),
            jitter: dice(Purpose::Jitter),
            transit: Transit::with_capacity(frames),
            last_due: Time::ZERO,
            offered: 0,
            highest: 0,
            counters: Counters::default(),
            config,
        })
    }

    /// A frame that arrived at time `arrived`, not before any earlier one, and
    /// was found at `now`. The line serves it as of its arrival; propagation
    /// starts now at the earliest, so that the delay is never shorter than
    /// configured, however uncertain the arrival is. `pool` provides the copy
    /// if the frame is to be duplicated. Returns why the frame is lost, if it
    /// is; that has been counted.
    pub fn offer<P: Pool<Frame = F>>(
        &mut self,
        mut frame: F,
        arrived: Time,
        now: Time,
        pool: &mut P,
    ) -> Option<LossReason> {
        let (kind, len) = (FrameKind::of(frame.bytes()), frame.bytes().len());
        self.offered += 1;
        self.counters.offered.add(kind, len);
        let listed = self.listed.next(self.offered);

        let Some(sent) = self.line.enqueue(wire_bytes(len), arrived) else {
            return self.lose(LossReason::Queue, kind);
        };
        let waiting = self.line.backlog(arrived);
        self.counters.queue_high_water_bytes = self.counters.queue_high_water_bytes.max(waiting);

        // Every frame on the line is one step of the loss model, also if it is lost
        // otherwise, so that the pattern depends on the seed alone.
        let random = self.random.next();
        let reason = if in_outage(self.config.outage, self.start, sent) {
            Some(LossReason::Outage)
        } else if listed {
            Some(LossReason::Listed)
        } else {
            random.then_some(LossReason::Random)
        };
        if let Some(reason) = reason {
            return self.lose(reason, kind);
        }

        let corruption = &self.config.corruption;
        if self.corruption.chance(corruption.probability)
            && corrupt(frame.bytes_mut(), corruption, &mut self.corruption)
        {
            self.counters.corrupted += 1;
        }
        let copy = if self.duplication.chance(self.config.duplication) {
            self.copy(&frame, pool)
        } else {
            None
        };
        self.send_off(frame, copy, kind, sent.max(now));
        None
    }

    fn lose(&mut self, reason: LossReason, kind: FrameKind) -> Option<LossReason> {
        self.counters.lost.add(reason, kind);
        Some(reason)
    }

    fn copy<P: Pool<Frame = F>>(&mut self, frame: &F, pool: &mut P) -> Option<F> {
        let Some(mut copy) = pool.alloc(frame.bytes().len()) else {
            self.counters.not_duplicated += 1;
            return None;
        };
        copy.bytes_mut().copy_from_slice(frame.bytes());
        self.counters.duplicated += 1;
        Some(copy)
    }

    /// Starts the propagation of a frame at `sent`.
    fn send_off(&mut self, frame: F, copy: Option<F>, kind: FrameKind, sent: Time) {
        let jitter = Span::from_nanos(self.jitter.up_to(self.config.jitter.as_nanos()));
        let due = sent + self.config.delay + jitter;
        let number = 2 * self.offered; // odd numbers are for the copies
        let detour = self.reordering.chance(self.config.reordering.probability);
        let mut push = |due, number, frame| {
            let parcel = Parcel { frame, kind };
            if detour {
                self.transit.push_late(due, number, parcel);
            } else {
                self.transit.push(due, number, parcel);
            }
        };
        let due = if detour {
            due + self.config.reordering.extra
        } else if self.config.jitter_reorders {
            due
        } else {
            self.last_due = self.last_due.max(due);
            self.last_due
        };
        push(due, number, frame);
        let copied = copy.is_some();
        if let Some(copy) = copy {
            push(due, number + 1, copy);
        }
        self.counters.held += 1 + u64::from(copied);
        self.counters.held_high_water = self.counters.held_high_water.max(self.counters.held);
    }

    /// When the next frame is due; [`Time::NEVER`] if none is on its way.
    pub fn next_due(&self) -> Time {
        self.transit.next_due()
    }

    /// The next frame that is due at `now`. It counts as held until the
    /// receipt is given back.
    pub fn pop_due(&mut self, now: Time) -> Option<(F, Receipt)> {
        let (due, number, Parcel { frame, kind }) = self.transit.pop_due(now)?;
        let len = frame.bytes().len();
        Some((frame, Receipt { due, number, kind, len }))
    }

    /// The far end took the frame. In the order of the calls.
    pub fn delivered(&mut self, receipt: Receipt) {
        self.counters.held -= 1;
        self.counters.delivered.add(receipt.kind, receipt.len);
        if receipt.number < self.highest {
            self.counters.reordered += 1;
        } else {
            self.highest = receipt.number;
        }
    }

    /// The far end did not take the frame.
    pub fn refused(&mut self, receipt: Receipt) {
        self.counters.held -= 1;
        self.counters.lost.add(LossReason::Egress, receipt.kind);
    }

    /// Wire bytes that wait for the line or are on it at `now`.
    pub fn backlog(&self, now: Time) -> u64 {
        self.line.backlog(now)
    }

    /// Counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
