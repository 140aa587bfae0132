//! Two workers with a tunnel between them.

mod retune;
mod several;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use common::control::{BootId, Keys, NodeId};
use common::heap::HeapPool;
use common::time::Span;
use common::verdict::Tolerance;
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, Encapsulation};
use tunnel::session::SessionConfig;
use tunnel::spray::Policy;
use tunnel::{Division, Part, ReceiverConfig, SenderConfig};

use super::*;
use crate::config::Idle;
use crate::event::What;
use crate::telemetry::{LaneIo, Published, TunnelIo};
use crate::worker::capture;
use crate::worker::fake::{FakeClock, FakeRx, FakeTx};
use crate::worker::idle::Idler;
use crate::worker::links::Links;
use crate::worker::{Ended, HOUSEKEEPING, Parts, Unfinished, Worker, events, handoff};

/// One way of the link, which takes no time.
const STEP: Span = Span::from_micros(50);

fn config(me: u8) -> tunnel::Config {
    let ms = Span::from_millis;
    tunnel::Config {
        session: SessionConfig {
            node: NodeId(me.into()),
            boot: BootId(7),
            random: me.into(),
            part: Part::WHOLE,
            lanes: 1,
            ports: 1,
            frame_max: 2_000,
            overhead: 14,
            lans: Default::default(),
            hello_interval: ms(10),
            peer_timeout: ms(100),
        },
        ports: vec![Encapsulation::Ethernet {
            ethertype: DEFAULT_ETHERTYPE,
            mac: [2, 0, 0, 0, 0, me],
        }],
        sender: SenderConfig {
            lanes: 1,
            rtt: ms(1),
            cache_max: 1_000,
            give_up: ms(50),
            ports: 1,
            spray: Policy::default(),
            resend_copies: 2,
        },
        receiver: ReceiverConfig {
            lanes: 1,
            window: 1 << 16,
            waiting_max: 1_000,
            waiting_room: 1_000,
            give_up: ms(50),
            report_interval: Span::from_micros(100),
            tolerance: Tolerance::default(),
            report_at_once: Span::from_micros(20),
            is_paced: true,
        },
        keys: Keys::from_secret(b"both"),
        records: 0,
    }
}

/// A plane with one tunnel, which no other worker shares.
fn one(config: tunnel::Config, stations: Vec<WorkerEnd>) -> Plane<common::heap::HeapFrame> {
    let owners = Owners::Tunnels(Division::NONE, config.ports.clone());
    Plane::tunnels([(config, None)], (owners, 1), stations, Links::default())
}

struct Gateway {
    rx: [FakeRx; 2],
    tx: [FakeTx; 2],
    published: Arc<Published>,
    events: events::ControlEnd,
    set: rtrb::Producer<Change>,
    worker: Worker<FakeRx, FakeTx, HeapPool, FakeClock>,
    frames: ArrayVec<common::heap::HeapFrame, 32>,
    /// Frames on the WAN that the other one has had, or that were lost.
    crossed: usize,
}

fn gateway(me: u8, clock: &FakeClock) -> Gateway {
    let (rx, tx) = (<[FakeRx; 2]>::default(), <[FakeTx; 2]>::default());
    let published = Arc::new(Published::new(1, 1));
    let (watch, events) = events::pair();
    let (set, settings) = rtrb::RingBuffer::new(1);
    let worker = Worker::new(Parts {
        rx: rx.clone().map(Some).into(),
        handoff: handoff::mesh(1, 2, &Owners::Pairs(common::wire::Spread::Rss)).remove(0),
        egress: Egress::new(tx[0].clone(), vec![tx[1].clone()], 1_000, capture::pair().0),
        plane: one(config(me), Vec::new()),
        pool: HeapPool,
        clock: clock.clone(),
        idle: Idler::new(Idle::Busy, 1),
        stop: Arc::default(),
        unfinished: Unfinished::new(1),
        drain_timeout: Span::from_millis(50),
        published: Arc::clone(&published),
        events: watch.of_tunnels(Division::NONE.parts(), 1),
        settings,
        flows: crate::worker::listing::pair().0,
        records: crate::worker::listing::pair().0,
    });
    Gateway { rx, tx, published, events, set, worker, frames: ArrayVec::new(), crossed: 0 }
}

