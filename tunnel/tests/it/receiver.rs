//! Single rules of a receiver and a sender, frame by frame.

use crate::support::ends::{FIRST, SESSION, Test, lane, ms, report, sender};
use common::histogram::Histogram;
use common::time::{Span, Time};
use tunnel::message::{Probe, Skip};
use tunnel::shim::Shim;
use tunnel::{Order, WireNumber};

/// R-TUN-5
#[test]
fn a_frame_waits_for_its_predecessor_only() {
    let mut test = Test::new(1);
    test.frame(ms(0), FIRST, None);
    test.frame(ms(0), FIRST + 2, Some(FIRST + 1));
    test.frame(ms(0), FIRST + 3, Some(FIRST));
    test.frame(ms(0), FIRST + 4, Some(FIRST + 2));
    assert_eq!(test.delivered(), [FIRST, FIRST + 3]);
    test.frame(ms(1), FIRST + 1, Some(FIRST));
    assert_eq!(test.delivered(), [FIRST + 1, FIRST + 2, FIRST + 4]);
    assert_eq!(test.receiver.waiting(), 0);
}

/// R-TUN-5: one frame can wait for another; a second one is delivered and counted, one whose predecessor was given up
/// for want of room is in order.
#[test]
fn only_what_leaves_before_its_predecessor_is_counted() {
    for (waiting_max, delivered, unordered) in
        [(64, vec![FIRST, FIRST + 3], 1), (1, vec![FIRST, FIRST + 2, FIRST + 3], 0)]
    {
        let mut test = Test::new(1);
        test.config.waiting_max = waiting_max;
        test.frame(ms(0), FIRST, None);
        test.frame(ms(0), FIRST + 2, Some(FIRST + 1));
        test.frame(ms(0), FIRST + 3, Some(FIRST + 1));
        assert_eq!(test.delivered(), delivered);
        assert_eq!(test.receiver.counts().unordered, unordered, "room for {waiting_max}");
    }
}

