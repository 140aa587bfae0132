//! Queue pairs of two hosts at another worker than that of their addresses.

#[path = "support/cm.rs"]
mod cm;
#[path = "support/crew.rs"]
mod crew;
mod support;

use std::net::IpAddr;

use cm::{End as CmEnd, dreq, end, rep, req};
use common::control::{self, Header, Message, Status, Sync};
use common::frame::Side::{Lan, Wan};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Span;
use common::wire::Vlans;
use crew::{NODE_1, Pair};
use support::*;
use switch::{Command, Config, End, QueuePair, Recovery};

/// Longer than answers must confirm a pairing, or one that has moved.
const SPREAD: Span = Span::from_millis(20);

/// The host's QP and the remote one's, of a queue pair that worker 1 is to have with
/// the seed of the hash that tests use; and of one that stays.
const MOVES: (u32, u32) = (0x12, 0x23);
const STAYS: (u32, u32) = (0x11, 0x22);

fn named(recovery: Recovery, pairs: &[(u32, u32)]) -> Config {
    let end = |last, qpn| End { addr: IpAddr::from([10, 0, 0, last]).into(), qpn };
    let pairs = pairs.iter().map(|&(here, there)| QueuePair {
        vlans: Vlans::NONE,
        ends: [end(1, here), end(2, there)],
    });
    Config { queue_pairs: pairs.collect(), ..Config::lab(recovery, NODE, BOOT) }
}

fn header_of(dest_qpn: u32, epoch: u32, seq: u64) -> Header {
    let (node, boot, seen_boot) = (PEER, PEER_BOOT, BOOT);
    Header { node, boot, seq, seen_boot, seen_seq: 0, dest_qpn, epoch }
}

fn reported(qpn: u32, epoch: u32, seq: u64, status: Status) -> Vec<u8> {
    message(&inbound(), qpn, &header_of(qpn, epoch, seq), &Message::Status(status))
}

fn said(qpn: u32, epoch: u32, seq: u64, sync: Sync) -> Vec<u8> {
    message(&inbound(), qpn, &header_of(qpn, epoch, seq), &Message::Sync(sync))
}

fn announced(sent: &[Sent]) -> (Header, Sync) {
    sent.iter().find_map(Sent::sync).expect("a SYNC")
}

/// Nothing but the frame as it is.
fn assert_passes(sent: &[Sent], bytes: &[u8]) {
    assert_eq!(sent.iter().map(|sent| &sent.bytes[..]).collect::<Vec<_>>(), [bytes]);
}

/// The host's flow towards the remote QP of `qp` has sent PSNs 0..20, and enough
/// answers have come to tell whose they are.
fn eliminated(recovery: Recovery, (here, there): (u32, u32)) -> Pair {
    let mut pair = Pair::new(&Config::lab(recovery, NODE, BOOT));
    for psn in 0..20 {
        pair.lan(request(&outbound(), there, psn));
    }
    pair.wan(ack(&inbound(), here, 1));
    pair.wait(SPREAD);
    pair.wan(ack(&inbound(), here, 3));
    assert_eq!(pair.count(0, Metric::FlowPaired), 1);
    pair
}

