//! Packets held behind a gap are delivered at the pace at which they came.

use common::budget::Budget;
use common::control::Reason;
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Qpn;
use proptest::prelude::*;
use testkit::depot::*;

/// From packet to packet.
const STEP: Span = Span::from_micros(10);
/// By how much a timer is late at least.
const SLACK: Span = Span::from_micros(5);
/// By how much it is late at most where packets come a step from each other: eight
/// go on at a time.
const GROUP: u64 = 8;

/// Runs timers until these packets, and no others, have their time and have gone on
/// but for those of the last group. Returns the first that has not.
fn play(bench: &mut Bench, first: i32, end: i32) -> i32 {
    bench.run_timers(bench.now + STEP * (end - first) as u64 + SLACK);
    let went = bench.delivered();
    let next = first + went.len() as i32;
    assert_eq!(went, (first..next).collect::<Vec<_>>());
    assert!((end - GROUP as i32..=end).contains(&next), "{next} of {end}");
    next
}

/// These packets come, a step from one to the next.
fn stream(bench: &mut Bench, psns: impl IntoIterator<Item = i32>) {
    for n in psns {
        bench.data([n]);
        bench.run_timers(bench.now + STEP);
    }
}

/// 1 is lost, 2 to 101 come; then 1, a millisecond after the gap opened.
fn late() -> Bench {
    let mut bench = Bench::synced();
    stream(&mut bench, 2..102);
    bench.data([1]);
    assert_eq!(bench.delivered(), [1, 2], "2 came when the gap opened");
    bench
}

// R-PACE-1
#[test]
fn what_waited_goes_on_at_the_pace_at_which_it_came() {
    let mut bench = late();
    let start = bench.now;
    let due = |n: i32| start + STEP * (n as u64 - 2);
    // The first group is one packet: how fast the flow is isn't known yet.
    bench.run_timers(due(3) + SLACK - Span::from_nanos(1));
    assert_eq!(bench.delivered(), []);
    bench.run_timers(due(3) + SLACK);
    assert_eq!(bench.delivered(), [3]);
    let (mut next, mut groups) = (4, 0);
    while next < 102 {
        let timer = bench.deadline();
        assert!((due(next) + SLACK..=due(next) + STEP * GROUP).contains(&timer));
        bench.run_timers(timer);
        let went = bench.delivered();
        let end = next + went.len() as i32;
        assert_eq!(went, (next..end).collect::<Vec<_>>());
        assert!(due(end - 1) <= timer && (end == 102 || timer < due(end)), "all that has its time");
        (next, groups) = (end, groups + 1);
    }
    assert!(groups < 30, "{groups}");
    assert_eq!(bench.pool.frames(), 0);
}

// R-ORDER-2
#[test]
fn what_comes_meanwhile_waits_its_turn_and_sets_the_pace() {
    let mut bench = late();
    bench.data([102]);
    for n in 103..300 {
        bench.run_timers(bench.now + STEP);
        bench.data([n]);
        assert_eq!(bench.delivered(), [n - 100], "as many as come");
        assert_eq!(bench.pool.frames(), 100);
    }
    assert!(bench.nacks().iter().skip(1).all(Vec::is_empty), "nothing is missing");
    bench.data([150, 250]);
    assert_eq!(bench.out.discarded, [(250, Metric::DropReorderDuplicate)]);
    assert_eq!(bench.delivered(), [150], "what went on may go again");
}

// R-PACE-2
#[test]
fn a_gap_that_is_filled_within_the_lag_holds_up_nothing() {
    let mut bench = late();
    for n in (102..150).chain(151..240) {
        bench.run_timers(bench.now + STEP);
        bench.data(if n == 230 { vec![n, 150] } else { vec![n] });
    }
    let seen = bench.delivered();
    assert_eq!(seen, (3..3 + seen.len() as i32).collect::<Vec<_>>());
    assert!(seen.len() >= 136, "{}", seen.len());
    let lag = bench.pool.frames();
    assert!((98..=101).contains(&lag), "no later than before: {lag}");
}

// R-PACE-3
#[test]
fn a_silence_of_the_source_is_cut() {
    let mut bench = Bench::synced();
    stream(&mut bench, 2..12);
    bench.run_timers(bench.now + Span::from_millis(3));
    stream(&mut bench, 12..22);
    bench.data([1]);
    let start = bench.now;
    // Of the silence an RTT / 64 is left.
    bench.run_timers(start + STEP * (20 + GROUP) + RTT / 64);
    assert_eq!(bench.delivered(), (1..22).collect::<Vec<_>>());
    // Nothing is late any more.
    bench.data([22]);
    assert_eq!(bench.delivered(), [22]);
}

