//! Two boxes, a link, hosts, and a virtual clock.

pub mod ends;
pub mod frames;
mod kind;
pub mod lanes;
pub mod noise;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use arrayvec::ArrayVec;
use common::control::Keys;
use common::frame::{Class, Frame, Packet, Pool};
use common::heap::{HeapFrame, HeapPool};
use common::ids::{BootId, NodeId};
use common::time::{Span, Time};
use common::verdict::Tolerance;
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, Encapsulation, Udp, UdpConfig};
use tunnel::session::SessionConfig;
use tunnel::spray::Policy;
use tunnel::{
    Config, Io, Part, Plan, Port, ReceiverConfig, SenderConfig, Tuning, Tunnel, report_interval,
};

pub use self::kind::Kind;
pub use self::noise::Dice;

const DELAY: Span = Span::from_millis(5);
const FLOWS: u64 = 12;
/// The UDP source port of lane 0.
const SOURCE_PORT: u16 = 50_000;

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub kind: Kind,
    /// WAN ports, each with two lanes if there are several.
    pub ports: u8,
    /// The ports are connected in the opposite order at the other box.
    pub is_crossed: bool,
    /// Bytes of the longest frame of each WAN port.
    pub frame_max: u16,
    /// The boxes that send and decode repair frames, and the plan.
    pub protection: ([bool; 2], Option<Plan>),
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 1,
            kind: Kind::Ethernet,
            ports: 1,
            is_crossed: false,
            frame_max: 1_600,
            protection: ([true; 2], None),
        }
    }
}

/// What the link does to a frame.
#[derive(Clone, Copy, Default, Debug)]
pub struct Link {
    pub loss: f64,
    pub repeated: f64,
    /// From box 0, from box 1: nothing arrives.
    pub dead: [bool; 2],
    /// A port of box 0 whose link carries nothing, either way.
    pub dead_port: Option<u8>,
    /// By port of box 0: its link carries frames of so many bytes at most, either way.
    pub longest: [Option<usize>; 8],
    /// A lane over UDP, of either box, whose path carries frames of so many bytes at most.
    pub short_lane: Option<(u8, usize)>,
    /// A box and a lane over UDP: its datagrams do not arrive.
    pub dead_lane: Option<(usize, u8)>,
    /// HELLOs are as of a release that knows no PATHs.
    pub is_old: bool,
    /// From box 0, from box 1: no control message arrives.
    pub silent: [bool; 2],
    /// How long frames wait at a port in which messages of the high class overtake them.
    pub backlog: Span,
}

/// Milliseconds after the start.
pub const fn at(ms: u64) -> Time {
    Time::from_nanos(1_000_000_000 + ms * 1_000_000)
}

