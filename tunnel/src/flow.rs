//! One look at a frame from the LAN: its flow bucket and its traffic class.

use common::wire::{Opcode, ROCE_PORT, Transport, flow_hash};

const ETHER_LEN: usize = 14;
const TAG_LEN: usize = 4;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const UDP: u8 = 17;
const UDP_LEN: usize = 8;
/// IPv4 "more fragments" and fragment offset.
const FRAGMENT: u16 = 0x3fff;

/// What the tunnel has to know of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Its bucket; `None` for a frame that needs no order: RoCE of the transport UD, and CNPs.
    pub bucket: Option<u16>,
    /// DSCP and ECN of the IP header, the second byte of an IPv4 header; 0 if there is none.
    pub traffic_class: u8,
}

impl Flow {
    /// That of a frame. Any bytes have one. R-TUN-20
    #[inline]
    pub fn of(frame: &[u8]) -> Self {
        let (l3, ethertype) = network(frame);
        let ip = frame.get(l3..).unwrap_or_default();
        let (traffic_class, udp) = match ethertype {
            IPV4 => v4(ip),
            IPV6 => v6(ip),
            _ => (0, None),
        };
        let needs_order = udp.is_none_or(needs_order);
        let bucket = needs_order.then(|| {
            let hash = flow_hash(frame);
            (hash ^ hash >> 16) as u16
        });
        Self { bucket, traffic_class }
    }
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

/// Whether a UDP datagram is other than RoCE of the transport UD and a CNP.
fn needs_order(udp: &[u8]) -> bool {
    let opcode = udp.get(UDP_LEN).filter(|_| be16(udp, 2) == ROCE_PORT);
    opcode.is_none_or(|opcode| {
        let opcode = Opcode(*opcode);
        opcode != Opcode::CNP && opcode.transport() != Transport::Ud
    })
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |two| u16::from_be_bytes(*two))
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
        let l4 =
            [&[0xc0, 1, 0x12, 0xb7, 0, 0, 0, 0], &[opcode, 0, 0, 0, 7, 0, 0, qpn][..], &[9; 8]];
        v4(0, UDP, 2, &l4.concat())
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
            all.iter().map(|frame| Flow::of(frame).bucket).collect();
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

    /// R-TUN-20
    #[test]
    fn datagrams_and_notifications_need_no_order() {
        for opcode in [0x64, 0x65, 0x81] {
            assert_eq!(Flow::of(&roce(opcode, 1)).bucket, None, "{opcode:#x}");
        }
    }

    /// R-TUN-20: the fragments of a packet are in order, and the ports of the first one are no ports of the others.
    #[test]
    fn fragments_have_a_bucket_by_their_addresses() {
        let fragment = |flags: [u8; 2], l4: &[u8]| {
            let mut frame = v4(0, UDP, 2, l4);
            frame[20..22].copy_from_slice(&flags);
            Flow::of(&frame).bucket
        };
        assert_eq!(fragment([0x20, 0], &[0, 1, 0, 2]), fragment([0, 9], &[4; 4]));
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_flow(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Flow::of(&bytes);
        }
    }
}
