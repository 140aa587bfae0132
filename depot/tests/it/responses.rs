//! READ responses are kept until the requester's gateway has them.

use common::budget::Budget;
use common::control::{Fetch, PsnRange};
use common::frame::Class::{Data, High};
use common::metrics::Metric;
use common::time::Span;
use common::wire::Opcode;
use testkit::depot::*;

const NANO: Span = Span::from_nanos(1);
/// As long as this the copy that left first counts as under way ...
const UNDER_WAY: Span = Span::from_millis(6);
/// ... and a later one, since the FETCH was sent before it can have come.
const PATIENCE: Span = Span::from_millis(10);

/// A READ of eight packets, 1..9, was delivered; responses 1..`end` have come.
fn answered(end: i32) -> Bench {
    let mut bench = Bench::paired();
    bench.frame(read(1, 8));
    respond(&mut bench, 1..end);
    bench.clear();
    bench
}

fn respond(bench: &mut Bench, psns: impl IntoIterator<Item = i32>) {
    for n in psns {
        assert_eq!(bench.respond(response(n)), Became::Forward);
    }
}

/// The requester's gateway has everything before `expected` but for `missing`.
fn fetch(bench: &mut Bench, expected: i32, missing: &[(i32, i32)]) -> Vec<i32> {
    let range = |&(from, to): &(i32, i32)| PsnRange { start: psn(from), len: (to - from) as u32 };
    let fetch = Fetch { expected: psn(expected), missing: missing.iter().map(range).collect() };
    bench.with(|flow, cx| flow.on_fetch(cx, &fetch));
    let resent = std::mem::take(&mut bench.out.responses);
    assert!(resent.iter().all(|(_, _, class)| *class == High), "ahead of what comes anew");
    resent.into_iter().map(|(_, n, _)| n).collect()
}

// R-READ-14
#[test]
fn they_go_on_at_once_and_a_copy_is_kept() {
    let mut bench = Bench::synced();
    bench.frame(read(1, 8));
    respond(&mut bench, 1..9);
    let all = (1..9).map(|n| (Opcode::READ_RESPONSE_MIDDLE, n, Data)).collect::<Vec<_>>();
    assert_eq!(bench.out.responses, all);
    assert_eq!(bench.cache.frames(), 8);
}

// R-READ-15
#[test]
fn what_is_missing_is_sent_again_and_nothing_else() {
    let mut bench = answered(9);
    bench.wait(UNDER_WAY);
    assert_eq!(fetch(&mut bench, 1, &[(2, 4), (6, 7)]), [2, 3, 6]);
    assert_eq!(bench.count(Metric::ResponseResent), 3);
    assert_eq!(bench.cache.frames(), 8, "it may be lost again");
}

// R-READ-15
#[test]
fn what_may_still_be_under_way_is_not() {
    let mut bench = answered(9);
    bench.wait(UNDER_WAY - NANO);
    assert_eq!(fetch(&mut bench, 1, &[(2, 3)]), []);
    bench.wait(NANO);
    assert_eq!(fetch(&mut bench, 1, &[(2, 3)]), [2]);
    bench.wait(PATIENCE - NANO);
    assert_eq!(fetch(&mut bench, 1, &[(2, 4)]), [3], "2 has left a second time");
    bench.wait(NANO);
    assert_eq!(fetch(&mut bench, 1, &[(2, 4)]), [2]);
}

#[test]
fn handles_of_arrived_responses_are_released() {
    let mut bench = answered(9);
    bench.wait(UNDER_WAY);
    assert_eq!(fetch(&mut bench, 5, &[]), []);
    assert_eq!(bench.cache.frames(), 4);
    assert_eq!(fetch(&mut bench, 5, &[(2, 6)]), [5]);
    assert_eq!(bench.count(Metric::ResponseUncached), 3);
    assert_eq!(fetch(&mut bench, 9, &[]), []);
    assert_eq!((bench.cache.frames(), bench.cache.used()), (0, 0));
}

// R-READ-14
#[test]
fn after_six_round_trips_nobody_will_ask() {
    let mut bench = answered(4);
    bench.wait(RTT);
    respond(&mut bench, 4..6);
    bench.run_timers(bench.now + RTT * 5 - NANO);
    assert_eq!(bench.cache.frames(), 5);
    bench.run_timers(bench.now + NANO);
    assert_eq!(bench.cache.frames(), 2);
    bench.run_timers(bench.now + RTT);
    assert_eq!(bench.cache.frames(), 0);
}

#[test]
fn a_resend_keeps_it_longer() {
    let mut bench = answered(3);
    bench.wait(RTT * 4);
    assert_eq!(fetch(&mut bench, 1, &[(1, 2)]), [1]);
    bench.run_timers(bench.now + RTT * 2);
    assert_eq!(bench.cache.frames(), 2);
    bench.run_timers(bench.now + RTT * 4);
    assert_eq!(bench.cache.frames(), 0);
}

