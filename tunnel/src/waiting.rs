//! Frames that wait for their predecessors.

use common::time::{Span, Time};

use crate::number::{FrameId, Lane, Number};

/// In place of an index.
const NONE: u32 = u32::MAX;
/// Binary logarithm of the numbers whose chains are neighbours.
const RUN: u32 = 10;

#[derive(Debug)]
struct Waiter<F> {
    predecessor: FrameId,
    id: FrameId,
    /// `None`: it is delivered already.
    frame: Option<F>,
    since: Time,
}

/// A place for a waiter. Its links are indices of places.
#[derive(Debug)]
struct Place<F> {
    waiter: Option<Waiter<F>>,
    /// The next one of its chain, or of the free ones.
    next: u32,
    /// The ones that began to wait before and after it.
    older: u32,
    newer: u32,
}

/// Where a frame waits, until others come or go.
pub(crate) struct Seat {
    chain: usize,
    /// The place before it in its chain.
    before: u32,
    at: u32,
}

/// At most one frame for each predecessor: a frame is the predecessor of one other, so that nothing
/// has to be searched. Frames wait for numbers that lie close together, and so do their entries.
#[derive(Debug)]
pub(crate) struct Waiting<F> {
    /// First places of chains, by predecessor; a power of two.
    heads: Vec<u32>,
    places: Vec<Place<F>>,
    /// The first place without a waiter.
    free: u32,
    oldest: u32,
    newest: u32,
    len: usize,
    /// Of these, with a frame.
    frames: usize,
}

impl<F> Waiting<F> {
    /// Room for `max` frames.
    pub fn new(max: usize) -> Self {
        Self {
            heads: vec![NONE; max.max(1).next_power_of_two()],
            places: Vec::with_capacity(max),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            len: 0,
            frames: 0,
        }
    }

    /// How many wait, delivered or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many wait to be delivered.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a frame waits for this one.
    pub fn has(&self, predecessor: FrameId) -> bool {
        self.seek(predecessor).is_some()
    }

    /// Frame `id` waits from now on, for a `predecessor`; without a `frame` it is delivered already. There is room.
    ///
    /// # Errors
    /// The frame, if another waits for this predecessor.
    pub fn put(
        &mut self,
        predecessor: FrameId,
        id: FrameId,
        frame: Option<F>,
        since: Time,
    ) -> Result<(), Option<F>> {
        let chain = self.chain(predecessor);
        let head = self.heads[chain];
        if self.find(head, predecessor).is_some() {
            return Err(frame);
        }
        self.len += 1;
        self.frames += usize::from(frame.is_some());
        let waiter = Some(Waiter { predecessor, id, frame, since });
        let place = Place { waiter, next: head, older: self.newest, newer: NONE };
        let at = self.free;
        let at = match self.places.get_mut(at as usize) {
            Some(free) => {
                self.free = free.next;
                *free = place;
                at
            }
            None => {
                self.places.push(place);
                self.places.len() as u32 - 1
            }
        };
        self.heads[chain] = at;
        match self.places.get_mut(self.newest as usize) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        Ok(())
    }

    /// The frame that waits for `predecessor`, when it began to, and whether it is not delivered yet.
    #[inline]
    pub fn seek(&self, predecessor: FrameId) -> Option<(Seat, Time, bool)> {
        let chain = self.chain(predecessor);
        let (before, at, waiter) = self.find(self.heads[chain], predecessor)?;
        Some((Seat { chain, before, at }, waiter.since, waiter.frame.is_some()))
    }

    /// The frame of a chain that waits for `predecessor`, with its place and the one before it.
    #[inline]
    fn find(&self, head: u32, predecessor: FrameId) -> Option<(u32, u32, &Waiter<F>)> {
        let (mut before, mut at) = (NONE, head);
        loop {
            let place = self.places.get(at as usize)?;
            if let Some(waiter) = place.waiter.as_ref().filter(|it| it.predecessor == predecessor) {
                return Some((before, at, waiter));
            }
            (before, at) = (at, place.next);
        }
    }

    /// The frame that waits for `predecessor`, which is taken.
    #[cfg(test)]
    pub fn take(&mut self, predecessor: FrameId) -> Option<(FrameId, Option<F>)> {
        self.take_at(self.seek(predecessor)?.0)
    }

