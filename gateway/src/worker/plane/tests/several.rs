//! Boxes with several workers and tunnels, on fake ports: no frame is lost, doubled or overtaken by another one of its
//! flow, whatever the numbers of workers at both ends. R-TUN-44

mod ending;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use common::control::{BootId, NodeId};
use common::heap::{HeapFrame, HeapPool};
use common::wire::{BUCKETS, MacAddr, Spread, rss_bucket_of_udp};
use tunnel::encapsulation::{DEFAULT_PORT, Encapsulation, Udp, UdpConfig, source_ports};
use tunnel::{Division, Part};

use super::super::*;
use super::config;
use crate::config::Idle;
use crate::telemetry::{LaneIo, PortIo, Published, TunnelIo};
use crate::worker::capture;
use crate::worker::events;
use crate::worker::fake::{FakeClock, FakeRx, FakeTx};
use crate::worker::idle::Idler;
use crate::worker::io::Now;
use crate::worker::station::{self, ControlEnd};
use crate::worker::{HOUSEKEEPING, Parts, Unfinished, Worker, handoff};

const STEP: Span = Span::from_micros(20);
/// Steps that a frame is on its way.
const DELAY: u64 = 20;
const ADDRESSES: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];
const NEXT_HOP: MacAddr = [2, 0, 0, 0, 9, 9];
const FLOWS: u32 = 24;

#[derive(Clone, Copy, Debug)]
struct Scene {
    seed: u64,
    workers: [u16; 2],
    division: Division,
    is_udp: bool,
    /// The LAN ports' NICs spread frames over queues.
    has_lan_queues: bool,
    repairs_lan: bool,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % n
    }
}

struct One {
    rx: [FakeRx; 2],
    tx: [FakeTx; 2],
    published: Arc<Published>,
    worker: Worker<FakeRx, FakeTx, HeapPool, FakeClock>,
}

struct Gateway {
    workers: Vec<One>,
    control: Option<ControlEnd>,
}

fn encapsulation(scene: &Scene, me: usize, part: Part) -> Encapsulation {
    if !scene.is_udp {
        return config(me as u8 + 1).ports[0].clone();
    }
    let [address, peer] = [ADDRESSES[me], ADDRESSES[1 - me]].map(Into::into);
    Encapsulation::Udp(Udp::new(&UdpConfig {
        mac: [2, 0, 0, 0, 0, me as u8],
        address,
        peer,
        port: DEFAULT_PORT,
        source_ports: source_ports(part, address, peer, DEFAULT_PORT, 1),
        dscp: None,
        vlan: None,
    }))
}

fn end(scene: &Scene, me: usize, boot: u64, part: Part) -> tunnel::Config {
    let mut config = config(me as u8 + 1);
    let encapsulation = encapsulation(scene, me, part);
    config.session.boot = BootId(boot);
    config.session.random = scene.seed ^ boot << 8 ^ u64::from(part.index()) << 1 ^ me as u64;
    config.session.part = part;
    config.session.overhead = encapsulation.shim_at() as u16;
    config.ports = vec![encapsulation];
    config
}

impl Gateway {
    fn new(scene: &Scene, me: usize, boot: u64, clock: &FakeClock) -> Self {
        let count = scene.workers[me];
        let owners =
            || Owners::Tunnels(scene.division, vec![encapsulation(scene, me, Part::WHOLE)]);
        let (mut ends, control) = station::join(count);
        let handoffs = handoff::mesh(count, 2, &owners());
        let unfinished = Unfinished::new(count);
        let one = |(n, handoff)| {
            let (rx, tx) = (<[FakeRx; 2]>::default(), <[FakeTx; 2]>::default());
            let parts: Vec<_> = scene.division.parts().skip(n).step_by(count.into()).collect();
            let published = Arc::new(Published::new(parts.len(), 1));
            let lan = |part: &Part| {
                let node = NodeId(100 * me as u32 + u32::from(part.index()) + 1);
                let lan = switch::Config::lab(switch::Recovery::Lr2, node.0, boot);
                scene.repairs_lan.then_some((lan, Which::All))
            };
            let ends_of_tunnels: Vec<_> =
                parts.iter().map(|part| (end(scene, me, boot, *part), lan(part))).collect();
            let stations = scene.is_udp.then(|| ends.remove(0)).into_iter().collect();
            let plane =
                Plane::tunnels(ends_of_tunnels, (owners(), count), stations, Links::default());
            let worker = Worker::new(Parts {
                rx: rx.clone().map(Some).into(),
                handoff,
                egress: Egress::new(tx[0].clone(), vec![tx[1].clone()], 10_000, capture::pair().0),
                plane,
                pool: HeapPool,
                clock: clock.clone(),
                idle: Idler::new(Idle::Busy, count),
                stop: Arc::default(),
                unfinished: unfinished.clone(),
                drain_timeout: Span::from_millis(50),
                published: Arc::clone(&published),
                events: events::pair().0.of_tunnels(parts.into_iter(), 1),
                settings: rtrb::RingBuffer::new(1).1,
                flows: crate::worker::listing::pair().0,
                records: crate::worker::listing::pair().0,
            });
            One { rx, tx, published, worker }
        };
        let workers = handoffs.into_iter().enumerate().map(one).collect();
        let mut control = scene.is_udp.then_some(control);
        assert!(control.iter_mut().all(|control| control.tell(Some(NEXT_HOP))));
        Self { workers, control }
    }

