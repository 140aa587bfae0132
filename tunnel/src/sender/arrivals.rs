//! What becomes of transmissions that arrived.

use arrayvec::ArrayVec;

use super::copies::Copies;
use super::outgoing::Arrived;
use super::{RELEASED, Recover};
use crate::number::FrameId;

/// Frees the handles of transmissions that arrived, several at a time.
pub(super) struct Arrivals<'a, T: Recover> {
    handles: ArrayVec<T::Kept, RELEASED>,
    /// Handles that were freed.
    count: usize,
    copies: &'a mut Copies,
    out: &'a mut T,
}

impl<'a, T: Recover> Arrivals<'a, T> {
    pub const fn new(copies: &'a mut Copies, out: &'a mut T) -> Self {
        Self { handles: ArrayVec::new_const(), count: 0, copies, out }
    }

    /// Frees the last ones. Returns how many there were.
    pub fn finish(mut self) -> usize {
        self.release();
        self.count
    }

    #[inline(never)]
    fn release(&mut self) {
        self.count += self.handles.len();
        self.out.release_all(&mut self.handles);
    }
}

impl<T: Recover> Arrived<T::Kept> for Arrivals<'_, T> {
    #[inline(always)]
    fn kept(&mut self, kept: T::Kept) {
        self.out.will_release(&kept);
        self.handles.push(kept);
        if self.handles.is_full() {
            self.release();
        }
    }

    fn not_kept(&mut self, id: FrameId) {
        self.copies.arrived.push(id);
    }
}
