//! A switch that is driven packet by packet.

use std::net::{IpAddr, Ipv4Addr};

use common::frame::{Class, Frame, Packet, Side, Sink};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Aeth, Bth, Headers, Opcode, Qpn, Response, Vlans, parse};

use super::NetRt;
use super::hop::{Gap, Message, Status, numbered, plain};
use crate::frame::SimFrame;
use crate::peers::Peer;

const FIRST: Psn = Psn::new(0xff_fffe);
const QPN: Qpn = Qpn::new(0x21);
const FRAME: u64 = 58 + 256;
/// With its number.
const ON_LINK: u64 = FRAME + 8;
const RTT: Span = Span::from_micros(100);
const PLENTY: u64 = 1 << 30;

/// Packets that the switch sent; PSNs counted from [`FIRST`].
#[derive(Clone, PartialEq, Eq, Debug)]
enum Sent {
    /// To the destination.
    Data(u32),
    /// Its number on the link, and its PSN.
    Numbered(u32, u32),
    Answer(u32),
    Message(Message),
}

#[derive(Default)]
struct Sends(Vec<Sent>);

impl Sink for Sends {
    type Frame = SimFrame;

    fn transmit(&mut self, side: Side, _: Class, packet: Packet<SimFrame>) {
        let frame = SimFrame::of(packet);
        if let Some(message) = Message::read(frame.bytes()) {
            assert_eq!(side, Side::Wan);
            return self.0.push(Sent::Message(message));
        }
        let roce = parse(frame.bytes()).expect("RoCE");
        let psn = roce.psn.distance(FIRST) as u32;
        self.0.push(match (Response::of(&roce, frame.bytes()), side) {
            (Some(_), _) => Sent::Answer(psn),
            (None, Side::Lan) => Sent::Data(psn),
            (None, Side::Wan) => Sent::Numbered(plain(&frame).expect("a number").1, psn),
        });
    }
}

fn headers(from: u8, to: u8) -> Headers {
    let ip = |host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
    let mac = |host| [2, 0, 0, 0, 0, host];
    Headers::new(mac(from), mac(to), Vlans::default(), ip(from), ip(to), 50_000, 0, 64)
}

fn data(psn: u32) -> SimFrame {
    let headers = headers(1, 2);
    let mut bytes = vec![0; headers.frame_len(256)];
    let bth = Bth::new(Opcode::WRITE_MIDDLE, QPN, FIRST.offset(psn));
    headers.emit(&bth, &mut bytes, |payload| payload.fill(7));
    bytes.into()
}

fn answer(psn: u32, syndrome: u8) -> SimFrame {
    let headers = headers(2, 1);
    let mut bytes = vec![0; headers.frame_len(Aeth::LEN)];
    let partner = Qpn::new(QPN.get() ^ 1);
    headers.emit_ack(partner, FIRST.offset(psn), Aeth { syndrome, msn: 0 }, &mut bytes);
    bytes.into()
}

fn status(expected: u32, gaps: &[Gap]) -> Message {
    Message::Status(Status { flow: 0, expected, gaps: gaps.to_vec() })
}

fn gone(gaps: &[Gap]) -> Message {
    Message::Gone { flow: 0, gaps: gaps.to_vec() }
}

struct Bench {
    switch: NetRt,
    now: Time,
}

impl Bench {
    fn new(bytes: u64) -> Self {
        Self { switch: NetRt::new(bytes, RTT), now: Time::from_nanos(1_000_000) }
    }

    fn receive(&mut self, side: Side, frame: SimFrame) -> Vec<Sent> {
        let mut sends = Sends::default();
        self.switch.receive(side, frame, self.now, &mut sends);
        sends.0
    }

    /// From the source.
    fn send(&mut self, psns: impl IntoIterator<Item = u32>) -> Vec<Sent> {
        psns.into_iter().flat_map(|psn| self.receive(Side::Lan, data(psn))).collect()
    }

    /// From the other switch; number and PSN are the same.
    fn arrive(&mut self, numbers: impl IntoIterator<Item = u32>) -> Vec<Sent> {
        let arrive = |n| self.receive(Side::Wan, numbered(&data(n), 0, n));
        numbers.into_iter().flat_map(arrive).collect()
    }

    fn tell(&mut self, message: &Message) -> Vec<Sent> {
        self.receive(Side::Wan, message.frame())
    }

    /// The frames that the next timer sends; none if the deadline was put off.
    fn timers(&mut self) -> Vec<Sent> {
        let mut sends = Sends::default();
        while sends.0.is_empty() {
            self.now = self.switch.next();
            assert_ne!(self.now, Time::NEVER);
            self.switch.timers(self.now, &mut sends);
        }
        sends.0
    }

    fn held(&self) -> [u64; 3] {
        let held = self.switch.held();
        [held.reorder_bytes, held.backup_bytes, held.cache_bytes]
    }
}

fn on_lan(psns: impl IntoIterator<Item = u32>) -> Vec<Sent> {
    psns.into_iter().map(Sent::Data).collect()
}

#[test]
fn a_message_is_read_as_it_was_written() {
    for message in [status(7, &[(7, 9), (11, 12)]), gone(&[(1, 4)]), status(0, &[])] {
        assert_eq!(Message::read(message.frame().bytes()), Some(message));
    }
    assert_eq!(Message::read(data(1).bytes()), None);
    let (flow, number, frame) = plain(&numbered(&data(3), 5, 6)).expect("it has a number");
    assert_eq!((flow, number, frame), (5, 6, data(3)));
}