    /// The sum of a counter of all tunnels.
    fn sum(&self, what: TunnelIo) -> u64 {
        let tunnels = self.workers.iter().flat_map(|one| one.published.tunnels());
        tunnels.map(|tunnel| tunnel.get(what)).sum()
    }

    /// The sum of a counter of all lanes.
    fn lanes(&self, what: LaneIo) -> u64 {
        let tunnels = self.workers.iter().flat_map(|one| one.published.tunnels());
        tunnels.flat_map(|tunnel| tunnel.lanes()).map(|lane| lane.get(what)).sum()
    }

    fn port(&self, side: Side, what: PortIo) -> u64 {
        self.workers.iter().map(|one| one.published.io().port(side.into(), what)).sum()
    }

    fn is_balanced(&self) -> bool {
        let paths = self.workers.iter().flat_map(|one| &one.worker.parts.plane.paths);
        paths.filter_map(Datapath::as_tunnel).all(Tunnelled::is_balanced)
    }
}

/// A frame of a flow, from the hosts of box `me` to those of the other one.
fn frame(me: usize, flow: u32, n: u32) -> Vec<u8> {
    let mut frame = vec![0; 80];
    let pair = flow as u8 % 11;
    let hosts = [[10, 1, 0, pair], [10, 2, pair * 5, pair * 3]];
    if flow % 5 == 4 {
        // Not IP.
        let (source, ethertype) = ([2, 0, 0, 0, me as u8, flow as u8], 0x88cc_u16);
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 7, 7]);
        frame[6..12].copy_from_slice(&source);
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    } else {
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 7, 7, 2, 0, 0, 0, 8, 8]);
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[16..18].copy_from_slice(&66_u16.to_be_bytes());
        (frame[22], frame[23]) = (64, 17);
        frame[26..30].copy_from_slice(&hosts[me]);
        frame[30..34].copy_from_slice(&hosts[1 - me]);
        // Some are RoCE, which the repair of the LANs looks at: UD SEND, to queue pair `flow`.
        let port: u16 = if flow % 5 == 3 { 4791 } else { 7 };
        frame[34..36].copy_from_slice(&(5000 + flow as u16).to_be_bytes());
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame[38..40].copy_from_slice(&46_u16.to_be_bytes());
        (frame[42], frame[49]) = (0x0a, flow as u8);
    }
    frame[66..68].copy_from_slice(&[me as u8, flow as u8]);
    frame[68..72].copy_from_slice(&n.to_be_bytes());
    frame
}

/// Sender, flow and number of a frame.
fn read(frame: &[u8]) -> ((u8, u8), u32) {
    let n = u32::from_be_bytes([frame[68], frame[69], frame[70], frame[71]]);
    ((frame[66], frame[67]), n)
}

struct World {
    scene: Scene,
    random: Random,
    clock: FakeClock,
    boots: u64,
    gateways: [Gateway; 2],
    /// Frames on their way to each box, with the step of their arrival.
    wire: [VecDeque<(u64, Vec<u8>)>; 2],
    steps: u64,
    /// One frame in so many is lost; 0: none.
    loses_one_in: u64,
    /// Workers of boxes that do nothing.
    stand: Vec<(usize, usize)>,
    sent: BTreeMap<(u8, u8), u32>,
    /// The next number of each flow at its destination, and frames that came.
    next: BTreeMap<(u8, u8), u32>,
    came: u64,
}

impl World {
    fn new(scene: Scene) -> Self {
        let clock = FakeClock::default();
        clock.advance(Span::from_millis(1));
        let gateways = [0, 1].map(|me| Gateway::new(&scene, me, 1, &clock));
        Self {
            scene,
            random: Random(scene.seed),
            clock,
            boots: 1,
            gateways,
            wire: Default::default(),
            steps: 0,
            loses_one_in: 0,
            stand: Vec::new(),
            sent: BTreeMap::new(),
            next: BTreeMap::new(),
            came: 0,
        }
    }

