//! What a test sees of a run.

use common::metrics::Counters;
use common::recorder::Record;
use common::time::Time;
use rnic::Nic;

use super::{TO_SWITCH, WAN_OUT, World};
use crate::link::Link;
use crate::workers::Workers;

impl World {
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

    /// The LAN from nic `me` to its switch.
    pub fn from_nic(&self, me: usize) -> &Link {
        &self.ends[me].links[TO_SWITCH]
    }

    /// Queue pairs that failed, in all incarnations.
    pub fn dead(&self) -> usize {
        self.fates.iter().filter(|fate| fate.died.is_some()).count()
    }
}
