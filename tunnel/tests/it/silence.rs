//! How soon a lane is left that carries nothing any more, and how rarely another one is.

use std::collections::BTreeMap;

use common::time::{Span, Time};
use tunnel::message::Report;
use tunnel::spray::Policy;
use tunnel::{Health, Order, Sender, SenderConfig};

use crate::support::ends::{FIRST, Out, SESSION, all_move, lane, ms, report};
use crate::support::lanes::*;
use crate::support::noise::Noise;

/// When a lane dies, in microseconds.
const DIES: u64 = 3_000_000;
const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

/// Programs that are not scheduled for up to 10 ms, one of three in 17 ms on average, and bursts of other traffic on the paths.
const PAUSES: Noise = Noise { pause: 10_000, pauses_apart: 50_000, burst: 0, bursts_apart: 0 };
const BOTH: Noise = Noise { burst: 6_000, bursts_apart: 20_000, ..PAUSES };
const BURSTS: Noise = Noise { pause: 0, pauses_apart: 0, burst: 15_000, bursts_apart: 100_000 };

/// Two paths of 10 ms, or four of 10 to 16 ms, each of 100 Mbit/s. All but one are used to eight ninths.
fn paths(seed: u64, lanes: u64, noise: Noise) -> Scenario {
    Scenario {
        delays: (0..lanes).map(|lane| 10_000 + (lanes - 2) * 1_000 * lane).collect(),
        loss: [0.0; 2],
        spray: Some(Policy::Earliest),
        slot: 334_000,
        are_ports_blind: true,
        pace: 750 / (lanes - 1),
        pause: 750 / (lanes - 1),
        frames: 4_000_000 * (lanes - 1) / 376,
        flows: 1,
        noise,
        ..scenario(seed)
    }
}

/// The longest that the flow stood still at `when` or soon after.
fn stall(frames: &[Frame], delivered_at: &[Time], when: Time) -> Span {
    let (mut newest, mut longest) = (BTreeMap::new(), Span::ZERO);
    for (frame, at) in frames.iter().zip(delivered_at) {
        let before = newest.insert(frame.flow, *at).unwrap_or(*at);
        if *at > when && before < when + Span::from_millis(60) {
            longest = longest.max(at.since(before));
        }
    }
    longest
}

/// What became of the lane that died in a run, and of the others.
struct Dying {
    left_after: Span,
    stall: Span,
    /// Other lanes that were left.
    wrong: usize,
}

fn dying(seed: u64, lanes: u64, noise: Noise) -> Dying {
    // It is back at the end: PROBEs never cease on a dead lane.
    let dead = Some((1, DIES, 2 * DIES));
    let mut world = World::new(Scenario { dead, ..paths(seed, lanes, noise) });
    let frames = world.run();
    assert_all_in_order(&world, &frames);
    let died = START + Span::from_micros(DIES);
    let left = world.left.iter().find(|(at, lane)| *at >= died && lane.get() == 1);
    Dying {
        left_after: left.map_or(Span::ZERO, |(at, _)| at.since(died)),
        stall: stall(&frames, &world.delivered_at, died),
        wrong: world.left.iter().filter(|(_, lane)| lane.get() != 1).count(),
    }
}

/// R-TUN-58: one of two or of four paths dies under load. No frame is lost, and no flow stands still for longer than two round
/// trips of the longest path and 2 ms.
#[test]
fn a_path_that_dies_costs_two_round_trips_at_most() {
    for (lanes, rtt) in [(2, 20), (4, 32)] {
        for seed in SEEDS {
            let it = dying(seed, lanes, Noise::default());
            println!("{lanes} {seed}: {:?} {:?}", it.left_after, it.stall);
            assert!(it.stall <= Span::from_millis(2 * rtt + 2), "{lanes} {seed} {:?}", it.stall);
            assert_eq!(it.wrong, 0);
        }
    }
}

