//! Once queues have grown, traffic allocates nothing, losses included.

mod support;

use common::frame::{Frame, Pool};
use common::heap::HeapFrame;
use common::time::{Span, Time};
use rnic::{Nic, QpId, WorkKind, WorkRequest};
use support::World;

/// Frames that are used again, as in a mempool, by length: full packets and
/// ACKs.
struct Reused([Vec<HeapFrame>; 2]);

const LENGTHS: [usize; 2] = [338 - 24, 62];

impl Reused {
    fn new(n: usize) -> Self {
        Self(LENGTHS.map(|len| vec![HeapFrame::from(vec![0; len]); n]))
    }

    fn give_back(&mut self, frame: HeapFrame) {
        let kind = usize::from(frame.bytes().len() == LENGTHS[1]);
        self.0[kind].push(frame);
    }
}

impl Pool for Reused {
    type Frame = HeapFrame;

    fn alloc(&mut self, len: usize) -> Option<HeapFrame> {
        let kind = LENGTHS.iter().position(|l| *l == len).expect("a full packet or an ACK");
        self.0[kind].pop()
    }
}

/// Messages of 16 packets, four at a time per QP; every 97th frame is lost.
fn exchange(nics: &mut [Nic; 2], qps: &[QpId], pool: &mut Reused, now: &mut Time, rounds: u32) {
    for round in 0..rounds {
        *now += Span::from_micros(300);
        for qp in qps {
            while nics[0].pending(*qp) < 4 {
                let work = WorkRequest { kind: WorkKind::Send, len: 16 * 256, id: 0 };
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
    assert_eq!(after.failed, 0);
    assert_eq!(counted.count_total, 0);
}
