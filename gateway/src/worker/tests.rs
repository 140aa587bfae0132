//! The worker on fake ports and virtual time.

use common::frame::{Frame, Side};
use common::heap::{HeapFrame, HeapPool};
use common::metrics::Metric;
use common::psn::Psn;
use common::wire::{Bth, Headers, Opcode, Qpn, Spread, Vlans};
use datapath::Owners;

use super::fake::{FakeClock, FakeRx, FakeTx};
use super::*;
use crate::config::{HANDOFF, Idle};

struct Bench {
    rx: [FakeRx; 2],
    tx: [FakeTx; 2],
    clock: FakeClock,
    stop: Arc<AtomicBool>,
    published: Arc<Published>,
    worker: Worker<FakeRx, FakeTx, HeapPool, FakeClock>,
    frames: ArrayVec<HeapFrame, 32>,
}

impl Bench {
    fn new() -> Self {
        let handoff = handoff::mesh(1, 2, &Owners::Pairs(Spread::Rss)).remove(0);
        Self::of(handoff, switch::Config::lab(switch::Recovery::Auto, 1, 1))
    }

    fn of(handoff: Handoff<HeapFrame>, config: switch::Config) -> Self {
        let (rx, tx) = (<[FakeRx; 2]>::default(), <[FakeTx; 2]>::default());
        let clock = FakeClock::default();
        let stop = Arc::<AtomicBool>::default();
        let published = Arc::<Published>::default();
        let worker = Worker::new(Parts {
            rx: rx.clone().map(Some).into(),
            handoff,
            egress: Egress::new(tx[0].clone(), vec![tx[1].clone()], 100, capture::pair().0),
            plane: Plane::switch(config),
            pool: HeapPool,
            clock: clock.clone(),
            idle: Idler::new(Idle::Busy, 1),
            stop: Arc::clone(&stop),
            unfinished: Unfinished::new(1),
            drain_timeout: Span::from_millis(50),
            published: Arc::clone(&published),
            events: events::pair().0,
            settings: rtrb::RingBuffer::new(1).1,
            flows: listing::pair().0,
            records: listing::pair().0,
        });
        Self { rx, tx, clock, stop, published, worker, frames: ArrayVec::new() }
    }

    /// Told to stop while a frame waits for the WAN port.
    fn stopping() -> Self {
        let mut bench = Self::new();
        bench.tx[1].accept(0);
        bench.rx[0].arrive(arp(1));
        bench.round();
        bench.stop.store(true, Relaxed);
        bench.keep_house();
        bench
    }

    fn round(&mut self) -> bool {
        let now = self.clock.now();
        self.worker.round(&mut self.frames, now)
    }

    fn keep_house(&mut self) {
        self.clock.advance(HOUSEKEEPING);
        self.round();
    }
}

fn arp(n: u8) -> Vec<u8> {
    let mut frame = vec![0xff; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x06]);
    frame[59] = n;
    frame
}

/// A SEND of one packet.
fn send() -> Vec<u8> {
    let [src, dst] = [1, 2].map(|host| std::net::IpAddr::from([10, 0, 0, host]));
    let headers = Headers::new([1; 6], [2; 6], Vlans::NONE, src, dst, 0xc000, 0, 64);
    let mut frame = vec![0; headers.frame_len(64)];
    let bth = Bth::new(Opcode::SEND_ONLY, Qpn::new(0x11), Psn::new(7));
    headers.emit(&bth, &mut frame, |body| body.fill(0));
    frame
}

#[test]
fn frames_cross_unchanged_in_both_directions_and_are_counted() {
    let mut bench = Bench::new();
    let frames: Vec<_> = (0..100).map(arp).collect();
    for frame in &frames {
        bench.rx[0].arrive(frame.clone());
        bench.rx[1].arrive(frame.clone());
    }
    while bench.round() {}
    assert_eq!(bench.tx[0].taken(), frames);
    assert_eq!(bench.tx[1].taken(), frames);
    assert_eq!(bench.published.beats(), 0, "no housekeeping yet");
    bench.keep_house();
    let io = bench.published.io();
    for side in [Side::Lan, Side::Wan] {
        assert_eq!(io.port(side.into(), PortIo::RxFrames), 100);
        assert_eq!(io.port(side.into(), PortIo::RxBytes), 6000);
        assert_eq!(io.port(side.into(), PortIo::TxFrames), 100);
        assert_eq!(io.port(side.into(), PortIo::TxBytes), 6000);
        assert_eq!(io.port(side.into(), PortIo::RxTooLong), 2);
    }
    assert_eq!(bench.published.switch(Metric::PassedOther), 200);
    assert_eq!(bench.published.beats(), 1);
}

