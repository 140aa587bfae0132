//! Frames that arrive together fare as they would one by one.

use crate::support::{Dice, Kind, Scenario, at, config, stamped};
use arrayvec::ArrayVec;
use common::frame::{Class, Frame, Packet, Pool};
use common::heap::{HeapFrame, HeapPool};
use common::time::{Span, Time};
use proptest::prelude::*;
use tunnel::{Io, Plan, Port, Tunnel};

const BURST: usize = 16;

/// Everything that leaves a box.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Ports {
    wan: Vec<(Port, Vec<u8>)>,
    lan: Vec<Vec<u8>>,
    local: Vec<Vec<u8>>,
    /// Frames of class Data that the WAN port still takes.
    room: usize,
}

impl Io for Ports {
    type Frame = HeapFrame;

    fn wait(&mut self, _: Port) -> Option<Span> {
        (self.room > 0).then_some(Span::ZERO)
    }

    fn room(&mut self, _: Port) -> usize {
        self.room
    }

    fn wan(&mut self, port: Port, class: Class, packet: Packet<HeapFrame>) {
        if class == Class::Data {
            self.room = self.room.saturating_sub(1);
        }
        self.wan.push((port, packet.bytes().to_vec()));
    }

    fn lan_all<const N: usize>(&mut self, frames: &mut ArrayVec<HeapFrame, N>, _: bool) {
        self.lan.extend(frames.drain(..).map(|frame| frame.bytes().to_vec()));
    }

    fn local(&mut self, _: Port, frame: HeapFrame) {
        self.local.push(frame.bytes().to_vec());
    }

    fn alloc(&mut self, len: usize) -> Option<HeapFrame> {
        HeapPool.alloc(len)
    }
}

/// Two boxes. Those of a pair that takes bursts get all frames together, those of the other one by one.
struct Pair {
    boxes: [Tunnel<HeapFrame>; 2],
    ports: [Ports; 2],
    takes_bursts: bool,
    /// With several lanes, those of a burst are chosen for several frames at a time.
    has_lanes: bool,
}

impl Pair {
    fn new(scenario: Scenario, cache_max: usize, takes_bursts: bool) -> Self {
        let boxes = [0, 1].map(|me| {
            let mut config = config(scenario, me, 100);
            config.sender.cache_max = cache_max;
            Tunnel::new(config)
        });
        let room = usize::MAX;
        let ports = [0, 1].map(|_| Ports { room, ..Ports::default() });
        Self { boxes, ports, takes_bursts, has_lanes: scenario.ports > 1 }
    }

    fn lan(&mut self, me: usize, now: Time, frames: &[Vec<u8>]) {
        let (end, ports) = (&mut self.boxes[me], &mut self.ports[me]);
        let frames = frames.iter().map(|frame| HeapFrame::from(frame.clone()));
        if self.takes_bursts && !self.has_lanes {
            let mut burst: ArrayVec<_, BURST> = frames.collect();
            end.on_lan_burst(now, &mut burst, ports);
        } else {
            frames.for_each(|frame| end.on_lan(now, frame, ports));
        }
    }

    fn wan(&mut self, me: usize, now: Time, frames: &[(Port, Vec<u8>)]) {
        let (end, ports) = (&mut self.boxes[me], &mut self.ports[me]);
        for burst in frames.chunk_by(|a, b| a.0 == b.0).flat_map(|run| run.chunks(BURST)) {
            let port = burst[0].0;
            let burst = burst.iter().map(|(_, frame)| HeapFrame::from(frame.clone()));
            if self.takes_bursts {
                let mut burst: ArrayVec<_, BURST> = burst.collect();
                end.on_wan_burst(now, port, &mut burst, ports);
            } else {
                burst.for_each(|frame| end.on_wan(now, port, frame, ports));
            }
        }
    }

    /// Frames on the way from a box, which `link` may lose, repeat and overtake.
    fn cross(&mut self, from: usize, now: Time, mut link: impl FnMut(&mut Vec<(Port, Vec<u8>)>)) {
        let mut frames = core::mem::take(&mut self.ports[from].wan);
        link(&mut frames);
        self.wan(1 - from, now, &frames);
    }

