//! Memory that a switch takes, and how mbufs are divided among its pools.
//!
//! The sizes are those of the types themselves, so they follow the code. Frames are not part of
//! them: the owner of the mempool knows the size of an mbuf.

use std::sync::Arc;

use common::budget::Budget;
use common::frame::{Frame, Shared};
use common::window::FEW;

use crate::config::{Recovery, Role};
use crate::flow::entries::Entries;
use crate::flow::entry::Stage;
use crate::flow::index::Index;
use crate::flow::timer_wheel::Timers;
use crate::qp::cm::Connections;

/// Of each pool: bytes, or frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Pools {
    /// Copies at the Sentry of packets in flight.
    pub resend_cache: u64,
    /// Packets that the Depot holds behind a gap.
    pub reorder_pool: u64,
    /// Copies at the Depot of delivered packets.
    pub backup_pool: u64,
}

impl Pools {
    /// These, without the pools that `role` and `recovery` do not use.
    pub const fn used(self, role: Role, recovery: Recovery) -> Self {
        let is_on = !matches!(recovery, Recovery::Off);
        let [sentry, depot] = [role.is_sentry() && is_on, role.is_depot() && is_on];
        Self {
            resend_cache: if sentry { self.resend_cache } else { 0 },
            reorder_pool: if depot { self.reorder_pool } else { 0 },
            backup_pool: if depot { self.backup_pool } else { 0 },
        }
    }

    /// All three together.
    pub const fn sum(&self) -> u64 {
        self.resend_cache.saturating_add(self.reorder_pool).saturating_add(self.backup_pool)
    }

    /// Divides `mbufs` among the pools in proportion to these bytes: the frames that each pool
    /// may hold.
    pub fn divide(&self, mbufs: u32) -> Self {
        let all = u128::from(self.sum().max(1));
        // Each part is at most `mbufs`, which is a u32.
        let part = |bytes| {
            u64::try_from(u128::from(mbufs) * u128::from(bytes) / all).unwrap_or(mbufs.into())
        };
        Self {
            resend_cache: part(self.resend_cache),
            reorder_pool: part(self.reorder_pool),
            backup_pool: part(self.backup_pool),
        }
    }
}

/// Memory in bytes, of a switch for frames of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// An entry of the flow table, its part of the index included, at most.
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
    /// A PSN that is held at the Depot, or is missing.
    pub depot_slot: usize,
    /// A PSN that the Depot delivered, until it is acknowledged.
    pub backup_slot: usize,
    /// A frame that waits for a port.
    pub handle: usize,
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
            entry: Index::PER_FLOW + Entries::<F>::EACH,
            sentry_flow: size_of::<Stage<sentry::Flow<F>>>(),
            depot_flow: size_of::<Stage<depot::Flow<F>>>(),
            connection: Connections::EACH,
            timers: 2 * Timers::EACH,
            sentry_slot: sentry::Flow::<F>::SLOT,
            depot_slot: depot::Flow::<F>::SLOT,
            backup_slot: depot::Flow::<F>::BACKUP_SLOT,
            handle: size_of::<F::Shared>(),
        }
    }

    /// A queue pair that has had nothing in flight for long: an entry for each direction.
    pub const fn idle(&self) -> u64 {
        2 * self.entry as u64
    }

    /// A packet beside its frame, at most, while all pipelines of `role` have a slot for it:
    /// rings of few slots are up to half empty, and larger ones keep their room until their
    /// flow is idle.
    pub const fn per_packet(&self, role: Role) -> u64 {
        2 * self.slots(role) as u64
    }

    /// One slot in each pipeline of `role`.
    const fn slots(&self, role: Role) -> usize {
        let sentry = if role.is_sentry() { self.sentry_slot } else { 0 };
        let depot = if role.is_depot() { self.depot_slot + self.backup_slot } else { 0 };
        sentry + depot
    }

    /// A switch whose flow table and pools are full, at most: all queue pairs in use and made by
    /// connection management, `frames` in the pools.
    pub const fn full(
        &self,
        role: Role,
        recovery: Recovery,
        max_flows: u64,
        frames: &Pools,
    ) -> u64 {
        let sentry = if role.is_sentry() { self.sentry_flow + self.timers } else { 0 };
        let depot = if role.is_depot() { self.depot_flow + self.timers } else { 0 };
        let state = sentry + depot + FEW * self.slots(role) + self.connection;
        let flows = (self.idle() + state as u64) * max_flows.div_ceil(2);
        let held = 2 * frames.reorder_pool * self.depot_slot as u64
            + 2 * frames.backup_pool * self.backup_slot as u64;
        if role.is_sentry() && !matches!(recovery, Recovery::Off) {
            flows + held + Budget::slots_for(frames.resend_cache) * self.sentry_slot as u64
        } else {
            flows + held
        }
    }
}

#[cfg(test)]
mod tests {
    use common::frame::Side;
    use common::heap::HeapFrame;
    use common::psn::Psn;
    use common::time::Time;
    use common::wire::cm::{Ids, Message, Rep, Req};
    use common::wire::{Addr, Qpn, Vlans};

    use super::*;
    use crate::flow::key::Hosts;

    #[test]
    fn mbufs_are_divided_as_the_bytes_are_among_the_pools_in_use() {
        let bytes = Pools { resend_cache: 32 << 20, reorder_pool: 64 << 20, backup_pool: 16 << 20 };
        let sentry = Pools { resend_cache: 28, ..Pools::default() };
        let depot = Pools { reorder_pool: 22, backup_pool: 5, ..Pools::default() };
        let both = Pools { resend_cache: 8, reorder_pool: 16, backup_pool: 4 };
        for (role, expected) in [(Role::Sentry, sentry), (Role::Depot, depot), (Role::Both, both)] {
            assert_eq!(bytes.used(role, Recovery::Auto).divide(28), expected, "{role:?}");
            assert_eq!(bytes.used(role, Recovery::Off).divide(28), Pools::default());
        }
    }

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
                let (qpn, starting_psn) = (Qpn::new(n), Psn::new(0));
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
