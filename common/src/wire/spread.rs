//! Which of several workers a frame belongs to.
//!
//! All packets between two hosts have to meet at one worker: requests,
//! their responses, connection management, and the gateways' messages about them,
//! which travel under the same addresses. So the rule uses the pair of IP
//! addresses, in either order.
//!
//! NICs spread frames over their queues with a Toeplitz hash. With a key that
//! repeats itself the hash is symmetric, and so simple that software computes
//! the queue in a few instructions.

use core::net::IpAddr;

use super::{be16, ether};

/// How many buckets there are. Bucket `b` belongs to worker `b` modulo their
/// number, and so does entry `b`, `b + BUCKETS`, ... of a NIC's redirection
/// table.
pub const BUCKETS: usize = 64;

/// The Toeplitz key is this word again and again, for as long as it has to
/// be. An odd number of ones, so that no two sums of addresses share a hash;
/// found by search for one with which the low bits of the hash differ as
/// neighbouring bits of an address do.
pub const RSS_KEY: u32 = 0xd6ed_5abd;

/// How a frame's bucket follows from its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// As receive-side scaling does it. Only the exclusive or of the two
    /// addresses counts: hosts 10.1.0.n that each talk to 10.2.0.n share one
    /// bucket, for every n.
    Rss,
    /// Each pair by itself. No NIC can do it.
    Mixed,
}

impl Spread {
    /// The bucket of a frame, less than [`BUCKETS`]. A frame that isn't IP is in
    /// bucket 0.
    #[inline]
    pub fn bucket(self, frame: &[u8]) -> usize {
        let Some((src, dst)) = addresses(frame) else { return 0 };
        match self {
            Self::Rss => toeplitz_bucket(fold(src) ^ fold(dst)),
            Self::Mixed => mix(src).wrapping_add(mix(dst)) as usize % BUCKETS,
        }
    }
}

/// The bucket of a UDP datagram on a port whose NIC spreads these by addresses and ports, with [`RSS_KEY`]. The
/// addresses are of one family.
pub fn rss_bucket_of_udp(from: (IpAddr, u16), to: (IpAddr, u16)) -> usize {
    let word = |address: IpAddr| match address {
        IpAddr::V4(address) => fold(&address.octets()),
        IpAddr::V6(address) => fold(&address.octets()),
    };
    let ports = u32::from(from.1) << 16 | u32::from(to.1);
    toeplitz_bucket(word(from.0) ^ word(to.0) ^ ports)
}

/// The addresses of an IPv4 or IPv6 header, as the bytes that they are.
#[inline]
fn addresses(frame: &[u8]) -> Option<(&[u8], &[u8])> {
    let (l3, ethertype, _) = ether::parse(frame)?;
    let (from, len) = match ethertype {
        ether::IPV4 => (l3 + 12, 4),
        ether::IPV6 => (l3 + 8, 16),
        _ => return None,
    };
    Some(frame.get(from..from + 2 * len)?.split_at(len))
}

/// The exclusive or of an address's 32-bit words.
fn fold(address: &[u8]) -> u32 {
    let word = |word: &[u8]| u32::from(be16(word, 0)) << 16 | u32::from(be16(word, 2));
    address.chunks_exact(4).map(word).fold(0, |sum, word| sum ^ word)
}

/// The bucket by [`toeplitz`], which is the exclusive or of those of the four bytes.
#[inline]
fn toeplitz_bucket(word: u32) -> usize {
    let bytes = word.to_be_bytes().into_iter().zip(&OF_BYTE);
    bytes.fold(0, |sum, (byte, table)| sum ^ usize::from(table[usize::from(byte)]))
}

