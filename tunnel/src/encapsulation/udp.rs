//! The encapsulation `udp`: the whole frame behind Ethernet, IP, UDP and the shim.

use core::net::IpAddr;

use common::frame::Headroom;
use common::wire::{MacAddr, UDP, rss_bucket_of_udp};

use super::{ETHER_LEN, MACS_LEN, Outer, OuterFault, Unwrapped, too_big};
use crate::division::Part;
use crate::ecn;
use crate::number::Lane;
use crate::shim::{self, Shim};

/// UDP port of the tunnel unless configured otherwise: of the range that nobody is assigned (RFC 6335).
pub const DEFAULT_PORT: u16 = 49791;
/// UDP source port of the first lane unless chosen otherwise; the others have the next ones.
pub const DEFAULT_SOURCE_PORT: u16 = 49152;

const UDP_LEN: usize = 8;
const V4_LEN: usize = ETHER_LEN + 20 + UDP_LEN;
const V6_LEN: usize = ETHER_LEN + 40 + UDP_LEN;
/// IPv4 "don't fragment".
const DONT_FRAGMENT: u8 = 0x40;
/// IPv4 "more fragments" and the offset.
const FRAGMENT: u16 = 0x3fff;
const TTL: u8 = 64;
/// The ECN field of a traffic class.
const ECN: u8 = 3;
/// EtherType of a VLAN tag (IEEE 802.1Q), and bytes of the tag.
const TAGGED: [u8; 2] = [0x81, 0x00];
const TAG_LEN: usize = 4;
/// The VLAN id of a tag: its priority is of no interest.
const VLAN: u16 = 0xfff;

/// Settings of the encapsulation through a routed network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdpConfig {
    /// MAC address of the WAN port.
    pub mac: MacAddr,
    /// Address of this box.
    pub address: IpAddr,
    /// Address of the peer, of the same family.
    pub peer: IpAddr,
    /// Destination port of both directions.
    pub port: u16,
    /// Source port of each lane, by which a network spreads the lanes. A lane beyond has the first one.
    pub source_ports: Vec<u16>,
    /// DSCP of the outer header, 0 to 63; `None`: that of the inner one.
    pub dscp: Option<u8>,
    /// VLAN of the WAN port, 1 to 4094; `None`: frames have no tag.
    pub vlan: Option<u16>,
}

/// The encapsulation through a routed network. R-TUN-21
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Udp {
    headers: Headers,
    next_hop: Option<MacAddr>,
    /// By lane; never empty.
    source_ports: Vec<u16>,
    /// In its place in a traffic class.
    dscp: Option<u8>,
    vlan: Option<u16>,
}

/// All headers, with zero for what differs between frames.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Headers {
    V4 {
        bytes: [u8; V4_LEN],
        /// The sum of their IP header.
        sum: u32,
    },
    V6([u8; V6_LEN]),
}

/// The source ports of so many lanes of a tunnel: of several tunnels, each has those by which a NIC of the peer gives
/// all of its lanes to the worker that has the tunnel, if the peer's number of workers divides that of the tunnels. `from` and `to` are the addresses, `port` the destination port. R-TUN-43
pub fn source_ports(part: Part, from: IpAddr, to: IpAddr, port: u16, lanes: u8) -> Vec<u16> {
    let tunnels = usize::from(part.division().tunnels());
    let is_ours = |source: &u16| {
        let bucket = rss_bucket_of_udp((from, *source), (to, port));
        tunnels == 1 || bucket % tunnels == usize::from(part.index())
    };
    (DEFAULT_SOURCE_PORT..=u16::MAX).filter(is_ours).take(lanes.into()).collect()
}

impl Outer for Udp {
    const MOVED: usize = 0;

    #[inline]
    fn shim_at(&self) -> usize {
        self.len()
    }

    #[inline]
    fn tag_len(&self) -> usize {
        Self::tag_len(self)
    }

    #[inline]
    fn wrap(&self, frame: &mut [u8], shim: &Shim, traffic_class: u8) {
        self.write(frame, shim.lane, self.outer_class(traffic_class));
        shim.write(&mut frame[self.len()..]);
    }

    #[inline]
    fn shim<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8; shim::LEN]> {
        let is_plain = self.look(frame).is_ok_and(|ecn| !ecn::changes(ecn));
        let (shim, inner) = frame.get(self.len()..)?.split_first_chunk()?;
        (is_plain && inner.len() >= ETHER_LEN).then_some(shim)
    }

    #[inline]
    fn unwrap<F: Headroom>(&self, frame: &mut F) {
        frame.shrink_front(self.len() + shim::LEN);
    }
}

