//! Which of the newest numbers have arrived or were decoded.

use crate::plan::{MAX_EVERY, MAX_STREAMS, MAX_WINDOWS};

/// Numbers that are remembered: at least two windows of any plan.
const NUMBERS: u64 = 2 * MAX_STREAMS as u64 * MAX_EVERY as u64 * MAX_WINDOWS as u64;

/// A bit for each.
pub(crate) struct Known {
    bits: Box<[u64]>,
    /// Above the newest number.
    next: u64,
}

impl Known {
    pub fn new() -> Self {
        Self { bits: vec![0; (NUMBERS / 64) as usize].into_boxed_slice(), next: 0 }
    }

    /// The number above the newest one.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// No number below `next` is known.
    pub fn restart(&mut self, next: u64) {
        self.bits.fill(0);
        self.next = next;
    }

    /// Makes `next` the number above the newest one, if it is more than before: those in between are not known.
    pub fn advance(&mut self, next: u64) {
        if next.saturating_sub(self.next) >= NUMBERS {
            self.bits.fill(0);
        } else {
            for number in self.next..next {
                let (word, bit) = at(number);
                self.bits[word] &= !bit;
            }
        }
        self.next = self.next.max(next);
    }

    /// Whether the number is remembered.
    pub const fn has(&self, number: u64) -> bool {
        number < self.next && self.next - number <= NUMBERS
    }

    /// Whether the number is known. Numbers that are not remembered are.
    pub fn is(&self, number: u64) -> bool {
        let (word, bit) = at(number);
        number < self.next && (!self.has(number) || self.bits[word] & bit != 0)
    }

    /// The number is known from now on. Returns whether this is new.
    #[inline]
    pub fn insert(&mut self, number: u64) -> bool {
        if number >= self.next {
            self.advance(number + 1);
        } else if self.is(number) {
            return false;
        }
        let (word, bit) = at(number);
        self.bits[word] |= bit;
        true
    }
}

const fn at(number: u64) -> (usize, u64) {
    ((number % NUMBERS / 64) as usize, 1 << (number % 64))
}
