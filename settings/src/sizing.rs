//! Memory of kept packets.
//!
//! Every frame that a gateway holds pins a whole DPDK mbuf, however short it
//! is: a buffer for the largest frame of the port, `struct rte_mbuf`, headroom,
//! and the pool's overhead for each of its objects. An object smaller than
//! a page does not cross one (`rte_mempool_op_populate_helper` of DPDK 22.11), so
//! the size of pages counts: in ordinary ones one of 2.1 KiB takes a whole page.

/// Bytes of a frame beyond its MTU: Ethernet header, two VLAN tags, FCS.
pub const FRAME_OVERHEAD: u16 = 14 + 2 * 4 + 4;

/// Memory that DPDK takes for itself and its ports' rings, bytes.
pub const DPDK_OVERHEAD: u64 = 32 << 20;

/// An ordinary page, bytes.
pub const PAGE: u64 = 4 << 10;

/// The smallest hugepage of x86, bytes. Where there are larger ones as well,
/// DPDK's pools still use this one.
pub const HUGE_PAGE: u64 = 2 << 20;

/// Mbufs of one worker for bursts in progress, its mempool cache, and the frames that it makes.
pub const WORKING_SET: u32 = 2048;

/// Frames that may wait at each worker for each of the two ports, beyond its
/// ring and beyond the frames that the pools hold.
pub const BACKLOG: u32 = 1024;

/// Frames that may be on their way from one worker to another, per port.
pub const HANDOFF: u16 = 512;

