//! For any events in any order, a flow accounts for every frame, does not spin, and
//! holds nothing for ever.

use common::budget::Budget;
use common::metrics::Metric;
use common::wire::{Opcode, Qpn, parse};
use proptest::prelude::*;
use testkit::books::assert_empty;
use testkit::depot::*;
use testkit::operations::input::Input;
use testkit::operations::{self, Rules, play};

/// Most timers at one time.
const AT_ONCE: u32 = 8;
/// Most timers until a flow without traffic is silent.
const MOST_TIMERS: u32 = 500;

fn room() -> impl Strategy<Value = Budget> {
    prop_oneof![
        2 => Just(Budget::new(PLENTY)),
        2 => (0..6u64).prop_map(Budget::new),
    ]
}

/// Nothing comes any more: it gives up, resets the flow and holds nothing.
fn end(bench: &mut Bench) {
    bench.fall_silent(MOST_TIMERS);
    assert_empty([&bench.pool, &bench.backup, &bench.cache]);
    let stranded =
        bench.out.discarded.iter().any(|(_, reason)| *reason == Metric::DropOldIncarnation);
    assert!(!stranded, "it waited until the flow was reset");
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
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn books_and_timers(pool in room(), backup in room(), cache in room(), is_open in any::<bool>(), operations in prop::collection::vec(any::<u8>(), 1..600)) {
        let mut flow = operations::depot::flow(config());
        (flow.pool, flow.backup, flow.cache) = (pool, backup, cache);
        let rules = Rules { is_open, is_prompt: true, at_once: AT_ONCE, until_silent: MOST_TIMERS };
        play(flow, &rules, &mut Input::new(&operations));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Packets that arrive in order are delivered in order at once, each packet once,
    /// with any room in the pools.
    #[test]
    fn what_comes_in_order_goes_on_in_order(pool in room(), backup in room(), src_qpn in any::<bool>(), requests in requests()) {
        let mut bench = Bench::synced();
        (bench.pool, bench.backup) = (pool, backup);
        bench.out.src_qpn = src_qpn.then_some(Qpn::new(0x77));
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
