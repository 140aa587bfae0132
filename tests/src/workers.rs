//! The switches of one box: one per worker, each with its part of the flows.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::frame::{Class, Frame, Packet, Side, Sink};
use common::heap::{HeapFrame, HeapPool};
use common::metrics::{Counters, Metric};
use common::time::{Span, Time};
use common::wire::Spread;
use switch::{Command, Config, Crew, Notice, Switch};

use crate::trace::check_books;

/// Timers run per step and worker.
const TIMER_BUDGET: usize = 64;

/// What one worker has for another.
#[derive(Default)]
struct Ring {
    /// With the time from which on they are seen.
    notices: VecDeque<(Time, Notice)>,
    frames: VecDeque<(Time, Side, HeapFrame)>,
}

impl Ring {
    fn next(&self) -> Time {
        let notice = self.notices.front().map(|(at, _)| *at);
        let frame = self.frames.front().map(|(at, ..)| *at);
        notice.into_iter().chain(frame).min().unwrap_or(Time::NEVER)
    }
}

/// A box.
pub(crate) struct Workers {
    switches: Vec<Switch<HeapFrame>>,
    /// From each to each.
    rings: Vec<Vec<Ring>>,
    /// How long a frame takes from one to another; a notice may take less.
    lag: Span,
}

/// The way out of one worker, for one call.
struct Desk<'a, S> {
    ports: &'a mut S,
    handed: Vec<(u16, Side, HeapFrame)>,
}

impl<S: Sink<Frame = HeapFrame>> Sink for Desk<'_, S> {
    type Frame = HeapFrame;

    fn transmit(&mut self, side: Side, class: Class, packet: Packet<HeapFrame>) {
        self.ports.transmit(side, class, packet);
    }

    fn hand_over(&mut self, worker: u16, side: Side, frame: HeapFrame) {
        self.handed.push((worker, side, frame));
    }
}

impl Workers {
    /// A box with so many workers, at least one. Each is a node of its own. They
    /// share the queue pairs of two hosts if `spread` says how long a frame goes
    /// from one to another.
    pub fn new(count: u32, spread: Option<Span>, config: &Config) -> Self {
        let switch = |n| {
            let crew = Crew { worker: n as u16, workers: count as u16 };
            let crew = spread.map(|_| crew);
            Switch::new(Config { node: config.node + 100 * n, crew, ..config.clone() })
        };
        let rings = || (0..count).map(|_| Ring::default()).collect();
        Self {
            switches: (0..count).map(switch).collect(),
            rings: (0..count).map(|_| rings()).collect(),
            lag: spread.unwrap_or_default(),
        }
    }

    /// A frame that arrives.
    pub fn receive<S>(&mut self, side: Side, frame: HeapFrame, now: Time, sink: &mut S)
    where
        S: Sink<Frame = HeapFrame>,
    {
        let home = Spread::Mixed.bucket(frame.bytes()) % self.switches.len();
        let mut burst = ArrayVec::<HeapFrame, 1>::new();
        burst.push(frame);
        self.work(home, now, sink, |switch, desk| {
            switch.burst(side, &mut burst, now, &mut HeapPool, desk);
        });
    }

    /// All workers drain.
    pub fn drain<S: Sink<Frame = HeapFrame>>(&mut self, now: Time, sink: &mut S) {
        for n in 0..self.switches.len() {
            self.work(n, now, sink, |switch, desk| {
                switch.command(Command::Drain, now, &mut HeapPool, desk);
            });
        }
    }

    /// What is due: what others have handed over, and timers.
    pub fn timers<S: Sink<Frame = HeapFrame>>(&mut self, now: Time, sink: &mut S) {
        for n in 0..self.switches.len() {
            for from in 0..self.switches.len() {
                self.take(from, n, now, sink);
            }
            self.work(n, now, sink, |switch, desk| {
                switch.timers(now, TIMER_BUDGET, &mut HeapPool, desk);
            });
        }
    }

    /// Lets worker `n` do something, and puts what it has for others on its way.
    fn work<S: Sink<Frame = HeapFrame>>(
        &mut self,
        n: usize,
        now: Time,
        ports: &mut S,
        what: impl FnOnce(&mut Switch<HeapFrame>, &mut Desk<'_, S>),
    ) {
        let mut desk = Desk { ports, handed: Vec::new() };
        what(&mut self.switches[n], &mut desk);
        let rings = &mut self.rings[n];
        self.switches[n].send_notices(|to, notice| {
            rings[usize::from(to)].notices.push_back((now + self.lag / 2, notice));
            true
        });
        for (to, side, frame) in desk.handed {
            assert_ne!(usize::from(to), n, "it is here");
            rings[usize::from(to)].frames.push_back((now + self.lag, side, frame));
        }
    }

    /// Worker `n` takes what `from` has for it. No frame is seen before a notice
    /// that was given before it.
    fn take<S: Sink<Frame = HeapFrame>>(&mut self, from: usize, n: usize, now: Time, sink: &mut S) {
        let frames = &self.rings[from][n].frames;
        let visible = frames.iter().take_while(|(at, ..)| *at <= now).count();
        while let Some((_, notice)) = self.rings[from][n].notices.pop_front_if(|(at, _)| *at <= now)
        {
            self.work(n, now, sink, |switch, desk| {
                switch.on_notice(from as u16, notice, now, &mut HeapPool, desk);
            });
        }
        for (_, side, frame) in self.rings[from][n].frames.drain(..visible).collect::<Vec<_>>() {
            let mut burst = ArrayVec::<HeapFrame, 1>::from([frame]);
            self.work(n, now, sink, |switch, desk| {
                switch.take_over(side, &mut burst, now, &mut HeapPool, desk);
            });
        }
    }

    /// When something is due next.
    pub fn next_deadline(&self) -> Time {
        let timers = self.switches.iter().map(Switch::next_deadline);
        let rings = self.rings.iter().flatten().map(Ring::next);
        timers.chain(rings).min().unwrap_or(Time::NEVER)
    }

    /// Frames held, or on their way from one worker to another.
    pub fn held(&self) -> u64 {
        self.switches.iter().map(Switch::held).sum::<u64>() + self.on_their_way()
    }

    fn on_their_way(&self) -> u64 {
        self.rings.iter().flatten().map(|ring| ring.frames.len() as u64).sum()
    }

    /// What each worker counted.
    pub fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.switches.iter().map(Switch::counters)
    }

    /// Each worker's books, and those between them.
    pub fn check_books(&self) {
        self.switches.iter().for_each(check_books);
        let sum = |metric| self.counters().map(|counters| counters.get(metric)).sum::<u64>();
        let taken = sum(Metric::TakenOver) + self.on_their_way();
        assert_eq!(sum(Metric::HandedOver), taken, "a frame got lost between workers");
    }
}