struct Link {
    clock: FakeClock,
    boxes: [Gateway; 2],
    /// One frame in so many is lost; 0: none.
    lose_one_in: usize,
    /// One data frame of the first box in so many arrives a step late; 0: none.
    delay_one_in: usize,
    delayed: Option<Vec<u8>>,
}

impl Link {
    fn new() -> Self {
        let clock = FakeClock::default();
        let boxes = [gateway(1, &clock), gateway(2, &clock)];
        Self { clock, boxes, lose_one_in: 0, delay_one_in: 0, delayed: None }
    }

    fn step(&mut self) {
        self.clock.advance(STEP);
        for me in 0..2 {
            let now = crate::worker::io::Now::now(&self.clock);
            let Gateway { worker, frames, .. } = &mut self.boxes[me];
            worker.round(frames, now);
            let sent = self.boxes[me].tx[1].taken();
            for frame in &sent[self.boxes[me].crossed..] {
                self.boxes[me].crossed += 1;
                let n = self.boxes[me].crossed;
                if me == 0 && frame.len() > 200 && n.is_multiple_of(self.delay_one_in) {
                    self.delayed = Some(frame.clone());
                } else if !n.is_multiple_of(self.lose_one_in) {
                    self.boxes[1 - me].rx[1].arrive(frame.clone());
                }
            }
            if me == 0
                && self.boxes[0].crossed.is_multiple_of(3)
                && let Some(late) = self.delayed.take()
            {
                self.boxes[1].rx[1].arrive(late);
            }
        }
    }

    fn pass(&mut self, span: Span) {
        for _ in 0..span.as_nanos() / STEP.as_nanos() {
            self.step();
        }
    }

    fn tunnel(&self, me: usize, what: TunnelIo) -> u64 {
        self.boxes[me].published.tunnels()[0].get(what)
    }

    /// The events of a box since the last call.
    fn events(&mut self, me: usize) -> Vec<What> {
        let end = &mut self.boxes[me].events;
        std::iter::from_fn(|| end.event()).map(|event| event.what).collect()
    }

    fn lane(&self, me: usize, what: LaneIo) -> u64 {
        self.boxes[me].published.tunnels()[0].lanes()[0].get(what)
    }
}

fn frame(n: u32) -> Vec<u8> {
    let mut frame = vec![2; 200];
    frame[12..14].copy_from_slice(&[0x08, 0x06]);
    frame[196..].copy_from_slice(&n.to_be_bytes());
    frame
}

#[test]
fn frames_cross_plain_until_there_is_a_session_and_none_is_lost_after() {
    let mut link = Link::new();
    link.boxes[0].rx[0].arrive(frame(0));
    link.step();
    link.step();
    assert_eq!(link.boxes[1].tx[0].taken(), [frame(0)], "before any HELLO was answered");
    link.pass(Span::from_millis(200));
    assert_eq!([0, 1].map(|me| link.tunnel(me, TunnelIo::Up)), [1, 1]);

    link.lose_one_in = 7;
    let sent: Vec<_> = (1..2_000).map(frame).collect();
    for frame in &sent {
        link.boxes[0].rx[0].arrive(frame.clone());
        link.boxes[1].rx[0].arrive(frame.clone());
        link.step();
    }
    link.pass(Span::from_millis(40));
    assert_eq!(&link.boxes[1].tx[0].taken()[1..], sent);
    assert_eq!(link.boxes[0].tx[0].taken(), sent);
    for me in 0..2 {
        let resent = link.lane(me, LaneIo::Resent);
        assert!(resent > 100, "{resent}");
        assert_eq!(link.lane(me, LaneIo::First), sent.len() as u64);
        let delivered = [LaneIo::Ordered, LaneIo::Late, LaneIo::Unordered];
        assert_eq!(delivered.map(|what| link.lane(me, what))[1..], [0, 0]);
        assert_eq!(link.tunnel(me, TunnelIo::Held), 0);
    }
}

