//! Arrived and missing packets: the two registers `expected` and
//! `high`, the packets held between them, and the gaps.

use std::collections::VecDeque;

use common::frame::{Frame, Packet};
use common::psn::Seq;
use common::time::Time;
use common::window::Window;

/// A run of packets that have not arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    /// The first one.
    pub start: Seq,
    /// One past the last one.
    pub end: Seq,
    /// When it opened.
    pub seen: Time,
}

/// Where a packet falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Before `expected`.
    Behind,
    /// At `expected`.
    Next,
    /// Ahead, and already held.
    Held,
    /// Ahead, into a gap.
    Gap,
    /// At or beyond `high`.
    New,
}

/// The properties of a packet that its delivery needs.
#[derive(Clone, Copy)]
pub(crate) struct PacketInfo {
    /// Bytes of its frame.
    pub len: u32,
    /// PSNs that it takes.
    pub count: u32,
    /// The destination responds to it: its AckReq bit is set, or it is a READ or an atomic.
    pub needs_response: bool,
}

/// A packet in the pool.
pub(crate) struct Held<F: Frame> {
    /// The packet.
    pub packet: Packet<F>,
    /// Its properties.
    pub info: PacketInfo,
    /// When it came, or, if it fills a gap, when the gap opened: it would have
    /// come then.
    pub at: Time,
}

/// The order of a flow's packets at the Depot. Detecting a gap is comparing
/// two numbers: a packet beyond `high` opens one from `high` on.
#[repr(C)]
pub(crate) struct Sequence<F: Frame> {
    /// `next .. high`. Between `next` and `expected` are packets in order that
    /// wait for their time. A vacant place is missing if it is in a gap; else it belongs
    /// to the READ request that is held before it.
    slots: Window<Held<F>>,
    gaps: VecDeque<Gap>,
}

impl<F: Frame> Sequence<F> {
    /// Memory of one held packet, in bytes. A missing one takes none.
    pub const SLOT: usize = size_of::<Held<F>>();

    /// Everything before `expected` is settled, and was delivered.
    pub fn new(expected: Seq) -> Self {
        Self { slots: Window::new(expected), gaps: VecDeque::new() }
    }

    /// Next number to arrive in order.
    pub fn expected(&self) -> Seq {
        self.gaps.front().map_or(self.high(), |gap| gap.start)
    }

    /// Next number to deliver: `expected`, unless packets wait until they are due.
    pub fn next(&self) -> Seq {
        self.slots.start()
    }

    /// One past the highest number seen (ePSN_D).
    pub fn high(&self) -> Seq {
        self.slots.end()
    }

    /// Whether nothing is missing, and nothing waits.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many packets wait.
    pub fn held_count(&self) -> usize {
        self.slots.filled()
    }

    /// The gaps, oldest first.
    pub fn gaps(&self) -> &VecDeque<Gap> {
        &self.gaps
    }

    /// The gaps that end behind `seq`, oldest first.
    pub fn gaps_from(&self, seq: Seq) -> impl Iterator<Item = &Gap> {
        self.gaps.range(self.gaps.partition_point(|gap| gap.end <= seq)..)
    }

    /// Where `seq` falls.
    pub fn place(&self, seq: Seq) -> Place {
        if seq < self.next() {
            return Place::Behind;
        }
        let is_next = seq == self.next();
        if seq >= self.high() {
            return if is_next { Place::Next } else { Place::New };
        }
        match self.gap_of(seq) {
            None => Place::Held,
            Some(_) if is_next => Place::Next,
            Some(_) => Place::Gap,
        }
    }

    /// The packet that is held as `seq`.
    pub fn held(&self, seq: Seq) -> Option<&Packet<F>> {
        self.slots.get(seq).map(|held| &held.packet)
    }

    /// Whether none of the `count` PSNs from `seq` on is held. If one is, the
    /// flow's requests contradict each other.
    pub fn is_free(&self, seq: Seq, count: u32) -> bool {
        // Beyond `high` nothing is held.
        let end = (seq + u64::from(count)).min(self.high());
        let gap = self.gap_of(seq).and_then(|i| self.gaps.get(i));
        end <= seq || seq < self.next() || gap.is_some_and(|gap| end <= gap.end)
    }

