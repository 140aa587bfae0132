//! Copies of retransmissions, and frames that move to other lanes.

use common::time::Span;

use crate::support::ends::{FIRST, Out, SESSION, all_move, fall_silent, lane, ms, report};
use crate::support::lanes::{Scenario, World, assert_all_in_order, scenario};
use tunnel::message::{Echo, Report, Skip};
use tunnel::spray::Policy;
use tunnel::{Health, Lane, Order, Sender, SenderConfig, Tuning, WireNumber};

/// R-TUN-34: where 5 % is lost, hardly a frame is lost twice in a row, and none is delivered twice.
#[test]
fn a_copy_spares_the_loss_of_a_retransmission() {
    let again = [1, 2].map(|copies| {
        let delays = vec![5_000; 4];
        let mut world = World::new(Scenario {
            delays,
            loss: [0.05, 0.0],
            frames: 40_000,
            spray: Some(Policy::Earliest),
            copies,
            ..scenario(5)
        });
        let delivered = world.run();
        assert_all_in_order(&world, &delivered);
        world.sender.1.counts().resent_again
    });
    assert!(again[0] > 80 && again[1] * 8 < again[0], "{again:?}");
}

/// R-TUN-54: copies begin and end while frames are sent.
#[test]
fn copies_may_be_turned_on_and_off() {
    let run = |copies, later: Option<u8>| {
        let mut world = World::new(Scenario {
            delays: vec![5_000; 4],
            loss: [0.05, 0.0],
            frames: 40_000,
            spray: Some(Policy::Earliest),
            copies,
            ..scenario(5)
        });
        let base = world.tuning();
        let tuning = |resend_copies| (39_000, Tuning { resend_copies, ..base });
        world.scenario.tunings = later.map(tuning).into_iter().collect();
        let delivered = world.run();
        assert_all_in_order(&world, &delivered);
        world.sender.1.counts().resent_again
    };
    let off = run(1, None);
    let turned_off = run(2, Some(1));
    let turned_on = run(1, Some(2));
    assert!(turned_off > off / 2 && turned_on * 5 < off, "{off} {turned_off} {turned_on}");
}

fn sender() -> (SenderConfig, Sender<u32>, Out) {
    let config = SenderConfig {
        lanes: 2,
        rtt: Span::from_millis(10),
        cache_max: 99,
        give_up: Span::from_millis(400),
        ports: 2,
        spray: Policy::default(),
        resend_copies: 2,
    };
    (config.clone(), Sender::new(&config, SESSION), Out::default())
}

/// Frame `FIRST` is lost on lane 0. Its retransmission there has the number `FIRST + 2`, its copy on lane 1 `FIRST`.
fn lost_once() -> (SenderConfig, Sender<u32>, Out) {
    let (config, mut sender, mut out) = sender();
    for n in 0..2 {
        sender.on_frame(&config, ms(0), lane(0), Order::Free.into(), n, &mut out);
    }
    assert!(sender.on_report(ms(10), &report(FIRST + 2, &[(FIRST, 1)]), &mut out));
    let shims: Vec<_> =
        out.sent.iter().map(|(shim, _)| (shim.lane, shim.number.0, shim.original)).collect();
    let id = Some((lane(0), WireNumber(FIRST)));
    assert_eq!(shims[2..], [(lane(0), FIRST + 2, id), (lane(1), FIRST, id)]);
    assert_eq!((sender.kept(), out.released.len()), (1, 1));
    (config, sender, out)
}

fn of_lane_1(next: u32, missing: &[(u32, u32)]) -> Report {
    Report { lane: lane(1), ..report(next, missing) }
}

