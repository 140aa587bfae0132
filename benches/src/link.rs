//! Switches as a whole: one on its own, and two with hosts behind them, on virtual
//! time.
//!
//! A host sends new packets of all flows in turn, at the pace of 1 KiB packets at
//! 100 Gbit/s. They take `DELAY` rounds to the Depot; the destination acknowledges
//! each message after `RESPONSE` rounds more, and the ACK takes `DELAY` rounds back.
//! One of the two switches is measured.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::allowance::Allowance;
use common::frame::{Class, Frame, Packet, Side, Sink};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::{Aeth, parse};
use switch::{Config, Recovery, Role, Switch, Tuning};

use crate::frame::{Recycled, Recycler};
use crate::packets::{MESSAGE, Qp};
use crate::{BURST, RECORDS, Stage};

/// Rounds from one gateway to the other.
const DELAY: u64 = 56;
/// Rounds from a Depot to the destination and back: near, next to the link.
const RESPONSE: u64 = 16;
/// Packets in flight, from the source to its ACK.
const IN_FLIGHT: u32 = (2 * DELAY + RESPONSE) as u32 * BURST;
/// From packet to packet.
const SLOT: Span = Span::from_nanos(88);
/// Virtual time from one housekeeping to the next.
const HOUSEKEEPING: Span = Span::from_millis(5);
/// Rounds in which the flows begin, one after the other, so that their ACKs and
/// the gateways' messages about them are spread over time: the interval
/// of SYNC(keepalive) on so short a link, half a millisecond.
const BEGINNING: u64 = 178;
/// Most timers at once.
const TIMERS: usize = 64;

/// A burst on its way to a switch.
type Burst = ArrayVec<Recycled, { BURST as usize }>;

/// The output of a switch by side, the high class first.
#[derive(Default)]
struct Wires {
    high: [Vec<Packet<Recycled>>; 2],
    data: [Vec<Packet<Recycled>>; 2],
}

impl Sink for Wires {
    type Frame = Recycled;

    #[inline]
    fn transmit(&mut self, side: Side, class: Class, packet: Packet<Recycled>) {
        let port = match class {
            Class::High => &mut self.high[side.index()],
            Class::Data => &mut self.data[side.index()],
        };
        port.push(packet);
    }
}

/// A gateway without its ports.
struct Gateway {
    switch: Switch<Recycled>,
    /// Frames that have arrived.
    bursts: Vec<(Side, Burst)>,
    wires: Wires,
    housekept: Time,
}

impl Gateway {
    fn new(config: Config) -> Self {
        Self {
            switch: Switch::new(config),
            bursts: Vec::new(),
            wires: Wires::default(),
            housekept: Time::ZERO,
        }
    }

    /// Fills bursts with the frames that arrive on `side`.
    fn arrive(&mut self, side: Side, frame: Recycled) {
        match self.bursts.last_mut() {
            Some((last, burst)) if *last == side && !burst.is_full() => burst.push(frame),
            _ => {
                let mut burst = Burst::new();
                burst.push(frame);
                self.bursts.push((side, burst));
            }
        }
    }

    /// All that has arrived goes through, then timers.
    fn work(&mut self, now: Time) {
        let Self { switch, bursts, wires, .. } = self;
        for (side, burst) in bursts {
            switch.burst(*side, burst, now, &mut Recycler, wires);
        }
        if switch.next_deadline() <= now {
            switch.timers(now, TIMERS, &mut Recycler, wires);
        }
    }

    /// The periodic duties of a worker.
    fn keep_house(&mut self, now: Time) {
        self.bursts.clear();
        if now >= self.housekept + HOUSEKEEPING {
            self.housekept = now;
            self.switch.housekeeping(now, &mut Recycler, &mut self.wires);
        }
    }

    /// Passes on the frames sent on `side`.
    fn sent(&mut self, side: Side, mut to: impl FnMut(Recycled)) {
        let Wires { high, data } = &mut self.wires;
        for port in [high, data] {
            for packet in port[side.index()].drain(..) {
                to(match packet {
                    Packet::Owned(frame) => frame,
                    Packet::Shared(shared) => Recycled::copy(common::frame::Shared::bytes(&shared)),
                });
            }
        }
    }

    fn count(&self, metric: Metric) -> u64 {
        self.switch.counters().get(metric)
    }
}

/// Both ends of a queue pair.
struct Hosts {
    qp: Qp,
    /// Next packet to send.
    next: u32,
    /// Oldest packet that is not acknowledged.
    acked: u32,
    /// Packet that the destination expects.
    expected: u32,
    /// It has asked for that already.
    asked: bool,
}

/// Frames on their way, with the round in which they arrive.
type Line = VecDeque<(u64, Recycled)>;

fn arrived(line: &mut Line, round: u64) -> Option<Recycled> {
    line.pop_front_if(|(at, _)| *at <= round).map(|(_, frame)| frame)
}

