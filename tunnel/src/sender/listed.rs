//! The numbers that a REPORT speaks of.

use crate::message::Report;
use crate::number::{Number, WireNumber};

/// A REPORT, with the numbers of its lane that it speaks of.
pub(super) struct Listed<'a> {
    report: &'a Report,
    pub from: Option<Number>,
    /// Its own next number.
    end: Number,
    /// One past the last number that was sent and that it speaks of.
    pub next: Number,
}

impl<'a> Listed<'a> {
    /// A REPORT of a lane whose next number is `near`; `None` if none of its numbers was ever sent.
    pub fn read(report: &'a Report, near: Number) -> Option<Self> {
        let end = Number::read(report.next, near)?;
        // Somebody may have shown the receiver numbers that are not ours.
        let next = end.min(near);
        let from = match report.from {
            Some(from) => Some(Number::read(from, near).filter(|from| *from <= next)?),
            None => None,
        };
        Some(Self { report, from, end, next })
    }

    fn start(&self, wire: WireNumber) -> Number {
        self.end - u64::from(self.end.wire().0.wrapping_sub(wire.0))
    }

    /// Whether a number that it speaks of is missing.
    pub fn has(&self, number: Number) -> bool {
        let behind = self.report.missing.partition_point(|(start, _)| self.start(*start) <= number);
        let range = behind.checked_sub(1).and_then(|at| self.report.missing.get(at));
        range.is_some_and(|(start, count)| number < self.start(*start) + u64::from(*count))
    }

    /// Runs of missing numbers that end behind `from`, as `start .. end`, in ascending order.
    pub fn gaps(&self, from: Number) -> impl Iterator<Item = (Number, Number)> {
        let all = self.report.missing.iter();
        let all =
            all.map(|(start, count)| (self.start(*start), self.start(*start) + u64::from(*count)));
        all.skip_while(move |(_, end)| *end <= from)
    }

    /// Whether it lists one of the numbers `start` .. `end`, or speaks of not all of them.
    pub fn wants(&self, start: Number, end: Number) -> bool {
        let is_partial = end > self.next || self.from.is_some_and(|from| start < from);
        let before_end = self.report.missing.partition_point(|(start, _)| self.start(*start) < end);
        let last = before_end.checked_sub(1).and_then(|at| self.report.missing.get(at));
        is_partial || last.is_some_and(|(at, count)| self.start(*at) + u64::from(*count) > start)
    }

    /// Whether it speaks of numbers that were never sent.
    pub fn is_wrong(&self) -> bool {
        self.next < self.end
    }

    /// Whether it speaks of a number.
    pub fn covers(&self, number: Number) -> bool {
        number < self.next && self.from.is_none_or(|from| from <= number)
    }
}