#[test]
fn a_named_queue_pair_moves_before_its_first_packet() {
    let mut pair = Pair::new(&named(Recovery::Lr2, &[MOVES, STAYS]));
    let (here, there) = MOVES;
    let sent = pair.arrive(Lan, request(&outbound(), there, 7));
    assert!(sent.is_empty(), "worker 0 says nothing of it: {sent:?}");
    let sent = pair.deliver();
    let (header, sync) = announced(&sent);
    assert_eq!((header.node, sync.src_qpn), (NODE_1, Some(here)));
    assert_eq!(psns(&sent, Wan), [7]);
    assert_eq!((pair.count(0, Metric::PairMoved), pair.count(1, Metric::SentryNew)), (1, 1));

    // What the peer says of it goes there as well, and so does the other way.
    pair.wan(reported(there, header.epoch, 1, report(7, 8, &[])));
    assert_eq!(pair.count(1, Metric::DropStatusConsumed), 1);
    let sent = pair.wan(said(here, 1, 2, open(100)));
    let (header, status) = sent[0].status().expect("a STATUS");
    assert_eq!((header.node, status.src_qpn), (NODE_1, Some(there)));
    pair.wan(request(&inbound(), here, 100));
    assert_eq!(pair.count(1, Metric::DepotInOrder), 1);
    let fetch = fetch(&[(5, 6)]);
    pair.wan(message(&inbound(), here, &header_of(here, 1, 3), &fetch));
    assert_eq!(pair.count(1, Metric::DropFetchConsumed), 1);

    // The other one stays.
    let sent = pair.lan(request(&outbound(), STAYS.1, 7));
    assert_eq!(announced(&sent).0.node, NODE);
    assert_eq!(pair.count(0, Metric::PairMoved), 1);
    pair.housekeeping();
    assert_eq!((pair.count(0, Metric::FlowsAway), pair.count(1, Metric::FlowsGuests)), (2, 2));
}

#[test]
fn a_connection_moves_with_what_the_hosts_agreed_on() {
    let mut pair = Pair::new(&Config::lab(Recovery::Lr2, NODE, BOOT));
    let (here, there) = (end(0xa, MOVES.0, 500), end(0xb, MOVES.1, 900));
    pair.lan(req(&outbound(), here));
    let accepted = rep(&inbound(), there, here);
    assert_passes(&pair.arrive(Wan, accepted.clone()), &accepted);
    pair.deliver();
    assert_eq!(pair.count(0, Metric::PairMoved), 1);

    let sent = pair.lan(request(&outbound(), there.qpn, 900));
    let (header, sync) = announced(&sent);
    assert_eq!((header.node, sync.src_qpn), (NODE_1, Some(here.qpn)));
    assert_eq!(sync.acked, Some(Psn::new(900)), "nothing was sent before");
    for psn in 901..920 {
        pair.lan(request(&outbound(), there.qpn, psn));
    }
    // No answer has to be matched: a NAK can be made.
    let sent = pair.wan(reported(there.qpn, header.epoch, 1, report(907, 920, &[(907, 908)])));
    assert_eq!(naks(&sent), [(here.qpn, 900)]);
}

#[test]
fn what_a_sync_shows_to_be_a_pair_moves_and_the_sync_follows() {
    let mut pair = Pair::new(&Config::lab(Recovery::Lr2, NODE, BOOT));
    let (here, there) = MOVES;
    pair.wan(request(&inbound(), here, 99));
    let named = Sync { src_qpn: Some(there), ..open(100) };
    let sent = pair.wan(said(here, 1, 1, named));
    let nodes: Vec<_> = sent.iter().filter_map(Sent::status).map(|(h, _)| h.node).collect();
    assert_eq!(nodes.last(), Some(&NODE_1), "{sent:?}");
    assert_eq!(pair.count(0, Metric::PairMoved), 1);
    pair.wan(request(&inbound(), here, 101));
    assert_eq!(pair.count(1, Metric::DepotHeld), 1, "it is synced there");
    pair.wan(request(&inbound(), here, 100));
    assert_eq!(pair.switches[1].held(), 2, "copies until they are acknowledged");
}

