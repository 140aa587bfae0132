//! A sender and a receiver on two lanes that lose, repeat and reorder as the input says, and a stranger's
//! shims, against what each flow has sent.

use std::collections::{BTreeMap, BTreeSet};

use common::time::{Span, Time};
use common::verdict::{Mode, Tolerance};
use testkit::operations::input::Input;
use tunnel::message::{Probe, Report, Skip};
use tunnel::shim::Shim;
use tunnel::spray::Policy;
use tunnel::{
    Deliver, Lane, Order, Receiver, ReceiverConfig, Recover, Sender, SenderConfig, Session,
    Transmit, Tuning, WireNumber,
};

const LANES: u8 = 2;
const POLICIES: [Policy; 5] =
    [Policy::Pinned, Policy::Oblivious, Policy::Reps, Policy::Strack, Policy::Earliest];
const SESSION: Session = Session::new(u32::MAX - 20);

/// Number `n` of `flow`; a stranger's has none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Frame(Option<(u8, u32)>);

#[derive(Clone)]
enum Sent {
    Frame(Shim, Frame),
    Probe(Probe),
    Skip(Skip),
    Report(Report),
}

#[derive(Default)]
struct Out {
    sent: Vec<(Lane, Sent)>,
    delivered: Vec<Frame>,
    released: u64,
    is_out_of_memory: bool,
}

impl Transmit<Frame> for Out {
    type Kept = (Shim, Frame);

    fn send(&mut self, shim: &Shim, _: u8, frame: Frame) -> Option<Self::Kept> {
        self.sent.push((shim.lane, Sent::Frame(*shim, frame)));
        (shim.is_kept && !self.is_out_of_memory).then_some((*shim, frame))
    }
}

impl Recover for Out {
    type Kept = (Shim, Frame);

    fn resend(&mut self, shim: &Shim, (first, frame): &Self::Kept) -> bool {
        if !self.is_out_of_memory {
            let shim = Shim { predecessor: first.predecessor, clear: first.clear, ..*shim };
            self.sent.push((shim.lane, Sent::Frame(shim, *frame)));
        }
        !self.is_out_of_memory
    }

    fn release(&mut self, _: Self::Kept) {
        self.released += 1;
    }

    fn probe(&mut self, probe: Probe) {
        self.sent.push((probe.lane, Sent::Probe(probe)));
    }

    fn skip(&mut self, via: Lane, skip: Skip) {
        self.sent.push((via, Sent::Skip(skip)));
    }
}

impl Deliver<Frame> for Out {
    fn deliver(&mut self, frame: Frame) {
        self.delivered.push(frame);
    }

    fn discard(&mut self, _: Frame) {}

    fn report(&mut self, report: Report) {
        self.sent.push((report.lane, Sent::Report(report)));
    }
}

struct World {
    sender: (SenderConfig, Sender<(Shim, Frame)>),
    receiver: (ReceiverConfig, Receiver<Frame>),
    out: Out,
    /// On each lane, either way: those of the sender, those of the receiver.
    lanes: [[Vec<Sent>; 2]; LANES as usize],
    now: Time,
    next: [u32; 8],
    /// Whether the sender chooses the lanes of frames, and which of their ports have no room.
    chooses: Option<[bool; LANES as usize]>,
    /// Numbers that forged frames have taken, at most.
    strangers: u64,
    /// Frames that the sender kept after the last operation.
    kept: usize,
    /// The most that might wait at the receiver since it last fitted its pool.
    waiting_max: usize,
    /// Whether the links of the lanes are up.
    is_used: [bool; LANES as usize],
    /// When each delivered frame was.
    delivered_at: Vec<Time>,
    /// The shortest time that the receiver has waited for a number.
    give_up: Span,
}

/// `data` is a sequence of operations.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::new(&mut input);
    while !input.is_empty() {
        world.step(&mut input);
    }
    world.end();
}

/// Whether frame `n` of `flow` is an ACK: some flows have requests only.
const fn is_ack(flow: u8, n: u32) -> bool {
    flow >= 4 && !n.is_multiple_of(3)
}

