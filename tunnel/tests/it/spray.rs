//! The choice among lanes.

use crate::support::lanes::*;
use common::time::{Span, Time};
use proptest::prelude::*;
use tunnel::spray::{Lanes, Policy, Spray};
use tunnel::{Lane, Order, Tuning};

const ALL: [Policy; 5] =
    [Policy::Pinned, Policy::Oblivious, Policy::Reps, Policy::Strack, Policy::Earliest];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// R-TUN-30: flows stay in order and nothing is lost on whatever lanes frames travel.
    #[test]
    fn no_policy_loses_doubles_or_reorders(
        seed: u64, policy in 0..5_usize, delays in prop::collection::vec(500..9_000_u64, 2..9),
        loss in 0.0..0.1, marks in prop::option::of(0..2_u8), dead in prop::option::of(0..2_u8),
        pause in prop::sample::select(vec![60, 200_000]),
    ) {
        let dead = dead.map(|lane| (lane, 20_000, 150_000));
        let spray = Some(ALL[policy]);
        let mut world = World::new(Scenario {
            delays, loss: [loss, loss], spray, marks, dead, slot: 40_000, frames: 3_000, pause, ..scenario(seed)
        });
        let delivered = world.run();
        let is_lossless = assert_all_in_order_unless_skipped(&world, &delivered);
        // Where more is lost at once than may be resent (R-TUN-9), as the next test shows.
        let sent = world.sender.1.counts();
        let may_skip = dead.is_some() && pause > 60 && sent.lost > 64;
        prop_assert!(is_lossless || may_skip, "{sent:?} {:?}", world.scenario);
    }
}

/// R-TUN-9: a lane is dead as a burst begins, and loses a third of its first frames within 2 ms. Little was sent in the round trip
/// before, so that few may be resent: the others are skipped. Nothing comes twice.
#[test]
fn a_lane_that_is_dead_as_a_burst_begins_may_lose_more_than_may_be_resent() {
    let mut world = World::new(Scenario {
        delays: vec![1_902, 1_739, 5_772],
        loss: [0.006_158_9; 2],
        spray: Some(Policy::Earliest),
        marks: Some(0),
        dead: Some((1, 20_000, 150_000)),
        slot: 40_000,
        frames: 3_000,
        ..scenario(14_465_821_888_331_118_917)
    });
    let delivered = world.run();
    assert_all_in_order_unless_skipped(&world, &delivered);
    let sent = world.sender.1.counts();
    assert!(sent.lost > 64 && sent.skipped > 0 && sent.skipped < sent.lost / 2, "{sent:?}");
}

/// R-TUN-30: four ports of a quarter of the rate each, 5 to 8 ms long: they carry all of it, and no frame is
/// taken for lost.
#[test]
fn unequal_ports_are_filled_and_nothing_is_taken_for_lost() {
    for spray in [Policy::Earliest, Policy::Oblivious] {
        let mut world = World::new(Scenario {
            delays: vec![5_000, 6_000, 7_000, 8_000],
            loss: [0.0; 2],
            spray: Some(spray),
            slot: 10_000,
            frames: 100_000,
            pace: 4,
            pause: 4,
            ..scenario(7)
        });
        assert_lossless(&mut world);
        let (sent, received) = (world.sender.1.counts(), world.receiver.1.counts());
        assert_eq!((sent.lost, received.missing, received.late), (0, 0, 0), "{spray:?}");
        // Frames come 2.5 us apart, as fast as all ports together send them.
        let last = *world.delivered_at.last().expect("frames");
        let least = Span::from_nanos(100_000 * 2_500);
        let took = last.since(START);
        assert!(took < least + least / 50 + Span::from_millis(10), "{spray:?} {took:?} {least:?}");
    }
}

