//! Forward error correction on a lane: a sliding-window random linear code over GF(256), in the
//! spirit of RFC 8681.
//!
//! The sender adds each frame, times a factor, to a few sums. Now and then one of the sums is sent
//! as a *repair frame*. The receiver subtracts the frames that arrived: a sum of the lost ones is left. With
//! as many sums as lost frames, it solves the equations, and has the lost frames without a resend.
//!
//! Example: [`Plan`] of 1 stream, a repair frame for every 64 numbers, 4 windows. A repair frame is a
//! sum of the last 256 frames, and each frame is in 4 of them. Of a loss of one frame in a
//! thousand, fewer than one in three thousand is left to a resend, for 1.6 % more frames.
//!
//! | file | for |
//! | --- | --- |
//! | `plan.rs` | which numbers a window has, and the factors |
//! | `sums.rs` | the sums of open windows, of both ends |
//! | `encoder.rs` | the sender's end |
//! | `decoder.rs` | the receiver's end: which frames are known |
//! | `rows.rs` | equations of the frames that are not: Gaussian elimination |
//!
//! The crate has no IO, clock or randomness. [`Encoder`] and [`Decoder`] allocate when they are made,
//! and never later. They know nothing of the tunnel: a *frame* is any bytes under a number of 64 bits, of which
//! the low 32 count.

mod decoder;
mod encoder;
mod known;
mod plan;
mod rows;
mod sums;

pub use decoder::{Counts, Decoder, Outcome};
pub use encoder::Encoder;
pub use plan::{MAX_EVERY, MAX_STREAMS, MAX_WINDOWS, Plan, factor};

/// Bytes of a frame's length in front of its bytes in a sum.
pub const LEN_BYTES: usize = 2;

/// Which frames a repair frame is the sum of.
///
/// The sum is over the numbers `first`, `first` + streams, `first` + 2 streams and so on, `count` of them. Each
/// frame is added as two bytes of length, in network byte order, and its bytes, times its [`factor`]. Zeros
/// stand behind the bytes of shorter frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repair {
    /// The sender's plan.
    pub plan: Plan,
    /// The first number.
    pub first: u64,
    /// How many numbers; 0 announces that the plan holds from `first` on.
    pub count: u16,
    /// The seed of the factors.
    pub seed: u16,
}
