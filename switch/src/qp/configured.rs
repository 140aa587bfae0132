//! Queue pairs that the operator names.

use common::wire::{Addr, Vlans};
use hashbrown::HashMap;

use crate::flow::key::FlowKey;

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

/// The requesters of the flows that the operator configured.
pub(crate) struct Configured(HashMap<(Vlans, Addr, End), u32, foldhash::quality::FixedState>);

impl Configured {
    pub fn new(pairs: &[QueuePair], seed: u64) -> Self {
        let mut map = HashMap::with_hasher(foldhash::quality::FixedState::with_seed(seed));
        for QueuePair { vlans, ends: [a, b] } in pairs {
            map.insert((*vlans, a.addr, *b), a.qpn);
            map.insert((*vlans, b.addr, *a), b.qpn);
        }
        Self(map)
    }

    /// The requester of a flow.
    pub fn src_qpn(&self, key: &FlowKey) -> Option<u32> {
        let FlowKey { hosts, dest_qpn } = key;
        let destination = End { addr: hosts.dst, qpn: *dest_qpn };
        self.0.get(&(hosts.vlans, hosts.src, destination)).copied()
    }
}