#[test]
fn a_lane_says_how_long_it_has_waited_for_a_report() {
    let mut link = Link::new();
    link.pass(Span::from_millis(200));
    for n in 0..100 {
        link.boxes[0].rx[0].arrive(frame(n));
        link.step();
    }
    link.pass(Span::from_millis(20));
    assert_eq!(link.lane(0, LaneIo::ReportAgeNanos), 0, "all is reported");
    let trip = [LaneIo::RttNanos, LaneIo::DeviationNanos].map(|what| link.lane(0, what));
    assert_eq!(trip, [STEP.as_nanos(), 0], "it does not vary");
    link.lose_one_in = 1;
    link.boxes[0].rx[0].arrive(frame(100));
    // After 50 ms of silence the session ends: R-TUN-63.
    link.pass(Span::from_millis(45));
    let age = link.lane(0, LaneIo::ReportAgeNanos);
    assert!((35_000_000..=45_000_000).contains(&age), "{age}");
}

// R-TUN-53
#[test]
fn sessions_lanes_and_gaps_are_events() {
    let silent =
        |what: &What| matches!(what, What::SessionLost { reason } if reason.contains("silent"));
    let mut link = Link::new();
    link.pass(Span::from_millis(200));
    for me in 0..2 {
        let peer = 2 - me as u32;
        let began = What::SessionUp {
            peer,
            lanes: 1,
            frame_max: 2_000,
            wan_ports: Some(1),
            lan_repair: Some("off"),
        };
        assert_eq!(link.events(me), [began]);
    }

    // A lane that is silent for a moment is no event.
    link.lose_one_in = 1;
    link.boxes[0].rx[0].arrive(frame(0));
    link.pass(Span::from_millis(20));
    link.lose_one_in = 0;
    link.pass(Span::from_millis(20));
    assert_eq!(link.lane(0, LaneIo::Suspected), 1);
    assert_eq!([link.events(0), link.events(1)], [[], []]);

    // A frame is missing, and then the link dies.
    link.lose_one_in = 1;
    link.boxes[0].rx[0].arrive(frame(1));
    link.step();
    link.lose_one_in = 0;
    link.boxes[0].rx[0].arrive(frame(2));
    link.step();
    link.lose_one_in = 1;
    link.pass(Span::from_millis(150));
    let events = link.events(1);
    assert_eq!(events[0], What::GapGivenUp { lane: 0, numbers: 1 });
    assert!(events.len() == 2 && silent(&events[1]), "{events:?}");
    let events = link.events(0);
    assert!(events.len() == 1 && silent(&events[0]), "{events:?}");
    assert_eq!(link.lane(0, LaneIo::StateDown), 1, "without a session no lane is up");

    // The other box leaves.
    link.lose_one_in = 0;
    link.pass(Span::from_millis(100));
    assert!(matches!(link.events(0)[..], [What::SessionUp { .. }]));
    link.boxes[1].worker.parts.stop.store(true, Relaxed);
    link.pass(HOUSEKEEPING * 2);
    let events = link.events(0);
    assert_eq!(events, [What::SessionLost { reason: "the peer ended it" }]);
}

