//! Where in the flow table a flow is: a hash table that never moves anything.
//!
//! Its size is fixed when it is made, so no packet ever waits while it grows.
//! A place is sought in two buckets, each one cache line; with a third of
//! all places to spare both are full about never, and then the flow passes
//! unprotected, as if the table were full.

use common::cpu::{equal_bytes, prefetch};
use common::ids::FlowId;

/// Places of a bucket, which is a cache line.
const PLACES: usize = 12;
/// From so many flows in its first bucket on, a flow goes into the emptier one.
const CROWDED: usize = 9;

/// A byte of the hash, which isn't zero, for each place in use, and the index of
/// the entry there.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    /// The last four bytes are no places, and zero.
    tags: [u8; 16],
    ids: [FlowId; PLACES],
}

const _: () = assert!(size_of::<Bucket>() == 64, "one cache line");

impl Bucket {
    const EMPTY: Self = Self { tags: [0; 16], ids: [FlowId(0); PLACES] };

    fn tag(&self, place: usize) -> u8 {
        self.tags[place]
    }

    fn set_tag(&mut self, place: usize, tag: u8) {
        self.tags[place] = tag;
    }

    fn used(&self) -> usize {
        (0..PLACES).filter(|place| self.tag(*place) != 0).count()
    }

    /// The entry with this tag that `is_it`.
    #[inline(always)]
    fn find(&self, tag: u8, mut is_it: impl FnMut(FlowId) -> bool) -> Option<FlowId> {
        let mut same = equal_bytes(&self.tags, tag);
        while same != 0 {
            let id = *self.ids.get(same.trailing_zeros() as usize)?;
            if is_it(id) {
                return Some(id);
            }
            same &= same - 1;
        }
        None
    }
}

/// From the hash of a flow's key to the entry that holds it.
pub(crate) struct Index {
    /// A power of two.
    buckets: Box<[Bucket]>,
}

impl Index {
    /// For up to `limit` flows.
    pub fn new(limit: usize) -> Self {
        Self { buckets: vec![Bucket::EMPTY; Self::buckets(limit)].into() }
    }

    /// A third of all places, at least, stay free.
    fn buckets(limit: usize) -> usize {
        (limit.max(PLACES) * 3 / 2).div_ceil(PLACES).next_power_of_two()
    }

    /// Bytes per flow that it is made for, at most: with the number of buckets
    /// rounded up to a power of two.
    pub const PER_FLOW: usize = 2 * size_of::<Bucket>() * 3 / 2 / PLACES;

    /// The two buckets of a hash, and its tag there.
    #[inline]
    fn places(&self, hash: u64) -> ([usize; 2], u8) {
        let mask = self.buckets.len() - 1;
        let tag = ((hash >> 56) as u8).max(1);
        // There are fewer than 2^28 buckets.
        ([hash as usize & mask, (hash >> 28) as usize & mask], tag)
    }

    /// Prefetches the bucket where `hash` is likely to be.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        let ([first, _], _) = self.places(hash);
        prefetch(&self.buckets[first]);
    }

    /// The entry of `hash` that `is_it` says is the one.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(FlowId) -> bool) -> Option<FlowId> {
        let ([first, second], tag) = self.places(hash);
        let found = self.buckets[first].find(tag, &mut is_it);
        found.or_else(|| self.buckets[second].find(tag, is_it))
    }

    /// Puts in an entry that isn't there yet. False if there is no place.
    pub fn insert(&mut self, hash: u64, id: FlowId) -> bool {
        let ([first, second], tag) = self.places(hash);
        let (one, other) = (self.buckets[first].used(), self.buckets[second].used());
        let bucket = if one >= CROWDED && other < one { second } else { first };
        let bucket = &mut self.buckets[bucket];
        let Some(free) = (0..PLACES).find(|place| bucket.tag(*place) == 0) else { return false };
        bucket.set_tag(free, tag);
        bucket.ids[free] = id;
        true
    }

    /// Takes out an entry.
    pub fn remove(&mut self, hash: u64, id: FlowId) {
        for bucket in self.places(hash).0 {
            let bucket = &mut self.buckets[bucket];
            let it = (0..PLACES).find(|at| bucket.tag(*at) != 0 && bucket.ids[*at] == id);
            if let Some(place) = it {
                return bucket.set_tag(place, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::BuildHasher;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn hash(key: u32) -> u64 {
        foldhash::quality::FixedState::with_seed(7).hash_one(key)
    }

    proptest! {
        /// Against a map, with hashes that are often the same in part.
        #[test]
        fn behaves_like_a_map(ops in proptest::collection::vec((any::<bool>(), 0..64_u32), 1..400)) {
            let coarse = |key: u32| u64::from(key % 5) << 56 | u64::from(key % 3);
            let mut index = Index::new(64);
            let mut oracle = BTreeMap::new();
            for (put, key) in ops {
                if put && !oracle.contains_key(&key) {
                    if index.insert(coarse(key), FlowId(key)) {
                        oracle.insert(key, ());
                    }
                } else if !put && oracle.remove(&key).is_some() {
                    index.remove(coarse(key), FlowId(key));
                }
                for key in 0..64 {
                    let found = index.find(coarse(key), |id| id.0 == key).map(|id| id.0);
                    prop_assert_eq!(found, oracle.get(&key).map(|()| key));
                }
            }
        }
    }

    /// As many flows as it was made for find a place, also when the number is a
    /// power of two and none is to spare.
    #[test]
    fn what_it_was_made_for_fits() {
        for limit in [1, 5, 1 << 10, (1 << 15) * 8] {
            let mut index = Index::new(limit);
            let all = (0..u32::try_from(limit).unwrap()).map(FlowId);
            let refused = all.clone().filter(|n| !index.insert(hash(n.0), *n)).count();
            assert_eq!(refused, 0, "of {limit}");
            assert!(all.clone().all(|n| index.find(hash(n.0), |id| id == n) == Some(n)));
            all.clone().for_each(|n| index.remove(hash(n.0), n));
            assert!(index.buckets.iter().all(|bucket| bucket.used() == 0));
        }
    }

    #[test]
    fn it_takes_no_more_than_it_says() {
        for limit in [1000, 1 << 16, (1 << 16) + 1, 87_382, 1 << 20] {
            let bytes = Index::buckets(limit) * size_of::<Bucket>();
            assert!(bytes <= limit * Index::PER_FLOW && 2 * bytes >= limit * Index::PER_FLOW);
        }
    }
}
