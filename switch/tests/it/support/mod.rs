//! A switch between two ports that are lists, and a peer that is played by the
//! test.

pub mod cm;

use arrayvec::ArrayVec;
use common::allowance::Allowance;
use common::control::{
    BootId, Epoch, Fetch, Header, Keys, Message, NodeId, Reason, Status, SyncMessage,
};
use common::frame::{Class, Side};
use common::heap::{HeapFrame, HeapPool};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Aeth, Headers, Opcode, Qpn, Reth, Vlans};
use switch::{Config, FlowName, Recovery, Switch, Tuning};
pub use testkit::packets::*;
pub use testkit::wires::Sent;
use testkit::wires::Wires;

/// The node id of the switch under test, and that of its peer.
pub const NODE: NodeId = NodeId(1);
pub const PEER: NodeId = NodeId(2);
/// When each of them started.
pub const BOOT: BootId = BootId(100);
pub const PEER_BOOT: BootId = BootId(200);
/// The round trip that the switch assumes.
pub const RTT: Span = Span::from_millis(10);
/// The UDP source port of everything, unless a test says otherwise.
pub const PORT: u16 = 50_000;

/// The switch at work. Its host has address 10.0.0.1, the host behind the
/// long-haul link 10.0.0.2.
pub struct Bench {
    pub switch: Switch<HeapFrame>,
    pub now: Time,
    wires: Wires,
    peer_seq: u64,
}

impl Bench {
    pub fn new(recovery: Recovery) -> Self {
        let tuning = Tuning { early_per_second: Allowance::AMPLE, ..Tuning::default() };
        Self::with(Config { tuning, ..Config::lab(recovery, NODE, BOOT) })
    }

    pub fn with(config: Config) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        Self { switch: Switch::new(config), now, wires: Wires::default(), peer_seq: 0 }
    }

    /// A protected flow from QP 0x11 to QP 0x22 that has sent `psns`, and its epoch.
    pub fn paired(recovery: Recovery, psns: std::ops::Range<u32>) -> (Self, Epoch) {
        let mut bench = Self::new(recovery);
        let epoch = bench.protect(0x22, psns);
        bench.status(0x22, epoch, Status { src_qpn: Some(Qpn::new(0x11)), ..report(0, 0, &[]) });
        (bench, epoch)
    }

    /// A frame arrives; returns the frames that leave because of it.
    pub fn receive(&mut self, side: Side, bytes: Vec<u8>) -> Vec<Sent> {
        let mut burst = ArrayVec::<HeapFrame, 1>::new();
        burst.push(HeapFrame::from(bytes));
        self.switch.burst(side, &mut burst, self.now, &mut HeapPool, &mut self.wires);
        self.sent()
    }

    /// Books must balance after every call.
    fn sent(&mut self) -> Vec<Sent> {
        let counters = self.switch.counters();
        assert_eq!(counters.entered(), counters.left() + self.switch.held(), "a frame got lost");
        std::mem::take(&mut self.wires.0)
    }

    pub fn lan(&mut self, bytes: Vec<u8>) -> Vec<Sent> {
        self.receive(Side::Lan, bytes)
    }

    pub fn wan(&mut self, bytes: Vec<u8>) -> Vec<Sent> {
        self.receive(Side::Wan, bytes)
    }

    /// The host sends these packets to QP `qpn`.
    pub fn sends(&mut self, qpn: u32, psns: impl IntoIterator<Item = u32>) {
        for psn in psns {
            self.lan(request(&outbound(), qpn, psn));
        }
    }

    /// These packets for QP `qpn` arrive from the long-haul link.
    pub fn arrive(&mut self, qpn: u32, psns: impl IntoIterator<Item = u32>) {
        for psn in psns {
            self.wan(request(&inbound(), qpn, psn));
        }
    }

    pub fn timers(&mut self) -> Vec<Sent> {
        self.switch.timers(self.now, 64, &mut HeapPool, &mut self.wires);
        self.sent()
    }

    pub fn drain(&mut self) -> Vec<Sent> {
        self.switch.drain(self.now, &mut HeapPool, &mut self.wires);
        self.sent()
    }

    /// The operator leaves a flow to the RNICs.
    pub fn unprotect(&mut self, flow: &FlowName) -> Vec<Sent> {
        assert!(self.switch.unprotect(flow, self.now, &mut HeapPool, &mut self.wires));
        self.sent()
    }

    pub fn housekeeping(&mut self) {
        assert!(self.keep_house().is_empty());
    }

    /// Housekeeping, in which flows may be left.
    pub fn keep_house(&mut self) -> Vec<Sent> {
        self.switch.housekeeping(self.now, &mut HeapPool, &mut self.wires);
        self.sent()
    }

    pub fn wait(&mut self, span: Span) {
        self.now += span;
    }

    pub fn count(&self, metric: Metric) -> u64 {
        self.switch.counters().get(metric)
    }

    /// The frame passes to the other side, byte for byte, and nothing else
    /// happens.
    pub fn assert_passes(&mut self, side: Side, bytes: &[u8]) {
        let sent = self.receive(side, bytes.to_vec());
        let through = Sent { side: side.other(), class: Class::Data, bytes: bytes.to_vec() };
        assert_eq!(sent, [through]);
    }

    /// The header of the peer's next message.
    pub fn header(&mut self, dest_qpn: u32, epoch: impl Into<Epoch>) -> Header {
        self.peer_seq += 1;
        let (seq, dest_qpn) = (self.peer_seq, Qpn::new(dest_qpn));
        Header { node: PEER, boot: PEER_BOOT, seq, seen_boot: BOOT, dest_qpn, epoch: epoch.into() }
    }

    /// The peer's STATUS about the host's flow towards `qpn`.
    pub fn status(&mut self, qpn: u32, epoch: impl Into<Epoch>, status: Status) -> Vec<Sent> {
        let header = self.header(qpn, epoch);
        self.wan(message(&inbound(), qpn, &header, &Message::Status(status)))
    }

    /// The peer's SYNC about the remote host's flow towards `qpn`.
    pub fn sync(&mut self, qpn: u32, epoch: impl Into<Epoch>, sync: SyncMessage) -> Vec<Sent> {
        let header = self.header(qpn, epoch);
        self.wan(message(&inbound(), qpn, &header, &Message::Sync(sync)))
    }

    /// The STATUS that replies to a SYNC.
    pub fn told(&mut self, qpn: u32, epoch: impl Into<Epoch>, sync: SyncMessage) -> Status {
        self.sync(qpn, epoch, sync)[0].status().expect("a STATUS").1
    }

    /// The peer's FETCH about the remote host's flow towards `qpn`.
    pub fn fetch(&mut self, header: &Header, missing: &[(u32, u32)]) -> Vec<Sent> {
        self.wan(message(&inbound(), header.dest_qpn.get(), header, &fetch(missing)))
    }

    /// The host's flow towards `qpn` sends `psns`, and the peer protects it.
    pub fn protect(&mut self, qpn: u32, psns: std::ops::Range<u32>) -> Epoch {
        let mut epoch = None;
        let (first, taken) = (psns.start, self.count(Metric::DropStatusConsumed));
        for psn in psns {
            let sent = self.lan(request(&outbound(), qpn, psn));
            epoch = epoch.or(sent.iter().find_map(Sent::sync).map(|(header, _)| header.epoch));
        }
        let epoch = epoch.expect("a new flow is announced");
        self.status(qpn, epoch, report(first, first, &[]));
        assert_eq!(self.count(Metric::DropStatusConsumed), taken + 1);
        epoch
    }
}

