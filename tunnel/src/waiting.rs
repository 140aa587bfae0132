//! Frames that wait for their predecessors.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::VecDeque;

use common::time::Time;
use hashbrown::HashMap;

use crate::number::{FrameId, Lane, Number};

#[derive(Debug)]
struct Waiter<F> {
    id: FrameId,
    /// `None`: it is delivered already.
    frame: Option<F>,
    since: Time,
}

/// Hashes of frame ids. Neighbours have neighbouring ones but for the upper bits, by which a map tells the keys of a
/// group apart: frames wait for numbers that lie close together, and their entries share cache lines.
#[derive(Default)]
struct Near(u64);

impl Hasher for Near {
    #[inline]
    fn write_u64(&mut self, id: u64) {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        const TAG: u64 = 0x7f << 57;
        // Runs of numbers begin anywhere, so that two lanes, or two runs far apart, hardly meet.
        let start = (id >> RUN).wrapping_mul(FACTOR) >> 32;
        self.0 = (start.wrapping_add(id) & !TAG) | (id.wrapping_mul(FACTOR) & TAG);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 << 8 | u64::from(*byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Binary logarithm of the numbers whose hashes are neighbours.
const RUN: u32 = 10;

/// At most one frame for each predecessor: a frame is the predecessor of one other, so that nothing
/// has to be searched.
#[derive(Debug)]
pub(crate) struct Waiting<F> {
    by_predecessor: HashMap<FrameId, Waiter<F>, BuildHasherDefault<Near>>,
    /// Of these, with a frame.
    frames: usize,
    /// Predecessors, in the order in which frames began to wait; also of some that wait no more.
    order: VecDeque<(Time, FrameId)>,
}

impl<F> Waiting<F> {
    /// Room for `max` frames.
    pub fn new(max: usize) -> Self {
        let by_predecessor = HashMap::with_capacity_and_hasher(max, BuildHasherDefault::default());
        Self { by_predecessor, frames: 0, order: VecDeque::with_capacity(max) }
    }

    /// How many wait, delivered or not.
    pub fn len(&self) -> usize {
        self.by_predecessor.len()
    }

    /// How many wait to be delivered.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_predecessor.is_empty()
    }

    /// Whether a frame waits for this one.
    pub fn has(&self, predecessor: FrameId) -> bool {
        self.by_predecessor.contains_key(&predecessor)
    }

    /// Frame `id` waits from now on; without a `frame` it is delivered already.
    pub fn put(&mut self, predecessor: FrameId, id: FrameId, frame: Option<F>, since: Time) {
        // Entries that nobody waits for any more are no more than those that somebody does.
        if self.order.len() > 2 * self.by_predecessor.len() + 64 {
            let by_predecessor = &self.by_predecessor;
            self.order.retain(|(since, id)| is_waiting(by_predecessor, *id, *since));
        }
        self.frames += usize::from(frame.is_some());
        self.by_predecessor.insert(predecessor, Waiter { id, frame, since });
        self.order.push_back((since, predecessor));
    }

    /// The frame that waits for `predecessor`.
    pub fn take(&mut self, predecessor: FrameId) -> Option<(FrameId, Option<F>)> {
        let Waiter { id, frame, .. } = self.by_predecessor.remove(&predecessor)?;
        self.frames -= usize::from(frame.is_some());
        Some((id, frame))
    }

    /// When the frame that waits longest began to, and its predecessor.
    pub fn oldest(&mut self) -> Option<(Time, FrameId)> {
        while let Some((since, id)) = self.order.front().copied() {
            if is_waiting(&self.by_predecessor, id, since) {
                return Some((since, id));
            }
            self.order.pop_front();
        }
        None
    }

    /// A time at which [`oldest`](Self::oldest) is to be asked for frames that waited `longest`.
    pub fn deadline(&self, longest: common::time::Span) -> Time {
        self.order.front().map_or(Time::NEVER, |(since, _)| *since + longest)
    }

    /// A predecessor that a frame waits for, if there is one.
    pub fn any(&self) -> Option<FrameId> {
        self.by_predecessor.keys().next().copied()
    }

    /// Puts the numbers `from` .. `to` of `lane` that frames wait for into `found`, in ascending order; they are no more
    /// than frames wait. It takes as long as the range is, or as there are frames that wait, whichever is less. R-TUN-26
    pub fn within(&self, lane: Lane, from: Number, to: Number, found: &mut Vec<FrameId>) {
        found.clear();
        if to.since(from) <= self.by_predecessor.len() as u64 {
            let ids = (from.get()..to.get()).map(|n| FrameId::new(lane, Number::new(n)));
            return found.extend(ids.filter(|id| self.has(*id)));
        }
        let is_within = |id: &FrameId| id.lane() == lane && (from..to).contains(&id.number());
        found.extend(self.by_predecessor.keys().copied().filter(is_within));
        found.sort_unstable();
    }
}

fn is_waiting<F>(
    by_predecessor: &HashMap<FrameId, Waiter<F>, BuildHasherDefault<Near>>,
    predecessor: FrameId,
    since: Time,
) -> bool {
    by_predecessor.get(&predecessor).is_some_and(|waiter| waiter.since == since)
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
                waiting.put(id(*lane, *n), id(*lane, n + 1), (n % 2 == 0).then_some(()), Time::ZERO);
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
    }
}
