//! Finds the tunnel's frames among others by their headers alone: for captures, which know no session.

use common::wire::UDP;

use super::{DEFAULT_ETHERTYPE, DEFAULT_PORT, ETHER_LEN};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];

/// How to know the tunnel's frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// EtherType with `wan.tunnel = "ethernet"`.
    pub ethertype: u16,
    /// UDP destination port with `"udp"`.
    pub port: u16,
}

impl Default for Marks {
    fn default() -> Self {
        Self { ethertype: DEFAULT_ETHERTYPE, port: DEFAULT_PORT }
    }
}

/// Where a shim is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its offset.
    pub at: usize,
    /// The addresses of the frame inside stand before the shim, as with `ethernet`: they are the first 12 bytes of the frame outside. Otherwise
    /// they follow the shim.
    pub addresses_before: bool,
}

impl Marks {
    /// Where the shim of a frame is, if it has one. Up to two VLAN tags may precede it.
    pub fn shim(&self, frame: &[u8]) -> Option<Place> {
        let (ethertype, l3) = network_header(frame)?;
        if ethertype == self.ethertype {
            return Some(Place { at: l3, addresses_before: true });
        }
        let at = udp_payload(frame, ethertype, l3, self.port)?;
        Some(Place { at, addresses_before: false })
    }
}

/// The EtherType behind up to two VLAN tags, and where what follows it begins.
fn network_header(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = ETHER_LEN;
    for _ in 0..3 {
        let ethertype = be16(frame, at - 2)?;
        if !VLAN_TAGS.contains(&ethertype) {
            return Some((ethertype, at));
        }
        at += 4;
    }
    None
}

/// Where the payload of a UDP datagram to `port` begins.
fn udp_payload(frame: &[u8], ethertype: u16, l3: usize, port: u16) -> Option<usize> {
    let ip = frame.get(l3..)?;
    let (protocol, len) = match ethertype {
        IPV4 => (*ip.get(9)?, usize::from(ip[0] & 0xf) * 4),
        IPV6 => (*ip.get(6)?, 40),
        _ => return None,
    };
    let l4 = l3 + len;
    (protocol == UDP && be16(frame, l4 + 2)? == port).then_some(l4 + 8)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}
