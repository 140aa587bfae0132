//! Numbers of a lane that carry no frame any more: the receiver has to give them up. R-TUN-9

use super::listed::Listed;
use crate::number::{Number, WireNumber};

/// Ranges that are remembered.
const MOST: usize = 1 << 12;

/// Such numbers, as ranges `start .. end`.
#[derive(Debug, Default)]
pub(super) struct Dead {
    ranges: Vec<(Number, Number)>,
    /// No SKIP was sent since the newest one was added.
    pub is_new: bool,
}

impl Dead {
    /// The receiver has to give up `number`.
    pub fn push(&mut self, number: Number) {
        self.is_new = true;
        if let Some((_, end)) = self.ranges.last_mut().filter(|(_, end)| *end == number) {
            *end = number.next();
            return;
        }
        if self.ranges.len() >= MOST {
            // The receiver gives it up by itself, later.
            self.ranges.swap_remove(0);
        }
        self.ranges.push((number, number.next()));
    }

    /// Forgets those that a REPORT does not ask for.
    pub fn keep_wanted(&mut self, listed: &Listed<'_>) {
        self.ranges.retain(|(start, end)| listed.wants(*start, *end));
    }

    /// The first so many ranges come last from now on.
    pub fn rotate(&mut self, count: usize) {
        let count = count.min(self.ranges.len());
        self.ranges.rotate_left(count);
    }

    /// The ranges whose first number `is_known` to the receiver: start and count.
    pub fn known(
        &self,
        is_known: impl Fn(Number) -> bool,
    ) -> impl Iterator<Item = (WireNumber, u32)> {
        let known = self.ranges.iter().filter(move |(start, _)| is_known(*start));
        known.map(|(start, end)| (start.wire(), end.since(*start) as u32))
    }
}
