//! Whatever is said to it in whatever order, a flow keeps its books, does not
//! spin, and lets go of everything in the end.

mod support;

use common::budget::Budget;
use common::control::LastAck;
use common::time::{Span, Time};
use common::wire::Opcode;
use proptest::prelude::*;
use sentry::Recovery;
use support::*;

#[derive(Clone, Debug)]
enum Event {
    Data { back: i32, ack_req: bool, damaged: bool },
    Leap(i32),
    Read,
    Ack(i32),
    Nak(i32),
    Status { expected: i32, held: i32, missing: Vec<(i32, i32)>, ack: Option<i32>, echo: u64 },
    Wait(u64),
    Requester(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let range = (0..20i32, 1..4i32);
    prop_oneof![
        8 => Just(Event::Data { back: 0, ack_req: false, damaged: false }),
        6 => (-3..12i32, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(back, ack_req, damaged)| Event::Data { back, ack_req, damaged }),
        1 => (-3_000..3_000i32).prop_map(Event::Leap),
        1 => prop::bool::weighted(0.05).prop_map(|read| if read { Event::Read } else { Event::Wait(1) }),
        2 => (-2..20i32).prop_map(Event::Ack),
        1 => (-2..20i32).prop_map(Event::Nak),
        4 => (-1..20i32, 0..20i32, prop::collection::vec(range, 0..4), prop::option::of(-2..20i32), 0..3u64)
            .prop_map(|(expected, held, missing, ack, echo)| Event::Status { expected, held, missing, ack, echo }),
        4 => (0..20_000u64).prop_map(Event::Wait),
        1 => any::<bool>().prop_map(Event::Requester),
    ]
}

fn recovery() -> impl Strategy<Value = Recovery> {
    prop_oneof![Just(Recovery::Lr2), Just(Recovery::Cached), Just(Recovery::Auto)]
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
    fn books_and_timers(recovery in recovery(), room in prop_oneof![Just(PLENTY), 0..3_000u64], events in prop::collection::vec(event(), 1..150)) {
        let mut bench = Bench::new(recovery);
        bench.cache = Budget::new(room, PLENTY);
        let mut next = 0;
        for event in events {
            match event {
                Event::Data { back, ack_req, damaged: is_damaged } => {
                    let n = next - back;
                    next = next.max(n + 1);
                    let frame = packet(Opcode::WRITE_MIDDLE, n, ack_req, 256);
                    bench.frame(if is_damaged { damaged(frame) } else { frame });
                }
                Event::Leap(by) => {
                    next += by + 1;
                    bench.data([next - 1]);
                }
                Event::Read => {
                    bench.frame(packet(Opcode::READ_REQUEST, next, true, 16));
                    next += 1;
                }
                Event::Ack(back) => bench.ack(next - back, 1),
                Event::Nak(back) => bench.nak(next - back),
                Event::Status { expected, held, missing, ack, echo } => {
                    let expected = next - expected;
                    let missing: Vec<_> =
                        missing.iter().map(|(at, len)| (expected + at, expected + at + len)).collect();
                    let ack = ack.map(|back| LastAck { psn: psn(next - back), syndrome: 0x1f, msn: 1 });
                    let echo = match echo {
                        0 => Time::ZERO,
                        1 => bench.now - Span::from_millis(9),
                        _ => bench.now,
                    };
                    bench.status_with(expected, expected + held, &missing, |s| {
                        (s.ack, s.echo) = (ack, echo);
                    });
                }
                Event::Wait(us) => bench.wait(Span::from_micros(us)),
                Event::Requester(known) => bench.out.requester = known.then_some(3),
            }
            settle(&mut bench);
            bench.check_books();
            for did in bench.take() {
                // What a NAK or ACK of ours acknowledges must have been sent.
                if let Did::Nak { psn, .. } | Did::Ack { psn, .. } = did {
                    prop_assert!(psn < next.max(1) + 3_000, "{did:?} at {next}");
                }
            }
        }
        // Nobody answers any more: it falls silent ...
        let mut fired = 0;
        while bench.deadline() != Time::NEVER {
            bench.now = bench.now.max(bench.deadline());
            bench.timer();
            fired += 1;
            prop_assert!(fired < 200, "no end of timers");
        }
        // ... and holds nothing once it is forgotten.
        bench.with(|flow, cx| flow.forget(cx));
        prop_assert_eq!((bench.cache.frames(), bench.cache.used()), (0, 0));
        bench.check_books();
    }
}
