//! Frames that nobody should send, and pools that run dry.

use crate::support::{World, drain, work};
use common::frame::{Frame, Pool};
use common::heap::{HeapFrame, HeapPool};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{icrc, parse};
use proptest::prelude::*;
use rnic::{Completion, Status, WorkKind};

/// Writes the ICRC that belongs to the frame, so that it is not dropped for
/// that reason.
fn mend(frame: &mut [u8]) {
    if let Ok(roce) = parse(frame) {
        let at = roce.icrc_at();
        let crc = icrc(frame, &roce);
        frame[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// For any bytes: no panic, each frame counted once, and either the
    /// QP failed, or it still carries messages after a reset.
    #[test]
    fn forged_frames(forgeries in prop::collection::vec((0usize..28, prop::collection::vec((14usize..74, any::<u8>()), 1..4), 0usize..120), 1..40)) {
        let mut world = World::new(None, Span::from_micros(1));
        let qp = world.add_qp(0, |c| c.pmtu = 256);
        for side in [0, 1] {
            for (kind, len) in [
                (WorkKind::Send, 700),
                (WorkKind::Read, 700),
                (WorkKind::FetchAdd { add: 1 }, 8),
                (WorkKind::Write, 700),
            ] {
                world.nics[side].post(qp, work(kind, len), Time::ZERO).unwrap();
            }
        }
        let mut genuine = Vec::new();
        for (side, most) in [(0, 20), (1, 16)] {
            for frame in drain(&mut world.nics[side], Time::ZERO).into_iter().take(most) {
                world.nics[1 - side].receive(&frame, Time::ZERO);
                genuine.push((1 - side, frame));
            }
        }
        let before = world.nics.each_ref().map(|nic| nic.port_stats().frames_in);
        let mut given = [0; 2];
        for (which, changes, cut) in forgeries {
            let (to, mut frame) = genuine[which % genuine.len()].clone();
            for (at, value) in changes {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            if cut < 20 {
                frame.truncate(frame.len() - cut);
            }
            mend(&mut frame);
            world.nics[to].receive(&frame, Time::ZERO);
            given[to] += 1;
        }
        for side in [0, 1] {
            let nic = &world.nics[side];
            prop_assert_eq!(nic.port_stats().frames_in, before[side] + given[side]);
            if nic.has_failed(qp) {
                prop_assert_eq!(nic.pending(qp), 0);
            }
        }

        for side in [0, 1] {
            drain(&mut world.nics[side], Time::ZERO);
            while world.nics[side].poll_completion().is_some() {}
            while world.nics[side].poll_received().is_some() {}
            world.nics[side].reset_qp(qp, Psn::new(5), Psn::new(5), Time::ZERO);
            while world.nics[side].poll_completion().is_some() {}
        }
        for kind in [WorkKind::Send, WorkKind::Read] {
            world.nics[0].post(qp, work(kind, 700), Time::ZERO).unwrap();
        }
        prop_assert!(world.run(Time::from_nanos(1_000_000_000)));
        prop_assert_eq!(world.received[1].len(), 1);
        prop_assert_eq!(world.received[1][0].corrupt_bytes, 0);
        let whole = |c: &&Completion| c.status == Status::Ok && c.corrupt_bytes == 0;
        prop_assert_eq!(world.completions[0].iter().filter(whole).count(), 2);
    }
}

/// A pool that has frames now and then.
struct Meagre(u32);

impl Pool for Meagre {
    type Frame = HeapFrame;

    fn alloc(&mut self, len: usize) -> Option<HeapFrame> {
        self.0 += 1;
        if self.0.is_multiple_of(3) { HeapPool.alloc(len) } else { None }
    }
}

#[test]
fn a_pool_that_runs_dry_costs_nothing_but_time() {
    let mut world = World::new(None, Span::ZERO);
    let qps = [0, 1].map(|n| world.add_qp(n, |c| c.pmtu = 256));
    for qp in qps {
        for (kind, len) in
            [(WorkKind::Write, 5_000), (WorkKind::Read, 5_000), (WorkKind::FetchAdd { add: 1 }, 8)]
        {
            world.nics[0].post(qp, work(kind, len), Time::ZERO).unwrap();
        }
    }
    let [mut a, mut b] = world.nics;
    let mut pool = Meagre(0);
    let mut polls = 0;
    while a.totals().requester.messages < 6 {
        if let Some(frame) = a.poll_transmit(Time::ZERO, &mut pool) {
            b.receive(frame.bytes(), Time::ZERO);
        }
        if let Some(frame) = b.poll_transmit(Time::ZERO, &mut pool) {
            a.receive(frame.bytes(), Time::ZERO);
        }
        polls += 1;
        assert!(polls < 1_000);
    }
    let totals = a.totals().requester;
    assert_eq!((totals.messages, totals.packets, totals.retransmitted), (6, 44, 0));
    assert_eq!(totals.read_responses, 40);
    assert_eq!(totals.corrupt_bytes + totals.wrong_originals, 0);
    assert_eq!(b.totals().responder.corrupt_bytes, 0);
    assert!(a.port_stats().no_frame > 0);
}
