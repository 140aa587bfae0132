//! State per PSN for the PSNs in flight: slots over consecutive sequence numbers.
//!
//! A place without a slot is *vacant*. Vacant places cost nothing, however many there
//! are: memory follows the slots that were filled.
//!
//! An idle flow owns no slots. A ring of few doubles when it is full. One that has grown
//! to a [segment](SEGMENT), or has vacant places, goes on in runs of slots that adjoin: on
//! the way to a hundred thousand packets in flight nothing is ever copied while packets
//! wait. When memory is to be given back, the owner [says](Window::shrink).

use std::collections::VecDeque;

use crate::psn::Seq;

/// Slots that a ring keeps when it [shrinks](Window::shrink): what a flow with a few
/// packets now and then needs, so that none of them waits for memory.
pub const FEW: usize = 8;

/// Most slots of a run.
pub const SEGMENT: usize = 256;

/// A run with room for more slots than this is kept for the next that is full at once.
const SMALL: usize = 16;
/// Most small runs that are kept for the next gap.
const SMALL_SPARE: usize = 64;

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
    #[inline]
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
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let slot = match &mut self.slots {
            Slots::Few(ring) => ring.pop_front(),
            Slots::Many(runs) => runs.pop(self.start),
        }?;
        self.start = self.start.next();
        Some(slot)
    }

    /// Takes the oldest slot if it lies before `floor`, and moves `start` past it. If there
    /// is none, `start` moves to `floor`, or to `end` if that is less.
    #[inline]
    pub fn pop_before(&mut self, floor: Seq) -> Option<(Seq, T)> {
        if floor <= self.start {
            return None;
        }
        match &mut self.slots {
            Slots::Few(ring) => {
                let slot = ring.pop_front()?;
                let seq = self.start;
                self.start = seq.next();
                Some((seq, slot))
            }
            Slots::Many(runs) => {
                let first = runs.list.front().map(|run| run.first).filter(|seq| *seq < floor);
                let to = first.unwrap_or(floor.min(self.start + runs.span as u64));
                runs.span -= to.since(self.start) as usize;
                self.start = to;
                let slot = runs.pop(first?)?;
                self.start = to.next();
                Some((to, slot))
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

    /// Gives back what slots don't take but for a [`FEW`], of a window that isn't going
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

/// The place of `seq` among slots that begin with that of `first`.
fn index(first: Seq, seq: Seq) -> Option<usize> {
    if seq < first {
        return None;
    }
    usize::try_from(seq.since(first)).ok()
}

/// Slots that adjoin.
#[derive(Clone, Debug)]
struct Run<T> {
    first: Seq,
    /// At least one, at most a [`SEGMENT`].
    slots: VecDeque<T>,
}

impl<T> Run<T> {
    fn end(&self) -> Seq {
        self.first + self.slots.len() as u64
    }
}

/// Many slots, or such with vacant places between them.
#[derive(Clone, Debug)]
struct Runs<T> {
    /// Places of the window.
    span: usize,
    /// Slots.
    filled: usize,
    /// In order. Those of a window without vacant places are full, but for the first and
    /// the last one.
    list: VecDeque<Run<T>>,
    /// Those that ran empty, for the next that are needed: large ones and small ones.
    spare: Vec<VecDeque<T>>,
    small: Vec<VecDeque<T>>,
}

impl<T> Runs<T> {
    /// Those of a ring.
    fn of(first: Seq, ring: VecDeque<T>) -> Self {
        let span = ring.len();
        let mut list = VecDeque::new();
        if span > 0 {
            list.push_back(Run { first, slots: ring });
        }
        Self { span, filled: span, list, spare: Vec::new(), small: Vec::new() }
    }

    /// The run that `seq` is in, or else the first one beyond it.
    #[inline]
    fn find(&self, seq: Seq) -> Result<usize, usize> {
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

    fn get(&self, seq: Seq) -> Option<&T> {
        let run = self.list.get(self.find(seq).ok()?)?;
        run.slots.get(index(run.first, seq)?)
    }

    fn get_mut(&mut self, seq: Seq) -> Option<&mut T> {
        let i = self.find(seq).ok()?;
        let run = self.list.get_mut(i)?;
        run.slots.get_mut(index(run.first, seq)?)
    }

    /// Appends the slot of `end`.
    #[inline]
    fn push(&mut self, end: Seq, slot: T) {
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
            false => self.small.pop().unwrap_or_default(),
        };
        slots.push_back(slot);
        self.list.insert(i, Run { first, slots });
    }

    /// Fills a place that is vacant.
    fn fill(&mut self, seq: Seq, slot: T) {
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
    fn take(&mut self, seq: Seq) -> Option<T> {
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
    #[inline]
    fn pop(&mut self, start: Seq) -> Option<T> {
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

    #[cold]
    fn end_first(&mut self) {
        if let Some(empty) = self.list.pop_front() {
            self.put_by(empty.slots);
        }
    }

    /// Keeps a ring that has run empty, if another may need one of its size.
    fn put_by(&mut self, ring: VecDeque<T>) {
        debug_assert!(ring.is_empty());
        if ring.capacity() >= SEGMENT {
            self.spare.push(ring);
        } else if ring.capacity() <= SMALL && self.small.len() < SMALL_SPARE {
            self.small.push(ring);
        }
    }

    fn shrink(&mut self) {
        (self.spare, self.small) = (Vec::new(), Vec::new());
        for run in self.list.iter_mut().filter(|run| run.slots.len() < SEGMENT) {
            run.slots.shrink_to(FEW);
        }
        self.list.shrink_to_fit();
    }

    fn heap_bytes(&self) -> usize {
        let spare = self.spare.iter().chain(&self.small);
        let rings = self.list.iter().map(|run| &run.slots).chain(spare);
        let slots: usize = rings.map(VecDeque::capacity).sum();
        let lists = self.list.capacity() * size_of::<Run<T>>()
            + (self.spare.capacity() + self.small.capacity()) * size_of::<VecDeque<T>>();
        size_of::<Self>() + lists + slots * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::psn::Psn;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Pushes and pops in any order, few and many of them, places that stay vacant, are
    /// filled and become vacant again, shrunk now and then.
    #[derive(Clone, Debug)]
    enum Op {
        Push(usize),
        Pop(usize),
        Extend(u64),
        Put(prop::sample::Index),
        Take(prop::sample::Index),
        PopBefore(prop::sample::Index, usize),
        PopFrom(prop::sample::Index, usize),
        SkipVacant,
        Shrink,
    }

    fn op() -> impl Strategy<Value = Op> {
        let any_of = || any::<prop::sample::Index>();
        prop_oneof![
            3 => (0..=2 * SEGMENT).prop_map(Op::Push),
            2 => (0..8_usize).prop_map(Op::Push),
            2 => (0..=SEGMENT).prop_map(Op::Pop),
            2 => (0..600_u64).prop_map(Op::Extend),
            6 => any_of().prop_map(Op::Put),
            2 => any_of().prop_map(Op::Take),
            2 => (any_of(), 0..600_usize).prop_map(|(at, n)| Op::PopBefore(at, n)),
            1 => (any_of(), 0..600_usize).prop_map(|(at, n)| Op::PopFrom(at, n)),
            1 => Just(Op::SkipVacant),
            1 => Just(Op::Shrink),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(ops in proptest::collection::vec(op(), 0..60)) {
            let first = Seq::first(Psn::new(0xff_fff0));
            let mut window = Window::new(first);
            let (mut oracle, mut start, mut end) = (BTreeMap::new(), first, first);
            for (n, op) in ops.into_iter().enumerate() {
                let at = |index: &prop::sample::Index| start + index.index(end.since(start) as usize + 1) as u64;
                match &op {
                    Op::Push(times) => for n in (n * 1_000..).take(*times) {
                        oracle.insert(end, n);
                        window.push(n);
                        end = end.next();
                    },
                    Op::Pop(times) => for _ in 0..*times {
                        let popped = oracle.remove(&start);
                        start = start + u64::from(popped.is_some());
                        prop_assert_eq!(window.pop(), popped);
                    },
                    Op::Extend(more) => {
                        end = end + *more;
                        window.extend_to(end);
                    }
                    Op::Put(index) if at(index) < end => {
                        prop_assert_eq!(window.put(at(index), n), oracle.insert(at(index), n));
                    }
                    Op::Take(index) => {
                        prop_assert_eq!(window.take(at(index)), oracle.remove(&at(index)));
                    }
                    Op::PopBefore(index, times) => {
                        let floor = at(index);
                        for _ in 0..*times {
                            let popped = oracle.first_entry().filter(|slot| *slot.key() < floor);
                            let popped = popped.map(|slot| slot.remove_entry());
                            start = popped.map_or(floor, |(seq, _)| seq.next()).max(start);
                            prop_assert_eq!(window.pop_before(floor), popped);
                        }
                    }
                    Op::PopFrom(index, times) => {
                        let floor = at(index);
                        for _ in 0..*times {
                            let popped = oracle.last_entry().filter(|slot| *slot.key() >= floor);
                            let popped = popped.map(|slot| slot.remove_entry());
                            end = popped.map_or(floor, |(seq, _)| seq).min(end);
                            prop_assert_eq!(window.pop_from(floor), popped.map(|(_, n)| n));
                        }
                    }
                    Op::SkipVacant => {
                        window.skip_vacant();
                        start = oracle.first_key_value().map_or(end, |(seq, _)| *seq);
                    }
                    Op::Shrink => window.shrink(),
                    Op::Put(_) => {}
                }
                prop_assert_eq!((window.start(), window.end()), (start, end), "{:?}", op);
                prop_assert_eq!(window.filled(), oracle.len());
                prop_assert!(window.iter().eq(oracle.iter().map(|(seq, n)| (*seq, n))));
                for seq in (0..=end.since(start)).step_by(7).map(|n| start + n).chain([first - 1]) {
                    let slot = oracle.get(&seq);
                    prop_assert_eq!(window.get(seq), slot);
                    prop_assert_eq!(window.get_mut(seq).map(|slot| *slot), slot.copied());
                    let next = oracle.range(seq..).next().map(|(seq, _)| *seq);
                    prop_assert_eq!(window.first_from(seq), next);
                    let last = oracle.range(..=seq).next_back().map(|(seq, n)| (*seq, n));
                    prop_assert_eq!(window.last_to(seq), last);
                }
            }
        }
    }

    /// Places without a slot take no memory, and neither does a slot among them take that
    /// of its neighbours.
    #[test]
    fn vacant_places_cost_nothing() {
        let mut w = Window::new(Seq::first(Psn::new(0)));
        w.push([0_u64; 6]);
        w.extend_to(w.start() + (1 << 19));
        w.push([0; 6]);
        let two = w.heap_bytes();
        assert!(two <= 1024, "{two} bytes");
        for n in 0..1_000 {
            w.put(w.start() + 100 + n * 500, [n; 6]);
        }
        assert!(w.heap_bytes() <= 1_000 * 8 * size_of::<[u64; 6]>(), "{}", w.heap_bytes());
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