    /// The worker whose receive queue gets a frame.
    fn queue(&self, me: usize, side: Side, frame: &[u8]) -> usize {
        let workers = usize::from(self.scene.workers[me]);
        match side {
            Side::Lan if self.scene.has_lan_queues => Spread::Rss.bucket(frame) % workers,
            Side::Lan => 0,
            // Datagrams by their ports.
            Side::Wan if self.scene.is_udp && frame[12..14] == [0x08, 0x00] => {
                let port = u16::from_be_bytes([frame[34], frame[35]]);
                let [from, to] = [ADDRESSES[1 - me], ADDRESSES[me]].map(Into::into);
                rss_bucket_of_udp((from, port), (to, DEFAULT_PORT)) % BUCKETS % workers
            }
            Side::Wan if self.scene.is_udp => 0,
            Side::Wan => 1 % workers,
        }
    }

    fn send(&mut self, me: usize) {
        let flow = self.random.below(FLOWS.into()) as u32;
        let n = self.sent.entry((me as u8, flow as u8)).or_default();
        let frame = frame(me, flow, *n);
        *n += 1;
        let queue = self.queue(me, Side::Lan, &frame);
        self.gateways[me].workers[queue].rx[0].arrive(frame);
    }

    fn step(&mut self, sends: u64) {
        self.steps += 1;
        self.clock.advance(STEP);
        let now = self.clock.now();
        for me in 0..2 {
            for _ in 0..self.random.below(sends + 1) {
                self.send(me);
            }
            while self.wire[me].front().is_some_and(|(at, _)| *at <= self.steps) {
                let (_, frame) = self.wire[me].pop_front().expect("there is one");
                let queue = self.queue(me, Side::Wan, &frame);
                self.gateways[me].workers[queue].rx[1].arrive(frame);
            }
            let count = self.gateways[me].workers.len() as u64;
            let first = self.random.below(count);
            for n in 0..count {
                let n = ((first + n) % count) as usize;
                // Workers are not equally fast.
                if self.random.below(4) > 0 && !self.stand.contains(&(me, n)) {
                    let one = &mut self.gateways[me].workers[n];
                    one.worker.round(&mut ArrayVec::<HeapFrame, 32>::new(), now);
                }
                self.collect(me, n);
            }
            assert!(self.gateways[me].is_balanced(), "{:?}", self.scene);
        }
    }

    /// Takes what a worker has sent.
    fn collect(&mut self, me: usize, worker: usize) {
        let [to_lan, to_wan] = self.gateways[me].workers[worker].tx.each_ref().map(FakeTx::drain);
        for frame in to_lan {
            let (flow, n) = read(&frame);
            let next = self.next.entry(flow).or_default();
            assert!(
                n >= *next,
                "flow {flow:?}: {n} comes again or late, next {next}: {:?}",
                self.scene
            );
            *next = n + 1;
            self.came += 1;
        }
        for frame in to_wan {
            let is_lost = self.loses_one_in > 0 && self.random.below(self.loses_one_in) == 0;
            if !is_lost {
                self.wire[1 - me].push_back((self.steps + DELAY, frame));
            }
        }
    }

    fn pass(&mut self, span: Span, sends: u64) {
        for _ in 0..span.as_nanos() / STEP.as_nanos() {
            self.step(sends);
        }
    }

    fn restart(&mut self, me: usize, workers: u16) {
        self.boots += 1;
        self.scene.workers[me] = workers;
        self.gateways[me] = Gateway::new(&self.scene, me, self.boots, &self.clock);
    }

    fn sent(&self) -> u64 {
        self.sent.values().map(|n| u64::from(*n)).sum()
    }

    fn are_up(&self) -> bool {
        let all = 2 * u64::from(self.scene.division.tunnels());
        self.gateways.iter().map(|gateway| gateway.sum(TunnelIo::Up)).sum::<u64>() == all
    }

    /// Each frame from a port went to one tunnel.
    fn check_handoff(&self) {
        for gateway in &self.gateways {
            for (side, from) in [(Side::Lan, TunnelIo::FromLan), (Side::Wan, TunnelIo::FromWan)] {
                let lost = gateway.port(side, PortIo::DropHandoff);
                assert_eq!(lost, 0, "{:?}", self.scene);
                if side == Side::Wan || !self.scene.repairs_lan {
                    let received = gateway.port(side, PortIo::RxFrames);
                    assert_eq!(received, gateway.sum(from), "{side:?} {:?}", self.scene);
                }
            }
        }
    }
}

fn scenes(is_udp: bool) -> impl Iterator<Item = Scene> {
    let counts = [1_u16, 2, 4];
    let both = counts.into_iter().flat_map(move |a| counts.map(|b| [a, b]));
    both.enumerate().map(move |(n, workers)| {
        let spread = if n % 2 == 0 { Spread::Rss } else { Spread::Mixed };
        Scene {
            seed: 77 + n as u64,
            workers,
            division: Division::new(4, spread).expect("a power of two"),
            is_udp,
            has_lan_queues: n % 3 != 0,
            repairs_lan: n % 4 == 1,
        }
    })
}

