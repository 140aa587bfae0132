//! The headers below the BTH, and packets made with them.

use core::net::IpAddr;

use super::bth::{BECN, MIGRATED, SWITCH};
use super::ether::{C_TAG, ETHER_LEN, IPV4, IPV6, MAX_TAGS, TAG_LEN};
use super::parse::{IPV4_LEN, IPV6_LEN, UDP_LEN};
use super::{
    Addr, Aeth, BTH_LEN, Bth, CNP_LEN, ICRC_LEN, MacAddr, Opcode, Qpn, ROCE_PORT, Roce, UDP, Vlans,
    be16, icrc,
};
use crate::psn::Psn;

/// TTL or hop limit of packets that start at this box.
pub const DEFAULT_TTL: u8 = 64;

const MAX_LEN: usize = ETHER_LEN + MAX_TAGS * TAG_LEN + IPV6_LEN + UDP_LEN;

/// IPv4 "don't fragment".
const DONT_FRAGMENT: u8 = 0x40;
const ECN: u8 = 3;
const ECN_CAPABLE: u8 = 2;
/// ToS or traffic class of a congestion notification packet: DSCP 48, as RNICs send it, so that networks serve it before data,
/// and no ECN.
const CNP_TOS: u8 = 48 << 2;

/// Ethernet, VLAN, IP and UDP headers of one direction of a flow, with which
/// further packets of it are made.
///
/// IPv4 options are not carried over. The migration bit of the BTH is, since
/// some RNICs always set it and others never.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headers {
    /// The headers as they will be sent, with zeros for lengths and checksums.
    bytes: [u8; MAX_LEN],
    /// Offset of the IP header in `bytes`.
    l3: u8,
    /// Offset of the UDP header in `bytes`.
    l4: u8,
    /// The migration bit in its place, or 0.
    migrated: u8,
    /// The switch bit in its place, or 0.
    switch: u8,
}

impl Headers {
    /// Those of a packet. A congestion mark (ECN) that it met on its way is its
    /// own, and is left out.
    ///
    /// # Panics
    /// If `frame` is shorter than the one that `roce` was parsed from.
    pub fn of(frame: &[u8], roce: &Roce) -> Self {
        let (from_l3, from_l4) = (usize::from(roce.l3), usize::from(roce.l4));
        let v4 = frame[from_l3] >> 4 == 4;
        let l3 = from_l3;
        let l4 = l3 + if v4 { IPV4_LEN } else { IPV6_LEN };

        let mut bytes = [0; MAX_LEN];
        bytes[..l4].copy_from_slice(&frame[..l4]);
        bytes[l4..l4 + UDP_LEN].copy_from_slice(&frame[from_l4..from_l4 + UDP_LEN]);
        // Lengths and checksums are each packet's own; `emit` counts on zeros.
        bytes[l4 + 4..l4 + UDP_LEN].fill(0);
        if v4 {
            bytes[l3] = 4 << 4 | 5;
            bytes[l3 + 2..l3 + 4].fill(0);
            bytes[l3 + 10..l3 + 12].fill(0);
        } else {
            bytes[l3 + 4..l3 + 6].fill(0);
        }
        let migrated = frame[usize::from(roce.bth) + 1] & MIGRATED;
        let mut headers = Self { bytes, l3: l3 as u8, l4: l4 as u8, migrated, switch: 0 };
        if roce.ecn == ECN {
            headers.set_tos(headers.tos() & !ECN | ECN_CAPABLE);
        }
        headers
    }