#[test]
fn elimination_moves_a_pair_in_mid_traffic_and_answers_are_believed_when_they_may() {
    let mut pair = eliminated(Recovery::Lr2, MOVES);
    let (here, there) = MOVES;
    assert_eq!(pair.count(0, Metric::PairMoved), 1);
    let sent = pair.lan(request(&outbound(), there, 20));
    let (header, sync) = announced(&sent);
    assert_eq!((header.node, sync.src_qpn, sync.acked), (NODE_1, Some(here), None));
    for psn in 21..40 {
        pair.lan(request(&outbound(), there, psn));
    }
    // What the peer still says of the flow as it was before is about no flow any more.
    for epoch in 1..4 {
        pair.wan(reported(there, epoch, 100 + u64::from(epoch), report(30, 40, &[(30, 31)])));
    }
    assert_eq!(pair.count(1, Metric::DropControlUnknownFlow), 3);
    let nak_of = |pair: &mut Pair, seq| {
        naks(&pair.wan(reported(there, header.epoch, seq, report(30, 40, &[(30, 31)]))))
    };
    // Answers to what went by worker 0 may still come, in the middle of one of which a
    // NAK would end the queue pair.
    pair.wan(ack(&inbound(), here, 22));
    assert_eq!(nak_of(&mut pair, 1), []);
    pair.wait(SPREAD);
    pair.wan(ack(&inbound(), here, 4));
    assert_eq!(nak_of(&mut pair, 2), [], "that was for something before");
    pair.wan(ack(&inbound(), here, 25));
    pair.wait(SPREAD);
    assert_eq!(nak_of(&mut pair, 3), [(here, 26)]);
}

#[test]
fn what_was_held_goes_on_in_order_when_its_queue_pair_moves() {
    let mut pair = Pair::new(&Config::lab(Recovery::Cached, NODE, BOOT));
    let (here, there) = MOVES;
    pair.wan(said(here, 1, 1, open(100)));
    for psn in [100, 102, 103] {
        pair.wan(request(&inbound(), here, psn));
    }
    assert_eq!(pair.switches[0].held(), 3);
    let named = Sync { src_qpn: Some(there), ..open(104) };
    let sent = pair.wan(said(here, 1, 2, named));
    assert_eq!(psns(&sent, Lan), [102, 103]);
    assert_eq!(pair.switches[0].held(), 0);
    assert_eq!(psns(&pair.wan(request(&inbound(), here, 104)), Lan), [104]);
}

/// Nobody vouches for who belongs to whom in the next life.
#[test]
fn another_life_begins_where_the_addresses_belong() {
    let mut pair = eliminated(Recovery::Lr2, MOVES);
    let (_, there) = MOVES;
    pair.lan(request(&outbound(), there, 20));
    let leap = request(&outbound(), there, 0x80_0000);
    let sent = pair.lan(leap.clone());
    assert_eq!(psns(&sent, Wan), [0x80_0000], "nothing is lost");
    assert_eq!(pair.count(1, Metric::PairReturned), 1);
    let sent = pair.lan(request(&outbound(), there, 0x80_0001));
    let (header, sync) = announced(&sent);
    assert_eq!((header.node, sync.src_qpn), (NODE, None));
    pair.housekeeping();
    assert_eq!((pair.count(0, Metric::FlowsAway), pair.count(1, Metric::FlowsGuests)), (0, 0));
    assert_eq!((pair.count(0, Metric::FlowsAll), pair.count(1, Metric::FlowsAll)), (2, 0));
}

/// The peer starts again, and says who the requester is: nothing changes.
#[test]
fn a_life_with_the_same_requester_stays_where_it_is() {
    let mut pair = Pair::new(&named(Recovery::Lr2, &[]));
    let (here, there) = MOVES;
    let named = |next| Sync { src_qpn: Some(there), ..open(next) };
    pair.wan(said(here, 1, 1, named(100)));
    assert_eq!(pair.count(0, Metric::PairMoved), 1);
    for epoch in 2..4 {
        pair.wan(said(here, epoch, epoch.into(), named(5_000 * epoch)));
        assert_eq!(pair.count(1, Metric::FlowForgotten), u64::from(epoch) - 1);
        pair.wait(SPREAD);
    }
    assert_eq!((pair.count(0, Metric::PairMoved), pair.count(1, Metric::PairReturned)), (1, 0));
    // Another requester is another queue pair.
    let other = Sync { src_qpn: Some(there + 1), ..open(0) };
    pair.wan(said(here, 9, 9, other));
    assert_eq!(pair.count(1, Metric::PairReturned), 1);
    assert_eq!(pair.count(1, Metric::FlowPaired), 0, "not what it knows nothing of");
}

