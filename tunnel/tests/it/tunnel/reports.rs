//! REPORTs of several lanes.

use crate::support::{Kind, Scenario, World};
use common::control::Keys;
use tunnel::message::{self, Message, Reports};
use tunnel::spray::Policy;
use tunnel::{Health, Lane};

/// Two boxes with four lanes on two ports, which all carry frames.
fn world() -> World {
    let mut world = World::new(Scenario { kind: Kind::UdpV4, ports: 2, ..Scenario::default() });
    world.settle();
    (0..2).for_each(|me| world.spray(me, Policy::Oblivious));
    world
}

/// The REPORTs that were sent to a box.
fn reports(world: &World, to: usize) -> Vec<Reports> {
    let keys = Keys::from_secret(b"of the pair");
    let to_it = world.messages.iter().filter(|(at, _)| *at == to);
    to_it
        .filter_map(|(_, frame)| match message::read(&frame[Kind::UdpV4.shim_at()..], &keys) {
            Ok((_, Message::Reports(reports))) => Some(reports),
            _ => None,
        })
        .collect()
}

/// R-TUN-57
#[test]
fn reports_of_lanes_of_a_port_leave_in_one_message() {
    let mut world = world();
    world.talk(1_000);
    world.messages.clear();
    let before = world.boxes[1].received().reports;
    world.talk(3_000);
    let told = world.boxes[1].received().reports - before;
    let messages = reports(&world, 0);
    let together = messages.iter().filter(|reports| reports.lanes().len() == 2).count();
    assert_eq!(told as usize, messages.iter().map(|reports| reports.lanes().len()).sum::<usize>());
    assert!(together * 10 > messages.len() * 9, "{together} of {}", messages.len());
    world.rest();
    world.assert_lossless();
}

/// R-TUN-57: a path that is dead in one direction takes its share of the REPORTs about the other direction with it. No
/// lane of that direction is taken for silent.
#[test]
fn a_lane_that_is_dead_one_way_makes_no_other_look_silent() {
    let good = |world: &World, me: usize| -> Vec<u8> {
        let health = |n: u8| world.boxes[me].health(Lane::new(n).expect("a lane"));
        (0..4).filter(|n| health(*n) == Some(Health::Good)).collect()
    };
    for dead in 0..4 {
        let mut world = world();
        world.talk(1_000);
        world.link.dead_lane = Some((1, dead));
        world.talk(3_000);
        let others: Vec<_> = (0..4).filter(|lane| *lane != dead).collect();
        assert_eq!(good(&world, 1), others, "its own frames show that it is dead");
        assert_eq!(good(&world, 0), [0, 1, 2, 3]);
        assert_eq!(world.boxes[0].sent().suspected, 0);
        world.link.dead_lane = None;
        world.talk(3_000);
        world.rest();
        world.assert_lossless();
    }
}
