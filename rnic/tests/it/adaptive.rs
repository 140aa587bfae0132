//! Adaptive retransmission on a path that is longer than its first timeouts.

use std::cell::Cell;
use std::rc::Rc;

use crate::support::{World, work};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::parse;
use rnic::{RetryLimit, Status, WorkKind};

const RTT: Span = Span::from_millis(40);
const LONG: Time = Time::from_nanos(1 << 40);

/// With nothing lost, everything is sent at 0, 2, 6, 14 and 30 ms, and done
/// once.
#[test]
fn spurious_timeouts_do_no_harm() {
    let works = [
        (WorkKind::Send, 2_000),
        (WorkKind::FetchAdd { add: 1 }, 8),
        (WorkKind::Read, 2_000),
        (WorkKind::FetchAdd { add: 1 }, 8),
    ];
    for kinds in [&works[..1], &works[..]] {
        let mut world = World::new(None, RTT);
        let qp = world.add_qp(0, |c| {
            c.adaptive_retransmission = true;
            c.retry = RetryLimit::Count(7);
        });
        let copies_of_first = Rc::new(Cell::new(0));
        let count = Rc::clone(&copies_of_first);
        world.links[0].lose = Box::new(move |frame| {
            let first = parse(frame).unwrap().psn == Psn::new(0);
            count.set(count.get() + u32::from(first));
            false
        });
        for &(kind, len) in kinds {
            world.nics[0].post(qp, work(kind, len), Time::ZERO).unwrap();
        }
        for (millis, copies) in [(1, 1), (3, 2), (7, 3), (15, 4), (31, 5), (39, 5)] {
            world.run(Time::from_nanos(millis * 1_000_000));
            assert_eq!(copies_of_first.get(), copies, "at {millis} ms");
        }
        assert!(world.run(LONG));
        let done = &world.completions[0];
        assert_eq!(done.len(), kinds.len());
        assert!(done.iter().all(|c| c.status == Status::Ok && c.duration() == RTT));
        let originals: Vec<_> = done.iter().filter_map(|c| c.original).collect();
        assert_eq!(originals, (0..originals.len() as u64).collect::<Vec<_>>());
        assert_eq!(world.received[1].len(), 1);
        let requester = world.nics[0].stats(qp).requester;
        assert_eq!((requester.timeouts, requester.retransmitted), (4, requester.packets / 5 * 4));
        assert_eq!(requester.unexpected + requester.wrong_msn + requester.wrong_originals, 0);
        assert_eq!(requester.corrupt_bytes, 0);
        let responder = world.nics[1].stats(qp).responder;
        assert_eq!(responder.duplicates, requester.retransmitted);
        assert_eq!(responder.duplicates_dropped, 0);
    }
}