/// R-TUN-54: each policy takes effect from the next frame on, and no frame is lost, doubled or overtaken.
#[test]
fn a_policy_may_change_while_frames_are_sent() {
    let mut world = World::new(Scenario {
        delays: vec![5_000, 6_000, 7_000, 8_000],
        loss: [0.02; 2],
        spray: Some(Policy::Earliest),
        frames: 24_000,
        flows: 1,
        ..scenario(9)
    });
    let base = world.tuning();
    let tuning = |(n, policy): (usize, &Policy)| {
        (20_000 - 4_000 * n as u64, Tuning { spray: *policy, ..base })
    };
    world.scenario.tunings = ALL.iter().enumerate().map(tuning).collect();
    assert_lossless(&mut world);
    assert_eq!(world.sender.0.spray, Policy::Earliest, "the last one");

    // One flow stays on one lane as soon as it is pinned.
    let pinned = |left| {
        let mut world = World::new(Scenario {
            delays: vec![5_000; 4],
            loss: [0.0; 2],
            spray: Some(Policy::Oblivious),
            flows: 1,
            frames: 8_000,
            pause: 60,
            ..scenario(9)
        });
        let tuning = Tuning { spray: Policy::Pinned, ..world.tuning() };
        world.scenario.tunings = vec![(left, tuning)];
        assert_lossless(&mut world);
        let most = world.used.iter().copied().max().unwrap_or(0);
        (most, world.used)
    };
    assert_eq!(pinned(7_999).0, 8_000);
    let (most, used) = pinned(4_000);
    assert!((4_900..=5_100).contains(&most), "{used:?}");
}

/// R-TUN-30: at a low rate all frames take the fastest lane.
#[test]
fn earliest_takes_the_fastest_lane_while_its_port_is_free() {
    let delays = vec![8_000, 5_000, 6_000, 7_000];
    let mut world = World::new(Scenario {
        delays,
        loss: [0.0; 2],
        spray: Some(Policy::Earliest),
        slot: 1_000,
        pace: 100,
        pause: 100,
        frames: 20_000,
        ..scenario(3)
    });
    assert_lossless(&mut world);
    assert!(world.used[1] > 19_000, "{:?}", world.used);
    // R-TUN-33: what it goes by is what is told of the lanes.
    let delay = |n| world.sender.1.delay(lane(n)).expect("it is measured");
    let later = [0, 1, 2, 3].map(|n| (delay(n) - delay(1)) / 1_000_000);
    assert_eq!(later, [3, 0, 1, 2]);
    assert!(world.receiver.1.counts().waited < 1_000, "{:?}", world.receiver.1.counts());
}

/// R-TUN-33: also of lanes that carry nothing, and for however few frames: a lane that fails is found late while its margin is a guess.
#[test]
fn the_round_trip_of_each_lane_is_measured_three_times() {
    let mut world = World::new(Scenario {
        delays: vec![5_000; 3],
        loss: [0.0; 2],
        spray: Some(Policy::Pinned),
        flows: 1,
        frames: 40,
        pace: 10_000,
        ..scenario(9)
    });
    assert_lossless(&mut world);
    let probes = [0, 1, 2].map(|n| world.sender.1.lane_counts(lane(n)).map(|it| it.probes));
    let unused = world.used.iter().zip(probes).filter(|(used, _)| **used == 0);
    assert_eq!(unused.map(|(_, probes)| probes).collect::<Vec<_>>(), [Some(3); 2]);
}

/// Lanes without queues, of which some are not good, and some have no room.
struct Idle(Vec<bool>, Vec<bool>);

impl Idle {
    fn new(lanes: usize) -> Self {
        Self(vec![true; lanes], vec![false; lanes])
    }
}

impl Lanes for Idle {
    fn is_good(&self, lane: Lane) -> bool {
        self.0[usize::from(lane.get())]
    }

    fn wait(&mut self, lane: Lane) -> Option<Span> {
        (!self.1[usize::from(lane.get())]).then_some(Span::ZERO)
    }

    fn delay(&self, _: Lane) -> Option<i64> {
        None
    }

    fn wait_in_network(&self, _: Time, _: Lane) -> Span {
        Span::ZERO
    }