/// Two gateways and the hosts behind them.
pub struct Link {
    sentry: Gateway,
    depot: Gateway,
    /// On whose LAN the measured one is: that of the sources, or of the
    /// destinations.
    measured: Side,
    hosts: Vec<Hosts>,
    /// Who sends next.
    turn: usize,
    window: u32,
    /// Every so many packets one is lost between the gateways.
    loss: Option<u64>,
    crossed: u64,
    to_depot: Line,
    to_sentry: Line,
    responses: Line,
    round: u64,
    now: Time,
    /// Packets that the destinations got for the first time.
    pub delivered: u64,
}

impl Link {
    /// All flows are protected, and as much is in flight as will be. `measured` is
    /// [`Side::Lan`] for the Sentry, where data comes from the LAN.
    pub fn steady(measured: Side, recovery: Recovery, flows: u32) -> Self {
        let mut link = Self::new(measured, recovery, flows);
        link.settle();
        link
    }

    /// The same, and then one packet in so many is lost for some round trips.
    pub fn lossy(measured: Side, recovery: Recovery, flows: u32, one_in: u64) -> Self {
        let mut link = Self { loss: Some(one_in), ..Self::steady(measured, recovery, flows) };
        for _ in 0..4 * (2 * DELAY + RESPONSE) {
            link.prepare();
            link.run();
        }
        link
    }

    fn new(measured: Side, recovery: Recovery, flows: u32) -> Self {
        let message = (IN_FLIGHT / flows).clamp(1, MESSAGE);
        let hosts: Vec<Hosts> = (0..flows)
            .map(|n| Hosts {
                qp: Qp::new(n, message),
                next: 0,
                acked: 0,
                expected: 0,
                asked: false,
            })
            .collect();
        let gateway = |role, node| {
            Gateway::new(Config {
                role,
                records: RECORDS,
                max_flows: 2 * flows as usize,
                queue_pairs: hosts.iter().map(|host| host.qp.named()).collect(),
                tuning: Tuning {
                    // All flows are protected, whether their data pays or not.
                    early_per_second: Allowance::AMPLE,
                    rtt_guess: SLOT * (2 * DELAY * u64::from(BURST)),
                    ..Tuning::default()
                },
                ..Config::lab(recovery, node, 1)
            })
        };
        Self {
            sentry: gateway(Role::Sentry, 1),
            depot: gateway(Role::Depot, 2),
            measured,
            turn: 0,
            // Twice the flight size: nothing waits but after a loss.
            window: (2 * IN_FLIGHT / flows).max(2) + 2 * message,
            loss: None,
            crossed: 0,
            to_depot: Line::new(),
            to_sentry: Line::new(),
            responses: Line::new(),
            round: 0,
            now: Time::from_nanos(1_000_000_000),
            hosts,
            delivered: 0,
        }
    }

    fn settle(&mut self) {
        let flows = self.hosts.len() as u64;
        let crossing = 2 * DELAY + RESPONSE;
        for _ in 0..BEGINNING + 2 * crossing + 2 * flows / u64::from(BURST) {
            self.prepare();
            self.run();
        }
        let protected = self.sentry.count(Metric::FlowProtected);
        assert_eq!(protected, flows, "flows that are protected");
        for gateway in [&mut self.sentry, &mut self.depot] {
            gateway.switch.set_early_per_second(Allowance::PER_SECOND);
        }
        // The savings of a full bucket are used up.
        for _ in 0..8 * crossing {
            self.prepare();
            self.run();
        }
        assert_eq!(self.delivered, self.hosts.iter().map(|host| u64::from(host.expected)).sum());
    }

    /// The sources send new packets or repeats, all flows in turn.
    fn sources_send(&mut self) {
        let begun = self.hosts.len() as u64 * self.round.min(BEGINNING);
        let begun = begun.div_ceil(BEGINNING) as usize;
        let mut idle = 0;
        let mut room = BURST;
        while room > 0 && idle < begun {
            let turn = self.turn % begun;
            self.turn = turn + 1;
            let host = &mut self.hosts[turn];
            if host.next - host.acked >= self.window {
                idle += 1;
                continue;
            }
            self.sentry.arrive(Side::Lan, host.qp.data(host.next));
            host.next += 1;
            (idle, room) = (0, room - 1);
        }
    }

    fn source_gets(host: &mut Hosts, psn: u32, aeth: Aeth) {
        if aeth.is_ack() {
            host.acked = host.acked.max(psn + 1);
        } else {
            // Go-back-N.
            host.acked = host.acked.max(psn);
            host.next = psn;
        }
        host.next = host.next.max(host.acked);
    }

