//! Random numbers: one independent stream per direction and purpose.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The purpose of a random stream.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Loss,
    Corruption,
    Duplication,
    Reordering,
    Jitter,
}

/// Most purposes that may ever exist; part of how streams are numbered.
const PURPOSES: u64 = 16;

/// One stream of random numbers.
pub(crate) struct Dice(ChaCha8Rng);

impl Dice {
    /// The stream for `purpose` of direction number `direction`.
    pub fn new(seed: u64, direction: u64, purpose: Purpose) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(direction * PURPOSES + purpose as u64);
        Self(rng)
    }

    /// True with probability `p`; draws nothing when there is no choice.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (p >= 1.0 || self.0.random_bool(p))
    }

    /// Uniform in `0 ..= max`.
    pub fn up_to(&mut self, max: u64) -> u64 {
        if max == 0 { 0 } else { self.0.random_range(0..=max) }
    }
}
