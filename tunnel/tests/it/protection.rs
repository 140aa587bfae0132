//! Lost frames are decoded from repair frames.

use crate::support::{Kind, Link, Scenario, World, stamped};
use common::time::Span;
use proptest::prelude::*;
use tunnel::Plan;

fn plan(streams: u8, every: u8, windows: u8) -> Option<Plan> {
    Some(Plan::new(streams, every, windows).expect("within bounds"))
}

fn world(scenario: Scenario) -> World {
    let mut world = World::new(scenario);
    world.settle();
    world
}

/// Frames that were lost, resent and decoded, in both directions.
fn counts(world: &World) -> (u64, u64, u64) {
    let resent = world.boxes.iter().map(|end| end.sent().resent).sum();
    let missing = world.boxes.iter().map(|end| end.received().missing).sum();
    let decoded = world.boxes.iter().filter_map(|end| end.protected()).map(|it| it.decoded).sum();
    (missing, resent, decoded)
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Ethernet, Kind::UdpV4, Kind::UdpV6])
}

/// R-TUN-67, R-TUN-68: one resend for twenty lost frames, where each is one without repair frames. With four streams a window of
/// 512 frames takes 15 ms here, and one in five is waited for too long.
#[test]
fn lost_frames_are_decoded_and_not_resent() {
    for kind in [Kind::Ethernet, Kind::UdpV4, Kind::UdpV6] {
        for (protection, one_in) in [(None, 1), (plan(1, 16, 8), 20), (plan(4, 16, 8), 5)] {
            let scenario =
                Scenario { kind, protection: ([true; 2], protection), ..Scenario::default() };
            let mut world = world(scenario);
            world.talk(500);
            world.link = Link { loss: 0.01, ..world.link };
            world.talk(6_000);
            world.link.loss = 0.0;
            world.talk(600);
            world.rest();
            world.assert_lossless();
            let (missing, resent, decoded) = counts(&world);
            println!(
                "{kind:?} {protection:?}: {missing} missing, {resent} resent, {decoded} decoded"
            );
            assert!(missing > 90, "{missing}");
            if protection.is_some() {
                assert!(
                    resent * one_in <= missing && decoded * 20 >= missing * 19,
                    "{missing} {resent} {decoded}"
                );
            } else {
                assert!(resent >= missing && decoded == 0, "{missing} {resent} {decoded}");
            }
            // R-TUN-68: a decoded frame did not overtake any.
            for end in &world.boxes {
                assert_eq!(end.received().overtaken, 0);
                assert!(end.lanes(world.now()).all(|lane| lane.limits.is_none()));
            }
        }
    }
}

/// R-TUN-67: a lost frame takes some tens of frames, and no round trip, which is 10 ms.
#[test]
fn a_lost_frame_comes_within_its_window() {
    // Microseconds from the frame to its delivery, in steps of 20 us, at a frame in 20 us.
    let lateness = |protection| {
        let mut world =
            world(Scenario { protection: ([true; 2], protection), ..Scenario::default() });
        world.talk(300);
        world.rest();
        world.forget();
        for n in 0.. {
            world.link.dead = [n == 20, false];
            world.lan_frame(0, stamped(0, 3, n, 200));
            world.pass(Span::from_micros(20));
            if world.delivered[1].len() > 20 {
                return (n - 20) * 20;
            }
        }
        0
    };
    let (without, with) = (lateness(None), lateness(plan(1, 16, 8)));
    assert!((15_000..16_000).contains(&without), "{without} us");
    assert!((5_000..5_500).contains(&with), "{with} us");
}

/// R-TUN-67
#[test]
fn a_box_sends_repair_frames_only_if_both_do() {
    for has in [[true, false], [false, true]] {
        let mut world =
            world(Scenario { protection: (has, plan(1, 16, 4)), ..Scenario::default() });
        world.link.loss = 0.01;
        world.talk(1_000);
        world.link.loss = 0.0;
        world.rest();
        world.assert_lossless();
        assert!(world.on_link.iter().all(|(_, frame)| frame[14] != 0x22));
        for end in &world.boxes {
            assert!(end.protected().is_none_or(|counts| counts.sent == 0));
        }
    }
}

/// R-TUN-67: no frame follows the lost one, so that no window ends.
#[test]
fn a_lost_frame_at_the_end_is_decoded_before_a_probe_asks_for_it() {
    for (protection, most) in [(None, 21), (plan(4, 64, 4), 8)] {
        let mut world =
            world(Scenario { protection: ([true; 2], protection), ..Scenario::default() });
        world.talk(300);
        world.rest();
        world.forget();
        let now = world.now();
        for n in 0..10 {
            world.link.dead = [n == 9, false];
            world.lan_frame(0, stamped(0, 3, n, 200));
        }
        world.link.dead = [false; 2];
        let mut late = 0;
        while world.delivered[1].len() < 10 {
            world.pass(Span::from_millis(1));
            late += 1;
            assert!(late <= most, "{protection:?}: {late} ms, since {now:?}");
        }
        assert!(protection.is_some() || late > 15, "{late} ms without");
    }
}

