//! Numbers, streams, blocks and windows.
//!
//! A lane's numbers are dealt out to *streams* in turn, so that a burst of losses is a few losses of
//! each. In a stream, `every` numbers are a *block*, and `windows` blocks a *window*. At the end of each
//! block, the window that ends there is sent as a repair frame. Blocks of different streams end at
//! different times, so that repair frames are evenly spread.

/// Largest number of streams.
pub const MAX_STREAMS: u8 = 32;
/// Largest number of a stream's numbers for one repair frame.
pub const MAX_EVERY: u8 = 128;
/// Largest number of windows that have a number.
pub const MAX_WINDOWS: u8 = 8;

/// How much is sent for repair, and against which losses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Plan {
    streams: u8,
    every: u8,
    windows: u8,
}

/// A number's place in its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub stream: u64,
    /// Also the newest block of the first window that has the number.
    pub block: u64,
    /// The last number of its block.
    pub is_last: bool,
}

impl Plan {
    /// Frames of `streams` streams (a power of two, 1 to 32), a repair frame for `every` frames of each (a
    /// power of two, 2 to 128), and each frame in `windows` repair frames (1 to 8). `None` for any other
    /// numbers.
    pub const fn new(streams: u8, every: u8, windows: u8) -> Option<Self> {
        let is_plan = streams.is_power_of_two()
            && streams <= MAX_STREAMS
            && every.is_power_of_two()
            && every >= 2
            && every <= MAX_EVERY
            && windows >= 1
            && windows <= MAX_WINDOWS;
        if is_plan { Some(Self { streams, every, windows }) } else { None }
    }

    /// How many streams the numbers are dealt out to.
    pub const fn streams(self) -> u8 {
        self.streams
    }

    /// Numbers of a stream for each repair frame.
    pub const fn every(self) -> u8 {
        self.every
    }

    /// Repair frames that have a number.
    pub const fn windows(self) -> u8 {
        self.windows
    }

    /// Numbers of a stream in a repair frame.
    pub const fn window(self) -> u16 {
        self.every as u16 * self.windows as u16
    }

    /// Numbers of the lane from the first to the last one of a window.
    pub const fn span(self) -> u64 {
        self.window() as u64 * self.streams as u64
    }

    /// The number after which the last repair frame leaves that has `number`.
    pub const fn last_chance(self, number: u64) -> u64 {
        let place = self.place(number);
        self.end(place.stream, place.block + self.windows as u64 - 1)
    }

    pub(crate) const fn place(self, number: u64) -> Place {
        let stream = number % self.streams as u64;
        let at = number / self.streams as u64 + self.shift(stream);
        let every = self.every as u64;
        Place { stream, block: at / every, is_last: at % every == every - 1 }
    }

    /// The last number of the stream's block.
    pub(crate) const fn end(self, stream: u64, block: u64) -> u64 {
        let at = (block + 1) * self.every as u64 - 1;
        at.saturating_sub(self.shift(stream)) * self.streams as u64 + stream
    }

    /// Numbers by which the stream's blocks end sooner than they would otherwise, so that the streams' repair frames are
    /// evenly spread.
    const fn shift(self, stream: u64) -> u64 {
        let (streams, every) = (self.streams as u64, self.every as u64);
        if streams <= every {
            (streams - 1 - stream) * (every / streams)
        } else {
            every - 1 - stream % every
        }
    }
}

/// The factor of `number` in repair frames of this seed: 1 to 255.
///
/// With `x` = low 32 bits of `number` · 0x9e3779b1 + `seed` · 0x85ebca6b, both modulo 2^32: `x` ^= `x` >> 16, `x` ·=
/// 0x7feb352d, `x` ^= `x` >> 15, `x` ·= 0x846ca68b, `x` ^= `x` >> 16; the factor is 1 + (`x` · 255 >> 32).
#[inline]
pub const fn factor(seed: u16, number: u64) -> u8 {
    let mut x = (number as u32)
        .wrapping_mul(0x9e37_79b1)
        .wrapping_add((seed as u32).wrapping_mul(0x85eb_ca6b));
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^= x >> 16;
    1 + ((x as u64 * 255) >> 32) as u8
}
