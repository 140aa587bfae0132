//! The headers of a frame, read once.

use super::parse::{FRAGMENT, IPV4_LEN, IPV6_LEN, UDP_LEN};
use super::{
    Addr, Aeth, AethKind, BTH_LEN, Opcode, ROCE_PORT, Transport, UDP, be16, ether, flow_hash,
    is_mac_control,
};
use crate::control::MAGIC;

/// The sort of a frame, by transport and opcode. [Notable](Sort::is_notable) sorts are the last ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Sort {
    /// No RoCEv2, or not with a whole BTH.
    Other,
    /// A packet of the transport UD, or a CNP: it needs no order.
    Datagram,
    /// A request of an RC queue pair, or a packet of a further transport.
    Request,
    /// A response of an RC queue pair, but for those below.
    Response,
    /// A positive ACK of an RC queue pair.
    Ack,
    /// A NAK of an RC queue pair, of the code PSN sequence error: its sender has lost a request.
    LossNak,
    /// An opcode of the manufacturer's range, as a gateway's [message](is_message) has.
    Manufacturer,
}

impl Sort {
    /// Whether the frame is a [`LossNak`](Self::LossNak), or may be a gateway's message. Few frames are.
    #[inline]
    pub const fn is_notable(self) -> bool {
        self as u8 >= Self::LossNak as u8
    }

    /// Whether the frame is a response of an RC queue pair: data, ACK or NAK.
    #[inline]
    pub const fn is_response(self) -> bool {
        matches!(self, Self::Response | Self::Ack | Self::LossNak)
    }

    /// By the opcode and, of an ACK, the syndrome.
    #[inline(always)]
    fn new(opcode: u8, syndrome: u8) -> Self {
        let ack = 256 + usize::from(syndrome);
        SORTS[if opcode == Opcode::ACK.0 { ack } else { usize::from(opcode) }]
    }
}

/// EtherType, IP version and length of an IPv4 header without options.
const PLAIN_IPV4: u32 = (ether::IPV4 as u32) << 8 | 0x45;

/// By opcode, and of ACKs by 256 + syndrome.
static SORTS: [Sort; 512] = {
    let mut sorts = [Sort::Request; 512];
    let mut code = 0;
    while code < 256 {
        let opcode = Opcode(code as u8);
        sorts[code] = if opcode.kind().is_response() {
            Sort::Response
        } else if opcode.0 == Opcode::CNP.0 || matches!(opcode.transport(), Transport::Ud) {
            Sort::Datagram
        } else if opcode.0 >= MANUFACTURER {
            Sort::Manufacturer
        } else {
            Sort::Request
        };
        let syndrome = code as u8;
        sorts[256 + code] = match (Aeth { syndrome, msn: 0 }).kind() {
            AethKind::Ack { .. } => Sort::Ack,
            AethKind::Nak { code: 0 } => Sort::LossNak,
            AethKind::Nak { .. } | AethKind::Rnr { .. } | AethKind::Reserved => Sort::Response,
        };
        code += 1;
    }
    sorts
};

/// The first opcode of the manufacturer's range.
const MANUFACTURER: u8 = 0xe0;

/// The fields of a frame's headers that decide on its way and its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// IPv4 source and destination as they stand in the header; of IPv6 32 bits of each, with the same [`hosts`](Self::hosts).
    addresses: [u8; 8],
    /// A hash of the flow: of RoCE over IPv4 by addresses and destination QPN. Tags, options and the UDP source port
    /// make no difference.
    pub flow: u16,
    /// DSCP and ECN of the IP header, the second byte of an IPv4 header; 0 if there is none.
    pub traffic_class: u8,
    /// The opcode of the BTH; 0 of [`Sort::Other`].
    pub opcode: Opcode,
    /// The sort of the frame.
    pub sort: Sort,
}

const _: () = assert!(size_of::<Meta>() <= 16, "it is carried beside each frame of a burst");