    /// `next` has arrived and is delivered; it takes `count` PSNs, which are
    /// [free](Self::is_free). Returns the gap that this closed.
    pub fn pass_next(&mut self, count: u32) -> Option<Gap> {
        let (start, end) = (self.next(), self.next() + u64::from(count));
        if self.is_empty() {
            self.slots.skip_to(end);
            return None;
        }
        let closed = self.close(start, end);
        // They are vacant.
        self.slots.drain_before(end, |_, _| ());
        self.slots.skip_to(end);
        closed
    }

    /// `next` has arrived and is delivered, where [nothing waits](Self::is_empty).
    #[inline]
    pub fn step(&mut self) {
        self.slots.step();
    }

    /// Everything before `to` is settled in another way. Advances from `next` to the end
    /// of a gap, or past one packet. Returns the gap that this closed, and the packet that
    /// was held.
    pub fn skip(&mut self, to: Seq) -> (Option<Gap>, Option<Packet<F>>) {
        let next = self.next();
        if self.is_empty() {
            self.slots.skip_to(to);
            return (None, None);
        }
        match self.gaps.front().copied().filter(|gap| gap.start == next) {
            Some(gap) => (self.pass_next(gap.end.min(to).since(next) as u32), None),
            None => (None, self.drain().map(|held| held.packet)),
        }
    }

    /// The destination lacks everything from `to` on, which lies before
    /// `next`: goes back there. `kept` gives the packets from `first` on that are
    /// at hand; the others are missing.
    pub fn go_back(
        &mut self,
        to: Seq,
        now: Time,
        first: Seq,
        mut kept: impl FnMut(Seq) -> Option<Held<F>>,
    ) {
        let mut old = core::mem::replace(&mut self.slots, Window::new(to));
        let old_gaps = core::mem::take(&mut self.gaps);
        let (end, old_high) = (old.start(), old.end());
        self.raise_high(first.min(end), now);
        while self.high() < end {
            let seq = self.high();
            match kept(seq) {
                Some(held) => _ = self.hold(seq, held),
                None => _ = self.raise_high(seq.next(), now),
            }
        }
        old.drain_before(old_high, |seq, held| {
            self.slots.extend_to(seq);
            self.slots.push(held);
        });
        self.slots.extend_to(old_high);
        for gap in old_gaps {
            match self.gaps.back_mut().filter(|last| last.end == gap.start) {
                Some(last) => last.end = gap.end,
                None => self.gaps.push_back(gap),
            }
        }
    }

    /// When the packet came that is `next`, if it is held.
    #[inline]
    pub fn front(&self) -> Option<Time> {
        self.slots.front().map(|held| held.at)
    }

    /// Takes the packet that is `next`, if it is held.
    #[inline(always)]
    pub fn drain(&mut self) -> Option<Held<F>> {
        let held = self.slots.pop()?;
        if held.info.count > 1 {
            self.slots.drain_before(self.next() + u64::from(held.info.count - 1), |_, _| ());
        }
        // It has been here for so long that it has left the cache, and is next.
        if let Some(next) = self.slots.front() {
            next.packet.prefetch();
        }
        Some(held)
    }

    /// Everything before `high` should have arrived. Returns whether that is a
    /// new gap, rather than none or one that grew.
    pub fn raise_high(&mut self, high: Seq, now: Time) -> bool {
        let start = self.high();
        if high <= start {
            return false;
        }
        self.slots.extend_to(high);
        match self.gaps.back_mut().filter(|gap| gap.end == start) {
            Some(gap) => gap.end = high,
            None => {
                self.gaps.push_back(Gap { start, end: high, seen: now });
                return true;
            }
        }
        false
    }

    /// Holds a packet of one PSN, which is `high`.
    #[inline(always)]
    pub fn push(&mut self, held: Held<F>) {
        self.slots.push(held);
    }