/// R-TUN-34: one of the two that arrives is enough; a SKIP ends the wait for the other's number.
#[test]
fn one_of_two_transmissions_is_enough() {
    let (_, mut sender, mut out) = lost_once();
    assert!(sender.on_report(ms(20), &of_lane_1(FIRST + 1, &[]), &mut out));
    assert_eq!((sender.kept(), out.released.len()), (0, 2), "the copy has arrived");
    assert!(sender.on_report(ms(20), &report(FIRST + 3, &[(FIRST + 2, 1)]), &mut out));
    assert_eq!(out.sent.len(), 4, "nothing is sent again");
    assert_eq!(out.skips.last().map(|skip| skip.ranges[0].0.0), Some(FIRST + 2));

    let (_, mut sender, mut out) = lost_once();
    assert!(sender.on_report(ms(20), &of_lane_1(FIRST + 1, &[(FIRST, 1)]), &mut out));
    assert_eq!((sender.kept(), out.sent.len()), (1, 4), "the other one is on its way");
    assert_eq!(
        out.skips.last().map(|skip| (skip.lane, skip.ranges[0].0.0)),
        Some((lane(1), FIRST))
    );
    // A SKIP of the other one would hide its loss.
    assert!(out.skips.iter().all(|skip| skip.lane == lane(1)), "{:?}", out.skips);
    assert_eq!(sender.counts().skipped, 0);
    assert!(sender.on_report(ms(20), &report(FIRST + 3, &[]), &mut out));
    assert_eq!((sender.kept(), out.sent.len()), (0, 4));
}

/// R-TUN-34: a REPORT of a loss comes before that of an arrival elsewhere.
#[test]
fn a_lost_retransmission_is_left_to_its_copy() {
    for is_lost in [false, true] {
        let (_, mut sender, mut out) = lost_once();
        assert!(sender.on_report(ms(20), &report(FIRST + 3, &[(FIRST + 2, 1)]), &mut out));
        assert_eq!((sender.kept(), out.sent.len()), (1, 4), "the copy is on its way");
        let missing: &[_] = if is_lost { &[(FIRST, 1)] } else { &[] };
        assert!(sender.on_report(ms(20), &of_lane_1(FIRST + 1, missing), &mut out));
        let expected = if is_lost { (1, 6) } else { (0, 4) };
        assert_eq!((sender.kept(), out.sent.len()), expected);
        assert!(sender.is_balanced());
    }
}

/// R-TUN-12, R-TUN-34: frames were moved from a lane that failed before its copy was all that is left.
#[test]
fn a_lane_that_failed_is_no_place_for_a_lost_frame() {
    let (_, mut sender, mut out) = lost_once();
    sender.set_used(ms(15), lane(1), false, &mut out);
    assert!(sender.on_report(ms(20), &report(FIRST + 3, &[(FIRST + 2, 1)]), &mut out));
    assert_eq!((sender.kept(), out.sent.len()), (1, 5), "it is sent again");
    assert_eq!(out.sent[4].0.lane, lane(0));
}

/// R-TUN-59: the numbers of a retransmission and of a copy on a lane that fails are skipped on the other one, and again with each
/// PROBE: REPORTs that ask for them may not come for as long as the receiver waits.
#[test]
fn numbers_without_a_frame_on_a_lane_that_fails_are_skipped_on_another() {
    for (failed, other, number) in [(0, 1, FIRST + 2), (1, 0, FIRST)] {
        let (config, mut sender, mut out) = lost_once();
        // Something comes from the other lane, or both would be suspect.
        sender.on_frame(&config, ms(11), lane(other), Order::Free.into(), 9, &mut out);
        sender.set_used(ms(15), lane(failed), false, &mut out);
        let skip =
            Skip { lane: lane(failed), ranges: [(WireNumber(number), 1)].into_iter().collect() };
        assert_eq!((&out.skips, &out.skips_via), (&vec![skip.clone()], &vec![lane(other)]));
        // The frame itself goes on: by the copy, or by what was sent on the other lane.
        assert_eq!((sender.kept(), sender.counts().skipped), (2, 0));
        assert_eq!(sender.counts().moved, u64::from(failed == 0), "a copy goes nowhere");
        // While its link is down it is skipped once, however much is heard on the other lane.
        let heard = Report { lane: lane(other), ..report(FIRST, &[]) };
        assert!(sender.on_report(ms(15), &heard, &mut out));
        assert_eq!(out.skips.len(), 1);
        sender.set_used(ms(16), lane(failed), true, &mut out);
        for count in 2..5 {
            sender.on_timer(ms(20 * count), &mut out);
            assert_eq!(out.skips.iter().filter(|it| **it == skip).count() as u64, count);
        }
        assert!(out.skips_via.iter().all(|via| *via == lane(other)));
        assert!(sender.is_balanced());
    }
}

