//! What has arrived and what has not: the two registers `expected` and
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

/// The order of a flow's packets at the Depot. Detecting a gap is comparing
/// two numbers: whoever arrives beyond `high` opens one from `high` on.
pub(crate) struct Sequence<F: Frame> {
    /// `expected .. high`; an empty slot is missing. The first slot is always
    /// empty: otherwise it would have been delivered.
    slots: Window<Option<Packet<F>>>,
    gaps: VecDeque<Gap>,
}

impl<F: Frame> Sequence<F> {
    /// Everything before `expected` is settled.
    pub fn new(expected: Seq) -> Self {
        Self { slots: Window::new(expected), gaps: VecDeque::new() }
    }

    /// Next number to deliver.
    pub fn expected(&self) -> Seq {
        self.slots.start()
    }

    /// One past the highest number seen (ePSN_D).
    pub fn high(&self) -> Seq {
        self.slots.end()
    }

    /// The gaps, oldest first.
    pub fn gaps(&self) -> &VecDeque<Gap> {
        &self.gaps
    }

    /// Where `seq` falls.
    pub fn place(&self, seq: Seq) -> Place {
        if seq < self.expected() {
            Place::Behind
        } else if seq == self.expected() {
            Place::Next
        } else {
            match self.slots.get(seq) {
                None => Place::New,
                Some(None) => Place::Gap,
                Some(Some(_)) => Place::Held,
            }
        }
    }

    /// `expected` has arrived and goes on. Returns the gap that this closed.
    pub fn pass_next(&mut self) -> Option<Gap> {
        let seq = self.expected();
        if self.slots.is_empty() {
            self.slots.skip_to(seq.next());
            return None;
        }
        let closed = self.close(seq);
        self.slots.pop();
        closed
    }

    /// `expected` is settled in another way. Returns the gap that this closed,
    /// and the packet that was held in its place.
    pub fn skip(&mut self) -> (Option<Gap>, Option<Packet<F>>) {
        let seq = self.expected();
        let closed = self.close(seq);
        let held = self.slots.pop().flatten();
        self.slots.skip_to(seq.next());
        (closed, held)
    }

    /// The next packet that can be delivered from the pool.
    pub fn drain(&mut self) -> Option<Packet<F>> {
        self.slots.get(self.expected())?.as_ref()?;
        self.slots.pop().flatten()
    }

    /// Everything before `high` should have arrived. Returns whether that is a
    /// new gap, rather than none or one that grew.
    pub fn raise_high(&mut self, high: Seq, now: Time) -> bool {
        let start = self.high();
        if high <= start {
            return false;
        }
        while self.high() < high {
            self.slots.push(None);
        }
        match self.gaps.back_mut().filter(|gap| gap.end == start) {
            Some(gap) => gap.end = high,
            None => {
                self.gaps.push_back(Gap { start, end: high, seen: now });
                return true;
            }
        }
        false
    }

    /// Holds a packet whose place is [`Place::New`] or [`Place::Gap`]. Returns
    /// the gap that this closed, if it closed one.
    pub fn hold(&mut self, seq: Seq, packet: Packet<F>) -> Option<Gap> {
        if seq == self.high() {
            self.slots.push(Some(packet));
            return None;
        }
        let slot = self.slots.get_mut(seq)?;
        *slot = Some(packet);
        self.close(seq)
    }

    /// Takes `seq` out of its gap; returns the gap if nothing is left of it.
    fn close(&mut self, seq: Seq) -> Option<Gap> {
        let i = self.gaps.partition_point(|g| g.end <= seq);
        let gap = self.gaps.get_mut(i).filter(|g| g.start <= seq)?;
        let whole = *gap;
        match (seq == whole.start, seq.next() == whole.end) {
            (true, true) => return self.gaps.remove(i),
            (true, false) => gap.start = seq.next(),
            (false, true) => gap.end = seq,
            (false, false) => {
                gap.end = seq;
                self.gaps.insert(i + 1, Gap { start: seq.next(), ..whole });
            }
        }
        None
    }

    /// Gives up all gaps: empties the pool in order. `expected` becomes
    /// `high`. Returns the packets; the gaps are gone.
    pub fn release(&mut self) -> impl Iterator<Item = Packet<F>> {
        self.gaps.clear();
        let high = self.high();
        let slots = core::mem::replace(&mut self.slots, Window::new(high));
        Slots(slots)
    }
}

/// The held packets of a window, in order.
struct Slots<F: Frame>(Window<Option<Packet<F>>>);

impl<F: Frame> Iterator for Slots<F> {
    type Item = Packet<F>;

    fn next(&mut self) -> Option<Packet<F>> {
        loop {
            if let Some(packet) = self.0.pop()? {
                return Some(packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::heap::HeapFrame;
    use common::psn::Psn;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn packet(n: u64) -> Packet<HeapFrame> {
        Packet::Owned(HeapFrame::from(n.to_be_bytes().to_vec()))
    }

    fn number(p: &Packet<HeapFrame>) -> u64 {
        u64::from_be_bytes(p.bytes().try_into().expect("eight bytes"))
    }

    proptest! {
        /// Arrivals in any order, with repeats and announcements of `high`,
        /// against a set of what has arrived.
        #[test]
        fn agrees_with_a_set(arrivals in proptest::collection::vec((0u64..60, any::<bool>()), 1..200)) {
            let base = Seq::first(Psn::new(0xff_fff0));
            let mut sequence = Sequence::new(base);
            let (mut arrived, mut delivered, mut high) = (BTreeSet::new(), Vec::new(), 0);
            for (n, announce) in arrivals {
                let seq = base + n;
                if announce {
                    sequence.raise_high(seq, Time::ZERO);
                    high = high.max(n);
                } else {
                    let place = sequence.place(seq);
                    let known = arrived.contains(&n);
                    match place {
                        Place::Behind => prop_assert!(seq < sequence.expected()),
                        Place::Next => {
                            prop_assert!(!known);
                            sequence.pass_next();
                            delivered.push(n);
                            while let Some(p) = sequence.drain() {
                                delivered.push(number(&p));
                            }
                        }
                        Place::Held => prop_assert!(known),
                        Place::Gap | Place::New => {
                            prop_assert!(!known);
                            prop_assert_eq!(place == Place::New, n >= high);
                            sequence.raise_high(seq, Time::ZERO);
                            sequence.hold(seq, packet(n));
                        }
                    }
                    if place != Place::Behind {
                        arrived.insert(n);
                    }
                    high = high.max(n + 1);
                }
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
            let held: Vec<u64> = sequence.release().map(|p| number(&p)).collect();
            delivered.extend(held);
            prop_assert!(delivered.iter().zip(delivered.iter().skip(1)).all(|(a, b)| a < b));
            prop_assert_eq!(delivered.len(), arrived.len());
        }
    }
}
