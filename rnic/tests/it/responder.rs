//! The rules of the responder, one by one, and how a port treats frames
//! that are not for it.

use crate::support::{Seen, World, drain, look, mac, send, work};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{AtomicEth, Bth, Headers, Opcode, Qpn, Reth, Vlans};
use rnic::{AckCoalescing, Nic, NicConfig, QpConfig, QpId, Region, Status, WorkKind, lab_ip};

const PMTU: u32 = 256;
const NAK: u8 = 0x60;

/// A sender, a receiver, and a hand in between. PSNs from 0 both ways.
struct Bench {
    nics: [Nic; 2],
    qp: QpId,
    now: Time,
}

impl Bench {
    fn new(change: impl FnOnce(&mut QpConfig)) -> Self {
        let mut world = World::new(None, Span::ZERO);
        let qp = world.add_qp(0, |c| {
            c.pmtu = PMTU;
            c.window = 1000;
            change(c);
        });
        Self { nics: world.nics, qp, now: Time::ZERO }
    }

    fn post(&mut self, kind: WorkKind, len: u32) {
        self.nics[0].post(self.qp, work(kind, len), self.now).unwrap();
    }

    /// The packets of one SEND of `n` packets.
    fn packets(&mut self, n: u32) -> Vec<Vec<u8>> {
        self.post(WorkKind::Send, n * PMTU);
        drain(&mut self.nics[0], self.now)
    }

    /// Gives a packet to the receiver. Returns its responses.
    fn give(&mut self, frame: &[u8]) -> Vec<Seen> {
        self.nics[1].receive(frame, self.now);
        self.answers()
    }

    fn answers(&mut self) -> Vec<Seen> {
        drain(&mut self.nics[1], self.now).iter().map(|frame| look(frame)).collect()
    }

    /// Gives the receiver's answers to the sender. How its requests ended.
    fn settle(&mut self) -> Vec<Status> {
        for frame in drain(&mut self.nics[1], self.now) {
            self.nics[0].receive(&frame, self.now);
        }
        std::iter::from_fn(|| self.nics[0].poll_completion()).map(|c| c.status).collect()
    }

    fn stats(&self) -> rnic::ResponderStats {
        self.nics[1].stats(self.qp).responder
    }

    /// A packet as nobody sends it.
    fn craft(&self, opcode: Opcode, psn: u32, pad: u8, body: &[u8]) -> Vec<u8> {
        let headers =
            Headers::new(mac(1), mac(2), Vlans::NONE, lab_ip(1), lab_ip(2), 50_000, 0, 64);
        let mut frame = vec![0; headers.frame_len(body.len())];
        let bth = Bth { pad, ..Bth::new(opcode, Qpn::new(0x200), Psn::new(psn)) };
        headers.emit(&bth, &mut frame, |out| out.copy_from_slice(body));
        frame
    }
}

#[test]
fn one_nak_per_gap() {
    let mut bench = Bench::new(|_| ());
    let packets = bench.packets(8);
    assert_eq!(bench.give(&packets[0]), []);
    assert_eq!(bench.give(&packets[2]), [Seen::Ack(1, NAK, 0)]);
    for packet in &packets[3..] {
        assert_eq!(bench.give(packet), []);
    }
    // The expected one arrives; the next gap has its own NAK.
    assert_eq!(bench.give(&packets[1]), []);
    assert_eq!(bench.give(&packets[4]), [Seen::Ack(2, NAK, 0)]);
    assert_eq!(bench.stats().out_of_sequence, 7);
    assert_eq!(bench.stats().naks, 2);
}

#[test]
fn a_simulated_nic_naks_again() {
    let mut bench = Bench::new(|c| c.re_nak = Some(Span::from_micros(4)));
    let packets = bench.packets(3);
    assert_eq!(bench.give(&packets[1]), [Seen::Ack(0, NAK, 0)]);
    bench.now += Span::from_micros(3);
    assert_eq!(bench.give(&packets[1]), []);
    bench.now += Span::from_micros(1);
    assert_eq!(bench.give(&packets[2]), [Seen::Ack(0, NAK, 0)]);
}

