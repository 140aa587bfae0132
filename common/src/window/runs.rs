//! The slots of a window that are many, or have vacant places between them: runs that
//! adjoin or not.

use std::collections::VecDeque;

use super::{FEW, SEGMENT, drain, index};
use crate::psn::Seq;

/// A run with room for more slots than this is kept for the next that will be full soon,
/// or for a gap if no small one is left.
const SMALL: usize = 16;
/// Most small runs that are kept for the next gap.
const SMALL_SPARE: usize = 64;

/// Slots that adjoin.
#[derive(Clone, Debug)]
pub(super) struct Run<T> {
    pub first: Seq,
    /// At least one, at most a [`SEGMENT`].
    pub slots: VecDeque<T>,
}

impl<T> Run<T> {
    pub fn end(&self) -> Seq {
        self.first + self.slots.len() as u64
    }
}

/// Many slots, or such with vacant places between them.
#[derive(Clone, Debug)]
pub(super) struct Runs<T> {
    /// Places of the window.
    pub span: usize,
    /// Slots.
    pub filled: usize,
    /// In order. Those of a window without vacant places are full, but for the first and
    /// the last one.
    pub list: VecDeque<Run<T>>,
    /// Those that ran empty, for the next that are needed: large ones and small ones.
    spare: Vec<VecDeque<T>>,
    small: Vec<VecDeque<T>>,
}

impl<T> Runs<T> {
    /// Those of a ring.
    pub fn of(first: Seq, ring: VecDeque<T>) -> Self {
        let span = ring.len();
        let mut list = VecDeque::new();
        if span > 0 {
            list.push_back(Run { first, slots: ring });
        }
        Self { span, filled: span, list, spare: Vec::new(), small: Vec::new() }
    }

    /// The run that `seq` is in, or else the first one beyond it.
    #[inline]
    pub fn find(&self, seq: Seq) -> Result<usize, usize> {
        let Some(head) = self.list.front() else { return Err(0) };
        let head_end = head.end();
        // Where it is if no place is vacant.
        let i = if seq < head_end { 0 } else { 1 + seq.since(head_end) as usize / SEGMENT };
        let holds = |run: &Run<T>| run.first <= seq && seq < run.end();
        if self.list.get(i).is_some_and(holds) {
            return Ok(i);
        }
        let i = self.list.partition_point(|run| run.end() <= seq);
        if self.list.get(i).is_some_and(holds) { Ok(i) } else { Err(i) }
    }

    pub fn get(&self, seq: Seq) -> Option<&T> {
        let run = self.list.get(self.find(seq).ok()?)?;
        run.slots.get(index(run.first, seq)?)
    }

    /// The slot of `start`, where the window begins.
    #[inline]
    pub fn front(&self, start: Seq) -> Option<&T> {
        self.list.front().filter(|run| run.first == start)?.slots.front()
    }

    pub fn get_mut(&mut self, seq: Seq) -> Option<&mut T> {
        let i = self.find(seq).ok()?;
        let run = self.list.get_mut(i)?;
        run.slots.get_mut(index(run.first, seq)?)
    }

    /// Appends the slot of `end`.
    // In line: a slot that is made field by field and moved in one piece makes the processor wait until the fields are stored.
    #[inline(always)]
    pub fn push(&mut self, end: Seq, slot: T) {
        self.span += 1;
        self.filled += 1;
        match self.list.back_mut() {
            Some(run) if run.end() == end && run.slots.len() < SEGMENT => run.slots.push_back(slot),
            last => {
                let adjoins = last.is_some_and(|run| run.end() == end);
                self.begin(self.list.len(), end, slot, adjoins);
            }
        }
    }

    /// Begins a run at place `i` of the list: one that will be full soon if it `adjoins`
    /// one that is.
    #[cold]
    fn begin(&mut self, i: usize, first: Seq, slot: T, adjoins: bool) {
        let mut slots = match adjoins {
            true => self.spare.pop().unwrap_or_else(|| VecDeque::with_capacity(SEGMENT)),
            false => self.small.pop().or_else(|| self.spare.pop()).unwrap_or_default(),
        };
        slots.push_back(slot);
        self.list.insert(i, Run { first, slots });
    }