    /// Those of a host's packets. VLAN tags are plain 802.1Q with priority 0.
    ///
    /// # Panics
    /// If one address is IPv4 and the other IPv6.
    #[allow(clippy::too_many_arguments)] // They are the headers' fields, in the wire's order.
    pub fn new(
        src_mac: MacAddr,
        dst_mac: MacAddr,
        vlans: Vlans,
        src: IpAddr,
        dst: IpAddr,
        src_port: u16,
        tos: u8,
        ttl: u8,
    ) -> Self {
        let mut bytes = [0; MAX_LEN];
        bytes[..6].copy_from_slice(&dst_mac);
        bytes[6..12].copy_from_slice(&src_mac);
        let mut at = 12;
        for id in vlans.ids() {
            bytes[at..at + 2].copy_from_slice(&C_TAG.to_be_bytes());
            bytes[at + 2..at + 4].copy_from_slice(&id.to_be_bytes());
            at += TAG_LEN;
        }
        let l3 = at + 2;
        let (ethertype, l4) = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let ip = &mut bytes[l3..l3 + IPV4_LEN];
                ip[0] = 4 << 4 | 5;
                ip[6] = DONT_FRAGMENT;
                ip[8] = ttl;
                ip[9] = UDP;
                ip[12..16].copy_from_slice(&src.octets());
                ip[16..].copy_from_slice(&dst.octets());
                (IPV4, l3 + IPV4_LEN)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let ip = &mut bytes[l3..l3 + IPV6_LEN];
                ip[0] = 6 << 4;
                ip[6] = UDP;
                ip[7] = ttl;
                ip[8..24].copy_from_slice(&src.octets());
                ip[24..].copy_from_slice(&dst.octets());
                (IPV6, l3 + IPV6_LEN)
            }
            _ => panic!("a packet from {src} to {dst} would be of two IP families"),
        };
        bytes[at..l3].copy_from_slice(&ethertype.to_be_bytes());
        bytes[l4 + 2..l4 + 4].copy_from_slice(&ROCE_PORT.to_be_bytes());
        let mut headers = Self { bytes, l3: l3 as u8, l4: l4 as u8, migrated: 0, switch: 0 };
        headers.set_src_port(src_port);
        headers.set_tos(tos);
        headers
    }

    /// Those of the way back: MAC and IP addresses swapped, a fresh TTL, no ECN.
    /// VLAN tags, DSCP, the IPv6 flow label and the UDP source port stay.
    pub fn reversed(&self) -> Self {
        let mut back = self.clone();
        swap(&mut back.bytes[..12]);
        let addresses = if self.is_v4() { 12..20 } else { 8..40 };
        let ttl = if self.is_v4() { 8 } else { 7 };
        let ip = back.l3_mut();
        swap(&mut ip[addresses]);
        ip[ttl] = DEFAULT_TTL;
        back.set_tos(self.tos() & !ECN);
        back
    }

    /// Sets the UDP source port, which spreads flows over ECMP paths.
    pub fn set_src_port(&mut self, port: u16) {
        let at = usize::from(self.l4);
        self.bytes[at..at + 2].copy_from_slice(&port.to_be_bytes());
    }

    /// The UDP source port.
    pub fn src_port(&self) -> u16 {
        be16(&self.bytes, usize::from(self.l4))
    }

    /// Sets ToS or traffic class: DSCP in the upper six bits, ECN in the lower
    /// two.
    pub fn set_tos(&mut self, tos: u8) {
        let v4 = self.is_v4();
        let ip = self.l3_mut();
        if v4 {
            ip[1] = tos;
        } else {
            ip[0] = ip[0] & 0xf0 | tos >> 4;
            ip[1] = ip[1] & 0x0f | tos << 4;
        }
    }

    /// ToS or traffic class.
    pub fn tos(&self) -> u8 {
        let ip = &self.bytes[usize::from(self.l3)..];
        if self.is_v4() { ip[1] } else { ip[0] << 4 | ip[1] >> 4 }
    }

    /// Sets the identification of further IPv4 packets. Hosts count it up, and
    /// since they also forbid fragmentation nothing depends on it (RFC 6864).
    /// On IPv6 there is none, and this does nothing.
    pub fn set_ip_id(&mut self, id: u16) {
        if self.is_v4() {
            self.l3_mut()[4..6].copy_from_slice(&id.to_be_bytes());
        }
    }

    /// Sets the reserved bit of the BTHs that will be emitted that
    /// [`has_switch_bit`](super::has_switch_bit) looks at.
    pub fn set_switch_bit(&mut self, set: bool) {
        self.switch = if set { SWITCH } else { 0 };
    }

    /// The source MAC address.
    pub fn src_mac(&self) -> MacAddr {
        let b = &self.bytes;
        [b[6], b[7], b[8], b[9], b[10], b[11]]
    }

    /// The destination MAC address.
    pub fn dst_mac(&self) -> MacAddr {
        let b = &self.bytes;
        [b[0], b[1], b[2], b[3], b[4], b[5]]
    }

    /// The source IP address.
    pub fn src(&self) -> Addr {
        self.address(0)
    }

    /// The destination IP address.
    pub fn dst(&self) -> Addr {
        self.address(1)
    }

    /// One of the two IP addresses, by its position.
    fn address(&self, nth: usize) -> Addr {
        let ip = &self.bytes[usize::from(self.l3)..usize::from(self.l4)];
        if self.is_v4() {
            let (pair, _) = ip[12..].as_chunks();
            Addr::from_v4(pair[nth])
        } else {
            let (pair, _) = ip[8..].as_chunks();
            Addr::from_v6(pair[nth])
        }
    }

    /// Whether IPv4.
    pub fn is_v4(&self) -> bool {
        self.bytes[usize::from(self.l3)] >> 4 == 4
    }

    fn l3_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[usize::from(self.l3)..]
    }

    /// Length of the headers in front of the BTH.
    const fn len(&self) -> usize {
        self.l4 as usize + UDP_LEN
    }

    /// Length of a frame that has `ext_and_payload` bytes (pad included) between
    /// its BTH and its ICRC.
    pub const fn frame_len(&self, ext_and_payload: usize) -> usize {
        self.len() + BTH_LEN + ext_and_payload + ICRC_LEN
    }

    /// Writes a whole frame: these headers, `bth`, the output of `body` for the
    /// bytes between BTH and ICRC (extension headers, payload, pad), and then
    /// lengths, IPv4 checksum and ICRC. Each byte of `out` is written, given
    /// that `body` fills its slice.
    ///
    /// The UDP checksum is 0, as RNICs send it, on IPv6 too (A17).
    ///
    /// # Panics
    /// If `out` isn't [`frame_len`](Self::frame_len) of some body long, which
    /// is to say shorter than with an empty one, or beyond 64 KiB.
    pub fn emit(&self, bth: &Bth, out: &mut [u8], body: impl FnOnce(&mut [u8])) {
        let end = out.len();
        let (l3, l4, at) = (usize::from(self.l3), usize::from(self.l4), self.len());
        assert!(
            (self.frame_len(0)..=usize::from(u16::MAX)).contains(&end),
            "no RoCEv2 frame with these headers is {end} bytes long"
        );

        out[..at].copy_from_slice(&self.bytes[..at]);
        let ip_payload = ((end - l4) as u16).to_be_bytes();
        if self.is_v4() {
            let ip = &mut out[l3..l4];
            ip[2..4].copy_from_slice(&((end - l3) as u16).to_be_bytes());
            let checksum = internet_checksum(ip);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            out[l3 + 4..l3 + 6].copy_from_slice(&ip_payload);
        }
        out[l4 + 4..l4 + 6].copy_from_slice(&ip_payload);

        out[at..at + BTH_LEN].copy_from_slice(&bth.to_bytes());
        out[at + 1] |= self.migrated;
        out[at + BTH_LEN - 4] |= self.switch;
        body(&mut out[at + BTH_LEN..end - ICRC_LEN]);

        let crc = icrc::over(out, l3, l4, end - ICRC_LEN).to_le_bytes();
        out[end - ICRC_LEN..].copy_from_slice(&crc);
    }

    /// An ACK or NAK with these headers; its length is
    /// `frame_len(Aeth::LEN)`.
    ///
    /// # Panics
    /// If `out` has another length.
    pub fn emit_ack(&self, dest_qpn: Qpn, psn: Psn, aeth: Aeth, out: &mut [u8]) {
        self.emit(&Bth::new(Opcode::ACK, dest_qpn, psn), out, |body| {
            body.copy_from_slice(&aeth.to_bytes());
        });
    }

    /// A congestion notification packet with these headers but DSCP 48 and no ECN, of PSN 0; its
    /// length is `frame_len(CNP_LEN)`.
    ///
    /// # Panics
    /// If `out` has another length.
    pub fn emit_cnp(&self, dest_qpn: Qpn, out: &mut [u8]) {
        assert_eq!(out.len(), self.frame_len(CNP_LEN), "the length of a CNP");
        let mut headers = self.clone();
        headers.set_tos(CNP_TOS);
        headers.emit(&Bth::new(Opcode::CNP, dest_qpn, Psn::new(0)), out, |body| body.fill(0));
        // The ICRC takes this byte for ones, with any value.
        out[self.len() + 4] |= BECN;
    }
}

