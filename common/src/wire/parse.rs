//! One look at a frame.

use core::ops::Range;

use super::ext::{Aeth, AtomicEth, Deth, Reth};
use super::{
    Addr, BTH_LEN, Bth, ICRC_LEN, Opcode, PacketKind, Position, Qpn, ROCE_PORT, Transport, UDP,
    Vlans, be16, be32, ether, le32,
};
use crate::psn::Psn;

pub(super) const UDP_LEN: usize = 8;
pub(super) const IPV4_LEN: usize = 20;
pub(super) const IPV6_LEN: usize = 40;
/// IPv4 "more fragments" and fragment offset.
pub(super) const FRAGMENT: u16 = 0x3fff;

/// Longest READ whose responses a gateway follows, in PSNs: 256 MiB at a path
/// MTU of 4096. State per PSN limits it.
pub const MAX_SPAN: u32 = 1 << 16;

/// Where things are in a RoCEv2 frame, and the fields read in one look.
///
/// Offsets are in bytes from the start of the frame that was parsed. They
/// borrow nothing: the methods want that frame, or one as long, again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Roce {
    /// Offset of the IP header.
    pub l3: u16,
    /// Offset of the UDP header.
    pub l4: u16,
    /// Offset of the BTH.
    pub bth: u16,
    /// Offset of the payload behind the BTH and its extension headers.
    pub body: u16,
    /// One past the ICRC. Ethernet padding may follow.
    pub end: u16,
    /// The VLANs it is in.
    pub vlans: Vlans,
    /// Source IP address.
    pub src: Addr,
    /// Destination IP address.
    pub dst: Addr,
    /// UDP source port: the flow's entropy.
    pub src_port: u16,
    /// The opcode.
    pub opcode: Opcode,
    /// QP at the destination.
    pub dest_qpn: Qpn,
    /// Packet sequence number.
    pub psn: Psn,
    /// The responder is asked to acknowledge.
    pub ack_req: bool,
    /// A completion event is asked for.
    pub solicited: bool,
    /// Bytes between payload and ICRC, 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// ECN bits of the IP header: 0 not capable, 1 and 2 capable, 3 congestion
    /// experienced.
    pub ecn: u8,
}

const _: () = assert!(size_of::<Roce>() <= 64, "a burst of them is to stay in the cache");

/// Why a frame is none that we work on. It passes unchanged, unless it is addressed to
/// the next station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotRoce {
    /// A MAC control frame, PAUSE or PFC, under any VLAN tags: it is for the station at
    /// the other end of the cable, and no bridge forwards it (IEEE 802.3, 31).
    MacControl,
    /// Not RoCEv2: ARP, TCP, other UDP, IP fragments, IPv6 with extension
    /// headers, more than two VLAN tags, or too short to tell.
    Other,
    /// UDP destination 4791, but not as RoCEv2 has to be.
    Malformed(Malformed),
}

/// The fault of a frame that claims to be RoCEv2.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Malformed {
    /// The frame is shorter than its IP length.
    Truncated,
    /// The IP length is too small for a BTH and an ICRC, or beyond 64 KiB.
    IpLength,
    /// The UDP length differs from that implied by the IP length.
    UdpLength,
    /// The transport version isn't 0.
    Version,
    /// No room for the extension headers that the opcode asks for.
    Extension,
    /// More pad bytes than there is payload.
    Pad,
}

/// Looks at a frame. Never panics and never reads past the end, on any
/// bytes; all offsets returned lie within the frame.
///
/// Neither the ICRC (see [`icrc_ok`](super::icrc_ok)) nor the IPv4 header
/// checksum is looked at: a frame that only passes through needs neither.
///
/// # Errors
/// [`NotRoce`] if the frame is no well-formed RoCEv2.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Roce, NotRoce> {
    match Usual::of(frame) {
        Some(usual) => Ok(usual.roce()),
        None => parse_any(frame),
    }
}

/// A RoCEv2 frame as nearly all are: over IPv4 without VLAN tags and IP options, so that everything is where it always is.
pub(super) struct Usual<'a> {
    pub head: &'a [u8; USUAL],
    pub bth: Bth,
    body: usize,
    pub end: usize,
}

impl<'a> Usual<'a> {
    pub const L3: usize = ether::ETHER_LEN;
    const L4: usize = Self::L3 + IPV4_LEN;
    const BTH: usize = Self::L4 + UDP_LEN;
    /// Ethertype and first byte of the IP header.
    const IP: u32 = ether::IPV4.swap_bytes() as u32 | (NO_OPTIONS as u32) << 16;
    /// From the fragment field of the IP header on: what tells a fragment, and the protocol.
    const UNFRAGMENTED: u32 = FRAGMENT.swap_bytes() as u32 | 0xff << 24;

