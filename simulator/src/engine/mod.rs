//! Virtual time: whose turn it is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use common::time::Time;

/// Number of an actor: a node or a cable.
pub type Actor = usize;

/// When each actor has something to do next. Among equals the lowest number
/// comes first, so that a run is the same every time.
pub struct Agenda {
    /// The turn of each actor at its time in `queued`, and turns that no longer hold.
    queue: BinaryHeap<Reverse<Turn>>,
    /// When each actor is in `queue` for certain: at `due` or before.
    queued: Vec<Time>,
    due: Vec<Time>,
}

/// Time and actor, in one number because that compares faster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(u128);

impl Turn {
    const fn new(due: Time, actor: Actor) -> Self {
        Self((due.as_nanos() as u128) << 64 | actor as u128)
    }

    const fn get(self) -> (Time, Actor) {
        (Time::from_nanos((self.0 >> 64) as u64), self.0 as u64 as Actor)
    }
}

impl Agenda {
    /// The agenda of actors 0 to `actors - 1`, with nothing due.
    pub fn new(actors: usize) -> Self {
        let never = vec![Time::NEVER; actors];
        Self { queue: BinaryHeap::new(), queued: never.clone(), due: never }
    }

    /// `actor` has something to do at `due`, and not before; [`Time::NEVER`]:
    /// not by itself.
    pub fn set(&mut self, actor: Actor, due: Time) {
        self.due[actor] = due;
        if due < self.queued[actor] {
            self.queued[actor] = due;
            self.queue.push(Reverse(Turn::new(due, actor)));
        }
    }

    /// Whose turn is next, and when.
    pub fn first(&mut self) -> Option<(Time, Actor)> {
        while let Some(mut first) = self.queue.peek_mut() {
            let (time, actor) = first.0.get();
            let (due, queued) = (self.due[actor], &mut self.queued[actor]);
            if time == due {
                return Some((due, actor));
            }
            if time == *queued && due < Time::NEVER {
                // It is due later than it was when it was queued.
                *queued = due;
                *first = Reverse(Turn::new(due, actor));
                continue;
            }
            if time == *queued {
                *queued = Time::NEVER;
            }
            PeekMut::pop(first);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_earliest_comes_first(
            changes in prop::collection::vec((0usize..8, prop::option::of(0u64..50)), 1..200),
        ) {
            let mut agenda = Agenda::new(8);
            let mut plain = [Time::NEVER; 8];
            for (actor, due) in changes {
                let due = due.map_or(Time::NEVER, Time::from_nanos);
                agenda.set(actor, due);
                plain[actor] = due;
                let first = (0..8).map(|a| (plain[a], a)).min().filter(|(t, _)| *t < Time::NEVER);
                prop_assert_eq!(agenda.first(), first);
            }
        }
    }
}
