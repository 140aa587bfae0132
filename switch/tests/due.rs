//! Deadlines that appear between a timer's being set and its firing.

mod support;

use common::control::{Reason, Status};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Qpn;
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
