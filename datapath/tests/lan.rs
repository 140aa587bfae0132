//! Two boxes with a tunnel and repair of the LANs, joined by a link that takes no time.

#[path = "lan/anew.rs"]
mod anew;
#[path = "lan/bursts.rs"]
mod bursts;

use arrayvec::ArrayVec;
use common::control::{Message, Reason};
use common::frame::{Class, Frame, Packet, Side, Sink};
use common::heap::{HeapFrame, HeapPool};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::verdict::Tolerance;
use common::wire::{Opcode, Qpn, Vlans};
use datapath::{Datapath, LanCounts, Ports, Settings, Which};
use switch::Recovery;
use testkit::control;
use testkit::packets::{frame, headers};
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, Encapsulation};
use tunnel::session::SessionConfig;
use tunnel::spray::Policy;
use tunnel::{Config, Part, Port, ReceiverConfig, SenderConfig, Tuning};

const STEP: Span = Span::from_micros(50);
const SECOND: Span = Span::from_millis(1_000);

/// Transmitted frames, by side.
#[derive(Default)]
struct Wires([Vec<Vec<u8>>; 2]);

impl Sink for Wires {
    type Frame = HeapFrame;

    fn transmit(&mut self, side: Side, _: Class, packet: Packet<HeapFrame>) {
        self.0[side.index()].push(packet.bytes().to_vec());
    }
}

impl Ports for Wires {
    fn wait(&mut self, _: Port) -> Option<Span> {
        Some(Span::ZERO)
    }

    fn room(&mut self, _: Port) -> usize {
        usize::MAX
    }

    fn local(&mut self, _: Port, _: HeapFrame) {}
}

