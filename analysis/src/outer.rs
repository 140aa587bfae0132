//! Headers around a frame: where the frame inside an encapsulation begins, by the bytes that were captured.
//!
//! VXLAN (RFC 7348) and its generic extension, Geneve (RFC 8926), GRE (RFC 2784, 2890) and so NVGRE (RFC 7637), ERSPAN types
//! I to III, MPLS (RFC 3032) with IP or an Ethernet pseudowire (RFC 4448) inside, IP in IP.

use serde::Serialize;

const ETHER_LEN: usize = 14;
const VLAN_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// VLAN tags that a RoCEv2 frame may have.
const MOST_TAGS: usize = 2;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const MPLS: [u16; 2] = [0x8847, 0x8848];
/// Labels that are skipped.
const MOST_LABELS: usize = 16;
/// Transparent Ethernet bridging.
const BRIDGED: u16 = 0x6558;
const ERSPAN: u16 = 0x88be;
const ERSPAN_3: u16 = 0x22eb;

const IPV4_IN_IP: u8 = 4;
const UDP: u8 = 17;
const IPV6_IN_IP: u8 = 41;
const IPV6_FRAGMENT: u8 = 44;
const GRE: u8 = 47;

const UDP_LEN: usize = 8;
const BTH_LEN: usize = 12;
const ROCE_PORT: u16 = 4791;
const VXLAN_PORT: u16 = 4789;
const VXLAN_GPE_PORT: u16 = 4790;
const GENEVE_PORT: u16 = 6081;

/// An encapsulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outer {
    /// VXLAN, also with the generic extension.
    Vxlan,
    /// Geneve.
    Geneve,
    /// GRE, and so NVGRE.
    Gre,
    /// ERSPAN, types I to III: a mirror's copy.
    Erspan,
    /// MPLS.
    Mpls,
    /// IP in IP.
    Ip,
}

/// Of the RoCEv2 packets, those inside each encapsulation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Encapsulated {
    /// VXLAN.
    pub vxlan: u64,
    /// Geneve.
    pub geneve: u64,
    /// GRE, and so NVGRE.
    pub gre: u64,
    /// ERSPAN, types I to III.
    pub erspan: u64,
    /// MPLS.
    pub mpls: u64,
    /// IP in IP.
    pub ip: u64,
}

impl Encapsulated {
    /// Counts a packet.
    pub fn count(&mut self, outer: Outer) {
        *match outer {
            Outer::Vxlan => &mut self.vxlan,
            Outer::Geneve => &mut self.geneve,
            Outer::Gre => &mut self.gre,
            Outer::Erspan => &mut self.erspan,
            Outer::Mpls => &mut self.mpls,
            Outer::Ip => &mut self.ip,
        } += 1;
    }
}

/// The content of a frame, by its headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inside {
    /// A UDP datagram to the port of RoCEv2, whose BTH was captured; `end` of its IP packet.
    Roce {
        /// Offset behind the IP packet, by the length that it claims.
        end: usize,
    },
    /// Another Ethernet frame, from here on.
    Frame(Outer, usize),
    /// An IP packet without an Ethernet header, from here on, and its EtherType.
    Packet(Outer, usize, u16),
    /// The captured bytes end before its BTH, or before it is known to have none.
    Cut,
    /// The first fragment of an IP packet with RoCEv2 or an encapsulation, or a frame with too many VLAN tags.
    Unread,
    /// None of these.
    Other,
}

/// Looks into an Ethernet frame, of which `bytes` were captured.
pub fn look(bytes: &[u8]) -> Inside {
    walk(bytes).unwrap_or(Inside::Cut)
}

/// `None` if the bytes end too early.
fn walk(bytes: &[u8]) -> Option<Inside> {
    let mut at = ETHER_LEN;
    for _ in 0..=MOST_TAGS {
        let ethertype = be16(bytes, at - 2)?;
        if !VLAN_TAGS.contains(&ethertype) {
            return network(bytes, at, ethertype);
        }
        at += 4;
    }
    Some(Inside::Unread)
}

fn network(bytes: &[u8], at: usize, ethertype: u16) -> Option<Inside> {
    match ethertype {
        IPV4 => ipv4(bytes, at),
        IPV6 => ipv6(bytes, at),
        label if MPLS.contains(&label) => mpls(bytes, at),
        _ => Some(Inside::Other),
    }
}

fn ipv4(bytes: &[u8], at: usize) -> Option<Inside> {
    let fragment = be16(bytes, at + 6)?;
    let protocol = *bytes.get(at + 9)?;
    let next = at + usize::from(bytes[at] & 0xf) * 4;
    let end = at + usize::from(be16(bytes, at + 2)?);
    match fragment & 0x3fff {
        0 => transport(bytes, next, protocol, end),
        // Later fragments have no ports.
        offset if offset & 0x1fff != 0 => Some(Inside::Other),
        _ => fragment_of(bytes, next, protocol),
    }
}

