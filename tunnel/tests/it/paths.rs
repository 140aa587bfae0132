//! The longest frame of a path, which changes while the session lasts. R-TUN-64

use common::time::Span;
use proptest::prelude::*;
use tunnel::{Dropped, Lane, Port};

use crate::support::{Dice, Kind, Scenario, World, stamped};

const KINDS: [Kind; 3] = [Kind::Ethernet, Kind::UdpV4, Kind::UdpV6];

fn port(n: u8) -> Port {
    Port::new(n).expect("a port")
}

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// What each box takes for the longest frame of each of its ports.
fn found(world: &World, ports: u8) -> Vec<u16> {
    let of = |me: usize| (0..ports).map(move |n| (me, port(n)));
    (0..2).flat_map(of).map(|(me, port)| world.boxes[me].path(port).longest).collect()
}

fn up(kind: Kind, ports: u8) -> World {
    let mut world = World::new(Scenario { kind, ports, ..Scenario::default() });
    world.settle();
    assert!(found(&world, ports).iter().all(|size| *size == 1_600), "{kind:?}");
    world
}

/// PATHs of both boxes since the first `from` messages.
fn probes(world: &World, kind: Kind, from: usize) -> usize {
    let is_path = |bytes: &[u8]| bytes[kind.shim_at() + 2] == 6;
    world.messages[from..].iter().filter(|(_, bytes)| is_path(bytes)).count()
}

/// Frames that box 0 has put on the link since `from`.
fn sent(world: &World, from: usize) -> usize {
    world.on_link[from..].iter().filter(|(by, _)| *by == 0).count()
}

/// Case of the field: a reroute to a smaller MTU, without a word from the routers. The length is exact within three seconds, frames
/// above it are dropped or cross plain at once, and none is sent again without end.
#[test]
fn a_path_that_shrinks_is_found_within_three_seconds() {
    for kind in KINDS {
        let mut world = up(kind, 1);
        world.link.longest[0] = Some(1_414);
        for n in 0..100 {
            world.lan_frame(0, stamped(0, 3, n, 1_450));
            world.pass(ms(10));
        }
        world.pass(ms(2_000));
        assert_eq!(found(&world, 1), [1_414; 2], "{kind:?}");
        // The frames that were lost meanwhile are given up, and counted by reason.
        let sent_0 = world.boxes[0].sent();
        assert_eq!(sent_0.skipped_old + sent_0.skipped_refused, sent_0.frames, "{kind:?}");
        assert!((50..100).contains(&sent_0.frames), "{kind:?} {sent_0:?}");
        let (before, on_link) = (*world.boxes[0].counts(), world.on_link.len());
        for n in 0..50 {
            world.lan_frame(0, stamped(0, 3, 200 + n, 1_450));
            world.lan_frame(0, stamped(0, 3, 300 + n, 1_000));
            world.pass(ms(20));
        }
        let after = *world.boxes[0].counts();
        assert_eq!(after.too_long - before.too_long, 50);
        let plain = after.plain_to_wan - before.plain_to_wan;
        let dropped = after.dropped(Dropped::TooLong) - before.dropped(Dropped::TooLong);
        assert_eq!((plain, dropped), if kind == Kind::Ethernet { (50, 0) } else { (0, 50) });
        assert!(sent(&world, on_link) < 3 * 100 + 100, "{} frames", sent(&world, on_link));
        // The hosts are silent, and so is the link.
        let on_link = world.on_link.len();
        world.pass(ms(10_000));
        assert!(sent(&world, on_link) < 10 * 12, "{} frames", sent(&world, on_link));
    }
}

/// One PATH in a second for each port, also as a session begins. A search takes some 70 of each box, and each other lane of the port nine.
#[test]
fn probes_are_few() {
    for (kind, ports) in [(Kind::Ethernet, 1), (Kind::UdpV4, 1), (Kind::UdpV4, 8)] {
        let mut world = up(kind, ports);
        assert!(probes(&world, kind, 0) <= 2 * 5 * usize::from(ports));
        let from = world.messages.len();
        world.pass(ms(10_000));
        let count = probes(&world, kind, from);
        assert!((18..=22).contains(&(count / usize::from(ports))), "{count}");
        world.link.longest = [Some(1_000); 8];
        let from = world.messages.len();
        world.pass(ms(3_000));
        let count = probes(&world, kind, from) / usize::from(ports);
        println!("{kind:?} {ports}: {count}");
        assert!((80..2 * 90).contains(&count), "{kind:?} {ports}: {count}");
    }
}

