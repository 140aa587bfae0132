//! The handles of a lane's transmissions, by number.

use crate::number::Number;

/// Least places.
const LEAST: usize = 64;

/// A ring of handles of consecutive numbers. A place is as long as a handle: whatever else is known of a transmission
/// follows from its number, or is rare.
#[derive(Debug)]
pub(super) struct Handles<K> {
    /// By number modulo their count, a power of two; those of no number are empty.
    places: Vec<Option<K>>,
    first: Number,
    next: Number,
}

impl<K> Handles<K> {
    /// None; the next one is that of `first`.
    pub const fn new(first: Number) -> Self {
        Self { places: Vec::new(), first, next: first }
    }

    /// One past the last number.
    #[inline]
    pub const fn next(&self) -> Number {
        self.next
    }

    /// The first number whose handle was not [freed](Self::free).
    #[inline]
    pub const fn first(&self) -> Number {
        self.first
    }

    /// Makes room for so many more.
    #[inline]
    pub fn reserve(&mut self, more: usize) {
        let needed = self.next.since(self.first) as usize + more;
        if needed > self.places.len() {
            self.grow(needed);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        let count = needed.max(LEAST).next_power_of_two();
        let mut old = core::mem::take(&mut self.places);
        self.places.resize_with(count, || None);
        let turn = old.len().wrapping_sub(1);
        for number in self.first.get()..self.next.get() {
            let number = number as usize;
            self.places[number & (count - 1)] = old[number & turn].take();
        }
    }

    /// The handle of the next number, if there is one, for which there is [room](Self::reserve).
    #[inline(always)]
    pub fn push(&mut self, handle: Option<K>) {
        let place = self.place(self.next);
        self.places[place] = handle;
        self.next = self.next.next();
    }

    #[inline(always)]
    fn place(&self, number: Number) -> usize {
        number.get() as usize & self.places.len().wrapping_sub(1)
    }

    /// The place of a number, if it has one.
    #[inline]
    pub fn get_mut(&mut self, number: Number) -> Option<&mut Option<K>> {
        let place = self.place(number);
        let has_place = (self.first..self.next).contains(&number);
        self.places.get_mut(place).filter(|_| has_place)
    }

    /// Gives the places of up to `most` numbers before `end` to `free`, the first ones first, which empties them.
    /// Returns how many numbers these are.
    pub fn free(
        &mut self,
        end: Number,
        most: usize,
        mut free: impl FnMut(&mut [Option<K>]),
    ) -> usize {
        let count = most.min(end.since(self.first) as usize);
        if count == 0 {
            return 0;
        }
        let start = self.place(self.first);
        let turn = (start + count).min(self.places.len());
        let rest = start + count - turn;
        free(&mut self.places[start..turn]);
        if rest > 0 {
            free(&mut self.places[..rest]);
        }
        self.first += count as u64;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Against a queue.
        #[test]
        fn behave_like_a_queue(
            first in 0..200_u64, steps in prop::collection::vec((0..3_u8, 0..90_usize, any::<bool>()), 0..60),
        ) {
            let (mut handles, mut queue) = (Handles::new(Number::new(first)), VecDeque::new());
            let mut base = first;
            for (step, count, has_handle) in steps {
                let next = base + queue.len() as u64;
                match step {
                    0 => {
                        handles.reserve(count);
                        for n in next..next + count as u64 {
                            let handle = has_handle.then_some(n);
                            handles.push(handle);
                            queue.push_back(handle);
                        }
                    }
                    1 => {
                        let mut freed = Vec::new();
                        let end = Number::new(next.min(base + 70));
                        let n = handles.free(end, count, |places| {
                            freed.extend(places.iter_mut().map(Option::take));
                        });
                        prop_assert_eq!(n, count.min(queue.len()).min(70));
                        prop_assert_eq!(freed, queue.drain(..n).collect::<Vec<_>>());
                        base += n as u64;
                    }
                    _ => {
                        let number = base + count as u64;
                        let expected = queue.get_mut(count);
                        prop_assert_eq!(handles.get_mut(Number::new(number)).is_some(), expected.is_some());
                        if let Some(expected) = expected {
                            let place = handles.get_mut(Number::new(number)).expect("a place");
                            prop_assert_eq!(place.take(), expected.take());
                        }
                    }
                }
                prop_assert_eq!((handles.first().get(), handles.next().get()), (base, base + queue.len() as u64));
                prop_assert_eq!(handles.get_mut(Number::new(base.wrapping_sub(1))), None);
            }
        }
    }
}
