//! Frames on their way, each waiting for the time at which it is due.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use common::time::Time;

/// When a frame is due, and its number in order of arrival. The number breaks
/// ties, so frames due at the same time leave as they came.
type Key = (Time, u64);

struct Entry<F> {
    key: Key,
    frame: F,
}

/// A priority queue by due time. Almost all frames come in the order in which
/// they leave; they take a plain FIFO, and only those that don't take a heap.
pub(crate) struct Transit<F> {
    fifo: VecDeque<Entry<F>>,
    strays: BinaryHeap<Reverse<ByKey<F>>>,
}

impl<F> Transit<F> {
    pub fn with_capacity(frames: usize) -> Self {
        Self { fifo: VecDeque::with_capacity(frames), strays: BinaryHeap::new() }
    }

    pub fn push(&mut self, due: Time, number: u64, frame: F) {
        let entry = Entry { key: (due, number), frame };
        if self.fifo.back().is_none_or(|last| last.key <= entry.key) {
            self.fifo.push_back(entry);
        } else {
            self.strays.push(Reverse(ByKey(entry)));
        }
    }

    /// Like [`push`](Self::push), for a frame that those to come will overtake.
    pub fn push_late(&mut self, due: Time, number: u64, frame: F) {
        self.strays.push(Reverse(ByKey(Entry { key: (due, number), frame })));
    }

    /// When the next frame is due; [`Time::NEVER`] if there is none.
    pub fn next_due(&self) -> Time {
        self.first().map_or(Time::NEVER, |(due, _)| due)
    }

    /// The first frame, if it is due, with its due time and number.
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, u64, F)> {
        let first = self.first().filter(|&(due, _)| due <= now)?;
        let entry = if self.fifo.front().is_some_and(|e| e.key == first) {
            self.fifo.pop_front()
        } else {
            self.strays.pop().map(|Reverse(ByKey(e))| e)
        }?;
        Some((entry.key.0, entry.key.1, entry.frame))
    }

    fn first(&self) -> Option<Key> {
        let fifo = self.fifo.front().map(|e| e.key);
        let stray = self.strays.peek().map(|Reverse(ByKey(e))| e.key);
        match (fifo, stray) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// Orders entries by key alone; frames have no order.
struct ByKey<F>(Entry<F>);

impl<F> PartialEq for ByKey<F> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}
impl<F> Eq for ByKey<F> {}
impl<F> PartialOrd for ByKey<F> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<F> Ord for ByKey<F> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn leaves_sorted_by_due_time_then_arrival(
            frames in prop::collection::vec((0u64..50, any::<bool>()), 0..200),
        ) {
            let mut transit = Transit::with_capacity(8);
            let mut expected = Vec::new();
            for (number, &(due, late)) in frames.iter().enumerate() {
                let (due, number) = (Time::from_nanos(due), number as u64);
                if late {
                    transit.push_late(due, number, number);
                } else {
                    transit.push(due, number, number);
                }
                expected.push((due, number));
            }
            expected.sort_unstable();
            for &(due, number) in &expected {
                prop_assert_eq!(transit.next_due(), due);
                if due > Time::ZERO {
                    let too_early = Time::from_nanos(due.as_nanos() - 1);
                    prop_assert!(transit.pop_due(too_early).is_none());
                }
                prop_assert_eq!(transit.pop_due(due), Some((due, number, number)));
            }
            prop_assert_eq!(transit.next_due(), Time::NEVER);
        }
    }
}
