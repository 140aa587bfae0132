//! Several WAN ports.

use crate::support::{Kind, Scenario, World};
use common::control::Keys;
use common::time::Span;
use tunnel::message::{self, Message};
use tunnel::spray::Policy;
use tunnel::{Health, Lane, Port, Sent};

fn world(kind: Kind, ports: u8, is_crossed: bool) -> World {
    let mut world = World::new(Scenario { kind, ports, is_crossed, ..Scenario::default() });
    world.settle();
    world
}

fn port(n: u8) -> Port {
    Port::new(n).expect("a port")
}

/// The good lanes of a box with two ports.
fn good_lanes(world: &World, me: usize) -> Vec<u8> {
    let health = |n: u8| world.boxes[me].health(Lane::new(n).expect("a lane"));
    (0..4).filter(|n| health(*n) == Some(Health::Good)).collect()
}

/// R-TUN-29: a REPORT leaves where the frames of its lane arrive, so that boxes need not count ports alike.
#[test]
fn all_ports_are_used_whatever_their_order() {
    for kind in [Kind::Ethernet, Kind::UdpV4, Kind::UdpV6] {
        for is_crossed in [false, true] {
            let mut world = world(kind, 4, is_crossed);
            for end in &world.boxes {
                assert!(Port::all(4).all(|port| end.is_used(port)));
            }
            world.talk(3_000);
            world.rest();
            world.assert_lossless();
            for end in &world.boxes {
                assert_eq!(
                    (end.sent().lost, end.sent().suspected),
                    (0, 0),
                    "{kind:?} {is_crossed}"
                );
                assert_eq!(end.received().missing, 0);
                let lanes: Vec<_> = end.lanes(world.now()).collect();
                let later = lanes.iter().map(|it| it.later_by.expect("it is measured"));
                assert_eq!((later.clone().count(), later.min()), (8, Some(Span::ZERO)));
                assert!(lanes.iter().all(|it| it.queue == Span::ZERO), "nothing waits");
            }
        }
    }
}

/// R-TUN-29: the frames of a port whose link goes down go out again at once, and none is lost.
#[test]
fn a_link_that_goes_down_costs_no_frame() {
    for (kind, is_crossed) in [(Kind::Ethernet, false), (Kind::UdpV4, true)] {
        let mut world = world(kind, 2, is_crossed);
        world.talk(500);
        world.link.dead_port = Some(0);
        world.pass(Span::from_micros(50));
        world.set_link(0, 0, false);
        world.set_link(1, u8::from(is_crossed), false);
        assert!(!world.boxes[0].is_used(port(0)));
        let before = world.boxes[0].sent();
        world.talk(500);
        let after = world.boxes[0].sent();
        assert_eq!((after.suspected, before.suspected), (0, 0), "nobody has to wait for a REPORT");
        // It is back.
        world.link.dead_port = None;
        world.set_link(0, 0, true);
        world.set_link(1, u8::from(is_crossed), true);
        world.talk(3_000);
        world.rest();
        world.assert_lossless();
        assert!(world.boxes.iter().all(|end| end.is_used(port(0))));
        assert!(
            (0..2).all(|me| good_lanes(&world, me) == [0, 1, 2, 3]),
            "the lanes are good again"
        );
    }
}

/// R-TUN-12, R-TUN-29: a path that carries nothing is found by its silence, costs no frame, and comes back. The other one's lanes
/// hear their REPORTs all the time, whichever port these leave.
#[test]
fn a_path_that_goes_silent_costs_no_frame() {
    for (kind, is_crossed) in [(Kind::Ethernet, false), (Kind::Ethernet, true), (Kind::UdpV6, true)]
    {
        let mut world = world(kind, 2, is_crossed);
        world.talk(500);
        world.link.dead_port = Some(0);
        world.talk(3_000);
        assert_eq!(good_lanes(&world, 0), [1, 3]);
        assert_eq!(good_lanes(&world, 1), if is_crossed { [0, 2] } else { [1, 3] });
        world.link.dead_port = None;
        world.talk(6_000);
        world.rest();
        world.assert_lossless();
        assert!(
            (0..2).all(|me| good_lanes(&world, me) == [0, 1, 2, 3]),
            "the lanes are good again"
        );
    }
}

/// R-TUN-58: a path that dies under load is left as soon as its REPORTs stop while the other one's come, long before a round trip
/// has passed since.
#[test]
fn a_path_that_dies_while_another_lives_is_left_soon() {
    for kind in [Kind::Ethernet, Kind::UdpV4] {
        let mut world = world(kind, 2, false);
        world.talk(2_000);
        world.link.dead_port = Some(0);
        let died = world.now();
        while good_lanes(&world, 0) != [1, 3] {
            world.talk(1);
            assert!(world.now() < died + Span::from_millis(30), "{:?}", good_lanes(&world, 0));
        }
        // The last REPORTs come a round trip of 10 ms after that, and eight intervals of 625 us are silence.
        let took = world.now().since(died);
        assert!(took < Span::from_millis(17), "{took:?}");
        world.link.dead_port = None;
        world.talk(6_000);
        world.rest();
        world.assert_lossless();
    }
}

/// How often a peer stands still.
const STANDSTILLS: u64 = 20;

