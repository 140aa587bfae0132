//! A sender, lanes that lose, repeat and delay, and a receiver, on virtual time, against the order in
//! which each flow was sent.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::noise::{Noise, Noises, Still};
use common::time::{Span, Time};
use common::verdict::Tolerance;
use tunnel::message::{Probe, Report, Skip};
use tunnel::shim::Shim;
use tunnel::spray::Policy;
use tunnel::{
    Deliver, Health, Lane, Order, Receiver, ReceiverConfig, Recover, Sender, SenderConfig, Session,
    Transmit, Tuning, report_interval,
};

/// Frame of `flow`, sent behind `acks` ACKs and `n` other frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Frame {
    pub flow: u16,
    pub n: u64,
    pub acks: u64,
    pub is_ack: bool,
    pub sent_at: Time,
}

#[derive(Clone, Debug)]
enum Message {
    Frame(Shim, Frame),
    Probe(Probe),
    Skip(Skip),
    Report(Report),
}

/// A frame that is kept, and its first shim.
pub struct Kept(Shim, Frame);

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// One-way delay of each lane, in microseconds.
    pub delays: Vec<u64>,
    /// Share of frames lost, and of reports.
    pub loss: [f64; 2],
    /// Share of frames that come a second time, later.
    pub repeated: f64,
    /// Most microseconds that one comes behind its turn, so that it is overtaken.
    pub jitter: u64,
    pub flows: u16,
    pub frames: u64,
    pub cache_max: usize,
    pub waiting_max: usize,
    pub session: u32,
    /// A lane that carries nothing, either way, from .. to after this many microseconds.
    pub dead: Option<(u8, u64, u64)>,
    /// Most microseconds between two frames.
    pub pace: u64,
    /// Most microseconds of one pause in a thousand.
    pub pause: u64,
    /// Share of the frames that are ACKs, of flows that have any.
    pub acks: f64,
    /// How lanes are chosen; `None`: in turn.
    pub spray: Option<Policy>,
    /// Nanoseconds that a frame takes to leave on its lane: each is a port of its own.
    pub slot: u64,
    /// The ports don't know of the queues: they are in the network.
    pub are_ports_blind: bool,
    /// A lane that marks all of its frames.
    pub marks: Option<u8>,
    /// Transmissions of a lost frame.
    pub copies: u8,
    /// Timers and pools that both ends change to when so many frames are left to be sent.
    pub tunings: Vec<(u64, Tuning)>,
    pub noise: Noise,
    /// A flow none of whose frames arrives.
    pub refused: Option<u16>,
    /// From when on `longest_queue` is measured, in microseconds.
    pub queues_from: u64,
}

/// xorshift64*: the same sequence for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.roll() * n as f64) as u64
    }
}

/// What both ends have sent since they were last asked, and what was delivered.
#[derive(Default)]
struct Out {
    sent: Vec<(Lane, Message)>,
    delivered: Vec<Frame>,
    discarded: u64,
    released: u64,
}

impl Transmit<Frame> for Out {
    type Kept = Kept;

    fn send(&mut self, shim: &Shim, _: u8, frame: Frame) -> Option<Kept> {
        self.sent.push((shim.lane, Message::Frame(*shim, frame)));
        shim.is_kept.then_some(Kept(*shim, frame))
    }
}

impl Recover for Out {
    type Kept = Kept;

    fn resend(&mut self, shim: &Shim, Kept(first, frame): &Kept) -> bool {
        let shim = Shim { predecessor: first.predecessor, clear: first.clear, ..*shim };
        self.sent.push((shim.lane, Message::Frame(shim, *frame)));
        true
    }

    fn order(&self, Kept(_, frame): &Kept) -> Order {
        Order::Ordered(frame.flow)
    }

    fn release(&mut self, _: Kept) {
        self.released += 1;
    }

    fn probe(&mut self, probe: Probe) {
        self.sent.push((probe.lane, Message::Probe(probe)));
    }

    fn skip(&mut self, via: Lane, skip: Skip) {
        self.sent.push((via, Message::Skip(skip)));
    }
}

impl Deliver<Frame> for Out {
    fn deliver(&mut self, frame: Frame) {
        self.delivered.push(frame);
    }

    fn discard(&mut self, _: Frame) {
        self.discarded += 1;
    }

    fn report(&mut self, report: Report) {
        self.sent.push((report.lane, Message::Report(report)));
    }
}

