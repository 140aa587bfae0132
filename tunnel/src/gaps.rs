//! Numbers of a lane that have not arrived, as ranges.

use std::collections::VecDeque;

use common::time::Time;

use crate::number::Number;

/// A run of missing numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    pub start: Number,
    pub end: Number,
    /// When later numbers showed it.
    pub since: Time,
}

impl Gap {
    /// How many numbers.
    pub fn count(&self) -> u64 {
        self.end.since(self.start)
    }
}

/// Gaps in ascending order.
#[derive(Default, Debug)]
pub(crate) struct Gaps(VecDeque<Gap>);

impl Gaps {
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Those that end behind `from`, in ascending order.
    pub fn from(&self, from: Number) -> impl Iterator<Item = &Gap> {
        self.0.range(self.0.partition_point(|gap| gap.end <= from)..)
    }

    /// The oldest one.
    pub fn front(&self) -> Option<&Gap> {
        self.0.front()
    }

    /// `start .. end` is missing; it lies behind all other gaps.
    pub fn open(&mut self, start: Number, end: Number, since: Time) {
        debug_assert!(start < end && self.0.back().is_none_or(|last| last.end <= start));
        match self.0.back_mut() {
            Some(last) if last.end == start && last.since == since => last.end = end,
            _ => self.0.push_back(Gap { start, end, since }),
        }
    }

    /// `number` is not missing any more. Whether it was.
    #[inline]
    pub fn take(&mut self, number: Number) -> bool {
        self.cut(number, number.next()).is_some()
    }

    /// Removes the first run of missing numbers in `from` .. `to`.
    #[inline]
    pub fn cut(&mut self, from: Number, to: Number) -> Option<Gap> {
        // Most numbers are new, and lie behind all gaps.
        if self.0.back().is_none_or(|last| last.end <= from) {
            return None;
        }
        self.cut_before_end(from, to)
    }

    fn cut_before_end(&mut self, from: Number, to: Number) -> Option<Gap> {
        let i = self.0.partition_point(|gap| gap.end <= from);
        let gap = self.0.get_mut(i).filter(|gap| gap.start < to)?;
        let whole = *gap;
        let (start, end) = (whole.start.max(from), whole.end.min(to));
        match (whole.start == start, whole.end == end) {
            (true, true) => _ = self.0.remove(i),
            (true, false) => gap.start = end,
            (false, true) => gap.end = start,
            (false, false) => {
                gap.end = start;
                self.0.insert(i + 1, Gap { start: end, ..whole });
            }
        }
        Some(Gap { start, end, since: whole.since })
    }

    /// Removes the oldest one.
    pub fn pop(&mut self) -> Option<Gap> {
        self.0.pop_front()
    }

    /// Adds a gap that may lie anywhere, but within no other.
    pub fn insert(&mut self, gap: Gap) {
        let i = self.0.partition_point(|other| other.end <= gap.start);
        self.0.insert(i, gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behave_like_a_set(
            runs in prop::collection::vec((0..3_u64, 1..20_u64), 0..30),
            taken in prop::collection::vec((0..400_u64, 1..4_u64), 0..200),
        ) {
            let (mut gaps, mut set, mut at) = (Gaps::default(), BTreeSet::new(), 0);
            for (skip, count) in runs {
                at += skip;
                gaps.open(Number::new(at), Number::new(at + count), Time::ZERO);
                set.extend(at..at + count);
                at += count;
            }
            for (n, count) in taken {
                if count == 1 {
                    prop_assert_eq!(gaps.take(Number::new(n)), set.remove(&n));
                    continue;
                }
                let (mut cut, to) = (BTreeSet::new(), n + count * 9);
                while let Some(gap) = gaps.cut(Number::new(n), Number::new(to)) {
                    prop_assert!(gap.count() > 0);
                    cut.extend(gap.start.get()..gap.end.get());
                }
                let expected: BTreeSet<u64> = set.range(n..to).copied().collect();
                set.retain(|n| !expected.contains(n));
                prop_assert_eq!(cut, expected);
            }
            let left: Vec<u64> =
                gaps.from(Number::default()).flat_map(|gap| gap.start.get()..gap.end.get()).collect();
            prop_assert_eq!(left, set.into_iter().collect::<Vec<_>>());
        }
    }
}
