//! A box alone: its treatment of packets and responses, rule by rule.

use std::net::{IpAddr, Ipv4Addr};

use common::frame::{Class, Frame, Packet, Side, Sink};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Aeth, Bth, Headers, Opcode, Qpn, Vlans, has_switch_bit, parse};
use link::wire_bytes;

use super::Paper;
use crate::frame::SimFrame;
use crate::peers::Peer;
use crate::results::Pools;

/// Its requester's queue pair, and its responder's.
const REQUESTER: Qpn = Qpn::new(0x10);
const QPN: Qpn = REQUESTER.offset(1);
/// Just before the end of the PSN space.
const FIRST: Psn = Psn::new(0xff_fffe);
/// A packet takes a microsecond on the port towards the hosts.
const FRAME: u64 = 58 + 256;
const LAN_RATE: u64 = wire_bytes(FRAME as usize) * 8 * 1_000_000;
const LOCAL_RTT: Span = Span::from_micros(5);
const PLENTY: u64 = 1 << 30;

/// Packets that the box sent; PSNs counted from [`FIRST`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    Data(Side, u32),
    /// The first that is missing, and how many are.
    Nak(Side, u32, u32),
    Ack(Side, u32),
}

#[derive(Default)]
struct Sends(Vec<(Sent, Class)>);

impl Sink for Sends {
    type Frame = SimFrame;

    fn transmit(&mut self, side: Side, class: Class, packet: Packet<SimFrame>) {
        let frame = SimFrame::of(packet);
        let roce = parse(frame.bytes()).expect("RoCE");
        let psn = roce.psn.distance(FIRST) as u32;
        let sent = match common::wire::Response::of(&roce, frame.bytes()) {
            Some(response) if response.is_nak() => {
                Sent::Nak(side, psn, response.msn.unwrap_or_default())
            }
            Some(_) => Sent::Ack(side, psn),
            None => Sent::Data(side, psn),
        };
        self.0.push((sent, class));
    }
}

fn headers(from: u8, to: u8) -> Headers {
    let ip = |host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
    let mac = |host| [2, 0, 0, 0, 0, host];
    Headers::new(mac(from), mac(to), Vlans::default(), ip(from), ip(to), 50_000, 0, 64)
}

fn data(n: u32, ack_req: bool, is_repeat: bool) -> SimFrame {
    let mut headers = headers(1, 2);
    headers.set_switch_bit(is_repeat);
    let bth = Bth { ack_req, ..Bth::new(Opcode::WRITE_MIDDLE, QPN, FIRST.offset(n)) };
    let mut bytes = vec![0; headers.frame_len(256)];
    headers.emit(&bth, &mut bytes, |payload| payload.fill(7));
    SimFrame::from(bytes)
}

fn respond(n: u32, syndrome: u8, count: u32, of_switch: bool) -> SimFrame {
    let mut headers = headers(2, 1);
    headers.set_switch_bit(of_switch);
    let mut bytes = vec![0; headers.frame_len(Aeth::LEN)];
    let aeth = Aeth { syndrome, msn: count };
    headers.emit_ack(REQUESTER, FIRST.offset(n), aeth, &mut bytes);
    SimFrame::from(bytes)
}

struct Bench {
    paper: Paper,
    now: Time,
}

impl Bench {
    fn new(reorder: u64, backup: u64) -> Self {
        let paper = Paper::new(reorder, backup, LOCAL_RTT, LAN_RATE);
        Self { paper, now: Time::from_nanos(1_000_000) }
    }

    fn receive(&mut self, side: Side, frame: SimFrame) -> Vec<Sent> {
        let mut sends = Sends::default();
        self.paper.receive(side, frame, self.now, &mut sends);
        sends.0.into_iter().map(|(sent, _)| sent).collect()
    }

    /// From the other site.
    fn arrive(&mut self, psns: impl IntoIterator<Item = u32>) -> Vec<Sent> {
        psns.into_iter().flat_map(|n| self.receive(Side::Wan, data(n, false, false))).collect()
    }

    fn nak(&mut self, n: u32) -> Vec<Sent> {
        self.receive(Side::Lan, respond(n, Aeth::NAK_PSN_SEQUENCE, 0, false))
    }

    fn timers(&mut self) -> Vec<Sent> {
        let mut sends = Sends::default();
        self.paper.timers(self.now, &mut sends);
        sends.0.into_iter().map(|(sent, _)| sent).collect()
    }
}

fn on_lan(psns: impl IntoIterator<Item = u32>) -> Vec<Sent> {
    psns.into_iter().map(|n| Sent::Data(Side::Lan, n)).collect()
}

#[test]
fn each_gap_is_named_once_and_nobody_asks_again() {
    let mut bench = Bench::new(PLENTY, PLENTY);
    assert_eq!(bench.arrive([0]), on_lan([0]));
    assert_eq!(bench.arrive([3, 4]), [Sent::Nak(Side::Wan, 1, 2)]);
    assert_eq!(bench.arrive([6]), [Sent::Nak(Side::Wan, 5, 1)]);
    // Of the two repeats one is lost: silence, with no timer to end it.
    assert_eq!(bench.arrive([1]), on_lan([1]));
    assert_eq!(bench.arrive([7, 8]), []);
    assert_eq!(bench.paper.next(), Time::NEVER);
    // The source's timeout does.
    assert_eq!(bench.arrive([2]), on_lan([2, 3, 4]));
    assert_eq!(bench.arrive([5]), on_lan([5, 6, 7, 8]));
    assert_eq!(bench.paper.held(), Pools { backup_bytes: 9 * FRAME, ..Pools::default() });
}

