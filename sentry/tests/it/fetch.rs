//! READ responses that are missing are asked for, at the right time.

use common::allowance::Allowance;
use common::metrics::Metric;
use common::time::Span;
use sentry::Recovery::{Cached, Lr2};
use testkit::sentry::*;

/// 1.25 round trips.
const PATIENCE: Span = Span::from_millis(10);
const NANO: Span = Span::from_nanos(1);

#[test]
fn a_fetch_lists_exactly_the_responses_that_are_missing() {
    let mut bench = reading();
    come(&mut bench, [1, 4]);
    assert_eq!(bench.fetched(), [[(2, 4)]]);
    assert_eq!(bench.out.expected, [2]);
    come(&mut bench, [8]);
    assert_eq!(bench.fetched(), [[(2, 4), (7, 8)]], "5 and 6 are no READ");
    come(&mut bench, [2]);
    assert_eq!(bench.fetched(), [] as [Vec<_>; 0]);
    bench.run_timers(bench.now + TAIL);
    assert_eq!(bench.fetched(), [[(3, 4), (7, 8)]]);
    come(&mut bench, [3]);
    assert_eq!(bench.answered(), [1, 2, 3, 4]);
    come(&mut bench, [7]);
    assert_eq!(bench.answered(), [7, 8]);
    assert_eq!(bench.count(Metric::ReadGapsFilled), 1, "the second is behind the first");
}

// R-READ-5
#[test]
fn an_ack_beyond_a_read_that_is_not_complete_shows_a_gap() {
    for (got, missing) in [(1..1, (1, 5)), (1..3, (3, 5)), (1..4, (4, 5))] {
        let mut bench = reading();
        come(&mut bench, got.clone());
        bench.ack(5, 1);
        assert_eq!(bench.fetched(), [[missing]]);
        assert_eq!(bench.answered(), got.clone().collect::<Vec<_>>());
        come(&mut bench, missing.0..5);
        assert_eq!(bench.answered(), (missing.0..6).collect::<Vec<_>>());
    }
}

#[test]
fn so_does_a_nak_for_what_lies_beyond_but_not_one_for_the_read() {
    let mut bench = reading();
    bench.nak(5);
    assert_eq!(bench.fetched(), [[(1, 5)]]);
    assert!(bench.answered().is_empty());
    let mut bench = reading();
    bench.nak(1);
    assert_eq!(bench.answered(), [1]);
    assert!(bench.fetched().is_empty());
}

// R-READ-7
#[test]
fn a_fetch_is_repeated_after_a_round_trip_and_a_quarter_three_times_in_all() {
    let mut bench = reading();
    come(&mut bench, [1, 3]);
    bench.ack(5, 1);
    bench.clear();
    for _ in 0..2 {
        bench.run_timers(bench.now + PATIENCE - NANO);
        assert!(bench.fetched().is_empty());
        bench.run_timers(bench.now + NANO);
        assert_eq!(bench.fetched(), [[(2, 3), (4, 5)]]);
    }
    bench.run_timers(bench.now + PATIENCE - NANO);
    assert_eq!(bench.pool.frames(), 2);
    bench.run_timers(bench.now + NANO);
    assert_eq!(bench.answered(), [3, 5], "in order; the source will ask again");
    assert_eq!(bench.count(Metric::ReadGapsGivenUp), 1);
    assert_eq!(bench.pool.frames(), 0);
    bench.run_timers(bench.now + PATIENCE * 20);
    assert!(bench.fetched().is_empty());
    // From now on nothing is held: the next response can't be told.
    come(&mut bench, [8]);
    bench.ack(9, 1);
    assert_eq!(bench.answered(), [8, 9]);
}

// R-READ-6
#[test]
fn nothing_waits_where_the_peer_keeps_no_responses() {
    let mut bench = reading();
    bench.status_with(1, 1, &[], |status| status.keeps_responses = false);
    come(&mut bench, [1, 3]);
    bench.ack(5, 1);
    assert_eq!(bench.answered(), [1, 3, 5]);
    bench.run_timers(bench.now + TAIL * 10);
    assert!(bench.fetched().is_empty());
}

#[test]
fn nor_where_nobody_protects() {
    let mut bench = Bench::start(Lr2);
    bench.data([0]);
    bench.frame(read(1, 4 * 256));
    bench.data([5]);
    come(&mut bench, [1, 3]);
    bench.ack(5, 1);
    assert_eq!(bench.answered(), [1, 3, 5]);
}

// R-READ-10
#[test]
fn a_tail_that_nothing_follows_is_fetched_after_a_round_trip_and_the_tail_timeout() {
    for got in [1..1, 1..4] {
        let mut bench = Bench::protected(Cached, 1, Some(1));
        bench.config.peer_timeout = Some(PAUSE);
        bench.frame(read(1, 4 * 256));
        bench.wait(Span::from_millis(3));
        let rest = (got.end, 5);
        come(&mut bench, got);
        // A round trip after the request.
        let since = bench.now - Span::from_millis(3);
        bench.run_timers(since + TAIL - NANO);
        assert!(bench.fetched().is_empty());
        bench.run_timers(since + TAIL);
        assert_eq!(bench.fetched(), [[rest]]);
        for patience in [PATIENCE * 2, PATIENCE * 4] {
            bench.run_timers(bench.now + patience - NANO);
            assert!(bench.fetched().is_empty());
            bench.run_timers(bench.now + NANO);
            assert_eq!(bench.fetched(), [[rest]]);
        }
        assert_eq!(bench.count(Metric::FetchTail), 3);
        bench.run_timers(bench.now + PATIENCE * 100);
        assert!(bench.fetched().is_empty(), "the source asks again");
        come(&mut bench, rest.0..5);
        assert_eq!(bench.out.responses.last().map(|(_, n)| *n), Some(4));
    }
}

