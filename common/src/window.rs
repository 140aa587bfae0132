//! State per PSN for the PSNs in flight: a ring of slots over consecutive
//! sequence numbers.
//!
//! An idle flow owns no slots. A ring of few doubles when it is full. One that has grown
//! to a [segment](SEGMENT) goes on in segments: on the way to a hundred thousand packets
//! in flight nothing is ever copied while packets wait. When memory is to be given back,
//! the owner [says](Window::shrink).

use std::collections::VecDeque;

use crate::psn::Seq;

/// Slots that a ring keeps when it [shrinks](Window::shrink): what a flow with a few
/// packets now and then needs, so that none of them waits for memory.
pub const FEW: usize = 8;

/// Slots of a segment.
pub const SEGMENT: usize = 256;

/// Slots for the sequence numbers `start() .. end()`.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Window<T> {
    start: Seq,
    slots: Slots<T>,
}

#[derive(Clone, Debug)]
enum Slots<T> {
    Few(VecDeque<T>),
    Many(Box<Segments<T>>),
}

impl<T> Window<T> {
    /// An empty window at `start`.
    pub const fn new(start: Seq) -> Self {
        Self { start, slots: Slots::Few(VecDeque::new()) }
    }

    /// The oldest sequence number with a slot.
    pub const fn start(&self) -> Seq {
        self.start
    }

    /// One past the newest sequence number with a slot.
    pub fn end(&self) -> Seq {
        self.start + self.len() as u64
    }

    /// Number of slots.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.slots {
            Slots::Few(ring) => ring.len(),
            Slots::Many(segments) => segments.len(),
        }
    }

    /// Whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn index(&self, seq: Seq) -> Option<usize> {
        if seq < self.start {
            return None;
        }
        usize::try_from(seq.since(self.start)).ok()
    }

    /// The slot of `seq`.
    pub fn get(&self, seq: Seq) -> Option<&T> {
        let i = self.index(seq)?;
        match &self.slots {
            Slots::Few(ring) => ring.get(i),
            Slots::Many(segments) => segments.get(i),
        }
    }

    /// The slot of `seq`.
    pub fn get_mut(&mut self, seq: Seq) -> Option<&mut T> {
        let i = self.index(seq)?;
        match &mut self.slots {
            Slots::Few(ring) => ring.get_mut(i),
            Slots::Many(segments) => segments.get_mut(i),
        }
    }

    /// Appends the slot of `end()`.
    #[inline]
    pub fn push(&mut self, slot: T) {
        match &mut self.slots {
            Slots::Few(ring) if ring.len() < SEGMENT => ring.push_back(slot),
            Slots::Few(ring) => {
                let mut segments = Box::new(Segments::of(core::mem::take(ring)));
                segments.push(slot);
                self.slots = Slots::Many(segments);
            }
            Slots::Many(segments) => segments.push(slot),
        }
    }

    /// Takes the oldest slot and moves `start` past it.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let slot = match &mut self.slots {
            Slots::Few(ring) => ring.pop_front(),
            Slots::Many(segments) => segments.pop(),
        }?;
        self.start = self.start.next();
        Some(slot)
    }

    /// Moves `start` of an empty window to `seq`. A window with slots stays.
    pub fn skip_to(&mut self, seq: Seq) {
        if self.is_empty() {
            self.start = seq;
        }
    }

    /// Moves `start` on by one, of a window that is known to be empty: it isn't looked
    /// at.
    #[inline]
    pub fn step(&mut self) {
        debug_assert!(self.is_empty());
        self.start = self.start.next();
    }

    /// Gives back what slots don't take but for a [`FEW`], of a window that isn't going
    /// to grow soon.
    pub fn shrink(&mut self) {
        match &mut self.slots {
            Slots::Few(ring) => ring.shrink_to(FEW),
            Slots::Many(segments) if segments.len() == 0 => {
                self.slots = Slots::Few(VecDeque::new());
            }
            Slots::Many(segments) => segments.spare = Vec::new(),
        }
    }

    /// Memory that the ring takes, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match &self.slots {
            Slots::Few(ring) => ring.capacity() * size_of::<T>(),
            Slots::Many(segments) => segments.heap_bytes(),
        }
    }

    /// The slots with their sequence numbers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Seq, &T)> {
        let (first, rest) = match &self.slots {
            Slots::Few(ring) => (ring, None),
            Slots::Many(segments) => (&segments.head, Some(segments)),
        };
        let rest = rest
            .into_iter()
            .flat_map(|segments| segments.middle.iter().chain([&segments.tail]).flatten());
        let slots = first.iter().chain(rest);
        slots.enumerate().map(|(i, slot)| (self.start + i as u64, slot))
    }
}

/// Many slots: those of `head`, of the segments in `middle`, which are all full, and of
/// `tail`, in this order. None has room for more than a segment.
#[derive(Clone, Debug)]
struct Segments<T> {
    head: VecDeque<T>,
    middle: VecDeque<VecDeque<T>>,
    tail: VecDeque<T>,
    /// Those that ran empty, for the next that are needed.
    spare: Vec<VecDeque<T>>,
}

