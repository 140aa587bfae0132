//! Queue pairs that the operator configured.

use common::wire::{Addr, Qpn, Vlans};
use hashbrown::HashMap;

use crate::config::{End, QueuePair};
use crate::flow::key::FlowKey;

/// The `src_qpn` of the flows that the operator configured.
pub(crate) struct Configured(HashMap<(Vlans, Addr, End), Qpn, foldhash::quality::FixedState>);

impl Configured {
    pub fn new(pairs: &[QueuePair], seed: u64) -> Self {
        let mut map = HashMap::with_hasher(foldhash::quality::FixedState::with_seed(seed));
        for QueuePair { vlans, ends: [a, b] } in pairs {
            map.insert((*vlans, a.addr, *b), a.qpn);
            map.insert((*vlans, b.addr, *a), b.qpn);
        }
        Self(map)
    }

    /// The `src_qpn` of a flow.
    pub fn src_qpn(&self, key: &FlowKey) -> Option<Qpn> {
        let FlowKey { hosts, dest_qpn } = key;
        let destination = End { addr: hosts.dst, qpn: *dest_qpn };
        self.0.get(&(hosts.vlans, hosts.src, destination)).copied()
    }
}
