//! A flow whose worker has no allowance for early messages.

use common::allowance::{Allowance, Need};
use common::control::Reason;
use common::metrics::Metric;
use common::time::{Span, Time};
use sentry::Recovery::{Cached, Lr2};
use sentry::Standing;
use testkit::sentry::*;

/// Nothing early any more; late messages as long as `late`.
fn exhaust(bench: &mut Bench, late: bool) {
    bench.config.peer_timeout = Some(Span::from_millis(1_000_000));
    bench.allowance = Allowance::new(if late { 1 } else { 0 });
    while bench.allowance.take(Need::Early, bench.now) {}
}

/// How many early ones were refused to a flow that the Depot knows.
fn refused(bench: &Bench) -> u64 {
    bench.count(Metric::WithheldTail) + bench.count(Metric::WithheldKeepalive)
}

// R-MSG-1
#[test]
fn a_tail_that_was_refused_goes_out_once_the_ack_is_late() {
    let mut bench = Bench::protected(Lr2, 1, Some(1));
    exhaust(&mut bench, true);
    bench.ask([1]);
    let times = bench.sync_times(Reason::Tail, Span::from_millis(40));
    // A round trip and a quarter, and the tail timeout.
    let late = 11_000;
    assert_eq!(times, [late, late + 10_000, late + 26_000], "then as ever");
    assert_eq!(refused(&bench), 1);
    assert_eq!(bench.count(Metric::WithheldLate), 0);
}

/// Where nothing early would be granted, nobody is woken only to be refused.
#[test]
fn what_may_not_be_said_early_has_its_time_when_it_is_late() {
    let mut bench = Bench::protected(Lr2, 1, Some(1));
    bench.ask([1]);
    let deadline = |bench: &Bench, early| {
        bench.flow.deadline(&bench.config, bench.now, early).since(bench.now)
    };
    assert!(deadline(&bench, true) <= RTT / 8);
    // A round trip and a quarter, and the tail timeout.
    assert_eq!(deadline(&bench, false), RTT.scale(5, 4) + RTT / 8);
    exhaust(&mut bench, true);
    let start = bench.now;
    bench.now += deadline(&bench, false);
    bench.timer();
    let tails = bench.out.syncs.iter().filter(|(_, sync)| sync.reason == Reason::Tail);
    assert_eq!(tails.map(|(_, sync)| sync.sent_at).collect::<Vec<_>>(), [bench.now]);
    assert!(bench.now > start && refused(&bench) == 0);
}

#[test]
fn nothing_is_late_if_the_ack_comes() {
    let mut bench = Bench::protected(Cached, 1, Some(1));
    exhaust(&mut bench, true);
    for n in 1..20 {
        bench.ask([n]);
        bench.run_timers(bench.now + RTT);
        bench.ack(n, n as u32);
    }
    assert!(bench.syncs().is_empty());
    assert_eq!(bench.deadline(), Time::NEVER);
}

// R-MSG-1
#[test]
fn who_was_refused_does_not_ask_for_eight_round_trips() {
    let mut bench = Bench::protected(Cached, 1, Some(1));
    exhaust(&mut bench, true);
    for n in 1..=25 {
        bench.ask([n]);
        bench.run_timers(bench.now + RTT);
        bench.ack(n, n as u32);
    }
    assert_eq!(refused(&bench), 4, "at once, and every eight");
    bench.allowance = Allowance::new(Allowance::AMPLE);
    let times: Vec<_> = (26..=43)
        .map(|n| {
            bench.ask([n]);
            let times = bench.sync_times(Reason::Tail, RTT);
            bench.ack(n, n as u32);
            times
        })
        .collect();
    assert!(times[..7].iter().all(Vec::is_empty), "{times:?}");
    assert!(times[7..].iter().all(|times| times[..] == [1_000]), "{times:?}");
}

/// Several packets in a round trip: each begins the wait anew, and adds no timer that
/// is earlier than the one that is set.
#[test]
fn packets_of_a_flow_that_was_refused_only_move_its_deadline_on() {
    let mut bench = Bench::protected(Cached, 1, Some(1));
    exhaust(&mut bench, true);
    bench.ask([1]);
    bench.run_timers(bench.now + RTT / 8);
    let mut before = bench.deadline();
    for n in 2..50 {
        bench.ask([n]);
        assert!(bench.deadline() >= before);
        before = bench.deadline();
        bench.wait(RTT / 8);
        if n % 8 == 0 {
            bench.ack(n, n as u32);
        }
    }
    assert_eq!(refused(&bench), 1);
    assert!(bench.syncs().is_empty());
}

