//! Queue pairs that the operator names.

use common::frame::Frame;
use common::metrics::Metric;
use common::time::Time;
use common::wire::{Addr, Vlans};
use hashbrown::HashMap;

use crate::flow::entry::Id;
use crate::flow::key::FlowKey;
use crate::switch::Switch;

/// A queue pair that two hosts always have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePair {
    /// The VLANs its packets are in.
    pub vlans: Vlans,
    /// Its two ends. It doesn't matter on which side of the link they are.
    pub ends: [End; 2],
}

/// One end of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct End {
    /// The host.
    pub addr: Addr,
    /// Its QP, below 2^24.
    pub qpn: u32,
}

/// What the operator says of who is a flow's requester.
pub(crate) struct Named(HashMap<(Vlans, Addr, End), u32, foldhash::quality::FixedState>);

impl Named {
    pub fn new(pairs: &[QueuePair], seed: u64) -> Self {
        let mut map = HashMap::with_hasher(foldhash::quality::FixedState::with_seed(seed));
        for QueuePair { vlans, ends: [a, b] } in pairs {
            map.insert((*vlans, a.addr, *b), a.qpn);
            map.insert((*vlans, b.addr, *a), b.qpn);
        }
        Self(map)
    }

    fn src_qpn(&self, key: &FlowKey) -> Option<u32> {
        let FlowKey { hosts, dest_qpn } = key;
        let destination = End { addr: hosts.dst, qpn: *dest_qpn };
        self.0.get(&(hosts.vlans, hosts.src, destination)).copied()
    }
}

impl<F: Frame> Switch<F> {
    /// A flow has appeared. If the operator named it, it is paired at once, and
    /// never otherwise.
    pub(crate) fn pair_as_named(&mut self, id: Id, now: Time) {
        let Some(key) = self.table.get(id).map(|entry| entry.key) else { return };
        let Some(src_qpn) = self.named.src_qpn(&key) else { return };
        let back = FlowKey { hosts: key.hosts.reversed(), dest_qpn: src_qpn };
        let other = self.table.entry(back, now);
        if let Some((_, true)) = other {
            self.tx.counters.inc(Metric::FlowCreated);
        }
        let other = other.map(|(other, _)| other);
        for id in [Some(id), other].into_iter().flatten() {
            if let Some(entry) = self.table.get_mut(id) {
                entry.named = true;
            }
        }
        if let Some(other) = other {
            self.table.pair(id, other);
            self.tx.counters.inc(Metric::FlowPaired);
        }
    }
}