#[test]
fn garbage_is_passed_and_counted() {
    let mut bench = Bench::new();
    // IPv4, UDP to 4791, and an UDP length that reaches past the end.
    let mut roce = vec![0; 60];
    roce[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
    roce[16..18].copy_from_slice(&46u16.to_be_bytes());
    roce[23] = 17;
    roce[36..38].copy_from_slice(&4791u16.to_be_bytes());
    roce[38..40].copy_from_slice(&9000u16.to_be_bytes());
    bench.rx[1].arrive(roce.clone());
    bench.rx[1].arrive(vec![1, 2, 3]);
    bench.round();
    assert_eq!(bench.tx[0].taken(), [roce, vec![1, 2, 3]]);
    bench.keep_house();
    assert_eq!(bench.published.switch(Metric::PassedMalformed), 1);
    assert_eq!(bench.published.switch(Metric::PassedOther), 1);
}

#[test]
fn time_is_booked_by_whether_there_was_work() {
    let mut bench = Bench::new();
    bench.round();
    bench.clock.advance(Span::from_micros(10));
    bench.rx[0].arrive(arp(0));
    assert!(bench.round());
    bench.clock.advance(Span::from_micros(3));
    assert!(!bench.round());
    bench.keep_house();
    let io = bench.published.io();
    assert_eq!(io.round(LoopIo::BusyRounds), 1);
    assert_eq!(io.round(LoopIo::BusyNanos), 3_000);
    assert_eq!(io.round(LoopIo::IdleNanos), 10_000 + HOUSEKEEPING.as_nanos());
}

#[test]
fn stopping_waits_for_what_still_has_to_leave() {
    let mut bench = Bench::stopping();
    assert!(!bench.worker.may_leave(bench.clock.now()));
    bench.tx[1].accept(1);
    bench.round();
    assert!(bench.worker.may_leave(bench.clock.now()));
    assert_eq!(bench.worker.run::<32>(), Ended { held: 0, queued: 0 });
    assert_eq!(bench.tx[1].taken(), [arp(1)]);
}

#[test]
fn stopping_gives_up_in_time_and_accounts_for_the_rest() {
    let bench = Bench::stopping();
    bench.clock.advance(Span::from_millis(50));
    let published = Arc::clone(&bench.published);
    assert_eq!(bench.worker.run::<32>(), Ended { held: 0, queued: 1 });
    assert_eq!(published.io().port(Side::Wan.into(), PortIo::DropEnd), 1);
    assert_eq!(published.io().port(Side::Wan.into(), PortIo::Queued), 0);
}

/// An ARP frame belongs to the first worker, UDP between these to the second.
#[test]
fn a_frame_of_another_worker_is_handed_off_in_order() {
    let mut bench = Bench::new();
    let mut others = handoff::mesh(2, 2, &Owners::Pairs(Spread::Mixed));
    let mut second = others.remove(1);
    bench.worker.parts.handoff = others.remove(0);
    let udp = |pair: u8, n: u8| {
        let mut frame = vec![0; 60];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[26..34].copy_from_slice(&[10, 1, 0, pair, 10, 2, 0, pair]);
        frame[59] = n;
        frame
    };
    let pair = (0..).find(|pair| Spread::Mixed.bucket(&udp(*pair, 0)) % 2 == 1).unwrap();
    for n in 0..5 {
        bench.rx[0].arrive(udp(pair, n));
        bench.rx[0].arrive(arp(n));
    }
    assert!(bench.round());
    assert_eq!(bench.tx[1].taken(), (0..5).map(arp).collect::<Vec<_>>());
    let mut got = ArrayVec::<HeapFrame, 3>::new();
    assert_eq!(second.take(0, Side::Wan.into(), &mut got), 0);
    assert_eq!(second.take(0, Side::Lan.into(), &mut got), 3, "as much as fits");
    let rest = got.take().into_iter().map(|frame| frame.bytes()[59]).collect::<Vec<_>>();
    assert_eq!(rest, [0, 1, 2]);
    assert!(!second.is_empty());

    // A worker that doesn't keep up loses frames that no longer fit.
    for n in 0..HANDOFF {
        bench.rx[0].arrive(udp(pair, n as u8));
    }
    while bench.round() {}
    bench.keep_house();
    let io = bench.published.io();
    assert_eq!(io.port(Side::Lan.into(), PortIo::Handoff), 3 + u64::from(HANDOFF));
    assert_eq!(io.port(Side::Lan.into(), PortIo::DropHandoff), 2);

    // A frame of another worker goes through the switch, and counts
    // before this one may leave.
    let mut burst = ArrayVec::<_, 1>::from([HeapFrame::from(arp(9))]);
    assert_eq!(second.sort(Side::Wan.into(), &mut burst).handed_off, 1);
    assert!(!bench.worker.parts.handoff.is_empty());
    assert!(bench.round());
    assert_eq!(bench.tx[0].taken(), [arp(9)]);
    assert!(bench.worker.parts.handoff.is_empty());

    // Frames in the ring to a worker that has ended, and later ones, are dropped.
    let mut send = || {
        let mut burst = ArrayVec::<_, 1>::from([HeapFrame::from(arp(9))]);
        second.sort(Side::Wan.into(), &mut burst)
    };
    assert_eq!(send(), handoff::Sorted { handed_off: 1, dropped: 0 });
    let published = Arc::clone(&bench.published);
    let now = bench.clock.now();
    bench.worker.end(now);
    assert_eq!(published.io().port(Side::Lan.into(), PortIo::DropHandoff), 2);
    assert_eq!(published.io().port(Side::Wan.into(), PortIo::DropHandoff), 1);
    assert_eq!(send(), handoff::Sorted { handed_off: 0, dropped: 1 });
}

#[test]
fn what_ports_receive_and_take_is_captured() {
    let mut bench = Bench::new();
    let (tap, mut order) = capture::pair();
    *bench.worker.parts.egress.tap() = tap;
    let (request, mut records) =
        capture::capture(capture::Filter::default(), capture::Wanted::Bytes(14), 10_000);
    assert!(order.push(capture::Order::Begin(request)).is_ok());
    bench.keep_house();
    bench.tx[1].accept(2);
    for n in 0..3 {
        bench.rx[0].arrive(arp(n));
    }
    bench.round();
    let mut places = Vec::new();
    while let Some(record) = records.pop() {
        assert_eq!((record.len, record.bytes), (60, arp(0)[..14].to_vec()));
        places.push((record.port, record.direction));
    }
    let expected = [(0, Direction::In), (1, Direction::Out)].map(|place| [place; 3]).concat();
    assert_eq!(places, expected[..5], "the WAN port has taken two");
    bench.tx[1].accept(1);
    bench.round();
    assert!(records.pop().is_some() && records.pop().is_none());
}

/// The kernel ran another program between the beginning of the round and the look at the port.
#[test]
fn a_frame_has_come_by_the_time_at_which_the_plane_takes_it() {
    let first_deadline = |is_late: bool| {
        let mut bench = Bench::new();
        let began = bench.clock.now();
        bench.clock.advance(Span::from_millis(5));
        bench.rx[0].arrive(send());
        let began = if is_late { began } else { bench.clock.now() };
        assert!(bench.worker.round(&mut bench.frames, began));
        bench.worker.parts.plane.next_deadline()
    };
    assert_eq!(first_deadline(true), first_deadline(false));
}

/// An answer that lies unread at the port, since the worker lost its core after it had looked there, is not overdue.
#[test]
fn a_timer_waits_until_every_port_was_looked_at_after_it_was_due() {
    let mut bench = Bench::new();
    bench.rx[0].arrive(send());
    bench.round();
    let due = bench.worker.parts.plane.next_deadline();
    assert!(bench.clock.now() < due && due < Time::NEVER);
    bench.clock.advance(due.since(bench.clock.now()) - Span::from_nanos(1));
    let began = bench.clock.now();
    bench.clock.advance(Span::from_millis(5));
    bench.rx[1].arrive(arp(1));
    assert!(bench.worker.round(&mut bench.frames, began));
    assert_eq!(bench.worker.parts.plane.next_deadline(), due);
    assert!(bench.round());
    assert!(bench.worker.parts.plane.next_deadline() > due);
}

/// A full burst at each poll: frames arrive at least as fast as they are taken.
#[test]
fn a_worker_that_does_not_keep_up_protects_no_further_flow() {
    let mut bench = Bench::new();
    for interval in 0..6_u64 {
        (0..32).for_each(|n| bench.rx[0].arrive(arp(n)));
        bench.keep_house();
        let io = bench.published.io();
        let lagged = io.port(PortId::LAN, PortIo::OverloadedNanos);
        assert_eq!(lagged, interval.saturating_sub(2) * HOUSEKEEPING.as_nanos());
        assert_eq!(io.port(Side::Wan.into(), PortIo::OverloadedNanos), 0);
    }
    let passed = |bench: &mut Bench| {
        bench.rx[0].arrive(send());
        bench.round();
        bench.keep_house();
        bench.published.switch(Metric::PassedOverload)
    };
    assert_eq!(passed(&mut bench), 1);
    bench.clock.advance(Span::from_millis(1_000));
    bench.keep_house();
    assert_eq!(passed(&mut bench), 1);
    assert_ne!(bench.published.switch(Metric::SyncOpen), 0, "it is announced");
}
