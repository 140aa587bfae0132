//! Sums of the frames of open windows.

use galois::Kernel;

use crate::LEN_BYTES;

/// Bytes of a frame in parts, one behind the other.
#[derive(Clone, Copy)]
pub(crate) struct Symbol<'a> {
    len: [u8; LEN_BYTES],
    parts: &'a [&'a [u8]],
}

impl<'a> Symbol<'a> {
    /// A frame of more than `longest` bytes counts as an empty one.
    pub fn new(parts: &'a [&'a [u8]], longest: usize) -> Self {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        match u16::try_from(len) {
            Ok(bytes) if len <= longest => Self { len: bytes.to_be_bytes(), parts },
            _ => Self { len: [0; LEN_BYTES], parts: &[] },
        }
    }

    /// Bytes in a sum: none for a frame of no bytes.
    fn len(self) -> usize {
        match u16::from_be_bytes(self.len) {
            0 => 0,
            bytes => LEN_BYTES + usize::from(bytes),
        }
    }

    /// Adds the frame times `factor` to `sum`, which has room for it. Returns how many bytes that changed.
    pub fn add_to(self, kernel: Kernel, sum: &mut [u8], factor: u8) -> usize {
        let mut at = LEN_BYTES;
        kernel.mul_add(sum, factor, &self.len);
        for part in self.parts {
            kernel.mul_add(&mut sum[at..], factor, part);
            at += part.len();
        }
        self.len()
    }
}

/// Frames of a window that were added.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    /// The window's newest block, and 1; 0 of a sum without a window.
    window: u64,
    /// The first and the last number that were added.
    pub low: u64,
    pub high: u64,
    /// Bytes that can be other than zero.
    len: usize,
}

/// All sums of a lane.
pub(crate) struct Sums {
    kernel: Kernel,
    /// Bytes for each sum.
    stride: usize,
    bytes: Box<[u8]>,
    sums: Box<[Sum]>,
}

/// The state of a window's sum.
pub(crate) enum State<'a> {
    /// Frames were added.
    Open(Sum, &'a [u8]),
    /// No frame has been added.
    Empty,
    /// The sum of a later window has its place.
    Gone,
}

impl Sums {
    /// So many sums, of frames of `longest` bytes.
    pub fn new(kernel: Kernel, count: usize, longest: usize) -> Self {
        // Whole cache lines, so that sums begin at one.
        let stride = (LEN_BYTES + longest).next_multiple_of(64);
        Self {
            kernel,
            stride,
            bytes: vec![0; count * stride].into_boxed_slice(),
            sums: vec![Sum::default(); count].into_boxed_slice(),
        }
    }

    /// Closes all windows.
    pub fn clear(&mut self) {
        for sum in &mut self.sums {
            sum.window = 0;
        }
    }

    /// Adds a frame to the sum of a window, the later one of those that have this slot.
    pub fn add(&mut self, slot: usize, window: u64, number: u64, factor: u8, symbol: Symbol<'_>) {
        let (sum, at) = (&mut self.sums[slot], slot * self.stride);
        let bytes = &mut self.bytes[at..at + self.stride];
        if sum.window != window + 1 {
            if sum.window > window {
                return;
            }
            bytes[..sum.len].fill(0);
            *sum = Sum { window: window + 1, low: number, high: number, len: 0 };
        }
        sum.len = sum.len.max(symbol.add_to(self.kernel, bytes, factor));
        sum.low = sum.low.min(number);
        sum.high = sum.high.max(number);
    }

    /// The sum of a window.
    pub fn get(&self, slot: usize, window: u64) -> State<'_> {
        let sum = self.sums[slot];
        if sum.window == window + 1 {
            State::Open(sum, &self.bytes[slot * self.stride..][..sum.len])
        } else if sum.window > window {
            State::Gone
        } else {
            State::Empty
        }
    }
}
