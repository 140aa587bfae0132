//! Both ends of a tunnel with repair of the LANs, on virtual time: one is measured.
//!
//! Hosts behind the sending end send packets of all flows in turn, as in [`crate::link`]; the destinations acknowledge each
//! message after `RESPONSE` rounds. Data takes the tunnel one way, ACKs and REPORTs the other.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::frame::{Class, Frame, Packet, Side, Sink};
use common::time::{Span, Time};
use common::wire::parse;
use datapath::{Datapath, Ports, Which};
use switch::{Recovery, Tuning};
use tunnel::Port;

use crate::frame::{Roomy, RoomyRecycler};
use crate::packets::{MESSAGE, PMTU, QPS_PER_HOSTS, Qp};
use crate::tunnel::{BEGINNING, DELAY, ROUND, config};
use crate::{BURST, Stage};

/// Rounds from the receiving end to a destination and back.
const RESPONSE: u64 = 16;
/// Packets in flight, from a source to its ACK.
const IN_FLIGHT: u32 = (2 * DELAY + RESPONSE) as u32 * BURST;
/// Rounds in which the flows begin, one after the other, so that messages about them are spread over time.
const SPREAD: u64 = 178;
/// Virtual time from one housekeeping to the next.
const HOUSEKEEPING: Span = Span::from_millis(5);
/// An odd number: its multiples are all flows, in another order.
const SCRAMBLE: usize = 0x9e37_79b1;
/// Most timers of a switch at once.
const TIMERS: usize = 64;

/// A burst on its way to an end.
type Burst = ArrayVec<Roomy, { BURST as usize }>;

/// Transmitted frames, by [`Side::index`].
#[derive(Default)]
struct Wires([Vec<Packet<Roomy>>; 2]);

impl Sink for Wires {
    type Frame = Roomy;

    #[inline]
    fn transmit(&mut self, side: Side, _: Class, packet: Packet<Roomy>) {
        self.0[side.index()].push(packet);
    }
}

impl Ports for Wires {
    #[inline]
    fn wait(&mut self, _: Port) -> Option<Span> {
        Some(Span::ZERO)
    }

    #[inline]
    fn room(&mut self, _: Port) -> usize {
        usize::MAX
    }

    fn local(&mut self, _: Port, _: Roomy) {}
}

/// An end without its ports.
struct End {
    path: Datapath<Roomy>,
    /// Frames that have arrived.
    bursts: Vec<(Side, Burst)>,
    wires: Wires,
    housekept: Time,
}

impl End {
    fn new(me: u8, which: Option<Which>, flows: u32) -> Self {
        let switch = switch::Config {
            max_flows: 4 * flows as usize,
            queue_pairs: (0..flows).map(|n| Qp::new(n, MESSAGE).named()).collect(),
            tuning: Tuning { rtt_guess: ROUND * (2 * DELAY), ..Tuning::default() },
            ..switch::Config::lab(Recovery::Off, u32::from(me), 1)
        };
        let path = Datapath::tunnel(config(me, 1), which.map(|which| (switch, which)));
        Self { path, bursts: Vec::new(), wires: Wires::default(), housekept: Time::ZERO }
    }

    fn arrive(&mut self, side: Side, frame: Roomy) {
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
        let Self { path, bursts, wires, .. } = self;
        for (side, burst) in bursts {
            path.burst((*side, Port::default()), burst, now, &mut RoomyRecycler, wires);
        }
        if path.next_deadline() <= now {
            path.timers(now, TIMERS, &mut RoomyRecycler, wires);
        }
    }

    fn keep_house(&mut self, now: Time) {
        self.bursts.clear();
        if now >= self.housekept + HOUSEKEEPING {
            self.housekept = now;
            self.path.housekeeping(now, &mut RoomyRecycler, &mut self.wires);
        }
    }

    /// Data packets among the frames that were transmitted in this round.
    fn data(&self, side: Side) -> u64 {
        let wire = self.wires.0[side.index()].iter();
        wire.filter(|packet| packet.bytes().len() > PMTU).count() as u64
    }
}

/// A tunnel, the LANs of its ends, and hosts.
pub struct Lans {
    /// The sending and the receiving one.
    ends: [End; 2],
    /// Which of them is measured.
    measured: usize,
    qps: Vec<Qp>,
    sent: Vec<u32>,
    turn: usize,
    /// Frames on their way to each end, with the round in which they arrive.
    lines: [VecDeque<(u64, Roomy)>; 2],
    /// ACKs on their way to the receiving end.
    responses: VecDeque<(u64, Roomy)>,
    /// Pairs of hosts with a NAK, which are repaired.
    naks: u32,
    round: u64,
    now: Time,
    done: u64,
}

impl Lans {
    /// There is a session, and as much is in flight as will be. The sending end is measured. Of the pairs of hosts, each with
    /// 64 flows, `naks` had a NAK. `flows` is a power of two.
    pub fn sender(which: Option<Which>, flows: u32, naks: u32) -> Self {
        Self::new(0, which, flows, naks)
    }

