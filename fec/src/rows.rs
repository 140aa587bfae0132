//! Equations of the frames that are not known.
//!
//! Each row is a sum of a few unknown frames. Rows are kept reduced (Gauss-Jordan): each has a *pivot*, an unknown frame that is
//! in no other row. A row of one unknown frame is solved.

use arrayvec::ArrayVec;
use galois::{Kernel, inverse, mul};

use crate::LEN_BYTES;
use crate::sums::Symbol;

/// Unknown frames in a row at most. Equations of more are dropped.
pub(crate) const TERMS: usize = 32;
/// Rows of a lane at most.
pub(crate) const ROWS: usize = 64;

/// An unknown frame and its factor, which is not 0.
pub(crate) type Term = (u64, u8);
/// By number.
pub(crate) type Terms = ArrayVec<Term, TERMS>;

#[derive(Default)]
struct Row {
    /// None: the row is free.
    terms: Terms,
    pivot: u64,
    bytes: Box<[u8]>,
    /// Bytes that can be other than zero.
    len: usize,
}

/// The equations of a lane, of all its streams: two streams have no unknown frame in common.
pub(crate) struct Rows {
    kernel: Kernel,
    rows: Box<[Row]>,
    used: usize,
    /// The frame that was solved last, with its length in front.
    frame: Box<[u8]>,
    /// Bytes of it.
    len: usize,
}

impl Row {
    fn factor_of(&self, number: u64) -> Option<u8> {
        let at = self.terms.binary_search_by_key(&number, |term| term.0).ok()?;
        Some(self.terms[at].1)
    }
}

