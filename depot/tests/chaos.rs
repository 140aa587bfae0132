//! For any events in any order, a flow accounts for every frame, does not spin, and
//! holds nothing for ever.

use common::budget::Budget;
use common::control::{Fetch, PsnRange, Reason};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::{Opcode, parse};
use depot::Incarnation;
use proptest::prelude::*;
use testkit::books::assert_empty;
use testkit::depot::*;

#[derive(Clone, Debug)]
enum Event {
    Data { ahead: i32, asks: bool, damaged: bool },
    Leap(i32),
    Read { ahead: i32, len: u32 },
    Atomic { ahead: i32 },
    Sync { node: u32, epoch: u32, reason: Reason, next: i32 },
    Resent { epoch: u32 },
    Ack(i32),
    Nak(i32),
    Rnr(i32),
    Responses { back: i32, len: i32 },
    AtomicAck(i32),
    Fetch { expected: i32, missing: Vec<(i32, u32)> },
    Requester(bool),
    Wait(u64),
}

fn reason() -> impl Strategy<Value = Reason> {
    prop_oneof![
        4 => Just(Reason::Open),
        4 => Just(Reason::Tail),
        4 => Just(Reason::Keepalive),
        2 => Just(Reason::Lost),
        1 => Just(Reason::Release),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => any::<bool>().prop_map(|asks| Event::Data { ahead: 0, asks, damaged: false }),
        8 => (-8..12i32, any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(ahead, asks, damaged)| Event::Data { ahead, asks, damaged }),
        1 => (-3_000..3_000i32, prop::bool::weighted(0.3))
            .prop_map(|(by, far)| if far { Event::Leap(by) } else { Event::Wait(1) }),
        3 => (prop_oneof![3 => Just(0), 1 => -8..8i32], prop_oneof![8 => 0..9u32, 1 => 9..1_500u32])
            .prop_map(|(ahead, len)| Event::Read { ahead, len }),
        1 => prop_oneof![3 => Just(0), 1 => -8..8i32].prop_map(|ahead| Event::Atomic { ahead }),
        4 => (prop::bool::weighted(0.05), prop::bool::weighted(0.1), reason(), -10..20i32).prop_map(
            |(node, epoch, reason, next)| Event::Sync {
                node: node.into(), epoch: epoch.into(), reason, next
            }
        ),
        1 => (0..2u32).prop_map(|epoch| Event::Resent { epoch }),
        2 => (-5..20i32).prop_map(Event::Ack),
        2 => (-5..20i32).prop_map(Event::Nak),
        1 => (-5..20i32).prop_map(Event::Rnr),
        3 => (-2..20i32, 1..8i32).prop_map(|(back, len)| Event::Responses { back, len }),
        1 => (-2..20i32).prop_map(Event::AtomicAck),
        2 => (-5..20i32, prop::collection::vec((-2..10i32, 1..9u32), 0..4))
            .prop_map(|(expected, missing)| Event::Fetch { expected, missing }),
        1 => prop::bool::weighted(0.8).prop_map(Event::Requester),
        4 => (0..20_000u64).prop_map(Event::Wait),
    ]
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

/// Nothing comes any more: it gives up, forgets the flow and holds nothing.
fn end(bench: &mut Bench) {
    let mut fired = 0;
    while bench.deadline() != Time::NEVER {
        bench.now = bench.now.max(bench.deadline());
        bench.timer();
        fired += 1;
        assert!(fired < 500, "no end of timers");
    }
    assert_empty([&bench.pool, &bench.backup, &bench.cache]);
    let stranded =
        bench.out.discarded.iter().any(|(_, reason)| *reason == Metric::DropOldIncarnation);
    assert!(!stranded, "it waited until the flow was forgotten");
    bench.check_books();
}

fn play(bench: &mut Bench, next: &mut i32, event: Event) {
    match event {
        Event::Data { ahead, asks, damaged: is_damaged } => {
            let n = *next + ahead;
            *next = (*next).max(n + 1);
            let frame = if asks { asking(n) } else { write(n) };
            bench.frame(if is_damaged { damaged(frame) } else { frame });
        }
        Event::Leap(by) => {
            *next += by + 1;
            bench.data([*next - 1]);
        }
        Event::Read { ahead, len } => {
            let n = *next + ahead;
            bench.frame(read(n, len));
            *next = (*next).max(n + len.max(1) as i32);
        }
        Event::Atomic { ahead } => {
            let n = *next + ahead;
            bench.frame(packet(Opcode::COMPARE_SWAP, n, false, 28));
            *next = (*next).max(n + 1);
        }
        Event::Sync { node, epoch, reason, next: ahead } => {
            bench.sync(Incarnation { node, boot: 1, epoch }, reason, *next + ahead);
        }
        Event::Resent { epoch } => bench.sync_resent(Incarnation { node: 0, boot: 1, epoch }),
        Event::Ack(back) => _ = bench.ack(*next - back),
        Event::Nak(back) => _ = bench.nak(*next - back),
        Event::Rnr(back) => _ = bench.rnr(*next - back),
        Event::Responses { back, len } => {
            for n in *next - back..*next - back + len {
                let _ = bench.answer(response(n));
            }
        }
        Event::AtomicAck(back) => _ = bench.answer(atomic_ack(*next - back)),
        Event::Fetch { expected, missing } => {
            let expected = *next - expected;
            let range = |&(at, len): &(i32, u32)| PsnRange { start: psn(expected + at), len };
            let fetch =
                Fetch { expected: psn(expected), missing: missing.iter().map(range).collect() };
            bench.with(|flow, cx| flow.on_fetch(cx, &fetch));
        }
        Event::Requester(known) => bench.out.src_qpn = known.then_some(0x77),
        Event::Wait(us) => bench.wait(Span::from_micros(us)),
    }
}

/// A stream of requests: writes, some of which ask for an ACK, READs, atomics.
fn requests() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec((0..4u8, 1..6u32), 1..60).prop_map(|kinds| {
        let mut next = 1;
        let frame = |(kind, len): (u8, u32)| {
            let n = next;
            next += if kind == 2 { len as i32 } else { 1 };
            match kind {
                0 => write(n),
                1 => asking(n),
                2 => read(n, len),
                _ => packet(Opcode::FETCH_ADD, n, false, 28),
            }
        };
        kinds.into_iter().map(frame).collect()
    })
}

