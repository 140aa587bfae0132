//! One look at a frame from the LAN: the order that it has to keep, and its traffic class.

use common::wire::{Aeth, Opcode, ROCE_PORT, Transport, flow_hash};

const ETHER_LEN: usize = 14;
const TAG_LEN: usize = 4;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
const UDP_LEN: usize = 8;
/// Where the syndrome of an ACK lies behind the UDP header: after the BTH.
const SYNDROME: usize = UDP_LEN + 12;
/// IPv4 "more fragments" and fragment offset.
const FRAGMENT: u16 = 0x3fff;

/// The order that a frame has to keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// None: RoCE of the transport UD, and CNPs.
    Free,
    /// Behind all earlier frames of this flow bucket.
    Ordered(u16),
    /// The same, for a response of an RC queue pair that is no positive ACK: a READ or atomic response, a NAK.
    Response(u16),
    /// Behind all earlier responses of this flow bucket, for a positive ACK of an RC queue pair. It may overtake
    /// other ACKs, as it acknowledges all that they do.
    Ack(u16),
}

impl Order {
    /// The flow bucket, if the frame has one.
    #[inline]
    pub const fn bucket(self) -> Option<u16> {
        match self {
            Self::Free => None,
            Self::Ordered(bucket) | Self::Response(bucket) | Self::Ack(bucket) => Some(bucket),
        }
    }

    /// The same, with ACKs in order as all responses are.
    pub const fn strict(self) -> Self {
        match self {
            Self::Ack(bucket) => Self::Response(bucket),
            other => other,
        }
    }
}

/// The properties of a frame that the tunnel needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// The order that it has to keep.
    pub order: Order,
    /// DSCP and ECN of the IP header, the second byte of an IPv4 header; 0 if there is none.
    pub traffic_class: u8,
}

/// The role of a packet in the order of its flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Free,
    Other,
    Response,
    Ack,
}

/// By opcode of a BTH; of an ACK, if its syndrome is positive.
static ROLES: [Role; 256] = roles();

const fn roles() -> [Role; 256] {
    let mut roles = [Role::Other; 256];
    let mut code = 0;
    while code < 256 {
        let opcode = Opcode(code as u8);
        roles[code] = if opcode.kind().is_response() {
            Role::Response
        } else if opcode.0 == Opcode::CNP.0 || matches!(opcode.transport(), Transport::Ud) {
            Role::Free
        } else {
            Role::Other
        };
        code += 1;
    }
    roles[Opcode::ACK.0 as usize] = Role::Ack;
    roles
}

/// That of a frame without an IP header.
impl From<Order> for Flow {
    fn from(order: Order) -> Self {
        Self { order, traffic_class: 0 }
    }
}

impl Flow {
    /// That of a frame. Any bytes have one. R-TUN-20
    #[inline(always)]
    pub fn of(frame: &[u8]) -> Self {
        match Self::of_plain_roce(frame) {
            Some(flow) => flow,
            None => Self::of_any(frame),
        }
    }

    /// That of RoCE over IPv4 without VLAN tags and IP options, to a single station: all fields have their places. It
    /// is no MAC control.
    #[inline(always)]
    pub(crate) fn of_plain_roce(frame: &[u8]) -> Option<Self> {
        // Up to the syndrome of an ACK.
        let head = frame.first_chunk::<{ ETHER_LEN + 20 + SYNDROME + 1 }>()?;
        let word = |at: usize| u32::from_be_bytes(chunk(head, at));
        // EtherType, IP version and length of the header; flags, fragment offset and protocol.
        let is_plain = word(12) >> 8 == (IPV4 as u32) << 8 | 0x45
            && word(20) & ((FRAGMENT as u32) << 16 | 0xff) == UDP as u32
            && be16(head, 36) == ROCE_PORT
            // No group address.
            && head[0] & 1 == 0;
        if !is_plain {
            return None;
        }
        let bth = ETHER_LEN + 20 + UDP_LEN;
        let role = with_syndrome(ROLES[usize::from(head[bth])], Some(&head[bth + 12]));
        let bucket = roce_bucket(chunk(head, 26), chunk(head, bth + 4));
        Some(Self { order: order(role, bucket), traffic_class: head[15] })
    }

    #[inline(never)]
    pub(crate) fn of_any(frame: &[u8]) -> Self {
        let (l3, ethertype) = network(frame);
        let ip = frame.get(l3..).unwrap_or_default();
        let (traffic_class, udp) = match ethertype {
            IPV4 => v4(ip),
            IPV6 => v6(ip),
            _ => (0, None),
        };
        let roce = udp.filter(|udp| be16(udp, 2) == ROCE_PORT);
        let role = roce.map_or(Role::Other, role);
        let roce = roce.filter(|_| ethertype == IPV4);
        let bucket = match roce.and_then(|roce| roce.get(UDP_LEN + 4..UDP_LEN + 8)) {
            // As without tags and options.
            Some(qpn) => roce_bucket(chunk(ip, 12), chunk(qpn, 0)),
            None => {
                let hash = flow_hash(frame);
                (hash ^ hash >> 16) as u16
            }
        };
        Self { order: order(role, bucket), traffic_class }
    }
}

