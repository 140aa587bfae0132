//! The queue pairs of one pair of hosts on several workers.

use common::metrics::{Counters, Metric};
use common::time::Span;
use switch::Recovery;
use tests::{Impairment, Scenario, World};

/// Eight queue pairs of two hosts that send both ways, at boxes with `workers` each.
fn busy(recovery: Recovery, workers: [u32; 2], seed: u64) -> Scenario {
    Scenario {
        qps: 8,
        workers,
        spread: Some(Span::from_micros(2)),
        messages: [40, 40],
        message_max: 20_000,
        rate: 100_000_000,
        ..Scenario::calm(seed, Some(recovery))
    }
}

fn run(scenario: Scenario) -> World {
    let mut world = World::new(scenario);
    let outcome = world.run(Span::from_millis(60_000));
    assert!(outcome.finished.is_some(), "no end: {outcome:?}");
    assert_eq!((outcome.failed, outcome.held), (0, 0));
    world
}

fn sum(world: &World, me: usize, metric: Metric) -> u64 {
    world.counters(me).map(|counters| counters.get(metric)).sum()
}

/// Each box finds out what belongs together, once, and from then on each worker
/// does its part of the work.
#[test]
fn queue_pairs_move_once_and_all_workers_work() {
    for workers in [[2, 4], [4, 1], [4, 2]] {
        let world = run(busy(Recovery::Cached, workers, 1));
        for me in 0..2 {
            let count = workers[me] as usize;
            let moved = sum(&world, me, Metric::PairMoved);
            assert_eq!(moved > 0, count > 1, "{workers:?}: {moved} moved at box {me}");
            assert!(moved <= 8, "{workers:?}: {moved} moved at box {me}");
            for none in [
                Metric::PassedUnknownPair,
                Metric::PairReturned,
                Metric::PairRefused,
                Metric::PairRecalled,
                Metric::PairKept,
            ] {
                assert_eq!(sum(&world, me, none), 0, "{workers:?}: {none:?} at box {me}");
            }
            let at_work = |counters: &Counters| {
                counters.get(Metric::SentryNew) > 100 && counters.get(Metric::DepotInOrder) > 100
            };
            assert_eq!(world.counters(me).filter(|c| at_work(c)).count(), count, "{workers:?}");
        }
    }
}

/// What is lost after a move is repaired by the worker that has the queue pair.
#[test]
fn losses_are_repaired_wherever_a_queue_pair_is() {
    for recovery in [Recovery::Lr2, Recovery::Cached, Recovery::Auto] {
        let mut scenario = busy(recovery, [4, 4], 2);
        scenario.messages = [200, 0];
        scenario.wan[0] = Impairment { loss: 0.002, ..Impairment::default() };
        let world = run(scenario);
        assert!(sum(&world, 0, Metric::PairMoved) > 0 && sum(&world, 1, Metric::PairMoved) > 0);
        let repaired = |counters: &&Counters| {
            let [resent, needed] = [Metric::SentryResent, Metric::SentryNeeded];
            counters.get(resent) + counters.get(needed) > 0
        };
        let workers = world.counters(0).filter(repaired).count();
        assert!(workers >= 3, "{recovery:?}: {workers} workers repaired something");
    }
}