impl Udp {
    /// Makes one without a next hop.
    ///
    /// # Panics
    /// If the addresses are of two families, or there is no source port.
    pub fn new(config: &UdpConfig) -> Self {
        assert!(!config.source_ports.is_empty(), "each lane has a source port");
        let headers = match (config.address, config.peer) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut bytes = [0; V4_LEN];
                bytes[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
                (bytes[20], bytes[22], bytes[23]) = (DONT_FRAGMENT, TTL, UDP);
                bytes[26..30].copy_from_slice(&src.octets());
                bytes[30..34].copy_from_slice(&dst.octets());
                let sum = bytes[14..34].chunks_exact(2).map(|word| u32::from(be16(word, 0))).sum();
                Headers::V4 { bytes, sum }
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut bytes = [0; V6_LEN];
                bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
                (bytes[20], bytes[21]) = (UDP, TTL);
                bytes[22..38].copy_from_slice(&src.octets());
                bytes[38..54].copy_from_slice(&dst.octets());
                Headers::V6(bytes)
            }
            (address, peer) => panic!("{address} and {peer} are of two families"),
        };
        let dscp = config.dscp.map(|dscp| dscp << 2);
        let source_ports = config.source_ports.clone();
        let mut udp = Self { headers, next_hop: None, source_ports, dscp, vlan: config.vlan };
        let all = udp.bytes_mut();
        all[6..MACS_LEN].copy_from_slice(&config.mac);
        let at = all.len() - UDP_LEN + 2;
        all[at..at + 2].copy_from_slice(&config.port.to_be_bytes());
        udp
    }

    /// The MAC address of the next hop, if it is known.
    pub const fn next_hop(&self) -> Option<MacAddr> {
        self.next_hop
    }

    pub(super) fn set_next_hop(&mut self, mac: Option<MacAddr>) {
        self.next_hop = mac;
        self.bytes_mut()[..6].copy_from_slice(&mac.unwrap_or_default());
    }

    /// Whether a frame says that a datagram to the peer is too long.
    pub(super) fn is_too_big(&self, frame: &[u8]) -> bool {
        match &self.headers {
            Headers::V4 { bytes, .. } => too_big::is_v4(frame, &bytes[30..34]),
            Headers::V6(bytes) => too_big::is_v6(frame, &bytes[38..54]),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.headers {
            Headers::V4 { bytes, .. } => bytes,
            Headers::V6(bytes) => bytes,
        }
    }

    /// Bytes of all headers.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.tag_len()
            + match self.headers {
                Headers::V4 { .. } => V4_LEN,
                Headers::V6(_) => V6_LEN,
            }
    }

    /// Bytes of the VLAN tag among them, which no MTU counts.
    #[inline]
    pub(super) const fn tag_len(&self) -> usize {
        if self.vlan.is_some() { TAG_LEN } else { 0 }
    }

    /// The outer traffic class of a frame: DSCP copied or set, ECN in RFC 6040's normal mode.
    #[inline]
    pub(super) fn outer_class(&self, inner: u8) -> u8 {
        self.dscp.map_or(inner, |dscp| dscp | ecn::outer(inner))
    }

    /// That of a frame with these headers.
    pub(super) fn class_of(&self, frame: &[u8]) -> u8 {
        let frame = &frame[self.tag_len()..];
        match self.headers {
            Headers::V4 { .. } => frame[15],
            Headers::V6(_) => frame[14] << 4 | frame[15] >> 4,
        }
    }

    /// Writes the headers at the start of a frame of any content.
    ///
    /// # Panics
    /// If it is shorter.
    #[inline]
    pub(super) fn write(&self, frame: &mut [u8], lane: Lane, class: u8) {
        let Some(vlan) = self.vlan else { return self.write_untagged(frame, lane, class) };
        self.write_untagged(&mut frame[TAG_LEN..], lane, class);
        frame.copy_within(TAG_LEN..TAG_LEN + MACS_LEN, 0);
        frame[MACS_LEN..ETHER_LEN].copy_from_slice(&TAGGED);
        frame[ETHER_LEN..ETHER_LEN + 2].copy_from_slice(&vlan.to_be_bytes());
    }

    #[inline]
    fn write_untagged(&self, frame: &mut [u8], lane: Lane, class: u8) {
        let all = frame.len();
        let port = self.source_ports.get(lane.index()).unwrap_or(&self.source_ports[0]);
        let port = port.to_be_bytes();
        match &self.headers {
            Headers::V4 { bytes, sum } => {
                let head = frame.first_chunk_mut::<V4_LEN>().expect("room was reserved");
                *head = *bytes;
                // No truncation: a frame is shorter than 2^16.
                let (ip_len, udp_len) = ((all - ETHER_LEN) as u16, (all - V4_LEN + UDP_LEN) as u16);
                let sum = fold(sum + u32::from(class) + u32::from(ip_len));
                head[15] = class;
                head[16..18].copy_from_slice(&ip_len.to_be_bytes());
                head[24..26].copy_from_slice(&(!sum).to_be_bytes());
                head[34..36].copy_from_slice(&port);
                head[38..40].copy_from_slice(&udp_len.to_be_bytes());
            }
            Headers::V6(bytes) => {
                let head = frame.first_chunk_mut::<V6_LEN>().expect("room was reserved");
                *head = *bytes;
                let udp_len = ((all - V6_LEN + UDP_LEN) as u16).to_be_bytes();
                head[14] |= class >> 4;
                head[15] = class << 4;
                // The flow label says as much as the port (RFC 6438).
                head[16..18].copy_from_slice(&port);
                head[18..20].copy_from_slice(&udp_len);
                head[54..56].copy_from_slice(&port);
                head[58..60].copy_from_slice(&udp_len);
            }
        }
    }

    /// The ECN field of a datagram of the peer. R-TUN-21
    ///
    /// # Errors
    /// The kind of any other frame.
    #[inline]
    pub(super) fn look(&self, frame: &[u8]) -> Result<u8, Unwrapped> {
        let frame = match self.vlan {
            None => frame,
            Some(vlan) => untagged(frame, vlan).ok_or(Unwrapped::Foreign)?,
        };
        let ecn = match &self.headers {
            Headers::V4 { bytes, .. } => v4(frame, bytes),
            Headers::V6(bytes) => v6(frame, bytes),
        };
        ecn.map_or_else(|| self.judge(frame), Ok)
    }

    /// The part of a frame that a port without VLAN sees as a frame, its MAC addresses aside, if the frame has a tag without a
    /// VLAN: a priority tag (IEEE 802.1Q).
    #[inline]
    pub(super) fn without_priority_tag<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        untagged(frame, 0).filter(|_| self.vlan.is_none())
    }

    /// Removes the priority tag of a frame that was not taken, and looks at the frame again; `None` if it has none.
    #[cold]
    pub(super) fn again<F: Headroom>(&self, frame: &mut F) -> Option<Result<u8, Unwrapped>> {
        self.without_priority_tag(frame.bytes())?;
        frame.bytes_mut().copy_within(..MACS_LEN, TAG_LEN);
        frame.shrink_front(TAG_LEN);
        Some(self.look(frame.bytes()))
    }

    /// A frame without its tag that is not a datagram of the peer as the peer sends it. A network may have filled in its UDP
    /// checksum.
    #[cold]
    fn judge(&self, frame: &[u8]) -> Result<u8, Unwrapped> {
        let is_v4 = matches!(self.headers, Headers::V4 { .. });
        match self.fault(frame, is_v4) {
            Some(OuterFault::Checksum) if is_summed(frame, is_v4) => {
                let class = if is_v4 { frame[15] } else { frame[15] >> 4 };
                Ok(class & ECN)
            }
            Some(fault) => Err(Unwrapped::Faulty(fault)),
            None => Err(Unwrapped::Foreign),
        }
    }

    /// `None` if it is not meant for the tunnel.
    fn fault(&self, frame: &[u8], is_v4: bool) -> Option<OuterFault> {
        let ip = frame.get(ETHER_LEN..)?;
        let (src, dst, ethertype, udp) = match &self.headers {
            Headers::V4 { bytes, .. } => (&bytes[26..30], &bytes[30..34], &bytes[12..14], 9),
            Headers::V6(bytes) => (&bytes[22..38], &bytes[38..54], &bytes[12..14], 6),
        };
        let at = if is_v4 { 12 } else { 8 };
        let addresses = ip.get(at..at + 2 * src.len())?;
        let (from, to) = addresses.split_at(src.len());
        let version = if is_v4 { 4 } else { 6 };
        let is_udp = frame[12..14] == *ethertype && ip[0] >> 4 == version && ip[udp] == UDP;
        if !is_udp || to != src {
            return None;
        }
        if is_v4 && be16(ip, 6) & FRAGMENT != 0 {
            return (from == dst).then_some(OuterFault::Fragment);
        }
        let l4 = if is_v4 { usize::from(ip[0] & 0xf) * 4 } else { 40 };
        let port = self.port();
        if ip.get(l4 + 2..l4 + 4)? != port {
            return None;
        }
        if from != dst {
            return Some(OuterFault::Source);
        }
        let is_plain = !is_v4 || l4 == 20 && usize::from(be16(ip, 2)) == ip.len();
        let is_plain = is_plain && (is_v4 || usize::from(be16(ip, 4)) + l4 == ip.len());
        let udp_len = ip.get(l4 + 4..l4 + UDP_LEN).map_or(0, |rest| be16(rest, 0));
        if !is_plain || l4 + usize::from(udp_len) != ip.len() || usize::from(udp_len) < UDP_LEN {
            return Some(OuterFault::Length);
        }
        Some(OuterFault::Checksum)
    }

    fn port(&self) -> &[u8] {
        match &self.headers {
            Headers::V4 { bytes, .. } => &bytes[36..38],
            Headers::V6(bytes) => &bytes[56..58],
        }
    }
}

