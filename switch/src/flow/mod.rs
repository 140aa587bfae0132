//! The flows whose packets pass: their table, the packets seen of each, and their pipelines.

pub(crate) mod coarse_time;
pub(crate) mod entry;
pub(crate) mod index;
pub(crate) mod key;
pub(crate) mod matching;
pub(crate) mod pipeline;
pub(crate) mod psn_range;
pub(crate) mod table;
pub(crate) mod timer_wheel;

use arrayvec::ArrayVec;
use common::frame::{Frame, Side};
use common::ids::FlowId;
use common::time::Time;
use common::wire::{NotRoce, Roce, Transport};

use crate::config::Config;
use key::FlowKey;
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

    /// The entries of the flows that the frames of a burst are of. Each step for all frames
    /// before the next, so that their cache misses overlap.
    #[inline]
    pub fn find_all<const N: usize>(
        &self,
        side: Side,
        parsed: &ArrayVec<Result<Roce, NotRoce>, N>,
    ) -> [Option<FlowId>; N] {
        let (mut hashes, mut found) = ([0; N], [None; N]);
        for (hash, parsed) in hashes.iter_mut().zip(parsed) {
            if let Ok(roce) = parsed
                && let Some(key) = key(side, roce)
            {
                *hash = self.table.prefetch_bucket(&key);
            }
        }
        for ((found, hash), parsed) in found.iter_mut().zip(hashes).zip(parsed) {
            // To make the key again takes less than to keep it.
            if let Ok(roce) = parsed
                && let Some(key) = key(side, roce)
            {
                *found = self.table.find_hashed(hash, &key);
            }
        }
        for id in found.into_iter().flatten() {
            self.table.prefetch(id);
        }
        found
    }

    /// Takes at most `room` timers that fire by `now`, and returns the flows that are due, with
    /// the number of timers taken. As in a burst, cache misses overlap.
    pub fn due(&mut self, now: Time, room: usize) -> (ArrayVec<FlowId, TIMERS>, usize) {
        let fired: ArrayVec<_, TIMERS> =
            core::iter::from_fn(|| self.timers.pop(now)).take(room).collect();
        fired.iter().for_each(|(_, id, _)| self.table.prefetch_due(*id));
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
        let Some(track) = entry.state.track() else { return false };
        let later = track.due.later_than(now);
        if let Some(later) = later {
            self.timers.arm(&mut entry.armed, later, id, generation);
        }
        later.is_none()
    }
}

/// The key of a packet's stream, if it may have an entry.
#[inline]
fn key(side: Side, roce: &Roce) -> Option<FlowKey> {
    (roce.opcode.transport() == Transport::Rc).then(|| FlowKey::of(side, roce))
}