    fn timers(&mut self, now: Time) {
        for (end, ports) in self.boxes.iter_mut().zip(&mut self.ports) {
            assert!(end.due() <= end.deadline());
            if end.due() <= now {
                end.on_timer(now, ports);
            }
        }
    }
}

/// A frame of a host: most often RoCE, or one that a tunnel takes by another way or not at all.
fn frame(dice: &mut Dice, n: u64) -> Vec<u8> {
    let mut frame = stamped(0, (dice.roll() * 12.0) as u64, n, 100);
    match (dice.roll() * 40.0) as u32 {
        0 => drop(frame.splice(12..12, [0x81, 0, 0, 5])),
        1 => frame.resize(1_600, 0),
        2 => frame.truncate(10),
        3 => frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1]),
        4 => frame[12..14].copy_from_slice(&[0x88, 0x08]),
        5 => frame[42] = 0x11,
        6 => frame[42] = 0x64,
        7 => frame[12..14].copy_from_slice(&[0x88, 0xb5]),
        _ => {}
    }
    frame
}

fn same(scenario: Scenario, loss: f64) {
    let mut pairs = [true, false].map(|bursts| Pair::new(scenario, 1 << 12, bursts));
    let mut dice = Dice(scenario.seed | 1);
    for step in 0..1_500_u64 {
        let now = at(0)
            + Span::from_micros(step * 4_000).min(Span::from_millis(4_000))
            + Span::from_micros(step * 20);
        let is_beginning = now < at(4_000);
        let room = if dice.roll() < 0.05 { (dice.roll() * 20.0) as usize } else { usize::MAX };
        let count = if is_beginning { 0 } else { (dice.roll() * (BURST + 1) as f64) as u64 };
        let frames: Vec<_> = (0..count).map(|n| frame(&mut dice, n)).collect();
        let seeds = [0, 1].map(|_| (dice.roll() * 1e9) as u64);
        for pair in &mut pairs {
            pair.ports.iter_mut().for_each(|ports| ports.room = room);
            pair.lan(0, now, &frames);
            pair.timers(now);
        }
        let [with, without] = &mut pairs;
        assert_eq!(with.ports, without.ports, "step {step}");
        for pair in &mut pairs {
            pair.ports.iter_mut().for_each(|ports| (ports.lan.clear(), ports.local.clear()).0);
            for (from, seed) in [0, 1].into_iter().zip(seeds) {
                pair.cross(from, now, |frames| {
                    let mut dice = Dice(seed | 1);
                    frames.retain(|_| is_beginning || dice.roll() >= loss);
                    if !is_beginning && dice.roll() < loss && frames.len() > 1 {
                        let at = (dice.roll() * (frames.len() - 1) as f64) as usize;
                        frames.swap(at, at + 1);
                        frames.push(frames[at].clone());
                    }
                });
            }
        }
        let [with, without] = &mut pairs;
        assert_eq!(with.ports, without.ports, "step {step}");
        for (a, b) in with.boxes.iter().zip(&without.boxes) {
            assert_eq!(a.counts(), b.counts(), "step {step}");
            assert_eq!((a.sent(), a.received()), (b.sent(), b.received()), "step {step}");
            assert!(a.is_balanced());
        }
    }
    let received = pairs[0].boxes[1].received();
    assert!(received.delivered > 2_000, "{received:?}");
}

