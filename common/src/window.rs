//! State per PSN for the PSNs in flight: a ring of slots over consecutive
//! sequence numbers.
//!
//! An idle flow owns no slots. The ring grows with the packets in flight and
//! gives its memory back when it runs empty.

use std::collections::VecDeque;

use crate::psn::Seq;

/// Slots for the sequence numbers `start() .. end()`.
#[derive(Clone, Debug)]
pub struct Window<T> {
    start: Seq,
    slots: VecDeque<T>,
}

impl<T> Window<T> {
    /// Rings larger than this are given back when they run empty.
    const KEEP: usize = 64;

    /// An empty window at `start`.
    pub const fn new(start: Seq) -> Self {
        Self { start, slots: VecDeque::new() }
    }

    /// The oldest sequence number with a slot.
    pub const fn start(&self) -> Seq {
        self.start
    }

    /// One past the newest sequence number with a slot.
    pub fn end(&self) -> Seq {
        self.start + self.slots.len() as u64
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn index(&self, seq: Seq) -> Option<usize> {
        if seq < self.start {
            return None;
        }
        usize::try_from(seq.since(self.start)).ok()
    }

    /// The slot of `seq`.
    pub fn get(&self, seq: Seq) -> Option<&T> {
        self.slots.get(self.index(seq)?)
    }

    /// The slot of `seq`.
    pub fn get_mut(&mut self, seq: Seq) -> Option<&mut T> {
        let i = self.index(seq)?;
        self.slots.get_mut(i)
    }

    /// Appends the slot of `end()`.
    pub fn push(&mut self, slot: T) {
        self.slots.push_back(slot);
    }

    /// Takes the oldest slot and moves `start` past it.
    pub fn pop(&mut self) -> Option<T> {
        let slot = self.slots.pop_front()?;
        self.start = self.start.next();
        if self.slots.is_empty() && self.slots.capacity() > Self::KEEP {
            self.slots = VecDeque::new();
        }
        Some(slot)
    }

    /// Moves `start` of an empty window to `seq`. A window with slots stays.
    pub fn skip_to(&mut self, seq: Seq) {
        if self.slots.is_empty() {
            self.start = seq;
        }
    }

    /// Gives back what slots don't take, of a window that isn't going to grow
    /// soon.
    pub fn shrink(&mut self) {
        self.slots.shrink_to_fit();
    }

    /// Memory that the ring takes, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<T>()
    }

    /// The slots with their sequence numbers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Seq, &T)> {
        self.slots.iter().enumerate().map(|(i, t)| (self.start + i as u64, t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::psn::Psn;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a map: pushes and pops in any order.
        #[test]
        fn behaves_like_a_map(ops in proptest::collection::vec(any::<bool>(), 0..400)) {
            let first = Seq::first(Psn::new(0xff_fff0));
            let mut window = Window::new(first);
            let mut oracle = BTreeMap::new();
            for (n, push) in ops.into_iter().enumerate() {
                if push {
                    oracle.insert(window.end(), n);
                    window.push(n);
                } else {
                    prop_assert_eq!(window.pop(), oracle.pop_first().map(|(_, n)| n));
                }
                prop_assert_eq!(window.len(), oracle.len());
                for (seq, n) in &oracle {
                    prop_assert_eq!(window.get(*seq), Some(n));
                }
                prop_assert_eq!(window.get(window.end()), None);
                prop_assert_eq!(window.get(first - 1), None);
            }
        }
    }

    #[test]
    fn an_empty_window_gives_its_memory_back() {
        let mut w = Window::new(Seq::first(Psn::new(0)));
        for n in 0..10_000 {
            w.push(n);
        }
        while w.pop().is_some() {}
        assert_eq!(w.heap_bytes(), 0);
    }

    #[test]
    fn a_window_shrinks_to_its_slots() {
        let mut w = Window::new(Seq::first(Psn::new(0)));
        for n in 0..100_u64 {
            w.push(n);
        }
        while w.len() > 3 {
            w.pop();
        }
        w.shrink();
        assert_eq!((w.heap_bytes(), w.get(w.start())), (3 * size_of::<u64>(), Some(&97)));
    }
}
