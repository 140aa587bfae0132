//! Two tunnels, a link between them that loses, doubles and delays, and hosts that speak RoCE, TCP and ARP.

mod forged;
mod ports;
mod predecessors;
mod reports;

use crate::support::{Kind, Link, Scenario, World, at, stamped};
use common::time::Span;
use proptest::prelude::*;
use tunnel::encapsulation::PEERS;
use tunnel::session::Refusal;
use tunnel::{Dropped, Port};

fn any_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Ethernet, Kind::UdpV4, Kind::UdpV6])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// R-TUN-5: with both encapsulations, in both directions at once.
    #[test]
    fn what_a_bad_link_loses_is_repaired(
        seed: u64, kind in any_kind(), loss in prop::sample::select(vec![0.0, 0.01, 0.05]), repeated in prop::sample::select(vec![0.0, 0.03]),
    ) {
        let mut world = World::new(Scenario { seed, kind, ..Scenario::default() });
        world.settle();
        world.link = Link { loss, repeated, ..world.link };
        world.talk(2_000);
        world.link = Link { loss: 0.0, repeated: 0.0, ..world.link };
        world.rest();
        world.assert_lossless();
    }

    /// R-TUN-14, R-TUN-15: boxes restart at any time. Nothing comes twice, and no flow is out of order but
    /// where a frame was lost; once all is well, nothing is lost.
    #[test]
    fn restarts_double_nothing(
        seed: u64, kind in any_kind(), restarts in prop::collection::vec((0..2_usize, 0..1_500_u64), 1..4),
    ) {
        let mut world = World::new(Scenario { seed, kind, ..Scenario::default() });
        world.settle();
        world.link = Link { loss: 0.01, ..world.link };
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

    /// R-TUN-15: a link that carries nothing for a while, either way.
    #[test]
    fn a_blackout_ends_and_begins_a_session(seed: u64, kind in any_kind(), dead in prop::sample::select(vec![[true, true], [true, false], [false, true]])) {
        let mut world = World::new(Scenario { seed, kind, ..Scenario::default() });
        world.settle();
        world.talk(100);
        world.link.dead = dead;
        world.talk(50);
        world.pass(Span::from_millis(8_000));
        prop_assert!(!world.is_up(0) && !world.is_up(1));
        world.link.dead = [false; 2];
        world.settle();
        world.assert_nothing_doubled();
        world.forget();
        world.talk(200);
        world.rest();
        world.assert_lossless();
    }

    /// Any bytes from either side: nothing panics, and the books balance.
    #[test]
    fn any_frame_is_accounted_for(
        kind in any_kind(),
        frames in prop::collection::vec((any::<bool>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..120), prop::option::of(0..120_usize)), 0..40),
    ) {
        let mut world = World::new(Scenario { kind, ..Scenario::default() });
        world.settle();
        for (is_wan, is_seeded, mut bytes, cut) in frames {
            if is_seeded {
                let mut seed = world.wrapped(0, 5);
                let len = bytes.len().min(seed.len());
                let front = if is_wan { 12.min(len) } else { 0 };
                seed[front..len].copy_from_slice(&bytes[front..len]);
                bytes = seed;
            }
            bytes.truncate(cut.unwrap_or(bytes.len()));
            if is_wan { world.wan_frame(0, bytes) } else { world.lan_frame(0, bytes) }
        }
    }
}

/// R-TUN-19: without a peer every frame passes as it came, and so does one that is too long for the path.
#[test]
fn an_ethernet_tunnel_without_a_peer_is_a_wire() {
    let mut world = World::new(Scenario::default());
    world.link.dead = [true; 2];
    for len in [14, 60, 1_514] {
        let frame = stamped(0, 3, 1, len);
        world.lan_frame(0, frame.clone());
        assert_eq!(world.on_link.pop(), Some((0, frame.clone())));
        world.wan_frame(1, frame.clone());
        assert_eq!(world.delivered[1].pop(), Some(frame));
    }
    world.link.dead = [false; 2];
    world.settle();
    let long = stamped(0, 3, 1, 1_600);
    world.lan_frame(0, long.clone());
    assert_eq!(world.on_link.pop(), Some((0, long)));
    assert_eq!(world.boxes[0].counts().too_long, 1);
}

