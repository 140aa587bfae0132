//! How far lanes are settled, where it is looked at for each frame.

use crate::number::{Lane, Number, WireNumber};

/// The lowest bits of a number of each lane before which all are settled: the first one that is not, when the lane was looked
/// at last. So close together that those of some lanes take one cache line.
#[derive(Debug)]
pub(super) struct Floors([u32; 1 << u8::BITS]);

impl Floors {
    /// Those of lanes that begin with `first`.
    pub fn new(first: Number) -> Self {
        Self([first.wire().0; _])
    }

    /// All numbers of a lane before `floor` are settled.
    #[inline]
    pub fn set(&mut self, lane: Lane, floor: Number) {
        self.0[usize::from(lane.get())] = floor.wire().0;
    }

    /// Whether a number lies a little before the floor of a lane. If not, it may be settled all the same.
    #[inline]
    pub fn is_before(&self, lane: u8, number: WireNumber) -> bool {
        let distance = number.0.wrapping_sub(self.0[usize::from(lane)]) as i32;
        (i32::MIN / 2..0).contains(&distance)
    }
}
