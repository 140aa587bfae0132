//! Frames that the path never carries, whatever else it does. R-TUN-62

use crate::support::lanes::*;
use common::time::Span;

/// Frames of all sorts on the WAN, of what is allowed: three for each frame from the LAN, and a hundred in a second.
fn share_of_allowed(world: &World) -> f64 {
    let seconds = world.ended_at.since(START).as_nanos() as f64 / 1e9;
    world.posted as f64 / (3.0 * world.sender.1.counts().frames as f64 + 100.0 * seconds.max(1.0))
}

/// One frame alone: some resends, ever less often, and then nothing more.
#[test]
fn one_refused_frame_is_given_up() {
    for delay in [100, 5_000, 50_000] {
        let refused = Some(0);
        let mut world = World::new(Scenario {
            delays: vec![delay],
            refused,
            flows: 1,
            frames: 1,
            loss: [0.0; 2],
            ..scenario(1)
        });
        assert_eq!(world.run(), []);
        let (sent, received) = (world.sender.1.counts(), world.receiver.1.counts());
        println!("{delay}: {} frames, {:?}, {sent:?}", world.posted, world.ended_at.since(START));
        assert!((2..=7).contains(&sent.resent), "{sent:?}");
        assert_eq!((sent.skipped, sent.skipped_old), (1, 1));
        // At 100 ms of round trip both give it up after 400 ms.
        let is_told = received.given_up == 0 || delay == 50_000;
        assert!(sent.lost == sent.resent + 1 && is_told, "{sent:?} {received:?}");
        // Seven resends, with their PROBEs and REPORTs.
        assert!(world.posted <= 31, "{delay}: {}", world.posted);
        let most = Span::from_micros(24 * 2 * delay).max(Span::from_millis(20));
        assert!(world.ended_at.since(START) <= most, "{delay}: {:?}", world.ended_at);
    }
}

/// Ten refused frames in a second, or a thousand, are as few frames on the WAN as any.
#[test]
fn a_refused_flow_floods_no_link() {
    for (pace, frames) in [(200_000, 100), (20_000, 500), (2_000, 5_000), (40, 50_000)] {
        for delays in [vec![5_000], vec![5_000; 4]] {
            let refused = Some(0);
            let mut world = World::new(Scenario {
                delays,
                refused,
                flows: 1,
                frames,
                pace,
                pause: pace,
                loss: [0.0; 2],
                ..scenario(1)
            });
            world.run();
            let (share, sent) = (share_of_allowed(&world), world.sender.1.counts());
            println!("{pace} us: {} frames, {share:.2} of what is allowed", world.posted);
            assert!(share <= 1.0, "{pace}: {} {sent:?}", world.posted);
            assert_eq!(sent.skipped, frames);
            assert!(sent.skipped_refused > frames / 2, "{sent:?}");
        }
    }
}

/// A healthy flow at a loss of 1 % beside a refused one, which has half of the frames: all of it arrives, and no later than
/// without such a flow.
#[test]
fn a_refused_flow_takes_no_repair_from_others() {
    let longest = |seed, refused: Option<u16>| {
        let frames = 20_000;
        let mut world =
            World::new(Scenario { refused, flows: 2, frames, pause: 60, ..scenario(seed) });
        let delivered = world.run();
        let (mut next, mut longest, mut sum) = (0, Span::ZERO, Span::ZERO);
        for (frame, at) in delivered.iter().zip(&world.delivered_at).filter(|it| it.0.flow == 0) {
            assert_eq!(frame.n, next, "{:?}", world.sender.1.counts());
            next += 1;
            let took = at.since(frame.sent_at);
            (longest, sum) = (longest.max(took), sum + took);
        }
        assert!(next > frames * 2 / 5, "{next}");
        assert!(share_of_allowed(&world) <= 1.0);
        (longest, sum / next)
    };
    for seed in 1..8 {
        let (alone, beside) = (longest(seed, None), longest(seed, Some(1)));
        println!("{seed}: alone {alone:?}, beside a refused flow {beside:?}");
        // Which frames are lost differs: a resend may be lost as well, or the last frame.
        assert!(beside.0 <= alone.0 + Span::from_millis(13), "{seed}: {alone:?} {beside:?}");
        assert!(beside.1 <= alone.1 + Span::from_micros(500), "{seed}: {alone:?} {beside:?}");
    }
}