// R-TUN-53
#[test]
fn a_lane_that_reorders_more_is_an_event() {
    let mut link = Link::new();
    link.pass(Span::from_millis(200));
    for me in 0..2 {
        link.events(me);
    }
    link.delay_one_in = 10;
    for n in 0..2_000 {
        link.boxes[0].rx[0].arrive(frame(n));
        link.step();
    }
    let events = link.events(1);
    let [What::ToleranceRaised { lane: 0, depth, loss_wait_us }, ..] = events[..] else {
        panic!("{events:?}")
    };
    assert!(depth >= 8 && loss_wait_us >= 50, "{depth} {loss_wait_us}");
    assert!(events.len() <= 2, "in a tenth of a second: {events:?}");
    assert_eq!(link.events(0), []);
}

// R-TUN-54
#[test]
fn a_setting_reaches_the_tunnel_and_loses_no_frame() {
    let mut link = Link::new();
    link.pass(Span::from_millis(200));
    link.lose_one_in = 9;
    let sent: Vec<_> = (0..2_000).map(frame).collect();
    for (n, frame) in sent.iter().enumerate() {
        link.boxes[0].rx[0].arrive(frame.clone());
        if n == 1_000 {
            let config = config(1);
            let start = tunnel::Tuning::of(&config.sender, &config.receiver);
            let tunnel = tunnel::Tuning { spray: Policy::Pinned, ..start };
            let switch = switch::Config::lab(switch::Recovery::Off, 1, 1).settings();
            let change = Change::Settings(Box::new(datapath::Settings { switch, tunnel }));
            link.boxes[0].set.push(change).expect("room");
        }
        link.step();
    }
    link.pass(Span::from_millis(40));
    assert_eq!(link.boxes[0].set.slots(), 1, "the worker took it");
    assert_eq!(link.boxes[1].tx[0].taken(), sent);
}

/// Both boxes accept the new key, then both use it, then both forget the old one.
#[test]
fn keys_change_and_the_session_stays() {
    let mut link = Link::new();
    link.pass(Span::from_millis(200));
    let [old, new] = [&b"both"[..], b"new"];
    let steps = [
        Keys::from_secret(old).also_accepting(new),
        Keys::from_secret(new).also_accepting(old),
        Keys::from_secret(new),
    ];
    for keys in steps {
        for me in 0..2 {
            assert!(link.boxes[me].set.push(Change::Keys(keys.clone())).is_ok());
            link.pass(Span::from_millis(200));
        }
    }
    for me in 0..2 {
        let seen = [TunnelIo::Up, TunnelIo::Changes, TunnelIo::RefusedTag];
        assert_eq!(seen.map(|what| link.tunnel(me, what)), [1, 1, 0]);
    }
    assert!(link.boxes[0].set.push(Change::Keys(Keys::from_secret(b"another"))).is_ok());
    link.pass(Span::from_millis(200));
    assert_eq!([0, 1].map(|me| link.tunnel(me, TunnelIo::Up)), [0, 0], "they were used");
}

#[test]
fn a_box_that_ends_says_so_and_frames_cross_plain_at_once() {
    let mut link = Link::new();
    link.pass(Span::from_millis(200));
    link.boxes[0].worker.parts.stop.store(true, Relaxed);
    link.pass(HOUSEKEEPING * 2);
    assert_eq!([0, 1].map(|me| link.tunnel(me, TunnelIo::Up)), [0, 0]);
    link.boxes[1].rx[0].arrive(frame(1));
    link.boxes[0].rx[0].arrive(frame(2));
    link.step();
    link.step();
    assert_eq!(link.boxes[0].tx[0].taken(), [frame(1)]);
    assert_eq!(link.boxes[1].tx[0].taken(), [frame(2)]);
    let [leaving, _] = link.boxes;
    assert_eq!(leaving.worker.run::<32>(), Ended { held: 0, queued: 0 });
}

