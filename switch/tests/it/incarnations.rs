//! Control messages are about one incarnation of one flow, and about no other.

use crate::support::*;
use common::control::{BootId, Epoch, Header, Message, NodeId, Reason, Status, SyncMessage};
use common::frame::Side::{Lan, Wan};
use common::metrics::Metric;
use common::wire::Qpn;
use switch::{Config, Recovery, Role};

const EPOCH: Epoch = Epoch(7);
const STALE: Epoch = Epoch(6);

/// The remote host reads: PSNs 0..4 of the flow towards 0x33, requester 0x44.
/// The responses went out long enough ago to be lost.
fn answered(recovery: Recovery) -> Bench {
    let mut bench = Bench::new(recovery);
    bench.sync(0x33, EPOCH, SyncMessage { src_qpn: Some(Qpn::new(0x44)), pmtu: 256, ..open(0) });
    bench.wan(read(&inbound(), 0x33, 0, 4));
    for psn in 0..4 {
        bench.assert_passes(Lan, &response(&outbound(), 0x44, psn));
    }
    bench.wait(RTT);
    bench
}

#[test]
fn a_fetch_gets_what_is_missing() {
    let mut bench = answered(Recovery::Auto);
    let header = bench.header(0x33, EPOCH);
    let sent = bench.fetch(&header, &[(1, 2), (3, 9)]);
    assert_eq!(psns(&sent, Wan), [1, 3]);
    assert_eq!(sent[0].bytes, response(&outbound(), 0x44, 1), "byte for byte");
    assert_eq!(bench.count(Metric::DropFetchConsumed), 1);
    assert_eq!(bench.count(Metric::ResponseUncached), 5);
}

#[test]
fn a_fetch_of_another_incarnation_or_flow_gets_nothing() {
    let mut bench = answered(Recovery::Auto);
    let mut refused = 0;
    let mut refuse = |bench: &mut Bench, header: Header| {
        let held = bench.switch.held();
        assert!(bench.fetch(&header, &[(1, 2)]).is_empty(), "{header:?}");
        refused += 1;
        assert_eq!(bench.count(Metric::DropControlUnknownFlow), refused, "{header:?}");
        assert_eq!(bench.switch.held(), held, "nor does it release anything");
    };
    for (qpn, epoch) in [(0x33, STALE), (0x33, EPOCH.next()), (0x34, EPOCH), (0x44, EPOCH)] {
        let header = bench.header(qpn, epoch);
        refuse(&mut bench, header);
    }
    let header = Header { node: NodeId(PEER.0 + 1), ..bench.header(0x33, EPOCH) };
    refuse(&mut bench, header);
    let header = bench.header(0x33, EPOCH);
    assert_eq!(psns(&bench.fetch(&header, &[(1, 2)]), Wan), [1], "this one is right");
    // The peer has started again: its flow is another one.
    let header = Header { boot: PEER_BOOT.next(), ..bench.header(0x33, EPOCH) };
    refuse(&mut bench, header);
    assert_eq!(bench.count(Metric::DropFetchConsumed), 1);
}

#[test]
fn a_flow_of_which_no_sync_came_has_nothing_to_fetch() {
    let mut bench = Bench::new(Recovery::Auto);
    bench.wan(request(&inbound(), 0x33, 0));
    let header = bench.header(0x33, 0);
    assert!(bench.fetch(&header, &[(0, 1)]).is_empty());
    assert_eq!(bench.count(Metric::DropControlUnknownFlow), 1);
}

/// In `lr2` nothing is kept, and the peer knows it from the STATUS.
#[test]
fn responses_are_kept_where_packets_are() {
    for (recovery, keeps) in
        [(Recovery::Lr2, false), (Recovery::Cached, true), (Recovery::Auto, true)]
    {
        let mut bench = answered(recovery);
        let header = bench.header(0x33, EPOCH);
        let sent = bench.fetch(&header, &[(1, 2)]);
        assert_eq!(psns(&sent, Wan), if keeps { vec![1] } else { vec![] });
        let sent = bench.sync(0x33, EPOCH, open(4));
        let status = sent.iter().find_map(Sent::status).expect("a STATUS").1;
        assert_eq!(status.keeps_responses, keeps);
    }
}