pub struct World {
    pub scenario: Scenario,
    dice: Dice,
    pub sender: (SenderConfig, Sender<Kept>),
    pub receiver: (ReceiverConfig, Receiver<Frame>),
    /// Messages by arrival, and whether they go to the receiver.
    way: BinaryHeap<Reverse<(Time, u64)>>,
    messages: Vec<Option<(bool, Message)>>,
    /// Lanes are FIFO: the newest arrival of each, each way.
    newest: [Vec<Time>; 2],
    /// When the port of each lane has sent all its frames.
    free_at: Vec<Time>,
    /// The longest that a frame has waited in the queue of a lane.
    pub longest_queue: Span,
    /// Frames sent on each lane.
    pub used: Vec<u64>,
    out: Out,
    /// When each frame was delivered.
    pub delivered_at: Vec<Time>,
    /// Frames that lanes carried a second time.
    repeats: u64,
    pub lost: u64,
    /// Frames and control messages that both ends sent.
    pub posted: u64,
    /// When everything was settled.
    pub ended_at: Time,
    /// When lanes became suspect.
    pub left: Vec<(Time, Lane)>,
    noises: Noises,
}

pub const START: Time = Time::from_nanos(1_000_000_000);

impl World {
    /// The settings that may change.
    pub fn tuning(&self) -> Tuning {
        Tuning::of(&self.sender.0, &self.receiver.0)
    }