#[test]
fn a_frame_that_finds_the_wan_queue_full_takes_no_number() {
    let mut link = Link::new();
    link.pass(Span::from_millis(200));
    link.boxes[0].tx[1].accept(0);
    for n in 0..2_000 {
        link.boxes[0].rx[0].arrive(frame(n));
    }
    link.pass(Span::from_millis(5));
    link.boxes[0].tx[1].accept(10_000);
    link.pass(Span::from_millis(20));
    let first = link.lane(0, LaneIo::First);
    assert_eq!(first + link.tunnel(0, TunnelIo::DropQueue), 2_000);
    assert_eq!(link.boxes[1].tx[0].taken().len() as u64, first, "all that have a number arrive");
    assert_eq!(link.lane(1, LaneIo::Missing), 0);
    assert_eq!(link.boxes[1].tx[0].taken()[0], frame(0));
}

/// Two boxes over UDP, each with its station: they find each other, and frames cross.
#[test]
fn over_udp_the_stations_find_the_next_hops() {
    use std::net::IpAddr;

    use tunnel::encapsulation::{Udp, UdpConfig};

    use crate::config::UdpSettings;
    use crate::control::station::Station;
    use crate::worker::io::Now;
    use crate::worker::station;

    for v4 in [true, false] {
        let address = |n: u8| -> IpAddr {
            if v4 { [192, 0, 2, n].into() } else { [0xfd00, 0, 0, 0, 0, 0, 0, n.into()].into() }
        };
        let mut link = Link::new();
        let start = link.clock.now();
        let mut stations = Vec::new();
        for me in 0..2 {
            let (mac, n) = ([2, 0, 0, 0, 0, me as u8 + 1], me as u8 + 1);
            let encapsulation = Encapsulation::Udp(Udp::new(&UdpConfig {
                mac,
                address: address(n),
                peer: address(3 - n),
                port: 5000,
                source_ports: vec![50_000],
                dscp: None,
                vlan: None,
            }));
            let mut config = config(n);
            config.session.overhead = encapsulation.shim_at() as u16;
            config.ports = vec![encapsulation];
            let (mut workers, control) = station::join(1);
            let worker = workers.remove(0);
            link.boxes[me].worker.parts.plane = one(config, vec![worker]);
            let prefix = if v4 { 24 } else { 64 };
            let udp = UdpSettings {
                address: crate::config::IpNet::new(address(n), prefix).expect("a prefix"),
                gateway: None,
                peer: address(3 - n),
                dscp: None,
                vlan: None,
            };
            stations.push(Station::new(&udp, mac, control, start));
        }
        link.boxes[0].rx[0].arrive(frame(0));
        let mut pass = |link: &mut Link, ms: u64| {
            for _ in 0..ms / 10 {
                link.pass(Span::from_millis(10));
                let now = link.clock.now();
                stations.iter_mut().for_each(|station| station.poll(now, false));
            }
            stations.iter_mut().map(|station| station.way(link.clock.now(), 0)).collect::<Vec<_>>()
        };
        let ways = pass(&mut link, 3_000);
        assert!(ways.iter().all(|way| way.is_answered), "{ways:?}");
        assert_eq!(ways[0].mac, Some([2, 0, 0, 0, 0, 2]));
        let seen = [TunnelIo::PeerHeard, TunnelIo::PeerFrame];
        assert_eq!(seen.map(|what| link.tunnel(0, what)), [1, 2_000]);
        assert_eq!([0, 1].map(|me| link.tunnel(me, TunnelIo::Up)), [1, 1]);
        assert!(link.tunnel(0, TunnelIo::Local) > 0, "answers to its pings");
        assert!(link.boxes[1].tx[0].taken().is_empty(), "nothing crosses without a session");
        assert_eq!(link.tunnel(0, TunnelIo::DropNoSession), 1);

        link.lose_one_in = 5;
        (1..=200).for_each(|n| {
            link.boxes[0].rx[0].arrive(frame(n));
            link.step();
        });
        pass(&mut link, 100);
        let expected: Vec<_> = (1..=200).map(frame).collect();
        assert_eq!(link.boxes[1].tx[0].taken(), expected, "v4: {v4}");
        assert!(link.lane(0, LaneIo::Resent) > 0);
    }
}
