//! State per PSN for the PSNs in flight: slots over consecutive sequence numbers.
//!
//! A place without a slot is *vacant*. Vacant places cost nothing, however many there
//! are: memory follows the slots that were filled.
//!
//! An idle flow owns no slots. A ring of few doubles when it is full. One that has grown
//! to a [segment](SEGMENT), or has vacant places, continues in runs of adjoining slots: on
//! the way to a hundred thousand packets in flight nothing is ever copied while packets
//! wait. The owner gives memory back with [`Window::shrink`].

mod runs;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::psn::Seq;
use runs::Runs;

/// Slots that a ring keeps when it [shrinks](Window::shrink): enough for a flow with a few
/// packets now and then, so that none of them waits for memory.
pub const FEW: usize = 8;

/// Most slots of a run.
pub const SEGMENT: usize = 256;

/// Places for the sequence numbers `start() .. end()`.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Window<T> {
    start: Seq,
    slots: Slots<T>,
}

#[derive(Clone, Debug)]
enum Slots<T> {
    /// No place is vacant.
    Few(VecDeque<T>),
    Many(Box<Runs<T>>),
}

impl<T> Window<T> {
    /// An empty window at `start`.
    pub const fn new(start: Seq) -> Self {
        Self { start, slots: Slots::Few(VecDeque::new()) }
    }

    /// The oldest sequence number with a place.
    pub const fn start(&self) -> Seq {
        self.start
    }

    /// One past the newest sequence number with a place.
    pub fn end(&self) -> Seq {
        self.start + self.len() as u64
    }

