//! Frames that wait for their predecessors.

use std::collections::VecDeque;

use common::time::Time;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::number::FrameId;

#[derive(Debug)]
struct Waiter<F> {
    id: FrameId,
    frame: F,
    since: Time,
}

/// At most one frame for each predecessor: a frame is the predecessor of one other, so that nothing
/// has to be searched.
#[derive(Debug)]
pub(crate) struct Waiting<F> {
    by_predecessor: HashMap<FrameId, Waiter<F>, FixedState>,
    /// Predecessors, in the order in which frames began to wait; also of some that wait no more.
    order: VecDeque<(Time, FrameId)>,
}

impl<F> Waiting<F> {
    /// Room for `max` frames.
    pub fn new(max: usize) -> Self {
        let by_predecessor = HashMap::with_capacity_and_hasher(max, FixedState::default());
        Self { by_predecessor, order: VecDeque::with_capacity(max) }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.by_predecessor.len()
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

    /// Frame `id` waits from now on.
    pub fn put(&mut self, predecessor: FrameId, id: FrameId, frame: F, since: Time) {
        // Entries that nobody waits for any more are no more than those that somebody does.
        if self.order.len() > 2 * self.by_predecessor.len() + 64 {
            let by_predecessor = &self.by_predecessor;
            self.order.retain(|(since, id)| is_waiting(by_predecessor, *id, *since));
        }
        self.by_predecessor.insert(predecessor, Waiter { id, frame, since });
        self.order.push_back((since, predecessor));
    }

    /// The frame that waits for `predecessor`.
    pub fn take(&mut self, predecessor: FrameId) -> Option<(FrameId, F)> {
        self.by_predecessor.remove(&predecessor).map(|waiter| (waiter.id, waiter.frame))
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

    /// The predecessors that satisfy a condition and that a frame waits for, in ascending order.
    pub fn select(&self, condition: impl Fn(FrameId) -> bool) -> Vec<FrameId> {
        let all = self.by_predecessor.keys().copied();
        let mut some: Vec<FrameId> = all.filter(|id| condition(*id)).collect();
        some.sort_unstable();
        some
    }
}

fn is_waiting<F>(
    by_predecessor: &HashMap<FrameId, Waiter<F>, FixedState>,
    predecessor: FrameId,
    since: Time,
) -> bool {
    by_predecessor.get(&predecessor).is_some_and(|waiter| waiter.since == since)
}
