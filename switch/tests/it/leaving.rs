//! A switch forgets the flows of some hosts.

use crate::support::cm::between;
use crate::support::*;
use common::control::Reason;
use common::frame::Side::Lan;
use common::metrics::Metric;
use common::time::Time;
use switch::Recovery;

/// How many SYNC(release) leave.
fn releases(sent: &[Sent]) -> usize {
    let syncs = sent.iter().filter_map(Sent::sync);
    syncs.filter(|(_, sync)| sync.reason == Reason::Release).count()
}

/// Forgets the flows between the host and the host behind the long haul.
fn leave(bench: &mut Bench) {
    let ends = [outbound().src(), outbound().dst()];
    bench.switch.forget(move |a, b| ends.contains(&a) && ends.contains(&b));
}

// R-TUN-28
#[test]
fn flows_are_left_some_at_a_time_and_none_begins_meanwhile() {
    let mut bench = Bench::new(Recovery::Cached);
    let others = between("10.0.0.1", "10.0.0.3");
    for qpn in 0..1_000 {
        bench.lan(request(&outbound(), qpn, 5));
        bench.lan(request(&outbound(), qpn, 6));
    }
    (0..10).for_each(|qpn| drop(bench.lan(request(&others, qpn, 5))));
    bench.housekeeping();
    assert_eq!(bench.count(Metric::FlowsAll), 1_010);
    leave(&mut bench);
    let mut steps = 0;
    while bench.switch.is_forgetting() {
        steps += 1;
        let before = bench.count(Metric::FlowsAll);
        bench.keep_house();
        let left = before - bench.count(Metric::FlowsAll);
        assert!((1..=65).contains(&left), "{left} in one step");
        if bench.switch.is_forgetting() {
            bench.assert_passes(Lan, &request(&outbound(), 5_000 + steps, 5));
            assert_eq!(bench.count(Metric::PassedLeaving), u64::from(steps));
        }
    }
    assert_eq!((bench.count(Metric::FlowsAll), steps), (10, 16));
    bench.lan(request(&outbound(), 7, 5));
    bench.lan(request(&others, 11, 5));
    bench.keep_house();
    assert_eq!(bench.count(Metric::FlowsAll), 12);
}

// R-PEER-15
#[test]
fn each_release_is_repeated_by_itself() {
    let mut bench = Bench::new(Recovery::Cached);
    bench.protect(0x22, 0..4);
    leave(&mut bench);
    assert_eq!(releases(&bench.keep_house()), 1);
    let mut sent = vec![1];
    while bench.switch.next_deadline() != Time::NEVER {
        bench.now = bench.now.max(bench.switch.next_deadline());
        let repeated = releases(&bench.timers());
        sent.extend((repeated > 0).then_some(repeated));
        if sent.len() == 3 {
            // Another flow is left. That begins nothing anew for the first one.
            bench.protect(0x33, 0..4);
            leave(&mut bench);
            assert_eq!(releases(&bench.keep_house()), 1);
            sent.push(1);
        }
    }
    assert_eq!(sent.iter().sum::<usize>(), 8, "four of each: {sent:?}");
}
