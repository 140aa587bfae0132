//! Flows that have had nothing to do for long, and wake.

use crate::support::*;
use common::control::{Epoch, Reason, Status};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Span;
use common::wire::Qpn;
use switch::Recovery;

const DEST: u32 = 0x55;
const REQUESTER: u32 = 0x66;

/// Three messages were sent and acknowledged; the STATUS named the requester.
fn busy() -> (Bench, Epoch) {
    let mut bench = Bench::new(Recovery::Auto);
    let epoch = bench.protect(DEST, 0..3);
    let echo = bench.now;
    bench.wait(RTT);
    bench.status(DEST, epoch, Status { echo, ..arrived(3) });
    bench.wan(ack(&inbound(), REQUESTER, 2));
    (bench, epoch)
}

fn arrived(expected: u32) -> Status {
    Status { src_qpn: Some(Qpn::new(REQUESTER)), ..report(expected, expected, &[]) }
}

/// Nothing happens for so long.
fn pass(bench: &mut Bench, millis: u64) {
    for _ in 0..millis / 100 {
        bench.wait(Span::from_millis(100));
        while bench.switch.next_deadline() <= bench.now {
            bench.timers();
        }
        bench.housekeeping();
    }
}

fn rested() -> (Bench, Epoch) {
    let (mut bench, epoch) = busy();
    pass(&mut bench, 15_000);
    bench.housekeeping();
    assert_eq!(bench.count(Metric::FlowsAll), 2, "it is still known");
    assert_eq!(bench.count(Metric::FlowsProtected), 0, "it has no pipeline");
    (bench, epoch)
}

#[test]
fn a_flow_that_goes_on_where_it_was_is_known() {
    let (mut bench, epoch) = rested();
    let sent = bench.lan(request(&outbound(), DEST, 3));
    let (header, sync) = sent[0].sync().expect("announced ahead of its packet");
    assert_eq!(header.epoch, epoch.next());
    assert_eq!((sync.reason, sync.next_psn), (Reason::Open, Some(Psn::new(3))));
    assert_eq!(sync.src_qpn, Some(Qpn::new(REQUESTER)), "by whom is not forgotten");
    assert!(sync.rtt <= RTT && sync.rtt + Span::from_micros(16) > RTT, "nor how far away that is");
    assert_eq!(sent[1].bytes, request(&outbound(), DEST, 3));
    bench.status(DEST, epoch.next(), arrived(4));
    // Two rounds over the table: the first may have begun before.
    for _ in 0..4 {
        bench.housekeeping();
    }
    assert_eq!(bench.count(Metric::FlowsProtected), 1);
}

#[test]
fn a_flow_that_goes_on_remembers_what_was_acknowledged() {
    let (mut bench, _) = rested();
    bench.lan(request(&outbound(), DEST, 3));
    bench.wan(nak(&inbound(), REQUESTER, 2));
    assert_eq!(bench.count(Metric::FlowNewEpoch), 1, "it revokes an acknowledgement");
}

#[test]
fn one_that_goes_on_elsewhere_is_another_incarnation_of_unknown_requester() {
    for psn in [9, 0x80_0000] {
        let (mut bench, _) = rested();
        let sent = bench.lan(request(&outbound(), DEST, psn));
        let (_, sync) = sent[0].sync().expect("announced");
        assert_eq!((sync.next_psn, sync.src_qpn), (Some(Psn::new(psn)), None));
    }
}

#[test]
fn a_damaged_packet_wakes_nobody_elsewhere() {
    let (mut bench, _) = rested();
    bench.assert_passes(common::frame::Side::Lan, &damaged(request(&outbound(), DEST, 9)));
    assert_eq!(bench.count(Metric::PassedBadIcrc), 1);
    let sent = bench.lan(request(&outbound(), DEST, 3));
    let (_, sync) = sent[0].sync().expect("announced");
    assert_eq!((sync.next_psn, sync.src_qpn), (Some(Psn::new(3)), Some(Qpn::new(REQUESTER))));
}

#[test]
fn what_is_said_of_the_incarnation_before_means_nothing() {
    let (mut bench, epoch) = rested();
    assert!(bench.status(DEST, epoch, arrived(3)).is_empty());
    assert_eq!(bench.count(Metric::DropControlUnknownFlow), 1);
    bench.assert_passes(common::frame::Side::Wan, &nak(&inbound(), REQUESTER, 1));
    let sent = bench.lan(request(&outbound(), DEST, 3));
    assert!(sent[0].sync().is_some());
}

#[test]
fn a_flow_with_something_outstanding_does_not_rest() {
    let mut bench = Bench::new(Recovery::Auto);
    let epoch = bench.protect(DEST, 0..3);
    bench.status(DEST, epoch, arrived(3));
    bench.wan(ack(&inbound(), REQUESTER, 1));
    pass(&mut bench, 15_000);
    bench.housekeeping();
    let (header, _) = bench
        .lan(request(&outbound(), DEST, 3))
        .iter()
        .find_map(Sent::sync)
        .expect("announced after the pause");
    assert_eq!(header.epoch, epoch, "the same incarnation");
}
