//! Deadlines that appear between a timer's being set and its firing.

mod support;

use common::control::{Reason, Status, SyncMessage};
use common::frame::Side;
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Qpn;
use proptest::prelude::*;
use support::*;
use switch::Recovery;

/// All was acknowledged, so nothing is due, but the old timer is still set: the tail of
/// the next packets is announced all the same.
#[test]
fn a_tail_after_all_was_acknowledged_is_announced() {
    for recovery in [Recovery::Lr2, Recovery::Cached] {
        let mut bench = Bench::new(recovery);
        let epoch = bench.protect(0x22, 0..4);
        let src_qpn = Some(Qpn::new(0x11));
        bench.status(0x22, epoch, Status { src_qpn, ..report(4, 4, &[]) });
        bench.wait(Span::from_micros(50));
        bench.sends(0x22, 4..8);
        bench.wait(Span::from_micros(50));
        bench.wan(ack(&inbound(), 0x11, 7));
        let pending = bench.switch.next_deadline();
        assert!(pending > bench.now && pending != Time::NEVER, "a timer is still set");
        bench.wait(Span::from_micros(50));
        assert!(bench.now < pending);
        // It is lost on the long-haul link, and nothing follows it.
        bench.lan(request(&outbound(), 0x22, 8));
        assert_eq!(bench.count(Metric::SentryNew), 9);
        let mut tails = 0;
        for _ in 0..100 {
            let next = bench.switch.next_deadline();
            if next == Time::NEVER || tails > 0 {
                break;
            }
            bench.now = bench.now.max(next);
            let sent = bench.timers();
            tails +=
                sent.iter().filter_map(Sent::sync).filter(|s| s.1.reason == Reason::Tail).count();
        }
        assert!(
            tails > 0,
            "{recovery:?}: nobody will announce the tail; next {:?}",
            bench.switch.next_deadline()
        );
    }
}

/// A box that stood still for long, as a virtual machine may, goes on where it was.
#[test]
fn what_was_due_hours_ago_is_done() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.lan(request(&outbound(), 0x22, 0));
    assert!(bench.switch.next_deadline() < bench.now + RTT * 2);
    bench.wait(Span::from_millis(10 * 3_600_000));
    assert_eq!(bench.timers().len(), 1, "next {:?}", bench.switch.next_deadline().since(bench.now));
}

/// The times at which the packets of a flow leave towards the host. Packet 1 is lost, 2 to 101 arrive 100 µs apart, then 1 arrives.
/// Each step waits for so many microseconds; then the next packet arrives, or else the host acknowledges all that has left.
fn leave(steps: &[(u64, bool)], has_fast_paths: bool) -> Vec<(Time, u32)> {
    let mut bench = Bench::new(Recovery::Cached);
    if !has_fast_paths {
        bench.switch.avoid_fast_paths();
    }
    let sync = SyncMessage { src_qpn: Some(Qpn::new(0x22)), rtt: RTT, ..open(0) };
    bench.sync(0x11, 1, sync);
    bench.arrive(0x11, [0]);
    bench.lan(ack(&outbound(), 0x22, 0));
    let mut left = Vec::new();
    let until = |bench: &mut Bench, left: &mut Vec<_>, to: Time| {
        while bench.switch.next_deadline() <= to {
            bench.now = bench.now.max(bench.switch.next_deadline());
            let now = bench.now;
            left.extend(psns(&bench.timers(), Side::Lan).into_iter().map(|psn| (now, psn)));
        }
        bench.now = to;
    };
    let before = (2..102).map(|psn| (Span::from_micros(100), Some(psn)));
    let gap = [(Span::from_micros(100), Some(1))];
    let mut next = 102;
    let steps = steps.iter().map(|(after, is_data)| {
        next += u32::from(*is_data);
        (Span::from_micros(*after), is_data.then_some(next - 1))
    });
    for (after, psn) in before.chain(gap).chain(steps) {
        let to = bench.now + after;
        until(&mut bench, &mut left, to);
        let sent = match (psn, left.last()) {
            (Some(psn), _) => bench.wan(request(&inbound(), 0x11, psn)),
            (None, Some((_, newest))) => bench.lan(ack(&outbound(), 0x22, *newest)),
            (None, None) => Vec::new(),
        };
        left.extend(psns(&sent, Side::Lan).into_iter().map(|psn| (to, psn)));
    }
    let to = bench.now + RTT * 2;
    until(&mut bench, &mut left, to);
    left
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn held_packets_leave_at_the_same_time_with_fast_paths_and_without(
        trains in prop::collection::vec((prop::sample::select(vec![1_u64, 20, 100]), 1..25_usize, any::<bool>()), 1..40),
    ) {
        let train = |(apart, packets, is_acked): (u64, usize, bool)| {
            let acks = is_acked.then_some((apart, false));
            std::iter::repeat_n((apart, true), packets).chain(acks)
        };
        let steps: Vec<_> = trains.into_iter().flat_map(train).collect();
        let fast = leave(&steps, true);
        prop_assert_eq!(fast.len(), 101 + steps.iter().filter(|(_, is_data)| *is_data).count());
        prop_assert_eq!(fast, leave(&steps, false));
    }
}