/// R-TUN-29, R-TUN-30: the room of a port that can't be used is of no use.
#[test]
fn a_lane_that_is_down_is_not_chosen() {
    for spray in [Policy::Earliest, Policy::Pinned, Policy::Oblivious, Policy::Reps, Policy::Strack]
    {
        let config = SenderConfig { spray, ..sender().0 };
        let (mut sender, mut out) = (Sender::<u32>::new(&config, SESSION), Out::default());
        sender.set_used(ms(0), lane(0), false, &mut out);
        let room_on = |n: u8| move |it| (it == lane(n)).then_some(Span::ZERO);
        for _ in 0..9 {
            assert_eq!(sender.choose(ms(1), Order::Ordered(5), room_on(0)), None, "{spray:?}");
            let chosen = sender.choose(ms(1), Order::Ordered(5), room_on(1));
            assert_eq!(chosen, Some(lane(1)), "{spray:?}");
        }
    }
}

/// R-TUN-9, R-TUN-59: a lane that is good carries its SKIPs itself, with the REPORTs that ask for them.
#[test]
fn a_good_lane_has_its_numbers_skipped_on_no_other() {
    let config = SenderConfig { resend_copies: 1, ..sender().0 };
    let (mut sender, mut out) = (Sender::new(&config, SESSION), Out::default());
    sender.on_frame(&config, ms(0), lane(1), Order::Free.into(), 0, &mut out);
    assert!(sender.on_report(ms(10), &of_lane_1(FIRST + 1, &[(FIRST, 1)]), &mut out));
    assert!(sender.on_report(ms(20), &of_lane_1(FIRST + 2, &[(FIRST + 1, 1)]), &mut out));
    assert_eq!((out.skips.len(), &out.skips_via), (1, &vec![lane(1)]));
    sender.on_frame(&config, ms(20), lane(1), Order::Free.into(), 1, &mut out);
    sender.on_timer(ms(22), &mut out);
    let of_it = out.probes.iter().filter(|probe| probe.lane == lane(1));
    assert_eq!(of_it.count(), 2, "as it is idle, and to measure it");
    assert_eq!((sender.counts().suspected, out.skips.len()), (0, 1));
}

/// R-TUN-59: of 700 retransmissions on a lane that fails, none of which is next to another one.
#[test]
fn all_numbers_without_a_frame_have_their_turn() {
    const LOST: u32 = 700;
    let config = SenderConfig { cache_max: 1 << 12, resend_copies: 1, ..sender().0 };
    let (mut sender, mut out) = (Sender::new(&config, SESSION), Out::default());
    for n in 0..LOST {
        let (now, number) = (10 * u64::from(n), FIRST + 2 * n);
        sender.on_frame(&config, ms(now), lane(0), Order::Free.into(), n, &mut out);
        let from = Some(WireNumber(number));
        let lost = Report { from, ..report(number + 1, &[(number, 1)]) };
        assert!(sender.on_report(ms(now + 9), &lost, &mut out));
    }
    let now = 10 * u64::from(LOST);
    assert_eq!((sender.counts().resent, sender.kept()), (LOST.into(), LOST as usize));
    sender.set_used(ms(now), lane(0), false, &mut out);
    all_move(&mut sender, ms(now) + Span::from_nanos(1), &mut out);
    assert_eq!((sender.counts().moved, out.skips.len()), (LOST.into(), 8));
    sender.set_used(ms(now + 1), lane(0), true, &mut out);
    sender.on_timer(ms(now + 20), &mut out);
    assert_eq!(out.skips.len(), 16);
    let mut skipped: Vec<u32> =
        out.skips.iter().flat_map(|skip| &skip.ranges).map(|(start, _)| start.0).collect();
    skipped.sort_unstable();
    skipped.dedup();
    let retransmissions: Vec<u32> = (0..LOST).map(|n| FIRST + 2 * n + 1).collect();
    assert_eq!(skipped, retransmissions);
}

/// R-TUN-59: a frame on a suspect lane may be late only. Were its number skipped, its successors would overtake it.
#[test]
fn without_memory_a_frame_stays_on_its_suspect_lane() {
    let (config, mut sender, mut out) = sender();
    for n in 0..2 {
        sender.on_frame(&config, ms(0), lane(n), Order::Free.into(), n.into(), &mut out);
    }
    out.is_out_of_memory = true;
    sender.set_used(ms(5), lane(0), false, &mut out);
    sender.set_used(ms(6), lane(0), true, &mut out);
    sender.on_timer(ms(7), &mut out);
    assert_eq!((sender.kept(), sender.counts().skipped), (2, 0));
    assert!(out.skips.is_empty() && out.released.is_empty(), "{:?}", out.skips);
    assert!(sender.on_report(ms(12), &report(FIRST + 1, &[]), &mut out));
    assert_eq!((sender.kept(), out.released.len()), (1, 1), "it was late only");
    assert!(sender.is_balanced());
}