/// R-TUN-67: a numbered frame that the queue has no room for would look like loss.
#[test]
fn a_repair_frame_takes_no_room_of_numbered_frames() {
    for takes_bursts in [true, false] {
        let mut pair = Pair::new(Scenario::default(), 1 << 12, takes_bursts);
        let plan = Plan::new(1, 2, 1).expect("within bounds");
        pair.boxes.iter_mut().for_each(|end| end.protect_lanes(plan));
        let mut now = at(0);
        for _ in 0..1_000 {
            now += Span::from_millis(4);
            pair.timers(now);
            pair.cross(0, now, |_| ());
            pair.cross(1, now, |_| ());
        }
        // Numbered frames and repair frames of a burst, by the room of the queue.
        let mut sent = |room| {
            pair.ports[0].room = room;
            let frames: Vec<_> = (0..8).map(|n| stamped(0, 3, n, 100)).collect();
            pair.lan(0, now, &frames);
            let wan = core::mem::take(&mut pair.ports[0].wan);
            let of = |code| wan.iter().filter(|(_, frame)| frame[14] == code).count();
            (of(0x20), of(0x22))
        };
        // Behind the first frame the plan is announced; of the other seven each second one has a repair frame behind it.
        assert_eq!(sent(usize::MAX), (8, 4), "{takes_bursts}");
        let (numbered, repairs) = sent(8);
        assert!(numbered + repairs <= 8, "{numbered} and {repairs}");
        assert!(!takes_bursts || numbered == 8, "{numbered} and {repairs}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// R-TUN-6, R-TUN-23
    #[test]
    fn bursts_fare_as_their_frames_would(
        seed: u64,
        kind in prop::sample::select(vec![Kind::Ethernet, Kind::UdpV4, Kind::UdpV6]),
        ports in 1..=2_u8,
        loss in prop::sample::select(vec![0.0, 0.0, 0.01, 0.2]),
    ) {
        same(Scenario { seed, kind, ports, ..Scenario::default() }, loss);
    }
}

/// R-TUN-13: of a burst that the cache has no room for, no frame is kept; one that it has room for is.
#[test]
fn a_burst_is_kept_as_a_whole() {
    const NOT_KEPT: usize = 14 + 3;
    let mut pair = Pair::new(Scenario::default(), 20, true);
    for ms in 0..4_000 {
        pair.timers(at(ms));
        pair.cross(0, at(ms), |_| ());
        pair.cross(1, at(ms), |_| ());
    }
    let frames: Vec<_> = (0..BURST as u64).map(|n| stamped(0, 0, n, 100)).collect();
    for count in [BURST, BURST, 4] {
        pair.lan(0, at(4_000), &frames[..count]);
    }
    let kept: Vec<_> =
        pair.ports[0].wan.iter().map(|(_, frame)| frame[NOT_KEPT] & 1 == 0).collect();
    let expected = [vec![true; BURST], vec![false; BURST], vec![true; 4]].concat();
    assert_eq!(kept, expected);
    assert_eq!(pair.boxes[0].kept(), 20);
}

/// R-TUN-30: a burst takes the lane chosen for its first frame, and the next ones another; flows keep their order.
#[test]
fn a_burst_takes_lanes_for_several_frames_at_a_time() {
    const BURST: usize = 64;
    const LANE: usize = 15;
    let scenario = Scenario { ports: 2, ..Scenario::default() };
    let mut pair = Pair::new(scenario, 1 << 12, true);
    for ms in 0..4_000 {
        pair.timers(at(ms));
        pair.cross(0, at(ms), |_| ());
        pair.cross(1, at(ms), |_| ());
    }
    let frames: Vec<_> = (0..BURST as u64).map(|n| stamped(0, n % 12, n, 100)).collect();
    let mut burst: ArrayVec<_, BURST> = frames.iter().cloned().map(HeapFrame::from).collect();
    pair.boxes[0].on_lan_burst(at(4_000), &mut burst, &mut pair.ports[0]);
    let sent = &pair.ports[0].wan;
    assert_eq!(sent.len(), BURST);
    let lanes: Vec<_> = sent.chunk_by(|a, b| a.1[LANE] == b.1[LANE]).collect();
    assert!(lanes.len() >= 2 && lanes.iter().all(|run| run.len().is_multiple_of(32)));
    assert!(sent.iter().all(|(port, frame)| port.get() == frame[LANE] % 2));
    pair.cross(0, at(4_001), |_| ());
    assert_eq!(pair.ports[1].lan, frames);
}

/// `tweak` chooses among settings, a bit for each.
fn hostile(seed: u64, kind: Kind, ports: u8, lanes: u8, loss: f64, tweak: u8) {
    let scenario = Scenario { seed, kind, ports, ..Scenario::default() };
    let make = |me: usize, boot: u64| {
        let mut config = config(scenario, me, boot);
        config.sender.spray = tunnel::spray::Policy::Pinned;
        config.session.lanes = lanes;
        config.sender.lanes = lanes;
        config.receiver.lanes = lanes;
        if tweak & 1 == 1 {
            config.receiver.waiting_max = 8;
        }
        if tweak & 2 == 2 {
            config.receiver.give_up = Span::from_millis(1);
        }
        if tweak & 4 == 4 {
            config.receiver.window = 40;
        }
        config.receiver.is_paced = tweak & 8 == 8;
        if tweak & 16 == 16 {
            config.session.random = 0;
        }
        if tweak & 32 == 32 {
            config.session.hello_interval = Span::from_micros(300);
            config.session.peer_timeout = Span::from_millis(2);
        }
        Tunnel::new(config)
    };
    let pair = |takes_bursts| Pair {
        has_lanes: false,
        boxes: [make(0, 100), make(1, 100)],
        ports: [0, 1].map(|_| Ports { room: usize::MAX, ..Ports::default() }),
        takes_bursts,
    };
    let mut pairs = [pair(true), pair(false)];
    let mut dice = Dice(seed | 1);
    let mut boot = 100;
    for step in 0..1_800_u64 {
        let now = at(0)
            + Span::from_micros(step * 4_000).min(Span::from_millis(4_000))
            + Span::from_micros(step * 20);
        let is_beginning = now < at(4_000);
        let room = if dice.roll() < 0.05 { (dice.roll() * 20.0) as usize } else { usize::MAX };
        let event = if is_beginning { 1.0 } else { dice.roll() };
        if event < 0.004 {
            boot += 1;
            let me = (dice.roll() * 2.0) as usize;
            for pair in &mut pairs {
                pair.boxes[me] = make(me, boot);
            }
        } else if event < 0.008 {
            let me = (dice.roll() * 2.0) as usize;
            for pair in &mut pairs {
                pair.boxes[me].close(now, &mut pair.ports[me]);
            }
        } else if event < 0.02 && ports > 1 {
            let (me, up, p) = (
                (dice.roll() * 2.0) as usize,
                dice.roll() < 0.5,
                (dice.roll() * f64::from(ports)) as u8,
            );
            for pair in &mut pairs {
                pair.boxes[me].set_link(now, Port::new(p).unwrap(), up, &mut pair.ports[me]);
            }
        }
        for me in [0, 1] {
            let count = if is_beginning { 0 } else { (dice.roll() * (BURST + 1) as f64) as u64 };
            let frames: Vec<_> = (0..count).map(|n| frame(&mut dice, n)).collect();
            for pair in &mut pairs {
                pair.ports[me].room = room;
                pair.lan(me, now, &frames);
            }
        }
        for pair in &mut pairs {
            pair.timers(now);
        }
        let [with, without] = &mut pairs;
        assert!(with.ports == without.ports, "lan step {step}");
        let seeds = [0, 1].map(|_| (dice.roll() * 1e9) as u64);
        let cross = is_beginning || dice.roll() < 0.7;
        for pair in &mut pairs {
            pair.ports.iter_mut().for_each(|ports| (ports.lan.clear(), ports.local.clear()).0);
            if !cross {
                continue;
            }
            for (from, seed) in [0, 1].into_iter().zip(seeds) {
                pair.cross(from, now, |frames| {
                    let mut dice = Dice(seed | 1);
                    frames.retain(|_| is_beginning || dice.roll() >= loss);
                    if is_beginning {
                        return;
                    }
                    for n in 0..frames.len() {
                        let r = dice.roll();
                        if r < loss {
                            let m = (dice.roll() * frames.len() as f64) as usize;
                            frames.swap(n, m);
                        } else if r < loss * 1.5 {
                            let copy = frames[n].clone();
                            frames.push(copy);
                        } else if r < loss * 2.0 {
                            let at = (dice.roll() * 90.0) as usize;
                            let f = &mut frames[n].1;
                            if at < f.len() {
                                f[at] ^= 1 << (dice.roll() * 8.0) as u32;
                            }
                        } else if r < loss * 2.5 && kind == Kind::UdpV6 {
                            frames[n].1[15] |= 0x30;
                        } else if r < loss * 3.0 {
                            let l = (dice.roll() * frames[n].1.len() as f64) as usize;
                            frames[n].1.truncate(l);
                        } else if r < loss * 3.5 && ports > 1 {
                            frames[n].0 =
                                Port::new((dice.roll() * f64::from(ports)) as u8).unwrap();
                        }
                    }
                });
            }
        }
        let [with, without] = &mut pairs;
        assert!(with.ports == without.ports, "wan step {step}");
        for (a, b) in with.boxes.iter().zip(&without.boxes) {
            assert_eq!(a.counts(), b.counts(), "step {step}");
            assert_eq!((a.sent(), a.received()), (b.sent(), b.received()), "step {step}");
            assert_eq!(
                (a.waiting(), a.kept(), a.to_lan(), a.deadline()),
                (b.waiting(), b.kept(), b.to_lan(), b.deadline())
            );
            assert!(a.is_balanced());
            assert!(b.is_balanced());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// R-TUN-6, R-TUN-23: restarts, BYEs, links that go down, damaged and repeated frames, marks, in both directions.
    #[test]
    fn bursts_fare_as_their_frames_would_whatever_happens(
        seed: u64,
        kind in prop::sample::select(vec![Kind::Ethernet, Kind::UdpV4, Kind::UdpV6]),
        ports in 1..=3_u8, more in 0..3_u8,
        loss in prop::sample::select(vec![0.0, 0.002, 0.01, 0.1]),
        tweak: u8,
    ) {
        let lanes = if kind == Kind::Ethernet { ports } else { ports + more };
        hostile(seed, kind, ports, lanes, loss, tweak);
    }
}

/// A REPORT leaves where the lane's newest frame has arrived, be it within a run.
#[test]
fn a_report_leaves_where_the_run_arrived() {
    let scenario = Scenario { ports: 2, ..Scenario::default() };
    let leaves_at = [true, false].map(|takes_bursts| {
        let mut pair = Pair::new(scenario, 1 << 12, takes_bursts);
        for ms in 0..4_000 {
            pair.timers(at(ms));
            pair.cross(0, at(ms), |_| ());
            pair.cross(1, at(ms), |_| ());
        }
        let now = at(4_000);
        for n in 0..8 {
            let frames: Vec<_> = (0..12).map(|flow| stamped(0, flow, n, 100)).collect();
            pair.lan(0, now, &frames);
        }
        let all = core::mem::take(&mut pair.ports[0].wan);
        // Of lane 0, first transmissions.
        let lane: Vec<_> = all.into_iter().filter(|(_, f)| f[14..16] == [0x20, 0]).collect();
        assert!(lane.len() > 6, "{}", lane.len());
        for (n, port) in [(0, 0), (1, 1), (3, 1), (5, 1)] {
            pair.wan(1, now, &[(Port::new(port).expect("a port"), lane[n].1.clone())]);
        }
        pair.ports[1].wan.clear();
        let back = (Port::new(0).expect("a port"), lane[6].1.clone());
        pair.wan(1, now + Span::from_micros(30), &[back]);
        pair.ports[1].wan.iter().map(|(port, _)| port.get()).collect::<Vec<_>>()
    });
    assert_eq!(leaves_at, [[0], [0]]);
}

/// R-TUN-5, R-TUN-6: a damaged shim may name its own frame as the predecessor, or one of a lane that there is not. Either is
/// impossible, and counted, in a run as well.
#[test]
fn an_impossible_predecessor_is_counted_in_a_run() {
    hostile(11_763_719_120_918_334_919, Kind::Ethernet, 2, 2, 0.01, 163);
    hostile(5_724_983_560_867_875_046, Kind::Ethernet, 2, 2, 0.01, 32);
}
