//! The flows of a worker, as the control thread may ask for them.

use common::frame::Frame;
use common::time::Time;
use switch::{FlowSummary, Switch};

use super::listing::{self, Source};

/// The worker's end.
pub type Lister = listing::Lister<(), FlowSummary>;
/// The control thread's end.
pub type ControlEnd = listing::ControlEnd<(), FlowSummary>;

/// The flows of a switch, now.
pub struct Flows<'a, F: Frame>(pub &'a Switch<F>, pub Time);

impl<F: Frame> Source for Flows<'_, F> {
    type Query = ();
    type Item = FlowSummary;

    /// Each may be some cache misses.
    const SLICE: u64 = 16;

    fn span(&self) -> (u64, u64) {
        (0, self.0.flows_end().into())
    }

    fn item(&self, number: u64, (): &()) -> Option<FlowSummary> {
        self.0.flow(u32::try_from(number).ok()?, self.1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    use arrayvec::ArrayVec;
    use common::frame::{Class, Packet, Side, Sink};
    use common::heap::{HeapFrame, HeapPool};
    use common::wire::{icrc, parse};
    use switch::{Config, Recovery};

    use super::*;
    use crate::worker::listing::{Row, pair};

    struct Nowhere;

    impl Sink for Nowhere {
        type Frame = HeapFrame;

        fn transmit(&mut self, _: Side, _: Class, _: Packet<HeapFrame>) {}
    }

    /// The first packet of the flow to queue pair `n` + 2: SEND Only.
    fn send(n: u32) -> HeapFrame {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
        f.extend([
            0x45,
            0,
            0,
            60,
            0,
            0,
            0x40,
            0,
            64,
            17,
            0,
            0,
            10,
            1,
            0,
            (n >> 20) as u8,
            10,
            2,
            0,
            1,
        ]);
        f.extend([0xc0, 0, 0x12, 0xb7, 0, 40, 0, 0]);
        let [_, a, b, c] = ((n & 0xf_ffff) + 2).to_be_bytes();
        f.extend([0x04, 0x40, 0xff, 0xff, 0, a, b, c, 0x80, 0, 0, 0]);
        f.extend([0; 20]);
        let roce = parse(&f).unwrap();
        let right = icrc(&f, &roce).to_le_bytes();
        let at = f.len() - right.len();
        f[at..].copy_from_slice(&right);
        HeapFrame::from(f)
    }

    fn switch(flows: u32) -> Switch<HeapFrame> {
        let max_flows = flows as usize;
        let config = Config {
            max_flows,
            max_flows_of_hosts: max_flows,
            ..Config::lab(Recovery::Auto, 1, 1)
        };
        let mut switch = Switch::new(config);
        for n in 0..flows {
            let mut frames = ArrayVec::<_, 32>::new();
            frames.push(send(n));
            switch.burst(Side::Lan, &mut frames, Time::from_nanos(1), &mut HeapPool, &mut Nowhere);
        }
        switch
    }

    /// With `FLOWS=1000000` it tells how long a round is delayed at most.
    #[test]
    fn flows_are_told_in_slices_while_there_is_room() {
        let flows = std::env::var("FLOWS").map_or(5_000, |it| it.parse().unwrap());
        let (switch, now) = (switch(flows), Time::from_nanos(2));
        let (mut lister, mut end): (Lister, ControlEnd) = pair();
        lister.poll();
        assert!(!lister.is_on());
        for listing in [1, 2] {
            end.ask.push((listing, ())).unwrap();
        }
        lister.poll();
        let (mut told, mut worst, mut slices) = (BTreeSet::new(), Duration::ZERO, 0);
        'all: loop {
            let (before, began) = (end.rows.slots(), Instant::now());
            let looked = lister.slice(std::iter::once(Flows(&switch, now)));
            worst = worst.max(began.elapsed());
            slices += 1;
            assert!(end.rows.slots() - before <= Flows::<HeapFrame>::SLICE as usize);
            // The control thread comes when there is no room.
            if looked && lister.is_on() {
                continue;
            }
            assert!(!looked || !lister.is_on());
            while let Ok(row) = end.rows.pop() {
                match row {
                    Row::Item { listing, item: flow } => {
                        assert_eq!(listing, 2, "the newer request");
                        assert!(told.insert((flow.source.to_ip(), flow.destination_qpn.get())));
                    }
                    Row::End { listing } => {
                        assert_eq!(listing, 2);
                        break 'all;
                    }
                }
            }
        }
        assert_eq!((told.len(), lister.is_on()), (flows as usize, false));
        println!("{flows} flows in {slices} slices, the longest {worst:?}");
    }
}