/// Both boxes send frames. The path from box `still` carries nothing for `ms` milliseconds, [`STANDSTILLS`] times. Returns the counts of
/// the other box.
fn stand_still(world: &mut World, still: usize, ms: u64) -> Sent {
    world.talk(2_000);
    for _ in 0..STANDSTILLS {
        world.link.dead[still] = true;
        let end = world.now() + Span::from_millis(ms);
        while world.now() < end {
            world.talk(1);
        }
        world.link.dead[still] = false;
        world.talk(2_000);
    }
    let sent = world.boxes[1 - still].sent();
    world.rest();
    // Losses beyond the share of resends are skipped. R-TUN-9
    world.assert_nothing_doubled();
    sent
}

/// R-TUN-58: if nothing comes from the peer, no lane is left for its silence, although the paths fall silent one after the
/// other. They have round trips of 10 to 14 ms.
#[test]
fn a_peer_that_stands_still_is_no_dead_lane() {
    for still in 0..2 {
        let sent = stand_still(&mut world(Kind::Ethernet, 3, false), still, 9);
        assert_eq!((sent.suspected, sent.moved), (0, 0), "{still}");
    }
}

/// R-TUN-12: where all lanes carry frames, that holds for a peer that stands still for longer than a REPORT takes.
#[test]
fn a_peer_that_stands_still_for_long_makes_no_lane_suspect_where_all_carry_frames() {
    for still in 0..2 {
        let mut world = world(Kind::Ethernet, 3, false);
        world.spray(1 - still, Policy::Oblivious);
        let sent = stand_still(&mut world, still, 35);
        assert_eq!((sent.suspected, sent.moved), (0, 0), "{still}");
    }
}

/// R-TUN-12: where a lane is idle, the frames of one other lane may move to it, once for each standstill.
#[test]
fn a_peer_that_stands_still_for_long_makes_one_lane_suspect_at_most_where_one_is_idle() {
    for still in 0..2 {
        let sent = stand_still(&mut world(Kind::Ethernet, 3, false), still, 35);
        assert!(sent.suspected <= STANDSTILLS, "{still}: {} verdicts", sent.suspected);
        assert!(sent.moved < sent.frames / 8, "{still}: {} of {}", sent.moved, sent.frames);
    }
}

/// R-TUN-29: a port without a cable takes no frame from the beginning.
#[test]
fn a_port_without_a_path_is_not_used() {
    for kind in [Kind::Ethernet, Kind::UdpV4] {
        let mut world = World::new(Scenario { kind, ports: 3, ..Scenario::default() });
        world.link.dead_port = Some(0);
        world.settle();
        world.talk(1_000);
        world.rest();
        world.assert_lossless();
        for end in &world.boxes {
            assert_eq!(end.sent().moved + end.sent().suspected, 0);
            assert_eq!(
                Port::all(3).map(|port| end.is_used(port)).collect::<Vec<_>>(),
                [false, true, true]
            );
        }
        // It gets one later.
        world.link.dead_port = None;
        world.talk(50_000);
        world.rest();
        world.assert_lossless();
        assert!(world.boxes.iter().all(|end| end.is_used(port(0))));
    }
}

/// R-TUN-17, R-TUN-29: a path that carries less than another is not used, and makes no frame too long for that one. Without
/// the other it is used.
#[test]
fn a_port_whose_path_carries_less_is_not_used() {
    for kind in [Kind::Ethernet, Kind::UdpV4] {
        let mut world = World::new(Scenario { kind, ports: 2, ..Scenario::default() });
        world.link.longest[1] = Some(400);
        world.settle();
        world.pass(Span::from_millis(3_000));
        world.talk(5_000);
        world.rest();
        world.assert_lossless();
        for end in &world.boxes {
            assert_eq!([0, 1].map(|n| end.is_used(port(n))), [true, false]);
            assert_eq!((end.counts().too_long, end.longest_reached()), (0, 1_600));
        }
        world.set_link(0, 0, false);
        world.set_link(1, 0, false);
        world.pass(Span::from_millis(1_500));
        for end in &world.boxes {
            assert_eq!([0, 1].map(|n| end.is_used(port(n))), [false, true]);
            assert_eq!(end.longest_reached(), 400);
        }
    }
}

/// R-TUN-33: the time that a PROBE waits in the box's own queue is no delay of its lane.
#[test]
fn a_probe_says_when_it_leaves_the_queue() {
    let mut world = world(Kind::Ethernet, 2, false);
    let keys = Keys::from_secret(b"of the pair");
    let mut ahead = |queue: Span| {
        world.queue = queue;
        world.messages.clear();
        let now = world.now();
        world.talk(13);
        let read = |bytes: &[u8]| message::read(&bytes[Kind::Ethernet.shim_at()..], &keys).ok();
        let sent = world.messages.iter().filter_map(|(_, bytes)| match read(bytes)?.1 {
            Message::Probe(probe) => Some(probe.sent_at),
            _ => None,
        });
        let newest = sent.max().expect("the lanes are measured");
        world.pass(Span::from_millis(100));
        newest.expect("a PROBE that is timed").since(now)
    };
    let [idle, queued] = [0, 3].map(|ms| ahead(Span::from_millis(ms)));
    assert!(idle < Span::from_millis(1), "{idle:?}");
    assert!(queued >= Span::from_millis(3), "{queued:?}");
}
