//! Queue pairs that the operator names.

use std::net::IpAddr;

use crate::support::cm::{dreq, end, rep, req};
use crate::support::*;
use common::control::Status;
use common::frame::Side::{Lan, Wan};
use common::metrics::Metric;
use common::time::Span;
use common::wire::{Headers, Qpn, Vlans};
use switch::{Config, End, QueuePair, Recovery};

/// Longer than responses must confirm a pairing.
const SPREAD: Span = Span::from_millis(20);

fn ends(here: u32, there: u32) -> [End; 2] {
    let end = |last, qpn| End { addr: IpAddr::from([10, 0, 0, last]).into(), qpn: Qpn::new(qpn) };
    [end(1, here), end(2, there)]
}

fn named(pairs: &[(Vlans, [End; 2])]) -> Bench {
    Bench::with(config(pairs))
}

fn config(pairs: &[(Vlans, [End; 2])]) -> Config {
    let pairs = pairs.iter().map(|&(vlans, ends)| QueuePair { vlans, ends });
    Config { queue_pairs: pairs.collect(), ..Config::lab(Recovery::Lr2, NODE, BOOT) }
}

/// The requester of the host's flow whose first packet this is.
fn src_qpn(bench: &mut Bench, headers: &Headers, qpn: u32) -> Option<u32> {
    let sent = bench.lan(request(headers, qpn, 0));
    sent.iter().find_map(Sent::sync).expect("SYNC(open)").1.src_qpn.map(Qpn::get)
}

// R-PAIR-1
#[test]
fn flows_are_paired_as_soon_as_they_appear() {
    // Whichever end is written first.
    let [here, there] = ends(0x11, 0x22);
    for ends in [[here, there], [there, here]] {
        let mut bench = named(&[(Vlans::NONE, ends)]);
        assert_eq!(src_qpn(&mut bench, &outbound(), 0x22), Some(0x11));
        assert_eq!(bench.told(0x11, 1, open(0)).src_qpn, Some(Qpn::new(0x22)));
        assert_eq!(bench.count(Metric::FlowPaired), 1);
        assert_eq!(src_qpn(&mut bench, &outbound(), 0x23), None, "not this one");
    }
}

#[test]
fn each_vlan_is_a_network_of_its_own() {
    let vlan = |id| Vlans::new(id, 0);
    let mut bench = named(&[(vlan(5), ends(0x11, 0x22)), (vlan(6), ends(0x12, 0x22))]);
    assert_eq!(src_qpn(&mut bench, &tagged(&outbound(), 5), 0x22), Some(0x11));
    assert_eq!(src_qpn(&mut bench, &tagged(&outbound(), 6), 0x22), Some(0x12));
    assert_eq!(src_qpn(&mut bench, &outbound(), 0x22), None);
}