// R-MSG-5
#[test]
fn what_is_late_and_refused_counts_as_lost() {
    let mut bench = Bench::protected(Lr2, 1, Some(1));
    exhaust(&mut bench, false);
    bench.ask([1]);
    assert!(bench.sync_times(Reason::Tail, RTT * 8).is_empty());
    // At 11, 21, 37 and 53 milliseconds.
    assert_eq!(bench.count(Metric::WithheldLate), 4);
    bench.allowance = Allowance::new(Allowance::AMPLE);
    let times = bench.sync_times(Reason::Tail, RTT);
    assert_eq!(times, [5_000]);
    assert_eq!(bench.count(Metric::FlowPeerLost), 0, "nobody was asked");
}

// R-MSG-2
#[test]
fn a_refused_keepalive_is_not_missed() {
    let mut bench = Bench::protected(Cached, 1, Some(1));
    exhaust(&mut bench, true);
    for n in 1..160 {
        bench.ask([n]);
        bench.run_timers(bench.now + Span::from_micros(500));
        // Three quarters of a round trip after the packet.
        bench.ack(n.saturating_sub(12), n.saturating_sub(12) as u32);
    }
    assert!(bench.syncs().is_empty());
    assert_eq!(bench.count(Metric::WithheldKeepalive), 2, "in ten round trips");
}

/// The tail timer comes first.
// R-SYNC-11
#[test]
fn a_lone_packet_brings_one_sync_and_no_keepalive() {
    let mut bench = Bench::protected(Cached, 1, Some(1));
    bench.wait(RTT * 4);
    bench.ask([1]);
    bench.run_timers(bench.now + RTT / 2);
    assert_eq!(bench.syncs(), [Reason::Tail]);
}

// R-MSG-3
#[test]
fn a_flow_is_announced_again_when_the_answer_is_late() {
    let mut bench = Bench::start(Cached);
    exhaust(&mut bench, true);
    bench.data([0]);
    assert_eq!(bench.out.syncs.len(), 1);
    let times = bench.sync_times(Reason::Open, Span::from_millis(100_000));
    assert_eq!(times[..5], [10_000, 30_000, 70_000, 134_000, 198_000]);
    assert_eq!(times.len(), 8);
    assert_eq!(bench.count(Metric::WithheldOpen), 1);
    assert_eq!(bench.deadline(), Time::NEVER, "nobody there");
}

// R-MSG-4
#[test]
fn a_flow_that_nothing_pays_to_announce_again_is_left_to_the_rnics() {
    let mut bench = Bench::start(Cached);
    bench.data([0]);
    assert_eq!(bench.cache.frames(), 1);
    exhaust(&mut bench, false);
    assert!(bench.sync_times(Reason::Open, Span::from_millis(10_000)).is_empty());
    // An eighth of a round trip after the first, and when the answer is late.
    assert_eq!(bench.count(Metric::WithheldOpen), 2);
    assert_eq!((bench.flow.standing(), bench.cache.frames()), (Standing::Deferred, 0));
    assert_eq!(bench.deadline(), Time::NEVER);
    bench.allowance = Allowance::new(Allowance::AMPLE);
    bench.data([1]);
    assert_eq!(bench.syncs(), [Reason::Open]);
    bench.status(2, 2, &[]);
    assert!(bench.flow.is_protected());
}

/// A box that opens very many flows gets its responses late.
// R-MSG-3
#[test]
fn where_answers_take_long_a_flow_is_announced_again_after_longer() {
    let mut bench = Bench::start(Cached);
    exhaust(&mut bench, true);
    bench.allowance.answered(RTT * 20);
    bench.data([0]);
    let times = bench.sync_times(Reason::Open, Span::from_millis(1_000));
    assert_eq!(times, [200_000, 600_000]);
}