/// R-TUN-12: a sender without memory tries to move the frames of a suspect lane again with each PROBE, not without end.
#[test]
fn frames_that_can_not_be_moved_are_not_tried_all_the_time() {
    let (config, mut sender, mut out) = sender();
    for n in 0..1_000 {
        sender.on_frame(&config, ms(0), lane(0), Order::Free.into(), n, &mut out);
    }
    out.is_out_of_memory = true;
    sender.set_used(ms(5), lane(0), false, &mut out);
    sender.set_used(ms(6), lane(0), true, &mut out);
    let (mut now, mut calls) = (ms(5_000), 0);
    while now < ms(6_000) {
        sender.on_timer(now, &mut out);
        (now, calls) = (sender.deadline().max(now), calls + 1);
        assert!(calls < 2_000, "at {now:?}");
    }
    assert!(sender.counts().probes >= 3);
}

/// R-TUN-13, R-TUN-59: nor is a frame skipped that was not kept, before a REPORT says that it is lost.
#[test]
fn a_frame_that_is_not_kept_stays_on_its_suspect_lane() {
    let config = SenderConfig { cache_max: 0, ..sender().0 };
    let (mut sender, mut out) = (Sender::new(&config, SESSION), Out::default());
    for n in 0..2 {
        sender.on_frame(&config, ms(0), lane(n), Order::Free.into(), n.into(), &mut out);
    }
    sender.set_used(ms(5), lane(0), false, &mut out);
    assert_eq!((sender.counts().skipped, &out.skips), (0, &vec![]));
    assert!(sender.on_report(ms(12), &report(FIRST + 1, &[(FIRST, 1)]), &mut out));
    assert_eq!((sender.counts().skipped, out.skips.len()), (1, 1), "now it is");
}

/// R-TUN-34
#[test]
fn if_both_are_lost_the_frame_is_sent_again() {
    let (_, mut sender, mut out) = lost_once();
    assert!(sender.on_report(ms(20), &of_lane_1(FIRST + 1, &[(FIRST, 1)]), &mut out));
    assert!(sender.on_report(ms(20), &report(FIRST + 3, &[(FIRST + 2, 1)]), &mut out));
    assert_eq!((sender.kept(), out.sent.len()), (1, 6));
    assert!(sender.is_balanced());
}

/// R-TUN-34, R-TUN-35: where the network has a queue, it may have lost the frame for want of room.
#[test]
fn a_path_with_a_queue_gets_no_copies() {
    for is_queued in [false, true] {
        let (config, mut sender, mut out) = sender();
        for n in 0..2 {
            sender.on_frame(&config, ms(0), lane(0), Order::Free.into(), n, &mut out);
        }
        let echo = |sent, arrived| Some(Echo { sent_at: ms(sent), arrived_at: ms(arrived) });
        let first = Report { echo: echo(0, 5), ..report(FIRST, &[]) };
        assert!(sender.on_report(ms(10), &first, &mut out));
        let later = echo(1, if is_queued { 26 } else { 6 });
        let lost = Report { echo: later, ..report(FIRST + 2, &[(FIRST, 1)]) };
        assert!(sender.on_report(ms(31), &lost, &mut out));
        assert_eq!(out.sent.len(), if is_queued { 3 } else { 4 });
    }
}

/// R-TUN-29: the frames of a lane whose path can't be used find no good lane; the first one that is good again takes them.
#[test]
fn a_lane_that_is_good_again_takes_the_frames_of_one_that_is_not() {
    let (config, mut sender, mut out) = sender();
    for n in 0..2 {
        sender.on_frame(&config, ms(0), lane(n), Order::Free.into(), n.into(), &mut out);
    }
    // The frame of lane 0 moves to lane 1, and both wait there when it fails as well.
    fall_silent(&mut sender, (lane(0), lane(1)), 2_000, &mut out);
    sender.on_timer(ms(2_998), &mut out);
    sender.on_timer(ms(3_000), &mut out);
    assert_eq!((sender.counts().suspected, out.sent.len()), (2, 3));
    sender.set_used(ms(3_000), lane(1), false, &mut out);
    assert_eq!(out.sent.len(), 3, "there is no good lane");
    for n in 0..3 {
        assert!(sender.on_report(ms(3_010 + n), &report(FIRST + 1, &[]), &mut out));
    }
    let moved: Vec<_> = out.sent.iter().skip(3).map(|(shim, frame)| (shim.lane, *frame)).collect();
    assert_eq!(moved, [(lane(0), 1), (lane(0), 0)]);
}