/// R-TUN-58: the more round trips differ, the longer R-TUN-12 waits, up to two round trips.
#[test]
fn a_path_that_dies_is_left_as_soon_although_round_trips_are_noisy() {
    for (name, noise, most) in [("pauses", PAUSES, 40), ("both", BOTH, 44)] {
        for lanes in [2, 4] {
            let all: Vec<_> = SEEDS.map(|seed| dying(seed, lanes, noise)).collect();
            let left = all.iter().map(|it| it.left_after).max().unwrap_or_default();
            let stall = all.iter().map(|it| it.stall).max().unwrap_or_default();
            let wrong: usize = all.iter().map(|it| it.wrong).sum();
            println!("{name} {lanes}: left after {left:?}, stall {stall:?}, {wrong} others");
            assert!(left <= Span::from_millis(most), "{name} {lanes}: {left:?}");
        }
    }
}

/// R-TUN-58: where no path dies, hardly a lane is left because the peer, the paths or the box stood still, and not many because
/// others' bursts delay REPORTs.
#[test]
fn noise_alone_makes_few_lanes_suspect() {
    for (name, noise, most) in [
        ("none", Noise::default(), 0),
        ("pauses", PAUSES, 15),
        ("both", BOTH, 35),
        ("bursts", BURSTS, 120),
    ] {
        for lanes in [2, 4] {
            let left = SEEDS.map(|seed| {
                let mut world = World::new(paths(seed, lanes, noise));
                assert_lossless(&mut world);
                world.left.len()
            });
            let left: usize = left.sum();
            println!("{name} {lanes}: {left} left");
            assert!(left <= most, "{name} {lanes}: {left}");
        }
    }
}

/// R-TUN-12, R-TUN-35: one of four paths dies, and bursts of other traffic make the sender suspect good lanes again and again. From one
/// second after the death on, the frames that move to other lanes build up no queue of 130 ms.
#[test]
fn lanes_that_are_left_for_a_moment_fill_no_queues_without_end() {
    for seed in SEEDS {
        let base = paths(seed, 4, BURSTS);
        let (frames, dead) = (2 * base.frames, Some((1, 1_000_000, 12_000_000)));
        let mut world = World::new(Scenario { dead, frames, queues_from: 2_000_000, ..base });
        assert_lossless(&mut world);
        println!("{seed}: {:?}", world.longest_queue);
        assert!(world.longest_queue < Span::from_millis(130), "{seed}: {:?}", world.longest_queue);
    }
}

/// R-TUN-12: frames that moved to another lane are still in the queue of their first one. While REPORTs tell of more and more of them, that
/// lane is good, though these REPORTs settle nothing.
#[test]
fn a_lane_that_still_carries_what_was_moved_is_not_left_again() {
    let config = SenderConfig {
        lanes: 2,
        rtt: Span::from_millis(10),
        cache_max: 9_999,
        give_up: Span::from_millis(400),
        ports: 2,
        spray: Policy::default(),
        resend_copies: 1,
    };
    let (mut sender, mut out) = (Sender::new(&config, SESSION), Out::default());
    (0..1_000).for_each(|n| {
        sender.on_frame(&config, ms(0), lane(0), Order::Free.into(), n, &mut out);
    });
    sender.on_timer(ms(500), &mut out);
    all_move(&mut sender, ms(502), &mut out);
    assert_ne!(sender.health(lane(0)), Some(Health::Good));
    assert_eq!(sender.counts().moved, 1_000);
    // The path delivers again: one frame in each millisecond.
    for n in 1..=3 {
        sender.on_report(ms(510 + n), &report(FIRST + n as u32, &[]), &mut out);
    }
    assert_eq!(sender.health(lane(0)), Some(Health::Good));
    sender.on_frame(&config, ms(514), lane(0), Order::Free.into(), 1_000, &mut out);
    for n in 4..900 {
        sender.on_report(ms(511 + n), &report(FIRST + n as u32, &[]), &mut out);
        sender.on_timer(ms(511 + n), &mut out);
        assert_eq!(sender.health(lane(0)), Some(Health::Good), "at {n} ms");
    }
    // It stops.
    (1_411..2_000).for_each(|n| sender.on_timer(ms(n), &mut out));
    assert_ne!(sender.health(lane(0)), Some(Health::Good));
}