    fn is_idle(&self, _: u16) -> bool {
        false
    }
}

fn at(us: u64) -> Time {
    Time::from_nanos(1_000_000_000) + Span::from_micros(us)
}

fn choose(spray: &mut Spray, now: Time, bucket: u16, lanes: &mut Idle) -> usize {
    spray.choose(now, Order::Ordered(bucket), lanes).map_or(99, |lane| lane.get().into())
}

fn used(spray: &mut Spray, now: Time, frames: u16, lanes: &mut Idle) -> Vec<u32> {
    let mut used = vec![0; lanes.0.len()];
    for n in 0..frames {
        used[choose(spray, now, n, lanes)] += 1;
    }
    used
}

fn lane(n: u8) -> Lane {
    Lane::new(n).expect("a lane")
}

const RTT: Span = Span::from_millis(10);

/// R-TUN-31
#[test]
fn a_marked_lane_is_avoided_for_a_round_trip() {
    for policy in [Policy::Reps, Policy::Strack, Policy::Earliest, Policy::Pinned] {
        let mut spray = Spray::new(policy, 8, 1, 3);
        let mut lanes = Idle::new(8);
        spray.on_report(at(0), lane(2), 100, 1, RTT);
        let marked = used(&mut spray, at(1), 700, &mut lanes);
        assert_eq!(marked[2], 0, "{policy:?} {marked:?}");
        assert!(marked.iter().filter(|n| **n >= 60).count() == 7, "{policy:?} {marked:?}");
        let mut spray = Spray::new(policy, 8, 1, 3);
        spray.on_report(at(0), lane(2), 100, 1, RTT);
        assert!(used(&mut spray, at(10_001), 800, &mut lanes)[2] > 60, "{policy:?}");
    }
}

/// R-TUN-31: the next REPORT comes long before the round trip is over.
#[test]
fn a_report_without_marks_ends_no_rest_of_a_marked_lane() {
    for policy in [Policy::Reps, Policy::Strack, Policy::Earliest, Policy::Pinned] {
        let mut spray = Spray::new(policy, 8, 1, 3);
        let mut lanes = Idle::new(8);
        spray.on_report(at(0), lane(2), 100, 1, RTT);
        spray.on_report(at(600), lane(2), 200, 1, RTT);
        assert_eq!(used(&mut spray, at(601), 700, &mut lanes)[2], 0, "{policy:?}");
    }
}

/// R-TUN-31: they would say that the whole way is congested.
#[test]
fn marks_on_more_than_half_of_the_lanes_are_ignored() {
    for policy in [Policy::Reps, Policy::Strack] {
        let mut spray = Spray::new(policy, 4, 1, 3);
        let mut lanes = Idle::new(4);
        for n in 0..2 {
            spray.on_report(at(0), lane(n), 100, 1, RTT);
        }
        let half = used(&mut spray, at(1), 400, &mut lanes);
        assert_eq!(half[..2], [0; 2], "{policy:?}: half of them are not");
        let mut spray = Spray::new(policy, 4, 1, 3);
        for n in 0..3 {
            spray.on_report(at(0), lane(n), 100, 1, RTT);
        }
        assert_eq!(used(&mut spray, at(1), 400, &mut lanes), [100; 4], "{policy:?}");
    }
}

/// R-TUN-30
#[test]
fn oblivious_takes_all_lanes_equally_often_in_ever_new_orders() {
    let mut spray = Spray::new(Policy::Oblivious, 8, 1, 3);
    let mut lanes = Idle::new(8);
    let mut orders = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let order: Vec<_> = (0..8).map(|n| choose(&mut spray, at(0), n, &mut lanes)).collect();
        let all: std::collections::BTreeSet<_> = order.iter().collect();
        assert_eq!(all.len(), 8);
        orders.insert(order);
    }
    assert!(orders.len() > 90);
    // Boxes with other seeds do not begin alike.
    let first = |seed| {
        let mut spray = Spray::new(Policy::Oblivious, 8, 1, seed);
        let mut lanes = Idle::new(8);
        (0..8).map(|n| choose(&mut spray, at(0), n, &mut lanes)).collect::<Vec<_>>()
    };
    let starts: std::collections::BTreeSet<_> = (1..100u64).map(|n| first(n << 32)).collect();
    assert!(starts.len() > 90);
}

