//! The choice between paths of equal cost.

use common::wire::{Addr, Roce};

/// Which of several equal ports: by addresses and UDP source port, the same
/// for the responses.
pub(super) fn spread(roce: &Roce) -> usize {
    let fold = |addr: Addr| match addr.to_ip() {
        std::net::IpAddr::V4(ip) => u64::from(ip.to_bits()),
        std::net::IpAddr::V6(ip) => (ip.to_bits() ^ (ip.to_bits() >> 64)) as u64,
    };
    let key = (fold(roce.src) ^ fold(roce.dst)) << 16 ^ u64::from(roce.src_port);
    // SplitMix64's finish: neighbouring keys spread over all ports.
    let mixed = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) as usize >> 8
}