/// Headers of packets from the host.
pub fn outbound() -> Headers {
    headers(1, 2, Vlans::NONE)
}

/// Headers of packets to the host.
pub fn inbound() -> Headers {
    headers(2, 1, Vlans::NONE)
}

pub fn tagged(headers: &Headers, vlan: u16) -> Headers {
    let (from, to) = (headers.src_mac()[0], headers.dst_mac()[0]);
    with_port(&self::headers(from, to, Vlans::new(vlan, 0)), headers.src_port())
}

pub fn with_port(headers: &Headers, port: u16) -> Headers {
    let mut headers = headers.clone();
    headers.set_src_port(port);
    headers
}

/// A SEND's middle packet.
pub fn request(headers: &Headers, qpn: u32, psn: u32) -> Vec<u8> {
    frame(headers, Opcode::SEND_MIDDLE, qpn, psn, &[psn as u8; 256])
}

/// A READ of `responses` packets of 256 bytes.
pub fn read(headers: &Headers, qpn: u32, psn: u32, responses: u32) -> Vec<u8> {
    let reth = Reth { va: 0, rkey: 0, len: responses * 256 };
    frame(headers, Opcode::READ_REQUEST, qpn, psn, &reth.to_bytes())
}

pub fn respond(headers: &Headers, qpn: u32, psn: u32, syndrome: u8) -> Vec<u8> {
    frame(headers, Opcode::ACK, qpn, psn, &Aeth { syndrome, msn: 1 }.to_bytes())
}

pub fn ack(headers: &Headers, qpn: u32, psn: u32) -> Vec<u8> {
    respond(headers, qpn, psn, Aeth::ACK_UNLIMITED)
}

pub fn nak(headers: &Headers, qpn: u32, psn: u32) -> Vec<u8> {
    respond(headers, qpn, psn, Aeth::NAK_PSN_SEQUENCE)
}

pub fn message(headers: &Headers, qpn: u32, header: &Header, message: &Message) -> Vec<u8> {
    testkit::control::frame(headers, Qpn::new(qpn), header, message, &Keys::unkeyed_lab())
}

pub fn open(next: u32) -> SyncMessage {
    testkit::control::sync(Reason::Open, Psn::new(next), Time::from_nanos(1))
}

/// The STATUS of a Depot that holds everything but `missing` (from .. to).
pub fn report(expected: u32, high: u32, missing: &[(u32, u32)]) -> Status {
    let status = testkit::control::status(expected, high, missing, Psn::new);
    Status { keeps_responses: false, ..status }
}

/// A FETCH of these ranges, from .. to; nothing before 0 has to be kept.
pub fn fetch(missing: &[(u32, u32)]) -> Message {
    let missing = testkit::control::ranges(missing, Psn::new);
    Message::Fetch(Fetch { expected: Psn::new(0), missing })
}

/// A middle packet of a READ response.
pub fn response(headers: &Headers, qpn: u32, psn: u32) -> Vec<u8> {
    frame(headers, Opcode::READ_RESPONSE_MIDDLE, qpn, psn, &[psn as u8; 256])
}

/// PSNs of packets sent on `side`, control messages left out.
pub fn psns(sent: &[Sent], side: Side) -> Vec<u32> {
    let data = sent.iter().filter(|s| s.side == side && s.control().is_none());
    data.map(|s| s.roce().psn.get()).collect()
}

/// NAKs that the switch itself made for its host: QPN and PSN.
pub fn naks(sent: &[Sent]) -> Vec<(u32, u32)> {
    let made = sent.iter().filter(|s| s.side == Side::Lan && s.roce().opcode == Opcode::ACK);
    made.map(|s| s.roce()).map(|roce| (roce.dest_qpn.get(), roce.psn.get())).collect()
}