/// Half a round trip too much takes four of them.
// R-PACE-4
#[test]
fn a_lag_beyond_a_round_trip_is_worked_off() {
    let mut bench = Bench::synced();
    let step = Span::from_micros(100);
    let (mut n, mut waiting) = (2, Vec::new());
    let mut play = |bench: &mut Bench, span: Span| {
        let end = bench.now + span;
        while bench.now < end {
            bench.data([n]);
            bench.run_timers(bench.now + step);
            n += 1;
        }
        waiting.push(bench.pool.frames());
    };
    play(&mut bench, RTT + RTT / 2);
    bench.data([1]);
    for _ in 0..6 {
        play(&mut bench, RTT);
    }
    let rtt = RTT.as_nanos() / step.as_nanos();
    assert_eq!(waiting[0], rtt * 3 / 2);
    assert!(waiting[1] < waiting[0] - rtt / 10 && waiting[2] < waiting[1] - rtt / 10);
    assert!(waiting[4..].iter().all(|w| w.abs_diff(rtt) <= 1), "{waiting:?}");
}

/// Two gaps, each of which is filled within `give_up` of the one before.
// R-PACE-2
#[test]
fn no_lag_is_longer_than_a_gap_may_be_open() {
    let mut bench = Bench::synced();
    let step = Span::from_micros(100);
    let half = (GIVE_UP.as_nanos() / step.as_nanos()) as i32 - 4;
    for (gap, psns) in [(1, 4..half), (3, half..2 * half)] {
        for n in [2].into_iter().filter(|_| gap == 1).chain(psns) {
            bench.data([n]);
            bench.run_timers(bench.now + step);
        }
        bench.data([gap]);
    }
    // 3 was missing for nearly twice as long.
    assert!(bench.pool.frames() <= GIVE_UP.as_nanos() / step.as_nanos());
    bench.run_timers(bench.now + GIVE_UP);
    assert_eq!(bench.delivered(), (1..2 * half).collect::<Vec<_>>());
    assert_eq!(bench.count(Metric::GapsGivenUp), 0);
}

// R-PACE-6
#[test]
fn where_room_is_short_nothing_waits_for_its_time() {
    let mut bench = late();
    let len = write(0).len() as u64;
    // Two frames beyond half of the pool.
    let mut pool = Budget::new(194);
    (0..99).for_each(|_| assert!(pool.take(len as usize)));
    bench.pool = pool;
    bench.data([102]);
    assert_eq!(bench.delivered(), [3, 4, 5, 6]);
    assert_eq!(bench.pool.frames(), 96);
    // Full: all that is in order goes, and nothing is lost.
    let mut bench = late();
    let mut pool = Budget::new(99);
    (0..99).for_each(|_| assert!(pool.take(len as usize)));
    bench.pool = pool;
    bench.data([102]);
    assert_eq!(bench.delivered(), (3..103).collect::<Vec<_>>());
    assert_eq!((bench.out.discarded.len(), bench.pool.frames()), (0, 0));
}

#[test]
fn held_packets_are_delivered_at_once_when_a_gap_is_given_up_or_the_flow_is_bypassed() {
    let mut bench = late();
    bench.data([103]);
    bench.sync(LIFE, Reason::Lost, 104);
    assert_eq!(bench.delivered(), (3..102).chain([103]).collect::<Vec<_>>());
    let mut bench = late();
    bench.sync(LIFE, Reason::Release, 102);
    assert_eq!(bench.delivered(), (3..102).collect::<Vec<_>>());
}

#[test]
fn a_nak_for_what_waits_ends_here_and_one_for_what_went_on_is_answered() {
    let mut bench = late();
    bench.out.src_qpn = Some(Qpn::new(0x77));
    let next = play(&mut bench, 3, 33);
    assert_eq!(bench.nak(next), Became::Absorb);
    assert_eq!(bench.delivered(), []);
    let next = play(&mut bench, next, 53);
    assert_eq!(bench.nak(next - 3), Became::Absorb);
    assert_eq!(bench.delivered(), [next - 3, next - 2, next - 1], "and no further");
    bench.run_timers(bench.now + STEP * GROUP);
    assert_eq!(bench.delivered().first(), Some(&next));
}

/// The source repeats PSNs before these. Held packets would bring NAKs.
// R-PACE-5
#[test]
fn what_waits_stays_while_the_source_repeats_what_went_on() {
    let mut bench = late();
    let next = play(&mut bench, 3, 33);
    for n in next - 8..next {
        bench.data([n]);
        bench.run_timers(bench.now + STEP * 5);
        assert_eq!(bench.delivered(), [n], "and nothing else");
    }
    bench.run_timers(bench.now + RTT / 64);
    let seen = bench.delivered();
    assert_eq!(seen, (next..next + seen.len() as i32).collect::<Vec<_>>());
    bench.run_timers(bench.now + STEP * 100);
    assert_eq!(bench.delivered().last(), Some(&101));
}

