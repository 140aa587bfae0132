//! The entries of the flow table, by number.

use common::cpu::prefetch;
use common::frame::Frame;
use common::ids::FlowId;

use crate::flow::entry::Entry;

/// Entries that are never moved. One that is taken out leaves its place to the next that comes.
///
/// A place always has an entry, if a [vacant](Entry::vacant) one: so the cache lines of a place are known without a look
/// at it, and can be prefetched.
pub(crate) struct Entries<F: Frame> {
    places: Vec<Entry<F>>,
    /// Those that were left.
    vacant: Vec<FlowId>,
}

impl<F: Frame> Entries<F> {
    /// Memory of an entry, in bytes.
    pub const EACH: usize = size_of::<Entry<F>>() + size_of::<FlowId>();

    /// With room for `limit`, which takes no memory until it is used.
    pub fn with_capacity(limit: usize) -> Self {
        Self { places: Vec::with_capacity(limit), vacant: Vec::with_capacity(limit) }
    }

    pub fn len(&self) -> usize {
        self.places.len() - self.vacant.len()
    }

    #[inline]
    pub fn get(&self, id: FlowId) -> Option<&Entry<F>> {
        self.places.get(id.0 as usize).filter(|entry| !entry.is_vacant)
    }

    #[inline]
    pub fn get_mut(&mut self, id: FlowId) -> Option<&mut Entry<F>> {
        self.places.get_mut(id.0 as usize).filter(|entry| !entry.is_vacant)
    }

    /// The entry in a place that is known not to be vacant: one that the index names.
    #[inline]
    pub fn at(&self, id: FlowId) -> Option<&Entry<F>> {
        let entry = self.places.get(id.0 as usize);
        debug_assert!(entry.is_none_or(|entry| !entry.is_vacant));
        entry
    }

    /// Prefetches an entry.
    #[inline(always)]
    pub fn prefetch(&self, id: FlowId) {
        if let Some(Entry { key, state, is_vacant, .. }) = self.places.get(id.0 as usize) {
            prefetch(key);
            prefetch(state);
            prefetch(is_vacant);
        }
    }

    /// Prefetches what a timer that fires needs of an entry.
    #[inline(always)]
    pub fn prefetch_timer(&self, id: FlowId) {
        if let Some(Entry { armed, is_vacant, .. }) = self.places.get(id.0 as usize) {
            prefetch(armed);
            prefetch(is_vacant);
        }
    }

    /// The number that the next entry gets.
    pub fn next_id(&self) -> FlowId {
        self.vacant.last().copied().unwrap_or(FlowId(self.places.len() as u32))
    }

    /// Puts in an entry, as [`next_id`](Self::next_id).
    pub fn insert(&mut self, entry: Entry<F>) {
        match self.vacant.pop() {
            Some(id) => self.places[id.0 as usize] = entry,
            None => self.places.push(entry),
        }
    }

    /// Takes an entry out.
    pub fn take(&mut self, id: FlowId) -> Option<Entry<F>> {
        let entry = self.get_mut(id)?;
        let entry = core::mem::replace(entry, Entry::vacant());
        self.vacant.push(id);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::heap::HeapFrame;
    use common::time::Time;

    fn entry(generation: u32) -> Entry<HeapFrame> {
        Entry::new(Entry::<HeapFrame>::vacant().key, Time::ZERO, generation)
    }

    #[test]
    fn places_are_used_again_and_none_moves() {
        let mut entries = Entries::with_capacity(8);
        let generation = |entries: &Entries<HeapFrame>, id| entries.get(id).map(|e| e.generation);
        for n in 0..3 {
            assert_eq!(entries.next_id(), FlowId(n));
            entries.insert(entry(n));
        }
        assert_eq!(entries.take(FlowId(1)).map(|entry| entry.generation), Some(1));
        assert!(entries.take(FlowId(1)).is_none() && entries.get_mut(FlowId(1)).is_none());
        assert_eq!((entries.len(), entries.next_id()), (2, FlowId(1)));
        entries.insert(entry(7));
        assert_eq!((entries.len(), entries.next_id()), (3, FlowId(3)));
        let all = (0..4).map(|n| generation(&entries, FlowId(n)));
        assert_eq!(all.collect::<Vec<_>>(), [Some(0), Some(7), Some(2), None]);
    }
}