#[test]
fn what_a_host_sends_in_a_peers_name_is_not_even_looked_at() {
    let mut bench = answered(Recovery::Auto);
    let header = bench.header(0x33, EPOCH);
    let good = [
        Message::Sync(open(9)),
        Message::Status(report(0, 0, &[])),
        fetch(&[(1, 2)]),
        Message::Sync(SyncMessage { reason: Reason::Release, ..open(4) }),
    ]
    .map(|m| message(&inbound(), 0x33, &header, &m));
    let held = bench.switch.held();
    for frame in good.iter().chain([&damaged(good[0].clone())]) {
        assert!(bench.lan(frame.clone()).is_empty());
    }
    assert_eq!(bench.count(Metric::DropControlFromLan), 5);
    // Its ICRC, tag and content are not looked at.
    for why in [Metric::DropControlBadIcrc, Metric::DropControlInvalid, Metric::DropFetchConsumed] {
        assert_eq!(bench.count(why), 0, "{why:?}");
    }
    assert_eq!(bench.switch.held(), held);
    // It took no place in the replay window either.
    assert_eq!(psns(&bench.wan(good[2].clone()), Wan), [1]);
}

// R-CTL-5
#[test]
fn while_recovery_is_off_control_messages_end_here() {
    let mut bench = Bench::new(Recovery::Off);
    assert!(bench.sync(0x33, EPOCH, open(0)).is_empty(), "a STATUS would be wrong");
    assert!(bench.status(0x22, 1, report(0, 0, &[])).is_empty());
    let header = bench.header(0x33, EPOCH);
    assert!(bench.fetch(&header, &[(0, 1)]).is_empty());
    assert_eq!(bench.count(Metric::DropControlUnknownFlow), 3);
    bench.housekeeping();
    assert_eq!((bench.count(Metric::FlowsAll), bench.switch.held()), (0, 0));
}

#[test]
fn a_box_of_one_role_has_no_ear_for_the_other() {
    let role = |role| Bench::with(Config { role, ..Config::lab(Recovery::Auto, NODE, BOOT) });
    let mut sentry = role(Role::Sentry);
    assert!(sentry.sync(0x33, EPOCH, open(0)).is_empty());
    let header = sentry.header(0x33, EPOCH);
    assert!(sentry.fetch(&header, &[(0, 1)]).is_empty());
    assert_eq!(sentry.count(Metric::DropControlUnknownFlow), 2);
    let mut depot = role(Role::Depot);
    assert!(depot.status(0x22, 1, report(0, 0, &[])).is_empty());
    assert_eq!(depot.count(Metric::DropControlUnknownFlow), 1);
}

/// R-INC-18, R-PAIR-6: the queue pair begins anew with the requests of its other direction. Its old ACKs are not of the incarnation
/// that asks next.
#[test]
fn no_ack_is_told_of_a_flow_whose_requester_is_unknown_again() {
    let mut bench = Bench::new(Recovery::Auto);
    let from = |src_qpn| SyncMessage { src_qpn, pmtu: 256, ..open(0) };
    bench.sync(0x33, EPOCH, from(Some(Qpn::new(0x44))));
    bench.sends(0x44, 0..4);
    bench.arrive(0x33, 0..4);
    bench.assert_passes(Lan, &ack(&outbound(), 0x44, 3));
    let told = bench.told(0x33, EPOCH, SyncMessage { src_qpn: None, ..open(4) });
    assert_eq!(told.ack.map(|ack| ack.psn.get()), Some(3));
    bench.sends(0x44, [1 << 20]);
    let told = bench.told(0x33, EPOCH, SyncMessage { src_qpn: None, ..open(4) });
    assert_eq!(told.ack, None);
}

