//! The responses to a flow's READs: which are missing, and which came again.

use std::collections::VecDeque;

use common::psn::{Psn, Seq};
use common::time::Time;
use serde::Serialize;

/// READs whose responses are awaited: hosts allow at most 128 and the same again is asked for after a loss.
const MOST: usize = 256;
/// Gaps that are kept.
const MOST_GAPS: usize = 64;

/// Counters of READ responses.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct ReadCounts {
    /// READ requests, each counted once.
    pub requests: u64,
    /// Packets of READ responses, repeated ones included.
    pub packets: u64,
    /// Payload of these, in bytes.
    pub bytes: u64,
    /// Times that responses were missing before one that passed.
    pub gaps: u64,
    /// Responses that were missing then.
    pub missing: u64,
    /// Of these, responses that passed later.
    pub filled: u64,
    /// Responses that passed although they had before.
    pub repeated: u64,
    /// Payload of these, in bytes.
    pub repeated_bytes: u64,
}

/// The READs of a flow, and how far their responses have come.
#[derive(Debug, Default)]
pub struct Reads {
    /// Of each READ its first response and the one after its last.
    awaited: VecDeque<(Seq, Seq)>,
    /// The next response, if `awaited` has one.
    next: Seq,
    /// Missing responses, first and one after the last.
    gaps: VecDeque<(Seq, Seq)>,
    /// What was missing newly: the requester may ask for it again from here on.
    pub asked: Option<(Psn, Time)>,
    /// Counters.
    pub counts: ReadCounts,
}

impl Reads {
    /// A READ whose responses take `span` PSNs passes for the first time.
    pub fn request(&mut self, start: Seq, span: u64) {
        self.counts.requests += 1;
        if self.awaited.len() == MOST {
            self.awaited.pop_front();
        }
        // One that was lost before the capture passes behind later ones.
        let at = self.awaited.partition_point(|read| read.0 < start);
        self.awaited.insert(at, (start, start + span));
        let (first, end) = self.awaited[0];
        if at == 0 || self.next < first || self.next >= end {
            self.next = first;
        }
    }

    /// The newest READ takes `span` PSNs, as is known now.
    pub fn resize(&mut self, start: Seq, span: u64) {
        if let Some(read) = self.awaited.iter_mut().rfind(|read| read.0 == start) {
            read.1 = start + span;
        }
        // All its responses may have passed.
        while let Some(&(_, end)) = self.awaited.front()
            && end <= self.next
        {
            self.awaited.pop_front();
            self.next = self.awaited.front().map_or(self.next, |read| read.0);
        }
    }

    /// A response of `bytes` passes.
    pub fn response(&mut self, psn: Psn, bytes: u64, at: Time) {
        self.counts.packets += 1;
        self.counts.bytes += bytes;
        let seq = psn.unwrap_near(self.next);
        let is_new = self.awaited.iter().any(|read| (read.0..read.1).contains(&seq));
        if seq < self.next || !is_new {
            return self.old(seq, bytes);
        }
        let mut missing = 0;
        while let Some(&(start, end)) = self.awaited.front() {
            let from = self.next.max(start);
            let until = seq.min(end);
            if from < until {
                missing += until.since(from);
                if self.gaps.len() == MOST_GAPS {
                    self.gaps.pop_front();
                }
                self.gaps.push_back((from, until));
                self.asked.get_or_insert((from.psn(), at));
            }
            if seq < end {
                break;
            }
            self.awaited.pop_front();
        }
        self.next = seq + 1;
        if self.awaited.front().is_some_and(|read| read.1 == self.next) {
            self.awaited.pop_front();
            self.next = self.awaited.front().map_or(self.next, |read| read.0);
        }
        self.counts.gaps += u64::from(missing > 0);
        self.counts.missing += missing;
    }

    /// A response that is missing, or has passed before.
    fn old(&mut self, seq: Seq, bytes: u64) {
        let Some(at) = self.gaps.iter().position(|gap| (gap.0..gap.1).contains(&seq)) else {
            self.counts.repeated += 1;
            self.counts.repeated_bytes += bytes;
            return;
        };
        self.counts.filled += 1;
        let (start, end) = self.gaps[at];
        self.gaps.remove(at);
        for (start, end) in [(start, seq), (seq + 1, end)] {
            if start < end {
                self.gaps.push_back((start, end));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two READs of four responses, a SEND between them.
    fn reads() -> (Reads, impl Fn(u32) -> Psn) {
        let mut reads = Reads::default();
        let first = Seq::first(Psn::new(100));
        reads.request(first, 4);
        reads.request(first + 5, 4);
        (reads, |n| Psn::new(100 + n))
    }

    fn counts(order: &[u32]) -> ReadCounts {
        let (mut reads, psn) = reads();
        for n in order {
            reads.response(psn(*n), 10, Time::ZERO);
        }
        reads.counts
    }

    #[test]
    fn all_in_order() {
        let counts = counts(&[0, 1, 2, 3, 5, 6, 7, 8]);
        assert_eq!((counts.packets, counts.gaps, counts.repeated), (8, 0, 0));
    }

    #[test]
    fn a_gap_within_and_its_repair() {
        let counts = counts(&[0, 2, 3, 1, 2, 3]);
        assert_eq!((counts.gaps, counts.missing, counts.filled), (1, 1, 1));
        assert_eq!((counts.repeated, counts.repeated_bytes), (2, 20));
    }

    #[test]
    fn a_gap_across_two_reads_leaves_out_what_is_between() {
        let counts = counts(&[0, 1, 6]);
        assert_eq!((counts.gaps, counts.missing), (1, 3));
    }
}
