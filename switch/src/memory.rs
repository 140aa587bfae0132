//! What a switch takes of memory: per queue pair, and per packet in flight.
//!
//! The sizes are those of the types themselves, so they follow the code. Frames
//! are not part of them: whoever holds one knows what its pool takes for it.

use std::sync::Arc;

use common::frame::{Frame, Packet, Shared};
use common::window::FEW;

use crate::Role;
use crate::flow::entry::{Entry, Stage};
use crate::flow::index::Index;
use crate::flow::timer_wheel::Timers;
use crate::qp::cm::Connections;

/// Memory in bytes, of a switch for frames of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// The flow table's index, per entry that it has room for, at most.
    pub index: usize,
    /// An entry of the flow table.
    pub entry: usize,
    /// A flow's state at its Sentry, while nothing is in flight.
    pub sentry_flow: usize,
    /// A flow's state at its Depot, likewise.
    pub depot_flow: usize,
    /// A queue pair that connection management made, besides its flows, until
    /// it is ended: at most.
    pub connection: usize,
    /// Deadlines of one flow that may be queued at a time. The queue keeps its
    /// room.
    pub timers: usize,
    /// A PSN in flight, at the Sentry, from its first packet until it is
    /// acknowledged.
    pub sentry_slot: usize,
    /// A PSN that waits for its turn at the Depot, or is missing.
    pub depot_slot: usize,
    /// A PSN that went on from the Depot, until it is acknowledged.
    pub backup_slot: usize,
    /// A frame on its way out.
    pub packet: usize,
}

/// What [`slab`] puts into its vector.
#[expect(dead_code, reason = "only its size is of interest, and the slab's own is private")]
enum Place<T> {
    Vacant(usize),
    Occupied(T),
}

/// A frame that is a handle of one pointer, whichever way it is owned, as an mbuf is.
#[derive(Clone)]
struct Handle(Arc<Vec<u8>>);

impl Frame for Handle {
    type Shared = Self;

    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        Arc::<Vec<u8>>::make_mut(&mut self.0)
    }

    fn share(self) -> Self {
        self
    }
}

impl Shared for Handle {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Footprint {
    /// Of a switch whose frames are handles of one pointer: mbufs.
    pub const fn of_handles() -> Self {
        Self::of::<Handle>()
    }

    /// Of a [`Switch<F>`](crate::Switch).
    pub const fn of<F: Frame>() -> Self {
        Self {
            index: Index::PER_FLOW,
            entry: size_of::<Place<Entry<F>>>(),
            sentry_flow: size_of::<Stage<sentry::Flow<F>>>(),
            depot_flow: size_of::<Stage<depot::Flow<F>>>(),
            connection: Connections::EACH,
            timers: 2 * Timers::EACH,
            sentry_slot: sentry::Flow::<F>::SLOT,
            depot_slot: depot::Flow::<F>::SLOT,
            backup_slot: depot::Flow::<F>::BACKUP_SLOT,
            packet: size_of::<Packet<F>>(),
        }
    }

    /// The flow table's own, with room for `entries`.
    pub const fn table(&self, entries: u64) -> u64 {
        entries * (self.index + self.entry) as u64
    }

    /// A queue pair that has had nothing in flight for long.
    pub const fn idle(&self) -> u64 {
        // An entry for each direction, whatever goes that way.
        self.table(2)
    }

    /// A queue pair that is in use, with requests in every direction that the box
    /// works for, while nothing is in flight: with rings for a few packets.
    pub const fn awake(&self, role: Role) -> u64 {
        let sentry = if role.is_sentry() { self.sentry_flow + self.timers } else { 0 };
        let depot = if role.is_depot() { self.depot_flow + self.timers } else { 0 };
        self.idle() + (sentry + depot + FEW * self.slots(role)) as u64
    }

    /// The slots of a packet that is in all that the box keeps of it.
    const fn slots(&self, role: Role) -> usize {
        let sentry = if role.is_sentry() { self.sentry_slot } else { 0 };
        let depot = if role.is_depot() { self.depot_slot + self.backup_slot } else { 0 };
        sentry + depot
    }

    /// What a packet takes beside its frame, at most, while it is in flight in
    /// all that the box keeps of it: rings of few slots are up to half empty, and
    /// larger ones keep what they had room for until their flow is idle.
    pub const fn per_packet(&self, role: Role) -> u64 {
        2 * self.slots(role) as u64
    }

    /// A queue pair with `in_flight` packets each way, beside their frames, at
    /// most.
    pub const fn active(&self, role: Role, in_flight: u64) -> u64 {
        self.awake(role) + in_flight * self.per_packet(role)
    }
}

#[cfg(test)]
mod tests {
    use common::frame::Side;
    use common::heap::HeapFrame;
    use common::psn::Psn;
    use common::time::Time;
    use common::wire::cm::{Ids, Message, Rep, Req};
    use common::wire::{Addr, Vlans};

    use super::*;
    use crate::flow::key::Hosts;

    #[test]
    fn connections_take_what_is_said() {
        const N: u32 = 1_000;
        let [src, dst] = [1, 2].map(|last| Addr::from_v4([10, 0, 0, last]));
        let hosts = Hosts { side: Side::Lan, vlans: Vlans::NONE, src, dst };
        let mut kept = None;
        let counted = allocation_counter::measure(|| {
            let mut connections = Connections::new(N as usize, 1);
            for n in 0..N {
                let (local_gid, remote_gid) = (src, dst);
                let (qpn, starting_psn) = (n, Psn::new(0));
                let (pmtu, is_rc) = (4096, true);
                let req = Req { local: n, qpn, starting_psn, pmtu, is_rc, local_gid, remote_gid };
                let rep = Rep { ids: Ids { local: n, remote: n }, qpn, starting_psn };
                connections.observe(hosts, &Message::Req(req), Time::ZERO, |_| false);
                let rep = Message::Rep(rep);
                let made = connections.observe(hosts.reversed(), &rep, Time::ZERO, |_| false);
                assert!(made.is_some());
            }
            kept = Some(connections);
        });
        let each = counted.bytes_current / i64::from(N);
        let said = i64::try_from(Footprint::of::<HeapFrame>().connection).unwrap();
        assert!(each <= said && each > said * 3 / 4, "{each} bytes counted, {said} said");
    }
}