#[test]
fn duplicates_are_acknowledged_with_the_newest_packet() {
    let mut bench = Bench::new(|_| ());
    let packets = bench.packets(4);
    for packet in &packets[..3] {
        assert_eq!(bench.give(packet), []);
    }
    // Whether they ask or not.
    assert_eq!(bench.give(&packets[0]), [Seen::Ack(2, 0x1f, 0)]);
    assert_eq!(bench.give(&packets[2]), [Seen::Ack(2, 0x1f, 0)]);
    assert_eq!(bench.give(&packets[3]), [Seen::Ack(3, 0x1f, 1)]);
    assert_eq!(bench.nics[1].poll_received().map(|r| r.corrupt_bytes), Some(0));
    assert_eq!(bench.give(&packets[3]), [Seen::Ack(3, 0x1f, 1)]);
    assert_eq!(bench.nics[1].poll_received(), None);
    assert_eq!(bench.stats().duplicates, 3);
}

#[test]
fn equal_acks_that_wait_for_the_port_are_sent_once() {
    let mut bench = Bench::new(|_| ());
    let packets = bench.packets(3);
    for packet in packets.iter().chain(&packets) {
        bench.nics[1].receive(packet, bench.now);
    }
    assert_eq!(bench.answers(), [Seen::Ack(2, 0x1f, 1)]);
}

#[test]
fn acks_are_coalesced_by_number_and_by_time() {
    let delay = Span::from_micros(50);
    let mut bench = Bench::new(|c| {
        c.ack_req_every = 1;
        c.ack_coalescing = AckCoalescing { packets: 3, delay };
    });
    let packets = bench.packets(10);
    let answers: Vec<_> = packets[..6].iter().map(|packet| bench.give(packet)).collect();
    let by_number = [vec![], vec![], vec![Seen::Ack(2, 0x1f, 0)]];
    assert_eq!(answers[..3], by_number);
    assert_eq!(answers[3..], [vec![], vec![], vec![Seen::Ack(5, 0x1f, 0)]]);
    // From the first that is unanswered.
    bench.now += delay * 2;
    let due = bench.now + delay;
    assert_eq!(bench.give(&packets[6]), []);
    bench.now += delay / 2;
    assert_eq!(bench.give(&packets[7]), []);
    bench.nics[1].on_timers(bench.now);
    assert_eq!(bench.answers(), []);
    assert_eq!(bench.nics[1].next_deadline(), Some(due));
    bench.now = due;
    bench.nics[1].on_timers(bench.now);
    assert_eq!(bench.answers(), [Seen::Ack(7, 0x1f, 0)]);
    assert_eq!(bench.nics[1].next_deadline(), None);
    // A NAK covers owed ACKs.
    assert_eq!(bench.give(&packets[8]), []);
    assert_eq!(bench.give(&packets[9]), []);
    let later = bench.packets(2);
    assert_eq!(bench.give(&later[1]), [Seen::Ack(10, NAK, 1)]);
    bench.now += delay;
    bench.nics[1].on_timers(bench.now);
    assert_eq!(bench.answers(), []);
}

#[test]
fn the_ack_lag_is_measured() {
    let mut bench = Bench::new(|c| c.ack_req_every = 10);
    for packet in bench.packets(100) {
        bench.give(&packet);
    }
    // 1 to 9 packets and none after the tenth.
    assert_eq!(bench.stats().mean_ack_lag(), 4.5);
}

#[test]
fn acks_leave_before_data() {
    let mut bench = Bench::new(|_| ());
    let packets = bench.packets(1);
    let (qp, now) = (bench.qp, bench.now);
    let work = send(1);
    bench.nics[1].post(qp, work, now).unwrap();
    let seen = bench.give(&packets[0]);
    assert_eq!(seen, [Seen::Ack(0, 0x1f, 1), Seen::Data(Opcode::SEND_ONLY, 0, true)]);
}

#[test]
fn qps_take_turns() {
    let mut world = World::new(None, Span::ZERO);
    let qps = [0, 1, 2].map(|n| world.add_qp(n, |c| c.send_psn = Psn::new(1000 * n)));
    for qp in qps {
        let work = send(3 * 1024);
        world.nics[0].post(qp, work, Time::ZERO).unwrap();
    }
    let psns: Vec<_> = drain(&mut world.nics[0], Time::ZERO)
        .iter()
        .map(|frame| match look(frame) {
            Seen::Data(_, psn, _) => psn,
            Seen::Ack(..) => unreachable!("nothing was received"),
        })
        .collect();
    assert_eq!(psns, [0, 1000, 2000, 1, 1001, 2001, 2, 1002, 2002]);
}

