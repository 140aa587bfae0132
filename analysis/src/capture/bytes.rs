//! A file in pieces, and numbers in them.

use std::io::{self, BufReader, Read};

use super::Fault;

/// Longest piece that is kept in memory, in bytes.
const LONGEST: u64 = 1 << 24;

/// A file that is read from its beginning to its end.
pub(super) struct Bytes<R> {
    file: BufReader<R>,
    piece: Vec<u8>,
}

impl<R: Read> Bytes<R> {
    pub fn new(file: R) -> Self {
        Self { file: BufReader::with_capacity(1 << 20, file), piece: Vec::new() }
    }

    /// The next `len` bytes; `None` if the file has ended. `records`: read so far, for an error.
    pub fn next(&mut self, len: usize, records: u64) -> Result<Option<&[u8]>, Fault> {
        let len = len as u64;
        if len > LONGEST {
            return Err(Fault::Damaged { records, what: format!("a record of {len} bytes") });
        }
        self.piece.clear();
        // Memory grows with the bytes that are there, not with the length that the file claims.
        let read = self.file.by_ref().take(len).read_to_end(&mut self.piece).map_err(Fault::Io)?;
        match read as u64 {
            0 if len > 0 => Ok(None),
            read if read < len => Err(Fault::Truncated { records }),
            _ => Ok(Some(&self.piece)),
        }
    }

    /// The next `len` bytes, without which the file is truncated.
    pub fn more(&mut self, len: usize, records: u64) -> Result<&[u8], Fault> {
        self.next(len, records)?.ok_or(Fault::Truncated { records })
    }

    /// Leaves out `len` bytes.
    pub fn skip(&mut self, len: u64, records: u64) -> Result<(), Fault> {
        let skipped = io::copy(&mut self.file.by_ref().take(len), &mut io::sink());
        match skipped.map_err(Fault::Io)? {
            skipped if skipped < len => Err(Fault::Truncated { records }),
            _ => Ok(()),
        }
    }
}

/// The order of the bytes of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    Big,
    Little,
}

impl Order {
    fn number<const N: usize>(self, bytes: &[u8], at: usize) -> u64 {
        let mut field = [0; N];
        if let Some(found) = bytes.get(at..at + N) {
            field.copy_from_slice(found);
        }
        let append = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match self {
            Self::Big => field.iter().fold(0, append),
            Self::Little => field.iter().rev().fold(0, append),
        }
    }

    /// The number of 16 bits at `at`; 0 where the bytes end before.
    pub fn u16(self, bytes: &[u8], at: usize) -> u16 {
        self.number::<2>(bytes, at) as u16
    }

    /// The number of 32 bits at `at`; 0 where the bytes end before.
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        self.number::<4>(bytes, at) as u32
    }

    /// The number of 64 bits at `at`; 0 where the bytes end before.
    pub fn u64(self, bytes: &[u8], at: usize) -> u64 {
        self.number::<8>(bytes, at)
    }
}
