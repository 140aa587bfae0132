//! A Depot whose Sentry is gone, or doesn't hear it.

use common::control::{Epoch, Reason};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use depot::Incarnation;
use testkit::depot::*;

/// A SYNC of a Sentry that does not hear this box, sent at `sent_at`.
fn unheard(bench: &mut Bench, incarnation: Incarnation, sent_at: Time) {
    let sync = sync(Reason::Keepalive, psn(8), sent_at);
    bench.with(|flow, cx| flow.on_unheard(cx, incarnation, &sync));
}

// R-PEER-14, R-GAP-12
#[test]
fn a_give_up_during_which_no_sync_came_makes_it_a_wire() {
    let mut bench = Bench::synced();
    bench.data([1, 3, 4]);
    bench.run_timers(bench.now + GIVE_UP);
    assert_eq!(bench.delivered(), [1, 3, 4]);
    assert!(!bench.flow.is_synced());
    assert_eq!(bench.count(Metric::FlowOrphaned), 1);
    bench.data([6]);
    assert_eq!(bench.delivered(), [6], "nothing is held");
    assert_eq!(bench.deadline(), Time::NEVER);
    // It was not gone after all.
    bench.sync(LIFE, Reason::Tail, 7);
    bench.data([8]);
    assert!(bench.delivered().is_empty());
    assert_eq!(bench.nacks().last(), Some(&vec![(7, 8)]));
}

#[test]
fn a_give_up_during_which_a_sync_came_ends_with_the_gap() {
    let mut bench = Bench::synced();
    bench.data([1, 3, 4]);
    bench.run_timers(bench.now + GIVE_UP / 2);
    bench.sync_resent(LIFE);
    bench.run_timers(bench.now + GIVE_UP / 2);
    assert_eq!(bench.delivered(), [1, 3, 4]);
    assert!(bench.flow.is_synced());
    assert_eq!(bench.count(Metric::FlowOrphaned), 0);
}

// R-SYNC-3
#[test]
fn a_sync_that_shows_nothing_of_the_way_back_makes_it_a_wire_and_is_answered() {
    let mut bench = Bench::synced();
    bench.data([1, 3]);
    bench.clear();
    let now = bench.now;
    unheard(&mut bench, LIFE, now);
    assert_eq!(bench.delivered(), [3]);
    let statuses = bench.statuses();
    let [status] = &statuses[..] else { panic!("{statuses:?}") };
    assert!(status.passive && status.missing.is_empty());
    assert_eq!((status.echo, status.expected), (bench.now, Psn::default()));
    assert!(!bench.flow.is_synced());
}

// R-PEER-10
#[test]
fn such_a_sync_that_was_overtaken_changes_nothing() {
    let mut bench = Bench::synced();
    let before = bench.now - Span::from_nanos(1);
    bench.data([1, 3]);
    bench.clear();
    let now = bench.now;
    unheard(&mut bench, LIFE, before);
    unheard(&mut bench, Incarnation { epoch: Epoch(8), ..LIFE }, now);
    assert!(bench.flow.is_synced() && bench.statuses().is_empty());
    assert!(bench.delivered().is_empty());
}

#[test]
fn such_a_sync_of_a_new_incarnation_drops_what_is_held_of_the_old_one() {
    let mut bench = Bench::synced();
    bench.data([1, 3]);
    bench.clear();
    let now = bench.now;
    unheard(&mut bench, Incarnation { epoch: LIFE.epoch.next(), ..LIFE }, now);
    assert!(bench.delivered().is_empty());
    assert!(bench.out.discarded.contains(&(3, Metric::DropOldIncarnation)));
    assert!(bench.statuses()[0].passive);
}

#[test]
fn a_release_is_answered_each_time() {
    let mut bench = Bench::synced();
    for _ in 0..2 {
        bench.clear();
        bench.sync(LIFE, Reason::Release, 1);
        assert!(bench.statuses()[0].passive);
    }
}

/// A box that starts anew may have another clock.
#[test]
fn what_a_clock_showed_is_forgotten_with_the_sentry() {
    let mut bench = Bench::synced();
    bench.data([2]);
    bench.run_timers(bench.now + GIVE_UP);
    bench.clear();
    let later = bench.now;
    bench.now = Time::from_nanos(1_000);
    bench.sync(Incarnation { boot: LIFE.boot.next(), ..LIFE }, Reason::Open, 5);
    assert_eq!(bench.statuses()[0].echo, Time::from_nanos(1_000), "not {later:?}");
}