#[test]
fn what_found_no_room_is_named_at_once_when_nothing_waits_any_more() {
    let mut bench = Bench::new(2 * FRAME, PLENTY);
    assert_eq!(bench.arrive([0]), on_lan([0]));
    assert_eq!(bench.arrive([2, 3, 4, 5]), [Sent::Nak(Side::Wan, 1, 1)]);
    assert_eq!(bench.paper.held().reorder_bytes, 2 * FRAME);
    let mut expected = on_lan([1, 2, 3]);
    expected.push(Sent::Nak(Side::Wan, 4, 2));
    assert_eq!(bench.arrive([1]), expected);
    // Once, like any gap.
    assert_eq!(bench.arrive([6, 4, 5]), on_lan([4, 5, 6]));
}

#[test]
fn all_flows_share_the_pool() {
    let mut bench = Bench::new(FRAME, PLENTY);
    bench.arrive([0, 2]);
    let other = |n| {
        let mut frame = data(n, false, false);
        let bth = Bth::new(Opcode::WRITE_MIDDLE, QPN.offset(2), FIRST.offset(n));
        headers(1, 2).emit(&bth, frame.bytes_mut(), |payload| payload.fill(7));
        frame
    };
    assert_eq!(bench.receive(Side::Wan, other(0)), on_lan([0]));
    assert_eq!(bench.receive(Side::Wan, other(2)), []);
    assert_eq!(bench.paper.held().reorder_bytes, FRAME);
}

#[test]
fn its_timer_counts_from_when_the_packet_has_left_and_doubles() {
    let mut bench = Bench::new(PLENTY, PLENTY);
    bench.arrive(0..4);
    // Behind four packets, a microsecond each.
    assert_eq!(bench.receive(Side::Wan, data(4, true, false)), on_lan([4]));
    let patience = LOCAL_RTT * 2;
    let left = bench.now + Span::from_micros(5);
    assert_eq!(bench.paper.next(), left + patience);
    bench.now = left + patience - Span::from_nanos(1);
    assert_eq!(bench.timers(), []);
    bench.now += Span::from_nanos(1);
    assert_eq!(bench.timers(), on_lan(0..5));
    assert_eq!(bench.paper.next(), bench.now + Span::from_micros(5) + patience * 2);
    // An ACK ends it.
    let ack = respond(4, Aeth::ACK_UNLIMITED, 0, false);
    assert_eq!(bench.receive(Side::Lan, ack), [Sent::Ack(Side::Wan, 4)]);
    bench.now += Span::from_millis(1);
    assert_eq!(bench.timers(), []);
    assert_eq!(bench.paper.held(), Pools::default());
}

#[test]
fn a_full_backup_pool_forgets_the_oldest_and_what_it_lacks_is_the_sources() {
    let mut bench = Bench::new(PLENTY, 2 * FRAME);
    bench.arrive(0..4);
    assert_eq!(bench.nak(2), on_lan([2, 3]));
    let mut bench = Bench::new(PLENTY, 2 * FRAME);
    bench.arrive(0..4);
    assert_eq!(bench.nak(1), [Sent::Nak(Side::Wan, 1, 0)]);
}

#[test]
fn the_sentry_lets_pass_what_was_named_and_what_no_switch_asked_for() {
    let mut bench = Bench::new(PLENTY, PLENTY);
    for n in 0..6 {
        assert_eq!(bench.receive(Side::Lan, data(n, false, false)), [Sent::Data(Side::Wan, n)]);
    }
    let nack = respond(1, Aeth::NAK_PSN_SEQUENCE, 2, true);
    assert!(has_switch_bit(nack.bytes(), &parse(nack.bytes()).expect("RoCE")));
    assert_eq!(bench.receive(Side::Wan, nack), [Sent::Nak(Side::Lan, 1, 2)]);
    let repeat = |bench: &mut Bench, marked| -> Vec<Sent> {
        (1..6).flat_map(|n| bench.receive(Side::Lan, data(n, false, marked))).collect()
    };
    let on_wan = |n| Sent::Data(Side::Wan, n);
    assert_eq!(repeat(&mut bench, true), [1, 2].map(on_wan));
    assert_eq!(repeat(&mut bench, true), []);
    assert_eq!(repeat(&mut bench, false), [1, 2, 3, 4, 5].map(on_wan));
}

#[test]
fn the_sentry_reports_a_gap_before_it_at_once_and_once() {
    let mut bench = Bench::new(PLENTY, PLENTY);
    bench.receive(Side::Lan, data(0, false, false));
    assert_eq!(bench.receive(Side::Lan, data(2, false, false)), [Sent::Nak(Side::Lan, 1, 1)]);
    assert_eq!(bench.receive(Side::Lan, data(3, false, false)), []);
    assert_eq!(bench.receive(Side::Lan, data(1, false, true)), [Sent::Data(Side::Wan, 1)]);
}