/// Frames that are sent at once in [`a_burst_moves`].
const BURST: u32 = 1_000;

/// Lane `from` is suspect with a burst of frames of which nothing is reported, and the first portion has moved to lane `to`. Returns also
/// when it became suspect, in milliseconds.
fn a_burst_moves(from: Lane, to: Lane) -> (Sender<u32>, Out, u64) {
    let (config, mut sender, mut out) = sender();
    let config = SenderConfig { cache_max: 1 << 12, ..config };
    for n in 0..BURST {
        sender.on_frame(&config, ms(0), from, Order::Free.into(), n, &mut out);
    }
    let left_at = fall_silent(&mut sender, (from, to), 2_000, &mut out);
    (sender, out, left_at)
}

/// R-TUN-12: the frames of a suspect lane move in portions, between which a worker receives frames. Frames that have not moved when the
/// lane is good again stay on it, whichever of the good lanes comes first.
#[test]
fn frames_move_in_portions_until_their_lane_is_good_again() {
    stays_once_it_is_good(lane(0), lane(1));
    stays_once_it_is_good(lane(1), lane(0));
}

fn stays_once_it_is_good(from: Lane, to: Lane) {
    let (mut sender, mut out, left_at) = a_burst_moves(from, to);
    let mut moved = sender.counts().moved;
    assert!((1..=64).contains(&moved), "{moved}");
    for n in 0..4 {
        let now = ms(left_at + 1 + n);
        // The newest one has arrived; of the others nothing is known.
        let number = FIRST + BURST - 1;
        let newest =
            Report { lane: from, from: Some(WireNumber(number)), ..report(number + 1, &[]) };
        assert!(n == 0 || sender.on_report(now, &newest, &mut out));
        assert!(n == 3 || sender.deadline() <= now, "there is more to do");
        sender.on_timer(now, &mut out);
        let more = sender.counts().moved - moved;
        assert!(if n < 3 { (1..=64).contains(&more) } else { more == 0 }, "{n}: {more}");
        moved += more;
    }
    all_move(&mut sender, ms(left_at + 5), &mut out);
    assert_eq!((sender.counts().moved, sender.counts().released), (moved, 1));
    assert_eq!(sender.kept() as u32, BURST - 1);
    assert!(sender.is_balanced());
}

/// R-TUN-12: a lane that is good again by REPORTs from before it failed says to the receiver how far its numbers went.
#[test]
fn a_lane_whose_frames_have_moved_is_probed_until_the_receiver_knows_its_numbers() {
    let (mut sender, mut out, left_at) = a_burst_moves(lane(0), lane(1));
    all_move(&mut sender, ms(left_at + 1), &mut out);
    assert_eq!(sender.counts().moved, BURST.into());
    let probes = |out: &Out| out.probes.iter().filter(|probe| probe.lane == lane(0)).count();
    for n in 2..5 {
        assert!(sender.on_report(ms(left_at + n), &report(FIRST, &[]), &mut out));
    }
    assert_eq!(sender.health(lane(0)), Some(Health::Good));
    let before = probes(&out);
    sender.on_timer(ms(left_at + 1_000), &mut out);
    sender.on_timer(ms(left_at + 2_000), &mut out);
    assert_eq!(probes(&out), before + 2);
    let all = report(FIRST + BURST, &[(FIRST, BURST)]);
    assert!(sender.on_report(ms(left_at + 2_001), &all, &mut out));
    sender.on_timer(ms(left_at + 3_000), &mut out);
    assert_eq!(probes(&out), before + 2);
}

