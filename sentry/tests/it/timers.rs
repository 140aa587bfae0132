//! Peer discovery, SYNC(tail), keepalives, and the loss of a peer.

use common::control::{Epoch, Reason};
use common::frame::Class::{Data, High};
use common::metrics::Metric;
use common::time::{Span, Time};
use sentry::Recovery::{Cached, Lr2};
use testkit::sentry::*;

// R-PEER-4
#[test]
fn sync_open_every_eighth_of_a_round_trip_then_with_back_off_then_never() {
    let mut bench = Bench::start(Lr2);
    bench.data([0]);
    let times = bench.sync_times(Reason::Open, Span::from_millis(100_000));
    assert_eq!(times.len() + 1, 24, "{times:?}");
    let eighth = RTT.as_micros() / 8;
    let quick: Vec<_> = times.iter().take_while(|t| **t < 2 * RTT.as_micros()).collect();
    assert!(quick.len() >= 14, "{times:?}");
    assert!(quick.iter().zip(1..).all(|(t, n)| **t == n * eighth), "{times:?}");
    let pauses: Vec<_> = times.windows(2).map(|t| t[1] - t[0]).skip(quick.len()).collect();
    assert!(pauses.windows(2).all(|p| p[0] <= p[1]), "{pauses:?}");
    assert_eq!(*pauses.last().unwrap(), 8 * RTT.as_micros(), "the longest pause");
    assert_eq!(bench.deadline(), Time::NEVER);
}

// R-PEER-7
#[test]
fn an_absent_peer_is_tried_again_after_ten_seconds_if_data_flows() {
    let mut bench = Bench::start(Cached);
    bench.data([0]);
    bench.run_timers(bench.now + Span::from_millis(1_000));
    assert_eq!(bench.cache.frames(), 0, "nobody will ask for anything");
    let last = bench.out.syncs.last().map(|(_, sync)| sync.sent_at).unwrap();
    bench.clear();
    bench.now = last + Span::from_millis(10_000) - Span::from_nanos(1);
    bench.data([1]);
    assert!(bench.syncs().is_empty());
    bench.wait(Span::from_nanos(1));
    bench.data([2, 3]);
    assert_eq!(bench.syncs(), [Reason::Open], "once");
    bench.status(2, 2, &[]);
    assert!(bench.flow.is_protected(), "it came back");
    bench.data([4]);
}

// R-PEER-2
#[test]
fn a_flow_is_protected_from_the_first_answer_on() {
    let mut bench = Bench::start(Lr2);
    bench.data([0]);
    assert!(!bench.flow.is_protected());
    bench.status(0, 0, &[]);
    bench.status(0, 0, &[]);
    assert!(bench.flow.is_protected());
    assert_eq!(bench.count(Metric::FlowProtected), 1);
}

// R-PEER-5
#[test]
fn a_peer_that_answers_no_sync_for_its_timeout_is_lost() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.config.peer_timeout = Some(Span::from_millis(30));
    bench.timer();
    let asked = bench.out.syncs[0].1.sent_at;
    bench.run_timers(asked + Span::from_millis(30) - Span::from_nanos(1));
    assert!(bench.flow.is_protected());
    bench.status(1, 1, &[]);
    bench.clear();
    bench.timer();
    bench.run_timers(bench.now + Span::from_millis(10));
    assert!(bench.flow.is_protected(), "a reply begins it anew");
    bench.run_timers(bench.now + Span::from_millis(31) + RTT);
    assert!(!bench.flow.is_protected());
    assert_eq!(bench.count(Metric::FlowPeerLost), 1);
    // Everything passes as if there never had been one, and it is sought.
    bench.data([2, 3]);
    assert_eq!(bench.forwarded(), [(2, Data), (3, Data)]);
    bench.run_timers(bench.now + RTT);
    assert!(bench.syncs().contains(&Reason::Open));
}

#[test]
fn the_derived_peer_timeout_is_two_round_trips_but_ten_milliseconds_at_least() {
    let mut bench = Bench::protected(Lr2, 10, Some(1));
    bench.timer();
    let asked = bench.out.syncs[0].1.sent_at;
    // The second SYNC goes out after 1.25 of them, and is given one, with the margin.
    let lost = asked + RTT.scale(5, 4) + UNDER_WAY;
    bench.run_timers(lost - Span::from_nanos(1));
    assert!(bench.flow.is_protected());
    bench.run_timers(lost);
    assert!(!bench.flow.is_protected());
    // Where two of them are less, ten milliseconds.
    let mut bench = Bench::start(Lr2);
    bench.config.rtt_guess = Span::from_micros(200);
    bench.flow = sentry::Flow::new(&bench.config, bench.now, Epoch(1), FIRST);
    bench.data(0..2);
    bench.status(0, 0, &[]);
    bench.wait(Span::from_millis(1));
    bench.clear();
    bench.timer();
    let asked = bench.out.syncs[0].1.sent_at;
    bench.run_timers(asked + Span::from_millis(10) - Span::from_nanos(1));
    assert!(bench.flow.is_protected());
    bench.run_timers(asked + Span::from_millis(10));
    assert!(!bench.flow.is_protected());
}

