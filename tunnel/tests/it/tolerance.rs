//! Which missing numbers are lost, and which are only late.

use crate::support::ends::{FIRST, Test, lane, ms, report, sender};
use crate::support::lanes::{Frame, START, Scenario, World, assert_all_in_order, scenario};
use common::time::{Span, Time};
use common::verdict::{Limits, Mode, Tolerance};
use proptest::prelude::*;
use tunnel::shim::Shim;
use tunnel::{Order, WireNumber};

fn us(n: u64) -> Time {
    ms(0) + Span::from_micros(n)
}

fn of(mode: Mode) -> Tolerance {
    Tolerance { mode, ..Tolerance::default() }
}

/// Frame `number` arrives, whose predecessor is the one before.
fn arrive(test: &mut Test, at: u64, number: u32) {
    test.frame(us(at), number, Some(number - 1));
}

/// Frame `number` arrives once more, as transmission `again`.
fn repair(test: &mut Test, at: u64, number: u32, again: u32) {
    let original = Some((lane(0), WireNumber(number)));
    let shim = Shim { original, ..Test::shim(lane(0), again, Some(number - 1)) };
    test.take(us(at), shim, number);
}

/// The start and count of what the newest REPORT lists, and its next number.
fn listed(test: &Test) -> (Vec<(u32, u32)>, u32) {
    let report = test.out.reports.last().expect("a REPORT");
    (report.missing.iter().map(|(start, count)| (start.0, *count)).collect(), report.next.0)
}

/// 1000 to 1015 are sent; 1003 is lost, sent again alone, and completes the window.
#[test]
fn the_worked_example_1000_to_1015_with_1003_lost() {
    let (config, mut source, mut out) = sender(99);
    for frame in 1000..=1015 {
        source.on_frame(&config, ms(0), lane(0), Order::Ordered(5).into(), frame, &mut out);
    }
    assert_eq!(out.sent.first().map(|(shim, _)| shim.number.0), Some(1000));
    assert_eq!((source.kept(), source.counts().resent), (16, 0), "sent, not acknowledged");

    let mut test = Test::new(1);
    for (shim, frame) in out.sent.iter().filter(|(_, frame)| *frame != 1003) {
        test.take(us(u64::from(*frame) - 1000), *shim, *frame);
        if *frame == 1004 {
            assert_eq!(listed(&test), (vec![(1003, 1)], 1005), "a gap of one, at once");
        }
    }
    assert_eq!(test.delivered(), [1000, 1001, 1002]);
    let first = test.out.reports.pop().expect("the one about 1003");
    test.receiver.on_timer(&test.config, ms(1), &mut test.out);
    let all = test.out.reports.pop().expect("the periodic one");
    assert_eq!((all.next.0, all.missing.len()), (1016, 1));

    // It goes from lost to resent at once, however often and in whatever order it is reported.
    for report in [&first, &all, &first, &all] {
        assert!(source.on_report(ms(5), report, &mut out));
    }
    assert_eq!((source.counts().resent, source.counts().lost, source.kept()), (1, 1, 1));
    assert_eq!(source.counts().aggregated, 0, "of a single gap");
    let (shim, frame) = *out.sent.last().expect("the retransmission");
    assert_eq!(
        (frame, shim.number.0, shim.original),
        (1003, 1016, Some((lane(0), WireNumber(1003))))
    );

    test.take(ms(10), shim, frame);
    test.receiver.on_timer(&test.config, ms(11), &mut test.out);
    assert_eq!(listed(&test), (vec![], 1017));
    let last = test.out.reports.pop().expect("it was looked at");
    assert!(source.on_report(ms(15), &last, &mut out));
    assert_eq!((source.kept(), source.counts().released), (0, 16), "all is settled");
    // 1003 and what waited for it, at its pace.
    test.receiver.on_timer(&test.config, ms(40), &mut test.out);
    assert_eq!(test.delivered(), (1003..=1015).collect::<Vec<_>>());
    let counts = test.receiver.counts();
    assert_eq!(
        (counts.missing, counts.overtaken, counts.misjudged, counts.duplicate),
        (1, 0, 0, 0)
    );
}