fn number(frame: &[u8]) -> i32 {
    count_of(parse(frame).expect("a RoCEv2 frame").psn)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn books_and_timers(pool in room(), backup in room(), cache in room(), synced in any::<bool>(), events in prop::collection::vec(event(), 1..150)) {
        let mut bench = Bench::default();
        (bench.pool, bench.backup, bench.cache) = (pool, backup, cache);
        let mut next = 0;
        if synced {
            bench.out.src_qpn = Some(0x77);
            bench.sync(Incarnation { node: 0, boot: 1, epoch: 0 }, Reason::Open, 0);
            bench.data([0]);
            let _ = bench.ack(0);
            next = 1;
        }
        for event in events {
            play(&mut bench, &mut next, event);
            settle(&mut bench);
            bench.check_books();
            for status in bench.statuses() {
                let ahead = |psn: common::psn::Psn| psn.distance(status.expected);
                let (from, to) = (ahead(status.from), ahead(status.to));
                prop_assert!(0 <= from && from <= to, "{status:?}");
                let mut end = from;
                for range in &status.missing {
                    let start = ahead(range.start);
                    prop_assert!(end <= start && range.len > 0, "{status:?}");
                    end = start + range.len as i32;
                    prop_assert!(end <= to, "{status:?}");
                }
            }
            bench.clear();
        }
        end(&mut bench);
    }

    /// Packets that arrive in order are delivered in order at once, each packet once,
    /// with any room in the pools.
    #[test]
    fn what_comes_in_order_goes_on_in_order(pool in room(), backup in room(), src_qpn in any::<bool>(), requests in requests()) {
        let mut bench = Bench::synced();
        (bench.pool, bench.backup) = (pool, backup);
        bench.out.src_qpn = src_qpn.then_some(0x77);
        for frame in requests {
            let n = number(&frame);
            bench.frame(frame);
            prop_assert_eq!(bench.delivered(), [n]);
        }
        prop_assert!(bench.nacks().iter().all(Vec::is_empty));
        end(&mut bench);
    }

    /// A lost packet that comes later is delivered in its place.
    #[test]
    fn what_is_lost_and_comes_again_takes_its_place(requests in requests(), lost in prop::collection::vec(any::<bool>(), 60)) {
        let mut bench = Bench::synced();
        let all = requests.iter().map(|frame| number(frame)).collect::<Vec<_>>();
        let (mut delivered, mut again) = (Vec::new(), Vec::new());
        for (frame, is_lost) in requests.into_iter().zip(lost) {
            if is_lost {
                again.push(frame);
            } else {
                bench.frame(frame);
                delivered.extend(bench.delivered());
            }
        }
        for frame in again {
            bench.frame(frame);
            delivered.extend(bench.delivered());
        }
        prop_assert_eq!(delivered, all);
        prop_assert_eq!(bench.pool.frames(), 0);
        end(&mut bench);
    }
}