/// R-TUN-26: what a blackout has lost is given up in the time that a few ranges take: a step for each
/// number would take minutes here.
#[test]
fn a_long_gap_is_given_up_at_once() {
    const GAP: u32 = 1 << 28;
    let mut test = Test::new(1);
    test.config.window = 1 << 30;
    let began = std::time::Instant::now();
    for n in 1..16 {
        let (now, number) = (ms(u64::from(n) * 200), FIRST.wrapping_add(n * GAP));
        test.frame(now, number, Some(number.wrapping_sub(1)));
        test.frame(now, number.wrapping_add(1), Some(number));
        assert_eq!(test.delivered(), []);
        test.receiver.on_timer(&test.config, now + Span::from_millis(100), &mut test.out);
        assert_eq!(test.delivered(), [number, number.wrapping_add(1)]);
    }
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

/// R-TUN-5: on whichever lanes they came.
#[test]
fn a_frame_waits_for_one_of_another_lane() {
    let mut test = Test::new(2);
    let behind = Shim {
        predecessor: Some((lane(1), WireNumber(FIRST))),
        ..Test::shim(lane(0), FIRST, None)
    };
    test.take(ms(0), behind, 2);
    assert_eq!(test.delivered(), []);
    test.take(ms(0), Test::shim(lane(1), FIRST, None), 1);
    assert_eq!(test.delivered(), [1, 2]);
}

/// R-TUN-3: and nothing else changes; nor does it with a lane that there is not.
#[test]
fn a_number_beyond_the_window_is_dropped() {
    let mut test = Test::new(1);
    test.frame(ms(0), FIRST, None);
    for number in [FIRST + 1 + (1 << 16), FIRST.wrapping_add(1 << 31).wrapping_sub(1)] {
        test.frame(ms(0), number, None);
        assert_eq!(test.out.discarded.pop(), Some(number));
        let resent = Shim {
            original: Some((lane(0), WireNumber(number))),
            ..Test::shim(lane(0), FIRST + 1, None)
        };
        test.take(ms(0), resent, 7);
        assert_eq!(test.out.discarded.pop(), Some(7));
    }
    test.take(ms(0), Test::shim(lane(1), FIRST + 1, None), 8);
    assert_eq!((test.receiver.counts().outside, test.receiver.counts().missing), (5, 0));
    test.frame(ms(0), FIRST + 1, Some(FIRST));
    assert_eq!(test.delivered(), [FIRST, FIRST + 1]);
}

/// R-TUN-3: a predecessor that can't be is none, and the frame is counted: it may have overtaken another.
#[test]
fn a_frame_does_not_wait_for_what_can_not_come() {
    let mut test = Test::new(2);
    let cases = [(1, FIRST + (1 << 17), 1), (0, FIRST + 5, 2), (0, FIRST, 2), (9, FIRST, 3)];
    for (n, (of, before, unordered)) in (FIRST..).zip(cases) {
        let shim = Shim {
            predecessor: Some((lane(of), WireNumber(before))),
            ..Test::shim(lane(0), n, None)
        };
        test.take(ms(0), shim, n);
        assert_eq!(test.delivered(), [n], "behind {before} of lane {of}");
        assert_eq!(test.receiver.counts().unordered, unordered);
    }
    // It is possible, but never comes.
    let shim = Shim {
        predecessor: Some((lane(1), WireNumber(FIRST + 9))),
        ..Test::shim(lane(0), FIRST + 4, None)
    };
    test.take(ms(0), shim, 5);
    assert_eq!(test.delivered(), []);
    assert!(test.receiver.deadline(&test.config) <= ms(100));
    test.receiver.on_timer(&test.config, ms(100), &mut test.out);
    assert_eq!(test.delivered(), [5]);
}

/// R-TUN-4: under its own number, or under another.
#[test]
fn a_frame_is_delivered_once() {
    let mut test = Test::new(1);
    test.frame(ms(0), FIRST, None);
    test.frame(ms(0), FIRST, None);
    let resent = Shim {
        original: Some((lane(0), WireNumber(FIRST))),
        ..Test::shim(lane(0), FIRST + 1, None)
    };
    test.take(ms(0), resent, 9);
    test.frame(ms(0), FIRST + 3, Some(FIRST + 2));
    test.frame(ms(0), FIRST + 3, Some(FIRST + 2));
    assert_eq!(test.delivered(), [FIRST]);
    assert_eq!(test.receiver.counts().duplicate, 3);
    assert_eq!(test.receiver.waiting(), 1);
}

/// R-TUN-10
#[test]
fn what_does_not_come_is_given_up_and_is_too_late_then() {
    let mut test = Test::new(1);
    test.frame(ms(0), FIRST, None);
    test.frame(ms(0), FIRST + 3, Some(FIRST + 2));
    test.receiver.on_timer(&test.config, ms(99), &mut test.out);
    assert_eq!(test.delivered(), [FIRST]);
    test.receiver.on_timer(&test.config, ms(100), &mut test.out);
    assert_eq!((test.delivered(), test.receiver.counts().given_up), (vec![FIRST + 3], 2));
    test.frame(ms(200), FIRST + 2, Some(FIRST + 1));
    test.frame(ms(200), FIRST + 2, Some(FIRST + 1));
    assert_eq!(test.delivered(), []);
    let counts = test.receiver.counts();
    assert_eq!((counts.late, counts.too_late, counts.duplicate), (0, 1, 1));
}

/// R-TUN-10: the oldest missing number.
#[test]
fn where_nobody_can_wait_a_gap_is_given_up() {
    let mut test = Test::new(1);
    test.config.waiting_max = 2;
    test.frame(ms(0), FIRST + 1, Some(FIRST));
    test.frame(ms(0), FIRST + 3, Some(FIRST + 2));
    assert_eq!(test.delivered(), []);
    test.frame(ms(0), FIRST + 5, Some(FIRST + 4));
    assert_eq!((test.delivered(), test.receiver.counts().given_up), (vec![FIRST + 1], 1));
    assert_eq!(test.receiver.waiting(), 2);
    test.frame(ms(50), FIRST + 7, Some(FIRST + 6));
    assert_eq!((test.delivered(), test.receiver.counts().given_up), (vec![FIRST + 3], 2));
    // They come late, until they would have been given up for their age.
    test.frame(ms(99), FIRST, None);
    test.frame(ms(100), FIRST + 2, Some(FIRST + 1));
    let counts = test.receiver.counts();
    assert_eq!((test.delivered(), counts.late, counts.too_late), (vec![FIRST], 1, 1));
}

/// R-TUN-63: once a gap was given up for its age, and neither a retransmission nor a SKIP has come since it opened.
#[test]
fn gaps_that_nobody_repairs_are_not_waited_for() {
    for is_skip in [false, true] {
        let mut test = Test::new(1);
        let arrive = |test: &mut Test, at: u64, number: u32| {
            test.frame(ms(at), FIRST + number, Some(FIRST + number - 1));
            test.receiver.on_timer(&test.config, ms(at), &mut test.out);
            test.delivered()
        };
        test.frame(ms(0), FIRST, None);
        arrive(&mut test, 1, 2);
        // What has come before the gap opened says nothing.
        assert_eq!(arrive(&mut test, 101, 3), [FIRST + 2, FIRST + 3]);
        assert_eq!(arrive(&mut test, 102, 5), [FIRST + 5], "its predecessor is not waited for");
        if is_skip {
            let ranges = [(WireNumber(FIRST + 4), 1)].into_iter().collect();
            test.receiver.on_skip(ms(103), &Skip { lane: lane(0), ranges }, &mut test.out);
        } else {
            let original = Some((lane(0), WireNumber(FIRST + 4)));
            test.take(ms(103), Shim { original, ..Test::shim(lane(0), FIRST + 6, None) }, 4);
            assert_eq!(test.delivered(), [4]);
        }
        assert_eq!(arrive(&mut test, 104, 8), [], "the peer repairs again");
        test.receiver.on_timer(&test.config, ms(204), &mut test.out);
        assert_eq!(test.delivered(), [FIRST + 8]);
    }
}

/// R-TUN-63: the gaps of every lane, whichever lane the one is on that shows it.
#[test]
fn a_gap_that_nobody_repairs_ends_the_waits_of_all_lanes() {
    let mut test = Test::new(2);
    let behind_gap = |of: u8| Test::shim(lane(of), FIRST + 1, Some(FIRST));
    test.take(ms(1), behind_gap(1), 1);
    test.take(ms(50), behind_gap(0), 0);
    test.receiver.on_timer(&test.config, ms(101), &mut test.out);
    assert_eq!(test.delivered(), [1, 0]);
    assert!(test.receiver.deadline(&test.config) > ms(101));
}

/// R-TUN-11: a frame behind one that waits for another lane goes on waiting: what was lost lies behind both.
#[test]
fn a_jump_of_a_lane_releases_nothing_before_it() {
    let mut test = Test::new(2);
    let behind_other = Shim {
        predecessor: Some((lane(1), WireNumber(FIRST))),
        ..Test::shim(lane(0), FIRST, None)
    };
    test.take(ms(0), behind_other, 1);
    test.frame(ms(0), FIRST + 1, Some(FIRST));
    let next = WireNumber(FIRST + 3 + (1 << 16));
    let probe = Probe { lane: lane(0), next, sent_at: Some(ms(1)) };
    test.receiver.on_probe(&test.config, ms(1), &probe, &mut test.out);
    assert_eq!((test.delivered(), test.receiver.counts().given_up), (vec![], 1 + (1 << 16)));
    test.take(ms(2), Test::shim(lane(1), FIRST, None), 0);
    test.receiver.on_timer(&test.config, ms(9), &mut test.out);
    assert_eq!(test.delivered(), [0, 1, FIRST + 1]);
}

#[test]
fn repairs_and_waits_are_timed() {
    let mut test = Test::new(1);
    test.frame(ms(0), FIRST, None);
    test.frame(ms(1), FIRST + 2, Some(FIRST + 1));
    test.frame(ms(2), FIRST + 3, Some(FIRST + 2));
    // The frame comes, late, and its successors follow at once.
    test.config.is_paced = false;
    test.frame(ms(6), FIRST + 1, Some(FIRST));
    let counts = test.receiver.counts();
    let times = |of: &Histogram| (of.counts().iter().sum::<u64>(), of.sum_nanos() / 1_000_000);
    assert_eq!(times(&counts.recovery), (1, 5));
    assert_eq!(times(&counts.hold), (2, 5 + 4));
    // One that is given up was not repaired, but its successor waited.
    test.frame(ms(7), FIRST + 5, Some(FIRST + 4));
    test.receiver.end(ms(10), &mut test.out);
    let counts = test.receiver.counts();
    assert_eq!((times(&counts.recovery), times(&counts.hold)), ((1, 5), (3, 9 + 3)));
    // In order nothing is timed.
    let mut calm = Test::new(1);
    (0..9).for_each(|n| calm.frame(ms(0), FIRST + n, n.checked_sub(1).map(|n| FIRST + n)));
    let counts = calm.receiver.counts();
    assert_eq!((times(&counts.recovery).0, times(&counts.hold).0), (0, 0));
}

/// R-TUN-9
#[test]
fn a_skipped_number_is_not_waited_for() {
    let mut test = Test::new(1);
    test.frame(ms(0), FIRST + 2, Some(FIRST + 1));
    let ranges = [(WireNumber(FIRST + 1), 1), (WireNumber(FIRST + 900), 9)].into_iter().collect();
    test.receiver.on_skip(ms(0), &Skip { lane: lane(0), ranges }, &mut test.out);
    assert_eq!((test.delivered(), test.receiver.counts().skipped), (vec![FIRST + 2], 1));
}

/// R-TUN-9: of a range, those that are missing.
#[test]
fn a_skipped_range_is_not_waited_for() {
    let mut test = Test::new(1);
    for number in [5, 7, 20] {
        test.frame(ms(0), FIRST + number, Some(FIRST + number - 1));
    }
    assert_eq!(test.delivered(), []);
    let ranges = [(WireNumber(FIRST + 2), 12)].into_iter().collect();
    test.receiver.on_skip(ms(0), &Skip { lane: lane(0), ranges }, &mut test.out);
    assert_eq!(
        (test.delivered(), test.receiver.counts().skipped),
        (vec![FIRST + 5, FIRST + 7], 10)
    );
    let ranges = [(WireNumber(FIRST), 20)].into_iter().collect();
    test.receiver.on_skip(ms(0), &Skip { lane: lane(0), ranges }, &mut test.out);
    assert_eq!((test.delivered(), test.receiver.counts().skipped), (vec![FIRST + 20], 18));
}

/// R-TUN-7
#[test]
fn numbers_that_became_missing_are_reported_at_once_but_not_all_the_time() {
    let mut test = Test::new(1);
    let us = |n: u64| ms(0) + Span::from_micros(n);
    test.receiver.on_probe(
        &test.config,
        us(0),
        &Probe { lane: lane(0), next: WireNumber(FIRST), sent_at: Some(us(0)) },
        &mut test.out,
    );
    test.frame(us(20), FIRST + 1, None);
    assert_eq!(test.out.reports.len(), 2, "the answer to the PROBE, and what is missing");
    for n in 1..20 {
        test.frame(us(20 + n), FIRST + 1 + 2 * n as u32, None);
    }
    assert_eq!(test.out.reports.len(), 2, "within 20 us");
    assert_eq!(test.receiver.deadline(&test.config), us(40));
    test.receiver.on_timer(&test.config, us(40), &mut test.out);
    let report = test.out.reports.pop().expect("it is due");
    assert_eq!(report.missing.len(), 19, "those that were not reported: {report:?}");
    test.receiver.on_timer(&test.config, ms(1), &mut test.out);
    let report = test.out.reports.pop().expect("all");
    assert_eq!((report.missing.len(), report.from), (20, None), "{report:?}");
}

/// R-TUN-7: however often it is asked what is due.
#[test]
fn what_arrived_is_reported_once_in_an_interval() {
    let mut test = Test::new(1);
    let us = |n: u64| ms(0) + Span::from_micros(n);
    let looks = [(0, 1), (600, 1), (999, 1), (1_000, 2), (1_700, 2), (2_000, 3)];
    for (number, (at, count)) in (FIRST..).zip(looks) {
        test.frame(us(at), number, None);
        test.receiver.on_timer(&test.config, us(at), &mut test.out);
        assert_eq!(test.out.reports.len(), count, "after {at} us");
    }
}

/// R-TUN-8: not those of the sessions before.
#[test]
fn a_report_counts_the_frames_of_its_session() {
    let mut test = Test::new(1);
    for (at, frames) in [(0, 3), (50, 2), (100, 4)] {
        (0..frames).for_each(|n| test.frame(ms(at), FIRST + n, None));
        test.receiver.on_timer(&test.config, ms(at + 10), &mut test.out);
        let report = test.out.reports.pop().expect("it is due");
        assert_eq!((report.frames, report.next), (frames, WireNumber(FIRST + frames)));
        test.receiver.end(ms(at + 10), &mut test.out);
        test.receiver.restart(SESSION);
    }
    assert_eq!(test.receiver.counts().arrived, 9);
}

/// R-TUN-7: of more gaps than sixteen REPORTs have room for, the others are not reported behind these at once.
#[test]
fn the_rest_of_a_long_list_waits() {
    let mut test = Test::new(1);
    let us = |n: u64| ms(0) + Span::from_micros(n);
    (0..1_100).for_each(|n| test.frame(us(0), FIRST + 1 + 2 * n, None));
    assert_eq!(test.out.reports.len(), 1);
    test.receiver.on_timer(&test.config, us(20), &mut test.out);
    let listed = |test: &Test| {
        let all = test.out.reports.iter().skip(1);
        all.map(|report| report.missing.len()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&test), [64; 16]);
    let original = Some((lane(0), WireNumber(FIRST)));
    test.take(us(80), Shim { original, ..Test::shim(lane(0), FIRST + 2_200, None) }, FIRST);
    assert_eq!(listed(&test), [64; 16]);
    test.frame(us(90), FIRST + 2_300, None);
    assert_eq!(listed(&test)[16..].iter().sum::<usize>(), 77, "with what is news");
}

/// R-TUN-14
#[test]
fn frames_that_wait_are_delivered_in_order_when_the_session_ends() {
    let mut test = Test::new(1);
    for (number, before) in [(5, 3), (3, 1), (4, 2), (2, 0)] {
        test.frame(ms(0), FIRST + number, Some(FIRST + before));
    }
    test.receiver.end(ms(0), &mut test.out);
    assert_eq!(test.delivered(), [2, 4, 3, 5].map(|n| FIRST + n));
    assert!(test.receiver.is_balanced());
}

/// R-TUN-13
#[test]
fn a_full_cache_delays_and_drops_nothing() {
    let (config, mut sender, mut out) = sender(2);
    for frame in 0..4 {
        out.is_out_of_memory = frame == 1;
        sender.on_frame(&config, ms(0), lane(0), Order::Ordered(5).into(), frame, &mut out);
        assert!(sender.is_balanced());
    }
    let flags: Vec<bool> = out.sent.iter().map(|(shim, _)| shim.is_kept).collect();
    assert_eq!(flags, [true, true, true, false]);
    assert_eq!((sender.kept(), sender.counts().not_kept), (2, 2));
    // What is not kept is skipped, as often as it is listed, but once in a round trip.
    for at in [10, 11, 20] {
        assert!(sender.on_report(ms(at), &report(FIRST + 4, &[(FIRST, 4)]), &mut out));
    }
    assert_eq!((out.sent.len(), sender.counts().skipped, sender.kept()), (6, 2, 2));
    let skipped: Vec<_> = out.skips.iter().map(|skip| skip.ranges.to_vec()).collect();
    assert_eq!(skipped, vec![[(WireNumber(FIRST + 1), 1), (WireNumber(FIRST + 3), 1)]; 2]);
}

/// R-TUN-8: and of one that speaks of numbers that were never sent, the others count.
#[test]
fn a_number_is_sent_again_once_however_often_it_is_listed() {
    let (config, mut sender, mut out) = sender(99);
    for frame in 0..4 {
        sender.on_frame(&config, ms(0), lane(0), Order::Ordered(5).into(), frame, &mut out);
    }
    for _ in 0..3 {
        assert!(sender.on_report(ms(10), &report(FIRST + 3, &[(FIRST + 1, 1)]), &mut out));
    }
    assert_eq!((out.released.as_slice(), sender.counts().resent), ([0, 2].as_slice(), 1));
    let (shim, frame) = out.sent[4];
    assert_eq!((frame, shim.original), (1, Some((lane(0), WireNumber(FIRST + 1)))));
    // The retransmission is lost, and then a number of its own is.
    assert!(sender.on_report(
        ms(20),
        &report(FIRST + 5, &[(FIRST + 1, 1), (FIRST + 4, 1)]),
        &mut out
    ));
    assert_eq!((sender.counts().resent_again, sender.counts().resent), (1, 2));
    assert_eq!(out.skips[0].ranges.as_slice(), [(WireNumber(FIRST + 4), 1)]);
    for wrong in [report(FIRST + 7, &[]), report(FIRST + 99, &[(FIRST + 5, 3)])] {
        assert!(!sender.on_report(ms(11), &wrong, &mut out));
    }
    assert_eq!((sender.counts().refused, sender.kept()), (2, 0));
}

/// R-TUN-12: with back-off, until a REPORT comes.
#[test]
fn the_last_frames_are_probed_for() {
    let (config, mut sender, mut out) = sender(99);
    sender.on_frame(&config, ms(0), lane(0), Order::Ordered(5).into(), 1, &mut out);
    let mut waits = Vec::new();
    let mut probed_at = ms(0);
    while waits.len() < 12 {
        let now = sender.deadline();
        sender.on_timer(now, &mut out);
        if out.probes.len() > waits.len() {
            waits.push(now.since(probed_at).as_micros());
            probed_at = now;
        }
    }
    let now = probed_at;
    // An eighth of the round trip, one, and two at most.
    assert_eq!(waits[..5], [1_250, 10_000, 20_000, 20_000, 20_000], "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= 20_000), "{waits:?}");
    assert_eq!(out.probes.len(), 12);
    assert_eq!(sender.counts().suspected, 1, "once, however long it lasts");
    assert!(out.probes.iter().all(|probe| probe.next == WireNumber(FIRST + 1)));
    // A REPORT was overdue: three answers restore the lane.
    for answer in 1..=3 {
        assert!(sender.on_report(now, &report(FIRST + 1, &[]), &mut out));
        assert_eq!(sender.deadline() == Time::NEVER, answer == 3);
    }
}

/// R-TUN-12: the REPORT may wait to be received. If it does not come then either, the lane is suspect.
#[test]
fn a_box_that_stood_still_suspects_no_lane_at_once() {
    let awaiting_a_report = || {
        let (config, mut sender, mut out) = sender(99);
        sender.on_frame(&config, ms(0), lane(0), Order::Free.into(), 0, &mut out);
        assert!(sender.on_report(ms(10), &report(FIRST + 1, &[]), &mut out));
        sender.on_frame(&config, ms(11), lane(0), Order::Free.into(), 1, &mut out);
        (sender, out)
    };
    let (mut sender, mut out) = awaiting_a_report();
    let mut overdue = ms(0);
    while sender.counts().suspected == 0 {
        overdue = sender.deadline();
        sender.on_timer(overdue, &mut out);
    }
    for (stood_still, is_suspect) in [(0, true), (100, true), (101, false), (40_000, false)] {
        let (mut sender, mut out) = awaiting_a_report();
        while sender.deadline() < overdue {
            sender.on_timer(sender.deadline(), &mut out);
        }
        let looked = overdue + Span::from_micros(stood_still);
        sender.on_timer(looked, &mut out);
        assert_eq!(sender.counts().suspected, u64::from(is_suspect), "{stood_still} us");
        // It waits once, not again and again.
        sender.on_timer(looked + Span::from_millis(40), &mut out);
        assert_eq!(sender.counts().suspected, 1);
    }
}

/// R-TUN-14
#[test]
fn nothing_is_kept_when_the_session_ends() {
    let (config, mut sender, mut out) = sender(99);
    for frame in 0..4 {
        sender.on_frame(&config, ms(0), lane(0), Order::Ordered(5).into(), frame, &mut out);
    }
    sender.end(&mut out);
    assert_eq!((out.released.as_slice(), sender.kept()), ([0, 1, 2, 3].as_slice(), 0));
    assert!(sender.is_balanced() && sender.deadline() == Time::NEVER);
}
