//! Whatever comes in whatever order, a flow keeps its books, does not spin, and
//! holds nothing for ever.

mod support;

use common::budget::Budget;
use common::control::Reason;
use common::time::{Span, Time};
use common::wire::Opcode;
use depot::Life;
use proptest::prelude::*;
use support::*;

#[derive(Clone, Debug)]
enum Event {
    Data { ahead: i32, damaged: bool },
    Leap(i32),
    Read,
    Sync { node: u32, epoch: u32, reason: Reason, next: i32 },
    Resent { epoch: u32 },
    Ack(i32),
    Nak(i32),
    Rnr(i32),
    Wait(u64),
}

fn reason() -> impl Strategy<Value = Reason> {
    prop_oneof![
        4 => Just(Reason::Open),
        4 => Just(Reason::Tail),
        4 => Just(Reason::Keepalive),
        1 => Just(Reason::Release),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Data { ahead: 0, damaged: false }),
        8 => (-8..12i32, prop::bool::weighted(0.1))
            .prop_map(|(ahead, damaged)| Event::Data { ahead, damaged }),
        1 => (-3_000..3_000i32).prop_map(Event::Leap),
        1 => prop::bool::weighted(0.1).prop_map(|read| if read { Event::Read } else { Event::Wait(1) }),
        4 => (prop::bool::weighted(0.05), prop::bool::weighted(0.1), reason(), -10..20i32).prop_map(
            |(node, epoch, reason, next)| Event::Sync {
                node: node.into(), epoch: epoch.into(), reason, next
            }
        ),
        1 => (0..2u32).prop_map(|epoch| Event::Resent { epoch }),
        2 => (-5..20i32).prop_map(Event::Ack),
        1 => (-5..20i32).prop_map(Event::Nak),
        1 => (-5..20i32).prop_map(Event::Rnr),
        4 => (0..20_000u64).prop_map(Event::Wait),
    ]
}

/// Runs what is due, and checks that it doesn't stay due.
fn settle(bench: &mut Bench) {
    for _ in 0..8 {
        if bench.deadline() > bench.now {
            return;
        }
        bench.timer();
    }
    panic!("a timer that stays due: {:?} at {:?}", bench.deadline(), bench.now);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn books_and_timers(room in prop_oneof![Just(PLENTY), 0..3_000u64], events in prop::collection::vec(event(), 1..150)) {
        let mut bench = Bench::new();
        bench.pool = Budget::new(room, PLENTY);
        let mut next = 0;
        for event in events {
            match event {
                Event::Data { ahead, damaged: is_damaged } => {
                    let n = next + ahead;
                    next = next.max(n + 1);
                    bench.frame(if is_damaged { damaged(write(n)) } else { write(n) });
                }
                Event::Leap(by) => {
                    next += by + 1;
                    bench.data([next - 1]);
                }
                Event::Read => bench.frame(packet(Opcode::READ_REQUEST, next, 16)),
                Event::Sync { node, epoch, reason, next: ahead } => {
                    bench.sync(Life { node, boot: 1, epoch }, reason, next + ahead);
                }
                Event::Resent { epoch } => bench.sync_resent(Life { node: 0, boot: 1, epoch }),
                Event::Ack(back) => _ = bench.ack(next - back),
                Event::Nak(back) => _ = bench.nak(next - back),
                Event::Rnr(back) => _ = bench.rnr(next - back),
                Event::Wait(us) => bench.wait(Span::from_micros(us)),
            }
            settle(&mut bench);
            bench.check_books();
            for status in bench.statuses() {
                let ahead = |psn: common::psn::Psn| psn.distance(status.expected);
                let (from, to, high) = (ahead(status.from), ahead(status.to), ahead(status.high));
                prop_assert!(0 <= from && from <= to && to <= high, "{status:?}");
                let mut end = from;
                for range in &status.missing {
                    let start = ahead(range.start);
                    prop_assert!(end <= start && range.len > 0, "{status:?}");
                    end = start + range.len as i32;
                    prop_assert!(end <= to, "{status:?}");
                }
            }
        }
        // Nothing comes any more: it gives up and falls silent.
        let mut fired = 0;
        while bench.deadline() != Time::NEVER {
            bench.now = bench.now.max(bench.deadline());
            bench.timer();
            fired += 1;
            prop_assert!(fired < 20, "no end of timers");
        }
        prop_assert_eq!((bench.pool.frames(), bench.pool.used()), (0, 0));
        bench.check_books();
    }
}