#[test]
fn copies_are_resent_until_the_other_switch_has_them() {
    let mut bench = Bench::new(PLENTY);
    let sent = [0, 1, 2, 3].map(|n| Sent::Numbered(n, n));
    assert_eq!(bench.send(0..4), sent);
    bench.now += RTT * 2;
    assert_eq!(bench.tell(&status(1, &[(1, 3)])), sent[1..3]);
    // Asked for before the repeats had come.
    bench.now += RTT;
    assert_eq!(bench.tell(&status(1, &[(1, 3), (3, 4)])), sent[3..4]);
    bench.now += RTT.scale(1, 4);
    assert_eq!(bench.tell(&status(1, &[(1, 2)])), sent[1..2]);
    assert_eq!(bench.held(), [0, 0, 3 * ON_LINK]);
    // The numbers are the switch's own: a repeat of the source is another packet.
    assert_eq!(bench.send([1]), [Sent::Numbered(4, 1)]);
    assert_eq!(bench.tell(&status(5, &[])), []);
    assert_eq!(bench.held(), [0; 3]);
}

#[test]
fn a_tail_that_nothing_is_heard_of_is_resent() {
    let mut bench = Bench::new(PLENTY);
    bench.send(0..3);
    let from = bench.now;
    assert_eq!(bench.timers(), [Sent::Numbered(0, 0)]);
    assert_eq!(bench.now, from + RTT * 2);
    assert_eq!(bench.switch.next(), bench.now + RTT * 4);
}

#[test]
fn a_full_buffer_keeps_the_copies_it_has_and_says_what_is_gone() {
    let mut bench = Bench::new(2 * ON_LINK);
    bench.send(0..4);
    assert_eq!(bench.held()[2], 2 * ON_LINK);
    bench.now += RTT * 2;
    let answers = [Sent::Numbered(1, 1), Sent::Message(gone(&[(2, 3)]))];
    assert_eq!(bench.tell(&status(1, &[(1, 3)])), answers);
}

#[test]
fn packets_ahead_of_a_gap_wait_and_the_gap_is_asked_for_each_round_trip() {
    let mut bench = Bench::new(PLENTY);
    assert_eq!(bench.arrive([0]), on_lan([0]));
    assert_eq!(bench.arrive([3, 4]), [Sent::Message(status(1, &[(1, 3)]))]);
    assert_eq!(bench.arrive([6]), [Sent::Message(status(1, &[(1, 3), (5, 6)]))]);
    let asked = bench.now;
    assert_eq!(bench.arrive([1]), on_lan([1]));
    assert_eq!(bench.timers(), [Sent::Message(status(2, &[(2, 3), (5, 6)]))]);
    assert_eq!(bench.now, asked + RTT.scale(5, 4));
    assert_eq!(bench.arrive([2, 5]), on_lan(2..7));
    assert_eq!(bench.held(), [0, 7 * FRAME, 0]);
    // One that comes twice is told, and is not delivered again.
    assert_eq!(bench.arrive([3]), [Sent::Message(status(7, &[]))]);
}

#[test]
fn a_packet_ahead_that_finds_no_room_ends_the_wait() {
    let mut bench = Bench::new(2 * FRAME);
    assert_eq!(bench.arrive([0]), on_lan([0]));
    assert_eq!(bench.arrive([2]), [Sent::Message(status(1, &[(1, 2)]))]);
    assert_eq!(bench.arrive([4]), on_lan([2, 4]));
    // The destination's NAK has the source go back.
    bench.receive(Side::Lan, answer(0, Aeth::ACK_UNLIMITED));
    assert_eq!(bench.receive(Side::Lan, answer(1, Aeth::NAK_PSN_SEQUENCE)), [Sent::Answer(1)]);
    assert_eq!(bench.held()[0], 0);
}

/// The destination's NAK brings the source back, which none of the switches does.
#[test]
fn what_is_gone_is_the_destinations_and_the_sources() {
    let mut bench = Bench::new(PLENTY);
    bench.arrive([0, 2, 3]);
    assert_eq!(bench.tell(&gone(&[(1, 2)])), on_lan([2, 3]));
    bench.receive(Side::Lan, answer(0, Aeth::ACK_UNLIMITED));
    assert_eq!(bench.receive(Side::Lan, answer(1, Aeth::NAK_PSN_SEQUENCE)), [Sent::Answer(1)]);
}

#[test]
fn loss_behind_the_switch_is_repaired_there() {
    let mut bench = Bench::new(PLENTY);
    bench.arrive(0..5);
    assert_eq!(bench.receive(Side::Lan, answer(0, Aeth::ACK_UNLIMITED)), [Sent::Answer(0)]);
    assert_eq!(bench.receive(Side::Lan, answer(2, Aeth::NAK_PSN_SEQUENCE)), on_lan([2, 3, 4]));
    // The source goes back by its timer: the newer copy counts.
    let again = numbered(&data(3), 0, 5);
    assert_eq!(bench.receive(Side::Wan, again), on_lan([3]));
    assert_eq!(bench.held(), [0, 2 * FRAME, 0]);
}
