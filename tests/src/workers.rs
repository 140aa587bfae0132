//! The switches of one box: one per worker, each with its part of the flows.

use arrayvec::ArrayVec;
use common::control::NodeId;
use common::frame::{Frame, Side, Sink};
use common::heap::{HeapFrame, HeapPool};
use common::metrics::Counters;
use common::time::Time;
use common::wire::Spread;
use switch::{Config, Switch};

use crate::trace::check_books;

/// Timers run per step and worker.
const TIMER_BUDGET: usize = 64;

/// A box.
pub(crate) struct Workers(Vec<Switch<HeapFrame>>);

impl Workers {
    /// A box with so many workers, at least one. Each is a node of its own.
    pub fn new(count: u32, config: &Config) -> Self {
        let node = |n| NodeId(config.node.0 + 100 * n);
        let switch = |n| Switch::new(Config { node: node(n), ..config.clone() });
        Self((0..count).map(switch).collect())
    }

    /// A frame that arrives.
    pub fn receive<S>(&mut self, side: Side, frame: HeapFrame, now: Time, sink: &mut S)
    where
        S: Sink<Frame = HeapFrame>,
    {
        let worker = Spread::Mixed.bucket(frame.bytes()) % self.0.len();
        let mut burst = ArrayVec::<HeapFrame, 1>::from([frame]);
        self.0[worker].burst(side, &mut burst, now, &mut HeapPool, sink);
    }

    /// All workers drain.
    pub fn drain<S: Sink<Frame = HeapFrame>>(&mut self, now: Time, sink: &mut S) {
        for switch in &mut self.0 {
            switch.drain(now, &mut HeapPool, sink);
        }
    }

    /// Runs the timers that are due.
    pub fn timers<S: Sink<Frame = HeapFrame>>(&mut self, now: Time, sink: &mut S) {
        for switch in &mut self.0 {
            switch.timers(now, TIMER_BUDGET, &mut HeapPool, sink);
        }
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Time {
        self.0.iter().map(Switch::next_deadline).min().unwrap_or(Time::NEVER)
    }

    /// Frames held.
    pub fn held(&self) -> u64 {
        self.0.iter().map(Switch::held).sum()
    }

    /// Counters of each worker.
    pub fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.0.iter().map(Switch::counters)
    }

    /// Checks each worker's books.
    pub fn check_books(&self) {
        self.0.iter().for_each(check_books);
    }
}