#[test]
fn wrong_content_is_noticed() {
    let mut sender = Bench::new(|c| c.content_seed = 1);
    let mut receiver = Bench::new(|c| c.content_seed = 2);
    let packets = sender.packets(2);
    for packet in &packets {
        receiver.give(packet);
    }
    let received = receiver.nics[1].poll_received().unwrap();
    assert!(received.corrupt_bytes > 480, "{received:?}");
    assert_eq!(receiver.stats().corrupt_messages, 1);
    assert_eq!(receiver.stats().corrupt_bytes, received.corrupt_bytes);
}

#[test]
fn a_write_outside_the_region_is_refused() {
    type Change = fn(&mut Region);
    let changes: [Change; 3] = [|r| r.rkey ^= 1, |r| r.va += 1, |r| r.va -= 1];
    for change in changes {
        let len = 1000;
        let mut bench = Bench::new(|c| {
            c.remote_region = Region { len: 1000, ..Region::DEFAULT };
            c.local_region = c.remote_region;
            change(&mut c.remote_region);
            // Host 2's side has the same `local_region`.
        });
        bench.post(WorkKind::Write, 0); // A WRITE of nothing goes anywhere.
        bench.post(WorkKind::Write, len);
        bench.post(WorkKind::Write, len);
        for packet in drain(&mut bench.nics[0], bench.now) {
            bench.nics[1].receive(&packet, bench.now);
        }
        assert_eq!(bench.settle(), [Status::Ok, Status::RemoteAccess, Status::Flushed]);
        assert!(bench.nics.iter().all(|nic| nic.has_failed(bench.qp)));
        assert_eq!(bench.nics[1].port_stats().qp_in_error, 7);
    }
}

/// Opcode, pad count and the bytes behind the BTH.
type Crafted = (Opcode, u8, Vec<u8>);

#[test]
fn requests_that_cannot_be_are_refused() {
    let full = [0; PMTU as usize];
    let reth = |len| Reth { va: Region::DEFAULT.va, rkey: Region::DEFAULT.rkey, len }.to_bytes();
    let atomic = |offset| {
        let Region { va, rkey, .. } = Region::DEFAULT;
        AtomicEth { va: va + offset, rkey, swap_add: 1, compare: 0 }.to_bytes().to_vec()
    };
    let with_reth = |len, payload: &[u8]| [&reth(len)[..], payload].concat();
    // Sequences of packets, of which the last one is refused.
    let cases: Vec<(&str, Vec<Crafted>)> = vec![
        ("last without first", vec![(Opcode::SEND_LAST, 0, full.to_vec())]),
        ("middle without first", vec![(Opcode::WRITE_MIDDLE, 0, full.to_vec())]),
        (
            "first after first",
            vec![(Opcode::SEND_FIRST, 0, full.to_vec()), (Opcode::SEND_FIRST, 0, full.to_vec())],
        ),
        (
            "write within send",
            vec![(Opcode::SEND_FIRST, 0, full.to_vec()), (Opcode::WRITE_MIDDLE, 0, full.to_vec())],
        ),
        ("short first", vec![(Opcode::SEND_FIRST, 0, full[4..].to_vec())]),
        ("padded first", vec![(Opcode::SEND_FIRST, 1, full.to_vec())]),
        ("only longer than the PMTU", vec![(Opcode::SEND_ONLY, 0, vec![0; 260])]),
        (
            "empty last",
            vec![(Opcode::SEND_FIRST, 0, full.to_vec()), (Opcode::SEND_LAST, 0, vec![])],
        ),
        ("shorter than announced", vec![(Opcode::WRITE_ONLY, 0, with_reth(8, &[0; 4]))]),
        ("longer than announced", vec![(Opcode::WRITE_FIRST, 0, with_reth(255, &full))]),
        ("a READ, not allowed", vec![(Opcode::READ_REQUEST, 0, reth(8).to_vec())]),
        ("an atomic, not allowed", vec![(Opcode::FETCH_ADD, 0, atomic(0))]),
        ("a misaligned atomic", vec![(Opcode::COMPARE_SWAP, 0, atomic(4))]),
        ("a READ of too much", vec![(Opcode::READ_REQUEST, 0, reth((1 << 31) + 1).to_vec())]),
        (
            "a READ within a message",
            vec![
                (Opcode::SEND_FIRST, 0, full.to_vec()),
                (Opcode::READ_REQUEST, 0, reth(8).to_vec()),
            ],
        ),
        (
            "an atomic within a message",
            vec![(Opcode::SEND_FIRST, 0, full.to_vec()), (Opcode::FETCH_ADD, 0, atomic(0))],
        ),
        ("an atomic write", vec![(Opcode::ATOMIC_WRITE, 0, with_reth(8, &[0; 8]))]),
    ];
    for (what, packets) in cases {
        let mut bench =
            Bench::new(|c| c.max_rd_atomic = if what.contains("not allowed") { 0 } else { 16 });
        let last = packets.len() as u32 - 1;
        for (psn, (opcode, pad, body)) in (0..).zip(packets) {
            let frame = bench.craft(opcode, psn, pad, &body);
            let answers = bench.give(&frame);
            let refused = vec![Seen::Ack(psn, 0x61, 0)];
            assert_eq!(answers, if psn == last { refused } else { vec![] }, "{what}");
        }
        assert_eq!(bench.stats().refused, 1, "{what}");
        assert!(bench.nics[1].has_failed(bench.qp), "{what}");
    }
}

