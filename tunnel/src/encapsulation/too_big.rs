//! The word of a router that a datagram of the tunnel is too long: ICMP "fragmentation needed", ICMPv6 "packet too big".

use super::ETHER_LEN;

/// Type and code of ICMP "fragmentation needed", and their protocol.
const ICMP: u8 = 1;
const FRAGMENTATION_NEEDED: [u8; 2] = [3, 4];
/// Type of ICMPv6 "packet too big", and its next header.
const ICMP_V6: u8 = 58;
const PACKET_TOO_BIG: u8 = 2;
/// Bytes of an ICMP header.
const ICMP_LEN: usize = 8;
const V6_LEN: usize = 40;

/// Whether a frame is such a message about an IPv4 packet to the address `peer`.
pub(super) fn is_v4(frame: &[u8], peer: &[u8]) -> bool {
    let Some(ip) = frame.get(ETHER_LEN..) else { return false };
    let [first, ..] = ip else { return false };
    let (is_v4, len) = (first >> 4 == 4, usize::from(first & 0xf) * 4);
    let is_icmp = frame.get(12..ETHER_LEN) == Some(&[8, 0]) && ip.get(9) == Some(&ICMP);
    let is_needed = ip.get(len..len + 2) == Some(&FRAGMENTATION_NEEDED);
    let about = ip.get(len + ICMP_LEN..).unwrap_or_default();
    is_v4 && is_icmp && is_needed && about.get(16..20) == Some(peer)
}

/// Whether a frame is such a message about an IPv6 packet to the address `peer`.
pub(super) fn is_v6(frame: &[u8], peer: &[u8]) -> bool {
    let Some(ip) = frame.get(ETHER_LEN..) else { return false };
    let is_icmp = frame.get(12..ETHER_LEN) == Some(&[0x86, 0xdd]) && ip.get(6) == Some(&ICMP_V6);
    let about = ip.get(V6_LEN + ICMP_LEN..).unwrap_or_default();
    is_icmp && ip.get(V6_LEN) == Some(&PACKET_TOO_BIG) && about.get(24..40) == Some(peer)
}
