//! Lanes, sessions, and the numbers of transmissions on a lane.

use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Sub};

/// A lane: a sequence of frames in one direction on one path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lane(u8);

impl Lane {
    /// Most lanes of a tunnel.
    pub const COUNT_MAX: u8 = 255;

    /// Lane `n`, below [`COUNT_MAX`](Self::COUNT_MAX).
    pub const fn new(n: u8) -> Option<Self> {
        if n < Self::COUNT_MAX { Some(Self(n)) } else { None }
    }

    /// The first `count` lanes, [`COUNT_MAX`](Self::COUNT_MAX) at most.
    pub fn all(count: u8) -> impl Iterator<Item = Self> + Clone {
        (0..count).filter_map(Self::new)
    }

    /// The first lane of a port.
    pub(crate) const fn first(port: Port) -> Self {
        Self(port.0)
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The port of its frames, of a box with so many, at least one: lanes go round the ports.
    #[inline]
    pub const fn port(self, ports: u8) -> Port {
        // Most often there is one, or as many as lanes: no division for each frame.
        if self.0 < ports { Port(self.0) } else { Port(self.0 % ports) }
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A WAN port of a box, counted from 0. Each is the beginning of a path to the peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Port(u8);

impl Port {
    /// Most WAN ports of a box.
    pub const COUNT_MAX: u8 = 8;

    /// Port `n`, below [`COUNT_MAX`](Self::COUNT_MAX).
    pub const fn new(n: u8) -> Option<Self> {
        if n < Self::COUNT_MAX { Some(Self(n)) } else { None }
    }

    /// The first `count` ports, [`COUNT_MAX`](Self::COUNT_MAX) at most.
    pub fn all(count: u8) -> impl Iterator<Item = Self> + Clone {
        (0..count).filter_map(Self::new)
    }

    /// Its number.
    pub const fn get(self) -> u8 {
        self.0
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A session as its receiving end knows it: frames to that end carry it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Session(u32);

impl Session {
    /// In place of a session that is not known.
    pub const NONE: Self = Self(0);

    /// The session with these bits.
    pub const fn new(bits: u32) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The first number of each lane: who can't see the session doesn't know the numbers either.
    pub const fn first(self) -> Number {
        Number(self.0 as u64)
    }
}

/// The position of a transmission on its lane. The low 32 bits are transmitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Number(u64);

/// The low 32 bits of a [`Number`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct WireNumber(pub u32);

impl Number {
    /// The number `n`, below 2^56.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The transmitted form.
    pub const fn wire(self) -> WireNumber {
        WireNumber(self.0 as u32)
    }

    /// The number with these low 32 bits that lies closest to `near`; `None` if it would be negative.
    #[inline]
    pub fn read(wire: WireNumber, near: Self) -> Option<Self> {
        let ahead = i64::from(wire.0.wrapping_sub(near.0 as u32) as i32);
        near.0.checked_add_signed(ahead).map(Self)
    }

    /// The one after it.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// How many numbers lie from `earlier` on to before this one; 0 if it is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Number {
    type Output = Self;

    fn add(self, n: u64) -> Self {
        Self(self.0 + n)
    }
}

impl AddAssign<u64> for Number {
    fn add_assign(&mut self, n: u64) {
        self.0 += n;
    }
}

impl Sub<u64> for Number {
    type Output = Self;

    /// Saturates at zero.
    fn sub(self, n: u64) -> Self {
        Self(self.0.saturating_sub(n))
    }
}

/// A frame: the lane and the number of its first transmission, in eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FrameId(NonZeroU64);

const LANE_SHIFT: u32 = 56;

impl FrameId {
    /// The frame that was first sent on `lane` as `number`.
    #[inline]
    pub fn new(lane: Lane, number: Number) -> Self {
        // No lane is 0xff, so that adding one does not overflow.
        let packed = (u64::from(lane.0) + 1) << LANE_SHIFT | number.0 & ((1 << LANE_SHIFT) - 1);
        Self(NonZeroU64::new(packed).unwrap_or(NonZeroU64::MIN))
    }

    /// That of the lane's next number.
    #[inline]
    pub(crate) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The lane.
    pub const fn lane(self) -> Lane {
        Lane((self.0.get() >> LANE_SHIFT) as u8 - 1)
    }

    /// The number.
    pub const fn number(self) -> Number {
        Number(self.0.get() & ((1 << LANE_SHIFT) - 1))
    }

    /// Lane and number in one.
    pub(crate) const fn bits(self) -> u64 {
        self.0.get()
    }

    /// The transmitted form.
    pub(crate) const fn wire(self) -> (Lane, WireNumber) {
        (self.lane(), self.number().wire())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const _: () = assert!(size_of::<Option<FrameId>>() == 8, "the bucket table has one per bucket");

    #[test]
    fn a_number_is_read_next_to_one_that_is_known() {
        let wrap = 1_u64 << 32;
        for (near, number) in
            [(0, 0), (5, 2), (wrap - 1, wrap), (wrap + 3, wrap - 7), (9 * wrap, 9 * wrap + 1_000)]
        {
            let number = Number::new(number);
            assert_eq!(Number::read(number.wire(), Number::new(near)), Some(number));
        }
        assert_eq!(Number::read(WireNumber(u32::MAX), Number::new(3)), None, "negative");
    }

    #[test]
    fn a_frame_id_reads_back() {
        for lane in [0, 1, 254] {
            for number in [0, 1, u64::from(u32::MAX), (1 << 56) - 1] {
                let (lane, number) = (Lane::new(lane).expect("a lane"), Number::new(number));
                let id = FrameId::new(lane, number);
                assert_eq!((id.lane(), id.number()), (lane, number));
                if number.get() < u64::MAX >> 8 {
                    assert_eq!(id.next(), FrameId::new(lane, number.next()));
                }
            }
        }
        assert_eq!(Lane::new(255), None);
    }
}