/// R-TUN-19: nothing from the LAN is taken for a frame of the tunnel.
#[test]
fn the_tunnels_ethertype_from_the_lan_is_carried_inside_or_not_at_all() {
    let mut world = World::new(Scenario::default());
    let mut frame = stamped(0, 3, 1, 100);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    world.lan_frame(0, frame.clone());
    assert_eq!(world.boxes[0].counts().dropped(Dropped::Reserved), 1);
    world.settle();
    world.lan_frame(0, frame.clone());
    world.rest();
    assert_eq!(world.delivered[1].last(), Some(&frame));
    // Too long to be carried inside.
    frame.resize(1_600, 0);
    world.lan_frame(0, frame);
    assert_eq!(world.boxes[0].counts().dropped(Dropped::Reserved), 2);
}

/// R-TUN-21: what has no session or does not fit has no other way.
#[test]
fn a_udp_tunnel_without_a_peer_carries_nothing() {
    for kind in [Kind::UdpV4, Kind::UdpV6] {
        let mut world = World::new(Scenario { kind, ..Scenario::default() });
        world.lan_frame(0, stamped(0, 3, 1, 100));
        assert_eq!(world.boxes[0].counts().dropped(Dropped::NoSession), 1);
        world.settle();
        world.lan_frame(0, stamped(0, 3, 1, 1_600));
        assert_eq!(world.boxes[0].counts().dropped(Dropped::TooLong), 1);
        // ARP for the box.
        let arp = [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 46]].concat();
        world.wan_frame(0, arp.clone());
        assert_eq!(world.local.pop(), Some((0, arp)));
    }
}

/// R-TUN-21: DSCP and ECN of the frame within, lengths and the checksum.
#[test]
fn the_outer_headers_are_right() {
    let mut world = World::new(Scenario { kind: Kind::UdpV4, ..Scenario::default() });
    world.settle();
    world.lan_frame(0, stamped(0, 3, 1, 100));
    let (_, frame) = world.on_link.pop().expect("it is sent");
    assert_eq!(frame.len(), 100 + 58);
    assert_eq!(frame[12..16], [8, 0, 0x45, 0xb9 | 1]);
    assert_eq!(frame[16..18], [0, 144]);
    let sum: u32 =
        frame[14..34].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum");
    assert_eq!(frame[38..40], [0, 124]);

    let mut world = World::new(Scenario { kind: Kind::UdpV6, ..Scenario::default() });
    world.settle();
    world.lan_frame(0, stamped(0, 3, 1, 100));
    let (_, frame) = world.on_link.pop().expect("it is sent");
    assert_eq!(frame.len(), 100 + 78);
    assert_eq!((frame[14], frame[15] & 0xf0, frame[18..20].to_vec()), (0x6b, 0x90, vec![0, 124]));
}

/// What a router does to a packet of IPv4 that meets congestion.
fn mark(frame: &mut [u8]) {
    frame[15] |= 3;
    frame[24..26].fill(0);
    let sum: u32 =
        frame[14..34].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// R-TUN-22
#[test]
fn a_mark_of_the_path_reaches_the_frame_within() {
    let mut world = World::new(Scenario { kind: Kind::UdpV4, ..Scenario::default() });
    world.settle();
    let frame = stamped(0, 3, 1, 100);
    world.lan_frame(0, frame.clone());
    let (_, mut wrapped) = world.on_link.pop().expect("it is sent");
    mark(&mut wrapped);
    world.wan_frame(1, wrapped);
    let marked = world.delivered[1].pop().expect("it is delivered");
    assert_eq!((marked[15], frame[15]), (0xbb, 0xb9));
    // ARP knows no marks.
    world.lan_frame(0, [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 46]].concat());
    let (_, mut wrapped) = world.on_link.pop().expect("it is sent");
    mark(&mut wrapped);
    world.wan_frame(1, wrapped);
    assert_eq!((world.delivered[1].len(), world.boxes[1].counts().dropped(Dropped::Mark)), (0, 1));
}