#[inline]
fn order(role: Role, bucket: u16) -> Order {
    match role {
        Role::Free => Order::Free,
        Role::Other => Order::Ordered(bucket),
        // Requests and responses of a queue pair have PSNs of their own, and need no order among them.
        Role::Response => Order::Response(bucket ^ 1),
        Role::Ack => Order::Ack(bucket ^ 1),
    }
}

/// The bucket of a queue pair, by the addresses and the word of the BTH that ends with the destination QPN.
#[inline]
const fn roce_bucket(addresses: [u8; 8], qpn: [u8; 4]) -> u16 {
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

/// Where the network header starts behind up to two VLAN tags, and its EtherType.
pub(crate) fn network(frame: &[u8]) -> (usize, u16) {
    let mut l3 = ETHER_LEN;
    for _ in 0..2 {
        match be16(frame, l3 - 2) {
            0x8100 | 0x88a8 | 0x9100 => l3 += TAG_LEN,
            _ => break,
        }
    }
    (l3, be16(frame, l3 - 2))
}

/// The traffic class of an IPv4 packet, and its UDP datagram.
fn v4(ip: &[u8]) -> (u8, Option<&[u8]>) {
    let Some(header) = ip.first_chunk::<20>() else { return (0, None) };
    let is_udp = header[9] == UDP && be16(header, 6) & FRAGMENT == 0;
    let at = usize::from(header[0] & 0xf) * 4;
    (header[1], ip.get(at..).filter(|_| is_udp))
}

/// The traffic class of an IPv6 packet, and its UDP datagram.
fn v6(ip: &[u8]) -> (u8, Option<&[u8]>) {
    let Some((header, rest)) = ip.split_first_chunk::<40>() else { return (0, None) };
    (header[0] << 4 | header[1] >> 4, Some(rest).filter(|_| header[6] == UDP))
}

/// That of RoCE, from its UDP header on.
fn role(roce: &[u8]) -> Role {
    let role = roce.get(UDP_LEN).map_or(Role::Other, |opcode| ROLES[usize::from(*opcode)]);
    with_syndrome(role, roce.get(SYNDROME))
}

#[inline]
fn with_syndrome(role: Role, syndrome: Option<&u8>) -> Role {
    let is_positive = |syndrome: &u8| Aeth { syndrome: *syndrome, msn: 0 }.is_ack();
    if role == Role::Ack && !syndrome.is_some_and(is_positive) { Role::Response } else { role }
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(chunk(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TCP: u8 = 6;

    fn frame(tags: usize, head: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0, 0, 5]);
        }
        frame.extend([head, rest].concat());
        frame
    }

    fn v4(tags: usize, protocol: u8, dst: u8, l4: &[u8]) -> Vec<u8> {
        let head =
            [8, 0, 0x45, 0xb9, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, dst];
        frame(tags, &head, l4)
    }

    fn roce(opcode: u8, qpn: u8) -> Vec<u8> {
        response(opcode, qpn, 9)
    }

    fn response(opcode: u8, qpn: u8, syndrome: u8) -> Vec<u8> {
        let bth = [opcode, 0, 0, 0, 7, 0, 0, qpn, 0, 0, 0, 1];
        let l4 = [&[0xc0, 1, 0x12, 0xb7, 0, 0, 0, 0], &bth[..], &[syndrome; 8]];
        v4(0, UDP, 2, &l4.concat())
    }

    fn bucket(frame: &[u8]) -> Option<u16> {
        match Flow::of(frame).order {
            Order::Free => None,
            Order::Ordered(bucket) | Order::Response(bucket) | Order::Ack(bucket) => Some(bucket),
        }
    }

    /// R-TUN-20
    #[test]
    fn frames_of_one_flow_share_a_bucket_and_others_hardly_do() {
        let all = [
            roce(4, 1),
            roce(4, 2),
            v4(0, TCP, 2, &[0, 1, 0, 2, 9]),
            v4(0, TCP, 2, &[0, 1, 0, 3, 9]),
            v4(0, TCP, 3, &[0, 1, 0, 2, 9]),
            v4(0, 1, 2, &[0, 1, 0, 2]),
            frame(0, &[8, 6], &[7; 28]),
        ];
        let buckets: std::collections::BTreeSet<_> =
            all.iter().map(|frame| bucket(frame)).collect();
        assert_eq!(buckets.len(), all.len());
        assert_eq!(
            Flow::of(&roce(4, 1)),
            Flow::of(&roce(6, 1)),
            "another packet of the queue pair"
        );
        assert_eq!(
            Flow::of(&v4(0, TCP, 2, &[0, 1, 0, 2, 1])),
            Flow::of(&v4(2, TCP, 2, &[0, 1, 0, 2, 8]))
        );
        assert_eq!(Flow::of(&roce(4, 1)).traffic_class, 0xb9);
    }

    /// R-TUN-20: tags and options take another way to the same bucket.
    #[test]
    fn a_queue_pair_has_one_bucket_and_others_hardly_share_it() {
        for opcode in [0x04, 0x11, 0x64] {
            let plain = roce(opcode, 7);
            let mut tagged = plain.clone();
            tagged.splice(12..12, [0x81, 0, 0, 5]);
            let mut with_options = plain.clone();
            with_options[14] = 0x46;
            with_options.splice(34..34, [1; 4]);
            assert!(Flow::of_plain_roce(&plain).is_some());
            assert_eq!(Flow::of(&plain), Flow::of_any(&plain));
            for other in [&tagged, &with_options] {
                assert_eq!(Flow::of_plain_roce(other), None);
                assert_eq!(Flow::of(other), Flow::of(&plain));
            }
        }
        let mut buckets: Vec<_> = (0..1_u32 << 15)
            .map(|n| {
                let (from, to) = (0x0a00_0000 | n >> 6, 0x0a80_0000 | n >> 6);
                let addresses = (u64::from(from) << 32 | u64::from(to)).to_be_bytes();
                roce_bucket(addresses, (1 << 20 | n).to_be_bytes())
            })
            .collect();
        buckets.sort_unstable();
        buckets.dedup();
        // By chance it would be 0.79 of them.
        assert!(buckets.len() > 24_000, "{}", buckets.len());
    }

    /// R-TUN-20
    #[test]
    fn datagrams_and_notifications_need_no_order() {
        for opcode in [0x64, 0x65, 0x81] {
            assert_eq!(Flow::of(&roce(opcode, 1)).order, Order::Free, "{opcode:#x}");
        }
    }

    /// R-TUN-24: responses to a queue pair share a bucket, and requests have another one.
    #[test]
    fn a_positive_ack_is_known_by_opcode_and_syndrome() {
        let requests =
            [0x00, 0x04, 0x0a, 0x0c, 0x13].map(|opcode| Flow::of(&roce(opcode, 1)).order);
        let Order::Ordered(bucket) = requests[0] else { panic!("a SEND is in order") };
        assert_eq!(requests, [Order::Ordered(bucket); 5]);
        for syndrome in [0, 5, 0x1f] {
            assert_eq!(Flow::of(&response(0x11, 1, syndrome)).order, Order::Ack(bucket ^ 1));
        }
        let others = [(0x11, 0x60), (0x11, 0x63), (0x11, 0x22), (0x11, 0x40), (0x11, 0x80)];
        let others = others.into_iter().chain([0x0d, 0x0e, 0x0f, 0x10, 0x12].map(|op| (op, 0)));
        for (opcode, syndrome) in others {
            let order = Flow::of(&response(opcode, 1, syndrome)).order;
            assert_eq!(order, Order::Response(bucket ^ 1), "{opcode:#x} {syndrome:#x}");
        }
        // Without its syndrome, and of another transport.
        let mut short = roce(0x11, 1);
        short.truncate(14 + 20 + 20);
        assert_eq!(Flow::of(&short).order, Order::Response(bucket ^ 1));
        assert!(matches!(Flow::of(&response(0xb1, 1, 0)).order, Order::Ordered(_)));
    }

    /// R-TUN-20: the fragments of a packet are in order, and the ports of the first one are no ports of the others.
    #[test]
    fn fragments_have_a_bucket_by_their_addresses() {
        let fragment = |flags: [u8; 2], l4: &[u8]| {
            let mut frame = v4(0, UDP, 2, l4);
            frame[20..22].copy_from_slice(&flags);
            Flow::of(&frame).order
        };
        assert_eq!(fragment([0x20, 0], &[0, 1, 0, 2]), fragment([0, 9], &[4; 4]));
    }

    /// R-TUN-20, R-TUN-24: whichever way it is looked at, with an odd bucket and with an even one.
    #[test]
    fn responses_never_share_the_bucket_of_requests() {
        for qpn in 0..64 {
            let request = bucket(&roce(4, qpn)).expect("it is in order");
            for (opcode, syndrome) in [(0x11, 0), (0x11, 0x60), (0x10, 0)] {
                let response = bucket(&response(opcode, qpn, syndrome)).expect("it is in order");
                assert_eq!(response, request ^ 1, "{opcode:#x} {syndrome:#x} to {qpn}");
            }
        }
    }

    /// R-TUN-20: what looks like a datagram of RoCE, but is TCP, or the rest of a longer packet.
    #[test]
    fn only_whole_datagrams_are_roce() {
        let datagram = roce(0x64, 1);
        let v6 = |next: u8| {
            let head = [&[0x86, 0xdd, 0x6b, 0x90, 0, 0, 0, 0, next, 64][..], &[7; 32]].concat();
            frame(0, &head, &datagram[34..])
        };
        assert_eq!(
            (Flow::of(&datagram).order, Flow::of(&v6(UDP)).order),
            (Order::Free, Order::Free)
        );
        assert_eq!(Flow::of(&v6(UDP)).traffic_class, 0xb9);
        let changed = |at: usize, to: u8| {
            let mut frame = datagram.clone();
            frame[at] = to;
            frame
        };
        for other in [changed(23, TCP), changed(21, 9), changed(20, 0x20), v6(TCP)] {
            assert!(matches!(Flow::of(&other).order, Order::Ordered(_)), "{other:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_flow(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Flow::of(&bytes);
        }
    }
}
