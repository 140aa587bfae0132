//! A Depot that holds nothing, one that is silent, and one that is to hold nothing.

use common::control::{Reason, Status};
use common::frame::Class::{Data, High};
use common::metrics::Metric;
use common::time::{Span, Time};
use sentry::Recovery::{Auto, Cached};
use testkit::sentry::*;

/// A passive Depot answers the newest SYNC.
fn passive(bench: &mut Bench) {
    let echo = bench.out.syncs.last().map_or(Time::ZERO, |(_, sync)| sync.sent_at);
    passive_to(bench, echo);
}

fn passive_to(bench: &mut Bench, echo: Time) {
    let status = Status::passive(echo, None);
    assert!(bench.with(|flow, cx| flow.on_status(cx, BOOT, &status)));
}

// R-PEER-3
#[test]
fn a_passive_answer_is_followed_by_a_sync_and_protects_nothing() {
    let mut bench = Bench::start(Cached);
    bench.data(0..4);
    bench.wait(Span::from_millis(4));
    passive(&mut bench);
    assert_eq!(bench.syncs(), [Reason::Open, Reason::Open], "at once: it shows that it was heard");
    assert!(!bench.flow.is_protected());
    assert_eq!(bench.flow.rtt(), Some(Span::from_millis(4)), "measured all the same");
    // Those to the other SYNCs of the first round trip bring no further ones.
    passive(&mut bench);
    assert!(bench.syncs().is_empty());
    bench.data([1]);
    assert_eq!(bench.forwarded(), [(1, Data)], "nothing is filtered");
    bench.wait(Span::from_millis(5));
    bench.status(0, 4, &[(0, 1)]);
    assert_eq!(bench.forwarded(), [(0, High)], "what was sent before was kept");
    assert!(bench.flow.is_protected());
    assert_eq!(bench.out.unheard, 0);
}

// R-PEER-6
#[test]
fn a_flow_whose_depot_holds_nothing_any_more_is_a_wire_until_it_does_again() {
    let mut bench = Bench::protected(Auto, 10, Some(4));
    bench.data([10]);
    bench.clear();
    let now = bench.now;
    passive_to(&mut bench, now);
    assert!(!bench.flow.is_protected());
    assert_eq!(bench.syncs(), [Reason::Open]);
    bench.data([4, 5]);
    assert_eq!(bench.forwarded(), [(4, Data), (5, Data)]);
    bench.status(4, 11, &[]);
    assert!(bench.flow.is_protected());
}

#[test]
fn a_passive_answer_that_was_overtaken_says_nothing() {
    let mut bench = Bench::protected(Auto, 10, Some(4));
    let older = bench.now;
    bench.wait(Span::from_millis(1));
    let newer = bench.now;
    bench.status_with(4, 10, &[], |status| status.echo = newer);
    passive_to(&mut bench, older);
    assert!(bench.flow.is_protected());
}

/// The SYNC was answered before; since then the Depot has left the flow to the RNICs.
// R-PEER-6
#[test]
fn a_passive_answer_to_a_sync_that_was_answered_before_ends_the_protection() {
    let mut bench = Bench::protected(Auto, 10, Some(4));
    let sent = bench.now;
    bench.wait(Span::from_millis(1));
    bench.status_with(4, 10, &[], |status| status.echo = sent);
    bench.clear();
    passive_to(&mut bench, sent);
    assert!(!bench.flow.is_protected());
    assert_eq!(bench.syncs(), [Reason::Open]);
}

/// Two round trips with their margin, at least two SYNCs, and nothing came.
// R-PEER-12
#[test]
fn without_a_status_for_two_round_trips_the_flow_is_a_wire() {
    let mut bench = Bench::protected(Cached, 10, Some(1));
    bench.timer();
    assert_eq!(bench.syncs(), [Reason::Tail]);
    let asked = bench.now;
    bench.run_timers(asked + RTT * 2);
    assert!(bench.flow.is_protected());
    assert_eq!(bench.out.unheard, 0);
    bench.run_timers(asked + RTT * 3);
    assert!(!bench.flow.is_protected());
    assert_eq!((bench.out.unheard, bench.count(Metric::FlowPeerLost)), (1, 1));
    bench.clear();
    bench.data([2, 3]);
    assert_eq!(bench.forwarded(), [(2, Data), (3, Data)]);
    bench.status(1, 10, &[(4, 5)]);
    assert!(bench.flow.is_protected(), "a STATUS brings it back");
    assert_eq!(bench.forwarded(), [(4, High)], "with what was kept");
}

#[test]
fn one_sync_that_is_lost_loses_no_peer() {
    let mut bench = Bench::protected(Cached, 10, Some(1));
    bench.timer();
    let first = bench.now;
    // The second one, by 1.25 round trips later, is answered a round trip later.
    bench.run_timers(first + RTT.scale(9, 4));
    assert!(bench.flow.is_protected());
    bench.status(1, 10, &[]);
    bench.run_timers(first + RTT * 4);
    assert!(bench.flow.is_protected());
}

/// A STATUS requested while something was outstanding is not missed once all is acknowledged.
// R-PEER-13
#[test]
fn who_has_all_acknowledged_misses_no_answer() {
    let mut bench = Bench::protected(Cached, 10, Some(1));
    bench.timer();
    bench.run_timers(bench.now + RTT * 2);
    bench.ack(9, 10);
    bench.run_timers(bench.now + RTT * 8);
    bench.data([10]);
    bench.timer();
    assert!(bench.flow.is_protected());
    assert_eq!(bench.count(Metric::FlowPeerLost), 0);
}

// R-PEER-15
#[test]
fn a_release_is_repeated_until_it_is_answered_four_times_at_most() {
    for answered in [false, true] {
        let mut bench = Bench::protected(Auto, 4, Some(1));
        bench.with(|flow, cx| flow.bypass(cx));
        bench.run_timers(bench.now + RTT * 2);
        assert_eq!(bench.syncs(), [Reason::Release; 2], "again after 1.25 round trips");
        if answered {
            passive(&mut bench);
        }
        bench.run_timers(bench.now + RTT * 100);
        assert_eq!(bench.syncs(), [Reason::Release; 2][..if answered { 0 } else { 2 }]);
        assert_eq!(bench.deadline(), Time::NEVER);
    }
}
