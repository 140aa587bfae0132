//! A budget of frames that the flows of one worker share.

/// Limit of a pool in frames, since each frame pins a whole mbuf, however short it is. Bytes are
/// only counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    max_frames: u64,
    used: u64,
    frames: u64,
    max_slots: u64,
    slots: u64,
}

impl Budget {
    /// An unused budget.
    pub const fn new(max_frames: u64) -> Self {
        let max_slots = Self::slots_for(max_frames);
        Self { max_frames, used: 0, frames: 0, max_slots, slots: 0 }
    }

    /// Slots for the flows of a pool of `max_frames`. A slot is the state of a packet in flight,
    /// whether its frame is held or not. One flow may take half of the slots, which covers all
    /// frames, or 100 Gbit/s × 40 ms of 1 KiB packets.
    pub const fn slots_for(max_frames: u64) -> u64 {
        const LEAST: u64 = 1 << 20;
        let slots = max_frames.saturating_mul(2);
        if slots > LEAST { slots } else { LEAST }
    }

    /// Limits it to so many frames from now on. What is in use beyond that stays until it is given back.
    pub const fn limit(&mut self, max_frames: u64) {
        (self.max_frames, self.max_slots) = (max_frames, Self::slots_for(max_frames));
    }

    /// The most frames that it grants.
    pub const fn max_frames(&self) -> u64 {
        self.max_frames
    }

    /// Takes `n` slots for a flow that has `has`, or refuses. A flow never has more slots than
    /// remain free, so many flows share them.
    pub fn take_slots(&mut self, n: u32, has: u32) -> bool {
        let left = self.max_slots.saturating_sub(self.slots);
        let may = u64::from(has) + 2 * u64::from(n) <= left;
        if may {
            self.slots += u64::from(n);
        }
        may
    }

    /// Gives back slots.
    pub fn give_slots(&mut self, n: u32) {
        debug_assert!(self.slots >= u64::from(n));
        self.slots = self.slots.saturating_sub(u64::from(n));
    }

    /// Slots in use.
    pub const fn slots(&self) -> u64 {
        self.slots
    }

    /// Whether at least `percent` of the slots are taken.
    pub const fn are_slots_filled(&self, percent: u8) -> bool {
        reaches(self.slots, self.max_slots, percent)
    }

    /// Takes `bytes` for one more frame, or refuses.
    pub fn take(&mut self, bytes: usize) -> bool {
        if !self.has_room() {
            return false;
        }
        self.used += bytes as u64;
        self.frames += 1;
        true
    }

    /// Whether it would grant one more frame.
    pub const fn has_room(&self) -> bool {
        self.frames < self.max_frames
    }

    /// Reverses one [`take`](Self::take).
    pub fn give(&mut self, bytes: usize) {
        debug_assert!(self.used >= bytes as u64 && self.frames > 0);
        self.used = self.used.saturating_sub(bytes as u64);
        self.frames = self.frames.saturating_sub(1);
    }

    /// Bytes in use.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Frames held.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Whether at least `percent` is in use.
    #[inline]
    pub const fn is_filled(&self, percent: u8) -> bool {
        reaches(self.frames, self.max_frames, percent)
    }
}

/// Whether `part` is at least `percent` of `whole`.
const fn reaches(part: u64, whole: u64, percent: u8) -> bool {
    part as u128 * 100 >= whole as u128 * percent as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_beyond_the_limit_and_recovers() {
        let mut b = Budget::new(2);
        assert!(b.take(60) && b.has_room());
        assert!(b.take(40) && !b.has_room());
        assert!(!b.take(1));
        assert_eq!((b.used(), b.frames()), (100, 2));
        assert!(b.is_filled(100));
        b.give(60);
        assert_eq!((b.used(), b.frames()), (40, 1));
        assert!(b.is_filled(50) && !b.is_filled(51));
    }

    #[test]
    fn a_lower_limit_takes_nothing_back() {
        let mut b = Budget::new(3);
        assert!(b.take(1) && b.take(2) && b.take(3));
        b.limit(1);
        assert!(!b.has_room() && b.frames() == 3);
        b.give(1);
        b.give(2);
        assert!(!b.take(1) && b.frames() == 1);
        b.give(3);
        assert!(b.take(1) && !b.take(1));
        b.limit(2);
        assert!(b.take(1) && b.max_frames() == 2);
    }

    #[test]
    fn a_flow_gets_no_more_slots_than_are_left() {
        let mut b = Budget::new(1 << 20);
        assert_eq!(Budget::slots_for(1 << 20), 1 << 21);
        let mut has = 0;
        while b.take_slots(1 << 10, has) {
            has += 1 << 10;
        }
        assert_eq!(has, 1 << 20);
        assert!(b.take_slots(16, 0) && !b.take_slots(1 << 20, 0) && b.are_slots_filled(50));
        b.give_slots(has + 16);
        assert_eq!((b.slots(), b.are_slots_filled(1)), (0, false));
        assert_eq!(Budget::slots_for(0), 1 << 20, "without frames packets are known as well");
    }
}