#[test]
fn a_new_incarnation_keeps_its_requester() {
    let mut bench = named(&[(Vlans::NONE, ends(0x11, 0x22))]);
    src_qpn(&mut bench, &outbound(), 0x22);
    let sent = bench.lan(request(&outbound(), 0x22, 1 << 21));
    assert!(sent.iter().any(|sent| sent.sync().is_some()), "a new incarnation is announced");
    bench.wait(RTT);
    let (_, sync) = bench.timers().iter().find_map(Sent::sync).expect("and again");
    assert_eq!(sync.src_qpn, Some(Qpn::new(0x11)));
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

// R-PAIR-1
#[test]
fn neither_answers_nor_the_peer_know_better() {
    let mut bench = named(&[(Vlans::NONE, ends(0x11, 0x22))]);
    let epoch = bench.protect(0x22, 0..20);
    for psn in 1..9 {
        bench.assert_passes(Wan, &ack(&inbound(), 0x77, psn));
        bench.wait(SPREAD);
    }
    bench.status(0x22, epoch, Status { src_qpn: Some(Qpn::new(0x77)), ..report(0, 20, &[]) });
    bench.wan(ack(&inbound(), 0x11, 4));
    let sent = bench.status(0x22, epoch, report(7, 20, &[(7, 8)]));
    assert_eq!(naks(&sent), [(0x11, 5)]);
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

/// The peer gives the requester to another flow while the named one has aged.
// R-PAIR-1
#[test]
fn a_flow_that_comes_back_takes_its_requester_from_another() {
    let mut bench = named(&[(Vlans::NONE, ends(0x11, 0x23))]);
    bench.lan(request(&outbound(), 0x23, 0));
    for psn in 0..100 {
        bench.wait(Span::from_millis(1000));
        bench.wan(ack(&inbound(), 0x11, psn));
        bench.switch.housekeeping(bench.now, &mut common::heap::HeapPool, &mut NoFrames);
    }
    let epoch = bench.protect(0x22, 0..20);
    let missing =
        |from| Status { src_qpn: Some(Qpn::new(0x11)), ..report(from, 20, &[(from, from + 1)]) };
    bench.status(0x22, epoch, report(0, 20, &[]));
    bench.status(0x22, epoch, missing(7));
    bench.wan(ack(&inbound(), 0x11, 4));
    assert_eq!(
        naks(&bench.status(0x22, epoch, missing(7))),
        [(0x11, 5)],
        "it was given to this flow"
    );
    bench.lan(request(&outbound(), 0x23, 0));
    bench.wait(RTT * 10);
    assert_eq!(naks(&bench.status(0x22, epoch, missing(8))), [], "and taken from it");
}

/// A flow whose peer flow has aged isn't open to guesses, and finds it
/// again.
#[test]
fn a_half_that_comes_back_is_paired_again() {
    let mut bench = named(&[(Vlans::NONE, ends(0x11, 0x22))]);
    bench.protect(0x22, 0..5);
    for psn in 5..100 {
        bench.wait(Span::from_millis(1000));
        bench.lan(request(&outbound(), 0x22, psn));
        bench.switch.housekeeping(bench.now, &mut common::heap::HeapPool, &mut NoFrames);
        if psn > 80 {
            bench.assert_passes(Wan, &ack(&inbound(), 0x77, psn - 2));
        }
    }
    assert_eq!(bench.count(Metric::FlowAged), 1, "no reply for a minute");
    assert_eq!(bench.count(Metric::FlowPaired), 1, "0x77 is somebody else");
    bench.assert_passes(Wan, &ack(&inbound(), 0x11, 98));
    assert_eq!(bench.count(Metric::FlowPaired), 2);
}

/// Where housekeeping has nothing to send.
struct NoFrames;

impl common::frame::Sink for NoFrames {
    type Frame = common::heap::HeapFrame;

    fn transmit(
        &mut self,
        _: common::frame::Side,
        _: common::frame::Class,
        _: common::frame::Packet<Self::Frame>,
    ) {
        panic!("nothing is held");
    }
}

#[test]
fn what_the_hosts_say_comes_first() {
    let mut bench = named(&[(Vlans::NONE, ends(0x11, 0x22))]);
    let (here, there) = (end(1, 0x33, 0), end(2, 0x22, 0));
    src_qpn(&mut bench, &outbound(), 0x22);
    // A flow without a packet for so long may have ended unseen.
    bench.wait(Span::from_millis(1_001));
    bench.assert_passes(Lan, &req(&outbound(), here));
    bench.assert_passes(Wan, &rep(&inbound(), there, here));
    assert_eq!(src_qpn(&mut bench, &outbound(), 0x22), Some(0x33));
    bench.assert_passes(Lan, &dreq(&outbound(), here, there));
    assert_eq!(src_qpn(&mut bench, &outbound(), 0x22), None);
}

/// The hosts' agreement is for one incarnation only, unlike the operator's list.
#[test]
fn a_connection_that_overrides_the_list_does_not_outlive_itself() {
    let mut bench = named(&[(Vlans::NONE, ends(0x11, 0x22))]);
    let (here, there) = (end(1, 0x33, 0), end(2, 0x22, 0));
    bench.assert_passes(Lan, &req(&outbound(), here));
    bench.assert_passes(Wan, &rep(&inbound(), there, here));
    assert_eq!(src_qpn(&mut bench, &outbound(), 0x22), Some(0x33));
    bench.lan(request(&outbound(), 0x22, 1 << 21));
    bench.wait(RTT);
    let (_, sync) = bench.timers().iter().find_map(Sent::sync).expect("SYNC(open) again");
    assert_eq!(sync.src_qpn, None);
}

#[test]
fn a_connection_of_named_qps_ends_without_parting_them() {
    let mut bench = named(&[(Vlans::NONE, ends(0x11, 0x22))]);
    let (here, there) = (end(1, 0x11, 0), end(2, 0x22, 0));
    bench.assert_passes(Lan, &req(&outbound(), here));
    bench.assert_passes(Wan, &rep(&inbound(), there, here));
    assert_eq!(bench.count(Metric::FlowPaired), 1);
    bench.assert_passes(Lan, &dreq(&outbound(), here, there));
    assert_eq!(src_qpn(&mut bench, &outbound(), 0x22), Some(0x11));
}

#[test]
fn without_room_for_the_other_half_a_flow_stays_alone() {
    let mut bench =
        Bench::with(Config { max_flows: 1, ..config(&[(Vlans::NONE, ends(0x11, 0x22))]) });
    assert_eq!(src_qpn(&mut bench, &outbound(), 0x22), None);
    bench.housekeeping();
    assert_eq!(bench.count(Metric::FlowsAll), 1);
}