impl<T> Segments<T> {
    /// Those of a full ring.
    fn of(ring: VecDeque<T>) -> Self {
        Self { head: ring, middle: VecDeque::new(), tail: VecDeque::new(), spare: Vec::new() }
    }

    fn len(&self) -> usize {
        self.head.len() + self.middle.len() * SEGMENT + self.tail.len()
    }

    #[inline]
    fn get(&self, i: usize) -> Option<&T> {
        let Some(i) = i.checked_sub(self.head.len()) else { return self.head.get(i) };
        match self.middle.get(i / SEGMENT) {
            Some(segment) => segment.get(i % SEGMENT),
            None => self.tail.get(i - self.middle.len() * SEGMENT),
        }
    }

    #[inline]
    fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        let Some(i) = i.checked_sub(self.head.len()) else { return self.head.get_mut(i) };
        let before_tail = self.middle.len() * SEGMENT;
        match self.middle.get_mut(i / SEGMENT) {
            Some(segment) => segment.get_mut(i % SEGMENT),
            None => self.tail.get_mut(i - before_tail),
        }
    }

    #[inline]
    fn push(&mut self, slot: T) {
        if self.tail.len() == self.tail.capacity().min(SEGMENT) {
            self.extend();
        }
        self.tail.push_back(slot);
    }

    /// Makes room at the tail.
    #[cold]
    fn extend(&mut self) {
        let new = self.spare.pop().unwrap_or_else(|| VecDeque::with_capacity(SEGMENT));
        let full = core::mem::replace(&mut self.tail, new);
        if !full.is_empty() {
            self.middle.push_back(full);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        if self.head.is_empty() {
            self.draw();
        }
        self.head.pop_front()
    }

    /// Takes the next segment to the head.
    #[cold]
    fn draw(&mut self) {
        let next = self.middle.pop_front().unwrap_or_else(|| core::mem::take(&mut self.tail));
        let empty = core::mem::replace(&mut self.head, next);
        if empty.capacity() > 0 {
            self.spare.push(empty);
        }
    }

    fn heap_bytes(&self) -> usize {
        let segments = [&self.head, &self.tail].into_iter().chain(&self.middle).chain(&self.spare);
        let slots: usize = segments.map(VecDeque::capacity).sum();
        let lists = (self.middle.capacity() + self.spare.capacity()) * size_of::<VecDeque<T>>();
        size_of::<Self>() + lists + slots * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::psn::Psn;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a map: pushes and pops in any order, few and many of them, shrunk now
        /// and then.
        #[test]
        fn behaves_like_a_map(ops in proptest::collection::vec((any::<bool>(), 0..=2 * SEGMENT, 0..8), 0..40)) {
            let first = Seq::first(Psn::new(0xff_fff0));
            let mut window = Window::new(first);
            let mut oracle = BTreeMap::new();
            for (n, (push, times, then)) in ops.into_iter().enumerate() {
                for n in (n * 1_000..).take(if n % 2 == 0 { times } else { times % 8 }) {
                    if push {
                        oracle.insert(window.end(), n);
                        window.push(n);
                    } else {
                        prop_assert_eq!(window.pop(), oracle.pop_first().map(|(_, n)| n));
                    }
                }
                if then == 0 {
                    window.shrink();
                }
                prop_assert_eq!(window.len(), oracle.len());
                prop_assert!(window.iter().eq(oracle.iter().map(|(seq, n)| (*seq, n))));
                for (seq, n) in &oracle {
                    prop_assert_eq!(window.get(*seq), Some(n));
                    prop_assert_eq!(window.get_mut(*seq), Some(&mut n.clone()));
                }
                prop_assert_eq!(window.get(window.end()), None);
                prop_assert_eq!(window.get(first - 1), None);
            }
        }
    }

    /// Whatever they took is there for the next, and goes back when they are told.
    #[test]
    fn many_slots_take_what_they_need() {
        let mut w = Window::new(Seq::first(Psn::new(0)));
        for n in 0..100_000_u64 {
            w.push(n);
        }
        let all = w.heap_bytes();
        let slots = 100_000 * size_of::<u64>();
        assert!((slots..slots + slots / 10).contains(&all), "{all}");
        while w.len() > 10 {
            w.pop();
        }
        let kept = w.heap_bytes();
        for n in 10..100_000 {
            w.push(n);
        }
        // Those that are left are not where a segment begins.
        assert!(w.heap_bytes() <= kept + (SEGMENT + 8) * size_of::<u64>());
        while w.len() > 10 {
            w.pop();
        }
        w.shrink();
        assert!(w.heap_bytes() < all / 20, "{}", w.heap_bytes());
        while w.pop().is_some() {}
        w.shrink();
        assert_eq!(w.heap_bytes(), 0);
    }

    #[test]
    fn a_window_shrinks_to_its_slots() {
        let mut w = Window::new(Seq::first(Psn::new(0)));
        for n in 0..100_u64 {
            w.push(n);
        }
        for (left, room) in [(20, 20), (3, FEW), (0, FEW)] {
            while w.len() > left {
                w.pop();
            }
            w.shrink();
            let oldest = (left > 0).then_some(100 - left as u64);
            let bytes = room * size_of::<u64>();
            assert_eq!((w.heap_bytes(), w.get(w.start()).copied()), (bytes, oldest));
        }
    }
}