/// A READ that was requested again is answered again, with the memory's
/// present content: no message may be made of an old response and a new one.
#[test]
fn the_answers_to_a_repeated_read_replace_the_old_ones() {
    let mut bench = answered(9);
    bench.frame(read(3, 6));
    let before = bench.cache.used();
    let _ = bench.respond(packet(Opcode::READ_RESPONSE_MIDDLE, 3, false, 200)); // a shorter one
    assert_eq!(bench.cache.frames(), 3, "1 and 2 are as they were, the rest is void");
    assert_eq!(bench.cache.used(), before * 3 / 8 - 56);
    respond(&mut bench, [4]);
    bench.clear();
    bench.wait(UNDER_WAY);
    assert_eq!(fetch(&mut bench, 1, &[(1, 9)]), [1, 2, 3, 4]);
    assert_eq!(bench.count(Metric::ResponseUncached), 4);
}

#[test]
fn a_full_cache_forgets_the_oldest() {
    let mut bench = Bench::synced();
    bench.cache = Budget::new(3);
    bench.frame(read(1, 8));
    respond(&mut bench, 1..9);
    assert_eq!(bench.cache.frames(), 3);
    bench.clear();
    bench.wait(UNDER_WAY);
    assert_eq!(fetch(&mut bench, 1, &[(1, 9)]), [6, 7, 8]);
    let mut bench = Bench::synced();
    bench.cache = Budget::new(0);
    bench.frame(read(1, 8));
    respond(&mut bench, 1..9);
    assert_eq!((bench.cache.frames(), bench.count(Metric::ResponseCacheFull)), (0, 8));
}

#[test]
fn nothing_is_kept_for_nobody() {
    let mut bench = Bench::default();
    bench.data([0]);
    respond(&mut bench, [0]);
    assert_eq!(bench.cache.frames(), 0, "no Sentry has announced itself");
    let mut bench = Bench::synced();
    bench.config.keeps_responses = false;
    bench.frame(read(1, 8));
    respond(&mut bench, 1..9);
    assert_eq!(bench.cache.frames(), 0);
    bench.sync(LIFE, common::control::Reason::Keepalive, 9);
    assert!(!bench.statuses()[0].keeps_responses, "and the peer is told so");
}

#[test]
fn another_incarnation_has_none_of_them() {
    let mut bench = answered(9);
    bench.sync(
        depot::Incarnation { epoch: LIFE.epoch.next(), ..LIFE },
        common::control::Reason::Open,
        0,
    );
    assert_eq!(bench.cache.frames(), 0);
    bench.wait(UNDER_WAY);
    assert_eq!(fetch(&mut bench, 1, &[(1, 9)]), []);
}

#[test]
fn an_atomic_ack_is_kept_like_a_response() {
    let mut bench = Bench::synced();
    bench.frame(packet(Opcode::FETCH_ADD, 1, false, 28));
    let _ = bench.respond(atomic_ack(1));
    assert_eq!(bench.cache.frames(), 1);
    bench.clear();
    bench.wait(UNDER_WAY);
    assert_eq!(fetch(&mut bench, 1, &[(1, 2)]), [1]);
}

/// A PSN that the destination answered, and that is not here, was lost before: it will not come.
/// One that it did not answer yet may.
// R-READ-15
#[test]
fn what_was_lost_before_is_said_to_be_absent_and_what_may_come_is_not() {
    let mut bench = answered(3);
    respond(&mut bench, [5, 6]);
    bench.clear();
    bench.out.absent.clear();
    bench.wait(UNDER_WAY);
    assert_eq!(fetch(&mut bench, 1, &[(2, 6), (7, 9)]), [2, 5]);
    assert_eq!(bench.out.absent, [(vec![(3, 5)], High)]);
    bench.out.absent.clear();
    // An ACK beyond the READ shows that all of it was answered.
    bench.data([9]);
    let _ = bench.ack(9);
    bench.clear();
    bench.out.absent.clear();
    assert_eq!(fetch(&mut bench, 7, &[(7, 9)]), []);
    assert_eq!(bench.out.absent, [(vec![(7, 9)], High)]);
}

/// Within a READ response nothing else may come: ABSENT precedes the packet that shows the loss,
/// so that nothing ever waits for it.
// R-READ-16
#[test]
fn what_is_lost_within_a_response_is_told_ahead_of_what_follows() {
    let mut bench = Bench::paired();
    bench.frame(read(1, 8));
    let _ = bench.respond(first_response(1));
    respond(&mut bench, [2, 5]);
    assert_eq!(bench.out.absent, [(vec![(3, 5)], Data)]);
    // It is answered again.
    respond(&mut bench, [3, 4, 5]);
    assert_eq!(bench.out.absent.len(), 1);
}

#[test]
fn where_nothing_is_kept_nothing_is_said_to_be_absent() {
    let mut bench = Bench::synced();
    bench.config.keeps_responses = false;
    bench.frame(read(1, 8));
    respond(&mut bench, [1, 5]);
    assert!(bench.out.absent.is_empty());
}