fn lane(n: u8) -> Lane {
    Lane::new(n % LANES).expect("one of few")
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let rtt = Span::from_millis(4);
        let sender = SenderConfig {
            lanes: LANES,
            rtt,
            cache_max: input.choose(&[0, 3, 99, 999]),
            give_up: Span::from_millis(40),
            ports: 1,
            spray: Policy::default(),
            resend_copies: 2,
        };
        let receiver = ReceiverConfig {
            lanes: LANES,
            window: input.choose(&[8, 64, 4_096]),
            waiting_max: input.choose(&[1, 4, 999]),
            waiting_room: 999,
            give_up: Span::from_millis(40),
            report_interval: Span::from_micros(250),
            tolerance: Tolerance::default(),
            report_at_once: Span::from_micros(20),
            is_paced: true,
        };
        Self {
            sender: (sender.clone(), Sender::new(&sender, SESSION)),
            waiting_max: receiver.waiting_max,
            is_used: [true; _],
            delivered_at: Vec::new(),
            give_up: receiver.give_up,
            receiver: (receiver.clone(), Receiver::new(&receiver, SESSION)),
            kept: 0,
            out: Out::default(),
            lanes: Default::default(),
            now: Time::from_nanos(1_000_000_000),
            next: [0; 8],
            chooses: None,
            strangers: 0,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let operation = input.byte();
        let (n, which) = (usize::from(operation >> 7), usize::from(operation >> 6 & 1));
        match operation & 0x1f {
            0..=9 => self.frame(operation >> 5),
            10..=17 => self.arrive(n, which, 0),
            18 => self.arrive(n, which, usize::from(input.byte())),
            19 => drop(self.lanes[n][which].pop()),
            20 => self.lanes[n][which].clear(),
            21 => {
                let again = self.lanes[n][which].first().cloned();
                self.lanes[n][which].extend(again);
            }
            22 if n == 0 => self.out.is_out_of_memory ^= true,
            22 => self.use_lane(which, !self.is_used[which]),
            23 => self.forge(input),
            28 => self.retune(input),
            29 => self.set(input.byte()),
            24..=27 => self.pass(Span::from_micros(u64::from(input.byte()) * 40)),
            _ => self.pass(Span::from_micros(u64::from(input.byte()))),
        }
        self.post();
    }

    /// The operator changes timers and pools.
    fn retune(&mut self, input: &mut Input<'_>) {
        let ms = |input: &mut Input<'_>| Span::from_millis(input.choose(&[1, 4, 40]));
        let tuning = Tuning {
            rtt: ms(input),
            spray: self.sender.0.spray,
            resend_copies: self.sender.0.resend_copies,
            cache_max: input.choose(&[0, 3, 99, 999]),
            waiting_max: input.choose(&[0, 1, 4, 999]),
            give_up: ms(input),
            report_interval: Span::from_micros(input.choose(&[100, 250, 1_000])),
            tolerance: Tolerance {
                mode: input.choose(&[Mode::Off, Mode::Auto, Mode::Fixed]),
                ..Tolerance::default()
            },
        };
        self.sender.1.retune(&mut self.sender.0, self.now, &tuning);
        self.receiver.1.retune(&mut self.receiver.0, self.now, &tuning);
        self.waiting_max = self.waiting_max.max(self.receiver.0.waiting_max);
        self.give_up = self.give_up.min(tuning.give_up);
        // A frame of the same moment counts as one from before the change.
        self.pass(Span::from_nanos(1));
    }

    /// The sender learns that the link of a lane is up or down. Frames on the lane still arrive or are lost as the input says.
    fn use_lane(&mut self, n: usize, is_used: bool) {
        self.is_used[n] = is_used;
        self.sender.1.set_used(self.now, lane(n as u8), is_used, &mut self.out);
    }

    /// The operator sets how lanes are chosen and how often a lost frame is sent again. From now on the sender chooses.
    fn set(&mut self, to: u8) {
        let (config, sender) = &mut self.sender;
        let tuning = Tuning {
            spray: POLICIES[usize::from(to & 7) % POLICIES.len()],
            resend_copies: 1 + (to >> 3 & 1),
            ..Tuning::of(config, &self.receiver.0)
        };
        sender.retune(config, self.now, &tuning);
        self.chooses = Some([to & 16 != 0, to & 32 != 0]);
    }

    fn frame(&mut self, flow: u8) {
        let n = self.next[usize::from(flow)];
        let (config, sender) = &mut self.sender;
        let frame = Frame(Some((flow, n)));
        let bucket = flow.into();
        let order = match flow {
            _ if is_ack(flow, n) => Order::Ack(bucket),
            4.. => Order::Response(bucket),
            _ => Order::Ordered(bucket),
        };
        let now = self.now;
        let lane = match self.chooses {
            None => lane((n % 3) as u8),
            Some(full) => {
                let wait = |lane: Lane| (!full[usize::from(lane.get())]).then_some(Span::ZERO);
                // Without room there is no frame.
                let Some(lane) = sender.choose(now, order, wait) else { return };
                lane
            }
        };
        self.next[usize::from(flow)] += 1;
        sender.on_frame(config, self.now, lane, order.into(), frame, &mut self.out);
    }

    /// Injects a forged frame with the right session.
    fn forge(&mut self, input: &mut Input<'_>) {
        let near = |input: &mut Input<'_>| {
            WireNumber((u32::MAX - 40).wrapping_add(u32::from(input.byte())))
        };
        let flags = input.byte();
        let shim = Shim {
            lane: lane(flags),
            number: near(input),
            session: SESSION,
            predecessor: (flags & 2 != 0).then(|| (lane(flags >> 2), near(input))),
            original: (flags & 8 != 0).then(|| (lane(flags >> 4), near(input))),
            is_kept: true,
            clear: flags >> 3 & 0x1f,
        };
        // One that claims to be a resend takes two numbers.
        self.strangers += 1 + u64::from(shim.original.is_some());
        let (config, receiver) = &mut self.receiver;
        receiver.on_frame(config, self.now, &shim, false, Frame(None), &mut self.out);
    }

    fn arrive(&mut self, n: usize, which: usize, at: usize) {
        let on_lane = &mut self.lanes[n][which];
        if on_lane.is_empty() {
            return;
        }
        let sent = on_lane.remove(at % on_lane.len());
        let (config, receiver) = &mut self.receiver;
        match sent {
            Sent::Frame(shim, frame) => {
                receiver.on_frame(config, self.now, &shim, false, frame, &mut self.out);
            }
            Sent::Probe(probe) => receiver.on_probe(config, self.now, &probe, &mut self.out),
            Sent::Skip(skip) => receiver.on_skip(self.now, &skip, &mut self.out),
            Sent::Report(report) => {
                self.sender.1.on_report(self.now, &report, &mut self.out);
            }
        }
    }

    fn post(&mut self) {
        for (lane, sent) in self.out.sent.drain(..) {
            let way = usize::from(matches!(sent, Sent::Report(_)));
            self.lanes[usize::from(lane.get())][way].push(sent);
        }
        self.delivered_at.resize(self.out.delivered.len(), self.now);
        let (sender, receiver) = (&self.sender.1, &self.receiver.1);
        assert!(sender.is_balanced() && receiver.is_balanced());
        assert_eq!(sender.counts().released, self.out.released);
        // R-TUN-60: pools that were made smaller.
        if receiver.fits(&self.receiver.0) {
            self.waiting_max = self.receiver.0.waiting_max;
        }
        assert!(receiver.waiting() <= self.waiting_max);
        let cache_max = self.sender.0.cache_max;
        assert!(sender.kept() <= self.kept.max(cache_max));
        self.kept = sender.kept();
    }

    fn pass(&mut self, span: Span) {
        let end = self.now + span;
        for _ in 0..10_000 {
            let due = self.sender.1.deadline().min(self.receiver.1.deadline(&self.receiver.0));
            if due > end {
                break;
            }
            self.now = self.now.max(due);
            self.sender.1.on_timer(self.now, &mut self.out);
            self.receiver.1.on_timer(&self.receiver.0, self.now, &mut self.out);
            self.post();
            let due = self.sender.1.deadline().min(self.receiver.1.deadline(&self.receiver.0));
            assert!(due > self.now, "a timer stays due");
        }
        self.now = end;
    }

    /// All links are up, and all that is sent arrives now: everything is released, and nothing came twice.
    fn end(&mut self) {
        self.out.is_out_of_memory = false;
        (0..self.is_used.len()).for_each(|n| self.use_lane(n, true));
        for _ in 0..400 {
            self.pass(Span::from_millis(10));
            for (n, which) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                while !self.lanes[n][which].is_empty() {
                    self.arrive(n, which, 0);
                }
                self.post();
            }
        }
        assert_eq!((self.sender.1.kept(), self.receiver.1.waiting()), (0, 0));
        assert!(self.receiver.1.fits(&self.receiver.0));
        let ours: Vec<_> = self.out.delivered.iter().filter(|frame| frame.0.is_some()).collect();
        assert_eq!(ours.iter().collect::<BTreeSet<_>>().len(), ours.len(), "a frame came twice");
        let (sent, received) = (self.sender.1.counts(), self.receiver.1.counts());
        let gone = sent.skipped + received.given_up + received.outside + self.strangers;
        assert!(
            ours.len() as u64 + received.superseded + gone >= sent.frames,
            "{sent:?} {received:?}"
        );
        if gone == 0 && received.unordered == 0 {
            self.assert_in_order();
        }
    }

    /// An ACK has overtaken ACKs only. No other frame has overtaken any, but ACKs behind one that was delivered early and has waited for
    /// its predecessor as long as the receiver waits. R-TUN-10
    fn assert_in_order(&self) {
        let mut came: [BTreeMap<u32, Time>; 8] = Default::default();
        for (frame, now) in self.out.delivered.iter().zip(&self.delivered_at) {
            let Some((flow, n)) = frame.0 else { continue };
            let came = &mut came[usize::from(flow)];
            let is_overdue =
                |(ack, at): (&u32, &Time)| is_ack(flow, *ack) && *now >= *at + self.give_up;
            // An ACK that a newer one has overtaken does not come at all. R-TUN-24
            let is_superseded = |before: u32| {
                (before + 1..n).any(|ack| is_ack(flow, ack) && came.contains_key(&ack))
            };
            let may_overtake = |before: u32| {
                is_ack(flow, before)
                    && (is_ack(flow, n)
                        || is_superseded(before)
                        || came.range(before..n).any(is_overdue))
            };
            let is_in_order =
                (0..n).all(|before| came.contains_key(&before) || may_overtake(before));
            assert!(is_in_order, "flow {flow}: {n} after {came:?}");
            came.insert(n, *now);
        }
    }
}
