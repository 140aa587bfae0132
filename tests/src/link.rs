//! One direction of a segment, with everything that a network does to frames.

use common::time::{Span, Time};
use rand::{Rng, RngExt};

/// What a segment does to the frames that cross it, as probabilities per
/// frame.
#[derive(Clone, Copy, Default, Debug)]
pub struct Impairment {
    /// The frame is lost.
    pub loss: f64,
    /// A burst of losses begins; its mean length is `burst` frames.
    pub burst_start: f64,
    /// Mean length of a burst of losses.
    pub burst: f64,
    /// The frame arrives twice.
    pub duplicate: f64,
    /// The frame is delayed by up to `reorder_by`, and others overtake it.
    pub reorder: f64,
    /// Longest extra delay of a reordered frame.
    pub reorder_by: Span,
    /// A bit of the frame flips.
    pub corrupt: f64,
}

/// What became of the frames of a segment.
#[derive(Clone, Copy, Default, Debug)]
pub struct Fate {
    /// Frames sent into it.
    pub offered: u64,
    /// Frames lost.
    pub lost: u64,
    /// Frames that were corrupted.
    pub corrupted: u64,
}

/// One direction of a segment.
#[derive(Clone, Debug)]
pub struct Link {
    /// One-way delay.
    pub delay: Span,
    /// What happens to frames until `until`.
    pub impairment: Impairment,
    /// When the network becomes perfect.
    pub until: Time,
    /// What happened so far.
    pub fate: Fate,
    /// Frames that the current burst of losses still takes.
    burst_left: u32,
}

impl Link {
    /// A perfect link.
    pub fn new(delay: Span) -> Self {
        Self {
            delay,
            impairment: Impairment::default(),
            until: Time::NEVER,
            fate: Fate::default(),
            burst_left: 0,
        }
    }

    /// Sends `frame` at `now`; calls `arrive` for each copy that arrives, with
    /// the time.
    pub fn send(
        &mut self,
        mut frame: Vec<u8>,
        now: Time,
        rng: &mut impl Rng,
        mut arrive: impl FnMut(Time, Vec<u8>),
    ) {
        self.fate.offered += 1;
        let at = now + self.delay;
        if now >= self.until {
            return arrive(at, frame);
        }
        let what = self.impairment;
        if self.burst_left == 0 && rng.random_bool(what.burst_start) {
            let mean = what.burst.max(1.0);
            self.burst_left = rng.random_range(1..=(2.0 * mean) as u32 - 1);
        }
        let in_burst = self.burst_left > 0;
        self.burst_left = self.burst_left.saturating_sub(1);
        if in_burst || rng.random_bool(what.loss) {
            self.fate.lost += 1;
            return;
        }
        if rng.random_bool(what.corrupt) {
            // Behind the Ethernet header: a switch's FCS catches the rest.
            let bit = rng.random_range(14 * 8..frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
            self.fate.corrupted += 1;
        }
        if rng.random_bool(what.duplicate) {
            arrive(at, frame.clone());
        }
        let extra = if rng.random_bool(what.reorder) {
            Span::from_nanos(rng.random_range(0..=what.reorder_by.as_nanos()))
        } else {
            Span::ZERO
        };
        arrive(at + extra, frame);
    }
}
