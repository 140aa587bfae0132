//! Congestion control on frames: marks, CNPs, and the pace that follows.

use std::collections::VecDeque;

use crate::support::{World, drain, mac, read, send};
use common::frame::Frame;
use common::heap::HeapPool;
use common::time::{Span, Time};
use common::wire::{Opcode, Qpn, icrc_ok, parse};
use rnic::{Dcqcn, Nic, NicConfig, QpConfig, QpId, lab_ip};

const PMTU: u32 = 1024;
const RATE: u64 = 1_000_000_000;
/// A full packet of a SEND on the wire at `RATE`: 1082 + 24 bytes.
const PACKET: Span = Span::from_nanos(8_848);
/// ToS of an untagged IPv4 frame.
const TOS: usize = 15;

/// No increase of the rate within the time of a test.
const STILL: Dcqcn = Dcqcn { rate_timer: Span::from_millis(10_000), ..Dcqcn::DEFAULT };

fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

fn mark(frame: &mut [u8]) {
    frame[TOS] |= 3;
}

/// Two NICs of 1 Gbit/s with `qps` QPs, all with `dcqcn` but those in `without`.
fn world(qps: u32, dcqcn: Dcqcn, without: &[u32]) -> (World, Vec<QpId>) {
    let mut world = World::new(Some(RATE), Span::ZERO);
    let ids = (0..qps).map(|n| {
        world.add_qp(n, |c| {
            c.pmtu = PMTU;
            c.window = 1 << 20;
            c.tos = 26 << 2 | 1;
            c.dcqcn = (!without.contains(&n)).then_some(dcqcn);
        })
    });
    let ids = ids.collect();
    (world, ids)
}

/// The frames that `nic` sends until `end`, with their times.
fn run(nic: &mut Nic, from: Time, end: Time) -> Vec<(Time, Vec<u8>)> {
    let mut now = from;
    let mut sent = Vec::new();
    while now < end {
        while let Some(frame) = nic.poll_transmit(now, &mut HeapPool) {
            sent.push((now, frame.bytes().to_vec()));
        }
        let Some(next) = nic.next_deadline() else { break };
        assert!(next > now, "it says when, and means it");
        now = next;
    }
    sent
}

#[test]
fn a_mark_brings_a_cnp_ahead_of_the_ack() {
    let (mut world, qps) = world(1, STILL, &[]);
    let [a, b] = &mut world.nics;
    a.post(qps[0], send(1), at(0)).unwrap();
    let mut request = drain(a, at(0)).remove(0);
    assert_eq!(request[TOS], 26 << 2 | 2, "data is ECN-capable");
    mark(&mut request);
    b.receive(&request, at(1));
    let sent: Vec<_> = run(b, at(1), at(100)).into_iter().map(|(_, frame)| frame).collect();
    let [cnp, ack] = &sent[..] else { panic!("a CNP and an ACK, not {}", sent.len()) };
    let roce = parse(cnp).unwrap();
    assert!(icrc_ok(cnp, &roce));
    assert_eq!(
        (roce.opcode, roce.dest_qpn.get(), roce.payload(cnp)),
        (Opcode::CNP, 0x100, &[0; 16][..])
    );
    assert_eq!((cnp[TOS], cnp[usize::from(roce.bth) + 4]), (48 << 2, 0x40), "DSCP 48, BECN");
    assert_eq!((parse(ack).unwrap().opcode, ack[TOS]), (Opcode::ACK, 26 << 2 | 1));
    assert_eq!(b.stats(qps[0]).responder.cnps, 1);

    assert_eq!(a.rate(qps[0], at(2)), Some(RATE));
    a.receive(cnp, at(2));
    assert_eq!(a.rate(qps[0], at(2)), Some(RATE / 2));
    a.reset_qp(qps[0], Default::default(), Default::default(), at(2));
    assert_eq!(a.rate(qps[0], at(2)), Some(RATE));
    assert_eq!(a.stats(qps[0]).requester.cnps, 1);
    assert_eq!(a.port_stats().unknown_opcode, 0);
}

