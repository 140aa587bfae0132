//! Timers and pools that change while frames cross.

use crate::support::ends::{FIRST, Test, lane, ms, report, sender};
use crate::support::lanes::*;
use common::time::{Span, Time};
use common::verdict::{Mode, Tolerance};
use proptest::prelude::*;
use tunnel::message::Skip;
use tunnel::spray::Policy;
use tunnel::{Flow, Health, Order, SenderConfig, Tuning, WireNumber};

const SPACING: Span = Span::from_micros(100);

fn all_frames(count: u32) -> Vec<u32> {
    (FIRST..FIRST + count).collect()
}

/// Frame `n` of the only flow arrives.
fn arrive(test: &mut Test, now: Time, n: u32) {
    test.frame(now, FIRST + n, n.checked_sub(1).map(|before| FIRST + before));
}

impl Test {
    fn retune(&mut self, now: Time, change: impl Fn(&mut Tuning)) {
        let sender = SenderConfig { give_up: self.config.give_up, ..sender(0).0 };
        let mut tuning = Tuning::of(&sender, &self.config);
        change(&mut tuning);
        self.receiver.retune(&mut self.config, now, &tuning);
    }
}

/// Timers and pools with room for all frames, or with these rooms.
fn tunings(
    cache: &'static [usize],
    waiting: &'static [usize],
) -> impl Strategy<Value = Vec<(u64, Tuning)>> {
    let us = |us: &'static [u64]| prop::sample::select(us).prop_map(Span::from_micros);
    let mode = prop::sample::select(vec![Mode::Off, Mode::Auto, Mode::Fixed]);
    let tuning = (
        us(&[100, 10_000, 100_000]),
        us(&[150_000, 400_000, 5_000_000]),
        us(&[100, 625, 1_000]),
        mode,
        prop::sample::select(cache),
        prop::sample::select(waiting),
    );
    let tuning =
        tuning.prop_map(|(rtt, give_up, report_interval, mode, cache_max, waiting_max)| {
            let tolerance = Tolerance { mode, ..Tolerance::default() };
            Tuning {
                rtt,
                // Those of the scenario.
                spray: Policy::default(),
                resend_copies: 2,
                cache_max,
                waiting_max,
                give_up,
                report_interval,
                tolerance,
            }
        });
    prop::collection::vec((0..3_000_u64, tuning), 0..30)
}

proptest! {
    // As in `world.rs`.
    #![proptest_config(ProptestConfig { cases: 60, max_global_rejects: 3, ..ProptestConfig::default() })]

    /// R-TUN-60
    #[test]
    fn nothing_is_lost_doubled_or_overtaken(
        seed: u64,
        mut delays in prop::collection::vec(1_000..8_000_u64, 1..4),
        loss in prop::sample::select(vec![0.0, 0.01, 0.05]),
        acks in prop::sample::select(vec![0.0, 0.5]),
        jitter in prop::sample::select(vec![0, 200]),
        mut tunings in tunings(&[1 << 13, 1 << 20], &[1 << 13, 1 << 16]),
    ) {
        // Of lanes that reorder, one that learns to wait: what is late and not waited for is resent, which may be more than
        // the share. The test below has the others.
        if jitter > 0 {
            delays.truncate(1);
            tunings.iter_mut().for_each(|(_, tuning)| tuning.tolerance.mode = Mode::Auto);
        }
        let frames = 3_000;
        let scenario =
            Scenario { delays, loss: [loss; 2], acks, jitter, frames, tunings, ..scenario(seed) };
        let mut world = World::new(scenario);
        let delivered = world.run();
        prop_assume!(assert_all_in_order_unless_skipped(&world, &delivered));
        let received = world.receiver.1.counts();
        prop_assert_eq!((received.unordered, received.late), (0, 0), "{:?}", received);
    }

    /// R-TUN-60, R-TUN-49: with lanes that reorder, while frames that are late may be taken for lost. Then more is resent than
    /// may be, and frames are skipped.
    #[test]
    fn frames_that_are_late_and_not_waited_for_come_once(
        seed: u64,
        delays in prop::collection::vec(1_000..8_000_u64, 1..4),
        loss in prop::sample::select(vec![0.0, 0.01, 0.05]),
        acks in prop::sample::select(vec![0.0, 0.5]),
        tunings in tunings(&[1 << 13, 1 << 20], &[1 << 13, 1 << 16]),
    ) {
        let scenario = Scenario {
            delays, loss: [loss; 2], acks, jitter: 200, frames: 3_000, tunings, ..scenario(seed)
        };
        let mut world = World::new(scenario);
        let delivered = world.run();
        let received = world.receiver.1.counts();
        if assert_all_in_order_unless_skipped(&world, &delivered) {
            prop_assert_eq!((received.unordered, received.late), (0, 0), "{:?}", received);
        }
    }

    /// R-TUN-60: with less room than the traffic needs.
    #[test]
    fn each_frame_comes_at_most_once_and_all_that_is_not_given_up_comes(
        seed: u64, tunings in tunings(&[0, 3, 40, 1 << 20], &[0, 1, 30, 1 << 16]),
    ) {
        let mut world = World::new(Scenario { tunings, frames: 3_000, ..scenario(seed) });
        let delivered = world.run();
        assert_nothing_doubled(&delivered);
        let (sent, received) = (world.sender.1.counts(), world.receiver.1.counts());
        let most = sent.skipped + received.given_up;
        prop_assert!(delivered.len() as u64 + most >= 3_000, "{sent:?} {received:?}");
        prop_assert_eq!((world.sender.1.kept(), world.receiver.1.waiting()), (0, 0));
    }
}

