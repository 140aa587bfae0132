//! REPORTs of several lanes in one message: one frame and one tag for all lanes that are due together.

use arrayvec::ArrayVec;

use super::{Echo, MAX_RANGES, Report};
use crate::number::{Lane, WireNumber};

/// Lanes that one message reports of, at most.
pub const MAX_REPORTED: usize = 8;

/// What it says of one lane; its ranges follow those of the lanes before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reported {
    lane: Lane,
    from: Option<WireNumber>,
    next: WireNumber,
    frames: u32,
    marked: u32,
    echo: Option<Echo>,
    ranges: u8,
}

/// The REPORTs of a message, [`MAX_REPORTED`] at most, with [`MAX_RANGES`] ranges together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reports {
    lanes: ArrayVec<Reported, MAX_REPORTED>,
    missing: ArrayVec<(WireNumber, u32), MAX_RANGES>,
}

impl Reports {
    /// Adds a REPORT. False if there is no room for it: then nothing changes. There is room for one.
    #[must_use]
    pub fn push(&mut self, report: &Report) -> bool {
        let Report { lane, from, next, frames, marked, echo, ref missing } = *report;
        let is_room = !self.lanes.is_full() && missing.len() <= self.missing.remaining_capacity();
        if is_room {
            let ranges = missing.len() as u8; // No more than `MAX_RANGES`.
            self.lanes.push(Reported { lane, from, next, frames, marked, echo, ranges });
            self.missing.extend(missing.iter().copied());
        }
        is_room
    }

    /// Each REPORT, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Report> {
        let mut at = 0;
        self.lanes.iter().map(move |reported| {
            let Reported { lane, from, next, frames, marked, echo, ranges } = *reported;
            let end = at + usize::from(ranges);
            let missing = self.missing[at..end].iter().copied().collect();
            at = end;
            Report { lane, from, next, frames, marked, echo, missing }
        })
    }

    /// The lanes that it reports of.
    pub fn lanes(&self) -> impl ExactSizeIterator<Item = Lane> {
        self.lanes.iter().map(|reported| reported.lane)
    }

    /// Whether it says nothing.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Missing ranges of all lanes.
    pub(super) fn ranges(&self) -> usize {
        self.missing.len()
    }

    /// Those of its lanes whose newest PROBE is known.
    pub(super) fn echoes(&self) -> usize {
        self.lanes.iter().filter(|reported| reported.echo.is_some()).count()
    }
}

impl From<Report> for Reports {
    fn from(report: Report) -> Self {
        let mut reports = Self::default();
        let is_room = reports.push(&report);
        debug_assert!(is_room, "there is room for one");
        reports
    }
}
