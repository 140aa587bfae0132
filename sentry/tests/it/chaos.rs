//! For any events in any order, a flow accounts for every frame, does not
//! spin, keeps the order of responses, and releases everything in the end.

use std::collections::BTreeMap;

use common::budget::Budget;
use common::metrics::Metric;
use common::wire::{Aeth, Opcode, Response, Verdict, parse};
use proptest::prelude::*;
use sentry::Recovery;
use testkit::books::assert_empty;
use testkit::operations::input::Input;
use testkit::operations::{self, Rules, play};
use testkit::sentry::*;

/// Most timers at one time.
const AT_ONCE: u32 = 8;
/// Most timers until a flow without traffic is silent.
const MOST_TIMERS: u32 = 200;

fn recovery() -> impl Strategy<Value = Recovery> {
    prop_oneof![Just(Recovery::Lr2), Just(Recovery::Cached), Just(Recovery::Auto)]
}

fn room() -> impl Strategy<Value = Budget> {
    prop_oneof![
        2 => Just(Budget::new(PLENTY)),
        2 => (0..6u64).prop_map(Budget::new),
    ]
}

/// Nobody answers any more: it falls silent, and holds nothing once it is
/// reset.
fn end(bench: &mut Bench) {
    bench.fall_silent(MOST_TIMERS);
    assert_eq!(bench.pool.frames(), 0, "responses are held for ever");
    bench.with(|flow, cx| flow.release_all(cx));
    assert_empty([&bench.cache, &bench.pool]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn books_and_timers(recovery in recovery(), cache in room(), pool in room(), is_open in any::<bool>(), operations in prop::collection::vec(any::<u8>(), 1..600)) {
        let mut flow = operations::sentry::flow(config(recovery));
        (flow.cache, flow.pool) = (cache, pool);
        let rules = Rules { is_open, is_prompt: true, at_once: AT_ONCE, until_silent: MOST_TIMERS };
        play(flow, &rules, &mut Input::new(&operations));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

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
                    stream.push(plain_response(next, Aeth::ACK_UNLIMITED, 1));
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
            (Response::of(&roce, frame).expect("a response"), (roce.opcode, roce.psn.distance(FIRST)))
        };
        // A lost ACK is not repaired by a FETCH: the next response implies it.
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
                bench.respond(frame);
            }
            bench.settle(AT_ONCE);
        }
        // Long enough for every FETCH, too short to believe the peer lost.
        let until = bench.now + RTT * 16;
        loop {
            for (from, to) in bench.fetched().into_iter().flatten() {
                (from..to).for_each(|n| bench.respond(kept[&n].clone()));
            }
            if bench.deadline() > until {
                break;
            }
            let due = bench.deadline();
            bench.run_timers(due);
        }
        // Those that come twice are not held up, but fall out of the order.
        let mut seen = std::mem::take(&mut bench.out.responses);
        let mut known = std::collections::BTreeSet::new();
        seen.retain(|response| known.insert((response.0.has_aeth() && response.0 == Opcode::ACK, response.1)));
        prop_assert_eq!(seen, sent);
        prop_assert_eq!(bench.pool.frames(), 0);
        prop_assert_eq!(bench.count(Metric::ReadGapsGivenUp), 0);
        end(&mut bench);
    }
}