/// R-TUN-60: forty frames wait where there is room for ten from now on.
#[test]
fn a_smaller_pool_keeps_what_it_holds_and_gives_up_no_gap() {
    let mut test = Test::new(1);
    (1..=40).for_each(|n| arrive(&mut test, ms(0), n));
    test.retune(ms(1), |tuning| tuning.waiting_max = 10);
    assert!(!test.receiver.fits(&test.config));
    // Those that follow have to wait as well.
    (41..60).for_each(|n| arrive(&mut test, ms(2), n));
    assert_eq!((test.delivered(), test.receiver.waiting()), (vec![], 59));
    // A second reload meanwhile takes nothing away from them.
    test.retune(ms(3), |tuning| tuning.waiting_max = 8);
    arrive(&mut test, ms(3), 60);
    arrive(&mut test, ms(4), 0);
    test.receiver.on_timer(&test.config, ms(90), &mut test.out);
    assert_eq!(test.delivered(), all_frames(61));
    assert!(test.receiver.fits(&test.config));
    let counts = test.receiver.counts();
    assert_eq!((counts.given_up, counts.unordered, counts.late), (0, 0, 0));
    // From then on eight may wait, and the ninth has the gap given up.
    (62..=69).for_each(|n| arrive(&mut test, ms(91), n));
    assert_eq!((test.delivered(), test.receiver.waiting()), (vec![], 8));
    arrive(&mut test, ms(91), 70);
    assert_eq!(test.delivered(), (FIRST + 62..=FIRST + 70).collect::<Vec<_>>());
    assert_eq!(test.receiver.counts().given_up, 1);
}

/// R-TUN-60: where frames always wait, the smaller pool holds once those have left that waited at the change.
#[test]
fn a_smaller_pool_takes_no_more_for_what_came_later() {
    let mut test = Test::new(1);
    arrive(&mut test, ms(0), 1);
    test.retune(ms(1), |tuning| tuning.waiting_max = 10);
    // Of another flow, behind a second gap.
    let wait = |test: &mut Test, now, n: u32| {
        test.take(now, Test::shim(lane(0), FIRST + n, Some(FIRST + n - 1)), FIRST + n);
    };
    (3..=20).for_each(|n| wait(&mut test, ms(2), n));
    assert_eq!((test.delivered(), test.receiver.waiting()), (vec![], 19));
    arrive(&mut test, ms(3), 0);
    test.receiver.on_timer(&test.config, ms(10), &mut test.out);
    assert_eq!((test.delivered(), test.receiver.waiting()), (vec![FIRST, FIRST + 1], 18));
    wait(&mut test, ms(10), 21);
    assert_eq!(test.receiver.waiting(), 0, "eighteen are more than ten");
    assert!(test.receiver.fits(&test.config) && test.receiver.is_balanced());
}

/// R-TUN-60
#[test]
fn a_larger_pool_takes_more_up_to_the_room_of_the_start() {
    let mut test = Test::new(1);
    test.retune(ms(0), |tuning| tuning.waiting_max = 4);
    test.retune(ms(0), |tuning| tuning.waiting_max = 1_000);
    (1..=64).for_each(|n| arrive(&mut test, ms(0), n));
    assert_eq!((test.delivered(), test.receiver.waiting()), (vec![], 64));
    arrive(&mut test, ms(0), 65);
    assert_eq!(test.receiver.waiting(), 0, "there is memory for 64");
}