/// R-TUN-30: lanes whose frames came without a mark are used again, as often as frames came.
#[test]
fn reps_uses_again_what_was_good() {
    let mut spray = Spray::new(Policy::Reps, 16, 1, 3);
    let mut lanes = Idle::new(16);
    spray.on_report(at(0), lane(5), 30, 0, RTT);
    spray.on_report(at(0), lane(6), 30, 0, RTT);
    spray.on_report(at(0), lane(7), 30, 1, RTT);
    let all = used(&mut spray, at(1), 60, &mut lanes);
    assert_eq!((all[5], all[6], all[7]), (30, 30, 0), "{all:?}");
    // Then lanes are tried that nothing is known of, and marked ones after their round trip.
    let tried = used(&mut spray, at(1), 150, &mut lanes);
    assert_eq!((tried[7], tried.iter().filter(|n| **n == 10).count()), (0, 15), "{tried:?}");
    let mut spray = Spray::new(Policy::Reps, 16, 1, 3);
    spray.on_report(at(0), lane(7), 30, 1, RTT);
    assert!(used(&mut spray, at(10_001), 160, &mut lanes).iter().all(|n| *n == 10));
    // A mark takes a lane out of the memory, until it comes back with a REPORT without one.
    let mut spray = Spray::new(Policy::Reps, 16, 1, 3);
    spray.on_report(at(2), lane(5), 90, 0, RTT);
    spray.on_report(at(3), lane(5), 91, 1, RTT);
    let rest = used(&mut spray, at(4), 15, &mut lanes);
    assert_eq!((rest[5], rest.iter().filter(|n| **n == 1).count()), (0, 15), "{rest:?}");
    spray.on_report(at(10_003), lane(5), 100, 1, RTT);
    assert_eq!(used(&mut spray, at(10_004), 9, &mut lanes)[5], 9);
}

/// R-TUN-32: a flow that sends stays where it is; it moves when its lane is bad, or was marked for ten round trips.
#[test]
fn pinned_moves_a_flow_only_for_a_reason() {
    let mut spray = Spray::new(Policy::Pinned, 4, 1, 3);
    let mut lanes = Idle::new(4);
    let first = choose(&mut spray, at(0), 7, &mut lanes);
    for n in 0..100 {
        assert_eq!(choose(&mut spray, at(n), 7, &mut lanes), first);
    }
    for round in 0..10 {
        let now = at(10_000 * round);
        spray.on_report(now, lane(first as u8), 100 + round as u32, 1 + round as u32, RTT);
        assert_eq!(choose(&mut spray, now, 7, &mut lanes), first, "round trip {round}");
    }
    spray.on_report(at(100_000), lane(first as u8), 200, 100, RTT);
    let second = choose(&mut spray, at(100_001), 7, &mut lanes);
    assert_ne!(second, first);
    lanes.0[second] = false;
    let third = choose(&mut spray, at(100_002), 7, &mut lanes);
    assert_ne!(third, second);
    lanes.0[second] = true;
    assert_eq!(choose(&mut spray, at(100_003), 7, &mut lanes), third, "it does not go back");
}

/// R-TUN-35: four paths of a quarter of the rate each behind ports that know of no queue.
#[test]
fn a_path_slower_than_its_port_is_not_overrun() {
    let longest = [Policy::Earliest, Policy::Oblivious].map(|spray| {
        let mut world = World::new(Scenario {
            delays: vec![5_000, 6_000, 7_000, 8_000],
            loss: [0.0; 2],
            spray: Some(spray),
            slot: 10_000,
            are_ports_blind: true,
            frames: 100_000,
            pace: 5,
            pause: 5,
            ..scenario(7)
        });
        assert_lossless(&mut world);
        assert_eq!(world.sender.1.counts().lost, 0);
        world.longest_queue
    });
    // Each frame in turn is best for equal paths; the prediction must not be far from it.
    assert!(longest[0] < Span::from_millis(30), "{longest:?}");
}