    /// Fills a place that is vacant.
    pub fn fill(&mut self, seq: Seq, slot: T) {
        let (Ok(i) | Err(i)) = self.find(seq);
        self.filled += 1;
        if let Some(before) = i.checked_sub(1).and_then(|i| self.list.get_mut(i))
            && before.end() == seq
            && before.slots.len() < SEGMENT
        {
            before.slots.push_back(slot);
            return self.join(i - 1);
        }
        match self.list.get_mut(i) {
            Some(behind) if behind.first == seq.next() && behind.slots.len() < SEGMENT => {
                behind.slots.push_front(slot);
                behind.first = seq;
            }
            _ => self.begin(i, seq, slot, false),
        }
    }

    /// Joins run `i` with the next if they adjoin and are short.
    fn join(&mut self, i: usize) {
        let (Some(run), Some(next)) = (self.list.get(i), self.list.get(i + 1)) else { return };
        if run.end() != next.first || run.slots.len() + next.slots.len() > SEGMENT {
            return;
        }
        let Some(mut next) = self.list.remove(i + 1) else { return };
        let Some(run) = self.list.get_mut(i) else { return };
        if run.slots.len() >= next.slots.len() {
            run.slots.append(&mut next.slots);
        } else {
            while let Some(slot) = run.slots.pop_back() {
                next.slots.push_front(slot);
            }
            core::mem::swap(&mut run.slots, &mut next.slots);
        }
        self.put_by(next.slots);
    }

    /// Leaves a place vacant.
    pub fn take(&mut self, seq: Seq) -> Option<T> {
        let i = self.find(seq).ok()?;
        let run = self.list.get_mut(i)?;
        let at = index(run.first, seq)?;
        self.filled -= 1;
        let rest = run.slots.split_off(at + 1);
        let slot = run.slots.pop_back();
        if !rest.is_empty() {
            self.list.insert(i + 1, Run { first: seq.next(), slots: rest });
        }
        if at == 0
            && let Some(empty) = self.list.remove(i)
        {
            self.put_by(empty.slots);
        }
        slot
    }

    /// Takes the slot at `start`, where the window begins.
    #[inline(always)]
    pub fn pop(&mut self, start: Seq) -> Option<T> {
        let run = self.list.front_mut().filter(|run| run.first == start)?;
        let slot = run.slots.pop_front();
        run.first = start.next();
        self.span -= 1;
        self.filled -= 1;
        if run.slots.is_empty() {
            self.end_first();
        }
        slot
    }

    /// Takes the slots before `floor`, and the `places` before it off the window.
    #[inline]
    pub fn drain_before(&mut self, floor: Seq, places: usize, mut each: impl FnMut(Seq, T)) {
        self.span -= places;
        while let Some(run) = self.list.front_mut().filter(|run| run.first < floor) {
            let n = run.slots.len().min(floor.since(run.first) as usize);
            drain(&mut run.slots, run.first, n, &mut each);
            self.filled -= n;
            run.first = run.first + n as u64;
            if run.slots.is_empty() {
                self.end_first();
            }
        }
    }

    #[cold]
    fn end_first(&mut self) {
        if let Some(empty) = self.list.pop_front() {
            self.put_by(empty.slots);
        }
    }

    /// Keeps a ring that has run empty, if another may need one of its size.
    fn put_by(&mut self, ring: VecDeque<T>) {
        debug_assert!(ring.is_empty());
        if ring.capacity() > SMALL {
            self.spare.push(ring);
        } else if self.small.len() < SMALL_SPARE {
            self.small.push(ring);
        }
    }

    pub fn shrink(&mut self) {
        (self.spare, self.small) = (Vec::new(), Vec::new());
        for run in self.list.iter_mut().filter(|run| run.slots.len() < SEGMENT) {
            run.slots.shrink_to(FEW);
        }
        self.list.shrink_to_fit();
    }

    pub fn heap_bytes(&self) -> usize {
        let spare = self.spare.iter().chain(&self.small);
        let rings = self.list.iter().map(|run| &run.slots).chain(spare);
        let slots: usize = rings.map(VecDeque::capacity).sum();
        let lists = self.list.capacity() * size_of::<Run<T>>()
            + (self.spare.capacity() + self.small.capacity()) * size_of::<VecDeque<T>>();
        size_of::<Self>() + lists + slots * size_of::<T>()
    }
}