/// R-TUN-66: frames that are too long to be in a sum are resent.
#[test]
fn frames_too_long_for_a_repair_frame_are_resent() {
    let mut world =
        world(Scenario { protection: ([true; 2], plan(1, 16, 8)), ..Scenario::default() });
    world.talk(300);
    // A frame, its shim and EtherType, and the eight bytes that a resend takes more: 1,600.
    let (fits, long) = (1_600 - 30 - 18, 1_600 - 18 - 8);
    for (len, resent) in [(fits, 0), (fits + 1, 1), (long, 2)] {
        for n in 0..100 {
            world.link.dead = [n == 50, false];
            world.lan_frame(0, stamped(0, 3, n, len));
            world.pass(Span::from_micros(20));
        }
        world.rest();
        assert_eq!(world.boxes[0].sent().resent, resent, "{len} bytes");
    }
}

/// R-TUN-66: what a stranger sends is in no frame that is delivered.
#[test]
fn forged_repair_frames_deliver_nothing() {
    let mut world =
        world(Scenario { protection: ([true; 2], plan(1, 8, 4)), ..Scenario::default() });
    world.talk(300);
    world.rest();
    world.assert_lossless();
    let repair = world.on_link.iter().rev().find(|(from, frame)| *from == 0 && frame[14] == 0x22);
    let repair = repair.expect("a repair frame").1.clone();
    for byte in 14..80 {
        for bit in 0..8 {
            let mut forged = repair.clone();
            forged[byte] ^= 1 << bit;
            world.wan_frame(1, forged);
        }
    }
    world.rest();
    world.assert_lossless();
    assert!(world.is_up(0) && world.is_up(1));
    // All goes on.
    world.link.loss = 0.01;
    world.talk(2_000);
    world.link.loss = 0.0;
    world.rest();
    world.assert_lossless();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    /// R-TUN-5, R-TUN-67: whatever is lost, doubled and late.
    #[test]
    fn nothing_is_lost_doubled_or_overtaken_with_repair_frames(
        seed: u64, kind in any_kind(),
        loss in prop::sample::select(vec![0.0, 0.01, 0.05, 0.2]),
        repeated in prop::sample::select(vec![0.0, 0.03]),
        ports in 1..3_u8,
        plan in (0..4_u8, 2..6_u8, 1..9_u8),
    ) {
        let plan = Plan::new(1 << plan.0, 1 << plan.1, plan.2);
        let mut world = world(Scenario { seed, kind, ports, protection: ([true; 2], plan), ..Scenario::default() });
        world.link = Link { loss, repeated, ..world.link };
        world.talk(1_500);
        world.link = Link { loss: 0.0, repeated: 0.0, ..world.link };
        world.rest();
        world.assert_lossless();
        prop_assert!(world.boxes.iter().all(|end| end.protected().is_some_and(|it| it.sent > 0 && it.faulty == 0)));
    }

    /// R-TUN-15: boxes restart at any time.
    #[test]
    fn restarts_double_nothing_with_repair_frames(
        seed: u64, kind in any_kind(), restarts in prop::collection::vec((0..2_usize, 0..1_500_u64), 1..4),
    ) {
        let mut world = world(Scenario { seed, kind, protection: ([true; 2], plan(2, 16, 4)), ..Scenario::default() });
        world.link.loss = 0.01;
        for n in 0..1_500 {
            for (who, when) in &restarts {
                if *when == n {
                    world.restart(*who);
                }
            }
            world.talk(1);
        }
        world.rest();
        world.assert_nothing_doubled();
        world.settle();
        world.forget();
        world.talk(200);
        world.rest();
        world.assert_lossless();
    }
}

/// R-TUN-67: a path with several lanes has sums of each.
#[test]
fn each_lane_has_its_own_sums() {
    let mut world = world(Scenario {
        ports: 2,
        protection: ([true; 2], plan(1, 16, 8)),
        ..Scenario::default()
    });
    world.link.loss = 0.01;
    world.talk(6_000);
    world.link.loss = 0.0;
    world.rest();
    world.assert_lossless();
    let (missing, resent, decoded) = counts(&world);
    assert!(decoded * 2 > missing, "{missing} missing, {resent} resent, {decoded} decoded");
}