impl Rows {
    /// No rows yet, for frames of `longest` bytes.
    pub fn new(kernel: Kernel, longest: usize) -> Self {
        let zeros = || vec![0; LEN_BYTES + longest].into_boxed_slice();
        Self {
            kernel,
            rows: (0..ROWS).map(|_| Row { bytes: zeros(), ..Row::default() }).collect(),
            used: 0,
            frame: zeros(),
            len: 0,
        }
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Drops all rows.
    pub fn clear(&mut self) {
        for at in 0..self.rows.len() {
            self.free(at);
        }
    }

    /// Drops rows whose first unknown frame is below `number`.
    pub fn expire(&mut self, number: u64) {
        for at in 0..self.rows.len() {
            if self.rows[at].terms.first().is_some_and(|term| term.0 < number) {
                self.free(at);
            }
        }
    }

    /// A new equation: the sum of `terms` is `sum` and `more`. Returns whether it says something new.
    pub fn insert(&mut self, terms: Terms, sum: &[u8], more: &[u8]) -> bool {
        let at = self.place();
        let row = &mut self.rows[at];
        let len = sum.len().max(more.len());
        row.bytes[..sum.len()].copy_from_slice(sum);
        row.bytes[sum.len()..row.len.max(len)].fill(0);
        self.kernel.mul_add(&mut row.bytes, 1, more);
        row.len = len.max(LEN_BYTES);
        row.terms = terms;
        self.used += 1;
        self.reduce(at)
    }

    /// The number's frame is known: takes it out of all rows.
    pub fn learn(&mut self, number: u64, symbol: Symbol<'_>) {
        for at in 0..self.rows.len() {
            let row = &mut self.rows[at];
            let Ok(term) = row.terms.binary_search_by_key(&number, |term| term.0) else { continue };
            let (_, factor) = row.terms.remove(term);
            row.len = row.len.max(symbol.add_to(self.kernel, &mut row.bytes, factor));
            let was_pivot = row.pivot == number;
            if row.terms.is_empty() {
                self.used -= 1;
            } else if was_pivot {
                self.reduce(at);
            }
        }
    }

    /// Takes a solved row: its number, and whether [`frame`](Self::frame) is a frame. If not, something
    /// other than the lane has changed bytes.
    pub fn solve(&mut self) -> Option<(u64, bool)> {
        if self.used == 0 {
            return None;
        }
        let at = self.rows.iter().position(|row| row.terms.len() == 1)?;
        let row = &self.rows[at];
        let (number, factor) = row.terms[0];
        let frame = &mut self.frame[..row.len];
        frame.fill(0);
        self.kernel.mul_add(frame, inverse(factor).unwrap_or(0), &row.bytes[..row.len]);
        self.len = usize::from(u16::from_be_bytes([frame[0], frame[1]]));
        let zeros = frame.get(LEN_BYTES + self.len..);
        let is_frame = zeros.is_some_and(|zeros| zeros.iter().all(|zero| *zero == 0));
        self.free(at);
        Some((number, is_frame))
    }

    /// The frame that was solved last.
    pub fn frame(&self) -> &[u8] {
        &self.frame[LEN_BYTES..LEN_BYTES + self.len]
    }

    /// Makes a row's pivot an unknown frame that no other row has. Returns whether the row stays.
    fn reduce(&mut self, at: usize) -> bool {
        for other in 0..self.rows.len() {
            if other == at || self.rows[other].terms.is_empty() {
                continue;
            }
            if self.rows[at].factor_of(self.rows[other].pivot).is_some() {
                let pivot = self.rows[other].pivot;
                if !self.eliminate(at, other, pivot) {
                    return false;
                }
            }
        }
        let Some(first) = self.rows[at].terms.first() else { return false };
        let pivot = first.0;
        self.rows[at].pivot = pivot;
        for other in 0..self.rows.len() {
            if other != at && self.rows[other].factor_of(pivot).is_some() {
                self.eliminate(other, at, pivot);
            }
        }
        true
    }

    /// Adds a multiple of row `by` to row `at`, so that this no longer has `number`. Returns whether the
    /// row stays: it does not if nothing or too much is left.
    fn eliminate(&mut self, at: usize, by: usize, number: u64) -> bool {
        let Ok([row, by]) = self.rows.get_disjoint_mut([at, by]) else { return true };
        let (Some(factor), Some(pivot)) = (row.factor_of(number), by.factor_of(number)) else {
            return true;
        };
        let factor = mul(factor, inverse(pivot).unwrap_or(0));
        let is_short = combine(&mut row.terms, &by.terms, factor);
        if !is_short || row.terms.is_empty() {
            self.free(at);
            return false;
        }
        self.kernel.mul_add(&mut row.bytes, factor, &by.bytes[..by.len]);
        row.len = row.len.max(by.len);
        true
    }

    /// A free row. If there is none, that with the oldest unknown frame is dropped.
    fn place(&mut self) -> usize {
        let oldest = |at: &usize| self.rows[*at].terms.first().map(|term| term.0);
        let at = (0..self.rows.len()).min_by_key(oldest).unwrap_or(0);
        self.free(at);
        at
    }

    fn free(&mut self, at: usize) {
        if !self.rows[at].terms.is_empty() {
            self.rows[at].terms.clear();
            self.used -= 1;
        }
    }
}

/// Adds `factor` times `more` to `terms`. Returns whether there is room; if not, they are unspecified.
fn combine(terms: &mut Terms, more: &Terms, factor: u8) -> bool {
    let mut sum = Terms::new();
    let (mut left, mut right) = (terms.iter().peekable(), more.iter().peekable());
    loop {
        let left_number = left.peek().map_or(u64::MAX, |term| term.0);
        let right_number = right.peek().map_or(u64::MAX, |term| term.0);
        let number = left_number.min(right_number);
        let left = left.next_if(|term| term.0 == number).map_or(0, |term| term.1);
        let right = right.next_if(|term| term.0 == number).map_or(0, |term| mul(factor, term.1));
        if number == u64::MAX {
            *terms = sum;
            return true;
        }
        if left != right && sum.try_push((number, left ^ right)).is_err() {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(terms: &[Term]) -> Terms {
        terms.iter().copied().collect()
    }

    #[test]
    fn terms_are_added_by_number() {
        let mut sum = terms(&[(1, 7), (3, 1), (9, 2)]);
        assert!(combine(&mut sum, &terms(&[(2, 5), (3, 1), (9, 4)]), 1));
        assert_eq!(sum, terms(&[(1, 7), (2, 5), (9, 6)]));
    }

    #[test]
    fn a_sum_of_too_many_terms_is_refused() {
        let even: Terms = (0..TERMS as u64).map(|n| (2 * n, 1)).collect();
        assert!(!combine(&mut even.clone(), &terms(&[(1, 1)]), 1));
        assert!(combine(&mut even.clone(), &terms(&[(2, 1)]), 1));
    }
}
