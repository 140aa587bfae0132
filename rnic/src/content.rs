//! The content of messages: bytes that both ends can compute, so that the
//! responder checks every one of them without having seen the source buffer.
//!
//! The responder makes the data of READs the same way, as if its memory
//! changed from one READ to the next, and checked by the requester.
//!
//! A byte depends on the seed, on both QP numbers, on the PSN the stream began
//! at, on the index of its message and on its offset. A packet that ends up in
//! another QP, in another incarnation of the same QP number, in another message or at
//! another offset therefore never passes as right.

use crate::config::QpConfig;
use common::wire::Qpn;

const WORD: usize = 8;
/// 2^64 divided by the golden ratio, odd: consecutive multiples are spread
/// evenly over 64 bits (Knuth, TAOCP vol. 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// An odd multiplier with no structure in common with `GOLDEN`.
const SCRAMBLE: u64 = 0xd6e8_feb8_6659_fd93;

/// A bijection of 64 bits in which every input bit moves about half of the
/// output bits. Runs once per message.
const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 32)).wrapping_mul(SCRAMBLE);
    let x = (x ^ (x >> 32)).wrapping_mul(SCRAMBLE);
    x ^ (x >> 32)
}

/// All messages of one direction of one incarnation of a QP; `None`: without content.
#[derive(Clone, Copy, Debug)]
pub struct Stream(Option<u64>);

impl Stream {
    /// The stream that goes from QP `source` to QP `destination` and begins at
    /// `first_psn`.
    pub fn new(seed: u64, source: Qpn, destination: Qpn, first_psn: u32) -> Self {
        let qps = u64::from(source.get()) << 32 | u64::from(destination.get());
        Self(Some(mix(mix(mix(seed) ^ qps) ^ u64::from(first_psn))))
    }

    /// The stream that a QP with this configuration sends.
    pub fn sent(config: &QpConfig) -> Self {
        let QpConfig { content_seed, local_qpn, remote_qpn, send_psn, .. } = *config;
        match config.content {
            true => Self::new(content_seed, local_qpn, remote_qpn, send_psn.get()),
            false => Self(None),
        }
    }

    /// The stream that a QP with this configuration receives.
    pub fn received(config: &QpConfig) -> Self {
        let QpConfig { content_seed, local_qpn, remote_qpn, recv_psn, .. } = *config;
        match config.content {
            true => Self::new(content_seed, remote_qpn, local_qpn, recv_psn.get()),
            false => Self(None),
        }
    }

    /// The destination's memory as READs of the source find it: a stream
    /// apart from everything that goes the other way.
    pub fn fetched(self) -> Self {
        Self(self.0.map(|key| mix(!key)))
    }

    /// Content of the message with this index, counted from 0.
    pub fn message(self, index: u64) -> Content {
        Content(self.0.map(|key| mix(key ^ index.wrapping_mul(GOLDEN))))
    }
}

/// Content of one message; `None`: it has none.
#[derive(Clone, Copy, Debug)]
pub struct Content(Option<u64>);

impl Content {
    /// Eight bytes of content. One multiplication: faster than the ICRC over
    /// the same bytes.
    fn word(key: u64, index: u64) -> [u8; WORD] {
        let x = key.wrapping_add(index.wrapping_mul(GOLDEN));
        (x ^ (x >> 32)).wrapping_mul(SCRAMBLE).to_le_bytes()
    }

    /// Writes the bytes of the message from `offset`, a multiple of 8 (every
    /// packet of a message begins at a multiple of the PMTU), to `out`, which is
    /// left as it is if there is no content.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        let Some(key) = self.0 else { return };
        debug_assert!(offset.is_multiple_of(WORD as u64));
        let first = offset / WORD as u64;
        let (words, tail) = out.as_chunks_mut::<WORD>();
        let after = first + words.len() as u64;
        for (index, word) in (first..).zip(words) {
            *word = Self::word(key, index);
        }
        let len = tail.len();
        tail.copy_from_slice(&Self::word(key, after)[..len]);
    }

    /// How many of `bytes`, which should be those of the message from `offset`
    /// (a multiple of 8), are wrong.
    pub fn mismatches(self, offset: u64, bytes: &[u8]) -> u64 {
        let Some(key) = self.0 else { return 0 };
        debug_assert!(offset.is_multiple_of(WORD as u64));
        let first = offset / WORD as u64;
        let (words, tail) = bytes.as_chunks::<WORD>();
        let differ = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a != b).count() as u64;
        let mut wrong = 0;
        for (index, word) in (first..).zip(words) {
            let right = Self::word(key, index);
            if *word != right {
                wrong += differ(word, &right);
            }
        }
        wrong + differ(tail, &Self::word(key, first + words.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(seed: u64, source: u32, destination: u32, psn: u32) -> Stream {
        Stream::new(seed, Qpn::new(source), Qpn::new(destination), psn)
    }

    #[test]
    fn every_part_of_the_identity_matters() {
        let make = |seed, source, destination, psn, index| {
            let mut bytes = [0; 64];
            stream(seed, source, destination, psn).message(index).fill(0, &mut bytes);
            bytes
        };
        let base = make(1, 2, 3, 4, 5);
        for other in [
            make(2, 2, 3, 4, 5),
            make(1, 3, 3, 4, 5),
            make(1, 2, 4, 4, 5),
            make(1, 3, 2, 4, 5),
            make(1, 2, 3, 5, 5),
            make(1, 2, 3, 4, 6),
            {
                let mut bytes = [0; 64];
                stream(1, 2, 3, 4).fetched().message(5).fill(0, &mut bytes);
                bytes
            },
        ] {
            let same = base.iter().zip(other).filter(|(a, b)| **a == *b).count();
            assert!(same < 8, "{same} of 64 bytes agree");
        }
    }

    proptest! {
        #[test]
        fn packets_join_into_the_message(seed: u64, index in 0u64..1 << 40, packets in 1usize..5, tail in 0usize..256) {
            let message = stream(seed, 1, 2, 3).message(index);
            let mut whole = vec![0; packets * 256 + tail];
            message.fill(0, &mut whole);
            for (i, part) in whole.chunks(256).enumerate() {
                prop_assert_eq!(message.mismatches(i as u64 * 256, part), 0);
            }
        }

        #[test]
        fn exactly_the_changed_bytes_are_counted(len in 1usize..300, flips in proptest::collection::btree_set(0usize..300, 0..10)) {
            let message = stream(7, 1, 2, 3).message(0);
            let mut bytes = vec![0; len];
            message.fill(4096, &mut bytes);
            let flips: Vec<_> = flips.into_iter().filter(|at| *at < len).collect();
            for at in &flips {
                bytes[*at] ^= 0x40;
            }
            prop_assert_eq!(message.mismatches(4096, &bytes), flips.len() as u64);
        }
    }
}
