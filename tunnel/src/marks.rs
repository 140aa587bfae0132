//! Which numbers of a lane are marked: a ring of bits that grows to the span of its marks.

use crate::number::Number;

const BITS: u64 = u64::BITS as u64;

/// Marks of numbers that are not before a floor.
#[derive(Default, Debug)]
pub(crate) struct Marks {
    /// The word of number `n` is `n / BITS` modulo their count, a power of two.
    words: Vec<u64>,
    /// The first number that has a word; a multiple of [`BITS`].
    base: u64,
    /// One past the last number that has one.
    end: u64,
    /// One past the highest mark.
    top: Number,
}

impl Marks {
    /// Marks `number`, which is not before `floor`. Whether it was not marked.
    #[inline]
    pub fn set(&mut self, number: Number, floor: Number) -> bool {
        debug_assert!(number >= floor, "{number:?} before {floor:?}");
        if number.get() >= self.end {
            self.make_room(number, floor);
        }
        self.top = self.top.max(number.next());
        let (word, bit) = (self.at(number.get()), 1 << (number.get() % BITS));
        let Some(word) = self.words.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Marks `from` .. `to`, none of which is before `floor`, 64 at a time.
    pub fn set_range(&mut self, from: Number, to: Number, floor: Number) {
        debug_assert!(from >= floor, "{from:?} before {floor:?}");
        if from >= to {
            return;
        }
        if to.get() > self.end {
            self.make_room(to - 1, floor);
        }
        let mut at = from.get();
        while at < to.get() {
            let (word, low) = (self.at(at), at % BITS);
            let count = (BITS - low).min(to.get() - at);
            let Some(word) = self.words.get_mut(word) else { break };
            *word |= u64::MAX >> (BITS - count) << low;
            at += count;
        }
        self.top = self.top.max(to);
    }

    /// `number` has a word from now on.
    #[cold]
    fn make_room(&mut self, number: Number, floor: Number) {
        self.trim(floor);
        if number.get() < self.end {
            return;
        }
        let count = ((number.get() - self.base) / BITS + 1).next_power_of_two();
        let new = Self { words: vec![0; count as usize], end: self.base + count * BITS, ..*self };
        let old = core::mem::replace(self, new);
        for at in (old.base..old.end).step_by(BITS as usize) {
            let word = self.at(at);
            self.words[word] = old.words[old.at(at)];
        }
    }

    /// Where the word of a number is, if it has one.
    #[inline]
    fn at(&self, number: u64) -> usize {
        (number / BITS) as usize & self.words.len().wrapping_sub(1)
    }

    /// Whether `number` is marked.
    #[inline]
    pub fn get(&self, number: Number) -> bool {
        let n = number.get();
        let word =
            if n >= self.base && number < self.top { self.words.get(self.at(n)) } else { None };
        word.is_some_and(|word| word >> (n % BITS) & 1 == 1)
    }

    /// The first number from `from` on that is not marked.
    #[inline]
    pub fn first_unmarked(&self, from: Number) -> Number {
        let mut at = from.get();
        while at >= self.base && at < self.top.get() {
            let Some(word) = self.words.get(self.at(at)) else { break };
            let ones = u64::from((word >> (at % BITS)).trailing_ones());
            let rest = BITS - at % BITS;
            at += ones;
            if ones < rest {
                break;
            }
        }
        Number::new(at)
    }

    /// The first number from `from` on that is marked; `to` if there is none before.
    pub fn first_marked(&self, from: Number, to: Number) -> Number {
        let mut at = from.get().max(self.base);
        let end = to.min(self.top);
        while at < end.get() {
            let Some(word) = self.words.get(self.at(at)) else { break };
            let rest = word >> (at % BITS);
            if rest != 0 {
                return Number::new(at + u64::from(rest.trailing_zeros())).min(to);
            }
            at += BITS - at % BITS;
        }
        to
    }

    /// Whether a number from `from` on is marked.
    #[inline]
    pub fn reach(&self, from: Number) -> bool {
        self.top > from
    }

    /// Forgets all before `floor`, which does not lie before an earlier one.
    #[inline]
    pub fn trim(&mut self, floor: Number) {
        if self.base + BITS <= floor.get() {
            self.clear_before(floor.get() / BITS * BITS);
        }
    }

    /// Clears the words before that of `base`.
    #[inline(never)]
    fn clear_before(&mut self, base: u64) {
        for at in (self.base..base.min(self.end)).step_by(BITS as usize) {
            let word = self.at(at);
            self.words[word] = 0;
        }
        self.end += base - self.base;
        self.base = base;
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
