//! Several flows on a LAN that loses.

use crate::network::World;
use common::budget::Budget;
use common::metrics::Metric;
use common::time::Span;
use proptest::prelude::*;

/// Twice as much comes as a host can take, for long: without a window every resend would be
/// lost again.
// R-LAN-1, R-LAN-4
#[test]
fn what_a_host_cannot_take_waits_here() {
    let mut world = World::new(1, 200, Span::from_micros(1));
    (0..8).for_each(|_| world.flow(0, 2_000, 16, Span::from_micros(4)));
    let start = world.harness.now;
    world.run();
    let (dropped, resent) = (world.dropped(), world.resent());
    assert!(dropped < 1_600, "{dropped} of 16,000 were lost");
    assert!(resent < 2 * 1_600, "{resent} of 16,000 were resent");
    assert!(
        world.harness.out.to_source.is_empty(),
        "the source need not know: {:?}",
        world.harness.out.to_source
    );
    let took = world.harness.now.since(start);
    assert!(took < Span::from_micros(16_000 * 5 / 4), "{took:?}: the host was idle");
}

/// While the flows of a host wait, their sources are told, each at most once in the interval.
// R-LAN-6
#[test]
fn sources_are_told_at_most_once_in_the_interval() {
    let mut world = World::new(2, 200, Span::from_micros(1));
    (0..4).for_each(|_| world.flow(0, 1_000, 16, Span::from_micros(1)));
    world.flow(1, 1_000, 16, Span::from_micros(2));
    world.run();
    let interval = world.harness.config.cnp_interval.expect("it is on");
    for receiver in &world.receivers[..4] {
        let cnps = &receiver.cnps;
        assert!(cnps.windows(2).all(|pair| pair[1].since(pair[0]) >= interval));
    }
    assert!(world.receivers[4].cnps.is_empty(), "its host is not congested");
    let [loss, queue] =
        [Metric::CnpLoss, Metric::CnpQueue].map(|m| world.harness.out.books.counters.get(m));
    let sent: usize = world.receivers.iter().map(|receiver| receiver.cnps.len()).sum();
    assert!(sent >= 4 && loss + queue == sent as u64, "{loss} + {queue} = {sent}");
}

#[test]
fn sources_are_told_nothing_if_that_is_off() {
    let mut world = World::new(1, 200, Span::from_micros(1));
    world.harness.config.cnp_interval = None;
    (0..4).for_each(|_| world.flow(0, 1_000, 16, Span::from_micros(1)));
    world.run();
    assert!(world.receivers.iter().all(|receiver| receiver.cnps.is_empty()));
}

/// The flows of a host get equal parts, and a host that loses takes nothing from another.
// R-LAN-3
#[test]
fn flows_and_hosts_are_treated_alike() {
    let mut world = World::new(2, 100, Span::from_micros(1));
    world.flow(0, 4_000, 16, Span::from_nanos(700));
    world.flow(0, 4_000, 16, Span::from_nanos(1_400));
    world.flow(1, 2_000, 16, Span::from_micros(2));
    world.run_for(Span::from_micros(4_200));
    let [first, second, third] = [0, 1, 2].map(|id| world.receivers[id].expected);
    assert!(first + second > 3_600, "{first} + {second} of what fits into the time, 4,200");
    assert!(first.abs_diff(second) < 400, "{first} and {second} through one port");
    assert!(third > 1_980, "{third} of 2,000 to a host that is not congested");
    assert_eq!(world.ports[1].dropped, 0);
    world.run();
}

/// A host that takes nothing for a while, and whose queue is long enough, loses nothing:
/// next to nothing is to be resent.
// R-LAN-5
#[test]
fn a_host_that_pauses_is_not_stormed() {
    for millis in [1, 10, 50] {
        let mut world = World::new(1, 100_000, Span::from_nanos(500));
        (0..4).for_each(|_| world.flow(0, 20_000, 16, Span::from_micros(3)));
        world.run_for(Span::from_millis(5));
        world.ports[0].free_at = world.harness.now + Span::from_millis(millis);
        world.run();
        let resent = world.resent();
        assert!(resent <= 4 * 8, "{millis} ms: {resent}");
        assert_eq!(world.dropped(), 0);
    }
}

/// A silent host is asked one question at a time, at growing distance, whatever its flows are.
// R-LAN-7
#[test]
fn a_silent_host_is_asked_a_few_questions_for_all_of_its_flows() {
    let mut world = World::new(1, 100_000, Span::from_nanos(500));
    (0..32).for_each(|_| world.flow(0, 2_000, 16, Span::from_micros(20)));
    world.run_for(Span::from_millis(5));
    world.ports[0].free_at = world.harness.now + Span::from_millis(100);
    world.run();
    let asked = world.harness.out.books.counters.get(Metric::LocalTimeout);
    // Two packets each, after 0.5, 1.5, 3.5 ... 63.5 ms, and one for the last.
    assert!((8..=16).contains(&asked), "{asked}");
    assert_eq!((world.resent(), world.dropped()), (asked, 0));
}

/// Each answer to a question allows two more.
// R-LAN-7
#[test]
fn tails_that_are_lost_together_are_asked_for_as_fast_as_the_host_answers() {
    let mut world = World::new(1, 1_000, Span::from_micros(1));
    world.flow(0, 100, 1, Span::from_micros(10));
    world.run();
    (0..32).for_each(|_| world.flow(0, 4, 4, Span::from_micros(1)));
    world.ports[0].room = 0;
    while world.receivers.iter().any(|r| r.come < r.all) {
        assert!(world.step());
    }
    assert_eq!(world.dropped(), 32 * 4);
    world.ports[0].room = 1_000;
    let start = world.harness.now;
    world.run();
    let took = world.harness.now.since(start);
    // 1 + 2 + 4 + 8 + 16 + 1, and half a millisecond for each step.
    assert!(took < Span::from_millis(5), "{took:?}");
}

