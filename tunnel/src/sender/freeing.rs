//! When the handles of transmissions that arrived are freed. R-TUN-51

use common::time::{Span, Time};

use super::outgoing::Outgoing;
use super::{Recover, Sender, SenderConfig};

/// Handles that a REPORT frees at once. More are freed as frames are sent, so that each finds memory that is in the cache.
const FREED_AT_ONCE: usize = 64;
/// The handles that are freed for so many frames that are sent: one more.
const FREED_FOR: usize = 8;
/// Time after which they are freed if none is sent.
const FREED_LATE: Span = Span::from_millis(1);

impl<K> Sender<K> {
    /// Whether so many more frames can be kept.
    #[inline]
    pub fn has_room(&self, config: &SenderConfig, more: usize) -> bool {
        self.kept + more <= config.cache_max
    }

    /// So many frames were sent: frees about as many whose transmissions arrived.
    #[inline]
    pub fn free_for<T: Recover<Kept = K>>(&mut self, sent: usize, out: &mut T) {
        if self.free_due < Time::NEVER {
            self.free_credit += sent * (FREED_FOR + 1);
            let most = self.free_credit / FREED_FOR;
            self.free_credit %= FREED_FOR;
            self.free(most, out);
        }
    }

    /// Frees the handles of up to `most` transmissions that arrived.
    pub fn free<T: Recover<Kept = K>>(&mut self, mut most: usize, out: &mut T) {
        for _ in 0..=self.lanes.len() {
            let Some(lane) = self.lanes.get_mut(self.freeing) else { break };
            let (count, freed) = lane.free(most, out);
            self.kept -= freed;
            most -= count;
            if lane.unfreed() > 0 {
                return;
            }
            self.freeing = (self.freeing + 1) % self.lanes.len();
        }
        (self.free_due, self.free_credit) = (Time::NEVER, 0);
    }

    /// A REPORT has come: frees what arrived, if it is little, or leaves it to the frames that are sent.
    pub(super) fn free_arrived<T: Recover<Kept = K>>(&mut self, now: Time, out: &mut T) {
        let unfreed: usize = self.lanes.iter().map(Outgoing::unfreed).sum();
        self.free_due = now + FREED_LATE;
        if unfreed <= FREED_AT_ONCE {
            self.free(usize::MAX, out);
        }
    }
}