    /// Takes a frame that was just [found](Self::seek).
    #[inline]
    pub fn take_at(&mut self, seat: Seat) -> Option<(FrameId, Option<F>)> {
        let Seat { chain, before, at } = seat;
        let free = self.free;
        let place = &mut self.places[at as usize];
        let (waiter, next) = (place.waiter.take()?, core::mem::replace(&mut place.next, free));
        let (older, newer) = (place.older, place.newer);
        self.free = at;
        match self.places.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => self.heads[chain] = next,
        }
        match self.places.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.places.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        self.len -= 1;
        self.frames -= usize::from(waiter.frame.is_some());
        Some((waiter.id, waiter.frame))
    }

    /// When the frame that waits longest began to, and its predecessor.
    pub fn oldest(&self) -> Option<(Time, FrameId)> {
        let waiter = self.places.get(self.oldest as usize)?.waiter.as_ref()?;
        Some((waiter.since, waiter.predecessor))
    }

    /// When the frame that waits longest has waited for `longest`.
    pub fn deadline(&self, longest: Span) -> Time {
        self.oldest().map_or(Time::NEVER, |(since, _)| since + longest)
    }

    /// Puts the numbers `from` .. `to` of `lane` that frames wait for into `found`, in ascending order; they are no more
    /// than frames wait. It takes as long as the range is, or as there are frames that wait, whichever is less. R-TUN-26
    pub fn within(&self, lane: Lane, from: Number, to: Number, found: &mut Vec<FrameId>) {
        found.clear();
        if to.since(from) <= self.len as u64 {
            let ids = (from.get()..to.get()).map(|n| FrameId::new(lane, Number::new(n)));
            return found.extend(ids.filter(|id| self.has(*id)));
        }
        let is_within = |id: &FrameId| id.lane() == lane && (from..to).contains(&id.number());
        let mut at = self.oldest;
        while let Some(place) = self.places.get(at as usize) {
            found.extend(place.waiter.as_ref().map(|waiter| waiter.predecessor).filter(is_within));
            at = place.newer;
        }
        found.sort_unstable();
    }

    /// Neighbours have neighbouring chains. Runs of numbers begin anywhere, so that two lanes, or two runs far apart, hardly
    /// meet.
    #[inline]
    fn chain(&self, predecessor: FrameId) -> usize {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let bits = predecessor.bits();
        let start = (bits >> RUN).wrapping_mul(FACTOR) >> 32;
        start.wrapping_add(bits) as usize & (self.heads.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn id(lane: u8, n: u64) -> FrameId {
        FrameId::new(Lane::new(lane).expect("a lane"), Number::new(n))
    }

    proptest! {
        /// R-TUN-26: whichever is searched, numbers or frames.
        #[test]
        fn all_that_waits_for_a_range_is_found(
            all in prop::collection::btree_set((0..2_u8, 0..100_u64), 0..60), from in 0..100_u64, count in 0..100_u64,
        ) {
            let mut waiting = Waiting::new(60);
            for (lane, n) in &all {
                let put = waiting.put(id(*lane, *n), id(*lane, n + 1), (n % 2 == 0).then_some(()), Time::ZERO);
                prop_assert_eq!(put, Ok(()));
            }
            prop_assert_eq!(waiting.frames(), all.iter().filter(|(_, n)| n % 2 == 0).count());
            let (from, to) = (Number::new(from), Number::new(from + count));
            let expected: BTreeSet<_> = all.range((1, from.get())..(1, to.get())).map(|(lane, n)| id(*lane, *n)).collect();
            let mut found = Vec::with_capacity(60);
            waiting.within(id(1, 0).lane(), from, to, &mut found);
            prop_assert_eq!(found.capacity(), 60, "nothing is allocated");
            prop_assert!(found.is_sorted());
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        }

        /// Against a list.
        #[test]
        fn behaves_like_a_list(steps in prop::collection::vec((0..2_u8, 0..3_000_u64, any::<bool>()), 0..400)) {
            let (mut waiting, mut list) = (Waiting::new(64), Vec::<(FrameId, FrameId, Option<u64>, Time)>::new());
            for (now, (lane, n, has_frame)) in steps.into_iter().enumerate() {
                let (before, now) = (id(lane, n % 97 * (n % 31)), Time::from_nanos(now as u64));
                let found = list.iter().position(|it| it.0 == before);
                prop_assert_eq!(waiting.has(before), found.is_some());
                if let Some(at) = found {
                    let (_, id, frame, _) = list.remove(at);
                    prop_assert_eq!(waiting.take(before), Some((id, frame)));
                } else if list.len() < 64 {
                    let frame = has_frame.then_some(n);
                    list.push((before, id(lane, n + 9_000), frame, now));
                    prop_assert_eq!(waiting.put(before, id(lane, n + 9_000), frame, now), Ok(()));
                    prop_assert_eq!(waiting.put(before, id(lane, n), Some(n), now), Err(Some(n)));
                }
                prop_assert_eq!(waiting.take(id(1, 8_000)), None);
                prop_assert_eq!(waiting.len(), list.len());
                prop_assert_eq!(waiting.frames(), list.iter().filter(|it| it.2.is_some()).count());
                prop_assert_eq!(waiting.oldest(), list.first().map(|it| (it.3, it.0)));
                prop_assert_eq!(waiting.places.capacity(), 64, "nothing is allocated");
            }
        }
    }
}
