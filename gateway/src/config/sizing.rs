//! How many mbufs it takes, and how much memory they take.
//!
//! Every frame that the gateway holds pins a whole mbuf. Rings, queues and
//! caches tie up some whatever happens; what is beyond them, recovery may
//! hold. A pool that recovery could empty would stop reception, and with it
//! the acknowledgements that free what is held.

use settings::sizing::{DPDK_OVERHEAD, FRAME_OVERHEAD, mbuf_size, pmtu};

use super::{Pool, Port, Recovery, RecoverySettings, Role};

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
    pub workers: u16,
    /// As the file says.
    pub mbufs: Option<u32>,
    /// As the file says.
    pub data_room: Option<u16>,
}

/// The pool with its defaults filled in.
pub(super) fn pool(needs: &Needs<'_>) -> Pool {
    let mtu = needs.ports.iter().map(|p| p.mtu).max().unwrap_or(0);
    let data_room = needs.data_room.unwrap_or(mtu + FRAME_OVERHEAD);
    let rings: u32 = needs.ports.iter().map(|p| u32::from(p.rx_desc) + u32::from(p.tx_desc)).sum();
    let workers = u32::from(needs.workers);
    let handover = (workers - 1) * 2 * u32::from(HANDOVER);
    let in_flight = workers * (rings + 2 * BACKLOG + WORKING_SET + handover);
    let held = u32::try_from(held_bytes(needs.role, needs.recovery).div_ceil(pmtu(mtu)));
    let mbufs = needs.mbufs.unwrap_or(held.unwrap_or(u32::MAX).saturating_add(in_flight));
    Pool { mbufs, data_room, in_flight }
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

/// Memory that `pool` takes, with DPDK's own, bytes.
pub(super) fn memory(pool: &Pool) -> u64 {
    u64::from(pool.mbufs) * mbuf_size(pool.data_room) + DPDK_OVERHEAD
}

/// The most mbufs that fit into `memory` bytes.
pub(super) fn affordable(memory: u64, data_room: u16) -> u64 {
    memory.saturating_sub(DPDK_OVERHEAD) / mbuf_size(data_room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_affordable_fits() {
        for memory in [64 << 20, 512 << 20, 2 << 30] {
            let mbufs = u32::try_from(affordable(memory, 9026)).unwrap();
            let fits = |mbufs| super::memory(&Pool { mbufs, data_room: 9026, in_flight: 0 });
            assert!(fits(mbufs) <= memory);
            assert!(fits(mbufs + 1) > memory);
        }
    }
}
