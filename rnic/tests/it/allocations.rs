//! Once queues have grown, traffic allocates nothing, losses included.

use crate::support::World;
use common::frame::{Frame, Pool};
use common::heap::HeapFrame;
use common::time::{Span, Time};
use rnic::{Dcqcn, Nic, QpId, ReceiveQueue, WorkKind, WorkRequest};

/// Frames that are used again, as in a mempool, by length.
struct Reused([Vec<HeapFrame>; KINDS]);

/// Headers, BTH and ICRC.
const BARE: usize = 42 + 12 + 4;
/// Full packets, ones with an AETH, ACKs, READ requests, atomics and their
/// answers.
const LENGTHS: [usize; KINDS] =
    [BARE + 256, BARE + 256 + 4, BARE + 4, BARE + 16, BARE + 28, BARE + 12];
const KINDS: usize = 6;

impl Reused {
    fn new(n: usize) -> Self {
        Self(LENGTHS.map(|len| vec![HeapFrame::from(vec![0; len]); n]))
    }

    fn of(&mut self, len: usize) -> &mut Vec<HeapFrame> {
        let kind = LENGTHS.iter().position(|l| *l == len).expect("a length that was foreseen");
        &mut self.0[kind]
    }

    fn give_back(&mut self, frame: HeapFrame) {
        self.of(frame.bytes().len()).push(frame);
    }
}

impl Pool for Reused {
    type Frame = HeapFrame;

    fn alloc(&mut self, len: usize) -> Option<HeapFrame> {
        self.of(len).pop()
    }
}

/// Messages and READs of 16 packets and atomics, four at a time per QP; every
/// 97th frame is lost.
fn exchange(nics: &mut [Nic; 2], qps: &[QpId], pool: &mut Reused, now: &mut Time, rounds: u32) {
    let mut n = 0;
    for round in 0..rounds {
        *now += Span::from_micros(300);
        for qp in qps {
            while nics[0].pending(*qp) < 4 {
                let (kind, len) = match n % 5 {
                    0 => (WorkKind::FetchAdd { add: 1 }, 8),
                    1 => (WorkKind::Read, 16 * 256),
                    _ => (WorkKind::Send, 16 * 256),
                };
                n += 1;
                let work = WorkRequest { kind, len, id: 0 };
                nics[0].post(*qp, work, *now).expect("the QP is well");
            }
        }
        for (from, to) in [(0, 1), (1, 0)] {
            nics[from].on_timers(*now);
            let mut n = round;
            while let Some(frame) = nics[from].poll_transmit(*now, pool) {
                n += 1;
                if !n.is_multiple_of(97) {
                    nics[to].receive(frame.bytes(), *now);
                }
                pool.give_back(frame);
            }
        }
        while nics[0].poll_completion().is_some() {}
        while nics[1].poll_received().is_some() {}
    }
}

#[test]
fn steady_traffic_allocates_nothing() {
    let mut world = World::new(None, Span::ZERO);
    let qps = [0, 1, 2].map(|n| {
        world.add_qp(n, |c| {
            c.pmtu = 256;
            c.timeout = Span::from_millis(1);
            // With sparse ACKs some NAKs are ignored and end in timeouts.
            c.ack_req_every = 66;
            let refill = Some(Span::from_micros(200));
            c.receive_queue = Some(ReceiveQueue { depth: 4, refill, rnr_timer: 1 });
        })
    });
    let mut nics = world.nics;
    let mut pool = Reused::new(64);
    let mut now = Time::ZERO;
    exchange(&mut nics, &qps, &mut pool, &mut now, 200);
    let before = nics[0].totals().requester;
    let counted = allocation_counter::measure(|| {
        exchange(&mut nics, &qps, &mut pool, &mut now, 500);
    });
    let after = nics[0].totals().requester;
    assert!(after.packets - before.packets > 10_000);
    assert!(after.retransmitted > before.retransmitted);
    assert!(after.timeouts > before.timeouts);
    assert!(after.implied_naks > before.implied_naks);
    assert!(after.rnr_naks > before.rnr_naks);
    assert!(after.reads > before.reads && after.atomics > before.atomics);
    assert_eq!(after.failed, 0);
    assert_eq!(counted.count_total, 0);
}

#[test]
fn congestion_control_allocates_nothing() {
    let mut world = World::new(Some(1_000_000_000), Span::ZERO);
    let qps = [0, 1, 2].map(|n| {
        world.add_qp(n, |c| {
            c.pmtu = 256;
            // One that nobody holds back takes turns with those that wait.
            c.dcqcn = (n > 0).then_some(Dcqcn::DEFAULT);
        })
    });
    let mut nics = world.nics;
    let mut pool = Reused::new(64);
    let mut now = Time::ZERO;
    let mut frames = 0u64;
    let mut run = |steps: u32| {
        for _ in 0..steps {
            now += Span::from_micros(1);
            for qp in &qps {
                while nics[0].pending(*qp) < 4 {
                    let work = WorkRequest { kind: WorkKind::Send, len: 16 * 256, id: 0 };
                    nics[0].post(*qp, work, now).expect("the QP is well");
                }
            }
            for (from, to) in [(0, 1), (1, 0)] {
                nics[from].on_timers(now);
                while let Some(mut frame) = nics[from].poll_transmit(now, &mut pool) {
                    frames += 1;
                    // ToS of an untagged IPv4 frame: congestion experienced.
                    frame.bytes_mut()[15] |= if frames.is_multiple_of(50) { 3 } else { 0 };
                    nics[to].receive(frame.bytes(), now);
                    pool.give_back(frame);
                }
            }
            while nics[0].poll_completion().is_some() {}
            while nics[1].poll_received().is_some() {}
        }
        (nics[0].totals().requester.packets, nics[0].totals().requester.cnps)
    };
    let before = run(20_000);
    let mut after = before;
    let counted = allocation_counter::measure(|| after = run(20_000));
    assert!(after.0 > before.0 + 5_000 && after.1 > before.1 + 50, "{before:?}, {after:?}");
    assert_eq!(counted.count_total, 0);
}
