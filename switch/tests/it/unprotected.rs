//! Flows that the operator leaves to the RNICs, and has protected again.

use crate::support::cm::{dreq, end, rep, req};
use crate::support::*;
use common::control::Reason;
use common::frame::Side::{self, Lan, Wan};
use common::heap::HeapPool;
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::{Qpn, Vlans};
use switch::{FlowName, FlowStage, Recovery};

/// The flow of packets that arrive on `side` for QP 0x22.
fn name(side: Side) -> FlowName {
    let headers = if side == Lan { outbound() } else { inbound() };
    let (source, destination) = (headers.src(), headers.dst());
    let (vlans, destination_qpn) = (Vlans::NONE, Qpn::new(0x22));
    FlowName { side, source, destination, vlans, destination_qpn }
}

fn stage(bench: &Bench, side: Side) -> Option<FlowStage> {
    let all = (0..bench.switch.flows_end()).filter_map(|n| bench.switch.flow(n, bench.now));
    all.filter(|flow| flow.name() == name(side)).map(|flow| flow.stage).next()
}

/// The reasons of the SYNCs.
fn syncs(sent: &[Sent]) -> Vec<Reason> {
    sent.iter().filter_map(Sent::sync).map(|(_, sync)| sync.reason).collect()
}

// R-PASS-6, R-PEER-15
#[test]
fn a_sentry_tells_the_depot_and_lets_the_flow_pass() {
    for recovery in [Recovery::Lr2, Recovery::Cached, Recovery::Auto] {
        let (mut bench, epoch) = Bench::paired(recovery, 0..8);
        assert_eq!(syncs(&bench.unprotect(&name(Lan))), [Reason::Release]);
        assert_eq!(bench.switch.held(), 0, "{recovery:?}");
        assert_eq!(stage(&bench, Lan), Some(FlowStage::Unprotected));
        // New packets, repeats, and all that comes back; nothing is announced, asked for or filtered.
        for psn in [8, 9, 3, 4, 12] {
            bench.assert_passes(Lan, &request(&outbound(), 0x22, psn));
        }
        bench.assert_passes(Wan, &ack(&inbound(), 0x11, 5));
        bench.assert_passes(Wan, &nak(&inbound(), 0x11, 6));
        assert_eq!(bench.count(Metric::PassedOperator), 5);
        // A late report has no effect; the release is repeated until it is answered.
        assert!(bench.status(0x22, epoch, report(2, 8, &[(2, 4)])).is_empty());
        bench.wait(RTT * 2);
        assert_eq!(syncs(&bench.timers()), [Reason::Release]);
        bench.status(0x22, epoch, common::control::Status::passive(bench.now, None));
        assert_eq!(bench.switch.next_deadline(), Time::NEVER);
        bench.housekeeping();
        bench.housekeeping();
        assert_eq!(bench.count(Metric::FlowsUnprotected), 1);

        assert!(bench.switch.protect(&name(Lan)));
        assert_eq!(stage(&bench, Lan), Some(FlowStage::Awaited));
        let sent = bench.lan(request(&outbound(), 0x22, 13));
        assert_eq!((syncs(&sent), psns(&sent, Wan)), (vec![Reason::Open], vec![13]));
        let (header, _) = sent.iter().find_map(Sent::sync).unwrap();
        assert!(header.epoch > epoch);
        bench.status(0x22, header.epoch, report(13, 13, &[]));
        assert!(matches!(stage(&bench, Lan), Some(FlowStage::Sentry(switch::Standing::Protected))));
        assert_eq!(bench.count(Metric::FlowPaired), 1, "the pair is still known");
    }
}

/// No pipeline begins on the word of a damaged packet, however old the flow is (R-PASS-4).
#[test]
fn a_damaged_packet_protects_nothing_again() {
    let (mut bench, _) = Bench::paired(Recovery::Auto, 0..8);
    bench.unprotect(&name(Lan));
    bench.wait(Span::from_millis(150));
    assert!(bench.switch.protect(&name(Lan)));
    let mut damaged = request(&outbound(), 0x22, 8);
    damaged[70] ^= 1;
    bench.assert_passes(Lan, &damaged);
    assert_eq!(bench.count(Metric::PassedBadIcrc), 1);
    assert_eq!(stage(&bench, Lan), Some(FlowStage::Awaited));
    let sent = bench.lan(request(&outbound(), 0x22, 8));
    assert_eq!(syncs(&sent), [Reason::Open]);
}