const CM: (CmEnd, CmEnd) = (end(0xa, MOVES.0, 500), end(0xb, MOVES.1, 900));

fn connect(pair: &mut Pair, comm: u32) {
    let (here, there) = (CmEnd { comm, ..CM.0 }, CmEnd { comm: comm + 1, ..CM.1 });
    pair.lan(req(&outbound(), here));
    pair.wan(rep(&inbound(), there, here));
}

/// A flow without a packet for so long may have ended unseen.
const QUIET: Span = Span::from_millis(1_001);

/// Connected, and the remote host's packets wait behind a hole at worker 1.
fn connected_and_holding() -> Pair {
    let mut pair = Pair::new(&Config::lab(Recovery::Cached, NODE, BOOT));
    connect(&mut pair, 0xa);
    let here = CM.0.qpn;
    pair.wan(said(here, 1, 1, open(500)));
    for psn in [500, 502, 503] {
        pair.wan(request(&inbound(), here, psn));
    }
    assert_eq!((pair.switches[0].held(), pair.switches[1].held()), (0, 3));
    pair
}

#[test]
fn what_is_held_goes_on_when_a_connection_ends() {
    let mut pair = connected_and_holding();
    let (here, there) = CM;
    let bye = dreq(&outbound(), here, CmEnd { comm: 0xb, ..there });
    let sent = pair.lan(bye);
    assert_eq!(psns(&sent, Lan), [502, 503]);
    assert_eq!((pair.count(0, Metric::PairRecalled), pair.switches[1].held()), (1, 0));
    let sent = pair.lan(request(&outbound(), there.qpn, 900));
    assert_eq!(announced(&sent).0.node, NODE, "a stranger again");
}

/// What an old connection left is never delivered to the new one.
#[test]
fn a_new_connection_moves_anew_and_what_was_held_is_dropped() {
    let mut pair = connected_and_holding();
    pair.wait(QUIET);
    connect(&mut pair, 0x1a);
    assert_eq!((pair.count(0, Metric::PairMoved), pair.count(0, Metric::PairRecalled)), (2, 1));
    assert_eq!(pair.switches[1].held(), 0);
    assert_eq!(pair.count(1, Metric::DropOldLife), 2);
    let sent = pair.lan(request(&outbound(), CM.1.qpn, 900));
    let (header, sync) = announced(&sent);
    assert_eq!((header.node, sync.acked), (NODE_1, Some(Psn::new(900))));
    pair.housekeeping();
    assert_eq!((pair.count(0, Metric::FlowsAway), pair.count(1, Metric::FlowsGuests)), (2, 2));
}

/// The end of a queue pair is known to its owner only after frames were handed over.
#[test]
fn frames_of_a_pair_that_has_gone_back_pass_and_messages_end() {
    let mut pair = eliminated(Recovery::Lr2, MOVES);
    let (here, there) = MOVES;
    pair.command(1, Command::Drain);
    let late = [request(&outbound(), there, 20), request(&outbound(), there, 21)];
    for frame in &late {
        assert!(pair.arrive(Lan, frame.clone()).is_empty());
    }
    pair.arrive(Wan, said(here, 1, 1, open(0)));
    let sent = pair.deliver();
    assert_eq!(sent.iter().map(|sent| &sent.bytes).collect::<Vec<_>>(), late.each_ref());
    assert_eq!(pair.count(1, Metric::PassedUnknownPair), 2);
    assert_eq!(pair.count(1, Metric::DropControlUnknownFlow), 1);
    assert_eq!(pair.count(1, Metric::FlowsAll), 0);
}

