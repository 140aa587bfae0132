//! Several WAN ports.

use super::support::{Kind, Scenario, World};
use common::time::Span;
use tunnel::{Lane, Port};

fn world(kind: Kind, ports: u8, is_crossed: bool) -> World {
    let mut world = World::new(Scenario { kind, ports, is_crossed, ..Scenario::default() });
    world.settle();
    world
}

fn port(n: u8) -> Port {
    Port::new(n).expect("a port")
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
        let health = |n| world.boxes[0].health(Lane::new(n).expect("a lane"));
        assert!(
            (0..4).all(|n| health(n) == Some(tunnel::Health::Good)),
            "the lanes are good again"
        );
    }
}

/// R-TUN-12, R-TUN-29: a path that carries nothing is found by its silence, costs no frame, and comes back.
#[test]
fn a_path_that_goes_silent_costs_no_frame() {
    for kind in [Kind::Ethernet, Kind::UdpV6] {
        let mut world = world(kind, 2, false);
        world.talk(500);
        world.link.dead_port = Some(0);
        world.talk(3_000);
        assert!(world.boxes.iter().all(|end| end.sent().suspected > 0));
        world.link.dead_port = None;
        world.talk(6_000);
        world.rest();
        world.assert_lossless();
        let health = |n| world.boxes[0].health(Lane::new(n).expect("a lane"));
        assert!(
            (0..4).all(|n| health(n) == Some(tunnel::Health::Good)),
            "the lanes are good again"
        );
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
