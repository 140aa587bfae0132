//! What memory packets take that are kept.
//!
//! Every frame that a gateway holds pins a whole DPDK mbuf, however short it
//! is: a buffer for the largest frame of the port, `struct rte_mbuf`, headroom,
//! and what the pool adds to each of its objects.

/// Bytes of a frame beyond its MTU: Ethernet header, two VLAN tags, FCS.
pub const FRAME_OVERHEAD: u16 = 14 + 2 * 4 + 4;

/// Memory that DPDK takes for itself and its ports' rings, bytes.
pub const DPDK_OVERHEAD: u64 = 32 << 20;

/// `struct rte_mbuf` and the default headroom, bytes.
const MBUF_OVERHEAD: u64 = 128 + 128;

/// Object header of a mempool and its padding to memory channels, bytes.
const MEMPOOL_OVERHEAD: u64 = 128;

/// IPv6, UDP, BTH, RETH, ImmDt and ICRC: what a RoCE packet has at most beside
/// its payload and the Ethernet header, bytes.
const ROCE_HEADERS: u16 = 40 + 8 + 12 + 16 + 4 + 4;

/// The path MTUs of RoCE (InfiniBand has five), bytes of payload.
pub const PMTUS: [u32; 5] = [256, 512, 1024, 2048, 4096];

/// Bytes of one mbuf for frames of up to `data_room` bytes, with all that
/// belongs to it.
pub fn mbuf_size(data_room: u16) -> u64 {
    (MBUF_OVERHEAD + u64::from(data_room)).next_multiple_of(64) + MEMPOOL_OVERHEAD
}

/// The largest path MTU within an Ethernet MTU: the payload of most frames
/// that are held.
pub fn pmtu(mtu: u16) -> u64 {
    let room = u32::from(mtu.saturating_sub(ROCE_HEADERS));
    PMTUS.into_iter().rfind(|p| *p <= room).unwrap_or(PMTUS[0]).into()
}

/// The smallest Ethernet MTU that carries a path MTU.
pub fn mtu(pmtu: u16) -> u16 {
    pmtu + ROCE_HEADERS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pmtu_leaves_room_for_headers() {
        assert_eq!([9000, 4200, 4096, 1500, 576].map(pmtu), [4096, 4096, 2048, 1024, 256]);
        for p in PMTUS {
            let mtu = mtu(u16::try_from(p).unwrap());
            assert_eq!(pmtu(mtu), p.into());
            assert!(p == 256 || pmtu(mtu - 1) < p.into());
        }
    }

    #[test]
    fn an_mbuf_is_more_than_its_frame() {
        // 256 + 9026 bytes up to the next cache line, and 128.
        assert_eq!(mbuf_size(9026), 9344 + 128);
    }
}