/// A frame of `len` bytes from a host at box `from`, number `n` of `flow`: RoCE, TCP or ARP.
pub fn stamped(from: usize, flow: u64, n: u64, len: usize) -> Vec<u8> {
    let me = from as u8 + 1;
    let mut frame = vec![0x02, 0, 0, 0, 0, 3 - me, 0x02, 0, 0, 0, 0, me];
    if flow % 4 == 2 {
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    } else {
        let protocol = if flow % 4 == 1 { 6 } else { 17 };
        frame.extend([8, 0, 0x45, 0xb9, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend([10, 0, 0, me, 10, 0, 0, 3 - me]);
        frame.extend([0xc0, flow as u8, 0x12, 0xb7, 0, 0, 0, 0]);
        frame.extend([4, 0, 0xff, 0xff, 0, 0, 0, flow as u8, 0, 0, 0, 0]);
    }
    frame.resize(len.max(54), 0);
    // At the end: who sent it, flow and number.
    frame.truncate(len);
    if len >= 54 + 17 {
        let end = frame.len();
        frame[end - 17] = me;
        frame[end - 16..end - 8].copy_from_slice(&flow.to_be_bytes());
        frame[end - 8..].copy_from_slice(&n.to_be_bytes());
    }
    frame
}

fn stamp(frame: &[u8]) -> Option<(u8, u64, u64)> {
    let (rest, n) = frame.split_last_chunk()?;
    let (rest, flow) = rest.split_last_chunk()?;
    Some((*rest.last()?, u64::from_be_bytes(*flow), u64::from_be_bytes(*n)))
}

#[derive(Default)]
struct Ports {
    wan: Vec<(Port, Class, Vec<u8>)>,
    lan: Vec<Vec<u8>>,
    local: Vec<Vec<u8>>,
    is_full: bool,
    queue: Span,
}

impl Io for Ports {
    type Frame = HeapFrame;

    fn wait(&mut self, _: Port) -> Option<Span> {
        (!self.is_full).then_some(self.queue)
    }

    fn room(&mut self, _: Port) -> usize {
        if self.is_full { 0 } else { usize::MAX }
    }

    fn wan(&mut self, port: Port, class: Class, packet: Packet<HeapFrame>) {
        self.wan.push((port, class, packet.bytes().to_vec()));
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

pub struct World {
    scenario: Scenario,
    pub boxes: [Tunnel<HeapFrame>; 2],
    boots: u64,
    pub link: Link,
    pub is_full: bool,
    /// How long frames wait at a WAN port, as the box is told.
    pub queue: Span,
    dice: Dice,
    now: Time,
    /// Arrival, order, receiving box.
    way: BinaryHeap<Reverse<(Time, u64)>>,
    frames: BTreeMap<u64, (usize, Port, Vec<u8>)>,
    posted: u64,
    newest: [[[Time; 2]; 8]; 2],
    /// Frames that were put on the link, whether they arrive or not: by whom.
    pub on_link: Vec<(usize, Vec<u8>)>,
    /// Control messages, by receiving box.
    pub messages: Vec<(usize, Vec<u8>)>,
    pub delivered: [Vec<Vec<u8>>; 2],
    pub local: Vec<(usize, Vec<u8>)>,
    sent: [u64; 2],
    next: BTreeMap<(usize, u64), u64>,
}

pub fn config(scenario: Scenario, me: usize, boot: u64) -> Config {
    let rtt = DELAY * 2;
    let mac = |n: usize| [2, 0, 0, 0, 9, n as u8];
    let udp = |src: core::net::IpAddr, dst: core::net::IpAddr| {
        let mut udp = Encapsulation::Udp(Udp::new(&UdpConfig {
            mac: mac(me),
            address: src,
            peer: dst,
            port: 4_792,
            source_ports: (SOURCE_PORT..SOURCE_PORT + 16).collect(),
            dscp: None,
            vlan: None,
        }));
        udp.set_next_hop(Some(mac(7)));
        udp
    };
    let lanes = if scenario.ports > 1 { 2 * scenario.ports } else { 1 };
    let (own, other) = (me as u8 + 1, 2 - me as u8);
    let encapsulation = match scenario.kind {
        Kind::Ethernet => Encapsulation::Ethernet { ethertype: DEFAULT_ETHERTYPE, mac: mac(me) },
        Kind::UdpV4 => udp([192, 0, 2, own].into(), [192, 0, 2, other].into()),
        Kind::UdpV6 => {
            let v6 = |n: u8| [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(n)].into();
            udp(v6(own), v6(other))
        }
    };
    Config {
        session: SessionConfig {
            node: NodeId(me as u32 + 1),
            boot: BootId(boot),
            random: scenario.seed.wrapping_mul(0x9e37_79b9) ^ boot << 8 ^ me as u64,
            part: Part::WHOLE,
            lanes,
            ports: scenario.ports,
            frame_max: scenario.frame_max,
            overhead: encapsulation.shim_at() as u16,
            lans: Default::default(),
            hello_interval: Span::from_millis(1_000),
            peer_timeout: Span::from_millis(3_000),
        },
        ports: vec![encapsulation; scenario.ports.into()],
        sender: SenderConfig {
            lanes,
            rtt,
            cache_max: 1 << 16,
            give_up: Span::from_millis(400),
            ports: scenario.ports,
            spray: Policy::default(),
            resend_copies: 2,
        },
        receiver: ReceiverConfig {
            lanes,
            window: 1 << 16,
            waiting_max: 1 << 12,
            waiting_room: 1 << 12,
            give_up: Span::from_millis(400),
            report_interval: report_interval(rtt),
            tolerance: Tolerance::default(),
            report_at_once: Span::from_micros(20),
            is_paced: true,
        },
        keys: Keys::from_secret(b"of the pair"),
        records: 0,
    }
}

fn end(scenario: Scenario, me: usize, boot: u64) -> Tunnel<HeapFrame> {
    let mut end = Tunnel::new(config(scenario, me, boot));
    let (has, plan) = scenario.protection;
    if let Some(plan) = plan.filter(|_| has[me]) {
        end.protect_lanes(plan);
    }
    end
}

impl World {
    pub fn new(scenario: Scenario) -> Self {
        let make = |me| end(scenario, me, 100);
        Self {
            boxes: [make(0), make(1)],
            boots: 100,
            link: Link::default(),
            is_full: false,
            queue: Span::ZERO,
            dice: Dice(scenario.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: at(0),
            way: BinaryHeap::new(),
            frames: BTreeMap::new(),
            posted: 0,
            newest: [[[Time::ZERO; 2]; 8]; 2],
            on_link: Vec::new(),
            messages: Vec::new(),
            delivered: Default::default(),
            local: Vec::new(),
            sent: [0; 2],
            next: BTreeMap::new(),
            scenario,
        }
    }

    pub fn now(&self) -> Time {
        self.now
    }

    pub fn is_up(&self, me: usize) -> bool {
        self.boxes[me].session().up().is_some()
    }

    /// Box `me` starts anew; what it held is lost.
    pub fn restart(&mut self, me: usize) {
        self.boots += 1;
        self.boxes[me] = end(self.scenario, me, self.boots);
    }

    pub fn close(&mut self, me: usize) {
        self.work(me, |tunnel, now, ports| tunnel.close(now, ports));
    }

    /// A box chooses lanes by `policy` from now on.
    pub fn spray(&mut self, me: usize, policy: Policy) {
        let Config { sender, receiver, .. } = self.boxes[me].config();
        let tuning = Tuning { spray: policy, ..Tuning::of(sender, receiver) };
        self.boxes[me].retune(self.now, &tuning);
    }

    /// Both boxes agree, and know the path.
    pub fn settle(&mut self) {
        self.pass(Span::from_millis(4_000));
        let now = self.now;
        assert!(self.boxes.iter().all(|end| end.peer(now).is_some()));
    }

    /// Each side's hosts send so many frames, one in some 30 us.
    pub fn talk(&mut self, frames: u64) {
        for _ in 0..frames {
            for from in 0..2 {
                let flow = (self.dice.roll() * FLOWS as f64) as u64;
                let next = self.next.entry((from, flow)).or_default();
                let n = *next;
                *next += 1;
                self.sent[from] += 1;
                let len = 80 + (self.dice.roll() * 1_400.0) as usize;
                self.lan_frame(from, stamped(from, flow, n, len));
            }
            let pause = Span::from_nanos((self.dice.roll() * 60_000.0) as u64);
            self.pass(pause);
        }
    }

    /// Nobody sends until all is repaired.
    pub fn rest(&mut self) {
        self.pass(Span::from_millis(700));
        assert!(self.boxes.iter().all(|end| end.waiting() == 0));
    }

    /// What was sent and delivered so far counts no more.
    pub fn forget(&mut self) {
        self.delivered = Default::default();
        self.sent = [0; 2];
        self.next.clear();
    }

    pub fn lan_frame(&mut self, me: usize, bytes: Vec<u8>) {
        self.work(me, |tunnel, now, ports| tunnel.on_lan(now, bytes.into(), ports));
    }

    pub fn wan_frame(&mut self, me: usize, bytes: Vec<u8>) {
        self.wan_frame_at(me, Port::default(), bytes);
    }

    fn wan_frame_at(&mut self, me: usize, port: Port, bytes: Vec<u8>) {
        self.work(me, |tunnel, now, ports| tunnel.on_wan(now, port, bytes.into(), ports));
    }

    /// The link of a port of box `me` is seen to be up or down.
    pub fn set_link(&mut self, me: usize, port: u8, is_up: bool) {
        let port = Port::new(port).expect("a port");
        self.work(me, |tunnel, now, ports| tunnel.set_link(now, port, is_up, ports));
    }

    /// A frame from box `me` as it stands on the link, which does not arrive.
    pub fn wrapped(&mut self, me: usize, n: u64) -> Vec<u8> {
        let dead = core::mem::replace(&mut self.link.dead, [true; 2]);
        self.lan_frame(me, stamped(me, 3, n, 100));
        self.link.dead = dead;
        self.on_link.pop().expect("it is sent").1
    }

    fn work(&mut self, me: usize, act: impl FnOnce(&mut Tunnel<HeapFrame>, Time, &mut Ports)) {
        let mut ports = Ports { is_full: self.is_full, queue: self.queue, ..Ports::default() };
        act(&mut self.boxes[me], self.now, &mut ports);
        let tunnel = &self.boxes[me];
        assert!(
            tunnel.is_balanced(),
            "{:?} {:?} {:?}",
            tunnel.counts(),
            tunnel.sent(),
            tunnel.received()
        );
        self.delivered[me].extend(ports.lan);
        self.local.extend(ports.local.into_iter().map(|frame| (me, frame)));
        for (port, class, frame) in ports.wan {
            self.post(me, port, class, frame);
        }
    }

    fn post(&mut self, from: usize, port: Port, class: Class, mut frame: Vec<u8>) {
        let _ = self.link.is_old.then(|| frames::make_old(self.scenario.kind, &mut frame));
        let shim = frame.get(self.scenario.kind.shim_at()).copied();
        let is_message = shim == Some(0x23);
        if is_message {
            self.messages.push((1 - from, frame.clone()));
        }
        self.on_link.push((from, frame.clone()));
        let other = self.other_port(port);
        let port_of_0 = if from == 0 { port } else { other };
        let lane = frames::source_port(&frame).map(|source| (from, (source - SOURCE_PORT) as u8));
        let is_dead = self.link.dead[from]
            || self.link.dead_port == Some(port_of_0.get())
            || self.link.longest[usize::from(port_of_0.get())]
                .is_some_and(|most| frame.len() > most)
            || self.link.short_lane.is_some_and(|(short, most)| {
                lane.is_some_and(|(_, lane)| lane == short) && frame.len() > most
            })
            || lane.is_some() && lane == self.link.dead_lane
            || is_message && self.link.silent[from];
        if is_dead || self.dice.roll() < self.link.loss {
            return;
        }
        let delay = DELAY + Span::from_millis(port_of_0.get().into());
        let backlog = if class == Class::High { Span::ZERO } else { self.link.backlog };
        let newest = &mut self.newest[from][usize::from(port.get())];
        // Without a queue, all leave in one order.
        let newest = if backlog == Span::ZERO { &mut newest[0] } else { &mut newest[1] };
        *newest = (self.now + delay + backlog).max(*newest + Span::from_nanos(1));
        let newest = *newest;
        let again = self.dice.roll() < self.link.repeated;
        let late = newest + Span::from_micros((self.dice.roll() * 20_000.0) as u64);
        for when in [Some(newest), again.then_some(late)].into_iter().flatten() {
            self.posted += 1;
            self.way.push(Reverse((when, self.posted)));
            self.frames.insert(self.posted, (1 - from, other, frame.clone()));
        }
    }

    /// The other end of a port's link.
    fn other_port(&self, port: Port) -> Port {
        let last = self.scenario.ports - 1;
        let other = if self.scenario.is_crossed { last - port.get() } else { port.get() };
        Port::new(other).expect("a port")
    }

    /// Time passes.
    pub fn pass(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let arrival = self.way.peek().map_or(Time::NEVER, |Reverse((when, _))| *when);
            let due: [Time; 2] = [0, 1].map(|me: usize| self.boxes[me].deadline());
            let next = arrival.min(due[0]).min(due[1]);
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            if next == arrival {
                let Some(Reverse((_, post))) = self.way.pop() else { break };
                let Some((to, port, frame)) = self.frames.remove(&post) else { continue };
                self.wan_frame_at(to, port, frame);
            } else {
                let me = usize::from(due[1] < due[0]);
                self.work(me, |tunnel, now, ports| tunnel.on_timer(now, ports));
                let next = self.boxes[me].deadline();
                assert!(next > self.now, "a timer stays due: {next:?} at {:?}", self.now);
            }
        }
        self.now = end;
    }

    /// Every frame came once, and each flow in order.
    pub fn assert_lossless(&self) {
        for from in 0..2 {
            assert_eq!(
                self.delivered[1 - from].len() as u64,
                self.sent[from],
                "{:?}",
                self.boxes[1 - from].received()
            );
        }
        self.assert_lossless_as_far_as_in_order();
    }

    /// Each flow came in order.
    pub fn assert_lossless_as_far_as_in_order(&self) {
        for (to, delivered) in self.delivered.iter().enumerate() {
            let mut next = BTreeMap::new();
            for frame in delivered {
                let (by, flow, n) = stamp(frame).expect("a frame of a host");
                assert_eq!(usize::from(by), 2 - to, "it goes to the other side");
                let next = next.entry(flow).or_insert(0);
                assert!(n >= *next, "flow {flow}: {n} after {next}");
                *next = n + 1;
            }
        }
    }

    /// No frame came twice.
    pub fn assert_nothing_doubled(&self) {
        for delivered in &self.delivered {
            let mut all: Vec<_> = delivered.iter().filter_map(|frame| stamp(frame)).collect();
            all.sort_unstable();
            let count = all.len();
            all.dedup();
            assert_eq!(all.len(), count, "a frame came twice");
        }
    }
}
