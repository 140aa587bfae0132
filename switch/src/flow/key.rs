//! Keys of flows.

use core::hash::{BuildHasher, Hash, Hasher};

use common::allowance::HostPair;
use common::frame::Side;
use common::recorder::Stream;
use common::wire::{Addr, Ipv4Flow, Qpn, Roce, Vlans};

/// The key of a flow (docs/protocol.md, "Words"), with the side that its packets arrive on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowKey {
    pub hosts: Hosts,
    pub dest_qpn: Qpn,
}

impl FlowKey {
    /// That of no flow.
    pub const NONE: Self = Self {
        hosts: Hosts {
            side: Side::Lan,
            vlans: Vlans::NONE,
            src: Addr::from_v6([0; 16]),
            dst: Addr::from_v6([0; 16]),
        },
        dest_qpn: Qpn::new(0),
    };

    /// As the flight recorder names it.
    pub fn stream(&self) -> Stream {
        Stream { source: self.hosts.src, destination: self.hosts.dst, qpn: self.dest_qpn }
    }

    /// The same in few words, if it is of hosts with IPv4 addresses that are in no VLAN.
    fn ipv4(&self) -> Option<Ipv4Key> {
        let Hosts { side, vlans, src, dst } = self.hosts;
        if !(vlans.is_empty() && src.is_v4() && dst.is_v4()) {
            return None;
        }
        let last = |addr: Addr| last_word(&addr) >> 32;
        let hosts = last(dst) << 32 | last(src);
        Some(Ipv4Key::of(side, &Ipv4Flow { hosts, dest_qpn: self.dest_qpn }))
    }

    /// Whether `key` is this one.
    #[inline(always)]
    pub fn is(&self, key: &Ipv4Key) -> bool {
        let Hosts { src, dst, .. } = &self.hosts;
        let ([src_0, src_1], [dst_0, dst_1]) = (halves(src), halves(dst));
        let rest = self.hosts.rest(self.dest_qpn);
        // In one go: as a rule they are equal.
        (src_0 | dst_0)
            | (src_1 ^ (V4_PREFIX | key.hosts << 32))
            | (dst_1 ^ (V4_PREFIX | key.hosts >> 32 << 32))
            | (rest ^ key.rest)
            == 0
    }

    /// Of the stream that a packet belongs to which arrived on `side`.
    #[inline]
    pub fn of(side: Side, roce: &Roce) -> Self {
        Self { hosts: Hosts::of(side, roce), dest_qpn: roce.dest_qpn }
    }
}

/// Before the four bytes of an IPv4 address in the second half of its [`Addr`].
const V4_PREFIX: u64 = 0xffff_0000;

fn halves(addr: &Addr) -> [u64; 2] {
    let bytes = u128::from_le_bytes(*addr.as_bytes());
    [bytes as u64, (bytes >> 64) as u64]
}

fn last_word(addr: &Addr) -> u64 {
    halves(addr)[1]
}

/// The key of a flow between hosts with IPv4 addresses that are in no VLAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ipv4Key {
    hosts: u64,
    rest: u64,
}

impl Ipv4Key {
    /// That of no flow.
    pub const NONE: Self = Self { hosts: 0, rest: u64::MAX };

    /// Of the stream that a packet belongs to which arrived on `side`.
    #[inline(always)]
    pub fn of(side: Side, flow: &Ipv4Flow) -> Self {
        Self { hosts: flow.hosts, rest: rest(0, flow.dest_qpn, side) }
    }
}

/// The part of a key besides addresses.
#[inline(always)]
fn rest(vlans: u32, qpn: Qpn, side: Side) -> u64 {
    u64::from(vlans) << 32 | u64::from(qpn.get()) << 1 | side.index() as u64
}

impl Hash for FlowKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_words(self.hosts.words(self.dest_qpn), state);
    }
}

impl PartialEq for FlowKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.hosts.words(self.dest_qpn), other.hosts.words(other.dest_qpn));
        // In one go: as a rule they are equal.
        (a.0 ^ b.0) | (a.1 ^ b.1) | u128::from(a.2 ^ b.2) == 0
    }
}