fn ipv6(bytes: &[u8], at: usize) -> Option<Inside> {
    let (protocol, next) = (*bytes.get(at + 6)?, at + 40);
    let end = next + usize::from(be16(bytes, at + 4)?);
    if protocol != IPV6_FRAGMENT {
        return transport(bytes, next, protocol, end);
    }
    if be16(bytes, next + 2)? & 0xfff8 != 0 {
        return Some(Inside::Other);
    }
    fragment_of(bytes, next + 8, *bytes.get(next)?)
}

/// A first fragment: the rest can't be looked at, since the packet is not put together.
fn fragment_of(bytes: &[u8], at: usize, protocol: u8) -> Option<Inside> {
    let ports = [ROCE_PORT, VXLAN_PORT, VXLAN_GPE_PORT, GENEVE_PORT];
    let is_wanted = match protocol {
        UDP => ports.contains(&be16(bytes, at + 2)?),
        protocol => protocol == GRE,
    };
    Some(if is_wanted { Inside::Unread } else { Inside::Other })
}

fn transport(bytes: &[u8], at: usize, protocol: u8, end: usize) -> Option<Inside> {
    match protocol {
        UDP => udp(bytes, at, end),
        GRE => gre(bytes, at),
        IPV4_IN_IP => Some(Inside::Packet(Outer::Ip, at, IPV4)),
        IPV6_IN_IP => Some(Inside::Packet(Outer::Ip, at, IPV6)),
        _ => Some(Inside::Other),
    }
}

fn udp(bytes: &[u8], at: usize, end: usize) -> Option<Inside> {
    let payload = at + UDP_LEN;
    let flags = || bytes.get(payload).copied();
    match be16(bytes, at + 2)? {
        ROCE_PORT => (bytes.len() >= payload + BTH_LEN).then_some(Inside::Roce { end }),
        // Without a valid VNI it is none.
        VXLAN_PORT if flags()? & 0x08 != 0 => Some(Inside::Frame(Outer::Vxlan, payload + 8)),
        VXLAN_GPE_PORT => {
            let has_protocol = flags()? & 0x04 != 0;
            Some(match *bytes.get(payload + 3)? {
                1 if has_protocol => Inside::Packet(Outer::Vxlan, payload + 8, IPV4),
                2 if has_protocol => Inside::Packet(Outer::Vxlan, payload + 8, IPV6),
                3 => Inside::Frame(Outer::Vxlan, payload + 8),
                _ if !has_protocol => Inside::Frame(Outer::Vxlan, payload + 8),
                _ => Inside::Other,
            })
        }
        GENEVE_PORT => {
            let next = payload + 8 + usize::from(flags()? & 0x3f) * 4;
            Some(payload_of(Outer::Geneve, be16(bytes, payload + 2)?, next))
        }
        _ => Some(Inside::Other),
    }
}

fn payload_of(outer: Outer, ethertype: u16, at: usize) -> Inside {
    match ethertype {
        BRIDGED => Inside::Frame(outer, at),
        IPV4 | IPV6 => Inside::Packet(outer, at, ethertype),
        _ => Inside::Other,
    }
}

fn gre(bytes: &[u8], at: usize) -> Option<Inside> {
    let (flags, protocol) = (be16(bytes, at)?, be16(bytes, at + 2)?);
    // Another version, or source routes.
    if flags & 0x4007 != 0 {
        return Some(Inside::Other);
    }
    // Checksum, key, sequence number.
    let fields = [0x8000, 0x2000, 0x1000].into_iter().filter(|flag| flags & flag != 0).count();
    let next = at + 4 + 4 * fields;
    Some(match protocol {
        // Type I has no header of its own, type II has one and a sequence number.
        ERSPAN if flags & 0x1000 == 0 => Inside::Frame(Outer::Erspan, next),
        ERSPAN => Inside::Frame(Outer::Erspan, next + 8),
        ERSPAN_3 => {
            let word = be16(bytes, next + 10)?;
            let next = next + if word & 1 != 0 { 20 } else { 12 };
            match word >> 10 & 0x1f {
                0 => Inside::Frame(Outer::Erspan, next),
                2 if bytes.get(next)? >> 4 == 6 => Inside::Packet(Outer::Erspan, next, IPV6),
                2 => Inside::Packet(Outer::Erspan, next, IPV4),
                _ => Inside::Other,
            }
        }
        label if MPLS.contains(&label) => return mpls(bytes, next),
        ethertype => payload_of(Outer::Gre, ethertype, next),
    })
}

/// A stack of labels. No field says what is behind it: the first four bits do.
fn mpls(bytes: &[u8], at: usize) -> Option<Inside> {
    for label in 0..MOST_LABELS {
        let next = at + 4 * (label + 1);
        if bytes.get(next - 2)? & 1 == 0 {
            continue;
        }
        let first = *bytes.get(next)?;
        return Some(match first >> 4 {
            4 if first & 0xf >= 5 => Inside::Packet(Outer::Mpls, next, IPV4),
            6 => Inside::Packet(Outer::Mpls, next, IPV6),
            // A control word.
            0 => Inside::Frame(Outer::Mpls, next + 4),
            _ => Inside::Frame(Outer::Mpls, next),
        });
    }
    Some(Inside::Other)
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}