/// R-TUN-23, R-TUN-30: a frame that finds no room on a good lane gets no number. A bad lane is no way out, as the frame would be
/// sent on a good one after all.
#[test]
fn a_frame_without_room_on_a_good_lane_has_no_lane() {
    for policy in ALL {
        let mut spray = Spray::new(policy, 4, 4, 3);
        let mut lanes = Idle(vec![true, true, true, false], vec![true, true, true, false]);
        assert_eq!(choose(&mut spray, at(0), 7, &mut lanes), 99, "{policy:?}");
        lanes.1[2] = false;
        assert_eq!(choose(&mut spray, at(100), 8, &mut lanes), 2, "{policy:?}");
        lanes.0 = vec![false; 4];
        assert_ne!(
            choose(&mut spray, at(200), 9, &mut lanes),
            99,
            "{policy:?}: there is no good lane"
        );
    }
}

/// R-TUN-31: a marked lane is better than none.
#[test]
fn a_marked_lane_takes_what_others_have_no_room_for() {
    for policy in ALL {
        let mut spray = Spray::new(policy, 4, 4, 3);
        spray.on_report(at(0), lane(0), 100, 1, RTT);
        let mut lanes = Idle(vec![true; 4], vec![false, true, true, true]);
        assert_eq!(choose(&mut spray, at(1), 7, &mut lanes), 0, "{policy:?}");
    }
}

/// R-TUN-30: `earliest` looks at all lanes again after eight frames for each that it found, and after 20 us.
#[test]
fn earliest_looks_again_after_some_frames_or_some_time() {
    let mut lanes = Idle::new(4);
    for (now, still) in [(at(1), 31), (at(21), 0)] {
        let mut spray = Spray::new(Policy::Earliest, 4, 4, 1);
        choose(&mut spray, at(0), 0, &mut lanes);
        spray.on_report(at(1), lane(1), 10, 1, RTT);
        assert_eq!(used(&mut spray, now, still, &mut lanes)[1] > 0, still > 0);
        assert_eq!(used(&mut spray, now, 16, &mut lanes)[1], 0);
    }
}

/// R-TUN-30, R-TUN-34: wherever in its turn it is, the only lane that will do is found.
#[test]
fn a_single_lane_that_will_do_is_always_found() {
    let mut lanes = Idle::new(8);
    lanes.0.fill(false);
    lanes.0[5] = true;
    for policy in ALL {
        let mut spray = Spray::new(policy, 8, 2, 1);
        for n in 0..200 {
            assert_eq!(choose(&mut spray, at(0), n, &mut lanes), 5, "{policy:?}");
            let other = spray.choose_other(lane(0), |it| it == lane(3) || it == lane(2));
            assert_eq!(other, Some(lane(3)), "on the other port");
            let other = spray.choose_other(lane(0), |it| it == lane(4));
            assert_eq!(other, Some(lane(4)), "on the same port, as there is no other");
            assert_eq!(spray.choose_other(lane(5), |it| it == lane(5)), None, "on its own");
        }
    }
}

/// R-TUN-32: a full port would only pass its queue on.
#[test]
fn pinned_leaves_a_flow_on_its_full_port() {
    let mut spray = Spray::new(Policy::Pinned, 4, 4, 3);
    let mut lanes = Idle::new(4);
    let first = choose(&mut spray, at(0), 7, &mut lanes);
    lanes.1[first] = true;
    assert_eq!(choose(&mut spray, at(1), 7, &mut lanes), 99);
    lanes.1[first] = false;
    assert_eq!(choose(&mut spray, at(2), 7, &mut lanes), first);
}
