//! Two NICs and a link between them, on virtual time.
use std::collections::VecDeque;

use common::frame::Frame;
use common::heap::{HeapFrame, HeapPool};
use common::time::{Span, Time};
use common::wire::{Opcode, Qpn, icrc_ok, parse};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rnic::{Completion, Nic, NicConfig, QpConfig, QpId, Received, WorkKind, WorkRequest, lab_ip};

/// MAC address of host 1 or 2.
pub const fn mac(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, host]
}

/// Decides whether a frame is lost.
pub type Loss = Box<dyn FnMut(&[u8]) -> bool>;

/// One direction: in order, with a constant delay.
pub struct Link {
    delay: Span,
    in_flight: VecDeque<(Time, HeapFrame)>,
    /// Whether to lose a frame.
    pub lose: Loss,
    /// Whether to deliver a frame, which is not lost, twice: the second time
    /// after three more delays, behind others.
    pub repeat: Loss,
    /// Frames that arrive again, with their times.
    echoes: VecDeque<(Time, HeapFrame)>,
    pub offered: u64,
    pub lost: u64,
    pub repeated: u64,
}

impl Link {
    fn new(delay: Span) -> Self {
        Self {
            delay,
            in_flight: VecDeque::new(),
            lose: Box::new(|_| false),
            repeat: Box::new(|_| false),
            echoes: VecDeque::new(),
            offered: 0,
            lost: 0,
            repeated: 0,
        }
    }

    fn send(&mut self, frame: HeapFrame, now: Time) {
        self.offered += 1;
        if (self.lose)(frame.bytes()) {
            self.lost += 1;
            return;
        }
        if (self.repeat)(frame.bytes()) {
            self.repeated += 1;
            let copy = HeapFrame::from(frame.bytes().to_vec());
            self.echoes.push_back((now + self.delay * 4, copy));
        }
        self.in_flight.push_back((now + self.delay, frame));
    }

    /// When the next frame arrives.
    fn next(&self) -> Option<Time> {
        [&self.in_flight, &self.echoes].iter().filter_map(|q| q.front()).map(|(at, _)| *at).min()
    }

    fn due(&mut self, now: Time) -> Option<HeapFrame> {
        for queue in [&mut self.in_flight, &mut self.echoes] {
            if queue.front().is_some_and(|(at, _)| *at <= now) {
                return queue.pop_front().map(|(_, frame)| frame);
            }
        }
        None
    }
}

/// Losses with probability `p`, the same for the same seed.
pub fn bernoulli(p: f64, seed: u64) -> Loss {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    Box::new(move |_| rng.random_bool(p))
}

/// Loses the first frame of which `is_it` says so, and nothing else.
pub fn once(is_it: impl Fn(&[u8]) -> bool + 'static) -> Loss {
    let mut armed = true;
    Box::new(move |frame| {
        let lose = armed && is_it(frame);
        armed &= !lose;
        lose
    })
}

/// Hosts 1 (`nics[0]`) and 2.
pub struct World {
    pub nics: [Nic; 2],
    /// `links[0]` leads from `nics[0]` to `nics[1]`.
    pub links: [Link; 2],
    pub now: Time,
    /// Completions of each host.
    pub completions: [Vec<Completion>; 2],
    /// Messages received by each host.
    pub received: [Vec<Received>; 2],
}

impl World {
    /// Two hosts with ports of `rate` bit/s, `rtt` apart.
    pub fn new(rate: Option<u64>, rtt: Span) -> Self {
        let nic = |host| Nic::new(NicConfig { rate, ..NicConfig::new(mac(host), lab_ip(host)) });
        let link = || Link::new(rtt / 2);
        Self {
            nics: [nic(1), nic(2)],
            links: [link(), link()],
            now: Time::ZERO,
            completions: Default::default(),
            received: Default::default(),
        }
    }

    /// A QP between the hosts: QPN 0x100 + `n` at host 1, 0x200 + `n` at
    /// host 2. `change` sees host 1's side; host 2's is the same with PSNs
    /// swapped.
    pub fn add_qp(&mut self, n: u32, change: impl FnOnce(&mut QpConfig)) -> QpId {
        let (local, remote) = (Qpn::new(0x100 + n), Qpn::new(0x200 + n));
        let mut one = QpConfig::new(local, remote, mac(2), lab_ip(2));
        change(&mut one);
        let mut two = one.clone();
        (two.local_qpn, two.remote_qpn) = (one.remote_qpn, one.local_qpn);
        (two.send_psn, two.recv_psn) = (one.recv_psn, one.send_psn);
        (two.remote_mac, two.remote_ip) = (mac(1), lab_ip(1));
        let id = self.nics[0].add_qp(one).unwrap();
        assert_eq!(self.nics[1].add_qp(two).unwrap(), id);
        id
    }

    /// Runs all due events.
    fn settle(&mut self) {
        for side in 0..2 {
            while let Some(frame) = self.links[side].due(self.now) {
                self.nics[1 - side].receive(frame.bytes(), self.now);
            }
        }
        for side in 0..2 {
            let nic = &mut self.nics[side];
            nic.on_timers(self.now);
            while let Some(frame) = nic.poll_transmit(self.now, &mut HeapPool) {
                self.links[side].send(frame, self.now);
            }
            self.completions[side].extend(std::iter::from_fn(|| nic.poll_completion()));
            self.received[side].extend(std::iter::from_fn(|| nic.poll_received()));
        }
    }

    /// Lets time pass until nothing more happens, or `until` comes. Returns
    /// whether everything is quiet.
    pub fn run(&mut self, until: Time) -> bool {
        loop {
            self.settle();
            let arrivals = self.links.iter().filter_map(Link::next);
            let timers = self.nics.iter().filter_map(Nic::next_deadline);
            let Some(next) = arrivals.chain(timers).min() else { return true };
            if next > until {
                self.now = until;
                return false;
            }
            self.now = self.now.max(next);
        }
    }
}

/// All that `nic` may send now.
pub fn drain(nic: &mut Nic, now: Time) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| nic.poll_transmit(now, &mut HeapPool))
        .map(|frame| frame.bytes().to_vec())
        .collect()
}

/// Opcode, PSN and AckReq of a packet, or PSN, syndrome and MSN of an
/// acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    Data(Opcode, u32, bool),
    Ack(u32, u8, u32),
}

/// Reduces a frame. It has to be RoCEv2 with a right ICRC.
pub fn look(frame: &[u8]) -> Seen {
    let roce = parse(frame).expect("a NIC sends RoCEv2");
    assert!(icrc_ok(frame, &roce));
    match roce.aeth(frame) {
        Some(aeth) if roce.opcode == Opcode::ACK => {
            Seen::Ack(roce.psn.get(), aeth.syndrome, aeth.msn)
        }
        _ => Seen::Data(roce.opcode, roce.psn.get(), roce.ack_req),
    }
}

/// A message of `len` bytes.
pub const fn work(kind: WorkKind, len: u32) -> WorkRequest {
    WorkRequest { kind, len, id: 0 }
}

/// A READ of `len` bytes.
pub const fn read(len: u32) -> WorkRequest {
    work(WorkKind::Read, len)
}

/// A SEND of `len` bytes.
pub const fn send(len: u32) -> WorkRequest {
    work(WorkKind::Send, len)
}

/// All of `frames` arrive, at the beginning of time.
pub fn give(nic: &mut Nic, frames: &[Vec<u8>]) {
    for frame in frames {
        nic.receive(frame, Time::ZERO);
    }
}