/// R-TUN-49: the same with 8 numbers, 50 us.
#[test]
fn fixed_limits_are_those_that_are_configured() {
    let mut test = Test::new(1);
    test.config.tolerance = of(Mode::Fixed);
    (1000..1003).for_each(|number| arrive(&mut test, 0, number));
    test.receiver.on_timer(&test.config, us(0), &mut test.out);
    assert_eq!(listed(&test), (vec![], 1003));
    test.out.reports.clear();
    (1004..1012).for_each(|number| arrive(&mut test, 10, number));
    assert!(test.out.reports.is_empty(), "overtaken by eight, for no time");
    assert_eq!(test.receiver.deadline(&test.config), us(60));
    arrive(&mut test, 20, 1012);
    assert_eq!(listed(&test), (vec![(1003, 1)], 1013), "overtaken by nine");
    // By time.
    arrive(&mut test, 100, 1014);
    assert_eq!(test.out.reports.len(), 1);
    test.receiver.on_timer(&test.config, us(149), &mut test.out);
    assert_eq!(test.out.reports.len(), 1);
    test.receiver.on_timer(&test.config, us(150), &mut test.out);
    assert_eq!(listed(&test).0, [(1013, 1)]);
    // Tolerance off: whatever the lane did before.
    test.config.tolerance = of(Mode::Off);
    arrive(&mut test, 200, 1013);
    arrive(&mut test, 300, 1016);
    assert_eq!(listed(&test).0, [(1015, 1)]);
}

/// R-TUN-46, R-TUN-48: a lane that has reordered by 40 us is given time, and no more than that.
#[test]
fn a_lane_that_reorders_is_waited_for_as_long_as_it_was_late() {
    let mut test = Test::new(1);
    for number in [1000, 1002] {
        arrive(&mut test, 0, number);
    }
    assert_eq!(listed(&test).0, [(1001, 1)], "nothing is known of the lane");
    arrive(&mut test, 80, 1001);
    assert_eq!((test.receiver.counts().overtaken, test.receiver.counts().misjudged), (1, 1));
    assert_eq!(test.delivered(), [1000, 1001, 1002]);
    // The periodic REPORT says nothing of what is not decided, and of nothing behind it.
    arrive(&mut test, 980, 1004);
    test.receiver.on_timer(&test.config, ms(1), &mut test.out);
    assert_eq!(listed(&test), (vec![], 1003));
    let count = test.out.reports.len();
    assert_eq!(test.receiver.deadline(&test.config), us(1_080), "80 us and a quarter");
    test.receiver.on_timer(&test.config, us(1_080), &mut test.out);
    assert_eq!(listed(&test), (vec![(1003, 1)], 1005));
    assert_eq!(test.out.reports.len(), count + 1);
    // One that comes in time is no loss to anybody.
    arrive(&mut test, 1_100, 1006);
    arrive(&mut test, 1_150, 1005);
    test.receiver.on_timer(&test.config, us(1_400), &mut test.out);
    assert_eq!(test.out.reports.len(), count + 1);
    assert_eq!((test.receiver.counts().overtaken, test.receiver.counts().misjudged), (2, 1));
    // After seconds in which the lane kept order a gap is a loss again.
    for second in 1..12 {
        arrive(&mut test, second * 1_000_000, 1006 + second as u32);
        test.receiver.on_timer(&test.config, us(second * 1_000_000 + 2_000), &mut test.out);
    }
    arrive(&mut test, 12_000_000, 1019);
    assert_eq!(listed(&test), (vec![(1018, 1)], 1020));
}

/// R-TUN-47: behind its own retransmission it is a duplicate, and still no loss. A second copy of a frame is.
#[test]
fn a_frame_behind_its_retransmission_was_misjudged() {
    let mut test = Test::new(1);
    for number in [1000, 1002] {
        arrive(&mut test, 0, number);
    }
    repair(&mut test, 200, 1001, 1003);
    arrive(&mut test, 250, 1001);
    let counts = test.receiver.counts();
    assert_eq!((counts.duplicate, counts.overtaken, counts.misjudged), (1, 1, 1));
    assert_eq!(
        test.receiver.limits(&test.config, lane(0)).map(|it| it.loss_wait.as_micros()),
        Some(312)
    );
    for again in [1001, 1002] {
        arrive(&mut test, 300, again);
    }
    repair(&mut test, 310, 1001, 1004);
    let counts = test.receiver.counts();
    assert_eq!((counts.duplicate, counts.overtaken, counts.misjudged), (4, 1, 1));
    // Nobody can wait for one that is later than three REPORTs: it teaches nothing.
    let mut test = Test::new(1);
    for number in [1000, 1002] {
        arrive(&mut test, 0, number);
    }
    arrive(&mut test, 3_001, 1001);
    assert_eq!(
        (test.receiver.counts().misjudged, test.receiver.limits(&test.config, lane(0))),
        (1, None)
    );
}