/// R-TUN-12: the only good lane fails while frames move to it. Of those that are left it is not remembered when they were sent.
#[test]
fn frames_whose_move_was_cut_off_move_once_there_is_a_good_lane() {
    let (mut sender, mut out, left_at) = a_burst_moves(lane(0), lane(1));
    sender.set_used(ms(left_at), lane(1), false, &mut out);
    all_move(&mut sender, ms(left_at + 1), &mut out);
    let moved = sender.counts().moved;
    assert!((1..=64).contains(&moved), "{moved}");
    sender.set_used(ms(left_at + 2), lane(1), true, &mut out);
    for n in 3..6 {
        let answer = Report { lane: lane(1), ..report(FIRST, &[]) };
        assert!(sender.on_report(ms(left_at + n), &answer, &mut out));
    }
    all_move(&mut sender, ms(left_at + 6), &mut out);
    let on_lane_1 =
        out.sent.iter().filter(|(shim, _)| shim.lane == lane(1)).map(|(_, frame)| *frame);
    let on_lane_1: std::collections::BTreeSet<_> = on_lane_1.collect();
    assert_eq!(on_lane_1.len(), BURST as usize);
    assert!(sender.is_balanced());
}

/// R-TUN-29: the only link goes down, and a port is used for the first time, which had no path before.
#[test]
fn frames_of_a_lane_that_is_down_move_to_one_that_is_used_for_the_first_time() {
    let (config, mut sender, mut out) = sender();
    sender.set_used(ms(0), lane(1), false, &mut out);
    sender.on_frame(&config, ms(1), lane(0), Order::Free.into(), 7, &mut out);
    sender.set_used(ms(2), lane(0), false, &mut out);
    assert_eq!(sender.counts().moved, 0, "no lane is good");
    sender.set_used(ms(2), lane(1), true, &mut out);
    assert_eq!((sender.health(lane(1)), sender.counts().moved), (Some(Health::Good), 1));
    assert_eq!(out.sent.last().map(|(shim, frame)| (shim.lane, *frame)), Some((lane(1), 7)));
}

/// A frame arrived on another lane while the link of its own was down. The REPORT of its own lane, after that, measures no round trip.
#[test]
fn an_outage_is_no_round_trip() {
    let (config, mut sender, mut out) = sender();
    sender.on_frame(&config, ms(0), lane(0), Order::Free.into(), 7, &mut out);
    sender.set_used(ms(5), lane(0), false, &mut out);
    assert_eq!(sender.counts().moved, 1);
    sender.set_used(ms(1_000), lane(0), true, &mut out);
    assert!(sender.on_report(ms(1_000), &report(FIRST + 1, &[]), &mut out));
    assert_eq!(sender.counts().round_trips.sum_nanos(), 0);
}

/// R-TUN-34
#[test]
fn a_link_that_loses_little_gets_no_copies() {
    let (config, mut sender, mut out) = sender();
    let config = SenderConfig { cache_max: 1 << 16, ..config };
    for n in 0..3_000 {
        sender.on_frame(&config, ms(0), lane(0), Order::Free.into(), n, &mut out);
    }
    assert!(sender.on_report(ms(10), &report(FIRST + 3_000, &[(FIRST, 1)]), &mut out));
    assert_eq!(out.sent.len(), 3_001);
}

/// R-TUN-12: where no lane was good when another became suspect, its frames stay. Once they are overdue they move
/// to the first lane that is good again, however long the path of their own lane is dead.
#[test]
fn frames_that_found_no_good_lane_move_once_there_is_one() {
    let (config, mut sender, mut out) = sender();
    for n in 0..2 {
        sender.on_frame(&config, ms(0), lane(n), Order::Free.into(), n.into(), &mut out);
    }
    fall_silent(&mut sender, (lane(0), lane(1)), 2_000, &mut out);
    sender.on_timer(ms(2_998), &mut out);
    sender.on_timer(ms(3_000), &mut out);
    assert_eq!((sender.counts().suspected, out.sent.len()), (2, 3), "all wait on lane 1");
    sender.on_frame(&config, ms(3_001), lane(1), Order::Free.into(), 2, &mut out);
    for n in 0..3 {
        assert_eq!(out.sent.len(), 4, "there is no good lane");
        assert!(sender.on_report(ms(3_010 + n), &report(FIRST + 1, &[]), &mut out));
    }
    sender.on_timer(ms(3_050), &mut out);
    let moved: Vec<_> = out.sent.iter().skip(4).map(|(shim, frame)| (shim.lane, *frame)).collect();
    assert_eq!(moved, [(lane(0), 1), (lane(0), 0), (lane(0), 2)]);
    sender.on_timer(ms(3_100), &mut out);
    assert_eq!(out.sent.len(), 7, "once");
    assert!(sender.is_balanced());
}