/// What comes later is answered: the packet is lost, and its flow waits for no other one.
// R-LAN-7
#[test]
fn a_flow_whose_packets_are_lost_while_its_host_answers_others_is_not_kept_waiting() {
    let mut world = World::new(1, 1_000, Span::from_micros(1));
    (0..8).for_each(|_| world.flow(0, 4, 4, Span::from_micros(1)));
    world.ports[0].room = 0;
    while world.receivers.iter().any(|r| r.come < r.all) {
        assert!(world.step());
    }
    assert_eq!(world.dropped(), 8 * 4);
    world.ports[0].room = 1_000;
    world.flow(0, 2_000, 16, Span::from_micros(2));
    world.run_for(Span::from_micros(3_900));
    // 3 ms were the guess when they were sent.
    let missing: i32 = world.receivers[..8].iter().map(|r| r.all - r.expected).sum();
    assert_eq!(missing, 0);
}

/// A host that has answered no packet at once: its round trip is that of packets resent after NAKs.
// R-LAN-2
#[test]
fn a_host_that_loses_from_the_first_packet_on_is_measured_all_the_same() {
    let mut world = World::new(1, 20, Span::from_micros(1));
    world.flow(0, 298, 42, Span::from_nanos(200));
    let start = world.harness.now;
    world.run();
    let took = world.harness.now.since(start);
    // The first guess is 3 ms; without a measurement it is doubled by each question.
    assert!(took < Span::from_millis(10), "{took:?}");
}

/// The same where the queue is short: a packet lost meanwhile is resent once, or left to the
/// source if the host is silent for too long.
// R-LAN-2
#[test]
fn a_host_that_pauses_and_loses_is_not_stormed() {
    let mut world = World::new(1, 500, Span::from_nanos(500));
    (0..4).for_each(|_| world.flow(0, 20_000, 16, Span::from_micros(3)));
    world.run_for(Span::from_millis(5));
    world.ports[0].free_at = world.harness.now + Span::from_millis(1);
    world.run();
    let (resent, dropped) = (world.resent(), world.dropped());
    assert!(dropped < 2_000 && resent < 2 * dropped + 500, "{resent} for {dropped}");
}

/// A flow whose requester becomes known while its host has a window delivers within that from
/// then on, also if all its packets come in order.
#[test]
fn a_flow_that_is_paired_late_is_bound_by_the_window_of_its_host() {
    let mut world = World::new(1, 20, Span::from_micros(1));
    world.flow(0, 400, 16, Span::from_nanos(500));
    world.run();
    // From here on nothing is lost.
    world.harness.out.unpaired = Some(1);
    world.flow(0, 200, 16, Span::from_micros(4));
    let dropped = world.dropped();
    world.run_for(Span::from_micros(200));
    let on_the_way = |world: &World| world.harness.lan.on_the_way();
    assert_eq!((world.harness.lan.len(), on_the_way(&world)), (1, 0), "nothing is counted");
    world.harness.out.unpaired = None;
    world.run_for(Span::from_micros(40));
    assert!(on_the_way(&world) > 0);
    assert_eq!(world.dropped(), dropped);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// For any room of the ports, number and pace of flows, frequency of AckReq, and
    /// damage on the way: everything arrives in order, every frame is accounted for at every step,
    /// and nothing is left in a pool or on the way.
    #[test]
    fn everything_arrives(
        room in 20..300_usize,
        flows in proptest::collection::vec((0..2_usize, 1..600_i32, 1..70_i32, 200..4_000_u64), 1..8),
        damage in prop_oneof![Just(u64::MAX), 50..500_u64],
        pool in prop_oneof![Just(1 << 20), 10..200_u64],
    ) {
        let mut world = World::new(2, room, Span::from_micros(1));
        world.damage = damage;
        world.harness.pool = Budget::new(pool);
        for (host, all, asks, every) in flows {
            world.flow(host, all, asks, Span::from_nanos(every));
        }
        let end = world.harness.now + Span::from_millis(1_000);
        while world.missing() > 0 && world.is_alone() {
            prop_assert!(world.step() && world.harness.now < end, "something waits for ever");
        }
        if world.is_alone() {
            let idle = world.harness.now + Span::from_millis(300);
            while world.harness.now < idle && world.step() {}
            prop_assert_eq!((world.harness.pool.frames(), world.harness.backup.frames()), (0, 0));
            prop_assert_eq!(world.harness.lan.on_the_way(), 0);
        }
    }
}

/// All that was on the way was lost, each packet asked for a response, and nothing follows. A
/// question at a time would take a timeout for each.
#[test]
fn a_tail_that_is_lost_as_a_whole_is_repaired_at_the_first_timeout() {
    let mut world = World::new(1, 0, Span::from_micros(1));
    world.flow(0, 100, 1, Span::from_nanos(100));
    while world.receivers[0].come < 100 {
        assert!(world.step());
    }
    assert_eq!(world.dropped(), 100);
    world.ports[0].room = 1_000;
    world.run();
    assert_eq!(world.harness.out.books.counters.get(Metric::LocalTimeout), 2);
    assert!(world.resent() <= 2 + 100, "{}", world.resent());
}
