//! Both ends of a tunnel, on virtual time: one is measured.
//!
//! Hosts behind the sending end send packets of all flows in turn, at the pace of 1 KiB packets at
//! 100 Gbit/s. They take `DELAY` rounds to the receiving end, its REPORTs as long back.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::control::{BootId, Keys, NodeId};
use common::frame::{Class, Frame, Packet, Pool, Shared, Side};
use common::time::{Span, Time};
use common::verdict::Tolerance;
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, Encapsulation};
use tunnel::session::SessionConfig;
use tunnel::spray::Policy;
use tunnel::{Config, Io, Part, Port, ReceiverConfig, SenderConfig, Tunnel, report_interval};

use crate::frame::{Roomy, RoomyRecycler};
use crate::packets::{MESSAGE, Qp};
use crate::{BURST, RECORDS, Stage};

/// Rounds from one end to the other.
pub(crate) const DELAY: u64 = 56;
/// From round to round.
pub(crate) const ROUND: Span = Span::from_nanos(88 * BURST as u64);
/// Longest frame of the WAN ports, bytes.
const FRAME_MAX: u16 = 400;
/// Frames that may be in flight, or wait.
const IN_FLIGHT: usize = 1 << 14;
/// Rounds until the session is up and the path MTU is measured: six HELLOs.
pub(crate) const BEGINNING: u64 = 6 * HELLO;
const HELLO: u64 = 200;
/// Where the type of a shim is, in the low bits, and the first one that is no packet's.
const TYPE: (usize, u8) = (14, 2);
/// Frames that arrive in a round at most: a burst, and messages.
const ARRIVALS: usize = 2 * BURST as usize;

/// An end without its ports.
struct End {
    tunnel: Tunnel<Roomy>,
    /// Frames that have arrived, by [`Side::index`].
    arrived: [ArrayVec<Roomy, ARRIVALS>; 2],
    ports: Ports,
}

#[derive(Default)]
struct Ports {
    wan: Vec<Packet<Roomy>>,
    lan: Vec<Roomy>,
}

impl Io for Ports {
    type Frame = Roomy;

    #[inline]
    fn wait(&mut self, _: Port) -> Option<Span> {
        Some(Span::ZERO)
    }

    #[inline]
    fn room(&mut self, _: Port) -> usize {
        usize::MAX
    }

    #[inline]
    fn wan(&mut self, _: Port, _: Class, packet: Packet<Roomy>) {
        self.wan.push(packet);
    }

    #[inline]
    fn lan_all<const N: usize>(&mut self, frames: &mut ArrayVec<Roomy, N>, _: bool) {
        self.lan.extend(frames.drain(..));
    }

    fn local(&mut self, _: Port, _: Roomy) {}

    fn alloc(&mut self, len: usize) -> Option<Roomy> {
        RoomyRecycler.alloc(len)
    }
}

/// An end over Ethernet, with so many lanes.
pub(crate) fn config(me: u8, lanes: u8) -> Config {
    let rtt = ROUND * (2 * DELAY);
    let encapsulation =
        Encapsulation::Ethernet { ethertype: DEFAULT_ETHERTYPE, mac: [2, 0, 0, 0, 0, me] };
    Config {
        session: SessionConfig {
            node: NodeId(me.into()),
            boot: BootId(1),
            random: me.into(),
            part: Part::WHOLE,
            lanes,
            ports: 1,
            frame_max: FRAME_MAX,
            overhead: encapsulation.shim_at() as u16,
            lans: Default::default(),
            hello_interval: ROUND * HELLO,
            peer_timeout: Span::from_millis(1_000),
        },
        ports: vec![encapsulation],
        sender: SenderConfig {
            lanes,
            rtt,
            cache_max: IN_FLIGHT,
            give_up: Span::from_millis(100),
            ports: 1,
            spray: Policy::default(),
            resend_copies: 2,
        },
        receiver: ReceiverConfig {
            lanes,
            window: 1 << 20,
            waiting_max: IN_FLIGHT,
            waiting_room: IN_FLIGHT,
            give_up: Span::from_millis(100),
            report_interval: report_interval(rtt),
            tolerance: Tolerance::default(),
            report_at_once: Span::from_micros(20),
            is_paced: true,
        },
        keys: Keys::unkeyed_lab(),
        records: RECORDS,
    }
}

impl End {
    fn new(me: u8, lanes: u8) -> Self {
        let tunnel = Tunnel::new(config(me, lanes));
        Self { tunnel, arrived: Default::default(), ports: Ports::default() }
    }

    /// All that has arrived goes through, then timers.
    fn work(&mut self, now: Time) {
        let Self { tunnel, arrived, ports } = self;
        let [lan, wan] = arrived;
        tunnel.on_lan_burst(now, lan, ports);
        tunnel.on_wan_burst(now, Port::default(), wan, ports);
        if tunnel.due() <= now {
            tunnel.on_timer(now, ports);
        }
    }
}