/// Loss is no reason for a look: a frame whose resend was lost is.
#[test]
fn a_lossy_path_is_looked_at_no_more_often() {
    let mut world = up(Kind::UdpV4, 1);
    world.link.loss = 0.02;
    let from = world.messages.len();
    for n in 0..2_000 {
        world.lan_frame(0, stamped(0, 3, n, 1_450));
        world.pass(ms(5));
    }
    let sent = world.boxes[0].sent();
    assert!(sent.lost > 20, "{sent:?}");
    let count = probes(&world, Kind::UdpV4, from);
    assert!(
        (18..=26).contains(&count),
        "{count}: one in a second of each box, and those of lost ones"
    );
}

/// What was learned is unlearned.
#[test]
fn a_path_that_grows_is_used_again() {
    for kind in KINDS {
        let mut world = up(kind, 1);
        for (most, expected) in [(700, 700), (1_200, 1_200), (1_000_000, 1_600), (300, 300)] {
            world.link.longest[0] = Some(most);
            world.pass(ms(8_000));
            assert_eq!(found(&world, 1), [expected; 2], "{kind:?}");
        }
    }
}

/// One of two paths shrinks: its lanes carry nothing, and all frames take the other.
#[test]
fn a_frame_takes_the_path_that_is_long_enough() {
    for kind in KINDS {
        let mut world = up(kind, 2);
        world.link.longest[1] = Some(1_000);
        world.talk(20_000);
        world.pass(ms(2_500));
        assert_eq!(found(&world, 2), [1_600, 1_000, 1_600, 1_000], "{kind:?}");
        for end in &world.boxes {
            assert_eq!([0, 1].map(|n| end.is_used(port(n))), [true, false]);
        }
        world.rest();
        let before: Vec<_> = world.delivered.iter().map(Vec::len).collect();
        world.forget();
        world.talk(3_000);
        world.rest();
        world.assert_lossless();
        assert!(before.iter().all(|count| *count > 15_000), "{before:?}");
        // The path is whole again, and used.
        world.link.longest[1] = None;
        world.pass(ms(7_000));
        for end in &world.boxes {
            assert_eq!([0, 1].map(|n| end.is_used(port(n))), [true, true], "{kind:?}");
        }
    }
}

/// A network that spreads lanes over paths of different MTU: the lane with the short one is left alone.
#[test]
fn a_short_lane_of_a_port_is_left_alone() {
    let mut world = up(Kind::UdpV4, 2);
    world.link.short_lane = Some((2, 900));
    world.talk(5_000);
    world.pass(ms(3_000));
    for end in &world.boxes {
        let path = end.path(port(0));
        assert_eq!((path.longest, path.shortest), (1_600, 900));
        assert!([0, 1].iter().all(|n| end.is_used(port(*n))));
    }
    world.rest();
    world.forget();
    world.talk(2_000);
    world.rest();
    world.assert_lossless();
    let health = |n| world.boxes[0].health(Lane::new(n).expect("a lane"));
    assert_eq!(health(2), Some(tunnel::Health::Down));
}

/// One probe in twenty is lost each way, for ten minutes: no path is found too short, and the loss is counted.
#[test]
fn lost_probes_do_not_shrink_a_path() {
    for seed in 1..6 {
        let mut world = World::new(Scenario { seed, kind: Kind::UdpV4, ..Scenario::default() });
        world.settle();
        world.link.loss = 0.05;
        let mut lost = 0;
        for _ in 0..600 {
            world.pass(ms(1_000));
            world.on_link.clear();
            world.messages.clear();
            assert_eq!(found(&world, 1), [1_600; 2], "seed {seed}");
            let path = world.boxes[0].path(port(0));
            assert_eq!(path.checks.min(3), 3);
            lost += u32::from(path.lost);
            assert_eq!(path.rtt.as_nanos() / 1_000_000, 10);
        }
        let share = f64::from(lost) / 600.0 / 64.0;
        assert!((0.05..0.15).contains(&share), "{share}: one way or the other");
    }
}

/// A path that carries nothing for a while is not short.
#[test]
fn an_outage_does_not_shrink_a_path() {
    let mut world = up(Kind::UdpV4, 2);
    world.link.dead_port = Some(0);
    world.pass(ms(20_000));
    world.link.dead_port = None;
    world.pass(ms(5_000));
    assert_eq!(found(&world, 2), [1_600; 4]);
    assert!([0, 1].iter().all(|n| world.boxes[0].is_used(port(*n))));
}

