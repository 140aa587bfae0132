//! The switches of one box with two workers, and the rings between them.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::frame::{Class, Packet, Side, Sink};
use common::heap::{HeapFrame, HeapPool};
use common::metrics::Metric;
use common::time::{Span, Time};
use switch::{Command, Config, Crew, Notice, Switch};

use crate::support::{NODE, Sent};

/// The node of worker 1; worker 0 is `NODE`.
pub const NODE_1: u32 = NODE + 100;

/// What one switch has for ports and other workers, for the time of one call.
#[derive(Default)]
pub struct Desk {
    sent: Vec<Sent>,
    handed: Vec<(u16, Side, HeapFrame)>,
}

impl Sink for Desk {
    type Frame = HeapFrame;

    fn transmit(&mut self, side: Side, class: Class, packet: Packet<HeapFrame>) {
        self.sent.push(Sent { side, class, bytes: packet.bytes().to_vec() });
    }

    fn hand_over(&mut self, worker: u16, side: Side, frame: HeapFrame) {
        self.handed.push((worker, side, frame));
    }
}

/// A box whose hosts' addresses all belong to worker 0.
pub struct Pair {
    pub switches: [Switch<HeapFrame>; 2],
    pub now: Time,
    /// By receiver.
    pub notices: [VecDeque<Notice>; 2],
    pub frames: [VecDeque<(Side, HeapFrame)>; 2],
}

impl Pair {
    pub fn new(config: &Config) -> Self {
        Self::with([config.clone(), config.clone()])
    }

    pub fn with(configs: [Config; 2]) -> Self {
        let mut worker = 0..;
        let switches = configs.map(|config| {
            let worker = worker.next().unwrap_or_default();
            let node = if worker == 0 { NODE } else { NODE_1 };
            Switch::new(Config { crew: Some(Crew { worker, workers: 2 }), node, ..config })
        });
        let now = Time::from_nanos(1_000_000_000);
        Self { switches, now, notices: Default::default(), frames: Default::default() }
    }

    /// Lets worker `n` do something; returns what it sends to the ports.
    pub fn work(
        &mut self,
        n: usize,
        what: impl FnOnce(&mut Switch<HeapFrame>, Time, &mut HeapPool, &mut Desk),
    ) -> Vec<Sent> {
        let mut desk = Desk::default();
        let switch = &mut self.switches[n];
        what(switch, self.now, &mut HeapPool, &mut desk);
        let notices = &mut self.notices;
        switch.send_notices(|to, notice| {
            notices[usize::from(to)].push_back(notice);
            true
        });
        for (to, side, frame) in desk.handed {
            assert_ne!(usize::from(to), n, "it is here");
            self.frames[usize::from(to)].push_back((side, frame));
        }
        let counters = self.switches[n].counters();
        let held = self.switches[n].held();
        assert_eq!(counters.entered(), counters.left() + held, "a frame got lost");
        desk.sent
    }

    /// A frame arrives at worker 0, and stays where that puts it.
    pub fn arrive(&mut self, side: Side, bytes: Vec<u8>) -> Vec<Sent> {
        self.work(0, |switch, now, pool, desk| {
            let mut burst = ArrayVec::<HeapFrame, 1>::from([HeapFrame::from(bytes)]);
            switch.burst(side, &mut burst, now, pool, desk);
        })
    }

    /// Both workers take what the other has for them, until there is no more.
    pub fn deliver(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while self.notices.iter().any(|ring| !ring.is_empty())
            || self.frames.iter().any(|ring| !ring.is_empty())
        {
            for n in 0..2 {
                sent.extend(self.hear(n));
                while let Some((side, frame)) = self.frames[n].pop_front() {
                    sent.extend(self.work(n, |switch, now, pool, desk| {
                        let mut burst = ArrayVec::<HeapFrame, 1>::from([frame]);
                        switch.take_over(side, &mut burst, now, pool, desk);
                    }));
                }
            }
        }
        sent
    }

    /// Worker `n` takes the notices that it has been given.
    pub fn hear(&mut self, n: usize) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(notice) = self.notices[n].pop_front() {
            let from = 1 - n as u16;
            sent.extend(self.work(n, |switch, now, pool, desk| {
                switch.on_notice(from, notice, now, pool, desk);
            }));
        }
        sent
    }

    /// A frame arrives, and goes where it belongs.
    pub fn receive(&mut self, side: Side, bytes: Vec<u8>) -> Vec<Sent> {
        let mut sent = self.arrive(side, bytes);
        sent.extend(self.deliver());
        sent
    }

    pub fn lan(&mut self, bytes: Vec<u8>) -> Vec<Sent> {
        self.receive(Side::Lan, bytes)
    }

    pub fn wan(&mut self, bytes: Vec<u8>) -> Vec<Sent> {
        self.receive(Side::Wan, bytes)
    }

    pub fn command(&mut self, n: usize, command: Command) -> Vec<Sent> {
        self.work(n, |switch, now, pool, desk| switch.command(command, now, pool, desk))
    }

    pub fn housekeeping(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        for n in 0..2 {
            sent.extend(
                self.work(n, |switch, now, pool, desk| switch.housekeeping(now, pool, desk)),
            );
        }
        sent.extend(self.deliver());
        sent
    }

    pub fn wait(&mut self, span: Span) {
        self.now += span;
    }

    pub fn count(&self, n: usize, metric: Metric) -> u64 {
        self.switches[n].counters().get(metric)
    }
}
