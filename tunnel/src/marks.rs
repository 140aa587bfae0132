//! Which numbers of a lane are marked: a bitmap whose size follows the span of its marks.

use std::collections::VecDeque;

use crate::number::Number;

const BITS: u64 = u64::BITS as u64;

/// Marks of numbers that are not before a floor.
#[derive(Default, Debug)]
pub(crate) struct Marks {
    /// Number of the first bit; a multiple of [`BITS`].
    base: u64,
    words: VecDeque<u64>,
    /// One past the highest mark.
    top: Number,
}

impl Marks {
    /// Marks `number`, which is not before `floor`. Whether it was not marked.
    pub fn set(&mut self, number: Number, floor: Number) -> bool {
        debug_assert!(number >= floor, "{number:?} before {floor:?}");
        self.begin(floor);
        let at = number.get() - self.base;
        let (word, bit) = ((at / BITS) as usize, 1 << (at % BITS));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let Some(word) = self.words.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        self.top = self.top.max(number.next());
        is_new
    }

    /// Marks `from` .. `to`, none of which is before `floor`, 64 at a time.
    pub fn set_range(&mut self, from: Number, to: Number, floor: Number) {
        debug_assert!(from >= floor, "{from:?} before {floor:?}");
        if from >= to {
            return;
        }
        self.begin(floor);
        let (first, end) = (from.get() - self.base, to.get() - self.base);
        let words = end.div_ceil(BITS) as usize;
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
        let start = (first / BITS) as usize;
        for (n, word) in self.words.range_mut(start..words).enumerate() {
            let base = (start + n) as u64 * BITS;
            let low = u64::MAX << first.saturating_sub(base);
            let high = u64::MAX >> (base + BITS).saturating_sub(end);
            *word |= low & high;
        }
        self.top = self.top.max(to);
    }

    /// With no mark from `floor` on, the first word is that of `floor`.
    fn begin(&mut self, floor: Number) {
        if !self.reach(floor) {
            self.words.clear();
            self.base = floor.get() / BITS * BITS;
        }
    }

    /// Whether `number` is marked.
    pub fn get(&self, number: Number) -> bool {
        let Some(at) = number.get().checked_sub(self.base) else { return false };
        self.words.get((at / BITS) as usize).is_some_and(|word| word >> (at % BITS) & 1 == 1)
    }

    /// The first number from `from` on that is not marked.
    pub fn first_unmarked(&self, from: Number) -> Number {
        let mut at = from.get();
        while let Some(offset) = at.checked_sub(self.base) {
            let Some(word) = self.words.get((offset / BITS) as usize) else { break };
            let ones = u64::from((word >> (offset % BITS)).trailing_ones());
            at += ones;
            if offset % BITS + ones < BITS {
                break;
            }
        }
        Number::new(at)
    }

    /// The first number from `from` on that is marked; `to` if there is none before.
    pub fn first_marked(&self, from: Number, to: Number) -> Number {
        let mut at = from.get().max(self.base);
        while at < to.get() {
            let offset = at - self.base;
            let Some(word) = self.words.get((offset / BITS) as usize) else { break };
            let rest = word >> (offset % BITS);
            if rest != 0 {
                return Number::new(at + u64::from(rest.trailing_zeros())).min(to);
            }
            at += BITS - offset % BITS;
        }
        to
    }

    /// Whether a number from `from` on is marked.
    #[inline]
    pub fn reach(&self, from: Number) -> bool {
        self.top > from
    }

    /// Forgets all before `floor`.
    pub fn trim(&mut self, floor: Number) {
        while self.base + BITS <= floor.get() && self.words.pop_front().is_some() {
            self.base += BITS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against a set. The floor follows the marks, as a lane's does.
        #[test]
        fn behaves_like_a_set(
            floor in 0..1_000_u64,
            steps in prop::collection::vec((0..400_u64, 0..300_u64, any::<bool>()), 0..200),
        ) {
            let (mut marks, mut set, mut floor) = (Marks::default(), BTreeSet::new(), floor);
            for (ahead, count, advances) in steps {
                let n = floor + ahead;
                if count < 200 {
                    prop_assert_eq!(marks.set(Number::new(n), Number::new(floor)), set.insert(n));
                } else {
                    let count = count - 200;
                    marks.set_range(Number::new(n), Number::new(n + count), Number::new(floor));
                    set.extend(n..n + count);
                }
                if advances {
                    while set.remove(&floor) {
                        floor += 1;
                    }
                    prop_assert!(marks.first_unmarked(Number::new(floor)).get() == floor);
                    marks.trim(Number::new(floor));
                }
                let (end, mut unmarked) = (floor + 450, floor + 450);
                while set.contains(&unmarked) {
                    unmarked += 1;
                }
                let mut marked = set.range(end..).next().copied().unwrap_or(u64::MAX);
                for n in (floor..end).rev() {
                    let is_marked = set.contains(&n);
                    (marked, unmarked) = if is_marked { (n, unmarked) } else { (marked, n) };
                    let number = Number::new(n);
                    prop_assert_eq!(marks.get(number), is_marked, "{}", n);
                    prop_assert_eq!(marks.reach(number), marked < u64::MAX);
                    prop_assert_eq!(marks.first_unmarked(number).get(), unmarked);
                    let to = n + 70;
                    prop_assert_eq!(marks.first_marked(number, Number::new(to)).get(), marked.min(to));
                }
            }
        }
    }
}