#[test]
fn a_draining_box_lets_go_wherever_something_is_held() {
    for first in [0, 1] {
        let mut pair = connected_and_holding();
        let mut sent = pair.command(first, Command::Drain);
        sent.extend(pair.deliver());
        assert_eq!(psns(&sent, Lan), [502, 503], "worker {first} first");
        pair.command(1 - first, Command::Drain);
        pair.deliver();
        pair.housekeeping();
        for n in 0..2 {
            let metrics = [Metric::FlowsAll, Metric::FlowsAway, Metric::FlowsGuests];
            assert_eq!(metrics.map(|metric| pair.count(n, metric)), [0; 3]);
        }
        let frame = request(&outbound(), CM.1.qpn, 900);
        assert_passes(&pair.lan(frame.clone()), &frame);
    }
}

#[test]
fn another_mode_begins_everywhere() {
    let mut pair = connected_and_holding();
    for n in 0..2 {
        pair.command(n, Command::SetRecovery(Recovery::Off));
    }
    pair.deliver();
    assert_eq!(pair.switches[1].held(), 0);
    let frame = request(&outbound(), CM.1.qpn, 900);
    assert_passes(&pair.lan(frame.clone()), &frame);
    assert_eq!(pair.count(0, Metric::PassedRole), 1);
}

/// A worker that has no room for it: the pair stays, and is protected at home.
#[test]
fn a_queue_pair_that_is_refused_stays() {
    for recovery in [Recovery::Lr2, Recovery::Cached] {
        let full = Config { max_flows: 1, ..named(recovery, &[MOVES]) };
        let mut pair = Pair::with([named(recovery, &[MOVES]), full]);
        let (here, there) = MOVES;
        let first = request(&outbound(), there, 0);
        assert_passes(&pair.lan(first.clone()), &first);
        assert_eq!((pair.count(1, Metric::PairRefused), pair.count(0, Metric::PairMoved)), (1, 1));
        let (header, sync) = announced(&pair.lan(request(&outbound(), there, 1)));
        assert_eq!((header.node, sync.src_qpn), (NODE, Some(here)));
        pair.wait(SPREAD);
        pair.wan(ack(&inbound(), here, 1));
        pair.lan(request(&outbound(), there, 2));
        assert_eq!(pair.count(0, Metric::PairMoved), 1, "once is enough");
        pair.wait(Span::from_millis(60_000));
        pair.housekeeping();
        assert_eq!(pair.count(0, Metric::FlowsAll), 0);
    }
}

#[test]
fn flows_are_forgotten_at_both_workers_when_both_are_silent() {
    let mut pair = Pair::new(&named(Recovery::Lr2, &[MOVES]));
    let (here, there) = MOVES;
    pair.lan(request(&outbound(), there, 0));
    pair.wait(Span::from_millis(40_000));
    pair.wan(ack(&inbound(), here, 0));
    pair.wait(Span::from_millis(30_000));
    pair.housekeeping();
    assert_eq!(pair.count(1, Metric::FlowsGuests), 2, "answers came not long ago");
    pair.wait(Span::from_millis(30_100));
    // Twice to get round the table, and once for the gauges.
    for _ in 0..3 {
        pair.housekeeping();
    }
    for n in 0..2 {
        let metrics = [Metric::FlowsAll, Metric::FlowsAway, Metric::FlowsGuests];
        assert_eq!(metrics.map(|metric| pair.count(n, metric)), [0; 3], "worker {n}");
    }
    assert_eq!(pair.count(0, Metric::FlowAged), 2);
}