/// Swaps the two halves.
fn swap(pair: &mut [u8]) {
    let (a, b) = pair.split_at_mut(pair.len() / 2);
    a.swap_with_slice(b);
}

/// The checksum of an IPv4 header (RFC 1071); of one whose checksum is in place
/// it gives 0.
fn internet_checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(be16(pair, 0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded + (folded >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{has_switch_bit, icrc_ok, parse};

    fn headers(src: &str, dst: &str) -> Headers {
        let ip = |text: &str| text.parse().unwrap();
        Headers::new([2; 6], [4; 6], Vlans::new(7, 0), ip(src), ip(dst), 0xc001, 0xc0, 64)
    }

    #[test]
    fn a_cnp_says_so_backwards_and_is_intact() {
        for mut headers in [headers("10.0.0.1", "10.0.0.2"), headers("fd00::1", "fd00::2")] {
            // DSCP 26 of the data, ECN-capable.
            headers.set_tos(0x6a);
            let mut frame = vec![0xaa; headers.frame_len(CNP_LEN)];
            headers.emit_cnp(Qpn::new(0x123456), &mut frame);
            let roce = parse(&frame).unwrap();
            assert!(icrc_ok(&frame, &roce));
            assert_eq!((roce.opcode, roce.dest_qpn), (Opcode::CNP, Qpn::new(0x123456)));
            assert_eq!((roce.ack_req, roce.psn), (false, Psn::new(0)));
            assert_eq!(roce.payload(&frame), [0; CNP_LEN]);
            assert_eq!(frame[usize::from(roce.bth) + 4], 0x40);
            // DSCP 48, ECN 0, behind one VLAN tag.
            let tos = if headers.is_v4() { &[0x45, 0xc0][..] } else { &[0x6c, 0x00][..] };
            assert_eq!(&frame[18..20], tos);
        }
    }

    #[test]
    fn the_switch_bit_is_in_what_is_emitted_next() {
        let mut headers = headers("10.0.0.1", "10.0.0.2");
        for set in [false, true, false] {
            headers.set_switch_bit(set);
            let mut frame = vec![0; headers.frame_len(0)];
            let bth =
                Bth { ack_req: true, ..Bth::new(Opcode::SEND_ONLY, Qpn::new(1), Psn::new(2)) };
            headers.emit(&bth, &mut frame, |_| ());
            let roce = parse(&frame).unwrap();
            assert!(icrc_ok(&frame, &roce) && roce.ack_req);
            assert_eq!(has_switch_bit(&frame, &roce), set);
        }
    }
}