fn config(me: u8, boot: u64) -> Config {
    let ms = Span::from_millis;
    Config {
        session: SessionConfig {
            node: u32::from(me).into(),
            boot: boot.into(),
            random: u64::from(me) + boot,
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
        keys: switch::Config::lab(Recovery::Off, 1, 1).keys,
        records: 0,
    }
}

fn end(me: u8, boot: u64, which: Which) -> Datapath<HeapFrame> {
    let switch = switch::Config::lab(Recovery::Off, u32::from(me), boot);
    Datapath::tunnel(config(me, boot), Some((switch, which)))
}

struct Link {
    now: Time,
    which: Which,
    ends: [Datapath<HeapFrame>; 2],
    /// Frames that the hosts of each end have received.
    hosts: [Vec<Vec<u8>>; 2],
    /// Frames on their way to each end.
    wan: [Vec<Vec<u8>>; 2],
}

impl Link {
    /// A session is up.
    fn new(which: Which) -> Self {
        let ends = [1, 2].map(|me| end(me, 7, which));
        let (hosts, wan) = Default::default();
        let mut link = Self { now: Time::ZERO + SECOND, which, ends, hosts, wan };
        link.pass(SECOND / 2);
        assert_eq!(link.sessions(), [true, true]);
        link
    }

    fn sessions(&self) -> [bool; 2] {
        self.ends.each_ref().map(|end| end.as_tunnel().unwrap().tunnel().session().up().is_some())
    }

    fn all_counts(&self) -> [LanCounts; 2] {
        self.ends.each_ref().map(|end| *end.as_tunnel().unwrap().lan().unwrap().counts())
    }

    /// Counts of frames that were looked at, or dropped.
    fn counts(&self) -> [LanCounts; 2] {
        self.all_counts().map(|counts| LanCounts { direct: [0; 2], ..counts })
    }

    /// Frames that entered each switch.
    fn repaired(&self) -> [u64; 2] {
        self.counts().map(|counts| counts.repaired.iter().sum())
    }

    fn pairs(&self) -> [Option<u64>; 2] {
        self.ends.each_ref().map(|end| end.as_tunnel().unwrap().lan().unwrap().pairs())
    }

    /// Flows that each box has begun to protect.
    fn protected(&self) -> [u64; 2] {
        self.ends
            .each_ref()
            .map(|end| end.as_switch().unwrap().counters().get(Metric::FlowProtected))
    }

    fn arrive(&mut self, me: usize, side: Side, bytes: Vec<u8>) {
        let mut wires = Wires::default();
        let mut burst = ArrayVec::<_, 1>::from([HeapFrame::from(bytes)]);
        self.ends[me].burst(
            (side, Port::default()),
            &mut burst,
            self.now,
            &mut HeapPool,
            &mut wires,
        );
        self.sort(me, wires);
    }

    fn sort(&mut self, me: usize, Wires([lan, wan]): Wires) {
        self.hosts[me].extend(lan);
        self.wan[1 - me].extend(wan);
    }

    /// A host of end `me` sends a frame, and it crosses.
    fn send(&mut self, me: usize, bytes: &[u8]) {
        self.arrive(me, Side::Lan, bytes.to_vec());
        self.step();
    }

    fn step(&mut self) {
        self.now += STEP;
        for me in 0..2 {
            for bytes in std::mem::take(&mut self.wan[me]) {
                self.arrive(me, Side::Wan, bytes);
            }
            let mut wires = Wires::default();
            self.ends[me].timers(self.now, 64, &mut HeapPool, &mut wires);
            self.ends[me].housekeeping(self.now, &mut HeapPool, &mut wires);
            self.sort(me, wires);
            assert!(self.ends[me].as_tunnel().unwrap().is_balanced());
        }
    }

    fn pass(&mut self, span: Span) {
        for _ in 0..span.as_nanos() / STEP.as_nanos() {
            self.step();
        }
    }
}

fn write(from: u8, to: u8, psn: u32) -> Vec<u8> {
    frame(&headers(from, to, Vlans::NONE), Opcode::SEND_ONLY, 0x11, psn, &[7; 64])
}

fn response(from: u8, to: u8, psn: u32, syndrome: u8) -> Vec<u8> {
    let aeth = [syndrome, 0, 0, 1];
    frame(&headers(from, to, Vlans::NONE), Opcode::ACK, 0x22, psn, &aeth)
}

fn arp() -> Vec<u8> {
    let mut frame = vec![2; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x06]);
    frame
}

/// R-TUN-28
#[test]
fn packets_enter_the_switch_after_a_nak_between_their_hosts() {
    let mut link = Link::new(Which::AfterNak);
    let before = [write(1, 2, 5), response(2, 1, 5, 0x1f), write(3, 4, 5), arp()];
    before.iter().for_each(|frame| link.send(0, frame));
    assert_eq!(link.hosts[1], before);
    assert_eq!(link.counts(), [LanCounts::default(); 2]);
    assert_eq!(link.all_counts().map(|counts| counts.direct), [[4, 0], [0, 4]]);

    link.send(1, &response(2, 1, 6, 0x60));
    assert_eq!(link.pairs(), [Some(1), Some(1)], "both boxes have seen the NAK");
    link.send(0, &write(1, 2, 6));
    link.send(0, &write(3, 4, 6));
    link.send(0, &arp());
    assert_eq!(link.repaired().map(|frames| frames >= 2), [true, true]);
    let looked_at = |me: usize| {
        let counters = link.ends[me].as_switch().unwrap().counters();
        counters.get(Metric::ReceivedLan) + counters.get(Metric::ReceivedWan)
    };
    assert_eq!([0, 1].map(looked_at), link.repaired());
    let delivered = [write(1, 2, 6), write(3, 4, 6), arp()];
    let control = |frame: &&Vec<u8>| frame[42] < 0xe0;
    let hosts: Vec<_> = link.hosts[1][4..].iter().filter(control).cloned().collect();
    assert_eq!(hosts, delivered, "each once, and no control message");
}