#[test]
fn a_depot_delivers_what_it_holds_in_order_and_tells_the_sentry() {
    let mut bench = Bench::new(Recovery::Auto);
    bench.wan(request(&inbound(), 0x22, 0));
    bench.told(0x22, 1, open(0));
    // The first is missing, then one more.
    bench.arrive(0x22, [1, 2, 4, 6, 5]);
    assert_eq!(bench.switch.held(), 5);
    let sent = bench.unprotect(&name(Wan));
    assert_eq!(psns(&sent, Lan), [1, 2, 4, 5, 6]);
    let (header, status) = sent.iter().find_map(Sent::status).expect("a STATUS");
    assert!(status.passive && header.epoch.0 == 1);
    assert_eq!(bench.switch.held(), 0);
    bench.wait(Span::from_millis(1_500));
    assert!(bench.timers().is_empty());
    // Nothing that the Sentry says has it protected.
    assert!(bench.sync(0x22, 1, open(7)).is_empty());
    assert!(bench.sync(0x22, 2, open(7)).is_empty());
    for psn in [9, 7, 0, 8, 9] {
        bench.assert_passes(Wan, &request(&inbound(), 0x22, psn));
    }
    assert_eq!(stage(&bench, Wan), Some(FlowStage::Unprotected));

    assert!(bench.switch.protect(&name(Wan)));
    bench.assert_passes(Wan, &request(&inbound(), 0x22, 10));
    assert!(!bench.told(0x22, 2, open(11)).passive);
    bench.arrive(0x22, [12]);
    assert_eq!(stage(&bench, Wan), Some(FlowStage::Depot { is_synced: true }));
    assert!(bench.switch.held() > 0);
}

#[test]
fn it_lasts_over_a_leap_of_psns_and_until_the_flow_is_forgotten() {
    let mut bench = Bench::new(Recovery::Auto);
    bench.sends(0x22, 0..3);
    bench.unprotect(&name(Lan));
    bench.assert_passes(Lan, &request(&outbound(), 0x22, 1 << 22));
    bench.wait(Span::from_millis(30_000));
    bench.assert_passes(Lan, &request(&outbound(), 0x22, 5));
    assert_eq!(stage(&bench, Lan), Some(FlowStage::Unprotected));
    bench.wait(Span::from_millis(61_000));
    while stage(&bench, Lan).is_some() {
        bench.keep_house();
    }
    assert!(!bench.switch.protect(&name(Lan)), "it is forgotten");
}

#[test]
fn it_lasts_no_longer_than_the_connection() {
    let mut bench = Bench::new(Recovery::Auto);
    let (here, there) = (end(1, 0x11, 0), end(2, 0x22, 0));
    bench.assert_passes(Lan, &req(&outbound(), here));
    bench.assert_passes(Wan, &rep(&inbound(), there, here));
    bench.unprotect(&name(Lan));
    bench.assert_passes(Lan, &request(&outbound(), 0x22, 0));
    bench.assert_passes(Lan, &dreq(&outbound(), here, there));
    assert_eq!(syncs(&bench.lan(request(&outbound(), 0x22, 6))), [Reason::Open]);
}

#[test]
fn a_flow_that_is_not_known_is_not_left() {
    let mut bench = Bench::new(Recovery::Auto);
    let (now, mut sink) = (bench.now, testkit::wires::Wires::default());
    assert!(!bench.switch.unprotect(&name(Lan), now, &mut HeapPool, &mut sink));
    assert!(!bench.switch.protect(&name(Lan)));
    // Its first request was not seen yet, and it is left all the same.
    bench.lan(request(&outbound(), 0x33, 5));
    bench.wan(ack(&inbound(), 0x22, 5));
    bench.unprotect(&FlowName { side: Wan, ..name(Wan) });
    bench.assert_passes(Wan, &request(&inbound(), 0x22, 7));
    assert_eq!(bench.count(Metric::PassedOperator), 1);
}