impl Eq for FlowKey {}

#[inline]
fn hash_words<H: Hasher>((src, dst, rest): (u128, u128, u64), state: &mut H) {
    state.write_u128(src);
    state.write_u128(dst);
    state.write_u64(rest);
}

/// Hashes keys: for what others may choose of a key, its seeds are unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHash([u64; 6]);

impl KeyHash {
    /// With seeds made of one.
    pub fn new(seed: u64) -> Self {
        let seeds = foldhash::quality::FixedState::with_seed(seed);
        Self([0_u64, 1, 2, 3, 4, 5].map(|n| seeds.hash_one(n)))
    }

    /// The hash of a key.
    #[inline]
    pub fn of(&self, key: &FlowKey) -> u64 {
        match key.ipv4() {
            Some(key) => self.of_ipv4(&key),
            None => self.of_words(key.hosts.words(key.dest_qpn)),
        }
    }

    /// The same.
    #[inline(always)]
    pub fn of_ipv4(&self, key: &Ipv4Key) -> u64 {
        let Self([a, b, ..]) = *self;
        fold(key.hosts ^ a, key.rest ^ b)
    }

    /// The hash of one direction between two hosts.
    pub fn of_hosts(&self, hosts: &Hosts) -> u64 {
        self.of_words(hosts.words(Qpn::default()))
    }

    #[inline]
    fn of_words(&self, (src, dst, rest): (u128, u128, u64)) -> u64 {
        let Self([a, b, c, d, e, f]) = *self;
        let low = fold(src as u64 ^ a, dst as u64 ^ b);
        let high = fold((src >> 64) as u64 ^ c, (dst >> 64) as u64 ^ d);
        fold(low ^ high ^ e, rest ^ f)
    }
}

/// Both halves of a product in one.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// One direction between two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hosts {
    /// The port that packets of this direction arrive on.
    pub side: Side,
    pub vlans: Vlans,
    pub src: Addr,
    pub dst: Addr,
}

impl Hash for Hosts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_words(self.words(Qpn::default()), state);
    }
}

impl Hosts {
    /// All of it, with `qpn`, in as few numbers as it takes.
    #[inline]
    fn words(&self, qpn: Qpn) -> (u128, u128, u64) {
        (
            u128::from_ne_bytes(*self.src.as_bytes()),
            u128::from_ne_bytes(*self.dst.as_bytes()),
            self.rest(qpn),
        )
    }

    #[inline(always)]
    fn rest(&self, qpn: Qpn) -> u64 {
        rest(self.vlans.packed(), qpn, self.side)
    }

    /// The direction of a packet that arrived on `side`.
    pub fn of(side: Side, roce: &Roce) -> Self {
        Self { side, vlans: roce.vlans, src: roce.src, dst: roce.dst }
    }