    pub fn new(scenario: Scenario) -> Self {
        let lanes = scenario.delays.len() as u8;
        let rtt = Span::from_millis(10);
        let sender = SenderConfig {
            lanes,
            rtt,
            cache_max: scenario.cache_max,
            give_up: Span::from_millis(400),
            ports: lanes,
            spray: scenario.spray.unwrap_or_default(),
            resend_copies: scenario.copies,
        };
        let session = Session::new(scenario.session);
        let receiver = ReceiverConfig {
            lanes,
            window: 1 << 20,
            waiting_max: scenario.waiting_max,
            waiting_room: scenario.waiting_max,
            give_up: Span::from_millis(400),
            report_interval: report_interval(rtt),
            tolerance: Tolerance::default(),
            report_at_once: Span::from_micros(20),
            is_paced: true,
        };
        Self {
            dice: Dice(scenario.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            sender: (sender.clone(), Sender::new(&sender, session)),
            receiver: (receiver.clone(), Receiver::new(&receiver, session)),
            way: BinaryHeap::new(),
            messages: Vec::new(),
            newest: [vec![Time::ZERO; lanes.into()], vec![Time::ZERO; lanes.into()]],
            free_at: vec![START; lanes.into()],
            longest_queue: Span::ZERO,
            used: vec![0; lanes.into()],
            out: Out::default(),
            delivered_at: Vec::new(),
            repeats: 0,
            lost: 0,
            posted: 0,
            ended_at: START,
            left: Vec::new(),
            noises: Noises::new(scenario.noise, scenario.seed, 2 * usize::from(lanes), START),
            scenario,
        }
    }

    fn post(&mut self, now: Time) {
        for (lane, message) in std::mem::take(&mut self.out.sent) {
            let there = !matches!(message, Message::Report(_));
            let lane = usize::from(lane.get());
            let after = now.since(START).as_micros();
            let is_dead = |(dead, from, to): (u8, u64, u64)| {
                usize::from(dead) == lane && (from..to).contains(&after)
            };
            let is_dead = self.scenario.dead.is_some_and(is_dead);
            let is_refused = matches!(message, Message::Frame(_, frame) if self.scenario.refused == Some(frame.flow));
            self.posted += 1;
            let is_lost = self.dice.roll() < self.scenario.loss[usize::from(!there)];
            if is_lost || is_dead || is_refused {
                self.lost += u64::from(matches!(message, Message::Frame(..)));
                continue;
            }
            let delay = Span::from_micros(self.scenario.delays[lane]);
            let newest = &mut self.newest[usize::from(there)][lane];
            let mut left = now;
            if let Message::Frame(..) = message {
                if after >= self.scenario.queues_from {
                    self.longest_queue = self.longest_queue.max(self.free_at[lane].since(now));
                }
                left = self.free_at[lane].max(now) + Span::from_nanos(self.scenario.slot);
                self.free_at[lane] = left;
            }
            let wait = self.noises.wait(2 * lane + usize::from(there), now);
            let passed = self.noises.not_before(Still::Paths, left + wait + delay);
            *newest = passed.max(*newest + Span::from_nanos(1));
            let to = if there { Still::Receiver } else { Still::Sender };
            let at = self.noises.not_before(to, *newest)
                + Span::from_micros(self.dice.below(self.scenario.jitter + 1));
            let again = self.dice.roll() < self.scenario.repeated;
            let late = at + Span::from_micros(self.dice.below(20_000));
            self.repeats += u64::from(again && matches!(message, Message::Frame(..)));
            for at in [Some(at), again.then_some(late)].into_iter().flatten() {
                self.way.push(Reverse((at, self.messages.len() as u64)));
                self.messages.push(Some((there, message.clone())));
            }
        }
    }

    fn arrive(&mut self, now: Time, at: u64) {
        let Some((_, message)) = self.messages[at as usize].take() else { return };
        let (config, receiver) = &mut self.receiver;
        match message {
            Message::Frame(shim, frame) => {
                let is_marked = self.scenario.marks == Some(shim.lane.get());
                receiver.on_frame(config, now, &shim, is_marked, frame, &mut self.out);
            }
            Message::Probe(probe) => receiver.on_probe(config, now, &probe, &mut self.out),
            Message::Skip(skip) => receiver.on_skip(now, &skip, &mut self.out),
            Message::Report(report) => {
                assert!(self.sender.1.on_report(now, &report, &mut self.out));
            }
        }
    }

    /// Sends all frames and waits until everything is settled. The frames as they were delivered.
    pub fn run(&mut self) -> Vec<Frame> {
        let mut now = START;
        let mut next_frame = now;
        let mut counts = vec![(0, 0); self.scenario.flows.into()];
        let mut left = self.scenario.frames;
        let mut was_good = vec![true; self.scenario.delays.len()];
        loop {
            let message = self.way.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
            let frame = if left > 0 { next_frame } else { Time::NEVER };
            let sender = self.sender.1.deadline();
            let receiver = self.receiver.1.deadline(&self.receiver.0);
            // What is due on each lane is all that is due.
            let lanes = self.scenario.delays.len() as u8;
            let all = || Lane::all(lanes);
            let of_lanes = all().map(|lane| self.sender.1.due_of(lane)).min();
            assert_eq!(of_lanes, Some(sender));
            let of_lanes = all().map(|lane| self.receiver.1.due_of(&self.receiver.0, lane)).min();
            assert_eq!(of_lanes, Some(receiver));
            let frame = self.noises.not_before(Still::Sender, frame);
            let sender = self.noises.not_before(Still::Sender, sender);
            let receiver = self.noises.not_before(Still::Receiver, receiver);
            let next = message.min(frame).min(sender).min(receiver);
            if next == Time::NEVER {
                break;
            }
            now = now.max(next);
            if next == message {
                let Reverse((_, at)) = self.way.pop().expect("it was looked at");
                self.arrive(now, at);
            } else if next == frame {
                left -= 1;
                let flow = self.dice.below(self.scenario.flows.into()) as u16;
                let (n, acks) = counts[usize::from(flow)];
                let is_ack = flow % 3 != 1 && self.dice.roll() < self.scenario.acks;
                counts[usize::from(flow)] = if is_ack { (n, acks + 1) } else { (n + 1, acks) };
                let order = match flow % 3 {
                    1 => Order::Ordered(flow),
                    _ if is_ack => Order::Ack(flow),
                    _ => Order::Response(flow),
                };
                let (config, sender) = &mut self.sender;
                for (_, tuning) in self.scenario.tunings.iter().filter(|(at, _)| *at == left) {
                    sender.retune(config, now, tuning);
                    self.receiver.1.retune(&mut self.receiver.0, now, tuning);
                }
                let free_at = &self.free_at;
                let is_blind = self.scenario.are_ports_blind;
                let wait = |lane: Lane| {
                    let queue = free_at[usize::from(lane.get())].since(now);
                    Some(if is_blind { Span::ZERO } else { queue })
                };
                let in_turn = Lane::new((left % self.scenario.delays.len() as u64) as u8);
                let lane = match self.scenario.spray {
                    None => in_turn,
                    Some(_) => sender.choose(now, order, wait),
                };
                let lane = lane.expect("a lane");
                self.used[usize::from(lane.get())] += 1;
                let frame = Frame { flow, n, acks, is_ack, sent_at: now };
                sender.on_frame(config, now, lane, order.into(), frame, &mut self.out);
                let pause =
                    if self.dice.roll() < 1e-3 { self.scenario.pause } else { self.scenario.pace };
                next_frame = now + Span::from_micros(self.dice.below(pause) + 1);
            } else if next == sender {
                self.sender.1.on_timer(now, &mut self.out);
            } else {
                self.receiver.1.on_timer(&self.receiver.0, now, &mut self.out);
            }
            self.post(now);
            for (lane, was_good) in all().zip(&mut was_good) {
                let is_good = self.sender.1.health(lane) == Some(Health::Good);
                if core::mem::replace(was_good, is_good) && !is_good {
                    self.left.push((now, lane));
                }
            }
            self.delivered_at.resize(self.out.delivered.len(), now);
            let (sender, receiver) = (&self.sender.1, &self.receiver.1);
            assert!(sender.is_balanced(), "{:?} {:?}", sender.counts(), self.scenario);
            assert!(receiver.is_balanced(), "{:?} {:?}", receiver.counts(), self.scenario);
            assert_eq!(sender.counts().released, self.out.released);
        }
        self.ended_at = now;
        self.receiver.1.end(now, &mut self.out);
        std::mem::take(&mut self.out.delivered)
    }
}

/// Every frame once, and each flow in order.
pub fn assert_lossless(world: &mut World) {
    let delivered = world.run();
    assert_all_in_order(world, &delivered);
}

pub fn assert_all_in_order(world: &World, delivered: &[Frame]) {
    let frames = world.scenario.frames;
    let mut counts = vec![(0, 0); world.scenario.flows.into()];
    for frame in delivered {
        let (others, acks) = &mut counts[usize::from(frame.flow)];
        let (sent, received) = (world.sender.1.counts(), world.receiver.1.counts());
        // An ACK overtakes ACKs only, some of which do not come then, and nothing else does.
        let is_in_order = frame.n == *others && (frame.is_ack || frame.acks == *acks);
        assert!(
            is_in_order,
            "{frame:?} {others} {acks} {:?} {sent:?} {received:?}",
            world.scenario
        );
        if frame.is_ack {
            *acks = (frame.acks + 1).max(*acks);
        } else {
            *others += 1;
        }
    }
    assert_nothing_doubled(delivered);
    let superseded = world.receiver.1.counts().superseded;
    assert_eq!(delivered.len() as u64 + superseded, frames, "{:?}", world.scenario);
    assert_eq!(world.sender.1.kept(), 0, "something is kept for ever");
    assert_eq!(world.receiver.1.waiting(), 0);
}

/// The same if no frame was skipped. If some were, all others come, each once; returns false then.
pub fn assert_all_in_order_unless_skipped(world: &World, delivered: &[Frame]) -> bool {
    let (sent, received) = (world.sender.1.counts(), world.receiver.1.counts());
    if sent.skipped == 0 {
        assert_all_in_order(world, delivered);
        return true;
    }
    assert_nothing_doubled(delivered);
    let gone = sent.skipped + received.given_up + received.superseded;
    let least = world.scenario.frames.saturating_sub(gone);
    assert!(delivered.len() as u64 >= least, "{} {sent:?} {received:?}", delivered.len());
    assert_eq!((world.sender.1.kept(), world.receiver.1.waiting()), (0, 0));
    false
}

pub fn assert_nothing_doubled(delivered: &[Frame]) {
    let all: std::collections::BTreeSet<_> = delivered.iter().collect();
    assert_eq!(all.len(), delivered.len(), "a frame came twice");
}

pub fn scenario(seed: u64) -> Scenario {
    Scenario {
        seed,
        delays: vec![5_000],
        loss: [0.01, 0.01],
        repeated: 0.0,
        jitter: 0,
        flows: 64,
        frames: 4_000,
        cache_max: 1 << 20,
        waiting_max: 1 << 16,
        session: u32::MAX - 2_000,
        dead: None,
        pace: 60,
        pause: 200_000,
        acks: 0.0,
        spray: None,
        slot: 0,
        are_ports_blind: false,
        marks: None,
        copies: 2,
        tunings: Vec::new(),
        noise: Noise::default(),
        refused: None,
        queues_from: 0,
    }
}