// R-SYNC-8
#[test]
fn a_tail_is_announced_after_an_eighth_of_a_round_trip_and_then_with_back_off() {
    let mut bench = Bench::protected(Lr2, 1, Some(1));
    bench.config.peer_timeout = Some(Span::from_millis(100_000));
    bench.data([1]);
    let times = bench.sync_times(Reason::Tail, Span::from_millis(100));
    assert_eq!(times[..4], [1_000, 11_000, 27_000, 43_000], "{times:?}");
    assert!(times.windows(2).all(|t| t[1] - t[0] <= 16_000), "it goes on until answered");
}

#[test]
fn the_configured_tail_timeout_is_kept() {
    let mut bench = Bench::protected(Lr2, 1, Some(1));
    bench.config.tail_timeout = Some(Span::from_micros(300));
    bench.data([1]);
    let times = bench.sync_times(Reason::Tail, Span::from_millis(1));
    assert_eq!(times, [300]);
}

#[test]
fn every_packet_begins_the_wait_for_the_tail_anew() {
    let mut bench = Bench::protected(Lr2, 1, Some(1));
    for n in 1..4 {
        bench.data([n]);
        bench.run_timers(bench.now + Span::from_micros(900));
    }
    assert!(!bench.syncs().contains(&Reason::Tail));
    bench.run_timers(bench.now + Span::from_micros(100));
    assert_eq!(bench.out.syncs.last().map(|(_, s)| s.reason), Some(Reason::Tail));
}

#[test]
fn nothing_is_due_once_all_is_acknowledged() {
    let mut bench = Bench::protected(Lr2, 4, None);
    assert_ne!(bench.deadline(), Time::NEVER);
    bench.ack(3, 1);
    assert_eq!(bench.deadline(), Time::NEVER);
    bench.timer();
    assert!(bench.take().is_empty());
}

/// While the destination's responses can't be told apart, that the Depot delivered everything has to do: an ACK that was lost
/// can't be told of.
#[test]
fn one_tail_is_sent_once_the_depot_has_delivered_all_of_an_unmatched_flow() {
    let mut bench = Bench::protected(Lr2, 4, None);
    bench.ask([4]);
    bench.status(5, 5, &[]);
    let mut tails = 0;
    while bench.deadline() != Time::NEVER {
        bench.clear();
        bench.next_timer();
        bench.status(5, 5, &[]);
        tails += bench.syncs().iter().filter(|reason| **reason == Reason::Tail).count();
        assert!(tails <= 8);
    }
    assert_eq!(tails, 1);
}

#[test]
fn tails_end_if_the_depot_has_everything_and_the_destination_stays_silent() {
    let mut bench = Bench::protected(Lr2, 4, Some(1));
    bench.ask([4]);
    bench.status(5, 5, &[]);
    let mut tails = 0;
    while bench.deadline() != Time::NEVER {
        bench.clear();
        bench.next_timer();
        tails += bench.syncs().iter().filter(|reason| **reason == Reason::Tail).count();
        bench.status(5, 5, &[]);
        assert!(tails < 100, "no end");
    }
    assert_eq!(tails, 8);
    assert!(bench.flow.is_protected());
}

// R-SYNC-8
#[test]
fn tails_do_not_end_while_the_depot_lacks_something() {
    let mut bench = Bench::protected(Lr2, 4, Some(1));
    let (mut tails, since) = (0, bench.now);
    while tails < 50 {
        assert_ne!(bench.deadline(), Time::NEVER, "after {tails}");
        bench.clear();
        bench.next_timer();
        tails += bench.syncs().iter().filter(|reason| **reason == Reason::Tail).count();
        bench.status(3, 3, &[]);
    }
    assert!(bench.now > since + RTT * 80 && bench.now < since + RTT * 100, "with back-off");
}

#[test]
fn a_keepalive_goes_out_every_half_round_trip_while_data_flows() {
    let mut bench = Bench::protected(Lr2, 1, Some(1));
    bench.data([1]);
    bench.run_timers(bench.now + Span::from_millis(1));
    bench.clear();
    let mut keepalives = Vec::new();
    let start = bench.now;
    for n in 2..100 {
        bench.data([n]);
        bench.status(n + 1, n + 1, &[]);
        bench.clear();
        bench.run_timers(bench.now + Span::from_micros(500));
        for (_, sync) in bench.out.syncs.drain(..) {
            assert_eq!(sync.reason, Reason::Keepalive);
            keepalives.push(sync.sent_at.since(start).as_micros());
        }
    }
    assert!(keepalives.len() >= 10, "{keepalives:?}");
    assert!(keepalives.windows(2).all(|t| (4_000..=4_500).contains(&(t[1] - t[0]))));
}

#[test]
fn a_lost_peer_leaves_the_cache_to_its_successor() {
    let mut bench = Bench::protected(Cached, 4, Some(1));
    bench.run_timers(bench.now + Span::from_millis(300));
    assert!(!bench.flow.is_protected());
    assert_eq!(bench.cache.frames(), 3);
    bench.clear();
    bench.status(1, 4, &[(2, 3)]);
    assert_eq!(bench.forwarded(), [(2, High)]);
}
