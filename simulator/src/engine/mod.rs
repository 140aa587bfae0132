//! Virtual time: whose turn it is.

use common::time::Time;
use orx_priority_queue::{PriorityQueue, PriorityQueueDecKey, QuaternaryHeapOfIndices};

/// Number of an actor: a node or a cable.
pub type Actor = usize;

/// When each actor has something to do next. Among equals the lowest number
/// comes first, so that a run is the same every time.
pub struct Agenda {
    queue: QuaternaryHeapOfIndices<Actor, Turn>,
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
        Self {
            queue: QuaternaryHeapOfIndices::with_index_bound(actors),
            due: vec![Time::NEVER; actors],
        }
    }

    /// `actor` has something to do at `due`, and not before; [`Time::NEVER`]:
    /// not by itself.
    pub fn set(&mut self, actor: Actor, due: Time) {
        if self.due[actor] == due {
            return;
        }
        self.due[actor] = due;
        if due == Time::NEVER {
            self.queue.remove(&actor);
        } else {
            self.queue.update_key_or_push(&actor, Turn::new(due, actor));
        }
    }

    /// Whose turn is next, and when.
    pub fn next(&self) -> Option<(Time, Actor)> {
        self.queue.peek().map(|(_, turn)| turn.get())
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
                prop_assert_eq!(agenda.next(), first);
            }
        }
    }
}