    /// The destination's response, if any.
    fn destination_gets(host: &mut Hosts, psn: u32) -> Option<Recycled> {
        if psn > host.expected {
            return (!std::mem::replace(&mut host.asked, true)).then(|| host.qp.nak(host.expected));
        }
        if psn == host.expected {
            host.expected += 1;
            host.asked = false;
        }
        host.qp.asks(psn).then(|| host.qp.ack(host.expected - 1))
    }

    /// Everything advances by a round; frames that arrive at the gateways are ready.
    fn advance(&mut self) {
        self.round += 1;
        self.now += SLOT * u64::from(BURST);
        self.sentry.keep_house(self.now);
        self.depot.keep_house(self.now);
        let (round, hosts) = (self.round, &mut self.hosts);
        self.sentry.sent(Side::Wan, |frame| {
            let is_data = parse(frame.bytes()).is_ok_and(|roce| roce.kind().is_request());
            self.crossed += u64::from(is_data);
            let lost = self.loss.is_some_and(|one_in| self.crossed.is_multiple_of(one_in));
            if !(is_data && lost) {
                self.to_depot.push_back((round + DELAY, frame));
            }
        });
        self.depot.sent(Side::Wan, |frame| self.to_sentry.push_back((round + DELAY, frame)));
        let first = hosts[0].qp.clone();
        self.depot.sent(Side::Lan, |frame| {
            let roce = parse(frame.bytes()).expect("what was sent");
            let host = &mut hosts[(roce.dest_qpn.get() - first.dest.get()) as usize];
            let before = host.expected;
            if let Some(response) = Self::destination_gets(host, roce.psn.get()) {
                self.responses.push_back((round + RESPONSE, response));
            }
            self.delivered += u64::from(host.expected - before);
        });
        self.sentry.sent(Side::Lan, |frame| {
            let roce = parse(frame.bytes()).expect("what was sent");
            let host = &mut hosts[(roce.dest_qpn.get() - first.source.get()) as usize];
            let aeth = roce.aeth(frame.bytes()).expect("a response");
            Self::source_gets(host, roce.psn.get(), aeth);
        });
        self.sources_send();
        while let Some(frame) = arrived(&mut self.to_sentry, round) {
            self.sentry.arrive(Side::Wan, frame);
        }
        while let Some(frame) = arrived(&mut self.to_depot, round) {
            self.depot.arrive(Side::Wan, frame);
        }
        while let Some(frame) = arrived(&mut self.responses, round) {
            self.depot.arrive(Side::Lan, frame);
        }
    }

    /// Count of `metric` so far, at the Sentry and at the Depot.
    pub fn count(&self, metric: Metric) -> u64 {
        self.sentry.count(metric) + self.depot.count(metric)
    }
}

impl Stage for Link {
    fn prepare(&mut self) {
        self.advance();
        match self.measured {
            Side::Lan => self.depot.work(self.now),
            Side::Wan => self.sentry.work(self.now),
        }
    }

    fn run(&mut self) {
        match self.measured {
            Side::Lan => self.sentry.work(self.now),
            Side::Wan => self.depot.work(self.now),
        }
    }

    /// Packets that follow a lost one wait for it.
    fn is_steady(&self) -> bool {
        self.loss.is_none()
    }

    fn done(&self) -> u64 {
        match self.measured {
            Side::Lan => self.sentry.count(Metric::SentryNew),
            Side::Wan => self.depot.count(Metric::DepotInOrder),
        }
    }
}

/// A Depot whose flows have no Sentry: a packet is parsed, its flow is looked up,
/// and it is forwarded.
pub struct Passage {
    gateway: Gateway,
    qps: Vec<Qp>,
    round: u32,
    now: Time,
}

impl Passage {
    /// With recovery off flows are not looked up either.
    pub fn new(recovery: Recovery, flows: u32) -> Self {
        let config = Config {
            role: Role::Depot,
            max_flows: 2 * flows as usize,
            ..Config::lab(recovery, 2, 1)
        };
        let mut passage = Self {
            gateway: Gateway::new(config),
            qps: (0..flows).map(|n| Qp::new(n, MESSAGE)).collect(),
            round: 0,
            now: Time::from_nanos(1_000_000_000),
        };
        for _ in 0..flows.div_ceil(BURST) {
            passage.prepare();
            passage.run();
        }
        passage
    }
}

impl Stage for Passage {
    fn prepare(&mut self) {
        self.gateway.sent(Side::Lan, drop);
        self.gateway.bursts.clear();
        self.now += SLOT * u64::from(BURST);
        let flows = self.qps.len() as u32;
        for n in self.round * BURST..(self.round + 1) * BURST {
            let frame = self.qps[(n % flows) as usize].data(n / flows);
            self.gateway.arrive(Side::Wan, frame);
        }
        self.round += 1;
    }

    fn run(&mut self) {
        self.gateway.work(self.now);
    }

    fn done(&self) -> u64 {
        self.gateway.count(Metric::TransmittedLan)
    }
}
