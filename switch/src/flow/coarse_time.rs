//! Times and deadlines in 32 bits.

use common::time::{Span, Time};

/// A moment, to a millisecond or so. Moments that lie 50 days apart look alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoarseTime(u32);

impl CoarseTime {
    /// About a millisecond.
    const SHIFT: u32 = 20;

    #[inline]
    pub fn at(now: Time) -> Self {
        Self((now.as_nanos() >> Self::SHIFT) as u32)
    }

    /// How long ago it was.
    pub fn since(self, now: Time) -> Span {
        let ticks = Self::at(now).0.wrapping_sub(self.0);
        Span::from_nanos(u64::from(ticks) << Self::SHIFT)
    }
}

/// A deadline, or up to 2 µs before it. One that is more than [`CoarseDeadline::AHEAD`] ticks ahead
/// may look as if it had passed; one that passed within two hours never looks as if it were
/// ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoarseDeadline(u32);

impl CoarseDeadline {
    const SHIFT: u32 = 11;
    pub const NEVER: Self = Self(u32::MAX);
    /// Hardly a deadline is further ahead: 9 minutes. The rest of the range is for deadlines that
    /// passed while the box stood still.
    const AHEAD: u32 = 1 << 28;

    #[inline]
    pub fn at(deadline: Time) -> Self {
        if deadline == Time::NEVER {
            return Self::NEVER;
        }
        Self(((deadline.as_nanos() >> Self::SHIFT) as u32).min(Self::NEVER.0 - 1))
    }

    /// Whether there is none.
    #[inline]
    pub fn is_never(self) -> bool {
        self.0 == Self::NEVER.0
    }

    /// When to look again, if it is not yet; [`Time::NEVER`] if there is no need to.
    #[inline]
    pub fn later_than(self, now: Time) -> Option<Time> {
        if self.is_never() {
            return Some(Time::NEVER);
        }
        let now = now.as_nanos() >> Self::SHIFT;
        let ahead = self.0.wrapping_sub(now as u32);
        let is_ahead = ahead != 0 && ahead <= Self::AHEAD;
        is_ahead.then(|| Time::from_nanos((now + u64::from(ahead)) << Self::SHIFT))
    }
}
