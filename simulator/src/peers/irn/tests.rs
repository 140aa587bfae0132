//! Two IRN hosts and a lossy link on virtual time.

use std::collections::VecDeque;

use common::frame::Frame;
use common::heap::HeapPool;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Opcode, Qpn, icrc_ok, parse};
use rnic::{
    Completion, Dcqcn, NicConfig, PostError, QpConfig, QpError, QpId, Received, Status, WorkKind,
    WorkRequest, lab_ip,
};

use super::{Irn, IrnNic, add_qp};
use crate::peers::selective::{Sender as _, Stats};

const PMTU: u32 = 256;
/// bit/s at which a full packet of a SEND, 338 bytes on the wire, takes 1 µs.
const RATE: u64 = 338 * 8 * 1_000_000;

type Loss = Box<dyn FnMut(&[u8]) -> bool>;

struct World {
    nics: [IrnNic; 2],
    /// `links[0]` leads to `nics[1]`.
    links: [VecDeque<(Time, Vec<u8>)>; 2],
    lose: [Loss; 2],
    delay: Span,
    now: Time,
    qp: QpId,
    cap: u64,
    completions: Vec<Completion>,
    received: Vec<Received>,
    /// PSNs of data packets, as they left.
    sent: Vec<u32>,
}

impl World {
    /// A round trip of `slots` microseconds, each the time of one packet.
    fn new(slots: u64, irn: Irn, change: impl Fn(&mut QpConfig)) -> Self {
        let mac = |host| [2, 0, 0, 0, 0, host];
        let nic = |host| {
            let config = NicConfig::new(mac(host), lab_ip(host));
            IrnNic::new(NicConfig { rate: Some(RATE), ..config })
        };
        let mut nics = [nic(1), nic(2)];
        let mut qp = QpId::new(0);
        for (n, nic) in nics.iter_mut().enumerate() {
            let (local, remote) = if n == 0 { (0x11, 0x22) } else { (0x22, 0x11) };
            let (local, remote) = (Qpn::new(local), Qpn::new(remote));
            let peer = 2 - n as u8;
            let mut config = QpConfig::new(local, remote, mac(peer), lab_ip(peer));
            config.pmtu = PMTU;
            config.ack_req_every = 1;
            // They wrap soon.
            config.send_psn = Psn::new(0xff_fffe);
            config.recv_psn = Psn::new(0xff_fffe);
            change(&mut config);
            qp = add_qp(nic, config, irn).unwrap();
        }
        Self {
            nics,
            links: Default::default(),
            lose: [Box::new(|_| false), Box::new(|_| false)],
            delay: Span::from_micros(slots) / 2,
            now: Time::ZERO,
            qp,
            cap: u64::from(irn.cap),
            completions: Vec::new(),
            received: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn post(&mut self, kind: WorkKind, len: u32) {
        let work = WorkRequest { kind, len, id: 0 };
        self.nics[0].post(self.qp, work, self.now).unwrap();
    }

    fn settle(&mut self) {
        for (side, link) in self.links.iter_mut().enumerate() {
            while let Some((_, frame)) = link.pop_front_if(|(at, _)| *at <= self.now) {
                self.nics[1 - side].receive(&frame, self.now);
            }
        }
        for (side, nic) in self.nics.iter_mut().enumerate() {
            nic.on_timers(self.now);
            while let Some(frame) = nic.poll_transmit(self.now, &mut HeapPool) {
                let frame = frame.bytes().to_vec();
                let roce = parse(&frame).unwrap();
                assert!(icrc_ok(&frame, &roce));
                if side == 0 && roce.kind().is_request() {
                    self.sent.push((roce.psn.get() + 2) % Psn::MODULUS);
                }
                if !(self.lose[side])(&frame) {
                    self.links[side].push_back((self.now + self.delay, frame));
                }
            }
            assert!(nic.transport(self.qp).sender.queue().in_flight() <= self.cap);
        }
        self.completions.extend(std::iter::from_fn(|| self.nics[0].poll_completion()));
        self.received.extend(std::iter::from_fn(|| self.nics[1].poll_received()));
    }

    /// Lets time pass until nothing more happens, or `until` comes. Whether
    /// everything is quiet.
    fn run(&mut self, until: Time) -> bool {
        loop {
            self.settle();
            let arrivals = self.links.iter().filter_map(|link| link.front().map(|(at, _)| *at));
            let timers = self.nics.iter().filter_map(IrnNic::next_deadline);
            let Some(next) = arrivals.chain(timers).min() else { return true };
            if next > until {
                return false;
            }
            assert!(next > self.now, "nobody is woken for nothing again and again");
            self.now = next;
        }
    }

    fn stats(&self, host: usize) -> Stats {
        self.nics[host].totals()
    }
}

/// Losses with probability `p`: splitmix64.
fn bernoulli(p: f64, seed: u64) -> Loss {
    let mut state = seed;
    Box::new(move |_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / ((1u64 << 53) as f64) < p
    })
}

/// The first copy of each of these is lost, by position.
fn first_copies(psns: &'static [u32]) -> Loss {
    let mut left = psns.to_vec();
    Box::new(move |frame| {
        let psn = (parse(frame).unwrap().psn.get() + 2) % Psn::MODULUS;
        let found = left.iter().position(|lost| *lost == psn);
        found.map(|at| left.remove(at)).is_some()
    })
}

/// A SEND of `len` bytes that has come to its end although the first copies of these
/// packets were lost; a round trip is 30 µs.
fn lossy(irn: Irn, lost: &'static [u32], len: u32) -> World {
    let mut world = World::new(30, irn, |_| ());
    world.lose[0] = first_copies(lost);
    world.post(WorkKind::Send, len);
    assert!(world.run(NEVER));
    world
}

const NEVER: Time = Time::from_nanos(1 << 50);

fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

#[test]
fn everything_arrives_once_in_order_and_intact() {
    for (seed, p, cap, every) in
        [(1, 0.01, 50, 1), (2, 0.1, 50, 1), (3, 0.3, 20, 4), (4, 0.1, 1, 1), (5, 0.05, 300, 66)]
    {
        let mut world = World::new(40, Irn::for_path(cap, Span::from_micros(60)), |c| {
            c.ack_req_every = every;
        });
        world.lose = [bernoulli(p, seed), bernoulli(p, seed + 100)];
        let lens: Vec<u32> = (0..200u32).map(|n| n * n % 7 * 500 + n % 3).collect();
        for (n, len) in lens.iter().enumerate() {
            world.post(if n % 3 == 0 { WorkKind::Write } else { WorkKind::Send }, *len);
        }
        assert!(world.run(NEVER), "it comes to an end");
        let done: Vec<_> = world.completions.iter().map(|c| (c.index, c.status)).collect();
        assert_eq!(done, (0..200).map(|n| (n, Status::Ok)).collect::<Vec<_>>());
        let received: Vec<_> = world.received.iter().map(|r| (r.index, r.len)).collect();
        assert_eq!(received, (0..200).zip(lens).collect::<Vec<_>>());
        assert!(world.received.iter().all(|r| r.corrupt_bytes == 0));
        assert!(world.received.iter().all(|r| (r.kind == WorkKind::Write) == (r.index % 3 == 0)));
        let (sender, receiver) = (world.stats(0), world.stats(1));
        assert_eq!(receiver.accepted, sender.packets - sender.repeated);
        assert_eq!((receiver.beyond_bitmap, receiver.corrupt_bytes), (0, 0));
        assert_eq!(sender.beyond_sent, 0);
        assert!(sender.repeated > 0 && (receiver.early > 0) == (cap > 1));
    }
}

/// Share of the line that a long flow gets.
fn goodput(w: u64, p: f64, cap: u32) -> (f64, Stats) {
    const SLOTS: u64 = 300_000;
    let irn = Irn::for_path(cap, Span::from_micros(w));
    let mut world = World::new(w, irn, |_| ());
    world.lose[0] = bernoulli(p, w);
    world.post(WorkKind::Send, 1 << 30);
    assert!(!world.run(at(SLOTS)));
    (world.stats(1).accepted as f64 / SLOTS as f64, world.stats(0))
}

#[test]
fn a_long_flow_gets_what_the_link_does_not_lose() {
    for (w, p) in [(200, 1e-3), (200, 1e-2), (1_000, 1e-3), (1_000, 1e-2)] {
        // Room for a repeat that is lost as well.
        let (share, stats) = goodput(w, p, 8 * w as u32);
        println!("W {w}, p {p}: {share:.3}, {} timeouts", stats.timeouts);
        assert!((0.97..1.005).contains(&(share / (1.0 - p))), "W {w}, p {p}: {share:.3}");
        let sends = stats.packets as f64 / (stats.packets - stats.repeated) as f64;
        assert!(sends * (1.0 - p) < 1.01, "only what is lost is sent again: {sends:.4}");
    }
}

/// A lost NACK leaves a packet unacknowledged that has come: that one is repeated, and
/// nothing besides.
#[test]
fn lost_nacks_bring_forth_no_storm() {
    for cap in [202, 400, 1_600] {
        let mut world = World::new(200, Irn::for_path(cap, Span::from_micros(200)), |_| ());
        world.lose = [bernoulli(1e-3, 1), bernoulli(1e-3, 2)];
        world.post(WorkKind::Send, 1 << 30);
        assert!(!world.run(at(300_000)));
        let (needless, sent) = (world.stats(1).duplicates, world.stats(0).packets);
        let share = needless as f64 / sent as f64;
        println!("cap {cap}: {needless} of {sent} packets needless, {share:.5}");
        assert!(share < 1e-2, "cap {cap}: {needless} of {sent}");
    }
}

#[test]
fn with_a_cap_of_one_round_trip_each_loss_costs_up_to_another() {
    let (w, p) = (200, 1e-3);
    let (share, _) = goodput(w, p, w as u32 + 2);
    println!("{share:.3}");
    let whole = 1.0 / (1.0 + p * w as f64);
    assert!((whole - 0.03..0.97).contains(&share), "{share:.3}, not from {whole:.3}");
}

#[test]
fn only_what_is_missing_is_sent_again_and_in_order() {
    let world = lossy(Irn::for_path(1_000, Span::from_micros(40)), &[3, 4, 9], 100 * PMTU);
    let mut psns: Vec<u32> = (0..100).collect();
    let repeats: Vec<u32> = world
        .sent
        .iter()
        .copied()
        .filter(|psn| psns.iter().position(|p| p == psn).map(|at| psns.remove(at)).is_none())
        .collect();
    assert_eq!(repeats, [3, 4, 9]);
    let stats = world.stats(0);
    assert_eq!((stats.repeated, stats.timeouts, stats.recoveries), (3, 0, 1));
    assert_eq!(world.stats(1).duplicates, 0);
}

#[test]
fn a_nack_names_what_is_expected_and_what_has_come() {
    let mut world = World::new(30, Irn::for_path(100, Span::from_micros(40)), |_| ());
    world.lose[0] = first_copies(&[1, 4]);
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let log = std::rc::Rc::clone(&seen);
    world.lose[1] = Box::new(move |frame| {
        let roce = parse(frame).unwrap();
        let aeth = roce.aeth(frame).unwrap();
        let rel = |psn: u32| (psn + 2) % Psn::MODULUS;
        let caused_by = (!aeth.is_ack()).then(|| rel(aeth.msn));
        log.borrow_mut().push((rel(roce.psn.get()), caused_by));
        false
    });
    world.post(WorkKind::Send, 6 * PMTU);
    assert!(world.run(NEVER));
    let nack = |expected, caused_by| (expected, Some(caused_by));
    assert_eq!(
        *seen.borrow(),
        [(0, None), nack(1, 2), nack(1, 3), nack(1, 5), (3, None), (5, None)],
    );
}

#[test]
fn the_loss_of_a_tail_is_repaired_after_the_low_timeout() {
    let irn =
        Irn { cap: 100, rto_low: Span::from_micros(100), rto_high: Span::from_micros(900), few: 3 };
    // A packet alone.
    let world = lossy(irn, &[0], PMTU);
    assert_eq!(world.completions[0].completed_at, at(100 + 30));
    assert_eq!((world.stats(0).timeouts, world.stats(0).repeated), (1, 1));

    // The last two of ten: the ACK of the eighth comes at 7 + 30; the first
    // repeat brings an ACK, which tells that the second is lost too.
    let world = lossy(irn, &[8, 9], 10 * PMTU);
    assert_eq!(world.completions[0].completed_at, at(37 + 100 + 30 + 30));
    assert_eq!((world.stats(0).timeouts, world.stats(0).repeated), (1, 2));

    // Four are not few.
    let world = lossy(irn, &[6, 7, 8, 9], 10 * PMTU);
    assert_eq!(world.completions[0].completed_at, at(35 + 900 + 4 * 30));
    assert_eq!((world.stats(0).timeouts, world.stats(0).repeated), (1, 4));
}

#[test]
fn a_repeat_that_is_lost_waits_for_the_high_timeout() {
    let irn = Irn::for_path(1_000, Span::from_micros(40));
    let world = lossy(irn, &[3, 3], 50 * PMTU);
    // 3 is missed when 4 arrives, at 4 + 30; its repeat is lost.
    let repeated_at = at(4 + 30);
    assert_eq!(world.completions[0].completed_at, repeated_at + irn.rto_high + world.delay * 2);
    assert_eq!((world.stats(0).timeouts, world.stats(0).repeated), (1, 2));
}

#[test]
fn reordering_is_taken_for_loss_and_delivered_once() {
    let mut world = World::new(30, Irn::for_path(100, Span::from_micros(40)), |_| ());
    world.post(WorkKind::Send, 10 * PMTU);
    world.run(at(12));
    let link = &mut world.links[0];
    let (early, late) = (link[2].1.clone(), link[3].1.clone());
    (link[2].1, link[3].1) = (late, early);
    assert!(world.run(NEVER));
    let (repeated, duplicates) = (world.stats(0).repeated, world.stats(1).duplicates);
    // The repeat was needless; ACKs of those behind it bring forth no other.
    assert_eq!((repeated, duplicates), (1, 1));
    assert_eq!((world.received.len(), world.received[0].corrupt_bytes), (1, 0));
}

#[test]
fn congestion_control_is_that_of_other_rnics() {
    let dcqcn = Dcqcn { rate_timer: Span::from_millis(10_000), ..Dcqcn::DEFAULT };
    let mut world = World::new(2, Irn::for_path(1_000, Span::from_micros(40)), |c| {
        c.dcqcn = Some(dcqcn);
    });
    world.post(WorkKind::Send, 300 * PMTU);
    world.run(at(0));
    let frame = &mut world.links[0][0].1;
    assert_eq!(frame[15], 2, "ECN-capable");
    frame[15] |= 3;
    assert!(world.run(NEVER));
    assert_eq!((world.stats(1).cnps_sent, world.stats(0).cnps), (1, 1));
    // From then on at half the rate: a packet in two slots.
    let end = world.completions[0].completed_at;
    assert!(end > at(590) && end < at(605), "{end:?}");
}

#[test]
fn what_it_does_not_do_is_refused() {
    let irn = Irn::for_path(100, Span::from_micros(40));
    let mut world = World::new(2, irn, |_| ());
    let read = WorkRequest { kind: WorkKind::Read, len: 1, id: 0 };
    let refused = world.nics[0].post(world.qp, read, world.now);
    assert_eq!(refused, Err(PostError::FetchNotAllowed));
    let config = QpConfig::new(Qpn::new(1), Qpn::new(2), [3; 6], lab_ip(2));
    let add = |irn| {
        let mut nic = IrnNic::new(NicConfig::new([2; 6], lab_ip(1)));
        add_qp(&mut nic, config.clone(), irn)
    };
    assert_eq!(add(Irn { cap: 0, ..irn }), Err(QpError::Window(0)));
    assert_eq!(add(Irn { rto_low: Span::ZERO, ..irn }), Err(QpError::Timeout));
    assert_eq!(add(Irn { rto_high: Span::ZERO, ..irn }), Err(QpError::Timeout));
    assert!(add(irn).is_ok());
    // An RDMA READ that comes all the same.
    let opcode = Opcode::READ_REQUEST;
    let headers = common::wire::Headers::new(
        [2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 2],
        common::wire::Vlans::NONE,
        lab_ip(1),
        lab_ip(2),
        50_000,
        0,
        64,
    );
    let mut frame = vec![0; headers.frame_len(16)];
    let bth = common::wire::Bth::new(opcode, Qpn::new(0x22), Psn::new(0xff_fffe));
    headers.emit(&bth, &mut frame, |body| body.fill(0));
    world.nics[1].receive(&frame, world.now);
    assert_eq!(world.nics[1].port_stats().unknown_opcode, 1);
}
