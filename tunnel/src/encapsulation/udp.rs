//! The headers of the encapsulation `udp`.

use common::wire::{Addr, MacAddr};

use super::{ETHER_LEN, Outer};
use crate::ecn;
use crate::flow::network;

const UDP: u8 = 17;
const UDP_LEN: usize = 8;
const V4_LEN: usize = 20;
const V6_LEN: usize = 40;
/// IPv4 "more fragments" and fragment offset.
const FRAGMENT: u16 = 0x3fff;
const DONT_FRAGMENT: u8 = 0x40;
const TTL: u8 = 64;

/// UDP between the boxes' own addresses. R-TUN-21
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Udp {
    /// MAC address of the WAN port.
    pub mac: MacAddr,
    /// MAC address of the next hop.
    pub next_hop: MacAddr,
    /// Own address.
    pub src: Addr,
    /// That of the peer, of the same family.
    pub dst: Addr,
    /// Source port: the lane's entropy.
    pub src_port: u16,
    /// Destination port, of both directions.
    pub port: u16,
    /// DSCP of the outer header; `None`: that of the inner one.
    pub dscp: Option<u8>,
}

impl Udp {
    /// Bytes in front of the shim.
    pub(super) const fn len(&self) -> usize {
        ETHER_LEN + self.ip_len() + UDP_LEN
    }

    const fn ip_len(&self) -> usize {
        if is_v4(&self.src) { V4_LEN } else { V6_LEN }
    }

    /// Writes the headers of a frame that carries one of this traffic class.
    pub(super) fn write(&self, bytes: &mut [u8], inner: u8) {
        let dscp = self.dscp.unwrap_or(inner >> 2);
        let class = dscp << 2 | ecn::outer(inner);
        let (ether, rest) = bytes.split_at_mut(ETHER_LEN);
        ether[..6].copy_from_slice(&self.next_hop);
        ether[6..12].copy_from_slice(&self.mac);
        let (ip, rest) = rest.split_at_mut(self.ip_len());
        ip.fill(0);
        if is_v4(&self.src) {
            ether[12..].copy_from_slice(&[0x08, 0x00]);
            (ip[0], ip[1], ip[6], ip[8], ip[9]) = (0x45, class, DONT_FRAGMENT, TTL, UDP);
            ip[12..16].copy_from_slice(&self.src.as_bytes()[12..]);
            ip[16..20].copy_from_slice(&self.dst.as_bytes()[12..]);
        } else {
            ether[12..].copy_from_slice(&[0x86, 0xdd]);
            let label = u32::from(self.src_port);
            ip[..4].copy_from_slice(&(6 << 28 | u32::from(class) << 20 | label).to_be_bytes());
            (ip[6], ip[7]) = (UDP, TTL);
            ip[8..24].copy_from_slice(self.src.as_bytes());
            ip[24..40].copy_from_slice(self.dst.as_bytes());
        }
        rest[..2].copy_from_slice(&self.src_port.to_be_bytes());
        rest[2..4].copy_from_slice(&self.port.to_be_bytes());
        // No checksum: the frame has its own (RFC 6935).
        rest[4..UDP_LEN].fill(0);
        self.write_lengths(bytes);
    }

    /// Lengths and IPv4 checksum of a frame whose other fields are right.
    pub(super) fn write_lengths(&self, bytes: &mut [u8]) {
        let (l4, end) = (ETHER_LEN + self.ip_len(), bytes.len());
        let udp_len = ((end - l4) as u16).to_be_bytes();
        bytes[l4 + 4..l4 + 6].copy_from_slice(&udp_len);
        let ip = &mut bytes[ETHER_LEN..l4];
        if is_v4(&self.src) {
            ip[2..4].copy_from_slice(&((end - ETHER_LEN) as u16).to_be_bytes());
            ip[10..12].fill(0);
            let sum = ip.chunks_exact(2).map(|two| u32::from(be16(two))).sum::<u32>();
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = (sum & 0xffff) + (sum >> 16);
            ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        } else {
            ip[4..6].copy_from_slice(&udp_len);
        }
    }

    /// Whether a frame comes from the peer to this box.
    pub(super) fn look(&self, frame: &[u8]) -> Outer {
        self.find(frame).unwrap_or(Outer::Plain)
    }

    fn find(&self, frame: &[u8]) -> Option<Outer> {
        let (l3, ethertype) = network(frame);
        let rest = frame.get(l3..)?;
        let (class, is_ours, ip_len) = if is_v4(&self.src) {
            let ip = rest.first_chunk::<V4_LEN>()?;
            let is_udp = ethertype == 0x0800
                && (ip[0], ip[9]) == (0x45, UDP)
                && be16(&ip[6..]) & FRAGMENT == 0;
            let is_ours =
                ip[12..16] == self.dst.as_bytes()[12..] && ip[16..] == self.src.as_bytes()[12..];
            (ip[1], is_udp && is_ours, V4_LEN)
        } else {
            let ip = rest.first_chunk::<V6_LEN>()?;
            let is_udp = ethertype == 0x86dd && (ip[0] >> 4, ip[6]) == (6, UDP);
            let is_ours = ip[8..24] == *self.dst.as_bytes() && ip[24..] == *self.src.as_bytes();
            (ip[0] << 4 | ip[1] >> 4, is_udp && is_ours, V6_LEN)
        };
        let udp = rest.get(ip_len..)?.first_chunk::<UDP_LEN>()?;
        let is_ours = is_ours && be16(&udp[2..]) == self.port;
        // Tags of the WAN are removed with the headers only if there are none.
        (is_ours && l3 == ETHER_LEN).then_some(Outer::Tunnel { at: self.len(), ecn: class & 3 })
    }
}

const fn is_v4(addr: &Addr) -> bool {
    matches!(addr.as_bytes(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..])
}

fn be16(bytes: &[u8]) -> u16 {
    bytes.first_chunk().map_or(0, |two| u16::from_be_bytes(*two))
}