    /// The frame, if it is one.
    #[inline(always)]
    pub fn of(frame: &'a [u8]) -> Option<Self> {
        let head = frame.first_chunk::<USUAL>()?;
        // All that has to be as usual, in few words, which are compared as they lie in the frame.
        let ip = le32(head, Self::L3 - 2) ^ Self::IP;
        let udp = le32(head, Self::L3 + 6) ^ u32::from(UDP) << 24;
        let ports = be32(head, Self::L4 + 2);
        let total = u32::from(be16(head, Self::L3 + 2));
        let bth = Bth::from_bytes(head.last_chunk().unwrap_or(&[0; BTH_LEN]));
        let end = Self::L3 + total as usize;
        let body = USUAL + bth.opcode.ext_len();
        let is_usual = ip & 0xff_ffff | udp & Self::UNFRAGMENTED == 0
            && ports == (u32::from(ROCE_PORT) << 16 | total).wrapping_sub(IPV4_LEN as u32)
            && be32(head, 0) != ether::LINK_LOCAL
            && end <= frame.len()
            && end <= usize::from(u16::MAX)
            && head[Self::BTH + 1] & 0xf == 0
            && body + usize::from(bth.pad) + ICRC_LEN <= end;
        if is_usual { Some(Self { head, bth, body, end }) } else { None }
    }

    /// Bytes of payload, without pad and ICRC.
    #[inline(always)]
    pub fn payload_len(&self) -> usize {
        self.end - ICRC_LEN - usize::from(self.bth.pad) - self.body
    }