    /// Measures the receiving end.
    pub fn receiver(which: Option<Which>, flows: u32, naks: u32) -> Self {
        Self::new(1, which, flows, naks)
    }

    fn new(measured: usize, which: Option<Which>, flows: u32, naks: u32) -> Self {
        let message = (IN_FLIGHT / flows).clamp(1, MESSAGE);
        let mut lans = Self {
            ends: [1, 2].map(|me| End::new(me, which, flows)),
            measured,
            qps: (0..flows).map(|n| Qp::new(n, message)).collect(),
            sent: vec![0; flows as usize],
            turn: 0,
            lines: Default::default(),
            responses: VecDeque::new(),
            naks,
            round: 0,
            now: Time::from_nanos(1_000_000_000),
            done: 0,
        };
        let turns = 2 * u64::from(flows / BURST);
        for _ in 0..BEGINNING + SPREAD + 4 * (2 * DELAY + RESPONSE) + turns {
            lans.prepare();
            lans.run();
        }
        let paths = lans.ends.each_ref().map(|end| end.path.as_tunnel().expect("it is one"));
        assert!(
            paths.iter().all(|path| path.tunnel().peer(lans.now).is_some()),
            "there is a session"
        );
        assert!(paths.iter().all(|path| path.is_balanced()), "frames are accounted for");
        let pairs = which.and_then(|which| (which == Which::AfterNak).then_some(u64::from(naks)));
        let repaired = paths.map(|path| path.lan().and_then(|lan| lan.pairs()));
        assert_eq!(repaired, [pairs; 2], "pairs of hosts that are repaired");
        lans
    }

    /// Sources send new packets, all flows in turn. They begin one after the other.
    fn sources_send(&mut self) {
        let round = self.round - BEGINNING;
        let begun = (self.qps.len() as u64 * round.min(SPREAD)).div_ceil(SPREAD) as usize;
        for _ in 0..BURST {
            self.turn = if self.turn < begun { self.turn } else { 0 };
            // Those between two hosts do not follow each other.
            let flow = self.turn.wrapping_mul(SCRAMBLE) % self.qps.len();
            let data = self.qps[flow].data(self.sent[flow]);
            self.sent[flow] += 1;
            self.turn += 1;
            self.ends[0].arrive(Side::Lan, Roomy::copy(data.bytes()));
        }
    }

    /// Destinations take packets, and acknowledge messages.
    fn destinations_take(&mut self) {
        let first = self.qps[0].dest.get();
        for packet in self.ends[1].wires.0[Side::Lan.index()].drain(..) {
            let roce = parse(packet.bytes()).expect("what was sent");
            let qp = &self.qps[(roce.dest_qpn.get() - first) as usize];
            if qp.asks(roce.psn.get()) {
                let ack = qp.ack(roce.psn.get());
                self.responses.push_back((self.round + RESPONSE, Roomy::copy(ack.bytes())));
            }
        }
    }

    /// Frames of the WAN ports are on their way to the other end.
    fn cross(&mut self) {
        for (me, end) in self.ends.iter_mut().enumerate() {
            for packet in end.wires.0[Side::Wan.index()].drain(..) {
                let frame = match packet {
                    Packet::Owned(frame) => frame,
                    Packet::Shared(_) => Roomy::copy(packet.bytes()),
                };
                self.lines[1 - me].push_back((self.round + DELAY, frame));
            }
        }
    }

    /// Everything advances by a round; frames that arrive are ready.
    fn advance(&mut self) {
        let out = [Side::Wan, Side::Lan][self.measured];
        self.done += self.ends[self.measured].data(out);
        self.round += 1;
        self.now += ROUND;
        self.ends.iter_mut().for_each(|end| end.keep_house(self.now));
        self.ends[0].wires.0[Side::Lan.index()].clear();
        self.destinations_take();
        self.cross();
        for (line, end) in self.lines.iter_mut().zip(&mut self.ends) {
            while let Some((_, frame)) = line.pop_front_if(|(at, _)| *at <= self.round) {
                end.arrive(Side::Wan, frame);
            }
        }
        while let Some((_, frame)) = self.responses.pop_front_if(|(at, _)| *at <= self.round) {
            self.ends[1].arrive(Side::Lan, frame);
        }
        if self.round > BEGINNING {
            self.sources_send();
        }
        if self.round == BEGINNING + 1 {
            // Each is about another queue pair of the hosts.
            for pair in 0..self.naks {
                let nak = self.qps[(pair * QPS_PER_HOSTS) as usize].nak_of_another();
                self.ends[1].arrive(Side::Lan, Roomy::copy(nak.bytes()));
            }
        }
    }
}

impl Stage for Lans {
    fn prepare(&mut self) {
        self.advance();
        self.ends[1 - self.measured].work(self.now);
    }

    fn run(&mut self) {
        self.ends[self.measured].work(self.now);
    }

    /// Time earns the early messages of 640 flows in minutes.
    fn is_settled(&self) -> bool {
        self.naks == 0
    }

    fn done(&self) -> u64 {
        let out = [Side::Wan, Side::Lan][self.measured];
        self.done + self.ends[self.measured].data(out)
    }
}
