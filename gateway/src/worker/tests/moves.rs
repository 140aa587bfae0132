//! Two workers that share the queue pairs of one pair of hosts, in turns.

use std::net::IpAddr;

use common::control::is_control_opcode;
use common::psn::Psn;
use common::wire::{Bth, Headers, Opcode, Vlans, parse};
use switch::{Crew, End, QueuePair, Recovery};

use super::*;

const QPS: u32 = 16;
const PACKETS: u32 = 10;

/// A SEND's middle packet from host 10.1.0.1 to 10.2.0.1.
fn request(qpn: u32, psn: u32) -> Vec<u8> {
    let ip = |net| IpAddr::from([10, net, 0, 1]);
    let headers = Headers::new([1; 6], [2; 6], Vlans::NONE, ip(1), ip(2), 50_000, 0, 64);
    let mut frame = vec![0; headers.frame_len(256)];
    let bth = Bth::new(Opcode::SEND_MIDDLE, qpn, Psn::new(psn));
    headers.emit(&bth, &mut frame, |body| body.fill(psn as u8));
    frame
}

/// PSNs of a flow's data as a port sent them.
fn sent(tx: &FakeTx, qpn: u32) -> Vec<u32> {
    let all = tx.taken();
    let data = all.iter().map(|frame| parse(frame).unwrap());
    let data = data.filter(|roce| !is_control_opcode(roce.opcode) && roce.dest_qpn == qpn);
    data.map(|roce| roce.psn.get()).collect()
}

/// Home, and the other one.
fn two() -> [Bench; 2] {
    two_with(QPS)
}

fn two_with(queue_pairs: u32) -> [Bench; 2] {
    let end = |net, qpn| End { addr: IpAddr::from([10, net, 0, 1]).into(), qpn };
    let queue_pairs = (0..queue_pairs)
        .map(|n| QueuePair { vlans: Vlans::NONE, ends: [end(1, 0x1000 + n), end(2, 0x2000 + n)] });
    let queue_pairs: Vec<_> = queue_pairs.collect();
    let mut mesh = handover::mesh(2, Spread::Mixed, true).into_iter();
    let mut bench = |worker| {
        let lab = switch::Config::lab(Recovery::Auto, 1 + u32::from(worker), 1);
        let crew = Some(Crew { worker, workers: 2 });
        Bench::of(
            mesh.next().unwrap(),
            switch::Config { crew, queue_pairs: queue_pairs.clone(), ..lab },
        )
    };
    let mut workers = [bench(0), bench(1)];
    let home = Spread::Mixed.bucket(&request(0, 0)) % 2;
    workers.rotate_left(home);
    workers
}

#[test]
fn each_worker_sends_its_queue_pairs_in_order_and_complete() {
    let [mut home, mut other] = two();
    for psn in 0..PACKETS {
        for n in 0..QPS {
            home.rx[0].arrive(request(0x2000 + n, psn));
        }
    }
    // All there is, before the other one looks: what it is told of queue pairs and
    // their frames are there at once.
    while home.round() {}
    assert!(!other.worker.parts.handover.is_empty());
    while other.round() {}
    let moved = |n: &u32| sent(&home.tx[1], 0x2000 + n).is_empty();
    let count = (0..QPS).filter(moved).count() as u64;
    assert!((1..u64::from(QPS)).contains(&count), "{count} moved");
    for n in 0..QPS {
        let worker = if moved(&n) { &other } else { &home };
        assert_eq!(sent(&worker.tx[1], 0x2000 + n), (0..PACKETS).collect::<Vec<_>>());
    }
    home.keep_house();
    other.keep_house();
    let frames = count * u64::from(PACKETS);
    assert_eq!(home.published.switch(Metric::PairMoved), count);
    assert_eq!(home.published.switch(Metric::HandedOver), frames);
    assert_eq!(home.published.io().port(Side::Lan, PortIo::HandedOver), frames);
    assert_eq!(other.published.switch(Metric::TakenOver), frames);
    assert_eq!(other.published.switch(Metric::SentryNew), frames);
    assert_eq!(other.published.switch(Metric::PassedUnknownPair), 0);
}

#[test]
fn what_is_given_after_the_look_at_a_ring_waits_for_the_notices_before_it() {
    let [mut home, mut other] = two();
    for n in 0..QPS {
        home.rx[0].arrive(request(0x2000 + n, 0));
    }
    home.round();
    let handover = &mut other.worker.parts.handover;
    let before = handover.waiting(0);
    assert!(before[0] > 0 && before[1] == 0, "{before:?}");
    for n in 0..QPS {
        home.rx[0].arrive(request(0x2000 + n, 1));
    }
    home.round();
    let mut got = ArrayVec::<HeapFrame, 64>::new();
    assert_eq!(handover.take_moved(0, Side::Lan, before[0], &mut got), before[0]);
    assert_eq!(handover.waiting(0), before, "as many as came later");
    assert!(handover.notice(0).is_some());
}

#[test]
fn frames_for_a_worker_that_has_ended_are_dropped_and_counted() {
    let [mut home, other] = two();
    for n in 0..QPS {
        home.rx[0].arrive(request(0x2000 + n, 0));
    }
    home.round();
    let now = other.clock.now();
    let published = Arc::clone(&other.published);
    other.worker.end(now);
    let lost = published.io().port(Side::Lan, PortIo::DropHandover);
    assert!(lost > 0, "what was on its way");
    for n in 0..QPS {
        home.rx[0].arrive(request(0x2000 + n, 1));
    }
    home.round();
    home.keep_house();
    assert_eq!(home.published.io().port(Side::Lan, PortIo::DropHandover), lost);
    assert_eq!(home.published.switch(Metric::HandedOver), 2 * lost);
}

#[test]
fn a_worker_that_ends_gives_its_queue_pairs_back() {
    let [mut home, mut other] = two();
    for n in 0..QPS {
        home.rx[1].arrive(request(0x2000 + n, 0));
    }
    home.round();
    other.round();
    // It holds nothing, and nothing waits for its ports.
    other.orders.push(Order::Stop(Span::from_millis(100))).unwrap();
    other.clock.advance(HOUSEKEEPING);
    other.worker.run::<32>();
    home.round();
    for n in 0..QPS {
        home.rx[1].arrive(request(0x2000 + n, 1));
    }
    home.round();
    home.keep_house();
    assert_eq!(home.published.io().port(Side::Wan, PortIo::DropHandover), 0);
}

#[test]
fn no_frame_overtakes_a_notice_that_finds_no_room() {
    let many = 700;
    let [mut home, mut other] = two_with(many);
    for n in 0..many {
        home.rx[0].arrive(request(0x2000 + n, 0));
    }
    // Meanwhile the other one is busy, or asleep.
    while home.round() {}
    while other.round() {}
    home.keep_house();
    other.keep_house();
    assert!(home.published.switch(Metric::PairMoved) > 256);
    assert_eq!(other.published.switch(Metric::PassedUnknownPair), 0);
}