/// The ECN field, if all is as a peer with the other end of these headers sends it.
#[inline]
fn v4(frame: &[u8], ours: &[u8; V4_LEN]) -> Option<u8> {
    let all = frame.len();
    let head = frame.first_chunk::<V4_LEN>()?;
    let is_ours = head[12..15] == ours[12..15]
        && head[23] == UDP
        && head[26..30] == ours[30..34]
        && head[30..34] == ours[26..30]
        && head[36..38] == ours[36..38]
        && usize::from(be16(head, 16)) == all - ETHER_LEN
        && usize::from(be16(head, 38)) == all - V4_LEN + UDP_LEN
        && be16(head, 20) & FRAGMENT == 0
        && be16(head, 40) == 0
        && is_sum_right(head);
    is_ours.then_some(head[15] & ECN)
}

/// The part of a frame behind the first four bytes, if the frame is tagged with this VLAN: all but the MAC addresses is then
/// where a frame without a tag has it.
#[inline]
fn untagged(frame: &[u8], vlan: u16) -> Option<&[u8]> {
    let is_tagged = frame.get(MACS_LEN..ETHER_LEN)? == TAGGED
        && be16(frame.get(ETHER_LEN..ETHER_LEN + 2)?, 0) & VLAN == vlan;
    is_tagged.then(|| &frame[TAG_LEN..])
}

