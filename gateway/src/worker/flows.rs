//! Lists the flows of a worker for the control thread while somebody asks for them: a few in each round, between two bursts, so
//! that no frame waits long however many flows there are. What is listed is no one moment's state.

use common::frame::Frame;
use common::time::Time;
use rtrb::{Consumer, Producer, RingBuffer};
use switch::{FlowSummary, Switch};

/// Entries of the flow table that a round looks at: each may be some cache misses.
pub const SLICE: u32 = 16;
/// Flows that may wait for the control thread, which takes them every millisecond.
const DEPTH: usize = 1_024;
/// Requests that may wait for the worker. There is one at a time; one that was given up may be left.
const REQUESTS: usize = 4;

/// What a worker tells of its flows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Row {
    /// A flow.
    Flow {
        /// The request.
        listing: u64,
        /// The flow.
        flow: FlowSummary,
    },
    /// All flows were told.
    End {
        /// The request.
        listing: u64,
    },
}

/// The control thread's end.
#[derive(Debug)]
pub struct ControlEnd {
    /// Requests, by number.
    pub ask: Producer<u64>,
    /// The answers.
    pub rows: Consumer<Row>,
}

/// The worker's end.
#[derive(Debug)]
pub struct Lister {
    asked: Consumer<u64>,
    to: Producer<Row>,
    at: Option<Place>,
}

/// How far a listing has come.
#[derive(Clone, Copy, Debug)]
struct Place {
    listing: u64,
    /// Which of the worker's switches.
    switch: usize,
    /// Index of the next entry of its table.
    next: u32,
}

/// Both ends.
pub fn pair() -> (Lister, ControlEnd) {
    let (ask, asked) = RingBuffer::new(REQUESTS);
    let (to, rows) = RingBuffer::new(DEPTH);
    (Lister { asked, to, at: None }, ControlEnd { ask, rows })
}

impl Lister {
    /// Takes requests: a new one ends the one before.
    pub fn poll(&mut self) {
        while let Ok(listing) = self.asked.pop() {
            self.at = Some(Place { listing, switch: 0, next: 0 });
        }
    }

    /// Whether a listing is under way.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.at.is_some()
    }

    /// Tells of the next few flows, as far as there is room. Returns whether it looked at any.
    pub fn slice<'a, F: Frame + 'a>(
        &mut self,
        mut switches: impl Iterator<Item = &'a Switch<F>>,
        now: Time,
    ) -> bool {
        let Some(Place { listing, switch: n, next }) = self.at else { return false };
        // Each entry makes one row at most.
        if self.to.slots() < SLICE as usize {
            return false;
        }
        let Some(switch) = switches.nth(n) else {
            self.at = None;
            return self.to.push(Row::End { listing }).is_ok();
        };
        let end = switch.flows_end().min(next.saturating_add(SLICE));
        for index in next..end {
            if let Some(flow) = switch.flow(index, now) {
                // There is room.
                let _ = self.to.push(Row::Flow { listing, flow });
            }
        }
        let is_over = end >= switch.flows_end();
        let after = Place { listing, switch: n + 1, next: 0 };
        self.at = Some(if is_over { after } else { Place { listing, switch: n, next: end } });
        true
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
        let (mut lister, mut end) = pair();
        lister.poll();
        assert!(!lister.is_on());
        for listing in [1, 2] {
            end.ask.push(listing).unwrap();
        }
        lister.poll();
        let (mut told, mut worst, mut slices) = (BTreeSet::new(), Duration::ZERO, 0);
        'all: loop {
            let (before, began) = (end.rows.slots(), Instant::now());
            let looked = lister.slice(std::iter::once(&switch), now);
            worst = worst.max(began.elapsed());
            slices += 1;
            assert!(end.rows.slots() - before <= SLICE as usize);
            // The control thread comes when there is no room.
            if looked && lister.is_on() {
                continue;
            }
            assert!(!looked || !lister.is_on());
            while let Ok(row) = end.rows.pop() {
                match row {
                    Row::Flow { listing, flow } => {
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