/// A notice that comes too late is about a move that is over.
#[test]
fn a_late_return_does_not_undo_the_next_move() {
    let mut pair = connected_and_holding();
    // The owner gives the pair back while the hosts make another connection.
    let leap = Sync { src_qpn: None, ..open(0x80_0000) };
    pair.arrive(Wan, said(CM.0.qpn, 9, 9, leap));
    pair.work(1, |_, _, _, _| {});
    let (side, frame) = pair.frames[1].pop_front().expect("it was handed over");
    pair.work(1, |switch, now, pool, desk| {
        let mut burst = arrayvec::ArrayVec::<_, 1>::from([frame]);
        switch.take_over(side, &mut burst, now, pool, desk);
    });
    assert_eq!(pair.count(1, Metric::PairReturned), 1);
    let (here, there) = (CmEnd { comm: 0x1a, ..CM.0 }, CmEnd { comm: 0x1b, ..CM.1 });
    pair.wait(QUIET);
    pair.arrive(Lan, req(&outbound(), here));
    pair.arrive(Wan, rep(&inbound(), there, here));
    assert_eq!(pair.count(0, Metric::PairMoved), 2);
    pair.deliver();
    pair.housekeeping();
    assert_eq!((pair.count(0, Metric::FlowsAway), pair.count(1, Metric::FlowsGuests)), (2, 2));
    let (header, _) = announced(&pair.lan(request(&outbound(), CM.1.qpn, 900)));
    assert_eq!(header.node, NODE_1);
}

/// A worker that takes no notices: pairs stay once too many wait, and none is lost.
#[test]
fn notices_that_find_no_room_wait_and_keep_their_order() {
    let qps: Vec<_> = (0..1_000).map(|n| (0x1000 + n, 0x8000 + n)).collect();
    let mut pair = Pair::new(&named(Recovery::Lr2, &qps));
    let mut sent = 0;
    for (_, there) in &qps {
        let switch = &mut pair.switches[0];
        let frame = request(&outbound(), *there, 0).into();
        let mut burst = arrayvec::ArrayVec::<_, 1>::from([frame]);
        let mut desk = crew::Desk::default();
        let pool = &mut common::heap::HeapPool;
        switch.burst(Lan, &mut burst, pair.now, pool, &mut desk);
        switch.send_notices(|_, _| {
            sent += 1;
            sent <= 3
        });
    }
    assert_eq!(pair.count(0, Metric::PairMoved), 256 + 3);
    assert!(pair.count(0, Metric::PairKept) > 100);
    let mut offered = 0;
    pair.switches[0].send_notices(|_, _| {
        offered += 1;
        false
    });
    assert_eq!(offered, 1, "none overtakes the first");
    let mut kept = 0;
    pair.switches[0].send_notices(|_, _| {
        kept += 1;
        true
    });
    assert_eq!(kept, 256);
}

#[test]
fn control_messages_are_brought_to_the_flow_that_they_name() {
    let frame = reported(MOVES.1, 1, 1, report(0, 0, &[]));
    let roce = common::wire::parse(&frame).unwrap();
    assert_eq!(control::about(&frame, &roce, control::DEFAULT_OPCODE), Some((MOVES.1, true)));
}

/// One direction of a refused pair is forgotten, and its entry is another flow's by the
/// time the next answer comes: that is nothing which the stranger may learn from.
#[test]
fn a_refused_pair_of_which_one_flow_is_forgotten_takes_no_stranger_for_it() {
    let config = named(Recovery::Lr2, &[MOVES]);
    let full = Config { max_flows: 1, ..config.clone() };
    let mut pair = Pair::with([config, full]);
    let (here, there) = MOVES;
    pair.lan(request(&outbound(), there, 0));
    assert_eq!(pair.count(1, Metric::PairRefused), 1);
    // Only the remote host's requests are seen, not what answers them.
    pair.wait(Span::from_millis(40_000));
    pair.wan(request(&inbound(), here, 500));
    pair.wait(Span::from_millis(30_000));
    for _ in 0..3 {
        pair.housekeeping();
    }
    assert_eq!(pair.count(0, Metric::FlowsAll), 1);
    let stranger = 0x77;
    let (header, _) = announced(&pair.lan(request(&outbound(), stranger, 0)));
    for psn in 1..20 {
        pair.lan(request(&outbound(), stranger, psn));
    }
    pair.wan(ack(&inbound(), here, 5));
    pair.wait(SPREAD);
    let report = Status { src_qpn: Some(0x55), ..report(10, 20, &[(10, 11)]) };
    let sent = pair.wan(reported(stranger, header.epoch, 1, report));
    assert_eq!(naks(&sent), [], "nobody has acknowledged anything of it");
}
