//! A budget of bytes that the flows of one worker share.

/// How many bytes of frames a pool may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    limit: u64,
    used: u64,
    frames: u64,
}

impl Budget {
    /// An unused budget of `limit` bytes.
    pub const fn new(limit: u64) -> Self {
        Self { limit, used: 0, frames: 0 }
    }

    /// Takes `bytes` for one more frame, or refuses.
    pub fn take(&mut self, bytes: usize) -> bool {
        let used = self.used + bytes as u64;
        if used > self.limit {
            return false;
        }
        self.used = used;
        self.frames += 1;
        true
    }

    /// Gives back what [`take`](Self::take) took for one frame.
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

    /// Fill level in percent, 0 ..= 100.
    pub const fn pressure(&self) -> u8 {
        if self.limit == 0 { 100 } else { (self.used as u128 * 100 / self.limit as u128) as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_beyond_the_limit_and_recovers() {
        let mut b = Budget::new(100);
        assert!(b.take(60));
        assert!(!b.take(41));
        assert!(b.take(40));
        assert_eq!((b.used(), b.frames(), b.pressure()), (100, 2, 100));
        b.give(60);
        assert_eq!((b.used(), b.frames(), b.pressure()), (40, 1, 40));
    }
}