/// For each byte of a word, from the left, and each value of it: the bucket if the others are zero.
static OF_BYTE: [[u8; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let mut at = 0;
    while at < 4 * 256 {
        let word = (at as u32 % 256) << (24 - at / 256 * 8);
        tables[at / 256][at % 256] = (toeplitz(word) % BUCKETS as u32) as u8;
        at += 1;
    }
    tables
};

/// The Toeplitz hash of input whose 32-bit words have this exclusive or: bit
/// `n` of each, from the left, adds the key from bit `n` on, and the key is
/// the same from there in every word.
const fn toeplitz(word: u32) -> u32 {
    // Circular multiplication of polynomials over GF(2).
    let (mut hash, mut key, mut bits) = (0, RSS_KEY, word);
    while bits != 0 {
        hash ^= key & 0u32.wrapping_sub(bits >> 31);
        key = key.rotate_left(1);
        bits <<= 1;
    }
    hash
}

/// A hash of one address (the finalizer of MurmurHash3).
fn mix(address: &[u8]) -> u32 {
    address.chunks_exact(4).fold(0, |hash: u32, word| {
        let mut h = hash.rotate_left(5) ^ fold(word);
        h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
        h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
        h ^ h >> 16
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tags: usize, addresses: &[u8]) -> Vec<u8> {
        let mut frame = vec![7; 12];
        for _ in 0..tags {
            frame.extend([0x81, 0x00, 0x00, 0x05]);
        }
        let (ethertype, before) = if addresses.len() == 8 { (0x0800, 12) } else { (0x86dd, 8) };
        frame.extend(u16::to_be_bytes(ethertype));
        frame.extend(vec![0; before]);
        frame.extend(addresses);
        frame
    }

    fn v4(src: [u8; 4], dst: [u8; 4]) -> Vec<u8> {
        frame(0, &[src, dst].concat())
    }

    /// Word for word as NICs define it: a window of 32 bits slides over the key.
    fn by_the_book(input: &[u8]) -> u32 {
        let key: Vec<u8> = RSS_KEY.to_be_bytes().repeat(16);
        let bit = |bytes: &[u8], n: usize| u32::from(bytes[n / 8] >> (7 - n % 8) & 1);
        let window = |at: usize| (at..at + 32).fold(0, |word, n| word << 1 | bit(&key, n));
        (0..8 * input.len()).filter(|n| bit(input, *n) == 1).fold(0, |hash, n| hash ^ window(n))
    }

    #[test]
    fn the_short_way_to_the_hash_is_that_of_the_nic() {
        let mut seed = 1u32;
        for len in [8, 32] {
            for _ in 0..500 {
                let random = |_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (seed >> 24) as u8
                };
                let addresses: Vec<u8> = (0..len).map(random).collect();
                let expected = by_the_book(&addresses) as usize % BUCKETS;
                assert_eq!(Spread::Rss.bucket(&frame(0, &addresses)), expected);
            }
        }
    }

    #[test]
    fn ports_count_as_the_nic_counts_them() {
        let v4 = [[192, 0, 2, 1], [198, 51, 100, 7]];
        let v6 = [[0x20; 16], [0xfd; 16]].map(|mut bytes: [u8; 16]| {
            bytes[15] = bytes[0] + 1;
            bytes
        });
        for port in (0..u16::MAX).step_by(977) {
            let ports = [port.to_be_bytes(), 49_791_u16.to_be_bytes()].concat();
            let expected =
                |addresses: &[u8]| by_the_book(&[addresses, &ports].concat()) as usize % BUCKETS;
            let found = |[from, to]: [IpAddr; 2]| rss_bucket_of_udp((from, port), (to, 49_791));
            assert_eq!(found(v4.map(IpAddr::from)), expected(&v4.concat()));
            assert_eq!(found(v6.map(IpAddr::from)), expected(&v6.concat()));
        }
    }

    #[test]
    fn both_directions_meet_whatever_the_tags() {
        for spread in [Spread::Rss, Spread::Mixed] {
            for n in 0..=255 {
                let (a, b) = ([10, 1, n, 3], [172, 16, 9, n]);
                let there = spread.bucket(&v4(a, b));
                assert_eq!(spread.bucket(&v4(b, a)), there);
                for tags in 1..=2 {
                    assert_eq!(spread.bucket(&frame(tags, &[a, b].concat())), there);
                }
                let (a, b) = ([n; 16], [0x20; 16]);
                let there = spread.bucket(&frame(0, &[a, b].concat()));
                assert_eq!(spread.bucket(&frame(1, &[b, a].concat())), there);
            }
        }
    }

    /// Hosts of one subnet with those of another, all with all.
    #[test]
    fn pairs_are_spread() {
        for spread in [Spread::Rss, Spread::Mixed] {
            for workers in [2, 4, 8] {
                let mut load = vec![0u32; workers];
                for (a, b) in (1..=32u8).flat_map(|a| (1..=32u8).map(move |b| (a, b))) {
                    load[spread.bucket(&v4([10, 1, 0, a], [10, 2, 0, b])) % workers] += 1;
                }
                let fair = 32 * 32 / workers as u32;
                assert!(
                    load.iter().all(|n| (fair / 2..fair * 2).contains(n)),
                    "{spread:?} {load:?}"
                );
            }
        }
    }

    #[test]
    fn hosts_that_each_talk_to_their_like_are_spread_by_mixing_only() {
        let buckets = |spread: Spread| {
            let all = (0..64).map(|n| spread.bucket(&v4([10, 1, 0, n], [10, 2, 0, n])));
            all.collect::<std::collections::BTreeSet<_>>().len()
        };
        assert_eq!(buckets(Spread::Rss), 1);
        assert!(buckets(Spread::Mixed) > 30);
    }

    #[test]
    fn what_has_no_addresses_is_in_the_first_bucket() {
        for spread in [Spread::Rss, Spread::Mixed] {
            for frame in [vec![], vec![0xff; 13], v4([9; 4], [9; 4])[..33].to_vec()] {
                assert_eq!(spread.bucket(&frame), 0);
            }
            assert_eq!(spread.bucket(&[&[0xff; 12][..], &[8, 6], &[7; 40]].concat()), 0);
        }
    }
}