/// The repair of a packet that asks for no ACK may wait for the next packet: no ACK is late.
// R-MSG-1
#[test]
fn where_no_ack_is_asked_for_none_is_late() {
    let mut bench = Bench::protected(Lr2, 1, Some(1));
    exhaust(&mut bench, true);
    bench.data([1]);
    assert!(bench.sync_times(Reason::Tail, RTT * 20).is_empty());
    // An eighth of a round trip after the packet, and when an ACK would be late.
    assert_eq!((refused(&bench), bench.count(Metric::WithheldLate)), (2, 0));
    bench.allowance = Allowance::new(Allowance::AMPLE);
    bench.data([2]);
    assert_eq!(bench.sync_times(Reason::Tail, RTT / 8), [1_000]);
}

/// No copies are kept for ever if the source stops: in the middle of a message, or with an ACK that is late.
// R-MSG-10
#[test]
fn copies_of_a_flow_that_nothing_pays_for_are_given_back_after_a_pause() {
    for (asks, more) in [(false, Span::ZERO), (true, RTT * 2)] {
        let mut bench = Bench::protected(Cached, 1, Some(1));
        exhaust(&mut bench, false);
        if asks {
            bench.ask([1])
        } else {
            bench.data([1])
        };
        bench.run_timers(bench.now + PAUSE.scale(9, 10));
        assert_eq!(bench.cache.frames(), 1);
        bench.run_timers(bench.now + PAUSE.scale(1, 5) + more);
        assert_eq!((bench.cache.frames(), bench.deadline()), (0, Time::NEVER), "{asks}");
        assert!(bench.syncs().is_empty());
    }
}

/// The Depot has it, and no ACK of it can have been lost.
// R-SYNC-10
#[test]
fn a_packet_that_asks_for_no_ack_brings_no_sync_once_it_has_arrived() {
    let mut bench = Bench::protected(Cached, 1, Some(1));
    bench.data([1]);
    assert_eq!(bench.sync_times(Reason::Tail, RTT / 8), [1_000]);
    bench.status(2, 2, &[]);
    assert!(bench.sync_times(Reason::Tail, RTT * 100).is_empty());
    bench.ask([2]);
    assert_eq!(bench.sync_times(Reason::Tail, RTT / 8), [1_000]);
    bench.status(3, 3, &[]);
    assert!(!bench.sync_times(Reason::Tail, RTT * 2).is_empty(), "its ACK may have been lost");
}

// R-MSG-8
#[test]
fn a_flow_that_nothing_pays_for_is_left_to_the_rnics_until_something_does() {
    let mut bench = Bench::start(Cached);
    exhaust(&mut bench, false);
    bench.data([0, 1]);
    assert!(bench.syncs().is_empty());
    assert_eq!(bench.flow.standing(), Standing::Deferred);
    assert_eq!((bench.flow.summary().held, bench.deadline()), (0, Time::NEVER));
    assert_eq!(bench.count(Metric::FlowDeferred), 1);
    bench.allowance = Allowance::new(Allowance::AMPLE);
    bench.data([2]);
    assert_eq!(bench.syncs(), [Reason::Open]);
    assert_eq!(bench.flow.standing(), Standing::Seeking);
    bench.status(3, 3, &[]);
    assert_eq!((bench.flow.standing(), bench.flow.summary().held), (Standing::Protected, 1));
}

// R-MSG-8
#[test]
fn a_flow_that_pauses_while_nothing_pays_is_left_to_the_rnics() {
    let mut bench = Bench::protected(Cached, 1, Some(1));
    exhaust(&mut bench, false);
    bench.wait(PAUSE);
    bench.ask([1]);
    assert!(bench.syncs().is_empty());
    assert_eq!((bench.flow.standing(), bench.count(Metric::FlowDeferred)), (Standing::Deferred, 1));
}

// R-MSG-9
#[test]
fn a_timeout_that_nothing_pays_for_brings_no_sync() {
    for (per_second, syncs) in [(Allowance::AMPLE, 1), (0, 0)] {
        let mut bench = Bench::protected(Cached, 1, Some(1));
        bench.ask([1]);
        bench.wait(RTT * 10);
        bench.allowance = Allowance::new(per_second);
        bench.ask([1]);
        assert_eq!(bench.syncs().len(), syncs);
        assert_eq!(bench.count(Metric::WithheldLate), 1 - syncs as u64);
    }
}