    /// Holds a packet whose place is [`Place::Gap`], or [`Place::New`] at
    /// `high`, and whose PSNs are [free](Self::is_free). Returns the gap that
    /// this closed, if it closed one.
    pub fn hold(&mut self, seq: Seq, mut held: Held<F>) -> Option<Gap> {
        let count = u64::from(held.info.count);
        let closed = if seq < self.high() {
            if let Some(gap) = self.gap(seq) {
                held.at = gap.seen;
            }
            let closed = self.close(seq, seq + count);
            self.slots.put(seq, held);
            closed
        } else {
            self.slots.push(held);
            None
        };
        if count > 1 {
            self.slots.extend_to(seq + count);
        }
        closed
    }

    /// Takes out the packet that is held as `seq`: it is missing again.
    pub fn reopen(&mut self, seq: Seq, now: Time) -> Option<Packet<F>> {
        let held = self.slots.take(seq)?;
        let end = seq + u64::from(held.info.count);
        let i = self.gaps.partition_point(|gap| gap.end < seq);
        let mut gap = Gap { start: seq, end, seen: now };
        while let Some(other) = self.gaps.get(i).copied().filter(|other| other.start <= end) {
            gap.start = gap.start.min(other.start);
            gap.end = gap.end.max(other.end);
            gap.seen = gap.seen.min(other.seen);
            self.gaps.remove(i);
        }
        self.gaps.insert(i, gap);
        Some(held.packet)
    }

    /// Takes the newest packet that is held from `to` on. When none is left, nothing is
    /// awaited any more from there on: `high` goes back to `to`, and gaps end there.
    pub fn cut(&mut self, to: Seq) -> Option<Held<F>> {
        let mut to = to.max(self.next());
        if let Some((at, held)) = self.slots.last_to(to.prev()) {
            // The further PSNs of a READ request belong to it.
            to = to.max(at + u64::from(held.info.count));
        }
        let held = self.slots.pop_from(to);
        if held.is_none() {
            while let Some(gap) = self.gaps.back_mut().filter(|gap| gap.end > to) {
                if gap.start < to {
                    gap.end = to;
                } else {
                    self.gaps.pop_back();
                }
            }
        }
        held
    }

    /// When the first packet came that is held from `seq` on.
    pub fn first_from(&self, seq: Seq) -> Option<Time> {
        self.slots.get(self.slots.first_from(seq)?).map(|held| held.at)
    }

    /// The gap that `seq` lies in.
    pub fn gap(&self, seq: Seq) -> Option<Gap> {
        self.gaps.get(self.gap_of(seq)?).copied()
    }

    /// Index of the gap that `seq` lies in.
    fn gap_of(&self, seq: Seq) -> Option<usize> {
        // Most come behind all gaps.
        self.gaps.back().filter(|gap| seq < gap.end)?;
        let i = self.gaps.partition_point(|g| g.end <= seq);
        self.gaps.get(i).filter(|g| g.start <= seq).map(|_| i)
    }

    /// Takes `start .. end` out of its gap; returns the gap if nothing is left
    /// of it. All of it that lies before `high` is in one.
    fn close(&mut self, start: Seq, end: Seq) -> Option<Gap> {
        let i = self.gap_of(start)?;
        let gap = self.gaps.get_mut(i)?;
        let whole = *gap;
        match (start == whole.start, end >= whole.end) {
            (true, true) => return self.gaps.remove(i),
            (true, false) => gap.start = end,
            (false, true) => gap.end = start,
            (false, false) => {
                gap.end = start;
                self.gaps.insert(i + 1, Gap { start: end, ..whole });
            }
        }
        None
    }

    /// Gives back the memory that is not in use.
    pub fn shrink(&mut self) {
        self.slots.shrink();
        self.gaps.shrink_to_fit();
    }

