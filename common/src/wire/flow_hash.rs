//! A hash of the flow that any frame belongs to.

use super::{ROCE_PORT, UDP, be16, ether};

const TCP: u8 = 6;
/// Where the destination QPN lies behind the UDP header (BTH bytes 5 to 7).
const DEST_QPN: usize = 8 + 5;

/// A hash of a frame's flow: all frames of a flow have the same one, and different flows
/// most likely have different ones.
///
/// It covers the addresses, the protocol, and the ports of TCP and UDP; of RoCEv2 the
/// destination QPN instead of the source port, which RNICs may change. A fragment has no ports: all fragments between two addresses are one flow. A
/// frame that is not IP is hashed by its MAC addresses and EtherType. The hash never fails, and
/// is the same on every machine.
#[inline]
pub fn flow_hash(frame: &[u8]) -> u32 {
    let Some((l3, ethertype, _)) = ether::parse(frame) else { return hash(&[frame]) };
    let other = || hash(&[frame.get(..12).unwrap_or(frame), &ethertype.to_be_bytes()]);
    let (addresses, protocol, l4) = match ethertype {
        ether::IPV4 => {
            let Some(header) = frame.get(l3..l3 + 20) else { return other() };
            // More fragments, or an offset.
            let is_fragment = be16(header, 6) & 0x3fff != 0;
            let l4 = l3 + usize::from(header[0] & 15) * 4;
            (&header[12..20], header[9], (!is_fragment).then_some(l4))
        }
        ether::IPV6 => {
            let Some(header) = frame.get(l3..l3 + 40) else { return other() };
            (&header[8..40], header[6], Some(l3 + 40))
        }
        _ => return other(),
    };
    let l4 = l4.and_then(|at| frame.get(at..)).unwrap_or(&[]);
    let within = match protocol {
        UDP if l4.len() >= DEST_QPN + 3 && be16(l4, 2) == ROCE_PORT => &l4[DEST_QPN..DEST_QPN + 3],
        UDP | TCP => l4.get(..4).unwrap_or(&[]),
        _ => &[],
    };
    hash(&[addresses, &[protocol], within])
}

/// Multiplies and folds, four bytes at a time.
#[inline]
fn hash(parts: &[&[u8]]) -> u32 {
    let mut hash: u64 = 0x9e37_79b9_7f4a_7c15;
    for part in parts {
        for chunk in part.chunks(4) {
            let word = match chunk.first_chunk() {
                Some(four) => u64::from(u32::from_be_bytes(*four)),
                None => chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
            };
            hash = (hash ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            hash ^= hash >> 29;
        }
    }
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet and IPv4 header, and the bytes behind.
    fn v4(protocol: u8, offset: u16, rest: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 0, 9, 9]);
        frame.extend(offset.to_be_bytes());
        frame.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(rest);
        frame
    }

    fn udp(port: u16, qpn: u8) -> Vec<u8> {
        let mut rest = vec![0xc0, 0];
        rest.extend(port.to_be_bytes());
        rest.extend([0, 0, 0, 0, 4, 0, 0xff, 0xff, 0, 0, 0, qpn, 1, 2, 3, 4]);
        v4(UDP, 0, &rest)
    }

    fn v6(last: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, TCP, 64]);
        frame.extend([7; 31]);
        frame.extend([last, 1, 2, 3, 4]);
        frame
    }

    #[test]
    fn frames_of_one_flow_have_one_hash_and_others_have_others() {
        let flows = [
            udp(ROCE_PORT, 1),
            udp(ROCE_PORT, 2),
            udp(53, 1),
            v4(TCP, 0, &[0, 1, 0, 2]),
            v4(TCP, 0, &[0, 1, 0, 3]),
            v4(1, 0, &[8, 0, 0, 0]),
            v6(1),
            v6(2),
            [[0xff; 6], [2; 6]].concat().into_iter().chain([0x08, 0x06, 1]).collect(),
        ];
        for (n, flow) in flows.iter().enumerate() {
            for (m, other) in flows.iter().enumerate() {
                assert_eq!(flow_hash(flow) == flow_hash(other), n == m, "{n} {m}");
            }
        }
        // The DSCP, the identification and the payload differ between packets of a flow.
        let mut next = udp(ROCE_PORT, 1);
        next[15] = 0x68;
        next[19] = 77;
        next[34] = 0xc9; // The source port.
        *next.last_mut().unwrap() = 0xee;
        assert_eq!(flow_hash(&next), flow_hash(&flows[0]));
        // The payload of another protocol is not taken for a QPN.
        assert_eq!(flow_hash(&udp(53, 1)), flow_hash(&udp(53, 2)));
    }

    #[test]
    fn all_fragments_between_two_hosts_are_one_flow() {
        let first = v4(UDP, 0x2000, &[0, 1, 0, 2]);
        let last = v4(UDP, 185, &[5, 6, 7, 8]);
        assert_eq!(flow_hash(&first), flow_hash(&last));
    }

    #[test]
    fn a_frame_may_end_anywhere() {
        for whole in [udp(ROCE_PORT, 1), v6(1)] {
            for len in 0..whole.len() {
                flow_hash(&whole[..len]);
            }
        }
    }

    #[test]
    fn neighbouring_queue_pairs_spread_over_buckets() {
        let mut buckets = [0u32; 64];
        for qpn in 0..=255 {
            buckets[flow_hash(&udp(ROCE_PORT, qpn)) as usize % 64] += 1;
        }
        assert!(buckets.iter().all(|n| *n <= 16), "{buckets:?}");
    }
}