/// R-TUN-47: a frame that was sent again for another reason, as its lane was suspect, before its number counted as lost.
#[test]
fn a_number_that_was_not_reported_was_not_misjudged() {
    let mut test = Test::new(1);
    test.config.tolerance = of(Mode::Fixed);
    (1000..1003).for_each(|number| arrive(&mut test, 0, number));
    test.receiver.on_timer(&test.config, us(0), &mut test.out);
    arrive(&mut test, 10, 1004);
    assert_eq!(listed(&test), (vec![], 1003));
    repair(&mut test, 20, 1003, 1005);
    arrive(&mut test, 30, 1003);
    let counts = test.receiver.counts();
    assert_eq!((counts.duplicate, counts.overtaken, counts.misjudged), (1, 0, 0));
}

/// R-TUN-50
#[test]
fn frames_of_several_gaps_are_sent_again_together() {
    let (config, mut source, mut out) = sender(99);
    for frame in 0..20 {
        source.on_frame(&config, ms(0), lane(0), Order::Ordered(5).into(), frame, &mut out);
    }
    assert!(source.on_report(ms(5), &report(FIRST + 8, &[(FIRST + 2, 3)]), &mut out));
    assert_eq!((source.counts().resent, source.counts().aggregated), (3, 0), "a range");
    assert!(source.on_report(
        ms(6),
        &report(FIRST + 20, &[(FIRST + 2, 3), (FIRST + 9, 1), (FIRST + 11, 2)]),
        &mut out
    ));
    assert_eq!((source.counts().resent, source.counts().aggregated), (6, 1));
}

proptest! {
    /// R-TUN-18: a lane that keeps order is never waited for, however much it loses: a gap is reported when the next
    /// frame has arrived.
    #[test]
    fn a_gap_of_a_lane_that_keeps_order_is_reported_at_once_always(
        runs in prop::collection::vec((1..20_u32, 1..300_u32, 20..3_000_u64), 1..60),
    ) {
        let mut test = Test::new(1);
        test.config.waiting_max = 1 << 12;
        test.config.give_up = Span::from_millis(10_000);
        let (mut now, mut next, mut again) = (0, FIRST, Vec::new());
        for (arrived, lost, pause) in runs {
            for _ in 0..arrived {
                arrive(&mut test, now, next);
                next += 1;
            }
            again.push((next, lost));
            let count = test.out.reports.len();
            now += pause;
            arrive(&mut test, now, next + lost);
            prop_assert!(test.out.reports.len() > count, "a REPORT at once");
            let (gaps, end) = listed(&test);
            prop_assert_eq!((gaps.last().copied(), end), (Some((next, lost)), next + lost + 1));
            next += lost + 1;
        }
        // Retransmissions are no late arrivals.
        for (start, count) in again {
            for number in start..start + count {
                repair(&mut test, now, number, next);
                next += 1;
            }
        }
        prop_assert_eq!(test.receiver.counts().overtaken, 0);
        prop_assert_eq!(test.receiver.limits(&test.config, lane(0)), None);
    }

    /// The same with a sender, several lanes and second copies of frames.
    #[test]
    fn lanes_that_keep_order_tolerate_nothing(seed: u64, loss in prop::sample::select(vec![0.01, 0.1])) {
        let delays = vec![5_000, 6_500];
        let mut world = World::new(Scenario { delays, loss: [loss, 0.01], repeated: 0.05, ..scenario(seed) });
        world.run();
        let counts = world.receiver.1.counts();
        prop_assert_eq!((counts.overtaken, counts.misjudged), (0, 0));
    }
}

/// A lane that reorders by up to 200 us.
fn reordering(pace: u64, loss: f64, mode: Mode, frames: u64) -> World {
    let scenario = Scenario {
        jitter: 200,
        loss: [loss, 0.0],
        pace,
        pause: 200,
        frames,
        flows: 16,
        ..scenario(7)
    };
    let mut world = World::new(scenario);
    world.receiver.0.tolerance = of(mode);
    world
}

