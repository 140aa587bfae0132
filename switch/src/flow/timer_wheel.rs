//! When which flow is due.
//!
//! An entry is in the queue at most once for each time that its deadline moved
//! forward; a deadline that moves back is noticed when the old one fires. So a
//! flow with nothing outstanding costs nothing, and a busy one little.
//!
//! The queue is a hierarchical timing wheel (Varghese and Lauck, 1987): a slot of level 0
//! is a [`QUANTUM`], a slot of each further level a whole wheel of the level before. The cost
//! of a timer hardly depends on how many there are. It fires to the nanosecond all the
//! same.

use common::cpu::prefetch;
use common::ids::FlowId;
use common::time::Time;

/// Length of a slot of level 0, as a power of two in nanoseconds: about the time that a
/// worker takes for a round, so that all in such a slot are due, or none.
const QUANTUM: u32 = 10;
/// Slots of a level, as a power of two.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// So that 64 bits of nanoseconds fit.
const LEVELS: usize = (u64::BITS - QUANTUM).div_ceil(BITS) as usize;

/// Timers that there is always room for.
const LEAST: usize = 64;
/// So many, at most, are moved to give back room: frames wait meanwhile.
const MOVED: usize = 1024;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// A priority queue of deadlines.
pub(crate) struct Timers {
    /// The time up to which timers have fired, in ticks. Only timers that were armed too late
    /// are due before it.
    elapsed: u64,
    /// The levels that have any, a bit each.
    occupied: u16,
    levels: Box<[Level; LEVELS]>,
    timers: Vec<Timer>,
    /// The list of those that are not in use.
    free: u32,
    len: usize,
}

/// One turn of the wheel: the slot of the next level that `elapsed` is in, from there on.
struct Level {
    /// The slots that have any, a bit each.
    occupied: u64,
    slots: [Slot; SLOTS],
}

/// A list of timers, if the level says that there are any.
#[derive(Clone, Copy)]
struct Slot {
    first: u32,
    /// None of them is earlier; one was so early, at least, that may have fired meanwhile.
    earliest: u64,
}

impl Slot {
    const EMPTY: Self = Self { first: NONE, earliest: u64::MAX };
}

/// A timer in a list.
#[derive(Clone, Copy)]
struct Timer {
    at: u64,
    id: FlowId,
    generation: u32,
    next: u32,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            elapsed: 0,
            occupied: 0,
            levels: Box::new(
                [const { Level { occupied: 0, slots: [Slot::EMPTY; SLOTS] } }; LEVELS],
            ),
            timers: Vec::new(),
            free: NONE,
            len: 0,
        }
    }
}

impl Timers {
    /// Memory of a timer, in bytes.
    pub const EACH: usize = size_of::<Timer>();

    /// The entry `id` of `generation`, which is woken at `armed`, is due at
    /// `deadline`.
    #[inline]
    pub fn arm(&mut self, armed: &mut Time, deadline: Time, id: FlowId, generation: u32) {
        if deadline < *armed {
            *armed = deadline;
            self.push(deadline, id, generation);
        }
    }

    /// Wakes the entry `id` of `generation` at `at`.
    fn push(&mut self, at: Time, id: FlowId, generation: u32) {
        let timer = Timer { at: at.as_nanos(), id, generation, next: NONE };
        let place = self.free;
        match self.timers.get_mut(place as usize) {
            Some(free) => {
                self.free = free.next;
                *free = timer;
                self.link(place);
            }
            None => {
                self.timers.push(timer);
                self.link(self.timers.len() as u32 - 1);
            }
        }
        self.len += 1;
    }

    /// Puts a timer into the list where it belongs.
    fn link(&mut self, place: u32) {
        let timer = &mut self.timers[place as usize];
        // An overdue timer fires with those that are due now.
        let at = timer.at.max(self.elapsed);
        let level = ((at ^ self.elapsed) >> QUANTUM | 1).ilog2() / BITS;
        let slot = (at >> (QUANTUM + level * BITS)) as usize % SLOTS;
        let in_use = &mut self.levels[level as usize];
        let head = &mut in_use.slots[slot];
        if in_use.occupied >> slot & 1 == 0 {
            in_use.occupied |= 1 << slot;
            self.occupied |= 1 << level;
            *head = Slot::EMPTY;
        }
        head.earliest = head.earliest.min(timer.at);
        timer.next = core::mem::replace(&mut head.first, place);
    }

    /// The earliest slot with timers: its level, and which one.
    #[inline]
    fn first(&self) -> Option<(usize, usize)> {
        if self.occupied == 0 {
            return None;
        }
        let level = self.occupied.trailing_zeros() as usize;
        Some((level, self.levels[level].occupied.trailing_zeros() as usize))
    }

    /// When the next one fires.
    #[inline]
    pub fn next(&self) -> Time {
        self.first().map_or(Time::NEVER, |(level, slot)| {
            Time::from_nanos(self.levels[level].slots[slot].earliest)
        })
    }

    /// Takes one that is due.
    // Inlined, so that the three values are returned in registers and not through memory.
    #[inline(always)]
    pub fn pop(&mut self, now: Time) -> Option<(Time, FlowId, u32)> {
        let now = now.as_nanos();
        loop {
            let (level, slot) = self.first()?;
            let head = self.levels[level].slots[slot];
            if head.earliest > now {
                return None;
            }
            if level > 0 {
                self.elapsed = self.elapsed.max(head.earliest);
                self.vacate(level, slot);
                self.spread(head.first);
            } else if let Some(Timer { at, id, generation, .. }) = self.take(slot, now) {
                return Some((Time::from_nanos(at), id, generation));
            }
        }
    }

