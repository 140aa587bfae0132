//! The choice between paths of equal cost.

use common::wire::{Addr, Roce, flow_hash, parse};
use tunnel::encapsulation::DEFAULT_ETHERTYPE;

/// Where the EtherType of an untagged frame lies, and the lane of a frame of the tunnel with `ethernet`.
const ETHERTYPE: usize = 12;
const LANE: usize = 15;

/// Which of `count` paths a frame takes: by addresses and ports, as a network of routers has it; a frame of the tunnel
/// with `ethernet` has none, and takes the path that its lane is joined to.
pub fn path_of(frame: &[u8], count: usize) -> usize {
    if count == 1 {
        return 0;
    }
    let is_tunnel = frame
        .get(ETHERTYPE..)
        .is_some_and(|rest| rest.starts_with(&DEFAULT_ETHERTYPE.to_be_bytes()));
    let choice = match (is_tunnel, parse(frame)) {
        (true, _) => frame.get(LANE).copied().map_or(0, usize::from),
        // Other bits than those that a switch chooses a port by.
        (false, Ok(roce)) => spread(&roce) >> 24,
        (false, Err(_)) => flow_hash(frame) as usize,
    };
    choice % count
}

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
