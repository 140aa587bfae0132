//! Keys of flows.

use core::hash::{BuildHasher, Hash, Hasher};

use common::frame::Side;
use common::wire::{Addr, Qpn, Roce, Vlans};

/// The key of a flow (docs/protocol.md, "Words"), with the side that its packets arrive on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowKey {
    pub hosts: Hosts,
    pub dest_qpn: Qpn,
}

impl FlowKey {
    /// Of the stream that a packet belongs to which arrived on `side`.
    #[inline]
    pub fn of(side: Side, roce: &Roce) -> Self {
        Self { hosts: Hosts::of(side, roce), dest_qpn: roce.dest_qpn }
    }
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
        self.of_words(key.hosts.words(key.dest_qpn))
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
        let vlans = u64::from(self.vlans.packed());
        (
            u128::from_ne_bytes(*self.src.as_bytes()),
            u128::from_ne_bytes(*self.dst.as_bytes()),
            vlans << 32 | u64::from(qpn.get()) << 1 | self.side.index() as u64,
        )
    }

    /// The direction of a packet that arrived on `side`.
    pub fn of(side: Side, roce: &Roce) -> Self {
        Self { side, vlans: roce.vlans, src: roce.src, dst: roce.dst }
    }

    /// The way back.
    pub fn reversed(self) -> Self {
        Self { side: self.side.other(), vlans: self.vlans, src: self.dst, dst: self.src }
    }
}
