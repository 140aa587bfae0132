//! Packets lost between the source and the Sentry: runs of PSNs of any length.

use std::collections::VecDeque;

use common::psn::Seq;

/// A run of packets that never came here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Gap {
    start: Seq,
    end: Seq,
    /// The source is to send it again.
    needed: bool,
}

/// The gaps of a flow, oldest first.
#[derive(Debug)]
pub(crate) struct Gaps {
    list: VecDeque<Gap>,
}

impl Gaps {
    pub const fn new() -> Self {
        Self { list: VecDeque::new() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// `start .. end` didn't come, and comes after all others (R-GAP-4).
    pub fn open(&mut self, start: Seq, end: Seq, needed: bool) {
        self.list.push_back(Gap { start, end, needed });
    }

    fn position(&self, seq: Seq) -> Option<usize> {
        let i = self.list.partition_point(|gap| gap.end <= seq);
        self.list.get(i).filter(|gap| gap.start <= seq).map(|_| i)
    }

    /// Whether `seq`, which didn't come, is needed; `None` if it came.
    pub fn get(&self, seq: Seq) -> Option<bool> {
        Some(self.list.get(self.position(seq)?)?.needed)
    }

    /// `seq` came after all. Whether it was needed; `None` if it had come before.
    pub fn take(&mut self, seq: Seq) -> Option<bool> {
        let i = self.position(seq)?;
        let gap = self.list.get_mut(i)?;
        let whole = *gap;
        match (seq == whole.start, seq.next() == whole.end) {
            (true, true) => _ = self.list.remove(i),
            (true, false) => gap.start = seq.next(),
            (false, true) => gap.end = seq,
            (false, false) => {
                gap.end = seq;
                self.list.insert(i + 1, Gap { start: seq.next(), ..whole });
            }
        }
        Some(whole.needed)
    }

    /// The Depot misses `start .. end`: the gaps that any of it is in are needed. Calls
    /// `each` for those that were not, and returns the first of these PSNs that is in a
    /// gap.
    pub fn need(&mut self, start: Seq, end: Seq, mut each: impl FnMut(Seq, Seq)) -> Option<Seq> {
        let i = self.list.partition_point(|gap| gap.end <= start);
        let mut first = None;
        for gap in self.list.range_mut(i..).take_while(|gap| gap.start < end) {
            first.get_or_insert(gap.start.max(start));
            if !core::mem::replace(&mut gap.needed, true) {
                each(gap.start, gap.end);
            }
        }
        first
    }

    /// Forgets all before `floor`. Returns how many of these were needed.
    pub fn trim(&mut self, floor: Seq) -> u64 {
        let mut needed = 0;
        while let Some(gap) = self.list.front_mut().filter(|gap| gap.start < floor) {
            if gap.needed {
                needed += gap.end.min(floor).since(gap.start);
            }
            if gap.end > floor {
                gap.start = floor;
                break;
            }
            self.list.pop_front();
        }
        needed
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Gives back the memory that is not in use.
    pub fn shrink(&mut self) {
        self.list.shrink_to_fit();
    }

    /// Memory that the list takes, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.list.capacity() * size_of::<Gap>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::psn::Psn;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Open(u64, u64, bool),
        Take(u64),
        Need(u64, u64),
        Trim(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (1..5_u64, 1..5_u64, any::<bool>())
                .prop_map(|(gap, len, needed)| Op::Open(gap, len, needed)),
            (0..60_u64).prop_map(Op::Take),
            (0..60_u64, 1..9_u64).prop_map(|(at, len)| Op::Need(at, len)),
            (0..60_u64).prop_map(Op::Trim),
        ]
    }

    proptest! {
        /// Against a map from each PSN that didn't come to whether it is needed.
        #[test]
        fn behaves_like_a_map(ops in proptest::collection::vec(op(), 0..60)) {
            let base = Seq::first(Psn::new(0xff_fff0));
            let (mut gaps, mut oracle) = (Gaps::new(), BTreeMap::new());
            let mut end = base;
            for op in ops {
                match op {
                    Op::Open(gap, len, needed) => {
                        let start = end + gap;
                        end = start + len;
                        gaps.open(start, end, needed);
                        oracle.extend((0..len).map(|n| (start + n, needed)));
                    }
                    Op::Take(at) => prop_assert_eq!(gaps.take(base + at), oracle.remove(&(base + at))),
                    Op::Need(at, len) => {
                        let (from, to) = (base + at, base + at + len);
                        let mut news = Vec::new();
                        let first = gaps.need(from, to, |a, b| news.push((a, b)));
                        let mut range = oracle.range(from..to);
                        prop_assert_eq!(first, range.next().map(|(seq, _)| *seq));
                        for (a, b) in news {
                            for (_, needed) in oracle.range_mut(a..b) {
                                prop_assert!(!core::mem::replace(needed, true));
                            }
                        }
                        prop_assert!(oracle.range(from..to).all(|(_, needed)| *needed));
                    }
                    Op::Trim(at) => {
                        let kept = oracle.split_off(&(base + at));
                        let gone = core::mem::replace(&mut oracle, kept);
                        let needed = gone.values().filter(|needed| **needed).count();
                        prop_assert_eq!(gaps.trim(base + at), needed as u64);
                    }
                }
                for n in 0..end.since(base) {
                    prop_assert_eq!(gaps.get(base + n), oracle.get(&(base + n)).copied());
                }
            }
        }
    }
}
