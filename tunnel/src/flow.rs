//! One look at a frame from the LAN: its flow bucket and its traffic class.

use common::wire::{Opcode, ROCE_PORT, Transport};

const ETHER_LEN: usize = 14;
const TAG_LEN: usize = 4;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
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
        match ethertype {
            IPV4 => v4(frame, l3),
            IPV6 => v6(frame, l3),
            _ => None,
        }
        .unwrap_or_else(|| {
            let addresses = frame.get(..ETHER_LEN).unwrap_or(frame);
            let bucket = bucket(hash(u64::from(ethertype), addresses));
            Self { bucket: Some(bucket), traffic_class: 0 }
        })
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

fn v4(frame: &[u8], l3: usize) -> Option<Flow> {
    let ip = frame.get(l3..)?.first_chunk::<20>()?;
    // Behind options or in a fragment there are no ports at a place of their own.
    let has_ports = ip[0] == 0x45 && be16(ip, 6) & FRAGMENT == 0;
    let protocol = if has_ports { ip[9] } else { 0 };
    Some(of_packet(frame, l3 + 20, &ip[12..], u64::from(ip[9]), protocol, ip[1]))
}

fn v6(frame: &[u8], l3: usize) -> Option<Flow> {
    let ip = frame.get(l3..)?.first_chunk::<40>()?;
    let class = ip[0] << 4 | ip[1] >> 4;
    Some(of_packet(frame, l3 + 40, &ip[8..], 0, ip[6], class))
}

fn of_packet(
    frame: &[u8],
    l4: usize,
    addresses: &[u8],
    seed: u64,
    protocol: u8,
    traffic_class: u8,
) -> Flow {
    let mut hash = hash(seed, addresses);
    if let (TCP | UDP, Some(ports)) = (protocol, frame.get(l4..l4 + 4)) {
        hash = mix(hash ^ u64::from(be32(ports)));
        let is_roce = protocol == UDP && be16(ports, 2) == ROCE_PORT;
        if let (true, Some(bth)) = (is_roce, frame.get(l4 + 8..l4 + 20)) {
            let opcode = Opcode(bth[0]);
            if opcode == Opcode::CNP || opcode.transport() == Transport::Ud {
                return Flow { bucket: None, traffic_class };
            }
            hash = mix(hash ^ u64::from(be32(&bth[4..]) & 0xff_ffff));
        }
    }
    Flow { bucket: Some(bucket(hash)), traffic_class }
}

fn hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(seed, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash ^ u64::from_ne_bytes(word))
    })
}

/// A multiplication whose halves are added: every bit counts in the result.
#[inline]
const fn mix(n: u64) -> u64 {
    let wide = (n ^ 0x9e37_79b9_7f4a_7c15) as u128 * 0xd6e8_feb8_6659_fd93;
    wide as u64 ^ (wide >> 64) as u64
}

const fn bucket(hash: u64) -> u16 {
    (hash ^ hash >> 32) as u16
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |two| u16::from_be_bytes(*two))
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |four| u32::from_be_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
