//! The flows whose packets pass: their table, the packets seen of each, and their pipelines.

pub(crate) mod burst;
pub(crate) mod coarse_time;
pub(crate) mod entries;
pub(crate) mod entry;
pub(crate) mod index;
pub(crate) mod key;
pub(crate) mod matching;
pub(crate) mod pipeline;
pub(crate) mod psn_range;
pub(crate) mod table;
pub(crate) mod timer_wheel;

use arrayvec::ArrayVec;
use common::frame::Frame;
use common::ids::FlowId;
use common::time::Time;

use crate::config::Config;
use pipeline::Resources;
use table::Table;
use timer_wheel::Timers;

/// Timers that are taken out at once.
pub(crate) const TIMERS: usize = 32;

/// The flows of a worker, and the resources that their pipelines share.
pub(crate) struct Flows<F: Frame> {
    pub table: Table<F>,
    pub timers: Timers,
    pub resources: Resources,
}

impl<F: Frame> Flows<F> {
    /// No flow yet.
    pub fn new(config: &Config) -> Self {
        Self {
            table: Table::new(config.max_flows, config.max_flows_of_hosts, config.hash_seed),
            timers: Timers::default(),
            resources: Resources::new(config),
        }
    }

    /// Takes at most `room` timers that fire by `now`, and returns the flows that are due, with
    /// the number of timers taken. As in a burst, cache misses overlap.
    pub fn due(&mut self, now: Time, room: usize) -> (ArrayVec<FlowId, TIMERS>, usize) {
        let mut fired = ArrayVec::<_, TIMERS>::new();
        while fired.len() < room
            && let Some(timer) = self.timers.pop(now)
        {
            fired.push(timer);
        }
        fired.iter().for_each(|(_, id, _)| self.table.prefetch_timer(*id));
        let is_due = |(at, id, generation)| self.is_due(at, id, generation, now).then_some(id);
        let due: ArrayVec<_, TIMERS> = fired.iter().copied().filter_map(is_due).collect();
        due.iter().for_each(|id| self.table.prefetch_all(*id));
        (due, fired.len())
    }

    /// Whether a pipeline has something to do now that a timer has fired: the entry may
    /// have another by now, or its deadline may have moved back.
    fn is_due(&mut self, at: Time, id: FlowId, generation: u32, now: Time) -> bool {
        let Some(entry) = self.table.get_mut(id) else { return false };
        if entry.generation != generation || entry.armed != at {
            return false;
        }
        entry.armed = Time::NEVER;
        let later = entry.due.later_than(now);
        if let Some(later) = later {
            self.timers.arm(&mut entry.armed, later, id, generation);
        }
        later.is_none()
    }
}