/// R-TUN-60
#[test]
fn a_shorter_time_counts_for_gaps_that_are_open_and_a_longer_one_too() {
    let mut test = Test::new(1);
    arrive(&mut test, ms(0), 1);
    test.retune(ms(5), |tuning| tuning.give_up = Span::from_millis(20));
    test.receiver.on_timer(&test.config, ms(19), &mut test.out);
    assert_eq!(test.delivered(), []);
    assert!(test.receiver.deadline(&test.config) <= ms(20));
    test.receiver.on_timer(&test.config, ms(20), &mut test.out);
    assert_eq!(test.delivered(), [FIRST + 1]);
    // The peer is there, and repairs: R-TUN-63.
    let ranges = [(WireNumber(FIRST), 1)].into_iter().collect();
    test.receiver.on_skip(ms(29), &Skip { lane: lane(0), ranges }, &mut test.out);
    arrive(&mut test, ms(30), 3);
    test.retune(ms(49), |tuning| tuning.give_up = Span::from_millis(200));
    test.receiver.on_timer(&test.config, ms(229), &mut test.out);
    assert_eq!(test.delivered(), []);
    test.receiver.on_timer(&test.config, ms(230), &mut test.out);
    assert_eq!(test.delivered(), [FIRST + 3]);
}

/// R-TUN-60, R-TUN-40: frames are still paced that have waited for longer than frames may wait now. Many of them came before
/// the one in front of them.
#[test]
fn a_shorter_time_has_no_frame_overtaken_by_one_that_is_paced() {
    let mut test = Test::new(1);
    test.config.waiting_max = 1_000;
    let mut now = ms(0);
    for n in (1..=100).filter(|n| *n != 2) {
        arrive(&mut test, now, n);
        now += SPACING;
    }
    arrive(&mut test, now, 2);
    now += SPACING;
    arrive(&mut test, now, 0);
    let mut delivered = test.delivered();
    assert_eq!(delivered, all_frames(2), "the others are paced");
    test.retune(now, |tuning| tuning.give_up = Span::from_millis(2));
    test.receiver.on_timer(&test.config, now, &mut test.out);
    delivered.extend(test.delivered());
    assert_eq!(delivered, all_frames(101));
    let counts = test.receiver.counts();
    assert_eq!((counts.given_up, counts.unordered), (0, 0));
}

/// R-TUN-60: handles beyond a smaller cache stay until their frames are reported; no frame is kept meanwhile.
#[test]
fn a_smaller_cache_keeps_what_it_holds() {
    let (mut config, mut sender, mut out) = sender(8);
    let send = |sender: &mut tunnel::Sender<u32>, config: &_, out: &mut _, n| {
        sender.on_frame(config, ms(0), lane(0), Flow::from(Order::Ordered(0)), FIRST + n, out);
        assert!(sender.is_balanced());
    };
    (0..8).for_each(|n| send(&mut sender, &config, &mut out, n));
    let tuning = Tuning { cache_max: 2, ..Tuning::of(&config, &Test::new(1).config) };
    sender.retune(&mut config, ms(1), &tuning);
    send(&mut sender, &config, &mut out, 8);
    assert_eq!(
        (sender.kept(), sender.counts().not_kept, sender.has_room(&config, 0)),
        (8, 1, false)
    );
    // The first one is lost, and there is a handle on it.
    assert!(sender.on_report(ms(10), &report(FIRST + 9, &[(FIRST, 1)]), &mut out));
    assert_eq!((sender.counts().resent, sender.counts().skipped), (1, 0));
    assert!(sender.has_room(&config, 0) && sender.is_balanced());
    send(&mut sender, &config, &mut out, 9);
    assert_eq!(sender.counts().not_kept, 1, "there is room");
}

/// R-TUN-60: a lane whose round trip is not measured waits for its REPORT as long as the new guess says.
#[test]
fn another_guess_counts_for_a_lane_that_waits() {
    let health = |guess: u64| {
        let (mut config, mut sender, mut out) = sender(8);
        let (flow, first) = (Flow::from(Order::Ordered(0)), lane(0));
        sender.on_frame(&config, ms(0), first, flow, FIRST, &mut out);
        let rtt = Span::from_millis(guess);
        let tuning = Tuning { rtt, ..Tuning::of(&config, &Test::new(1).config) };
        sender.retune(&mut config, ms(1), &tuning);
        while sender.deadline() < ms(300) {
            let due = sender.deadline();
            sender.on_timer(due, &mut out);
        }
        sender.health(first)
    };
    assert_eq!(health(1), Some(Health::Suspect { answers: 0 }));
    assert_eq!(health(10), Some(Health::Suspect { answers: 0 }), "as before");
    assert_eq!(health(100), Some(Health::Good));
}