/// R-TUN-19: to any box until the peer is known, and to that one from then on.
#[test]
fn messages_go_to_the_peer_once_it_is_known() {
    let mut world = World::new(Scenario::default());
    world.pass(Span::from_millis(1));
    let (_, first) = world.on_link.first().expect("a HELLO");
    assert_eq!(first[..6], PEERS);
    world.settle();
    world.on_link.clear();
    world.pass(Span::from_millis(2_500));
    assert!(!world.on_link.is_empty());
    for (from, frame) in &world.on_link {
        assert_eq!(frame[..12], [2, 0, 0, 0, 9, 1 - *from as u8, 2, 0, 0, 0, 9, *from as u8]);
    }
}

/// R-TUN-21
#[test]
fn without_a_next_hop_nothing_is_sent() {
    let mut world = World::new(Scenario { kind: Kind::UdpV4, ..Scenario::default() });
    world.settle();
    world.boxes[0].set_next_hop(Port::default(), None);
    world.on_link.clear();
    world.lan_frame(0, stamped(0, 3, 1, 100));
    assert!(world.on_link.is_empty());
    assert_eq!(world.boxes[0].counts().dropped(Dropped::NoNextHop), 1);
    world.boxes[0].set_next_hop(Port::default(), Some([2, 0, 0, 0, 9, 8]));
    world.lan_frame(0, stamped(0, 3, 2, 100));
    let (_, frame) = world.on_link.pop().expect("it is sent");
    assert_eq!(frame[..6], [2, 0, 0, 0, 9, 8]);
    assert!(world.boxes[0].is_balanced());
}

/// R-TUN-23: a frame that the queue has no room for is not numbered.
#[test]
fn a_full_queue_looks_like_no_loss() {
    let mut world = World::new(Scenario::default());
    world.settle();
    for n in 0..100 {
        world.is_full = n % 3 == 0;
        world.lan_frame(0, stamped(0, 3, n, 100));
    }
    world.is_full = false;
    world.rest();
    assert_eq!(world.boxes[0].counts().dropped(Dropped::Queue), 34);
    assert_eq!((world.delivered[1].len(), world.boxes[1].received().missing), (66, 0));
}

/// R-TUN-19: a frame of another session is what a plain one would be for two intervals of HELLOs of a new session, until a frame of it
/// arrives.
#[test]
fn a_frame_of_another_session_is_new_while_the_session_is() {
    for (passed, is_used, is_delivered) in
        [(1_900, false, true), (1_900, true, false), (2_100, false, false), (2_100, true, false)]
    {
        let mut world = World::new(Scenario::default());
        world.settle();
        let old = world.wrapped(0, 1);
        world.restart(0);
        while world.boxes[1].counts().began < 2 {
            world.pass(Span::from_millis(1));
        }
        // The path is known by then, so that a frame has a number.
        world.pass(Span::from_millis(1_200));
        if is_used {
            world.lan_frame(0, stamped(0, 3, 0, 100));
        }
        world.pass(Span::from_millis(passed - 1_200));
        let (seen, dropped) = (world.delivered[1].len(), |world: &World| {
            world.boxes[1].counts().dropped(Dropped::Session)
        });
        let before = dropped(&world);
        world.wan_frame(1, old);
        let is_dropped = dropped(&world) > before;
        assert_eq!((world.delivered[1].len() > seen, is_dropped), (is_delivered, !is_delivered));
    }
}