/// One of an older incarnation that was overtaken.
#[test]
fn a_stale_sync_changes_nothing() {
    let mut bench = Bench::new(Recovery::Auto);
    bench.sync(0x33, EPOCH, open(0));
    bench.wan(request(&inbound(), 0x33, 0));
    bench.wan(request(&inbound(), 0x33, 3));
    bench.wan(request(&inbound(), 0x33, 4));
    let held = bench.switch.held();
    for reason in [Reason::Open, Reason::Tail, Reason::Release, Reason::Lost] {
        let stale = SyncMessage { reason, src_qpn: Some(Qpn::new(0x44)), pmtu: 4096, ..open(100) };
        assert!(bench.sync(0x33, STALE, stale).is_empty(), "{reason:?}");
        let stale = SyncMessage { reason: Reason::Resent, next_psn: None, ..stale };
        assert!(bench.sync(0x33, STALE, stale).is_empty());
    }
    assert_eq!(bench.switch.held(), held);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
    let keepalive = SyncMessage { reason: Reason::Keepalive, ..open(5) };
    let sent = bench.sync(0x33, EPOCH, keepalive);
    let (header, status) = sent.iter().find_map(Sent::status).expect("a STATUS");
    assert_eq!((header.epoch, header.seen_boot), (EPOCH, PEER_BOOT));
    assert_eq!((status.to.get(), status.src_qpn), (5, None), "its requester was not believed");
    let sent = bench.wan(read(&inbound(), 0x33, 1, 2));
    assert_eq!(psns(&sent, Lan), [1, 3, 4], "nor its path MTU");
}

/// Which box the responses go to is decided by the newest incarnation as well.
#[test]
fn another_box_takes_the_flow_over() {
    let mut bench = Bench::new(Recovery::Auto);
    bench.sync(0x33, EPOCH, SyncMessage { src_qpn: Some(Qpn::new(0x44)), ..open(0) });
    bench.wan(request(&inbound(), 0x33, 0));
    let header = Header {
        node: NodeId(PEER.0 + 1),
        boot: BootId(5),
        epoch: Epoch(1),
        ..bench.header(0x33, EPOCH)
    };
    let sent = bench.wan(message(&inbound(), 0x33, &header, &Message::Sync(open(1))));
    let (reply, status) = sent.iter().find_map(Sent::status).expect("a STATUS");
    assert_eq!((reply.epoch, reply.seen_boot), (Epoch(1), BootId(5)));
    assert_eq!(status.src_qpn, None, "its requester may be another one");
}

/// The next SYNC may announce another incarnation: the destination's acknowledgements so far
/// are not for that one.
// R-SYNC-7
#[test]
fn a_flow_that_was_released_is_a_stranger() {
    let mut bench = Bench::new(Recovery::Auto);
    bench.sync(0x33, EPOCH, SyncMessage { src_qpn: Some(Qpn::new(0x44)), ..open(0) });
    bench.arrive(0x33, 0..5);
    bench.lan(ack(&outbound(), 0x44, 4));
    bench.sync(0x33, EPOCH, SyncMessage { reason: Reason::Release, ..open(5) });
    assert_eq!(bench.switch.held(), 0);
    bench.wait(RTT * 50);
    let sent =
        bench.sync(0x33, EPOCH.next(), SyncMessage { src_qpn: Some(Qpn::new(0x44)), ..open(1) });
    let (_, status) = sent[0].status().expect("a STATUS");
    assert_eq!((status.expected.get(), status.ack), (1, None));
}

// R-READ-17
#[test]
fn copies_that_a_fetch_has_brought_answer_no_later_incarnation() {
    let mut bench = Bench::new(Recovery::Auto);
    let epoch = bench.protect(0x33, 0..1);
    let paired =
        Status { src_qpn: Some(Qpn::new(0x44)), keeps_responses: true, ..report(1, 1, &[]) };
    bench.status(0x33, epoch, paired);
    bench.lan(read(&outbound(), 0x33, 1, 4));
    let sent = bench.wan(response(&inbound(), 0x44, 2));
    assert!(sent.iter().all(|sent| sent.side == Wan), "it is held, and what is missing fetched");
    // The next incarnation begins far away. Its requester is unknown, and so is the flow of a response.
    bench.lan(request(&outbound(), 0x33, 0x80_0000));
    let dropped = bench.count(Metric::DropOldIncarnation);
    assert!(bench.wan(response(&inbound(), 0x44, 1)).is_empty());
    assert_eq!(bench.count(Metric::DropOldIncarnation), dropped + 1);
    bench.assert_passes(Wan, &ack(&inbound(), 0x44, 0x80_0000));
    bench.wait(RTT * 2);
    bench.assert_passes(Wan, &response(&inbound(), 0x44, 1));
}
