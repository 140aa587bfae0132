//! Forged shims of frames that are resent.

use crate::support::{Kind, Scenario, World, stamped};
use common::time::Span;
use tunnel::Dropped;
use tunnel::session::Refusal;

/// The resend of a frame of box 1, as it stands on the link. Neither transmission arrives.
fn resent(world: &mut World, kind: Kind) -> Vec<u8> {
    let _ = world.wrapped(1, 0);
    // By a later frame, box 0 learns that it is lost.
    world.lan_frame(1, stamped(1, 5, 0, 100));
    world.on_link.clear();
    world.link.dead[1] = true;
    world.pass(Span::from_millis(15));
    world.link.dead[1] = false;
    let mut of_box = world.on_link.iter().filter(|(from, _)| *from == 1);
    let (_, frame) = of_box.find(|(_, frame)| frame[kind.shim_at()] == 0x21).expect("it is resent");
    frame.clone()
}

/// R-TUN-1, R-TUN-3, R-TUN-4: each field of the shim of a resent frame, changed. The frame itself comes once, whatever its forgeries say.
#[test]
fn forged_shims_of_resent_frames_change_no_state() {
    for kind in [Kind::Ethernet, Kind::UdpV4, Kind::UdpV6] {
        let mut world = World::new(Scenario { kind, ..Scenario::default() });
        world.settle();
        let at = kind.shim_at();
        let resent = resent(&mut world, kind);
        assert_eq!(resent[at], 0x21, "version 2, resent");
        let bytes = |from: usize, to: [u8; 4]| {
            let mut forged = resent.clone();
            forged[at + from..at + from + 4].copy_from_slice(&to);
            forged
        };
        let byte = |from: usize, to: u8| {
            let mut forged = resent.clone();
            forged[at + from] = to;
            forged
        };
        let flipped = |from: usize, bit: u32| byte(from, resent[at + from] ^ 1 << bit);
        let ahead = |from: usize| {
            let number = resent[at + from..].first_chunk().copied().map_or(0, u32::from_be_bytes);
            bytes(from, number.wrapping_add(1 << 20).to_be_bytes())
        };
        // Version and type; lanes; flags; reserved bytes; a predecessor without a lane.
        let faulty = [4, 5, 6, 7, 1, 2, 3].map(|bit| flipped(0, bit)).into_iter();
        let faulty = faulty.chain([byte(1, 0xff), flipped(3, 1), flipped(3, 2), byte(16, 0xff)]);
        let faulty = faulty.chain(
            (17..20).flat_map(|n| (0..8).map(move |bit| (n, bit))).map(|(n, bit)| flipped(n, bit)),
        );
        let without_lane = [&byte(2, 0xff)[..at + 12], &[0, 0, 0, 1], &resent[at + 16..]].concat();
        let faulty: Vec<_> = faulty.chain([without_lane, resent[..at + 23].to_vec()]).collect();
        // Of another session.
        let session: Vec<_> = (4..8)
            .flat_map(|n| (0..8).map(move |bit| (n, bit)))
            .map(|(n, bit)| flipped(n, bit))
            .collect();
        // Lanes that there are not, and numbers beyond the window: of this transmission, of the first one.
        let outside = [byte(1, 7), ahead(8), byte(16, 7), ahead(20)];
        let before = world.boxes[0].received();
        let held = world.delivered[0].len();
        let count = |world: &mut World, forged: &[Vec<u8>], of: fn(&World) -> u64| {
            for (n, frame) in forged.iter().enumerate() {
                let before = of(world);
                world.wan_frame(0, frame.clone());
                assert_eq!(of(world), before + 1, "{kind:?}: forgery {n}");
            }
        };
        count(&mut world, &faulty, |world| {
            let counts = world.boxes[0].counts();
            let dropped = [Dropped::Shim, Dropped::Version, Dropped::Length, Dropped::Inner];
            let refused = [Refusal::Truncated, Refusal::BadTag, Refusal::Invalid, Refusal::Version];
            dropped.map(|why| counts.dropped(why)).iter().sum::<u64>()
                + refused.map(|why| counts.refused(why)).iter().sum::<u64>()
        });
        count(&mut world, &session, |world| world.boxes[0].counts().dropped(Dropped::Session));
        count(&mut world, &outside, |world| world.boxes[0].received().outside);
        let received = world.boxes[0].received();
        assert_eq!(
            (received.missing, received.delivered),
            (before.missing, before.delivered),
            "{kind:?}"
        );
        assert_eq!(world.delivered[0].len(), held, "{kind:?}");
        // A predecessor that can't be is none; the frame is delivered, and its other forgeries are of a frame that came.
        let mut behind = ahead(8)[at + 8..at + 12].to_vec();
        behind = [
            &resent[..at + 2],
            &[0, resent[at + 3]],
            &resent[at + 4..at + 12],
            &behind,
            &resent[at + 16..],
        ]
        .concat();
        world.wan_frame(0, behind);
        assert_eq!(world.delivered[0].len(), held + 1, "{kind:?}: it waits for nothing");
        for again in [resent.clone(), byte(2, 0xff), flipped(3, 0), flipped(3, 7), flipped(0, 0)] {
            world.wan_frame(0, again);
        }
        assert_eq!(world.delivered[0].len(), held + 1, "{kind:?}: it comes once");
        world.rest();
        world.talk(100);
        world.rest();
        assert_eq!(world.boxes[0].waiting(), 0, "{kind:?}");
        assert!(world.is_up(0) && world.is_up(1), "{kind:?}");
    }
}
