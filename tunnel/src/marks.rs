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
        if !self.reach(floor) {
            self.words.clear();
            self.base = floor.get() / BITS * BITS;
        }
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
            steps in prop::collection::vec((0..400_u64, any::<bool>()), 0..200),
        ) {
            let (mut marks, mut set, mut floor) = (Marks::default(), BTreeSet::new(), floor);
            for (ahead, advances) in steps {
                let n = floor + ahead;
                prop_assert_eq!(marks.set(Number::new(n), Number::new(floor)), set.insert(n));
                if advances {
                    while set.remove(&floor) {
                        floor += 1;
                    }
                    prop_assert!(marks.first_unmarked(Number::new(floor)).get() == floor);
                    marks.trim(Number::new(floor));
                }
                for n in floor..floor + 450 {
                    prop_assert_eq!(marks.get(Number::new(n)), set.contains(&n), "{}", n);
                    prop_assert_eq!(marks.reach(Number::new(n)), set.range(n..).next().is_some());
                    let first = (n..).find(|n| !set.contains(n));
                    prop_assert_eq!(Some(marks.first_unmarked(Number::new(n)).get()), first);
                }
            }
        }
    }
}