#[test]
fn cnps_keep_their_interval_per_qp() {
    let (mut world, qps) = world(2, STILL, &[]);
    let [a, b] = &mut world.nics;
    for qp in &qps {
        a.post(*qp, send(100 * PMTU), at(0)).unwrap();
    }
    let mut cnps = [0; 2];
    let mut now = at(0);
    for (n, (_, mut frame)) in run(a, now, at(10_000)).into_iter().enumerate() {
        // One packet per microsecond, by turns; every one is marked.
        now = at(n as u64);
        mark(&mut frame);
        b.receive(&frame, now);
        for (_, frame) in run(b, now, now + Span::from_nanos(1)) {
            let roce = parse(&frame).unwrap();
            if roce.opcode == Opcode::CNP {
                cnps[roce.dest_qpn.get() as usize & 1] += 1;
            }
        }
    }
    // 200 µs at one in 4 µs; the port takes its time for each.
    assert!(cnps.iter().all(|n| (45..=50).contains(n)), "{cnps:?}");
}

#[test]
fn marked_read_data_is_answered_too_and_paced_too() {
    let (mut world, qps) = world(1, STILL, &[]);
    let [a, b] = &mut world.nics;
    a.post(qps[0], read(20 * PMTU), at(0)).unwrap();
    b.receive(&drain(a, at(0))[0], at(1));
    let mut first = b.poll_transmit(at(1), &mut HeapPool).unwrap();
    mark(first.bytes_mut());
    a.receive(first.bytes(), at(2));
    let cnp = run(a, at(2), at(3)).remove(0).1;
    assert_eq!(parse(&cnp).unwrap().opcode, Opcode::CNP);
    assert_eq!(a.stats(qps[0]).responder.cnps, 1);
    b.receive(&cnp, at(3));
    let data = run(b, at(3), at(1_000));
    assert_eq!(data.len(), 19);
    let gaps: Vec<_> = data.windows(2).map(|two| two[1].0.since(two[0].0)).collect();
    assert!(gaps.iter().skip(1).all(|gap| *gap == PACKET * 2), "half the rate: {gaps:?}");
}

#[test]
fn a_slow_qp_keeps_its_pace_and_blocks_nobody() {
    let (mut world, qps) = world(2, STILL, &[1]);
    let [a, b] = &mut world.nics;
    for qp in &qps {
        a.post(*qp, send(1_000 * PMTU), at(0)).unwrap();
    }
    // A CNP for the first QP, made of the other NIC: half of the line.
    let mut request = a.poll_transmit(at(0), &mut HeapPool).unwrap();
    mark(request.bytes_mut());
    b.receive(request.bytes(), at(0));
    let cnp = b.poll_transmit(at(0), &mut HeapPool).unwrap();
    a.receive(cnp.bytes(), at(0));
    a.receive(cnp.bytes(), at(0)); // α is still 1: a quarter
    let sent = run(a, at(20), at(20) + PACKET * 400);
    assert_eq!(sent.len(), 400, "the port is never idle");
    let slow: Vec<_> =
        sent.iter().filter(|(_, frame)| parse(frame).unwrap().dest_qpn.get() == 0x200).collect();
    let span = slow[slow.len() - 1].0.since(slow[0].0);
    assert_eq!(span, PACKET * 4 * (slow.len() as u64 - 1), "a quarter of the line, exactly");
    assert!((99..=101).contains(&slow.len()));

    // Repeats keep it as well.
    a.on_timers(at(200_000));
    let again = run(a, at(200_000), at(201_000));
    let slow: Vec<_> =
        again.iter().filter(|(_, frame)| parse(frame).unwrap().dest_qpn.get() == 0x200).collect();
    assert_eq!(parse(&slow[0].1).unwrap().psn.get(), 0);
    // After a silence it may be one packet ahead of its rate.
    let steady: Vec<_> = slow.windows(2).skip(3).map(|two| two[1].0.since(two[0].0)).collect();
    assert!(steady.len() > 20 && steady.iter().all(|gap| *gap == PACKET * 4), "{steady:?}");
}