    /// Takes one that is due from a slot of level 0. If none is, the slot's `earliest` is
    /// known anew.
    #[inline]
    fn take(&mut self, slot: usize, now: u64) -> Option<Timer> {
        let head = &mut self.levels[0].slots[slot];
        let (mut before, mut place, mut earliest) = (NONE, head.first, u64::MAX);
        while let Some(timer) = self.timers.get(place as usize).copied() {
            if timer.at <= now {
                match self.timers.get_mut(before as usize) {
                    Some(before) => before.next = timer.next,
                    None => head.first = timer.next,
                }
                if head.first == NONE {
                    self.vacate(0, slot);
                }
                self.prefetch(timer.next);
                self.timers[place as usize].next = core::mem::replace(&mut self.free, place);
                self.len -= 1;
                return Some(timer);
            }
            earliest = earliest.min(timer.at);
            (before, place) = (place, timer.next);
        }
        head.earliest = earliest;
        None
    }

    /// Prefetches a timer that will be looked at next.
    #[inline]
    fn prefetch(&self, place: u32) {
        if let Some(timer) = self.timers.get(place as usize) {
            prefetch(timer);
        }
    }

    /// Marks a slot as empty.
    fn vacate(&mut self, level: usize, slot: usize) {
        let occupied = &mut self.levels[level].occupied;
        *occupied &= !(1 << slot);
        if *occupied == 0 {
            self.occupied &= !(1 << level);
        }
    }

    /// Puts the timers of a list where they belong by now.
    fn spread(&mut self, mut place: u32) {
        while let Some(timer) = self.timers.get(place as usize) {
            let next = timer.next;
            self.prefetch(next);
            self.link(place);
            place = next;
        }
    }

    /// Gives back room that is not going to be used soon.
    pub fn shrink(&mut self) {
        let room = (2 * self.len).max(LEAST);
        if self.timers.capacity() <= 2 * room || self.len > MOVED {
            return;
        }
        let mut others = Self { elapsed: self.elapsed, ..Self::default() };
        others.timers.reserve_exact(room);
        while let Some((at, id, generation)) = self.pop(Time::NEVER) {
            others.push(at, id, generation);
        }
        *self = others;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn timers_come_in_their_order_and_none_too_early() {
        let at = Time::from_nanos;
        let mut timers = Timers::default();
        assert_eq!((timers.next(), timers.pop(at(1))), (Time::NEVER, None));
        for (due, id) in [(3000, 1), (1000, 2), (2000, 3)] {
            timers.push(at(due), FlowId(id), 0);
        }
        assert_eq!(timers.pop(at(999)), None);
        assert_eq!(timers.pop(at(2500)), Some((at(1000), FlowId(2), 0)));
        assert_eq!(timers.pop(at(2500)), Some((at(2000), FlowId(3), 0)));
        assert_eq!((timers.pop(at(2500)), timers.next()), (None, at(3000)));
    }

    /// Nanoseconds of any order of magnitude.
    fn span() -> impl Strategy<Value = u64> {
        let any = (0..45_u32, any::<u64>()).prop_map(|(bits, random)| random >> (63 - bits));
        // Or so few that many meet where one slot ends and the next begins.
        prop_oneof![any, 0..300_000_u64]
    }

    #[derive(Clone, Debug)]
    enum Op {
        /// In so many nanoseconds, or so many ago.
        Push(u64, bool),
        Wait(u64),
        Pop,
        Shrink,
    }

    proptest! {
        /// Against an ordered set.
        #[test]
        fn behaves_like_a_queue(ops in proptest::collection::vec(
            prop_oneof![
                5 => (span(), any::<bool>()).prop_map(|(span, ago)| Op::Push(span, ago && span < 1 << 20)),
                2 => span().prop_map(Op::Wait),
                4 => Just(Op::Pop),
                1 => Just(Op::Shrink),
            ],
            1..300,
        )) {
            let mut timers = Timers::default();
            let mut oracle = BTreeSet::new();
            let mut now = 0_u64;
            for (n, op) in (0..).zip(ops) {
                match op {
                    Op::Push(span, ago) => {
                        let at = if ago { now.saturating_sub(span) } else { now + span };
                        timers.push(Time::from_nanos(at), FlowId(n), !n);
                        oracle.insert((at, n));
                    }
                    Op::Wait(span) => now += span,
                    Op::Pop => match timers.pop(Time::from_nanos(now)) {
                        Some((at, id, generation)) => {
                            prop_assert!(at.as_nanos() <= now && generation == !id.0);
                            prop_assert!(oracle.remove(&(at.as_nanos(), id.0)));
                        }
                        None => {
                            let next = oracle.first().map_or(Time::NEVER, |(at, _)| Time::from_nanos(*at));
                            prop_assert!(next.as_nanos() > now);
                            prop_assert_eq!(timers.next(), next);
                        }
                    },
                    Op::Shrink => timers.shrink(),
                }
                let next = oracle.first().map_or(Time::NEVER, |(at, _)| Time::from_nanos(*at));
                // It may be about one that has fired, until none is due.
                prop_assert!(timers.next() == next || timers.next().as_nanos() <= now);
                prop_assert!(timers.next() <= next);
                prop_assert_eq!(timers.len, oracle.len());
            }
        }
    }

    #[test]
    fn room_is_given_back_and_used_again() {
        let mut timers = Timers::default();
        for round in 0..3_u64 {
            for n in 0..10_000_u32 {
                timers.push(Time::from_nanos(round << 30 | u64::from(n) << 7), FlowId(n), 0);
            }
            while timers.len > 10 {
                timers.pop(Time::NEVER);
            }
            assert!(timers.timers.len() <= 10_010);
            timers.shrink();
            assert!(timers.timers.capacity() <= 2 * LEAST);
        }
    }
}