fn every_frame_arrives_once_and_in_order(scene: Scene) {
    let mut world = World::new(scene);
    if scene.is_udp {
        // Without a session nothing crosses.
        world.pass(Span::from_millis(30), 0);
    } else {
        // Sessions begin while frames cross as they came.
        world.pass(Span::from_millis(30), 3);
    }
    assert!(world.are_up(), "{scene:?}");
    world.loses_one_in = 30;
    world.pass(Span::from_millis(40), 3);
    world.loses_one_in = 0;
    world.pass(Span::from_millis(30), 0);
    assert_eq!((world.came, world.sent() > 5_000), (world.sent(), true), "{scene:?}");
    world.check_handoff();
    let resent: Vec<_> = world.gateways.iter().map(|it| it.sum(TunnelIo::Kept)).collect();
    assert_eq!(resent, [0, 0], "all is reported: {scene:?}");
    // The lanes of each tunnel go to the worker that has it.
    if scene.is_udp {
        for gateway in &world.gateways {
            assert_eq!(gateway.port(Side::Wan, PortIo::Handoff), 0, "{scene:?}");
        }
    }
}

/// R-TUN-44
#[test]
fn with_any_numbers_of_workers_every_frame_arrives_once_and_in_order() {
    scenes(false).for_each(every_frame_arrives_once_and_in_order);
}

/// R-TUN-44
#[test]
fn over_udp_with_any_numbers_of_workers_every_frame_arrives_once_and_in_order() {
    scenes(true).for_each(every_frame_arrives_once_and_in_order);
}

/// R-TUN-44: an end that is killed comes back with another number of workers.
#[test]
fn a_box_that_restarts_with_another_number_of_workers_doubles_and_overtakes_nothing() {
    for scene in scenes(false).chain(scenes(true)).step_by(2) {
        let mut world = World::new(scene);
        world.pass(Span::from_millis(30), 2);
        for (me, workers) in [(0, 2), (1, 4), (0, 1)] {
            world.loses_one_in = 50;
            world.pass(Span::from_millis(10), 2);
            world.restart(me, workers);
            world.pass(Span::from_millis(150), 2);
            assert!(world.are_up(), "{scene:?}");
        }
        world.loses_one_in = 0;
        world.pass(Span::from_millis(60), 0);
        let (before, came) = (world.sent(), world.came);
        world.pass(Span::from_millis(10), 2);
        world.pass(Span::from_millis(30), 0);
        assert_eq!(world.came - came, world.sent() - before, "{scene:?}");
    }
}

/// R-TUN-44
#[test]
fn frames_that_find_no_room_on_the_way_to_their_worker_are_resent() {
    let mut scene = scenes(false).last().expect("four workers");
    scene.has_lan_queues = true;
    scene.division = Division::new(4, Spread::Rss).expect("a power of two");
    let mut world = World::new(scene);
    world.pass(Span::from_millis(30), 3);
    assert!(world.are_up());
    // Its peers send for a while to a worker that does nothing.
    world.stand.push((1, 2));
    world.pass(Span::from_millis(30), 9);
    world.stand.clear();
    world.pass(Span::from_millis(60), 0);
    let dropped = world.gateways[1].port(Side::Wan, PortIo::DropHandoff);
    assert!(dropped > 100, "{dropped}");
    // Those beyond the share of retransmissions are not.
    let skipped = LaneIo::SKIPPED.map(|why| world.gateways[0].lanes(why)).iter().sum::<u64>();
    assert_eq!(world.came + skipped, world.sent());
    assert!(skipped < dropped / 2, "{skipped} of {dropped}");
    assert!(world.are_up());
}

/// R-TUN-45: frames for the box itself reach its main thread from every worker, and its frames leave.
#[test]
fn every_worker_has_a_way_to_the_station() {
    let scene = scenes(true).last().expect("four workers");
    let mut world = World::new(scene);
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let gateway = &mut world.gateways[0];
    for (n, one) in gateway.workers.iter().enumerate() {
        arp[59] = n as u8;
        one.rx[1].arrive(arp.clone());
    }
    let control = gateway.control.as_mut().expect("a station");
    assert!(control.send(arp[..].try_into().expect("it is short")));
    world.pass(HOUSEKEEPING * 4, 0);
    let gateway = &mut world.gateways[0];
    let control = gateway.control.as_mut().expect("a station");
    let mut seen: Vec<_> = std::iter::from_fn(|| control.frame()).map(|frame| frame[59]).collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3]);
    let local: Vec<_> = world.gateways.iter().map(|it| it.sum(TunnelIo::Local)).collect();
    assert_eq!(local, [4, 1]);
}