/// The way from end to end.
struct Link {
    lanes: u8,
    /// Of the packets on their way to the receiving end, one in so many is lost; 0: none.
    lost_of: u64,
}

impl Default for Link {
    fn default() -> Self {
        Self { lanes: 1, lost_of: 0 }
    }
}

/// A tunnel in one direction.
pub struct Pipe {
    /// The sending and the receiving one.
    ends: [End; 2],
    /// Which of them is measured.
    measured: usize,
    qps: Vec<Qp>,
    sent: u32,
    /// Frames on their way to each end, with the round in which they arrive.
    lines: [VecDeque<(u64, Roomy)>; 2],
    round: u64,
    now: Time,
    /// See [`Link::lost_of`].
    lost_of: u64,
    /// Those so far.
    crossed: u64,
}

impl Pipe {
    /// There is a session, and as much is in flight as will be. The sending end is measured.
    pub fn sender(flows: u32) -> Self {
        Self::new(0, flows, Link::default())
    }

    /// The same for the receiving end.
    pub fn receiver(flows: u32) -> Self {
        Self::new(1, flows, Link::default())
    }

    /// The sending end, while one packet in `of` is lost.
    pub fn lossy_sender(flows: u32, of: u64) -> Self {
        Self::new(0, flows, Link { lost_of: of, ..Link::default() })
    }

    /// The same for the receiving end.
    pub fn lossy_receiver(flows: u32, of: u64) -> Self {
        Self::new(1, flows, Link { lost_of: of, ..Link::default() })
    }

    /// The sending end, with so many lanes.
    pub fn sender_on(lanes: u8, flows: u32) -> Self {
        Self::new(0, flows, Link { lanes, ..Link::default() })
    }

    /// The same for the receiving end.
    pub fn receiver_on(lanes: u8, flows: u32) -> Self {
        Self::new(1, flows, Link { lanes, ..Link::default() })
    }

    fn new(measured: usize, flows: u32, Link { lanes, lost_of }: Link) -> Self {
        let mut pipe = Self {
            ends: [1, 2].map(|me| End::new(me, lanes)),
            measured,
            qps: (0..flows).map(|n| Qp::new(n, MESSAGE)).collect(),
            sent: 0,
            lines: [VecDeque::new(), VecDeque::new()],
            round: 0,
            now: Time::from_nanos(1_000_000_000),
            lost_of,
            crossed: 0,
        };
        for _ in 0..BEGINNING + 12 * DELAY {
            pipe.prepare();
            pipe.run();
        }
        let is_up = |end: &End| end.tunnel.peer(pipe.now).is_some();
        assert!(pipe.ends.iter().all(is_up), "there is no session");
        pipe
    }

    /// Everything advances by a round; frames that arrive are ready.
    fn advance(&mut self) {
        self.round += 1;
        self.now += ROUND;
        for (me, end) in self.ends.iter_mut().enumerate() {
            end.ports.lan.clear();
            for packet in end.ports.wan.drain(..) {
                let frame = match packet {
                    Packet::Owned(frame) => frame,
                    Packet::Shared(shared) => Roomy::copy(shared.bytes()),
                };
                let is_packet = me == 0 && frame.bytes()[TYPE.0] & 0xf < TYPE.1;
                self.crossed += u64::from(is_packet);
                if is_packet && self.lost_of > 0 && self.crossed.is_multiple_of(self.lost_of) {
                    continue;
                }
                self.lines[1 - me].push_back((self.round + DELAY, frame));
            }
        }
        for (line, end) in self.lines.iter_mut().zip(&mut self.ends) {
            while let Some((_, frame)) = line.pop_front_if(|(at, _)| *at <= self.round) {
                end.arrived[Side::Wan.index()].push(frame);
            }
        }
        if self.round <= BEGINNING {
            return;
        }
        let flows = self.qps.len() as u32;
        for n in self.sent..self.sent + BURST {
            let data = self.qps[(n % flows) as usize].data(n / flows);
            self.ends[0].arrived[Side::Lan.index()].push(Roomy::copy(data.bytes()));
        }
        self.sent += BURST;
    }
}

impl Stage for Pipe {
    fn prepare(&mut self) {
        self.advance();
        self.ends[1 - self.measured].work(self.now);
    }

    fn run(&mut self) {
        self.ends[self.measured].work(self.now);
    }

    /// Packets that follow a lost one wait for it.
    fn is_steady(&self) -> bool {
        self.lost_of == 0
    }

    fn done(&self) -> u64 {
        let tunnel = &self.ends[self.measured].tunnel;
        if self.measured == 0 { tunnel.sent().frames } else { tunnel.received().delivered }
    }
}