    /// The two hosts, the same for both directions.
    pub fn pair(&self) -> HostPair {
        let word = |addr: &Addr| {
            let bits = u128::from_ne_bytes(*addr.as_bytes());
            (bits as u64 ^ (bits >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        HostPair::of_hash(word(&self.src).wrapping_add(word(&self.dst)) >> 32)
    }

    /// The way back.
    pub fn reversed(self) -> Self {
        Self { side: self.side.other(), vlans: self.vlans, src: self.dst, dst: self.src }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::index::Index;
    use common::ids::FlowId;
    use core::net::IpAddr;

    /// `n` keys as they come up: few hosts, QPNs and addresses one after the other.
    fn keys(n: u32, addr: impl Fn(u8, u32) -> IpAddr) -> Vec<FlowKey> {
        let key = |n: u32| {
            let (src, dst) = (addr(1, n / 64).into(), addr(2, n / 64 % 7).into());
            let side = if n.is_multiple_of(2) { Side::Lan } else { Side::Wan };
            let hosts = Hosts { side, vlans: Vlans::NONE, src, dst };
            FlowKey { hosts, dest_qpn: Qpn::new(n / 2 % 32 + 0x100) }
        };
        (0..n).map(key).collect()
    }

    /// Keys that differ little have hashes that share buckets no more often than random ones: all
    /// find a place in an index that is as full as it may be.
    #[test]
    fn keys_that_differ_little_fall_apart() {
        const FLOWS: u32 = 1 << 18;
        let v4 = |site: u8, n: u32| IpAddr::from([10, site, (n >> 8) as u8, n as u8]);
        let v6 = |site: u8, n: u32| {
            IpAddr::from([0xfd00, site.into(), (n >> 16) as u16, n as u16, 0, 0, 0, 1])
        };
        for seed in [0, 1, u64::MAX] {
            let hash = KeyHash::new(seed);
            for keys in [keys(FLOWS, v4), keys(FLOWS, v6)] {
                let mut index = Index::new(FLOWS as usize);
                let refused =
                    keys.iter().zip(0..).filter(|(key, n)| !index.insert(hash.of(key), FlowId(*n)));
                assert_eq!(refused.count(), 0, "seed {seed}");
                let mut hashes: Vec<_> = keys.iter().map(|key| hash.of(key)).collect();
                hashes.sort_unstable();
                hashes.dedup();
                assert_eq!(hashes.len(), keys.len(), "seed {seed}");
            }
        }
    }

    #[test]
    fn each_part_of_a_key_counts() {
        let hash = KeyHash::new(5);
        let v4 = |n| IpAddr::from([10, 0, 0, n]).into();
        let hosts = Hosts { side: Side::Lan, vlans: Vlans::NONE, src: v4(1), dst: v4(2) };
        let key = FlowKey { hosts, dest_qpn: Qpn::new(3) };
        let others = [
            FlowKey { dest_qpn: Qpn::new(4), ..key },
            FlowKey { hosts: Hosts { side: Side::Wan, ..hosts }, ..key },
            FlowKey { hosts: Hosts { vlans: Vlans::new(7, 0), ..hosts }, ..key },
            FlowKey { hosts: Hosts { src: v4(3), ..hosts }, ..key },
            FlowKey { hosts: Hosts { dst: v4(1), ..hosts }, ..key },
            FlowKey { hosts: Hosts { src: v4(2), dst: v4(1), ..hosts }, ..key },
        ];
        for other in others {
            assert!(other != key && hash.of(&other) != hash.of(&key), "{other:?}");
            let short = key.ipv4().expect("IPv4");
            assert!(key.is(&short) && !other.is(&short), "{other:?}");
            let its = other.ipv4();
            assert_eq!(its.is_none(), !other.hosts.vlans.is_empty());
            assert!(its.is_none_or(|its| other.is(&its) && !key.is(&its)), "{other:?}");
        }
    }

    #[test]
    fn a_flow_has_one_key_however_it_is_looked_at() {
        let hash = KeyHash::new(5);
        let (src, dst) =
            (IpAddr::from([10, 1, 2, 3]).into(), IpAddr::from([192, 168, 4, 5]).into());
        for side in [Side::Lan, Side::Wan] {
            let hosts = Hosts { side, vlans: Vlans::NONE, src, dst };
            let key = FlowKey { hosts, dest_qpn: Qpn::new(0xab_cdef) };
            let addresses = u64::from_le_bytes([10, 1, 2, 3, 192, 168, 4, 5]);
            let flow = Ipv4Flow { hosts: addresses, dest_qpn: key.dest_qpn };
            let short = Ipv4Key::of(side, &flow);
            assert!(key.is(&short) && key.ipv4() == Some(short));
            assert_eq!(hash.of(&key), hash.of_ipv4(&short));
        }
        let v6 = IpAddr::from([0, 0, 0, 0, 0, 0, 0x0a01, 0x0203]).into();
        let hosts = Hosts { side: Side::Lan, vlans: Vlans::NONE, src: v6, dst };
        assert_eq!(FlowKey { hosts, dest_qpn: Qpn::new(1) }.ipv4(), None);
    }
}
