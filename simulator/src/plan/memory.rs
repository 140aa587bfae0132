//! The memory of a pair of gateways on a link.

use common::time::Span;
use serde::Serialize;
use settings::sizing;

/// STATUS comes at least so often while data flows: half a round trip, but not
/// less than this (`depot::Config::status_interval`).
const SHORTEST_STATUS: Span = Span::from_micros(500);

/// The gateway's workers, and the settings of its ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    /// Workers.
    pub workers: u16,
    /// Descriptors of each ring: one for reception and one for transmission, per port and worker.
    pub descriptors: u16,
    /// MTU of the ports, bytes.
    pub mtu: u16,
}

/// Bytes of frames that one gateway may hold, in both of its roles. Pools are rounded up to
/// sizes as configurations have them: by a sixteenth at most, to whole MiB.
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
    /// mbufs for all of these at one frame per path MTU, and for rings and queues.
    pub mbufs: u64,
    /// Bytes of one mbuf with all that belongs to it.
    pub mbuf_size: u64,
    /// All of it, with DPDK's own part, in hugepages of 2 MiB: `lr2-gateway --check`
    /// calls it "for DPDK".
    pub total: u64,
    /// Hugepages of 2 MiB for that.
    pub hugepages: u64,
}

impl Memory {
    /// For a link of `rate` bit/s with the round trip `rtt`, whose hosts are
    /// `lan_rtt` away from their gateway.
    pub fn of(rate: u64, rtt: Span, lan_rtt: Span, loss: f64, pmtu: u16, ports: Ports) -> Self {
        let bytes_in = |time: Span| time.scale(rate, 8_000_000_000).as_nanos();
        let bdp = bytes_in(rtt);
        let reordered = (bdp as f64 * reordered_round_trips(loss)).ceil() as u64;
        let status = rtt.scale(1, 2).max(SHORTEST_STATUS);
        let resend_cache = round(bdp + bytes_in(status) + reordered);
        let reorder_pool = round(reordered);
        // ACKs are coalesced: as much again waits for the next one.
        let backup_pool = round(bytes_in(lan_rtt).saturating_mul(2));
        let held = resend_cache + reorder_pool + backup_pool;
        let at_work =
            sizing::mbufs_at_work(ports.workers.into(), 2, 4 * u32::from(ports.descriptors));
        let at_work: u32 = at_work.iter().map(|(mbufs, _)| mbufs).sum();
        let mbufs = held.div_ceil(pmtu.into()) + u64::from(at_work);
        let data_room = ports.mtu + sizing::FRAME_OVERHEAD;
        let mbuf_size = sizing::mbuf_size(data_room);
        let page = sizing::HUGE_PAGE;
        let total = sizing::pool_memory(mbufs, data_room, page) + sizing::DPDK_OVERHEAD;
        Self {
            bdp,
            resend_cache,
            reorder_pool,
            backup_pool,
            mbufs,
            mbuf_size,
            total,
            hugepages: total.div_ceil(page),
        }
    }
}

/// `bytes`, up to a multiple of the largest power of two that is at most a sixteenth of
/// them, and at least a MiB.
fn round(bytes: u64) -> u64 {
    let step = (bytes / 16).max(1 << 20);
    bytes.max(1).next_multiple_of(1 << step.ilog2())
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

    const PORTS: Ports = Ports { workers: 1, descriptors: 1024, mtu: 4180 };

    /// The bytes that are needed, and no more than a sixteenth above.
    fn enough(pool: u64, bytes: u64) -> bool {
        (bytes..=bytes + bytes / 16).contains(&pool) && pool.is_multiple_of(1 << 20)
    }

    #[test]
    fn the_pools_follow_from_the_bandwidth_delay_product() {
        let of = |loss| {
            let (rtt, lan) = (Span::from_millis(10), Span::from_micros(20));
            Memory::of(100_000_000_000, rtt, lan, loss, 4096, PORTS)
        };
        let m = of(1e-3);
        assert_eq!(m.bdp, 125_000_000);
        assert!(enough(m.reorder_pool, m.bdp));
        assert!(enough(m.resend_cache, m.bdp + m.bdp / 2 + m.bdp));
        assert_eq!(m.backup_pool, 1 << 20);
        assert!(enough(of(1e-2).reorder_pool, 2 * m.bdp));
        assert!(enough(of(0.5).reorder_pool, 3 * m.bdp));
        assert!(enough(of(0.0).reorder_pool, m.bdp));
        assert_eq!([1, 31 << 20, 417 << 20].map(round), [1 << 20, 31 << 20, 432 << 20]);
    }

    #[test]
    fn a_held_frame_takes_a_whole_mbuf() {
        let rtt = Span::from_millis(10);
        let m = Memory::of(100_000_000_000, rtt, Span::from_millis(1), 1e-3, 4096, PORTS);
        assert!(enough(m.backup_pool, 25_000_000));
        let held = m.resend_cache + m.reorder_pool + m.backup_pool;
        assert_eq!(m.mbufs, held.div_ceil(4096) + 8192);
        // MTU 4180, 26 of Ethernet, 256 of mbuf and headroom, 64 of the pool: 4526,
        // or 71 cache lines.
        assert_eq!(m.mbuf_size, 4544);
        let page = sizing::HUGE_PAGE;
        assert!(m.hugepages * page >= m.total && (m.hugepages - 1) * page < m.total);
        // Shorter packets, more of them.
        let short = Ports { mtu: 1500, ..PORTS };
        assert!(Memory::of(100_000_000_000, rtt, Span::ZERO, 1e-3, 1024, short).total > m.total);
    }
}
