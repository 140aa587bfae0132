//! What happened to a packet that was lost can be read in the flight recorders of both boxes.

use common::metrics::Metric;
use common::psn::Psn;
use common::recorder::{LaneEvent, Record, What};
use common::time::Span;
use rnic::WorkKind;
use switch::Recovery;
use tests::{Impairment, Loss, Scenario, Script, Segment, Tunnelling, Victim, World};

/// One queue pair sends 200 packets from here on; then 200 more, of which one is lost, behind the end of the numbers.
const FIRST: Psn = Psn::new(0xff_ff20);
const LOST: Psn = FIRST.offset(250);

fn scenario(recovery: Recovery) -> Scenario {
    Scenario {
        first_psn: FIRST,
        qps: 1,
        messages: [10, 0],
        message_max: 20 * 1_024,
        fixed_length: true,
        pmtu: 1_024,
        reads: 0.0,
        atomics: 0.0,
        ..Scenario::calm(1, Some(recovery))
    }
}

/// Its second half is posted.
fn warmed_up(scenario: Scenario) -> World {
    let mut world = World::new(scenario);
    world.run_for(Span::from_millis(1_000));
    (0..10).for_each(|_| world.submit(0, WorkKind::Write, 20 * 1_024));
    world
}

fn world(recovery: Recovery) -> World {
    let mut world = warmed_up(scenario(recovery));
    let loss = Loss { on: Segment::LongHaul, what: Victim::Request(LOST) };
    world.set_script(Script::new(vec![loss]));
    let outcome = world.run(Span::from_millis(10_000));
    assert!(outcome.finished.is_some() && world.script().is_over(), "{outcome:?}");
    world
}

/// What a box tells of the packet with this PSN, in the order in which it happened.
fn told(world: &World, me: usize, psn: Psn) -> Vec<What> {
    let records = world.records(me);
    assert!(records.is_sorted_by_key(|record| record.first));
    records.iter().filter(|record| record.has(psn)).map(|record| record.what).collect()
}

fn counted<const N: usize>(metrics: [Metric; N]) -> Vec<What> {
    metrics.map(What::Counted).to_vec()
}

#[test]
fn a_packet_that_came_from_the_cache() {
    let world = world(Recovery::Cached);
    assert_eq!(told(&world, 0, LOST), counted([Metric::SentryResent]));
    // The resent packet itself is the next one, and delivered at once.
    let depot = told(&world, 1, LOST);
    assert!(depot.starts_with(&counted([Metric::GapsSeen, Metric::NackNewGap])), "{depot:?}");
    assert!(depot.contains(&What::Counted(Metric::GapsFilled)), "{depot:?}");
    // The one behind it was early.
    let next = told(&world, 1, LOST.offset(1));
    assert_eq!(next, counted([Metric::DepotHeld]));
    // One before it was forwarded in order, of which there are no records.
    assert_eq!(told(&world, 0, LOST.offset(Psn::MODULUS - 10)), []);
    assert_eq!(told(&world, 1, LOST.offset(Psn::MODULUS - 10)), []);
}

#[test]
fn a_packet_that_the_source_sent_again() {
    let world = world(Recovery::Lr2);
    let sentry = told(&world, 0, LOST);
    let expected = [Metric::SentryUncached, Metric::SentryNeeded];
    assert_eq!(sentry, counted(expected), "{sentry:?}");
    // The NAK asks for what the destination has not acknowledged.
    let made = What::Counted(Metric::CreatedNak);
    assert!(world.records(0).iter().any(|record| record.what == made));
    let next = told(&world, 0, LOST.offset(1));
    assert_eq!(next, counted([Metric::DropFiltered]), "the rest of the rewind");
}

#[test]
fn packets_that_the_tunnel_sent_again() {
    let scenario = Scenario {
        tunnel: Tunnelling::Alone,
        wan: [Impairment::lossy(0.02), Impairment::default()],
        ..scenario(Recovery::Lr2)
    };
    let mut world = warmed_up(scenario);
    assert!(world.run(Span::from_millis(10_000)).finished.is_some());
    let of = |me, wanted| {
        let records = world.records(me);
        let of_lane = records.into_iter().filter(|record| match record.what {
            What::OnLane(event, ..) => event == wanted,
            What::Counted(metric) => panic!("{metric:?}"),
        });
        of_lane.collect::<Vec<_>>()
    };
    let (resent, arrived) = (of(0, LaneEvent::Resent), of(1, LaneEvent::ResentArrived));
    assert!(!resent.is_empty());
    for record in resent {
        let psn = record.psn.expect("a packet of the queue pair");
        let is_it = |other: &&Record| other.stream == record.stream && other.has(psn);
        assert!(arrived.iter().any(|other| is_it(&other)), "{record:?}: {arrived:?}");
    }
}