/// Whether a datagram of which all lengths are right has a UDP checksum, and it and that of the IPv4 header are right.
fn is_summed(frame: &[u8], is_v4: bool) -> bool {
    let sum_of = |bytes: &[u8]| {
        let (words, rest) = bytes.as_chunks::<2>();
        let rest = rest.first().map_or(0, |last| u32::from(*last) << 8);
        words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum::<u32>() + rest
    };
    let (addresses, udp) = if is_v4 { (26, V4_LEN - UDP_LEN) } else { (22, V6_LEN - UDP_LEN) };
    let Some(datagram) = frame.get(udp..) else { return false };
    let is_header_right = !is_v4 || frame.first_chunk::<V4_LEN>().is_some_and(is_sum_right);
    // The pseudo header: addresses, protocol and length.
    let pseudo = sum_of(&frame[addresses..udp]) + u32::from(UDP) + datagram.len() as u32;
    is_header_right && be16(datagram, 6) != 0 && fold(pseudo + sum_of(datagram)) == 0xffff
}

/// The sum doesn't depend on the order of bytes (RFC 1071), so that words are read as they lie.
#[inline]
fn is_sum_right(head: &[u8; V4_LEN]) -> bool {
    let word = |at: usize| {
        u64::from(u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]))
    };
    let sum = word(14) + word(18) + word(22) + word(26) + word(30);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    fold(((sum & 0xffff) + (sum >> 16)) as u32) == 0xffff
}

/// As [`v4`].
#[inline]
fn v6(frame: &[u8], ours: &[u8; V6_LEN]) -> Option<u8> {
    let all = frame.len();
    let head = frame.first_chunk::<V6_LEN>()?;
    let is_ours = head[12..14] == ours[12..14]
        && head[14] >> 4 == 6
        && head[20] == UDP
        && head[22..38] == ours[38..54]
        && head[38..54] == ours[22..38]
        && head[56..58] == ours[56..58]
        && usize::from(be16(head, 18)) == all - V6_LEN + UDP_LEN
        && be16(head, 58) == be16(head, 18)
        && be16(head, 60) == 0;
    is_ours.then_some(head[15] >> 4 & ECN)
}

#[inline]
const fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The ones' complement sum in 16 bits of one in 32.
#[inline]
const fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum + (sum >> 16)) as u16
}