    #[inline(always)]
    fn roce(&self) -> Roce {
        let Self { head, bth, body, end } = self;
        let addr = |at| Addr::from_v4([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let addresses = [addr(Self::L3 + 12), addr(Self::L3 + 16)];
        let at = [Self::L3, Self::L4, Self::BTH, *body, *end];
        let (ecn, src_port) = (head[Self::L3 + 1] & 3, be16(*head, Self::L4));
        Roce::new(at, Vlans::NONE, addresses, ecn, src_port, bth)
    }
}

/// Bytes up to the end of the BTH, without VLAN tags and IP options.
const USUAL: usize = ether::ETHER_LEN + IPV4_LEN + UDP_LEN + BTH_LEN;
/// First byte of an IPv4 header without options.
const NO_OPTIONS: u8 = 4 << 4 | 5;

/// Any frame.
#[inline(never)]
pub(super) fn parse_any(frame: &[u8]) -> Result<Roce, NotRoce> {
    if ether::is_mac_control(frame) {
        return Err(NotRoce::MacControl);
    }
    let (l3, ethertype, vlans) = ether::parse(frame).ok_or(NotRoce::Other)?;
    let packet = &frame[l3..];
    let ip = match ethertype {
        ether::IPV4 => Ip::v4(packet),
        ether::IPV6 => Ip::v6(packet),
        _ => None,
    };
    parse_udp(frame, l3, vlans, ip.ok_or(NotRoce::Other)?)
}

/// The content of an IP header, about UDP in one piece.
struct Ip {
    /// Length of the header with options.
    header: usize,
    /// Length of header and payload together, as declared.
    total: usize,
    src: Addr,
    dst: Addr,
    ecn: u8,
}

impl Ip {
    #[inline(always)]
    fn v4(packet: &[u8]) -> Option<Self> {
        let ip = packet.first_chunk::<IPV4_LEN>()?;
        let header = usize::from(ip[0] & 0xf) * 4;
        let plain = ip[0] >> 4 == 4 && ip[9] == UDP && be16(ip, 6) & FRAGMENT == 0;
        (plain && header >= IPV4_LEN).then(|| Self {
            header,
            total: usize::from(be16(ip, 2)),
            src: Addr::from_v4([ip[12], ip[13], ip[14], ip[15]]),
            dst: Addr::from_v4([ip[16], ip[17], ip[18], ip[19]]),
            ecn: ip[1] & 3,
        })
    }

    #[inline(always)]
    fn v6(packet: &[u8]) -> Option<Self> {
        let ip = packet.first_chunk::<IPV6_LEN>()?;
        let (mut src, mut dst) = ([0; 16], [0; 16]);
        src.copy_from_slice(&ip[8..24]);
        dst.copy_from_slice(&ip[24..40]);
        (ip[0] >> 4 == 6 && ip[6] == UDP).then(|| Self {
            header: IPV6_LEN,
            total: IPV6_LEN + usize::from(be16(ip, 4)),
            src: Addr::from_v6(src),
            dst: Addr::from_v6(dst),
            ecn: ip[1] >> 4 & 3,
        })
    }
}

#[inline(always)]
fn parse_udp(frame: &[u8], l3: usize, vlans: Vlans, ip: Ip) -> Result<Roce, NotRoce> {
    let l4 = l3 + ip.header;
    let udp = frame.get(l4..).and_then(|b| b.first_chunk::<UDP_LEN>()).ok_or(NotRoce::Other)?;
    if be16(udp, 2) != ROCE_PORT {
        return Err(NotRoce::Other);
    }

    let end = l3 + ip.total;
    if ip.total < ip.header + UDP_LEN + BTH_LEN + ICRC_LEN || end > usize::from(u16::MAX) {
        return Err(NotRoce::Malformed(Malformed::IpLength));
    }
    if end > frame.len() {
        return Err(NotRoce::Malformed(Malformed::Truncated));
    }
    // Bytes behind the UDP payload but within the IP packet would make it
    // ambiguous where the ICRC is.
    if usize::from(be16(udp, 4)) != end - l4 {
        return Err(NotRoce::Malformed(Malformed::UdpLength));
    }

    let at = l4 + UDP_LEN;
    let raw = frame[at..].first_chunk::<BTH_LEN>().ok_or(NotRoce::Other)?;
    let bth = Bth::from_bytes(raw);
    if raw[1] & 0xf != 0 {
        return Err(NotRoce::Malformed(Malformed::Version));
    }
    let body = at + BTH_LEN + bth.opcode.ext_len();
    if body + ICRC_LEN > end {
        return Err(NotRoce::Malformed(Malformed::Extension));
    }
    if body + usize::from(bth.pad) + ICRC_LEN > end {
        return Err(NotRoce::Malformed(Malformed::Pad));
    }

    // None of the offsets exceeds `end`, which was seen to fit.
    Ok(Roce::new([l3, l4, at, body, end], vlans, [ip.src, ip.dst], ip.ecn, be16(udp, 0), &bth))
}

/// The path MTU, if a packet with `len` bytes of payload tells it.
pub(super) const fn path_mtu(opcode: Opcode, len: usize) -> Option<u16> {
    let full = matches!(opcode.kind().position(), Some(Position::First | Position::Middle));
    if full && matches!(len, 256 | 512 | 1024 | 2048 | 4096) { Some(len as u16) } else { None }
}

impl Roce {
    /// `at`: the offsets of the IP header, UDP header, BTH and payload, and of the end; none
    /// is above 65535.
    #[inline]
    const fn new(
        [l3, l4, bth_at, body, end]: [usize; 5],
        vlans: Vlans,
        [src, dst]: [Addr; 2],
        ecn: u8,
        src_port: u16,
        bth: &Bth,
    ) -> Self {
        Self {
            l3: l3 as u16,
            l4: l4 as u16,
            bth: bth_at as u16,
            body: body as u16,
            end: end as u16,
            vlans,
            src,
            dst,
            src_port,
            opcode: bth.opcode,
            dest_qpn: bth.dest_qpn,
            psn: bth.psn,
            ack_req: bth.ack_req,
            solicited: bth.solicited,
            pad: bth.pad,
            pkey: bth.pkey,
            ecn,
        }
    }

    /// The operation of an RC packet; [`PacketKind::Other`] for any other.
    #[inline]
    pub const fn kind(&self) -> PacketKind {
        self.opcode.kind()
    }

    /// Offset of the ICRC.
    pub const fn icrc_at(&self) -> usize {
        self.end as usize - ICRC_LEN
    }

    /// Payload in bytes, without pad and ICRC.
    #[inline]
    pub const fn payload_len(&self) -> usize {
        self.icrc_at() - self.pad as usize - self.body as usize
    }

    /// The payload; empty if `frame` is shorter than the one that was parsed.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        let start = usize::from(self.body);
        frame.get(start..start + self.payload_len()).unwrap_or_default()
    }

    /// Where the extension headers are.
    pub const fn extension(&self) -> Range<usize> {
        self.bth as usize + BTH_LEN..self.body as usize
    }

    /// The extension header of `N` bytes that starts `at` bytes behind the BTH.
    fn ext<'a, const N: usize>(&self, frame: &'a [u8], at: usize) -> Option<&'a [u8; N]> {
        frame.get(self.extension())?.get(at..)?.first_chunk()
    }

    /// The AETH of an ACK, NAK, atomic ACK or READ response (but a middle one).
    pub fn aeth(&self, frame: &[u8]) -> Option<Aeth> {
        let aeth = self.opcode.has_aeth().then(|| self.ext(frame, 0))?;
        aeth.map(Aeth::from_bytes)
    }

    /// The RETH of a READ request, a FLUSH, an ATOMIC WRITE, or a WRITE's first
    /// packet.
    pub fn reth(&self, frame: &[u8]) -> Option<Reth> {
        // FLUSH has an extension header of its own before it.
        let at = if self.opcode == Opcode::FLUSH { 4 } else { 0 };
        let reth = self.opcode.has_reth().then(|| self.ext(frame, at))?;
        reth.map(Reth::from_bytes)
    }

    /// The operands of an atomic.
    pub fn atomic_eth(&self, frame: &[u8]) -> Option<AtomicEth> {
        let eth = (self.kind() == PacketKind::Atomic).then(|| self.ext(frame, 0))?;
        eth.map(AtomicEth::from_bytes)
    }

    /// The value that an atomic found, from its ACK.
    pub fn atomic_original(&self, frame: &[u8]) -> Option<u64> {
        let eth = (self.kind() == PacketKind::AtomicAck).then(|| self.ext(frame, Aeth::LEN))?;
        eth.copied().map(u64::from_be_bytes)
    }

    /// Immediate data. It is the last of the extension headers.
    pub fn imm(&self, frame: &[u8]) -> Option<u32> {
        let at = self.opcode.ext_len().checked_sub(4)?;
        let imm = self.opcode.has_imm().then(|| self.ext(frame, at))?;
        imm.copied().map(u32::from_be_bytes)
    }

    /// The key that a SEND with invalidate invalidates.
    pub fn ieth(&self, frame: &[u8]) -> Option<u32> {
        let ieth = self.opcode.has_ieth().then(|| self.ext(frame, 0))?;
        ieth.copied().map(u32::from_be_bytes)
    }

    /// Whom a UD packet is from.
    pub fn deth(&self, frame: &[u8]) -> Option<Deth> {
        let deth = (self.opcode.transport() == Transport::Ud).then(|| self.ext(frame, 0))?;
        deth.map(Deth::from_bytes)
    }

    /// The path MTU, if this packet tells it: the first and middle packets of a
    /// message are full.
    pub const fn path_mtu(&self) -> Option<u16> {
        path_mtu(self.opcode, self.payload_len())
    }

    /// How many PSNs a request takes, as far as a gateway can tell: `None` if
    /// that depends on a path MTU that isn't known (0), or if it exceeds
    /// [`MAX_SPAN`] (R-READ-2).
    pub fn span(&self, frame: &[u8], pmtu: u16) -> Option<u32> {
        let span = match pmtu {
            // Within the smallest path MTU they are all the same.
            0 => (self.psn_count(frame, 256) == 1).then_some(1)?,
            _ => self.psn_count(frame, u32::from(pmtu)),
        };
        (span <= MAX_SPAN).then_some(span)
    }

    /// How many PSNs the packet takes: 1, but for a READ request as many as its
    /// response has packets of `pmtu` bytes.
    pub fn psn_count(&self, frame: &[u8], pmtu: u32) -> u32 {
        match self.kind() {
            PacketKind::ReadRequest => {
                self.reth(frame).map_or(1, |reth| super::read_responses(reth.len, pmtu))
            }
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A WRITE of 64 bytes over IPv4.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 8 + 12 + 64 + 4];
        frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x02]);
        frame[16..18].copy_from_slice(&108_u16.to_be_bytes());
        frame[23] = UDP;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[36..38].copy_from_slice(&ROCE_PORT.to_be_bytes());
        frame[38..40].copy_from_slice(&88_u16.to_be_bytes());
        frame[42..54].copy_from_slice(&[0x07, 0x40, 0xff, 0xff, 0, 0, 0, 9, 0x80, 0, 0, 5]);
        frame
    }

    #[test]
    fn the_frame_is_a_usual_one() {
        let roce = parse(&frame()).expect("RoCEv2");
        assert_eq!(
            (roce.opcode, roce.dest_qpn.get(), roce.psn.get()),
            (Opcode::WRITE_MIDDLE, 9, 5)
        );
        assert_eq!((roce.payload_len(), roce.ack_req, roce.ecn), (64, true, 2));
    }

    proptest! {
        /// Where the quick look accepts a frame, its result is that of the thorough one.
        #[test]
        fn a_quick_look_sees_what_a_thorough_one_does(
            changes in proptest::collection::vec((0..60_usize, any::<u8>()), 0..3),
            len in prop_oneof![Just(122_usize), 0..140_usize],
        ) {
            let mut frame = frame();
            for (at, value) in changes {
                frame[at] = value;
            }
            frame.resize(len, 0);
            prop_assert_eq!(parse(&frame), parse_any(&frame));
        }
    }
}