/// R-TUN-1, R-TUN-3, R-TUN-16: each byte of a frame's shim, and each byte of each message, changed; and frames and
/// messages of another pair of boxes.
#[test]
fn forged_frames_change_no_state() {
    for kind in [Kind::Ethernet, Kind::UdpV4, Kind::UdpV6] {
        let mut world = World::new(Scenario { kind, ..Scenario::default() });
        world.settle();
        let good = world.wrapped(1, 7);
        let at = kind.shim_at();
        for byte in (0..8).filter(|byte| !matches!(byte, 2 | 3)) {
            for bit in 0..8 {
                let mut forged = good.clone();
                forged[at + byte] ^= 1 << bit;
                world.wan_frame(0, forged);
            }
        }
        // A reserved flag, and a predecessor's lane without its number.
        let mut forged = good.clone();
        forged[at + 3] |= 4;
        world.wan_frame(0, forged);
        let mut forged = good.clone();
        (forged[at + 2], forged[at + 15]) = (0xff, 1);
        world.wan_frame(0, forged);
        // Far away.
        let mut forged = good.clone();
        forged[at + 8] ^= 0x40;
        world.wan_frame(0, forged);
        let counts = world.boxes[0].counts();
        let bad = counts.dropped(Dropped::Shim)
            + counts.dropped(Dropped::Version)
            + counts.dropped(Dropped::Session)
            + counts.refused(Refusal::Truncated);
        let bad = bad
            + counts.refused(Refusal::BadTag)
            + counts.refused(Refusal::Invalid)
            + counts.refused(Refusal::Version);
        assert_eq!(
            bad + world.boxes[0].received().outside + world.boxes[0].received().duplicate,
            6 * 8 + 3,
            "{kind:?} {counts:?} {:?}",
            world.boxes[0].received()
        );
        assert_eq!(
            (world.delivered[0].len(), world.boxes[0].received().missing),
            (0, 0),
            "{kind:?}"
        );

        let mut other = World::new(Scenario { kind, seed: 99, ..Scenario::default() });
        other.settle();
        for frame in [other.wrapped(1, 7), other.wrapped(1, 8)] {
            world.wan_frame(0, frame);
        }
        for (to, frame) in other.messages.iter().filter(|(to, _)| *to == 0) {
            world.wan_frame(*to, frame.clone());
        }
        assert_eq!(world.delivered[0].len(), 0, "{kind:?}: sessions crossed");
        assert!(world.is_up(0) && world.is_up(1));

        // The good one is delivered, and none of its replays.
        let before = world.boxes[0].received().duplicate;
        for _ in 0..3 {
            world.wan_frame(0, good.clone());
        }
        assert_eq!(
            (world.delivered[0].len(), world.boxes[0].received().duplicate),
            (1, before + 2),
            "{kind:?}"
        );
        // Each message again.
        let before = (*world.boxes[0].session().state(), world.boxes[0].kept());
        let all: Vec<_> = world.messages.clone();
        for (to, frame) in all.iter().filter(|(to, _)| *to == 0) {
            world.wan_frame(*to, frame.clone());
        }
        assert_eq!((*world.boxes[0].session().state(), world.boxes[0].kept()), before, "{kind:?}");
        assert!(world.boxes[0].counts().refused(Refusal::Replayed) > 0);
    }
}

/// R-TUN-2: a peer of another release is told from none.
#[test]
fn a_message_of_another_version_is_the_reason_for_no_session() {
    for kind in [Kind::Ethernet, Kind::UdpV4, Kind::UdpV6] {
        let mut told = World::new(Scenario { kind, ..Scenario::default() });
        told.settle();
        let (_, mut frame) =
            told.messages.iter().find(|(to, _)| *to == 0).expect("a message").clone();
        frame[kind.shim_at()] += 1 << 4;
        let mut world = World::new(Scenario { kind, ..Scenario::default() });
        world.wan_frame(0, frame);
        let refused = world.boxes[0].session().last_refusal();
        assert_eq!(refused.map(|(why, _)| why), Some(Refusal::Version), "{kind:?}");
        assert_eq!(world.boxes[0].counts().refused(Refusal::Version), 1);
        assert!(world.boxes[0].is_balanced());
    }
}

/// R-TUN-15
#[test]
fn a_box_that_says_bye_leaves_a_wire() {
    let mut world = World::new(Scenario::default());
    world.settle();
    world.talk(50);
    world.close(0);
    world.talk(50);
    world.pass(Span::from_millis(30));
    assert!(!world.is_up(1));
    let frame = stamped(1, 3, 1_000, 100);
    world.lan_frame(1, frame.clone());
    assert_eq!(world.on_link.pop(), Some((1, frame)));
    world.rest();
    world.assert_lossless_as_far_as_in_order();
    assert!(world.now() < at(60_000));
}