/// R-TUN-12: while no lane is good, a frame takes one that may be dead. It moves as soon as another one is good again.
#[test]
fn a_frame_that_was_sent_on_a_suspect_lane_moves_to_one_that_is_good_again() {
    for is_later in [false, true] {
        let config = SenderConfig {
            lanes: 2,
            rtt: Span::from_millis(10),
            cache_max: 99,
            give_up: Span::from_millis(400),
            ports: 2,
            spray: Policy::default(),
            resend_copies: 1,
        };
        let (mut sender, mut out) = (Sender::new(&config, SESSION), Out::default());
        sender.on_frame(&config, ms(0), lane(0), Order::Free.into(), 1, &mut out);
        sender.on_timer(ms(500), &mut out);
        sender.on_timer(ms(502), &mut out);
        sender.on_frame(&config, ms(502), lane(1), Order::Free.into(), 2, &mut out);
        sender.on_timer(ms(1_000), &mut out);
        sender.on_timer(ms(1_002), &mut out);
        let is_suspect = |n, sender: &Sender<u32>| sender.health(lane(n)) != Some(Health::Good);
        assert!((0..2).all(|n| is_suspect(n, &sender)));
        sender.on_frame(&config, ms(1_010), lane(1), Order::Free.into(), 3, &mut out);
        let sent = out.sent.len();
        assert_eq!(out.sent.last().map(|(shim, frame)| (shim.lane, *frame)), Some((lane(1), 3)));
        let good_at = if is_later { 1_500 } else { 1_015 };
        let next = FIRST + out.sent.iter().filter(|(shim, _)| shim.lane == lane(0)).count() as u32;
        (0..3).for_each(|_| {
            sender.on_report(ms(good_at), &report(next, &[]), &mut out);
        });
        assert!(!is_suspect(0, &sender));
        sender.on_timer(ms(1_600), &mut out);
        let moved: Vec<_> =
            out.sent[sent..].iter().map(|(shim, frame)| (shim.lane, *frame)).collect();
        assert!(moved.contains(&(lane(0), 3)), "{moved:?}");
    }
}

/// R-TUN-12: the last frames of a lane on a path that is dead, of which R-TUN-58 does not remember when they were sent, move while another
/// lane carries more and more.
#[test]
fn the_last_frames_of_a_dead_lane_move_while_another_one_is_busy() {
    let config = SenderConfig {
        lanes: 2,
        rtt: Span::from_millis(10),
        cache_max: 999,
        give_up: Span::from_millis(400),
        ports: 2,
        spray: Policy::default(),
        resend_copies: 1,
    };
    let (mut sender, mut out) = (Sender::new(&config, SESSION), Out::default());
    let frame = |sender: &mut Sender<u32>, now, n, id, out: &mut Out| {
        sender.on_frame(&config, now, lane(n), Order::Free.into(), id, out);
    };
    frame(&mut sender, ms(0), 0, 1, &mut out);
    frame(&mut sender, ms(0) + Span::from_micros(1), 0, 2, &mut out);
    sender.on_report(ms(10), &report(FIRST + 1, &[]), &mut out);
    for n in 0..40 {
        frame(&mut sender, ms(n), 1, 10 + n as u32, &mut out);
        if n >= 10 {
            let next = FIRST + n as u32 - 9;
            sender.on_report(ms(n), &Report { lane: lane(1), ..report(next, &[]) }, &mut out);
        }
        sender.on_timer(ms(n), &mut out);
    }
    assert_ne!(sender.health(lane(0)), Some(Health::Good));
    assert_eq!((sender.counts().moved, sender.health(lane(1))), (1, Some(Health::Good)));
}