    /// Memory that slots and gaps take, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes() + self.gaps.capacity() * size_of::<Gap>()
    }

    /// Gives up all gaps: empties the pool in order. `next` and `expected`
    /// become `high`. Calls `each` with the packets; the gaps are gone.
    pub fn release(&mut self, mut each: impl FnMut(Packet<F>)) {
        self.gaps.clear();
        let high = self.high();
        let mut slots = core::mem::replace(&mut self.slots, Window::new(high));
        slots.drain_before(high, |_, held| each(held.packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::heap::HeapFrame;
    use common::psn::Psn;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn packet(n: u64, count: u32) -> Held<HeapFrame> {
        let packet = Packet::Owned(HeapFrame::from(n.to_be_bytes().to_vec()));
        Held { packet, info: PacketInfo { len: 8, count, needs_response: false }, at: Time::ZERO }
    }

    fn number(p: &Packet<HeapFrame>) -> u64 {
        u64::from_be_bytes(p.bytes().try_into().expect("eight bytes"))
    }

    /// Every seventh request is a READ of four PSNs.
    fn count_of(n: u64) -> u32 {
        if n % 7 == 2 { 4 } else { 1 }
    }

    /// Numbers at which a request begins.
    fn heads() -> Vec<u64> {
        let mut heads = vec![0];
        while heads[heads.len() - 1] < 60 {
            let last = heads[heads.len() - 1];
            heads.push(last + u64::from(count_of(last)));
        }
        heads
    }

    proptest! {
        /// Arrivals in any order, with repeats and announcements of `high`,
        /// against a set of arrived PSNs. Packets in order are delivered at once or
        /// some time later.
        #[test]
        fn agrees_with_a_set(arrivals in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0..4usize), 1..200)) {
            let base = Seq::first(Psn::new(0xff_fff0));
            let mut sequence = Sequence::new(base);
            let heads = heads();
            let (mut arrived, mut delivered, mut high) = (BTreeSet::new(), Vec::new(), 0);
            for (index, announce, drained) in arrivals {
                let n = *index.get(&heads);
                let (seq, count) = (base + n, count_of(n));
                if announce {
                    sequence.raise_high(seq, Time::ZERO);
                    high = high.max(n);
                } else {
                    let place = sequence.place(seq);
                    let known = arrived.contains(&n);
                    let is_free = place == Place::Behind || !known;
                    prop_assert_eq!(sequence.is_free(seq, count), is_free);
                    match place {
                        Place::Behind => prop_assert!(seq < sequence.next()),
                        Place::Next => {
                            prop_assert!(!known);
                            sequence.pass_next(count);
                            delivered.push(n);
                        }
                        Place::Held => prop_assert!(known),
                        Place::Gap | Place::New => {
                            prop_assert!(!known);
                            prop_assert_eq!(place == Place::New, n >= high);
                            sequence.raise_high(seq, Time::ZERO);
                            sequence.hold(seq, packet(n, count));
                        }
                    }
                    if place != Place::Behind {
                        arrived.extend(n..n + u64::from(count));
                        high = high.max(n + u64::from(count));
                    }
                }
                for held in std::iter::from_fn(|| sequence.drain()).take(drained) {
                    delivered.push(number(&held.packet));
                }
                prop_assert!(sequence.next() <= sequence.expected());
                let expected = (0..).find(|n| !arrived.contains(n)).unwrap_or_default();
                prop_assert_eq!(sequence.expected(), base + expected);
                prop_assert_eq!(sequence.high(), base + high.max(expected));
                let missing: Vec<u64> = (expected..high).filter(|n| !arrived.contains(n)).collect();
                let listed: Vec<u64> = sequence
                    .gaps()
                    .iter()
                    .flat_map(|g| g.start.since(base)..g.end.since(base))
                    .collect();
                prop_assert_eq!(listed, missing);
                prop_assert!(sequence.gaps().iter().zip(sequence.gaps().iter().skip(1)).all(|(a, b)| a.end < b.start));
            }
            let mut held = Vec::new();
            sequence.release(|packet| held.push(number(&packet)));
            delivered.extend(held);
            prop_assert!(delivered.iter().zip(delivered.iter().skip(1)).all(|(a, b)| a < b));
            prop_assert_eq!(delivered.len(), heads.iter().filter(|n| arrived.contains(n)).count());
        }
    }
}
