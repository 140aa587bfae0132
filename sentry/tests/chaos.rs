//! For any events in any order, a flow accounts for every frame, does not
//! spin, keeps the order of responses, and releases everything in the end.

use std::collections::BTreeMap;

use common::budget::Budget;
use common::control::LastAck;
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::{Aeth, Answer, Opcode, Verdict, parse};
use proptest::prelude::*;
use sentry::Recovery;
use testkit::books::assert_empty;
use testkit::sentry::*;

#[derive(Clone, Debug)]
enum Event {
    Data {
        back: i32,
        ack_req: bool,
        damaged: bool,
    },
    Leap(i32),
    Read {
        back: i32,
        len: u32,
    },
    Atomic {
        back: i32,
    },
    Ack(i32),
    Nak(i32),
    Rnr(i32),
    /// The parts of a READ response message from .. to, but for some.
    Responses {
        back: i32,
        len: i32,
        lost: Vec<i32>,
    },
    AtomicAck(i32),
    Status {
        expected: i32,
        held: i32,
        missing: Vec<(i32, i32)>,
        ack: Option<i32>,
        echo: u64,
        keeps: bool,
    },
    Wait(u64),
    Requester(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let range = (0..20i32, 1..4i32);
    let len = prop_oneof![
        Just(0),
        1..257u32,
        257..3_000u32,
        prop::bool::weighted(0.05).prop_map(|long| if long { 1 << 24 } else { 256 }),
        prop::bool::weighted(0.02).prop_map(|long| if long { (1 << 24) + 1 } else { 512 }),
    ];
    prop_oneof![
        8 => Just(Event::Data { back: 0, ack_req: false, damaged: false }),
        6 => (-3..12i32, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(back, ack_req, damaged)| Event::Data { back, ack_req, damaged }),
        1 => (-3_000..3_000i32, prop::bool::weighted(0.3))
            .prop_map(|(by, far)| if far { Event::Leap(by) } else { Event::Wait(1) }),
        4 => (prop_oneof![3 => Just(0), 1 => -2..12i32], len).prop_map(|(back, len)| Event::Read { back, len }),
        1 => prop_oneof![3 => Just(0), 1 => -2..12i32].prop_map(|back| Event::Atomic { back }),
        2 => (-2..20i32).prop_map(Event::Ack),
        1 => (-2..20i32).prop_map(Event::Nak),
        1 => (-2..20i32).prop_map(Event::Rnr),
        4 => (-1..20i32, 1..8i32, prop::collection::vec(0..8i32, 0..3))
            .prop_map(|(back, len, lost)| Event::Responses { back, len, lost }),
        1 => (-1..20i32).prop_map(Event::AtomicAck),
        4 => (-1..20i32, 0..20i32, prop::collection::vec(range, 0..4), prop::option::of(-2..20i32), 0..3u64, prop::bool::weighted(0.9))
            .prop_map(|(expected, held, missing, ack, echo, keeps)| Event::Status { expected, held, missing, ack, echo, keeps }),
        4 => (0..20_000u64).prop_map(Event::Wait),
        1 => prop::bool::weighted(0.8).prop_map(Event::Requester),
    ]
}

fn recovery() -> impl Strategy<Value = Recovery> {
    prop_oneof![Just(Recovery::Lr2), Just(Recovery::Cached), Just(Recovery::Auto)]
}

fn room() -> impl Strategy<Value = Budget> {
    prop_oneof![
        2 => Just(Budget::new(PLENTY)),
        2 => (0..6u64).prop_map(Budget::new),
    ]
}

/// Runs due timers, and checks that none stays due.
fn settle(bench: &mut Bench) {
    for _ in 0..8 {
        if bench.deadline() > bench.now {
            return;
        }
        bench.timer();
    }
    panic!("a timer that stays due: {:?} at {:?}", bench.deadline(), bench.now);
}

/// Nobody answers any more: it falls silent, and holds nothing once it is
/// forgotten.
fn end(bench: &mut Bench) {
    let mut fired = 0;
    while bench.deadline() != Time::NEVER {
        bench.now = bench.now.max(bench.deadline());
        bench.timer();
        fired += 1;
        assert!(fired < 200, "no end of timers");
    }
    assert_eq!(bench.pool.frames(), 0, "answers are held for ever");
    bench.with(|flow, cx| flow.release_all(cx));
    assert_empty([&bench.cache, &bench.pool]);
    bench.check_books();
}

fn play(bench: &mut Bench, next: &mut i32, event: Event) {
    match event {
        Event::Data { back, ack_req, damaged: is_damaged } => {
            let n = *next - back;
            *next = (*next).max(n + 1);
            let frame = packet(Opcode::WRITE_MIDDLE, n, ack_req, 256);
            bench.frame(if is_damaged { damaged(frame) } else { frame });
        }
        Event::Leap(by) => {
            *next += by + 1;
            bench.data([*next - 1]);
        }
        Event::Read { back, len } => {
            let n = *next - back;
            bench.frame(read(n, len));
            *next = (*next).max(n + len.div_ceil(256).max(1) as i32);
        }
        Event::Atomic { back } => {
            bench.frame(atomic(*next - back));
            *next = (*next).max(*next - back + 1);
        }
        Event::Ack(back) => bench.ack(*next - back, 1),
        Event::Nak(back) => bench.nak(*next - back),
        Event::Rnr(back) => bench.answer(plain_answer(*next - back, Aeth::RNR + 3, 1)),
        Event::Responses { back, len, lost } => {
            let message = *next - back..*next - back + len;
            for (i, n) in message.clone().enumerate() {
                if !lost.contains(&(i as i32)) {
                    bench.answer(part(message.clone(), n));
                }
            }
        }
        Event::AtomicAck(back) => bench.answer(atomic_ack(*next - back)),
        Event::Status { expected, held, missing, ack, echo, keeps } => {
            let expected = *next - expected;
            let missing: Vec<_> =
                missing.iter().map(|(at, len)| (expected + at, expected + at + len)).collect();
            let ack = ack.map(|back| LastAck { psn: psn(*next - back), syndrome: 0x1f, msn: 1 });
            let echo = match echo {
                0 => Time::ZERO,
                1 => bench.now - Span::from_millis(9),
                _ => bench.now,
            };
            bench.status_with(expected, expected + held, &missing, |s| {
                (s.ack, s.echo, s.keeps_responses) = (ack, echo, keeps);
            });
        }
        Event::Wait(us) => bench.wait(Span::from_micros(us)),
        Event::Requester(known) => bench.out.src_qpn = known.then_some(3),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn books_and_timers(recovery in recovery(), cache in room(), pool in room(), protected in any::<bool>(), events in prop::collection::vec(event(), 1..150)) {
        let mut bench = Bench::start(recovery);
        (bench.cache, bench.pool) = (cache, pool);
        let mut next = 0;
        if protected {
            bench.data([0]);
            bench.status(0, 0, &[]);
            bench.ack(0, 1);
            next = 1;
        }
        for event in events {
            play(&mut bench, &mut next, event);
            settle(&mut bench);
            bench.check_books();
            for did in bench.take() {
                // A PSN that a NAK or ACK of ours acknowledges must have been sent.
                if let Did::Nak { psn, .. } | Did::Ack { psn, .. } = did {
                    prop_assert!(psn <= next.max(1) + 3_000, "{did:?} at {next}");
                }
            }
            prop_assert!(bench.fetched().iter().all(|missing| missing.is_sorted() && missing.len() <= 32));
        }
        end(&mut bench);
    }

    /// A destination that answers each request once, in order, over a link
    /// that loses some responses and delays fetched ones: while the Depot there
    /// still has the lost ones, the source sees the very stream that was sent.
    #[test]
    fn answers_go_on_in_the_order_of_their_places(requests in prop::collection::vec((0..3usize, 1..6i32), 1..20), lost in prop::collection::btree_set(0..80usize, 0..20)) {
        let mut bench = Bench::protected(Recovery::Auto, 1, Some(1));
        let (mut next, mut stream) = (1, Vec::new());
        for (kind, len) in requests {
            match kind {
                0 => {
                    bench.data([next]);
                    stream.push(plain_answer(next, Aeth::ACK_UNLIMITED, 1));
                    next += 1;
                }
                1 => {
                    bench.frame(atomic(next));
                    stream.push(atomic_ack(next));
                    next += 1;
                }
                _ => {
                    bench.frame(read(next, len as u32 * 256));
                    stream.extend((next..next + len).map(|n| part(next..next + len, n)));
                    next += len;
                }
            }
        }
        bench.clear();
        let name = |frame: &[u8]| {
            let roce = parse(frame).expect("a RoCEv2 frame");
            (Answer::of(&roce, frame).expect("an answer"), (roce.opcode, roce.psn.distance(FIRST)))
        };
        // A lost ACK is not repaired by a FETCH: the next answer implies it.
        let is_response = |frame: &[u8]| matches!(name(frame).0.verdict, Verdict::Response(_));
        let mut kept = BTreeMap::new();
        let mut sent = Vec::new();
        for (i, frame) in stream.into_iter().enumerate() {
            let is_lost = lost.contains(&i);
            if is_response(&frame) {
                kept.insert(name(&frame).1.1, frame.clone());
            } else if is_lost {
                continue;
            }
            sent.push(name(&frame).1);
            if !is_lost {
                bench.answer(frame);
            }
            settle(&mut bench);
        }
        // Long enough for every FETCH, too short to believe the peer lost.
        let until = bench.now + RTT * 16;
        loop {
            for (from, to) in bench.fetched().into_iter().flatten() {
                (from..to).for_each(|n| bench.answer(kept[&n].clone()));
            }
            if bench.deadline() > until {
                break;
            }
            bench.run_timers(bench.deadline());
        }
        // Those that come twice are not held up, but fall out of the order.
        let mut seen = std::mem::take(&mut bench.out.answers);
        let mut known = std::collections::BTreeSet::new();
        seen.retain(|answer| known.insert((answer.0.has_aeth() && answer.0 == Opcode::ACK, answer.1)));
        prop_assert_eq!(seen, sent);
        prop_assert_eq!(bench.pool.frames(), 0);
        prop_assert_eq!(bench.count(Metric::ReadGapsGivenUp), 0);
        end(&mut bench);
    }
}
