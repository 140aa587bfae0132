//! Telling a new message from one that was seen before.

use crate::ids::BootId;

/// How far, in sequence numbers, a message may be overtaken by later ones.
const WIDTH: u64 = 2048;
const WORDS: usize = (WIDTH / 64) as usize;

/// A receiver's memory of one peer box: its newest boot id, and which of
/// its latest 2048 sequence numbers have arrived.
///
/// Ask it only about messages whose tag is right: a forged one could move the
/// window. A receiver that has just started remembers nothing, and accepts an
/// old message once; its [`seen_boot`](super::Header::seen_boot) identifies it,
/// which isn't the receiver's own boot id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    boot: BootId,
    /// Highest sequence number seen.
    top: u64,
    /// Whether any message has been seen.
    started: bool,
    /// Bit `s % WIDTH`: whether `s` has been seen, for `s` in
    /// `top - WIDTH + 1 ..= top`.
    seen: [u64; WORDS],
}

/// Why a message is not new. It is to be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stale {
    /// Of an older boot of the peer.
    OldBoot,
    /// The sequence number was seen before.
    Replayed,
    /// The sequence number is older than the window.
    TooOld,
}

impl Default for Replay {
    fn default() -> Self {
        Self::new()
    }
}

impl Replay {
    /// Of a peer that was never heard of.
    pub const fn new() -> Self {
        Self { boot: BootId::NONE, top: 0, started: false, seen: [0; WORDS] }
    }

    /// Takes note of a message, if it is new. Nothing else is reset with a new boot: each flow
    /// compares the boot id of a SYNC or STATUS with the one that it knows.
    ///
    /// # Errors
    /// Why it isn't; then nothing changes.
    pub fn accept(&mut self, boot: BootId, seq: u64) -> Result<(), Stale> {
        if !self.started || boot > self.boot {
            *self = Self { boot, top: seq, started: true, seen: [0; WORDS] };
            self.mark(seq);
            return Ok(());
        }
        if boot < self.boot {
            return Err(Stale::OldBoot);
        }
        if seq > self.top {
            self.advance(seq);
        } else if self.top - seq >= WIDTH {
            return Err(Stale::TooOld);
        } else if self.has(seq) {
            return Err(Stale::Replayed);
        }
        self.mark(seq);
        Ok(())
    }

    /// Newest boot id seen, which messages to the peer carry (`seen_boot`); 0 before
    /// the first message.
    pub const fn boot(&self) -> BootId {
        self.boot
    }

    fn advance(&mut self, seq: u64) {
        if seq - self.top >= WIDTH {
            self.seen = [0; WORDS];
        } else {
            for between in self.top + 1..seq {
                let (word, bit) = Self::place(between);
                self.seen[word] &= !bit;
            }
        }
        self.top = seq;
    }

    const fn has(&self, seq: u64) -> bool {
        let (word, bit) = Self::place(seq);
        self.seen[word] & bit != 0
    }

    const fn mark(&mut self, seq: u64) {
        let (word, bit) = Self::place(seq);
        self.seen[word] |= bit;
    }

    const fn place(seq: u64) -> (usize, u64) {
        let bit = seq % WIDTH;
        ((bit / 64) as usize, 1 << (bit % 64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// Remembers everything, and so needs no window to be right.
    #[derive(Default)]
    struct Oracle {
        boot: Option<BootId>,
        seen: HashSet<u64>,
    }

    impl Oracle {
        fn accept(&mut self, boot: BootId, seq: u64) -> Result<(), Stale> {
            if self.boot.is_none_or(|newest| boot > newest) {
                *self = Self { boot: Some(boot), seen: HashSet::from([seq]) };
                return Ok(());
            }
            let newest = self.seen.iter().max().copied().unwrap_or_default();
            if self.boot != Some(boot) {
                Err(Stale::OldBoot)
            } else if seq.saturating_add(2048) <= newest {
                Err(Stale::TooOld)
            } else if !self.seen.insert(seq) {
                Err(Stale::Replayed)
            } else {
                Ok(())
            }
        }
    }

    fn agrees_with_the_oracle(messages: &[(u64, u64)]) -> Result<(), TestCaseError> {
        let (mut replay, mut oracle) = (Replay::new(), Oracle::default());
        for (boot, seq) in messages.iter().map(|&(boot, seq)| (BootId(boot), seq)) {
            let before = replay.clone();
            let verdict = replay.accept(boot, seq);
            prop_assert_eq!(verdict, oracle.accept(boot, seq), "boot {} seq {}", boot, seq);
            if verdict.is_err() {
                prop_assert_eq!(&replay, &before);
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn small_steps(base in any::<u64>(), steps in prop::collection::vec((0u64..3, 0u64..5000), 1..400)) {
            let base = base.min(u64::MAX - 5000);
            let messages: Vec<_> = steps.iter().map(|&(boot, step)| (boot / 2 + 7, base + step)).collect();
            agrees_with_the_oracle(&messages)?;
        }

        #[test]
        fn a_moving_window(steps in prop::collection::vec((-3000i64..3200, 1usize..4), 1..300)) {
            let (mut at, mut messages) = (1i64 << 40, Vec::new());
            for (step, times) in steps {
                at += step;
                messages.extend(std::iter::repeat_n((1, at as u64), times));
            }
            agrees_with_the_oracle(&messages)?;
        }
    }

    #[test]
    fn the_edges_of_the_window_and_of_the_numbers() {
        const BOOT: BootId = BootId::NONE;
        let mut replay = Replay::new();
        assert_eq!(replay.boot(), BOOT);
        assert_eq!(replay.accept(BOOT, 0), Ok(()));
        assert_eq!(replay.accept(BOOT, 0), Err(Stale::Replayed));
        assert_eq!(replay.accept(BOOT, 2048), Ok(()));
        assert_eq!(replay.accept(BOOT, 0), Err(Stale::TooOld));
        assert_eq!(replay.accept(BOOT, 1), Ok(()));
        assert_eq!(replay.accept(BOOT, u64::MAX), Ok(()));
        assert_eq!(replay.accept(BOOT, u64::MAX - 2047), Ok(()));
        assert_eq!(replay.accept(BOOT, u64::MAX - 2048), Err(Stale::TooOld));
        assert_eq!(replay.boot(), BOOT);
    }
}
