//! The memory of a pair of gateways on a link.

use common::time::Span;
use serde::Serialize;
use settings::sizing;

/// STATUS comes at least so often while data flows: half a round trip, but not
/// less than this (`depot::Config::status_interval`).
const SHORTEST_STATUS: Span = Span::from_micros(500);

/// Size of a hugepage, bytes.
const HUGEPAGE: u64 = 2 << 20;

/// mbufs that ports and queues of a gateway always tie up: its
/// default rings, backlog and working set.
const MBUFS_AT_WORK: u64 = 4 * 1024 + 2 * 1024 + 2048;

/// Bytes of frames that one gateway may hold, in both of its roles.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Memory {
    /// Bandwidth-delay product of the long-haul round trip.
    pub bdp: u64,
    /// Sentry: packets that are not known to have arrived in order. Data in flight for a
    /// round trip and until the next STATUS, and packets held behind a gap.
    pub resend_cache: u64,
    /// Depot: packets held behind a gap.
    pub reorder_pool: u64,
    /// Depot: packets that its destination has not acknowledged.
    pub backup_pool: u64,
    /// mbufs for all of these at one frame per path MTU, and for the ports.
    pub mbufs: u64,
    /// Bytes of one mbuf with all that belongs to it.
    pub mbuf_size: u64,
    /// All of it, with DPDK's own part.
    pub total: u64,
    /// Hugepages of 2 MiB for that.
    pub hugepages: u64,
}

impl Memory {
    /// For a link of `rate` bit/s with the round trip `rtt`, whose hosts are
    /// `lan_rtt` away from their gateway.
    pub fn of(rate: u64, rtt: Span, lan_rtt: Span, loss: f64, pmtu: u16) -> Self {
        let bytes_in = |time: Span| time.scale(rate, 8_000_000_000).as_nanos();
        let bdp = bytes_in(rtt);
        let reorder_pool = (bdp as f64 * reordered_round_trips(loss)).ceil() as u64;
        let status = rtt.scale(1, 2).max(SHORTEST_STATUS);
        let resend_cache = bdp + bytes_in(status) + reorder_pool;
        // ACKs are coalesced: as much again waits for the next one.
        let backup_pool = bytes_in(lan_rtt).saturating_mul(2).max(1 << 20);
        let held = resend_cache + reorder_pool + backup_pool;
        let mbufs = held.div_ceil(pmtu.into()) + MBUFS_AT_WORK;
        let mbuf_size = sizing::mbuf_size(sizing::mtu(pmtu) + sizing::FRAME_OVERHEAD);
        let total = mbufs * mbuf_size + sizing::DPDK_OVERHEAD;
        Self {
            bdp,
            resend_cache,
            reorder_pool,
            backup_pool,
            mbufs,
            mbuf_size,
            total,
            hugepages: total.div_ceil(HUGEPAGE),
        }
    }
}

/// How many bandwidth-delay products wait behind gaps at most: about one at a
/// loss of 1e-3, two at 1e-2, where repeats are lost as well (slot simulation).
/// In between and up to 1e-1 by the logarithm of the loss.
pub fn reordered_round_trips(loss: f64) -> f64 {
    if loss > 0.0 { (1.0 + (loss / 1e-3).log10()).clamp(1.0, 3.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pools_follow_from_the_bandwidth_delay_product() {
        let of = |loss| {
            let (rtt, lan) = (Span::from_millis(10), Span::from_micros(20));
            Memory::of(100_000_000_000, rtt, lan, loss, 4096)
        };
        let m = of(1e-3);
        assert_eq!(m.bdp, 125_000_000);
        assert_eq!(m.reorder_pool, m.bdp);
        assert_eq!(m.resend_cache, m.bdp + m.bdp / 2 + m.reorder_pool);
        assert_eq!(m.backup_pool, 1 << 20);
        assert_eq!(of(1e-2).reorder_pool, 2 * m.bdp);
        assert_eq!(of(0.5).reorder_pool, 3 * m.bdp);
        assert_eq!(of(0.0).reorder_pool, m.bdp);
    }

    #[test]
    fn a_held_frame_takes_a_whole_mbuf() {
        let rtt = Span::from_millis(10);
        let m = Memory::of(100_000_000_000, rtt, Span::from_millis(1), 1e-3, 4096);
        assert_eq!(m.backup_pool, 25_000_000);
        let held = m.resend_cache + m.reorder_pool + m.backup_pool;
        assert_eq!(m.mbufs, held.div_ceil(4096) + 8192);
        // MTU 4180, 26 of Ethernet, 256 of mbuf and headroom, 64 of the pool: 4526,
        // or 71 cache lines.
        assert_eq!(m.mbuf_size, 4544);
        assert!(m.hugepages * HUGEPAGE >= m.total && (m.hugepages - 1) * HUGEPAGE < m.total);
        // Shorter packets, more of them.
        assert!(Memory::of(100_000_000_000, rtt, Span::ZERO, 1e-3, 1024).total > m.total);
    }
}