/// R-TUN-17: a release that knows no PATHs gets none, and its path is as long as its longest HELLO.
#[test]
fn a_peer_that_does_not_answer_probes_is_a_peer() {
    for (most, found_is) in [(None, 1_600), (Some(1_200), 114)] {
        let mut world = World::new(Scenario { kind: Kind::UdpV4, ..Scenario::default() });
        (world.link.is_old, world.link.longest[0]) = (true, most);
        world.settle();
        assert_eq!(found(&world, 1), [found_is; 2]);
        let is_path = |bytes: &[u8]| matches!(bytes[42 + 2], 6 | 7);
        assert!(!world.messages.iter().any(|(_, bytes)| is_path(bytes)));
        if most.is_none() {
            world.talk(1_000);
            world.rest();
            world.assert_lossless();
        }
    }
}

/// R-TUN-65: a router's word makes the box look, and nothing else.
#[test]
fn a_spoofed_icmp_message_shrinks_nothing() {
    for kind in [Kind::UdpV4, Kind::UdpV6] {
        let mut world = up(kind, 1);
        let own = world.wrapped(0, 1);
        let icmp = too_big(kind, &own);
        // Of a packet to another address.
        let mut other = icmp.clone();
        let at = if kind == Kind::UdpV4 { 14 + 20 + 8 + 16 } else { 14 + 40 + 8 + 24 };
        other[at] ^= 1;
        // Four looks in a second, or one; and one of the other box.
        for (icmp, looks) in [(icmp, 9..=11), (other, 3..=5)] {
            let from = world.messages.len();
            for _ in 0..2_000 {
                world.wan_frame(0, icmp.clone());
                world.pass(ms(1));
            }
            let count = probes(&world, kind, from);
            assert!(looks.contains(&count), "{kind:?}: {count} looks");
            assert_eq!(found(&world, 1), [1_600; 2], "{kind:?}");
        }
        // They are for the station too.
        assert_eq!(world.local.len(), 4_000);
    }
}

/// The ICMP message of a router about a frame.
fn too_big(kind: Kind, frame: &[u8]) -> Vec<u8> {
    let mut icmp = frame[..14].to_vec();
    if kind == Kind::UdpV4 {
        icmp.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0, 203, 0, 113, 9]);
        icmp.extend(&frame[26..30]);
        icmp.extend([3, 4, 0, 0, 0, 0, 0x05, 0x78]);
    } else {
        icmp.extend([0x60, 0, 0, 0, 0, 0, 58, 64]);
        icmp.extend([0xfe; 16]);
        icmp.extend(&frame[22..38]);
        icmp.extend([2, 0, 0, 0, 0, 0, 0x05, 0x78]);
    }
    icmp.extend(&frame[14..]);
    icmp
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// A session begins on a short path, or one that shrinks later: its length is found exactly.
    #[test]
    fn any_length_is_found_exactly(
        n in 0..3_usize, size in 128..9_000_usize, later in 128..9_000_usize, frame_max in 2_000..9_216_u16, seed: u64,
        ports in 1..3_u8,
    ) {
        let kind = KINDS[n];
        // Room for the shortest HELLO.
        let least = kind.shim_at() + tunnel::message::HELLO_LEN;
        let mut world = World::new(Scenario { kind, frame_max, seed: seed | 1, ports, ..Scenario::default() });
        for size in [size, later] {
            let size = size.max(least);
            world.link.longest[..usize::from(ports)].fill(Some(size));
            world.pass(ms(9_000));
            let expected = size.min(frame_max.into()) as u16;
            prop_assert_eq!(found(&world, ports), vec![expected; 2 * usize::from(ports)]);
        }
    }

    /// Loss delays a verdict, and changes it by no byte in the end.
    #[test]
    fn a_length_is_found_on_a_lossy_path(size in 200..1_600_usize, seed: u64) {
        let mut dice = Dice(seed | 1);
        dice.roll();
        let mut world = World::new(Scenario { kind: Kind::UdpV4, seed: seed | 1, ..Scenario::default() });
        world.link.loss = 0.05;
        world.pass(ms(5_000));
        world.link.longest[0] = Some(size);
        world.pass(ms(30_000));
        prop_assert_eq!(found(&world, 1), vec![size as u16; 2]);
    }
}
