//! A session begins and ends while hosts send, over a link that loses nothing. Encapsulation `ethernet`: plain frames before
//! it, numbered ones in it, plain frames after it.

use crate::support::{Kind, Link, Scenario, World};
use common::time::Span;
use proptest::prelude::*;

/// Time in which everything happens, in milliseconds.
const DURING: u64 = 5_000;
/// Longer than `peer_timeout`.
const SILENCE: u64 = 3_600;

/// What ends a session.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A box starts anew. It holds no frame: the link has lost none.
    Restart(usize),
    /// A box says BYE.
    Bye(usize),
    /// No control message of these boxes arrives for [`SILENCE`].
    Silence([bool; 2]),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..2_usize).prop_map(Event::Restart),
        (0..2_usize).prop_map(Event::Bye),
        prop::sample::select(vec![[true, false], [false, true], [true; 2]])
            .prop_map(Event::Silence),
    ]
}

/// Hosts send a frame about once in a millisecond for [`DURING`], and then until a session is up for good.
fn run(world: &mut World, events: &[(u64, Event)]) {
    let begin = world.now();
    let mut loud_at = 0;
    let mut events = events.to_vec();
    events.sort_unstable_by_key(|(at, _)| *at);
    let mut events = events.into_iter().peekable();
    loop {
        let after = world.now().since(begin).as_micros() / 1_000;
        if after >= loud_at {
            world.link.silent = [false; 2];
        }
        while let Some((_, event)) = events.next_if(|(at, _)| *at <= after) {
            match event {
                Event::Restart(me) => world.restart(me),
                Event::Bye(me) => world.close(me),
                Event::Silence(whose) => {
                    (world.link.silent, loud_at) = (whose, after + SILENCE);
                }
            }
        }
        if after >= DURING && loud_at <= after {
            break;
        }
        world.talk(1);
        world.pass(Span::from_millis(1));
    }
    // The boxes agree again, and hosts still send.
    for _ in 0..4_000 {
        world.talk(1);
        world.pass(Span::from_millis(1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    /// R-TUN-14, R-TUN-15, R-TUN-19, R-TUN-23: whenever sessions begin and end, every frame comes once, and each flow in order, also
    /// where frames wait in a queue that HELLOs and REPORTs overtake.
    #[test]
    fn a_session_that_begins_or_ends_costs_no_frame(
        seed: u64,
        backlog in prop::sample::select(vec![0, 1_000, 3_000, 40_000]),
        events in prop::collection::vec((0..DURING, any_event()), 0..5),
    ) {
        let mut world = World::new(Scenario { seed, kind: Kind::Ethernet, ..Scenario::default() });
        world.link = Link { backlog: Span::from_micros(backlog), ..Link::default() };
        // Boxes that have not met.
        run(&mut world, &events);
        prop_assert!(world.is_up(0) && world.is_up(1));
        world.rest();
        world.assert_lossless();
        for end in &world.boxes {
            prop_assert!(end.sent().resent == 0 && end.received().given_up == 0);
        }
    }
}

/// There are frames of each sort in such a run: those that cross as they came, numbered ones, and ones of a session that is over.
#[test]
fn frames_of_each_sort_cross() {
    for backlog in [0, 20] {
        frames_of_each_sort_cross_behind(Span::from_millis(backlog));
    }
}

fn frames_of_each_sort_cross_behind(backlog: Span) {
    let mut world = World::new(Scenario::default());
    world.link.backlog = backlog;
    run(&mut world, &[(2_500, Event::Bye(0)), (4_900, Event::Silence([true, false]))]);
    world.rest();
    world.assert_lossless();
    for end in &world.boxes {
        let (counts, received) = (end.counts(), end.received());
        assert!(counts.plain_to_wan > 100 && counts.plain_to_lan > 100, "{counts:?}");
        assert!(received.delivered > 1_000 && counts.changes >= 3, "{counts:?}");
    }
    let strange = world.boxes.each_ref().map(|end| end.counts().unsequenced);
    assert!(strange[0] > 5, "{strange:?}");
}