#[test]
fn a_refusal_that_waits_for_the_port_is_sent_whatever_the_timers() {
    let mut bench = Bench::new(|_| ());
    let (qp, now) = (bench.qp, bench.now);
    let work = send(1);
    bench.nics[1].post(qp, work, now).unwrap();
    assert_eq!(bench.answers(), [Seen::Data(Opcode::SEND_ONLY, 0, true)]);
    let frame = bench.craft(Opcode::SEND_LAST, 0, 0, &[0; 4]);
    bench.nics[1].receive(&frame, now);
    bench.now += Span::from_millis(1_000);
    bench.nics[1].on_timers(bench.now);
    assert_eq!(bench.answers(), [Seen::Ack(0, 0x61, 0)]);
}

#[test]
fn immediate_data_and_invalidation_make_no_difference() {
    let mut bench = Bench::new(|_| ());
    let packets = bench.packets(1);
    let payload = &packets[0][54..54 + PMTU as usize];
    for opcode in [Opcode::SEND_ONLY_IMM, Opcode::SEND_ONLY_INVALIDATE] {
        let mut other = Bench::new(|_| ());
        let frame = other.craft(opcode, 0, 0, &[&[0; 4], payload].concat());
        other.give(&frame);
        let received = other.nics[1].poll_received().unwrap();
        assert_eq!((received.len, received.corrupt_bytes), (PMTU, 0), "{opcode:?}");
    }
}

#[test]
fn frames_that_are_not_for_a_qp_are_counted_and_dropped() {
    let mut bench = Bench::new(|_| ());
    let good = bench.packets(1).remove(0);
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    let vendor = bench.craft(Opcode(0xe1), 0, 0, &[]);
    let undefined = bench.craft(Opcode(0x1f), 0, 0, &[]);
    let last = good.len() - 1;
    let frames = [
        with(5, 9),              // another MAC address
        with(33, 9),             // to another IP address
        with(29, 9),             // from another IP address
        with(47, 9),             // another QP
        with(60, good[60] ^ 1),  // damaged payload
        with(last, !good[last]), // damaged ICRC
        with(13, 6),             // ARP
        with(43, good[43] ^ 1),  // another transport version
        good[..80].to_vec(),     // truncated
        vendor,
        undefined,
    ];
    for frame in &frames {
        assert_eq!(bench.give(frame), []);
    }
    let stats = *bench.nics[1].port_stats();
    assert_eq!(stats.not_ours, 3);
    assert_eq!(stats.unknown_qp, 1);
    assert_eq!(stats.bad_icrc, 2);
    assert_eq!(stats.not_roce, 1);
    assert_eq!(stats.malformed, 2);
    assert_eq!(stats.unknown_opcode, 2);
    assert_eq!(stats.frames_in, frames.len() as u64);
    assert_eq!(bench.stats(), rnic::ResponderStats::default());
    // Nothing of this has harmed the QP.
    assert_eq!(bench.give(&good), [Seen::Ack(0, 0x1f, 1)]);
}