// R-MSG-12
#[test]
fn responses_that_are_overdue_are_not_fetched_while_nothing_pays() {
    for (per_second, fetches) in [(Allowance::AMPLE, 3), (0, 0)] {
        let mut bench = Bench::protected(Cached, 1, Some(1));
        bench.config.peer_timeout = Some(PAUSE);
        bench.allowance = Allowance::new(per_second);
        bench.frame(read(1, 4 * 256));
        bench.run_timers(bench.now + PATIENCE * 100);
        assert_eq!(bench.count(Metric::FetchTail), fetches);
        assert_eq!(bench.count(Metric::WithheldFetch), 3 - fetches);
    }
}

#[test]
fn the_peer_is_told_what_it_need_not_keep_any_more() {
    let mut bench = reading();
    come(&mut bench, [1, 2]);
    bench.run_timers(bench.now + Span::from_millis(1));
    assert_eq!((bench.fetched(), bench.count(Metric::FetchRelease)), (vec![], 1));
    assert_eq!(bench.out.expected, [3]);
    bench.run_timers(bench.now + Span::from_millis(8));
    assert_eq!(bench.count(Metric::FetchRelease), 1, "once");
}

/// A FETCH per response would flood the link, and put off the next one.
#[test]
fn what_comes_behind_a_gap_is_no_news_of_it() {
    let mut bench = reading();
    come(&mut bench, [1, 3, 4]);
    assert_eq!(bench.fetched(), [[(2, 3)]]);
    let asked = bench.now;
    for n in [5, 6] {
        bench.wait(Span::from_millis(1));
        bench.ack(n, 1);
    }
    come(&mut bench, [7]);
    assert!(bench.fetched().is_empty(), "nothing more is missing");
    bench.run_timers(asked + PATIENCE);
    assert_eq!(bench.fetched(), [[(2, 3)]]);
}

// R-READ-8
#[test]
fn what_waits_for_a_response_that_is_not_to_be_had_goes_on_at_once() {
    let mut bench = reading();
    come(&mut bench, [1, 3]);
    bench.ack(5, 1);
    assert_eq!(bench.answered(), [1]);
    bench.absent(2, 3);
    assert_eq!(bench.answered(), [3, 5]);
    let metrics = [Metric::ReadGapsAbsent, Metric::ReadGapsGivenUp];
    assert_eq!(metrics.map(|metric| bench.count(metric)), [1, 1]);
    assert_eq!(bench.pool.frames(), 0);
    // The source asks again, and all is as before.
    bench.frame(read(2, 3 * 256));
    come(&mut bench, [2, 4]);
    assert_eq!(bench.answered(), [2]);
    come(&mut bench, [3]);
    assert_eq!(bench.answered(), [3, 4]);
}

/// Responses before it are available, and are waited for.
#[test]
fn one_that_comes_later_is_no_reason_to_go_on() {
    let mut bench = reading();
    come(&mut bench, [1, 3]);
    bench.absent(4, 5);
    bench.ack(5, 1);
    assert_eq!(bench.answered(), [1]);
    come(&mut bench, [2]);
    assert_eq!(bench.answered(), [2, 3, 5], "now it is next");
}

// R-READ-8
#[test]
fn what_is_absent_is_known_before_what_shows_it() {
    let mut bench = reading();
    come(&mut bench, [1]);
    bench.absent(2, 3);
    come(&mut bench, [3]);
    assert_eq!(bench.answered(), [1, 3], "it never waits");
    assert!(bench.fetched().is_empty());
}

// R-READ-17
#[test]
fn a_fetched_copy_of_a_response_that_the_source_has_ends_here() {
    let mut bench = reading();
    come(&mut bench, [1, 3, 4, 2]);
    assert_eq!((bench.fetched(), bench.answered()), (vec![vec![(2, 3)]], vec![1, 2, 3, 4]));
    bench.wait(UNDER_WAY - NANO);
    come(&mut bench, [2]);
    assert_eq!((bench.answered(), bench.count(Metric::DropReorderDuplicate)), (vec![], 1));
    come(&mut bench, [1]);
    assert_eq!(bench.answered(), [1], "no FETCH has asked for it");
    bench.wait(NANO);
    come(&mut bench, [2]);
    assert_eq!(bench.answered(), [2], "no FETCH has brought it");
}

// R-READ-17
#[test]
fn a_fetched_copy_answers_no_later_incarnation() {
    // A source that begins elsewhere, and one that repeats a packet of which nothing is remembered.
    for (first, is_new) in [(2_000, true), (0, false)] {
        let mut bench = reading();
        come(&mut bench, [2]);
        assert_eq!(bench.fetched(), [[(1, 2)]]);
        bench.frame(read(first, 4 * 256));
        assert_eq!(bench.epoch(), 1 + u32::from(is_new));
        let before = bench.count(Metric::DropOldIncarnation);
        bench.wait(UNDER_WAY - NANO);
        bench.respond(part(1..5, 1));
        assert_eq!(bench.answered(), []);
        assert_eq!(bench.count(Metric::DropOldIncarnation), before + 1);
        // An ACK is no such copy, nor is a response that the FETCH did not ask for.
        bench.ack(first, 1);
        bench.respond(part(7..9, 7));
        assert_eq!(bench.answered(), [first, 7]);
        bench.wait(NANO);
        bench.respond(part(1..5, 1));
        assert_eq!(bench.answered(), [1]);
    }
}