/// R-TUN-27
#[test]
fn with_all_only_frames_other_than_roce_pass_it() {
    let mut link = Link::new(Which::All);
    link.send(0, &arp());
    assert_eq!(link.counts(), [LanCounts::default(); 2]);
    link.send(0, &write(1, 2, 5));
    assert_eq!(link.repaired().map(|frames| frames > 0), [true, true]);
    assert_eq!(link.hosts[1], [arp(), write(1, 2, 5)]);
    assert_eq!(link.pairs(), [None, None]);
}

/// R-TUN-28
#[test]
fn a_pair_is_left_after_a_minute_without_a_nak_and_comes_again_with_one() {
    let mut link = Link::new(Which::AfterNak);
    link.send(1, &response(2, 1, 6, 0x60));
    // Continuous traffic: no flow is idle.
    for psn in 0..595 {
        link.send(0, &write(1, 2, psn));
        link.send(1, &response(2, 1, psn, 0x1f));
        link.pass(SECOND / 10);
    }
    assert_eq!(link.pairs(), [Some(1), Some(1)]);
    link.pass(SECOND);
    assert_eq!(link.pairs(), [Some(1), Some(0)], "the box whose host sent the NAK");
    for psn in 595..1_300 {
        link.send(0, &write(1, 2, psn));
        link.send(1, &response(2, 1, psn, 0x1f));
        link.pass(SECOND / 10);
    }
    assert_eq!(link.pairs(), [Some(0), Some(0)]);
    let (counts, seen) = (link.counts(), link.hosts[1].len());
    // PSNs that bypassed the switch are no gap later on.
    for psn in 1_300..1_400 {
        link.send(0, &write(1, 2, psn));
    }
    assert_eq!(link.counts(), counts);
    link.send(1, &response(2, 1, 1_399, 0x60));
    assert_eq!(link.pairs(), [Some(1), Some(1)]);
    for psn in 1_400..1_420 {
        link.send(0, &write(1, 2, psn));
        link.send(1, &response(2, 1, psn, 0x1f));
    }
    let data = |frame: &&Vec<u8>| frame[42] == Opcode::SEND_ONLY.0;
    assert_eq!(link.hosts[1][seen..].iter().filter(data).count(), 120, "none is taken for lost");
    let gaps = |me: usize| link.ends[me].as_switch().unwrap().counters().get(Metric::GapsSeen);
    assert_eq!([0, 1].map(gaps), [0, 0]);
}

/// R-TUN-28
#[test]
fn a_peer_that_begins_anew_looks_at_nothing_and_neither_does_this_box() {
    let mut link = Link::new(Which::AfterNak);
    link.send(1, &response(2, 1, 6, 0x60));
    // Flows in both directions, which both boxes protect.
    for psn in 0..200 {
        link.send(0, &write(1, 2, psn));
        link.send(1, &response(2, 1, psn, 0x1f));
        link.send(1, &write(2, 1, psn));
        link.send(0, &response(1, 2, psn, 0x1f));
        link.pass(SECOND / 1_000);
    }
    assert_eq!(link.pairs(), [Some(1), Some(1)]);
    assert!(link.protected().iter().all(|n| *n > 0), "{:?}", link.protected());
    link.ends[0] = end(1, 8, link.which);
    link.pass(SECOND);
    assert_eq!((link.sessions(), link.pairs()), ([true, true], [Some(0), Some(0)]));
    let counts = link.counts();
    link.send(0, &write(1, 2, 300));
    assert_eq!(link.counts(), counts);
    assert_eq!(link.hosts[1].last(), Some(&write(1, 2, 300)));
}