#[test]
fn a_response_that_nothing_asked_for_ends_the_qp() {
    let mut bench = Bench::new(|_| ());
    bench.packets(2);
    let headers = Headers::new(mac(2), mac(1), Vlans::NONE, lab_ip(2), lab_ip(1), 50_000, 0, 64);
    let mut frame = vec![0; headers.frame_len(0)];
    let bth = Bth::new(Opcode::READ_RESPONSE_MIDDLE, Qpn::new(0x100), Psn::new(0));
    headers.emit(&bth, &mut frame, |_| ());
    bench.nics[0].receive(&frame, bench.now);
    assert_eq!(bench.settle(), [Status::BadResponse]);
}

#[test]
fn a_qp_lives_again() {
    let mut bench = Bench::new(|_| ());
    let old = bench.packets(3);
    bench.give(&old[0]);
    let (qp, now) = (bench.qp, bench.now);
    for nic in &mut bench.nics {
        nic.reset_qp(qp, Psn::new(1), Psn::new(1), now);
    }
    assert_eq!(bench.settle(), [Status::Flushed]);
    let new = bench.packets(3);
    for packet in &new[..2] {
        bench.give(packet);
    }
    assert_eq!(bench.give(&new[2]), [Seen::Ack(3, 0x1f, 1)]);
    assert_eq!(bench.nics[1].poll_received().map(|r| (r.index, r.corrupt_bytes)), Some((0, 0)));
    assert_eq!(bench.stats().accepted, 4, "statistics go on");

    // A packet of an earlier incarnation shows as corruption, even at the same PSN.
    let (now, send_psn) = (bench.now, Psn::new(0x80_0000));
    for nic in &mut bench.nics {
        nic.reset_qp(qp, send_psn, Psn::new(0), now);
    }
    let held = bench.craft(Opcode::SEND_ONLY, 0, 0, &old[0][54..54 + PMTU as usize]);
    bench.give(&held);
    assert_eq!(bench.stats().corrupt_messages, 1);
}

#[test]
fn acks_of_one_incarnation_are_not_sent_in_the_next() {
    let mut bench = Bench::new(|_| ());
    let old = bench.packets(1);
    bench.nics[1].receive(&old[0], bench.now); // The ACK waits for the port.
    let (qp, now) = (bench.qp, bench.now);
    for nic in &mut bench.nics {
        nic.reset_qp(qp, Psn::new(0), Psn::new(0), now);
    }
    assert_eq!(bench.answers(), []);
    // An equal ACK in the new incarnation is its own.
    let new = bench.packets(1);
    assert_eq!(bench.give(&new[0]), [Seen::Ack(0, 0x1f, 1)]);
}

#[test]
fn a_qp_number_is_used_once() {
    let mut nic = Nic::new(NicConfig::new(mac(1), lab_ip(1)));
    let config = QpConfig::new(Qpn::new(1), Qpn::new(2), mac(2), lab_ip(2));
    nic.add_qp(config.clone()).unwrap();
    assert_eq!(nic.add_qp(config), Err(rnic::QpError::Duplicate(Qpn::new(1))));
}

#[test]
fn ipv6_and_vlan_tags() {
    let ips = ["fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()];
    let mut nics = [0, 1].map(|i| Nic::new(NicConfig::new(mac(i as u8 + 1), ips[i])));
    let mut config = QpConfig::new(Qpn::new(1), Qpn::new(2), mac(2), ips[1]);
    config.vlans = Vlans::new(100, 7);
    let mut peer = QpConfig::new(Qpn::new(2), Qpn::new(1), mac(1), ips[0]);
    peer.vlans = config.vlans;
    let qp = nics[0].add_qp(config).unwrap();
    nics[1].add_qp(peer).unwrap();
    let work = work(WorkKind::Write, 10_001);
    nics[0].post(qp, work, Time::ZERO).unwrap();
    for (from, to) in [(0, 1), (1, 0)] {
        for frame in drain(&mut nics[from], Time::ZERO) {
            nics[to].receive(&frame, Time::ZERO);
        }
    }
    assert_eq!(nics[1].poll_received().map(|r| (r.len, r.corrupt_bytes)), Some((10_001, 0)));
    assert_eq!(nics[0].poll_completion().map(|c| c.status), Some(Status::Ok));
}