/// Kept is nothing: it has to come from the source.
#[test]
fn a_nak_for_what_is_not_kept_takes_the_depot_back_and_what_waits_waits() {
    let mut bench = Bench::synced();
    bench.backup = Budget::new(0);
    stream(&mut bench, 2..102);
    bench.data([1]);
    bench.clear();
    let next = play(&mut bench, 3, 33);
    assert_eq!(bench.nak(8), Became::Forward);
    bench.run_timers(bench.now + STEP * 10);
    assert_eq!(bench.delivered(), []);
    assert_eq!(bench.nacks().last(), Some(&vec![(8, next)]));
    bench.data(8..next);
    let went = bench.delivered();
    assert_eq!(went, (8..8 + went.len() as i32).collect::<Vec<_>>());
    assert!(went.len() as i32 + 8 - next <= GROUP as i32, "the rest at its pace");
    bench.run_timers(bench.now + STEP * 110);
    assert_eq!(bench.delivered(), (8 + went.len() as i32..102).collect::<Vec<_>>());
}

#[test]
fn what_the_destination_has_need_not_go_on() {
    let mut bench = late();
    // It came past here another way.
    assert_eq!(bench.ack(50), Became::Forward);
    assert_eq!(bench.out.discarded.len(), 48 + 2, "those that waited, and two copies");
    bench.run_timers(bench.now + STEP * 100);
    assert_eq!(bench.delivered(), (51..102).collect::<Vec<_>>());
}

#[test]
fn without_it_all_goes_at_once() {
    let mut bench = Bench::synced();
    bench.config.pacing = false;
    stream(&mut bench, 2..102);
    bench.data([1]);
    assert_eq!(bench.delivered(), (1..102).collect::<Vec<_>>());
}

/// When each packet came, was due and went on, of a stream some of whose packets
/// are lost and come later; and for how long a gap was open at most.
fn lossy(steps: &[(u64, bool, u64)], pool: Budget) -> Result<(), TestCaseError> {
    let mut bench = Bench::synced();
    bench.pool = pool;
    // By time: a new packet, or one that was lost.
    let mut events = Vec::new();
    let (mut at, mut open) = (bench.now, Span::ZERO);
    for (n, &(step, is_lost, later)) in (1..).zip(steps) {
        at += Span::from_micros(step);
        let fill = if is_lost { Span::from_micros(later) } else { Span::ZERO };
        open = open.max(fill);
        events.push((at + fill, n));
    }
    events.sort();
    let end = steps.len() as i32 + 1;
    // The packet behind it reveals the last loss.
    events.push((events.last().map_or(at, |last| last.0).max(at), end));
    let (mut came, mut went) = (vec![Time::ZERO; end as usize + 1], Vec::new());
    let mut waits = |bench: &mut Bench, until: Time| {
        loop {
            let next = bench.deadline().min(until);
            bench.run_timers(next);
            went.extend(bench.delivered().into_iter().map(|n| (n, next)));
            // A packet that can be delivered has a time, and it is not far.
            if bench.nacks().last().is_none_or(Vec::is_empty) && bench.pool.frames() > 0 {
                assert!(bench.deadline() <= next + GIVE_UP + RTT / 64, "it waits for nothing");
            }
            if next == until {
                return went.len();
            }
        }
    };
    for (at, n) in events {
        waits(&mut bench, at);
        came[n as usize] = at;
        bench.data([n]);
        waits(&mut bench, at);
    }
    let last = bench.now;
    waits(&mut bench, last + open + RTT / 64);
    prop_assert_eq!(bench.pool.frames(), 0);
    let order = went.iter().map(|(n, _)| *n).collect::<Vec<_>>();
    prop_assert_eq!(order, (1..=end).collect::<Vec<_>>());
    for (n, time) in went {
        let late = time.since(came[n as usize]);
        prop_assert!(
            late <= open + RTT / 64,
            "{} is {:?} late, no gap more than {:?}",
            n,
            late,
            open
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every packet is delivered, once and in order, none later after it came than
    /// a gap was open; and a timer stands while anything waits.
    #[test]
    fn nothing_waits_for_longer_than_a_gap_was_open(
        steps in prop::collection::vec((prop_oneof![6 => 0..30u64, 1 => 0..3_000u64], prop::bool::weighted(0.05), 1..16_000u64), 1..300),
        room in prop_oneof![3 => Just(PLENTY), 1 => 300..600u64],
    ) {
        lossy(&steps, Budget::new(room))?;
    }
}