impl Meta {
    /// Any bytes have one. Fields are found and not checked: [`parse`](super::parse) may still refuse the frame.
    #[inline(always)]
    pub fn of(frame: &[u8]) -> Self {
        match Self::of_plain_roce(frame) {
            Some(meta) => meta,
            None => Self::of_any(frame),
        }
    }

    /// Of RoCE over IPv4 without VLAN tags and IP options, to a single station: all fields have their places. Such a
    /// frame is no MAC control.
    #[inline(always)]
    pub fn of_plain_roce(frame: &[u8]) -> Option<Self> {
        const BTH: usize = ether::ETHER_LEN + IPV4_LEN + UDP_LEN;
        // Up to the syndrome of an ACK.
        let head = frame.first_chunk::<{ BTH + BTH_LEN + 1 }>()?;
        let word = |at: usize| u32::from_be_bytes(chunk(head, at));
        // EtherType, IP version and length of the header; flags, fragment offset and protocol.
        let is_plain = word(12) >> 8 == PLAIN_IPV4
            && word(20) & ((FRAGMENT as u32) << 16 | 0xff) == UDP as u32
            && be16(head, 36) == ROCE_PORT
            // No group address.
            && head[0] & 1 == 0;
        if !is_plain {
            return None;
        }
        let addresses = chunk(head, 26);
        Some(Self {
            addresses,
            flow: roce_flow(addresses, chunk(head, BTH + 4)),
            traffic_class: head[15],
            opcode: Opcode(head[BTH]),
            sort: Sort::new(head[BTH], head[BTH + BTH_LEN]),
        })
    }

    /// Of any frame.
    #[inline(never)]
    pub fn of_any(frame: &[u8]) -> Self {
        let Found { is_v4, addresses, traffic_class, roce } = Found::within(frame);
        // Of RoCE over IPv4 as without tags and options.
        let flow = match roce {
            Some(bth) if is_v4 => roce_flow(addresses, chunk(bth, 4)),
            _ => {
                let hash = flow_hash(frame);
                (hash ^ hash >> 16) as u16
            }
        };
        let opcode = Opcode(roce.map_or(0, |bth| bth[0]));
        Self { addresses, flow, traffic_class, opcode, sort: sort(roce) }
    }

    /// [`host_pair`] of the addresses, if it is RoCE.
    #[inline]
    pub fn hosts(&self) -> Option<u32> {
        (self.sort != Sort::Other).then(|| pair_of(self.addresses))
    }
}

/// Whether a frame is RoCEv2 with a whole BTH: the sort is not [`Sort::Other`].
#[inline(always)]
pub fn is_roce(frame: &[u8]) -> bool {
    Meta::of_plain_roce(frame).is_some() || Found::within(frame).roce.is_some()
}

/// Properties that few of the frames that a box delivers have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exceptions {
    /// [`is_mac_control`].
    pub is_mac_control: bool,
    /// False only if the sort of the frame is not [notable](Sort::is_notable).
    pub may_be_notable: bool,
}

/// A short look at a frame, for those who let most frames pass.
#[inline(always)]
pub fn exceptions(frame: &[u8]) -> Exceptions {
    const BTH: usize = ether::ETHER_LEN + IPV4_LEN + UDP_LEN;
    // Without tags and options, to a single station.
    let is_plain = |head: &[u8; BTH + BTH_LEN + 1]| {
        u32::from_be_bytes(chunk(head, 12)) >> 8 == PLAIN_IPV4
            && head[0] & 1 == 0
            && !is_notable_bth(head[BTH], head[BTH + BTH_LEN])
    };
    match frame.first_chunk() {
        Some(head) if is_plain(head) => Exceptions { is_mac_control: false, may_be_notable: false },
        _ => exceptions_of_any(frame),
    }
}

