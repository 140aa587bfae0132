//! Lanes that carry nothing for a while.

use crate::support::lanes::*;
use common::time::Span;

/// R-TUN-9: the last frames of a burst, most of which are lost, are resent: the link has nothing else to carry.
#[test]
fn on_an_idle_link_the_share_is_no_limit() {
    for seed in 1..20 {
        // A blackout from the middle of the burst to behind its end.
        let dead = Some((0, 4_000, 12_000));
        let (pace, pause, frames) = (20, 20, 1_000);
        let mut world =
            World::new(Scenario { dead, pace, pause, frames, loss: [0.0; 2], ..scenario(seed) });
        assert_lossless(&mut world);
        let sent = world.sender.1.counts();
        assert!((500..800).contains(&sent.lost) && sent.skipped == 0, "{sent:?}");
    }
}

/// R-TUN-9, R-TUN-12: a PROBE finds the link within two round trips. Frames that are older than `give_up` by then are not resent, and
/// the receiver does not wait for them.
#[test]
fn after_a_blackout_the_last_frames_come_soon_or_not_at_all() {
    for long in (50_000..3_000_000).step_by(110_000) {
        let dead = Some((0, 1_000, 1_000 + long));
        let (pace, pause, frames) = (60, 60, 100);
        let mut world =
            World::new(Scenario { dead, pace, pause, frames, loss: [0.0; 2], ..scenario(1) });
        let delivered = world.run();
        let end = START + Span::from_micros(1_000 + long);
        // PROBE, REPORT and resend take one and a half.
        let newest = world.delivered_at.last().expect("a frame").since(end);
        assert!(newest <= Span::from_millis(36), "{long}: {newest:?}");
        let oldest = |frame: &Frame| frame.sent_at.since(START);
        let sent = world.sender.1.counts();
        if long < 170_000 {
            assert_all_in_order(&world, &delivered);
        } else if long > 400_000 {
            assert!(delivered.iter().all(|it| oldest(it) <= Span::from_millis(1)), "{long}");
            assert_eq!((sent.skipped_old, sent.resent), (world.lost, 0), "{long}");
        }
        assert_eq!((world.sender.1.kept(), world.receiver.1.counts().given_up), (0, 0));
    }
}

/// R-TUN-11, R-TUN-12: with traffic all the time, frames are delivered again within a few round trips of a blackout,
/// whether the window holds what it lost or not.
#[test]
fn after_a_blackout_new_frames_come_soon() {
    for long in [60_000, 200_000, 1_000_000] {
        for window in [512, 2_048, 1 << 20] {
            let dead = Some((0, 50_000, 50_000 + long));
            let (pace, pause, frames) = (60, 60, (long + 400_000) / 30);
            let mut world =
                World::new(Scenario { dead, pace, pause, frames, loss: [0.0; 2], ..scenario(1) });
            world.receiver.0.window = window;
            let delivered = world.run();
            let end = START + Span::from_micros(50_000 + long);
            let new = delivered.iter().zip(&world.delivered_at);
            let mut new =
                new.filter(|(frame, _)| frame.sent_at >= end).map(|(_, at)| at.since(end));
            let first = new.next().expect("a frame");
            assert!(first <= Span::from_millis(36), "{long} {window}: {first:?}");
        }
    }
}
