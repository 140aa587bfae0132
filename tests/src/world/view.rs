//! What a test sees of a run.

use common::metrics::Counters;
use common::recorder::Record;
use common::time::Time;
use rnic::Nic;

use super::{WAN_OUT, World};
use crate::link::Link;
use crate::workers::Workers;

impl World {
    /// Packets that the ring of host `me` had no room for.
    pub fn overflowed(&self, me: usize) -> u64 {
        self.ends[me].ring.as_ref().map_or(0, |ring| ring.lost)
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Payload bytes and packets accepted at NIC `me`.
    pub fn nic(&self, me: usize) -> &Nic {
        &self.ends[me].nic
    }

    /// Counters of each worker of switch `me`.
    pub fn counters(&self, me: usize) -> impl Iterator<Item = &Counters> {
        self.ends[me].switch.iter().flat_map(Workers::counters)
    }

    /// What box `me` has recorded.
    pub fn records(&self, me: usize) -> Vec<Record> {
        let recorders = self.ends[me].switch.iter().flat_map(Workers::recorders);
        recorders.flat_map(|it| (it.start()..it.end()).filter_map(|n| it.get(n))).collect()
    }

    /// The long-haul link from `me` on.
    pub fn wan(&self, me: usize) -> &Link {
        &self.ends[me].links[WAN_OUT]
    }
}