#[inline(never)]
fn exceptions_of_any(frame: &[u8]) -> Exceptions {
    let udp = match ether::network(frame) {
        Some((l3, ether::IPV4)) => frame.get(l3).map(|byte| l3 + usize::from(byte & 0xf) * 4),
        Some((l3, ether::IPV6)) => Some(l3 + IPV6_LEN),
        _ => None,
    };
    let bth = udp.and_then(|udp| frame.get(udp + UDP_LEN..)).unwrap_or_default();
    let [opcode, syndrome] = [0, BTH_LEN].map(|at| bth.get(at).copied().unwrap_or(0));
    let may_be_notable = is_notable_bth(opcode, syndrome);
    Exceptions { is_mac_control: is_mac_control(frame), may_be_notable }
}

/// If it is no RoCE, a byte of the payload may look like an opcode.
#[inline(always)]
const fn is_notable_bth(opcode: u8, syndrome: u8) -> bool {
    if opcode == Opcode::ACK.0 {
        syndrome == Aeth::NAK_PSN_SEQUENCE
    } else {
        opcode >= MANUFACTURER
    }
}

/// [`Meta::hosts`] alone.
pub fn hosts_of(frame: &[u8]) -> Option<u32> {
    let Found { addresses, roce, .. } = Found::within(frame);
    roce.map(|_| pair_of(addresses))
}

/// Whether a frame is a gateway's message, which have this opcode.
pub fn is_message(frame: &[u8], opcode: Opcode) -> bool {
    let roce = Found::within(frame).roce;
    roce.is_some_and(|bth| bth[0] == opcode.0 && bth[BTH_LEN..].starts_with(&MAGIC))
}

/// A hash of two hosts, in either order.
pub fn host_pair(a: Addr, b: Addr) -> u32 {
    let [a, b] = [a, b].map(|addr| spread(fold(addr.as_bytes())));
    a.wrapping_add(b)
}

/// The exclusive or of the words before an IPv4 address that is mapped into IPv6.
const V4_WORDS: u32 = 0xffff;

/// The exclusive or of an address's words.
fn fold(address: &[u8]) -> u32 {
    (0..address.len()).step_by(4).fold(0, |sum, at| sum ^ u32::from_be_bytes(chunk(address, at)))
}

/// Spreads the bits of a word (Fibonacci hashing).
const fn spread(word: u32) -> u32 {
    let hash = (word ^ word >> 16).wrapping_mul(0x9e37_79b1);
    hash ^ hash >> 15
}

/// The hash of a queue pair, by the addresses and the word of the BTH that ends with the destination QPN.
#[inline]
const fn roce_flow(addresses: [u8; 8], qpn: [u8; 4]) -> u16 {
    const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];
    // In the order that a processor reads them in.
    let (addresses, qpn) = (u64::from_le_bytes(addresses), u32::from_le_bytes(qpn) >> 8);
    let hash = addresses.wrapping_mul(FACTORS[0]);
    let hash = (hash ^ hash >> 32 ^ qpn as u64).wrapping_mul(FACTORS[1]);
    (hash >> 48) as u16
}

/// Bytes at a place; zeros if there are none.
#[inline]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// The fields of a frame that may have VLAN tags and IP options.
#[derive(Default)]
struct Found<'a> {
    is_v4: bool,
    /// As [`Meta`] has them.
    addresses: [u8; 8],
    traffic_class: u8,
    /// Of RoCE: from a whole BTH on.
    roce: Option<&'a [u8]>,
}

impl<'a> Found<'a> {
    #[inline(never)]
    fn within(frame: &'a [u8]) -> Self {
        let Some((l3, ethertype)) = ether::network(frame) else { return Self::default() };
        let ip = frame.get(l3..).unwrap_or_default();
        match ethertype {
            ether::IPV4 => Self::v4(ip),
            ether::IPV6 => Self::v6(ip),
            _ => Self::default(),
        }
    }

    fn v4(ip: &'a [u8]) -> Self {
        let Some(header) = ip.first_chunk::<IPV4_LEN>() else { return Self::default() };
        let is_udp = header[9] == UDP && be16(header, 6) & FRAGMENT == 0;
        let udp = ip.get(usize::from(header[0] & 0xf) * 4..).filter(|_| is_udp);
        let (addresses, traffic_class) = (chunk(header, 12), header[1]);
        Self { is_v4: true, addresses, traffic_class, roce: udp.and_then(roce) }
    }

