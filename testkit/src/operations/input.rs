//! Bytes as a source of small numbers.

/// The rest of an input. One that is used up gives zeros.
///
/// A number takes as few bytes as it can, and earlier values decide the meaning of
/// later ones, so that a changed byte changes one thing.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: u8) -> u8 {
        self.byte() % n
    }

    /// True for every `n`th value of a byte.
    pub fn one_in(&mut self, n: u8) -> bool {
        self.below(n) == n - 1
    }

    /// A number from `from` to before `to`, at most 256 of them.
    pub fn range(&mut self, from: i32, to: i32) -> i32 {
        from + i32::from(self.byte()) % (to - from)
    }

    /// Two bytes.
    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// One of a few things.
    pub fn choose<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()]
    }

    /// The next bytes, at most `n`.
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