/// The Depot of the near box keeps the NAKs that it repairs: the far box learns from its messages that
/// there are some. R-TUN-28
#[test]
fn the_far_box_looks_for_as_long_as_the_near_one_does() {
    let mut link = Link::new(Which::AfterNak);
    link.send(1, &response(2, 1, 0, 0x60));
    for psn in 0..1_900 {
        link.send(0, &write(1, 2, psn));
        // The host behind end 1 has lost one in a hundred.
        let syndrome = if psn % 100 == 99 { 0x60 } else { 0x1f };
        link.send(1, &response(2, 1, psn, syndrome));
        link.pass(SECOND / 10);
        assert_eq!(link.pairs(), [Some(1), Some(1)], "{psn}");
    }
    // No NAK for a minute: both leave, the near one first.
    for psn in 1_900..3_300 {
        link.send(0, &write(1, 2, psn));
        link.send(1, &response(2, 1, psn, 0x1f));
        link.pass(SECOND / 10);
    }
    assert_eq!(link.pairs(), [Some(0), Some(0)]);
}

/// A host cannot speak to the far box's switch, whether or not its packets are looked at.
#[test]
fn control_messages_of_hosts_are_dropped() {
    let mut link = Link::new(Which::AfterNak);
    let keys = &switch::Config::lab(Recovery::Off, 1, 1).keys;
    let message = Message::Sync(control::sync(Reason::Open, Psn::new(5), link.now));
    let forged = control::frame(
        &headers(1, 2, Vlans::NONE),
        Qpn::new(0x11),
        &control::HEADER,
        &message,
        keys,
    );
    link.send(0, &forged);
    link.pass(SECOND / 100);
    assert_eq!(link.hosts, [vec![], vec![]] as [Vec<Vec<u8>>; 2]);
    assert_eq!(link.pairs(), [Some(0), Some(0)]);
}

/// A Sentry takes an ACK that comes behind a newer one for another incarnation. R-TUN-24
#[test]
fn acks_of_repaired_packets_are_in_order() {
    for (which, in_order) in [(Which::All, true), (Which::AfterNak, false)] {
        let mut link = Link::new(which);
        for psn in 0..40 {
            link.send(0, &write(1, 2, psn));
        }
        let acks: Vec<_> = (0..40).map(|psn| response(2, 1, psn, 0x1f)).collect();
        for ack in &acks {
            link.arrive(1, Side::Lan, ack.clone());
            // The frame that carries the third is lost.
            if *ack == acks[2] {
                let carries = |frame: &Vec<u8>| !frame.ends_with(&ack[ack.len() - 20..]);
                link.wan[0].retain(carries);
            }
            link.step();
        }
        link.pass(SECOND / 10);
        let is_ack = |frame: &&Vec<u8>| acks.contains(frame);
        let got: Vec<_> = link.hosts[0].iter().filter(is_ack).cloned().collect();
        // The lost one comes in its turn, or not at all.
        let expected: Vec<_> = acks.iter().filter(|ack| in_order || **ack != acks[2]).collect();
        assert_eq!(got.iter().collect::<Vec<_>>(), expected);
        assert_eq!(link.ends[0].as_switch().unwrap().counters().get(Metric::FlowNewEpoch), 0);
    }
}

/// R-TUN-27: the switch says that it leaves before the tunnel does.
#[test]
fn a_box_that_leaves_empties_the_switch_first() {
    let mut link = Link::new(Which::All);
    for psn in 0..50 {
        link.send(0, &write(1, 2, psn));
        link.send(1, &response(2, 1, psn, 0x1f));
    }
    let mut wires = Wires::default();
    link.ends[0].drain(link.now, &mut HeapPool, &mut wires);
    link.sort(0, wires);
    link.pass(SECOND / 10);
    assert!(!link.ends[0].is_leaving());
    assert_eq!(link.ends[0].held(), 0);
    assert_eq!(link.sessions(), [false, false], "with a BYE");
}