    fn v6(ip: &'a [u8]) -> Self {
        let Some((header, rest)) = ip.split_first_chunk::<IPV6_LEN>() else {
            return Self::default();
        };
        let mut addresses = [0; 8];
        for (words, at) in addresses.chunks_exact_mut(4).zip([8, 24]) {
            words.copy_from_slice(&(fold(&header[at..at + 16]) ^ V4_WORDS).to_be_bytes());
        }
        let traffic_class = header[0] << 4 | header[1] >> 4;
        let udp = Some(rest).filter(|_| header[6] == UDP);
        Self { is_v4: false, addresses, traffic_class, roce: udp.and_then(roce) }
    }
}

/// A UDP datagram of RoCE from its BTH on, if it has a whole one.
fn roce(udp: &[u8]) -> Option<&[u8]> {
    let (header, rest) = udp.split_first_chunk::<UDP_LEN>()?;
    (be16(header, 2) == ROCE_PORT && rest.len() >= BTH_LEN).then_some(rest)
}

fn sort(roce: Option<&[u8]>) -> Sort {
    // A syndrome that is not there has no meaning either.
    roce.map_or(Sort::Other, |bth| Sort::new(bth[0], bth.get(BTH_LEN).copied().unwrap_or(0xff)))
}

/// [`host_pair`] of addresses as [`Meta`] has them.
#[inline]
fn pair_of(addresses: [u8; 8]) -> u32 {
    let hash = |at: usize| spread(u32::from_be_bytes(chunk(&addresses, at)) ^ V4_WORDS);
    hash(0).wrapping_add(hash(4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(src: u8, dst: u8, opcode: u8, syndrome: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, UDP, 0, 0]);
        frame.extend([10, 0, 0, src, 10, 0, 0, dst]);
        frame.extend([0xc0, 0, 0x12, 0xb7, 0, 40, 0, 0]);
        frame.extend([opcode, 0, 0xff, 0xff, 0, 0, 0, 7, 0, 0, 0, 9]);
        frame.extend([syndrome, 0, 0, 1, 5, 5, 5, 5]);
        frame
    }

    #[test]
    fn sorts_are_by_opcode_and_syndrome() {
        for (opcode, syndrome, sort) in [
            (0x00, 0, Sort::Request),
            (0x0c, 0x60, Sort::Request),
            (0x31, 0x60, Sort::Request),
            (0x10, 0, Sort::Response),
            (0x12, 0, Sort::Response),
            (0x11, 0x1f, Sort::Ack),
            (0x11, 0x00, Sort::Ack),
            (0x11, 0x20, Sort::Response),
            (0x11, 0x61, Sort::Response),
            (0x11, 0x80, Sort::Response),
            (0x11, 0x60, Sort::LossNak),
            (0x64, 0x60, Sort::Datagram),
            (0x81, 0x60, Sort::Datagram),
            (0xdf, 0, Sort::Request),
            (0xe0, 0, Sort::Manufacturer),
            (0xff, 0x60, Sort::Manufacturer),
        ] {
            let seen = frame(1, 2, opcode, syndrome);
            assert_eq!(Meta::of(&seen).sort, sort, "{opcode:#x} {syndrome:#x}");
            let is_notable = matches!(sort, Sort::LossNak | Sort::Manufacturer);
            assert_eq!(sort.is_notable(), is_notable, "{sort:?}");
            assert_eq!(exceptions(&seen).may_be_notable, is_notable, "{sort:?}");
        }
    }

    #[test]
    fn both_directions_have_the_same_hosts() {
        let hosts = |src, dst| Meta::of(&frame(src, dst, 4, 0)).hosts().unwrap();
        assert_eq!(hosts(1, 2), hosts(2, 1));
        assert_ne!(hosts(1, 2), hosts(1, 3));
        let [a, b] = [1, 2].map(|n| Addr::from_v4([10, 0, 0, n]));
        assert_eq!(hosts(1, 2), host_pair(b, a));
        let mut v6 = vec![2; 12];
        v6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 40, UDP, 64]);
        v6.extend([[0xfd; 16], [0x20; 16]].concat());
        v6.extend(&frame(1, 2, 4, 0)[34..]);
        let [a, b] = [[0xfd; 16], [0x20; 16]].map(Addr::from_v6);
        assert_eq!(Meta::of(&v6).hosts(), Some(host_pair(a, b)));
    }

    #[test]
    fn tags_and_options_make_no_difference() {
        let plain = frame(1, 2, 0x11, 0x60);
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        let mut with_options = plain.clone();
        with_options[14] = 0x46;
        with_options.splice(34..34, [1; 4]);
        assert_eq!(Meta::of_plain_roce(&plain), Some(Meta::of_any(&plain)));
        for other in [&tagged, &with_options] {
            assert_eq!(Meta::of_plain_roce(other), None);
            assert_eq!(Meta::of(other), Meta::of(&plain));
        }
    }

    #[test]
    fn queue_pairs_hardly_share_a_flow() {
        let mut flows: Vec<_> = (0..1_u32 << 15)
            .map(|n| {
                let (from, to) = (0x0a00_0000 | n >> 6, 0x0a80_0000 | n >> 6);
                let addresses = (u64::from(from) << 32 | u64::from(to)).to_be_bytes();
                roce_flow(addresses, (1 << 20 | n).to_be_bytes())
            })
            .collect();
        flows.sort_unstable();
        flows.dedup();
        // By chance it would be 0.79 of them.
        assert!(flows.len() > 24_000, "{}", flows.len());
    }

    #[test]
    fn other_frames_are_no_roce_and_any_may_end_anywhere() {
        let whole = frame(1, 2, 0x11, 0x60);
        for (at, byte) in [(12, 0x86), (23, 6), (20, 0x20), (37, 0xb8)] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(Meta::of(&other).hosts(), None, "{at}");
        }
        for len in 0..whole.len() {
            let meta = Meta::of(&whole[..len]);
            assert_eq!(meta.hosts().is_some(), len >= 54, "{len}");
            assert_eq!(meta.sort == Sort::LossNak, len >= 55, "{len}");
        }
    }

    #[test]
    fn a_message_is_known_by_its_first_bytes() {
        let mut message = frame(1, 2, 0xff, 0);
        assert!(!is_message(&message, Opcode(0xff)));
        message[54..58].copy_from_slice(&MAGIC);
        assert!(is_message(&message, Opcode(0xff)));
        assert!(!is_message(&message, Opcode(0xfe)));
        assert!(!is_message(&message[..57], Opcode(0xff)));
    }

    proptest! {
        #[test]
        fn any_bytes_have_one(
            mut bytes in prop::collection::vec(any::<u8>(), 0..80),
            opcode in 0xdf_u8..,
            is_plain: bool,
        ) {
            if is_plain && let Some(head) = bytes.get_mut(12..43) {
                head[..3].copy_from_slice(&[8, 0, 0x45]);
                head[30] = opcode;
            } else if let Some(ethertype) = bytes.get_mut(12..14) {
                ethertype.copy_from_slice(&[0x81, 0]);
            }
            let is_notable = Meta::of(&bytes).sort.is_notable();
            let seen = exceptions(&bytes);
            prop_assert!(seen.may_be_notable || !is_notable);
            prop_assert_eq!(seen.is_mac_control, is_mac_control(&bytes));
            assert_eq!(Meta::of(&bytes).hosts(), hosts_of(&bytes));
            assert_eq!(is_roce(&bytes), hosts_of(&bytes).is_some());
            let _ = is_message(&bytes, Opcode(0xff));
        }
    }
}