/// A switch port of half the line's rate before host 3, with RED marking.
#[derive(Default)]
struct Bottleneck {
    queue: VecDeque<Vec<u8>>,
    bytes: usize,
    free_at: Time,
    /// Marks that are due, in parts of one.
    credit: f64,
}

impl Bottleneck {
    const RATE: u64 = RATE / 2;

    fn push(&mut self, mut frame: Vec<u8>) {
        let (kmin, kmax, pmax) = (20_000.0, 200_000.0, 0.1);
        let depth = self.bytes as f64;
        let p = match depth {
            d if d <= kmin => 0.0,
            d if d >= kmax => 1.0,
            d => pmax * (d - kmin) / (kmax - kmin),
        };
        self.credit += p;
        if self.credit >= 1.0 {
            self.credit -= 1.0;
            mark(&mut frame);
        }
        self.bytes += frame.len();
        self.queue.push_back(frame);
    }

    fn pop(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.free_at > now {
            return None;
        }
        let frame = self.queue.pop_front()?;
        self.bytes -= frame.len();
        let nanos = (frame.len() as u64 + 24) * 8 * 1_000_000_000 / Self::RATE;
        self.free_at = now + Span::from_nanos(nanos);
        Some(frame)
    }
}

#[test]
fn two_flows_converge_to_a_fair_share() {
    let nic = |host| {
        let config = NicConfig { rate: Some(RATE), ..NicConfig::new(mac(host), lab_ip(host)) };
        Nic::new(config)
    };
    let qp = |local, remote, host| QpConfig {
        window: 1 << 16,
        dcqcn: Some(Dcqcn {
            cnp_interval: Span::from_micros(50),
            byte_counter: 150_000,
            g: 1.0 / 16.0,
            r_ai: 5_000_000,
            r_hai: 50_000_000,
            ..Dcqcn::DEFAULT
        }),
        ..QpConfig::new(Qpn::new(local), Qpn::new(remote), mac(host), lab_ip(host))
    };
    let mut senders = [nic(1), nic(2)];
    let mut receiver = nic(3);
    let mut ids = [QpId::new(0); 2];
    for (n, sender) in senders.iter_mut().enumerate() {
        let (local, remote) = (0x10 + n as u32, 0x20 + n as u32);
        ids[n] = sender.add_qp(qp(local, remote, 3)).unwrap();
        receiver.add_qp(qp(remote, local, 1 + n as u8)).unwrap();
    }
    let mut bottleneck = Bottleneck::default();
    let mut accepted = [[0; 2]; 2];
    senders[0].post(ids[0], send(1 << 30), at(0)).unwrap();
    for micros in 0..1_000_000 {
        let now = at(micros);
        // The second one starts later, and at line rate.
        if micros == 100_000 {
            senders[1].post(ids[1], send(1 << 30), now).unwrap();
        }
        for sender in &mut senders {
            sender.on_timers(now);
            while let Some(frame) = sender.poll_transmit(now, &mut HeapPool) {
                bottleneck.push(frame.bytes().to_vec());
            }
        }
        while let Some(frame) = bottleneck.pop(now) {
            receiver.receive(&frame, now);
        }
        while let Some(frame) = receiver.poll_transmit(now, &mut HeapPool) {
            let back = parse(frame.bytes()).unwrap().dest_qpn.get() as usize - 0x10;
            senders[back].receive(frame.bytes(), now);
        }
        if micros == 600_000 || micros == 999_999 {
            let half = usize::from(micros > 600_000);
            let count = |n: usize| receiver.stats(ids[n]).responder.accepted;
            accepted[half] = [count(0), count(1)];
        }
    }
    let share = |n: usize| (accepted[1][n] - accepted[0][n]) as f64;
    let (one, two) = (share(0), share(1));
    let full = 0.4 * Bottleneck::RATE as f64 / (8.0 * 1106.0);
    println!("{one} and {two} packets of {full:.0}");
    assert!((0.8..1.25).contains(&(one / two)), "{one} and {two}");
    assert!(one + two > 0.9 * full, "{one} and {two} of {full}");
    for sender in &senders {
        assert!(sender.totals().requester.cnps > 20);
        assert_eq!(sender.totals().requester.retransmitted, 0);
    }
}
