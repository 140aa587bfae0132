//! How many mbufs it takes, and how much memory they take.
//!
//! Every frame that the gateway holds pins a whole mbuf. Rings, queues and
//! caches tie up some whatever happens; what is beyond them, recovery may
//! hold. A pool that recovery could empty would stop reception, and with it
//! the acknowledgements that free what is held.

use settings::sizing::{
    DPDK_OVERHEAD, FRAME_OVERHEAD, HUGE_PAGE, PAGE, pmtu, pool_fits, pool_memory,
};

use super::{Config, HugePages, Pool, Port, Recovery, RecoverySettings, Role, Worker};

/// Bursts under way and the mempool cache of one worker, and the reserve kept
/// for frames that it makes itself.
const WORKING_SET: u32 = 2048;

/// Frames that may wait at each worker for each of the two ports, beyond its
/// ring and beyond what recovery has let go.
pub const BACKLOG: u32 = 1024;

/// Frames that may be on their way from one worker to another, per side.
pub const HANDOVER: u16 = 512;

/// What the number of mbufs follows from.
pub(super) struct Needs<'a> {
    pub role: Role,
    pub ports: [&'a Port; 2],
    pub recovery: &'a RecoverySettings,
    pub worker: &'a Worker,
    /// As the file says.
    pub mbufs: Option<u32>,
    /// As the file says.
    pub data_room: Option<u16>,
}

/// The pool with its defaults filled in.
pub(super) fn pool(needs: &Needs<'_>) -> Pool {
    let mtu = needs.ports.iter().map(|p| p.mtu).max().unwrap_or(0);
    let data_room = needs.data_room.unwrap_or(mtu + FRAME_OVERHEAD);
    let in_flight = AtWork::of(needs.ports, needs.worker).sum();
    let held = u32::try_from(held_bytes(needs.role, needs.recovery).div_ceil(pmtu(mtu)));
    let mbufs = needs.mbufs.unwrap_or(held.unwrap_or(u32::MAX).saturating_add(in_flight));
    Pool { mbufs, data_room, in_flight }
}

/// The mbufs that are tied up whatever happens, by what they are for, of all
/// workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtWork {
    /// Descriptors of the ports' rings.
    pub rings: u32,
    /// Bursts, caches, and the reserve for frames that workers make.
    pub working_set: u32,
    /// Frames that wait for a port.
    pub backlog: u32,
    /// Frames on their way from one worker to another.
    pub handover: u32,
}

impl AtWork {
    /// Of one or more workers on two ports.
    pub(super) fn of(ports: [&Port; 2], worker: &Worker) -> Self {
        let workers = u32::from(worker.count);
        let rings: u32 = ports.iter().map(|p| u32::from(p.rx_desc) + u32::from(p.tx_desc)).sum();
        Self {
            rings: workers * rings,
            working_set: workers * WORKING_SET,
            backlog: workers * 2 * BACKLOG,
            handover: workers * (workers - 1) * 2 * u32::from(HANDOVER),
        }
    }

    /// All of them.
    pub fn sum(&self) -> u32 {
        self.rings + self.working_set + self.backlog + self.handover
    }
}

/// Bytes that recovery may hold in this role and mode.
pub(super) fn held_bytes(role: Role, recovery: &RecoverySettings) -> u64 {
    if recovery.mode == Recovery::Off {
        return 0;
    }
    let sentry = if role == Role::Depot { 0 } else { recovery.resend_cache };
    let depot = if role == Role::Sentry { 0 } else { recovery.reorder_pool + recovery.backup_pool };
    sentry + depot
}

/// The pages that DPDK's memory will be in, bytes; hugepages where they are
/// only wished for, since it depends on the machine.
pub(super) fn page(config: &Config) -> u64 {
    if config.eal.huge_pages == HugePages::Never { PAGE } else { HUGE_PAGE }
}

/// Whether `pool` fits into `memory` bytes of pages of `page` bytes, with
/// DPDK's own.
pub(super) fn fits(pool: &Pool, page: u64, memory: u64) -> bool {
    pool_fits(pool.mbufs.into(), pool.data_room, page, memory)
}

/// The least memory that `pool` fits into, bytes, a multiple of 1 MiB.
pub(super) fn least_memory(pool: &Pool, page: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    let filled = pool_memory(pool.mbufs.into(), pool.data_room, page).saturating_add(DPDK_OVERHEAD);
    let from = filled.div_ceil(MIB);
    // With twice as much nothing is taken in pieces.
    (from..=2 * from).find(|mib| fits(pool, page, mib * MIB)).unwrap_or(2 * from) * MIB
}

/// The most mbufs that fit into `memory` bytes, about.
pub(super) fn affordable(memory: u64, data_room: u16, page: u64) -> u32 {
    let fits = |mbufs| fits(&Pool { mbufs, data_room, in_flight: 0 }, page, memory);
    let (mut most, mut too_many) = (0, u32::MAX);
    while too_many - most > 1 {
        let middle = most + (too_many - most) / 2;
        if fits(middle) { most = middle } else { too_many = middle }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_affordable_fits() {
        for page in [PAGE, HUGE_PAGE] {
            for memory in [64 << 20, 512 << 20, 2 << 30] {
                let mbufs = affordable(memory, 9026, page);
                let pool = |mbufs| Pool { mbufs, data_room: 9026, in_flight: 0 };
                assert!(mbufs > 2000);
                assert!(fits(&pool(mbufs), page, memory));
                assert!(!fits(&pool(mbufs + 1), page, memory));
                let least = least_memory(&pool(mbufs), page);
                assert!(least <= memory && fits(&pool(mbufs), page, least));
            }
            assert_eq!(affordable(DPDK_OVERHEAD, 9026, page), 0);
        }
    }
}