/// R-TUN-60: the memory is there once. A frame of the tunnel that waits keeps the pools of the switch from growing.
#[test]
fn pools_beside_a_tunnel_grow_once_its_own_have_shrunk() {
    let mut link = Link::new(Which::AfterNak);
    let seen = |link: &Link| {
        let tunnelled = link.ends[1].as_tunnel().unwrap();
        let config = tunnelled.tunnel().config();
        let switch = tunnelled.lan().unwrap().switch().settings();
        (config.receiver.waiting_max, config.sender.cache_max, switch.pools.backup_pool)
    };
    let (_, cache, backup) = seen(&link);
    // One is lost, and the next one waits for it.
    link.arrive(0, Side::Lan, write(1, 2, 0));
    link.wan[1].clear();
    link.arrive(0, Side::Lan, write(1, 2, 1));
    link.now += STEP;
    for bytes in std::mem::take(&mut link.wan[1]) {
        link.arrive(1, Side::Wan, bytes);
    }
    assert_eq!(link.ends[1].held(), 1);
    let tunnelled = link.ends[1].as_tunnel().unwrap();
    let config = tunnelled.tunnel().config();
    let mut settings = Settings {
        switch: tunnelled.lan().unwrap().switch().settings(),
        tunnel: Tuning::of(&config.sender, &config.receiver),
    };
    settings.switch.recovery = Recovery::Off;
    settings.switch.tuning.longest_trip = None;
    settings.switch.pools.backup_pool = backup + 500;
    settings.tunnel.waiting_max = 0;
    settings.tunnel.cache_max = cache + 500;
    settings.tunnel.give_up = Span::from_millis(20);
    link.ends[1].set_settings(&settings, link.now);
    let mut wires = Wires::default();
    link.ends[1].housekeeping(link.now, &mut HeapPool, &mut wires);
    assert_eq!(seen(&link), (0, cache, backup), "the frame still waits");
    assert!(link.ends[1].as_tunnel().unwrap().is_retuning());
    link.pass(SECOND / 100);
    assert_eq!(link.ends[1].held(), 0);
    assert_eq!(seen(&link), (0, cache + 500, backup + 500));
    let tunnelled = link.ends[1].as_tunnel().unwrap();
    assert!(!tunnelled.is_retuning());
    // What makes it a repair of the LANs stays, and the time for which the tunnel resends follows it.
    let lan = tunnelled.lan().unwrap().switch().settings();
    let longest_trip = Some(Span::from_millis(100) + Span::from_millis(20) * 2);
    assert_eq!((lan.recovery, lan.pools.resend_cache), (Recovery::Lr2, 0));
    assert_eq!(lan.tuning.longest_trip, longest_trip);
    assert_eq!(link.hosts[1], [write(1, 2, 0), write(1, 2, 1)]);
}

/// R-TUN-60: a shorter `give_up` moves the deadline forward, and a gap that is older is given up at once.
#[test]
fn a_shorter_time_is_heeded_by_a_tunnel_that_waits() {
    let mut link = Link::new(Which::AfterNak);
    link.arrive(0, Side::Lan, write(1, 2, 0));
    link.wan[1].clear();
    link.arrive(0, Side::Lan, write(1, 2, 1));
    for bytes in std::mem::take(&mut link.wan[1]) {
        link.arrive(1, Side::Wan, bytes);
    }
    let (end, mut wires) = (&mut link.ends[1], Wires::default());
    link.now += STEP;
    end.timers(link.now, 64, &mut HeapPool, &mut wires);
    assert!(end.next_deadline() > link.now, "it has sent a REPORT, and waits");
    let tunnelled = end.as_tunnel().unwrap();
    let config = tunnelled.tunnel().config();
    let switch = tunnelled.lan().unwrap().switch().settings();
    let tunnel = Tuning { give_up: STEP / 2, ..Tuning::of(&config.sender, &config.receiver) };
    end.set_settings(&Settings { switch, tunnel }, link.now);
    assert!(end.next_deadline() <= link.now);
    end.timers(link.now, 64, &mut HeapPool, &mut wires);
    assert_eq!(wires.0[Side::Lan.index()], [write(1, 2, 1)]);
}