    /// Number of places, vacant ones included.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.slots {
            Slots::Few(ring) => ring.len(),
            Slots::Many(runs) => runs.span,
        }
    }

    /// Number of slots.
    #[inline]
    pub fn filled(&self) -> usize {
        match &self.slots {
            Slots::Few(ring) => ring.len(),
            Slots::Many(runs) => runs.filled,
        }
    }

    /// Whether there is no place.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The slot of `seq`.
    pub fn get(&self, seq: Seq) -> Option<&T> {
        match &self.slots {
            Slots::Few(ring) => ring.get(index(self.start, seq)?),
            Slots::Many(runs) => runs.get(seq),
        }
    }

    /// The slot of `start()`.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        match &self.slots {
            Slots::Few(ring) => ring.front(),
            Slots::Many(runs) => runs.front(self.start),
        }
    }

    /// The slot of `seq`.
    pub fn get_mut(&mut self, seq: Seq) -> Option<&mut T> {
        match &mut self.slots {
            Slots::Few(ring) => ring.get_mut(index(self.start, seq)?),
            Slots::Many(runs) => runs.get_mut(seq),
        }
    }

    /// The oldest slot at `from` or beyond: its sequence number.
    pub fn first_from(&self, from: Seq) -> Option<Seq> {
        match &self.slots {
            Slots::Few(_) => Some(from.max(self.start)).filter(|seq| *seq < self.end()),
            Slots::Many(runs) => match runs.find(from) {
                Ok(_) => Some(from),
                Err(i) => runs.list.get(i).map(|run| run.first),
            },
        }
    }

    /// The newest slot at `seq` or before, with its sequence number.
    pub fn last_to(&self, seq: Seq) -> Option<(Seq, &T)> {
        let at = match &self.slots {
            Slots::Few(_) if self.is_empty() => return None,
            Slots::Few(_) => seq.min(self.end().prev()),
            Slots::Many(runs) => match runs.find(seq) {
                Ok(_) => seq,
                Err(i) => runs.list.get(i.checked_sub(1)?)?.end().prev(),
            },
        };
        self.get(at).map(|slot| (at, slot))
    }

    /// Appends the slot of `end()`.
    #[inline(always)]
    pub fn push(&mut self, slot: T) {
        match &mut self.slots {
            Slots::Few(ring) if ring.len() < SEGMENT => ring.push_back(slot),
            Slots::Few(_) => {
                let end = self.end();
                self.runs().push(end, slot);
            }
            Slots::Many(runs) => runs.push(self.start + runs.span as u64, slot),
        }
    }

    /// Appends vacant places up to `end`.
    pub fn extend_to(&mut self, end: Seq) {
        let more = end.since(self.end()) as usize;
        if more > 0 {
            self.runs().span += more;
        }
    }

    /// Fills a place of `start() .. end()`. Returns the slot that was there.
    pub fn put(&mut self, seq: Seq, slot: T) -> Option<T> {
        debug_assert!((self.start..self.end()).contains(&seq));
        if let Some(place) = self.get_mut(seq) {
            return Some(core::mem::replace(place, slot));
        }
        self.runs().fill(seq, slot);
        None
    }

    /// Takes the slot of `seq`, and leaves its place vacant.
    pub fn take(&mut self, seq: Seq) -> Option<T> {
        self.get(seq)?;
        self.runs().take(seq)
    }

    /// Takes the oldest slot and moves `start` past it; `None` if the place at `start` is
    /// vacant, or there is none.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        let slot = match &mut self.slots {
            Slots::Few(ring) => ring.pop_front(),
            Slots::Many(runs) => runs.pop(self.start),
        }?;
        self.start = self.start.next();
        Some(slot)
    }

    /// Takes the slots before `floor`, oldest first, and moves `start` to `floor`, or to `end`
    /// if that is less. Calls `each` with every slot and its sequence number.
    #[inline]
    pub fn drain_before(&mut self, floor: Seq, each: impl FnMut(Seq, T)) {
        let most = floor.since(self.start) as usize;
        let start = self.start;
        match &mut self.slots {
            Slots::Few(ring) => {
                let n = most.min(ring.len());
                self.start = start + n as u64;
                drain(ring, start, n, each);
            }
            Slots::Many(runs) => {
                let n = most.min(runs.span);
                self.start = start + n as u64;
                runs.drain_before(self.start, n, each);
            }
        }
    }

    /// Takes the newest slot if it lies at `floor` or beyond, and moves `end` to its place.
    /// If there is none, `end` moves back to `floor`, if that is less.
    pub fn pop_from(&mut self, floor: Seq) -> Option<T> {
        let floor = floor.max(self.start);
        if floor >= self.end() {
            return None;
        }
        let start = self.start;
        let runs = self.runs();
        let last = runs.list.back().map(|run| run.end().prev()).filter(|seq| *seq >= floor);
        let slot = last.and_then(|seq| runs.take(seq));
        runs.span = last.unwrap_or(floor).since(start) as usize;
        slot
    }

    /// Moves `start` to the oldest slot, or to `end` if there is none.
    pub fn skip_vacant(&mut self) {
        let to = self.first_from(self.start).unwrap_or(self.end());
        if to > self.start {
            self.runs().span -= to.since(self.start) as usize;
            self.start = to;
        }
    }

    /// Moves `start` of an empty window to `seq`. A window with places stays.
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

    /// Frees all unused memory but for a [`FEW`] slots, of a window that isn't going
    /// to grow soon.
    pub fn shrink(&mut self) {
        match &mut self.slots {
            Slots::Few(ring) => ring.shrink_to(FEW),
            Slots::Many(runs) if runs.span == 0 => self.slots = Slots::Few(VecDeque::new()),
            Slots::Many(runs) => runs.shrink(),
        }
    }

    /// Memory that the slots take, in bytes.
    pub fn heap_bytes(&self) -> usize {
        match &self.slots {
            Slots::Few(ring) => ring.capacity() * size_of::<T>(),
            Slots::Many(runs) => runs.heap_bytes(),
        }
    }

    /// The slots with their sequence numbers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Seq, &T)> {
        let (few, many) = match &self.slots {
            Slots::Few(ring) => (Some((self.start, ring)), None),
            Slots::Many(runs) => (None, Some(runs.list.iter().map(|run| (run.first, &run.slots)))),
        };
        few.into_iter().chain(many.into_iter().flatten()).flat_map(|(first, slots)| {
            slots.iter().enumerate().map(move |(i, slot)| (first + i as u64, slot))
        })
    }

    /// The slots in runs, as they have to be where places are vacant.
    fn runs(&mut self) -> &mut Runs<T> {
        if let Slots::Few(ring) = &mut self.slots {
            self.slots = Slots::Many(Box::new(Runs::of(self.start, core::mem::take(ring))));
        }
        match &mut self.slots {
            Slots::Many(runs) => runs,
            Slots::Few(_) => unreachable!("they were made runs"),
        }
    }
}

/// Takes the first `n` slots, of which the first is that of `seq`.
#[inline]
fn drain<T>(ring: &mut VecDeque<T>, seq: Seq, n: usize, mut each: impl FnMut(Seq, T)) {
    let mut seq = seq;
    for _ in 0..n {
        let Some(slot) = ring.pop_front() else { return };
        each(seq, slot);
        seq = seq.next();
    }
}

/// The place of `seq` among slots that begin with that of `first`.
fn index(first: Seq, seq: Seq) -> Option<usize> {
    if seq < first {
        return None;
    }
    usize::try_from(seq.since(first)).ok()
}