/// R-TUN-46: fewer than one frame in a thousand is resent needlessly after the first second, at 650 thousand frames in a
/// second and at 30 thousand. The delivered frames are those without tolerance, and come no later.
#[test]
fn a_lane_that_reorders_by_200_us_resends_less_than_one_in_a_thousand() {
    for (pace, frames) in [(2, 1_300_000), (60, 90_000)] {
        let mut first = reordering(pace, 0.0, Mode::Auto, frames / 2);
        first.run();
        let mut all = reordering(pace, 0.0, Mode::Auto, frames);
        let delivered = all.run();
        let second = first.delivered_at.last().expect("frames").since(START);
        assert!(second > Span::from_millis(900), "{second:?}");
        assert_all_in_order(&all, &delivered);
        let later = all.sender.1.counts().resent - first.sender.1.counts().resent;
        println!(
            "{later} of {} resent after {second:?}, {:?}",
            frames / 2,
            all.receiver.1.counts()
        );
        assert!(later * 1_000 < frames / 2, "{later} of {}", frames / 2);
        let mut off = reordering(pace, 0.0, Mode::Off, frames);
        let without = off.run();
        assert_all_in_order(&off, &without);
        assert!(off.sender.1.counts().resent > frames / 4, "{:?}", off.sender.1.counts());
        assert!(mean_delay(&all, &delivered) <= mean_delay(&off, &without) + Span::from_micros(1));
    }
}

/// Where such a lane loses as well, the frames of a gap come later by no more than the wait.
#[test]
fn a_lane_that_reorders_and_loses_repairs_as_fast_but_for_the_wait() {
    let run = |mode| {
        let mut world = reordering(60, 0.01, mode, 60_000);
        world.receiver.0.is_paced = false;
        let delivered = world.run();
        if mode == Mode::Auto {
            assert_all_in_order(&world, &delivered);
        }
        (mean_delay(&world, &delivered), world.sender.1.counts().resent, world.lost)
    };
    let ((auto, resent, lost), (off, without, _)) = (run(Mode::Auto), run(Mode::Off));
    println!(
        "mean delay {auto:?} with tolerance, {off:?} without; resent {resent}, {without}; lost {lost}"
    );
    assert!(auto <= off + Span::from_micros(250), "{auto:?} {off:?}");
    assert!(resent < lost + lost / 10 + 200, "{resent} {lost}");
    assert!(without > 10 * lost, "{without} {lost}");
}

fn mean_delay(world: &World, delivered: &[Frame]) -> Span {
    let waits = delivered.iter().zip(&world.delivered_at);
    let sum: u64 = waits.map(|(frame, at)| at.since(frame.sent_at).as_nanos()).sum();
    Span::from_nanos(sum / delivered.len() as u64)
}

/// R-TUN-46: a lane that was idle for long has forgotten.
#[test]
fn a_lane_that_was_idle_keeps_order_again() {
    let mut test = Test::new(1);
    for number in [1000, 1002] {
        arrive(&mut test, 0, number);
    }
    arrive(&mut test, 900, 1001);
    test.receiver.on_timer(&test.config, ms(2), &mut test.out);
    let hour = 3_600_000_000;
    arrive(&mut test, hour, 1003);
    arrive(&mut test, hour + 100, 1005);
    assert_eq!(listed(&test).0, [(1004, 1)], "at once");
}

/// R-TUN-49: a wait that is longer than the sender's would have it take the lane for dead.
#[test]
fn a_fixed_wait_that_is_too_long_is_cut() {
    let wait = Span::from_millis(10);
    let scenario = Scenario {
        jitter: 0,
        delays: vec![500, 530],
        loss: [0.01, 0.0],
        pace: 60,
        pause: 200,
        frames: 20_000,
        flows: 16,
        ..scenario(7)
    };
    let mut world = World::new(scenario);
    let limits = Limits { depth: 8_192, loss_wait: wait, stall: wait };
    world.receiver.0.tolerance = Tolerance { limits, ..of(Mode::Fixed) };
    world.receiver.0.report_interval = tunnel::report_interval(Span::from_millis(1));
    let _ = world.run();
    let counts = world.sender.1.counts();
    assert_eq!(counts.suspected, 0);
    assert!(counts.resent < 2 * world.lost, "{counts:?}");
}