/// Mbufs that rings, queues and caches of a gateway with so many workers tie up, by use.
/// `descriptors`: of all rings of one worker, all ports, reception and transmission.
pub const fn mbufs_at_work(workers: u32, ports: u32, descriptors: u32) -> [(u32, &'static str); 4] {
    [
        (workers * descriptors, "rings of both ports"),
        (workers * WORKING_SET, "bursts in progress and workers' own frames"),
        (workers * 2 * BACKLOG, "egress queues"),
        (workers * (workers - 1) * ports * HANDOFF as u32, "handoff between workers"),
    ]
}

/// `struct rte_mbuf` and the default headroom, bytes.
const MBUF_OVERHEAD: u64 = 128 + 128;

/// Before each object of a mempool, bytes.
const OBJECT_HEADER: u64 = 64;

/// A cache line, bytes.
const LINE: u64 = 64;

/// IPv6, UDP, BTH, RETH, ImmDt and ICRC: the most bytes of a RoCE packet beside
/// its payload and the Ethernet header.
const ROCE_HEADERS: u16 = 40 + 8 + 12 + 16 + 4 + 4;

/// The path MTUs of RoCE (InfiniBand has five), bytes of payload.
pub const PMTUS: [u32; 5] = [256, 512, 1024, 2048, 4096];

/// Bytes of one mbuf for frames of up to `data_room` bytes, with all that
/// belongs to it.
pub fn mbuf_size(data_room: u16) -> u64 {
    let lines = (OBJECT_HEADER + MBUF_OVERHEAD + u64::from(data_room)).div_ceil(LINE);
    // An odd number of lines, so that the mbufs' beginnings spread over four
    // memory channels, DPDK's guess.
    (lines | 1) * LINE
}

/// Bytes that a pool of `mbufs` in pages of `page` bytes fills, with the store
/// of the free ones.
pub fn pool_memory(mbufs: u64, data_room: u16, page: u64) -> u64 {
    let size = mbuf_size(data_room);
    let objects = match page / size {
        0 => mbufs.saturating_mul(size).saturating_add(page),
        in_a_page => mbufs.div_ceil(in_a_page).saturating_mul(page),
    };
    objects.saturating_add(store_memory(mbufs))
}

/// Whether DPDK can make a pool of `mbufs` in `memory` bytes and has enough
/// left for itself and ports.
///
/// For mbufs larger than a page it asks for whole pages for each, takes half as
/// much as long as it can't have that, and fills the memory it gets without gaps
/// (`rte_mempool_populate_default`). The excess of the last piece is lost.
pub fn pool_fits(mbufs: u64, data_room: u16, page: u64, memory: u64) -> bool {
    pools_fit(&[(mbufs, data_room)], page, memory)
}

/// The same for several pools, each of so many mbufs for frames of so many bytes, made one after the other.
pub fn pools_fit(pools: &[(u64, u16)], page: u64, memory: u64) -> bool {
    let sum = |all: &dyn Fn(u64, u16) -> u64| {
        pools.iter().fold(0_u64, |sum, (mbufs, room)| sum.saturating_add(all(*mbufs, *room)))
    };
    let least = sum(&|mbufs, room| pool_memory(mbufs, room, page)).saturating_add(DPDK_OVERHEAD);
    if least > memory {
        return false;
    }
    if pools.iter().all(|(_, room)| mbuf_size(*room) <= page) {
        return true;
    }
    let heap = memory - sum(&|mbufs, _| store_memory(mbufs));
    let rest = |heap: u64| {
        pools.iter().fold(heap, |heap, (mbufs, room)| match mbuf_size(*room) {
            size if size <= page => heap.saturating_sub(pool_memory(*mbufs, *room, page)),
            size => filled(*mbufs, size, page, heap),
        })
    };
    // DPDK's own use before that isn't known to the byte.
    (0..=4).all(|mib| rest(heap - (mib << 20)) >= DPDK_OVERHEAD / 2)
}

/// The rest of `heap` bytes when `mbufs` larger than a page are in it.
fn filled(mbufs: u64, size: u64, page: u64, heap: u64) -> u64 {
    let (mut wanted, mut free, mut piece) = (mbufs, heap, u64::MAX);
    while wanted > 0 {
        let asked = wanted.saturating_mul(size.next_multiple_of(page)).min(piece);
        if asked <= free {
            free -= asked;
            wanted = wanted.saturating_sub(asked / size);
        } else if asked <= size {
            return 0;
        } else {
            piece = asked / 2;
        }
    }
    free
}

/// The store of a pool's free mbufs: stacks of pointers, with room for twice as many as there are
/// (`dpdk-sys-wrapper/src/store.c`).
const fn store_memory(mbufs: u64) -> u64 {
    mbufs.saturating_mul(16)
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

    /// As `rte_mempool_dump` shows them (`total_obj_size`; its sizes have the
    /// headroom in them), of DPDK 22.11.
    #[test]
    fn an_mbuf_is_more_than_its_frame() {
        assert_eq!([9026, 4206].map(mbuf_size), [9408, 4544]);
    }

    #[test]
    fn no_mbuf_crosses_a_page_that_it_fits_into() {
        // 222, 2 and 1 in a page, and as they come. The store: 16 bytes for each.
        assert_eq!(pool_memory(223, 9026, HUGE_PAGE), 2 * HUGE_PAGE + 16 * 223);
        assert_eq!(pool_memory(2048, 1526, PAGE), 1024 * PAGE + 16 * 2048);
        assert_eq!(pool_memory(2047, 2226, PAGE), 2047 * PAGE + 16 * 2047);
        assert_eq!(pool_memory(2047, 4206, PAGE), 2047 * 4544 + PAGE + 16 * 2047);
        assert_eq!(pool_memory(u64::MAX, 9026, PAGE), u64::MAX);
    }

    /// Tried with DPDK 22.11: with 327 MiB in ordinary pages there is a pool of
    /// 32,768, and no memory left for a port.
    #[test]
    fn a_pool_of_large_mbufs_takes_its_memory_in_pieces() {
        let fits = |mbufs: u64, mib: u64| pool_fits(mbufs, 9026, PAGE, mib << 20);
        assert!(!fits(32_768, 300) && !fits(32_768, 327));
        assert!(fits(32_768, 350) && fits(32_768, 420));
        assert!(fits(49_152, 512));
        assert!(!fits(u64::MAX, 1 << 40));
        // Two of half the size, made one after the other.
        let two = |mib: u64| pools_fit(&[(16_384, 9026); 2], PAGE, mib << 20);
        assert!(!two(300) && two(420));
        // Smaller ones come in whole pages at once.
        assert!(pool_fits(32_768, 9026, HUGE_PAGE, 330 << 20));
    }
}
