//! Which connections are learned from connection management, and which aren't.

use std::path::Path;

use crate::support::cm::{End, between, dreq, end, rep, req, req_between, rtu};
use crate::support::*;
use common::control::{Epoch, SyncMessage};
use common::frame::Side::{self, Lan, Wan};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Span;
use common::wire::{Addr, Headers, Opcode, Qpn, Vlans, parse};
use pcap_file::pcap::PcapReader;
use switch::{Config, Recovery, Role};

/// The host's end of a connection, and the other one.
const HERE: End = end(0xa, 0x11, 500);
const THERE: End = end(0xb, 0x22, 900);

/// A flow without a packet for so long may have ended unseen.
const QUIET: Span = Span::from_millis(1_001);

/// The host connects itself to the one behind the long-haul link.
fn connect(bench: &mut Bench, out: &Headers, back: &Headers, here: End, there: End) {
    bench.assert_passes(Lan, &req(out, here));
    bench.assert_passes(Wan, &rep(back, there, here));
    bench.assert_passes(Lan, &rtu(out, here, there));
}

fn connected(recovery: Recovery) -> Bench {
    let mut bench = Bench::new(recovery);
    connect(&mut bench, &outbound(), &inbound(), HERE, THERE);
    assert_eq!(bench.count(Metric::FlowConnected), 1);
    assert_eq!(bench.count(Metric::FlowPaired), 1);
    bench
}

/// The Sentry's SYNC about the flow when this packet is its first.
fn announced(bench: &mut Bench, packet: Vec<u8>) -> (Epoch, SyncMessage) {
    let sent = bench.lan(packet);
    let (header, sync) = sent.iter().find_map(Sent::sync).expect("SYNC(open)");
    (header.epoch, sync)
}

fn src_qpn(bench: &mut Bench, packet: Vec<u8>) -> Option<u32> {
    announced(bench, packet).1.src_qpn.map(Qpn::get)
}

// R-CM-3
#[test]
fn both_flows_of_a_connection_know_their_requester_from_the_first_packet() {
    let mut bench = connected(Recovery::Lr2);
    assert_eq!(src_qpn(&mut bench, request(&outbound(), THERE.qpn, THERE.psn)), Some(HERE.qpn));
    // And the other way.
    assert_eq!(bench.told(HERE.qpn, 1, open(HERE.psn)).src_qpn, Some(Qpn::new(THERE.qpn)));
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

#[test]
fn a_nak_needs_no_matching_of_answers() {
    let mut bench = connected(Recovery::Lr2);
    let first = THERE.psn;
    let epoch = bench.protect(THERE.qpn, first..first + 20);
    bench.wan(ack(&inbound(), HERE.qpn, first + 4));
    let sent =
        bench.status(THERE.qpn, epoch, report(first + 7, first + 20, &[(first + 7, first + 8)]));
    assert_eq!(naks(&sent), [(HERE.qpn, first + 5)]);
}

#[test]
fn either_side_may_ask_and_either_role_listens() {
    for role in [Role::Sentry, Role::Depot, Role::Both] {
        for asks in [Lan, Wan] {
            let config = Config { role, ..Config::lab(Recovery::Lr2, NODE, BOOT) };
            let mut bench = Bench::with(config);
            let (from, to) =
                if asks == Lan { (outbound(), inbound()) } else { (inbound(), outbound()) };
            bench.assert_passes(asks, &req(&from, HERE));
            assert_eq!(bench.count(Metric::FlowConnected), 0);
            bench.assert_passes(asks.other(), &rep(&to, THERE, HERE));
            assert_eq!(bench.count(Metric::FlowConnected), 1, "{role:?}, {asks:?}");
            bench.housekeeping();
            assert_eq!(bench.count(Metric::FlowsAll), 2);
        }
    }
}

/// Collective libraries do that. Answers alone would leave all of them unpaired.
#[test]
fn many_qps_that_all_start_at_psn_0() {
    let mut bench = Bench::new(Recovery::Lr2);
    let ends = (0..200).map(|n| (end(1000 + n, 0x100 + n, 0), end(2000 + n, 0x900 - 3 * n, 0)));
    let ends: Vec<_> = ends.collect();
    // All of them at once, answered in another order.
    for (here, _) in &ends {
        bench.assert_passes(Lan, &req(&outbound(), *here));
    }
    for (here, there) in ends.iter().rev() {
        bench.assert_passes(Wan, &rep(&inbound(), *there, *here));
    }
    assert_eq!(bench.count(Metric::FlowPaired), 200);
    for (here, there) in &ends {
        let packet = request(&outbound(), there.qpn, 0);
        assert_eq!(src_qpn(&mut bench, packet), Some(here.qpn));
        assert_eq!(bench.told(here.qpn, 1, open(0)).src_qpn, Some(Qpn::new(there.qpn)));
    }
}

#[test]
fn the_same_addresses_in_another_vlan_are_other_hosts() {
    let mut bench = Bench::new(Recovery::Lr2);
    for (vlan, qpn) in [(5, 0x11), (6, 0x12)] {
        let (out, back) = (tagged(&outbound(), vlan), tagged(&inbound(), vlan));
        connect(&mut bench, &out, &back, end(0xa, qpn, 0), end(0xb, 0x22, 0));
    }
    for (vlan, qpn) in [(5, 0x11), (6, 0x12)] {
        let packet = request(&tagged(&outbound(), vlan), 0x22, 0);
        assert_eq!(src_qpn(&mut bench, packet), Some(qpn), "VLAN {vlan}");
    }
    assert_eq!(src_qpn(&mut bench, request(&outbound(), 0x22, 0)), None, "no VLAN");
}

#[test]
fn the_same_qpn_at_both_ends() {
    let mut bench = Bench::new(Recovery::Lr2);
    connect(&mut bench, &outbound(), &inbound(), end(7, 0x25, 10), end(7, 0x25, 20));
    assert_eq!(src_qpn(&mut bench, request(&outbound(), 0x25, 20)), Some(0x25));
    assert_eq!(bench.told(0x25, 1, open(10)).src_qpn, Some(Qpn::new(0x25)));
    let dreq = dreq(&outbound(), end(7, 0x25, 10), end(7, 0x25, 20));
    bench.assert_passes(Lan, &dreq);
    assert_eq!(bench.count(Metric::FlowDisconnected), 1);
}

#[test]
fn ipv6_hosts() {
    let mut bench = Bench::new(Recovery::Lr2);
    let (out, back) = (between("fd00::1", "fd00::2"), between("fd00::2", "fd00::1"));
    connect(&mut bench, &out, &back, HERE, THERE);
    let packet = request(&out, THERE.qpn, THERE.psn);
    assert_eq!(src_qpn(&mut bench, packet), Some(HERE.qpn));
}

#[test]
fn a_qp_number_that_is_used_again_begins_a_new_incarnation() {
    let mut bench = connected(Recovery::Lr2);
    let first = THERE.psn;
    let (old, _) = announced(&mut bench, request(&outbound(), THERE.qpn, first));
    // The destination's QP stays, the host has a new one. The new PSNs are so
    // near that they would be taken for repeats, or for a gap.
    let (here, there) = (end(0xc, 0x33, 0), end(0xd, THERE.qpn, first - 5));
    bench.wait(QUIET);
    connect(&mut bench, &outbound(), &inbound(), here, there);
    let (new, sync) = announced(&mut bench, request(&outbound(), THERE.qpn, first - 5));
    assert_ne!(old, new);
    assert_eq!((sync.src_qpn, sync.next_psn), (Some(Qpn::new(0x33)), Some(Psn::new(first - 5))));
    // The QP that was the host's before is nobody's now.
    assert_eq!(bench.told(HERE.qpn, 1, open(HERE.psn)).src_qpn, None);
}

// R-CM-3
#[test]
fn what_is_held_of_an_old_incarnation_is_never_delivered_to_the_new_one() {
    let mut bench = connected(Recovery::Auto);
    bench.sync(HERE.qpn, 1, open(HERE.psn));
    // Something is acknowledged, so that early packets are only held.
    bench.wan(request(&inbound(), HERE.qpn, HERE.psn));
    bench.lan(ack(&outbound(), THERE.qpn, HERE.psn));
    for psn in [2, 3] {
        assert!(psns(&bench.wan(request(&inbound(), HERE.qpn, HERE.psn + psn)), Lan).is_empty());
    }
    assert_eq!(bench.switch.held(), 2);
    bench.wait(QUIET);
    connect(&mut bench, &outbound(), &inbound(), end(0xc, HERE.qpn, 700), end(0xd, 0x44, 0));
    assert_eq!(bench.count(Metric::DropOldIncarnation), 2);
    assert_eq!(bench.switch.held(), 0);
    bench.assert_passes(Wan, &request(&inbound(), HERE.qpn, 700));
}

#[test]
fn what_is_kept_to_be_resent_is_given_back() {
    for ends in [false, true] {
        let mut bench = connected(Recovery::Auto);
        for psn in 0..5 {
            bench.lan(request(&outbound(), THERE.qpn, THERE.psn + psn));
        }
        assert_eq!(bench.switch.held(), 5);
        if ends {
            bench.assert_passes(Wan, &dreq(&inbound(), THERE, HERE));
        } else {
            bench.wait(QUIET);
            connect(&mut bench, &outbound(), &inbound(), end(0xc, 0x33, 0), end(0xd, 0x22, 0));
        }
        assert_eq!(bench.switch.held(), 0);
    }
}

/// A live connection, and a REQ that names its far QP as its own: anybody on the long haul can
/// send one, and any program on the far host. A service of the near host accepts it, as services
/// do. It is another connection when data shows it.
// R-CM-2
#[test]
fn a_connection_that_is_claimed_takes_no_qp_from_one_that_lives() {
    let mut bench = connected(Recovery::Lr2);
    let first = THERE.psn;
    let epoch = bench.protect(THERE.qpn, first..first + 20);
    bench.wan(ack(&inbound(), HERE.qpn, first + 4));

    let claim = end(0xdead, THERE.qpn, first + 20);
    let accepted = end(0xbeef, 0x77, 1);
    bench.assert_passes(Wan, &req(&inbound(), claim));
    bench.assert_passes(Lan, &rep(&outbound(), accepted, claim));
    bench.assert_passes(Wan, &dreq(&inbound(), claim, accepted));
    assert_eq!(bench.count(Metric::FlowConnected), 1);
    assert_eq!(bench.count(Metric::FlowDisconnected), 0);

    for n in 20..30 {
        let sent = bench.lan(request(&outbound(), THERE.qpn, first + n));
        assert!(sent.iter().all(|sent| sent.sync().is_none()), "the incarnation goes on");
    }
    let sent =
        bench.status(THERE.qpn, epoch, report(first + 22, first + 30, &[(first + 22, first + 23)]));
    assert_eq!(naks(&sent), [(HERE.qpn, first + 5)]);
    // And its end is known as such.
    bench.assert_passes(Wan, &dreq(&inbound(), THERE, HERE));
    assert_eq!(bench.count(Metric::FlowDisconnected), 1);
}

/// Nor from one that is not paired, and named from the other side.
// R-CM-2
#[test]
fn a_claim_ends_no_flow_that_is_not_paired() {
    let mut bench = Bench::new(Recovery::Auto);
    let epoch = bench.protect(THERE.qpn, 900..920);
    let claim = end(0xdead, THERE.qpn, 920);
    bench.assert_passes(Wan, &req(&inbound(), claim));
    bench.assert_passes(Lan, &rep(&outbound(), end(0xbeef, 0x77, 1), claim));
    bench.assert_passes(Wan, &dreq(&inbound(), claim, end(0xbeef, 0x77, 1)));
    let sent = bench.status(THERE.qpn, epoch, report(902, 920, &[(902, 903)]));
    assert_eq!(psns(&sent, Wan), [902], "it is resent from the cache");
}

// R-CM-4
#[test]
fn a_repeated_rep_disturbs_nothing() {
    let mut bench = connected(Recovery::Auto);
    let first = THERE.psn;
    let epoch = bench.protect(THERE.qpn, first..first + 5);
    bench.assert_passes(Wan, &rep(&inbound(), THERE, HERE));
    bench.assert_passes(Lan, &req(&outbound(), HERE));
    let sent =
        bench.status(THERE.qpn, epoch, report(first + 2, first + 5, &[(first + 2, first + 3)]));
    assert_eq!(psns(&sent, Wan), [first + 2], "the cache is still there");
    assert_eq!(bench.count(Metric::FlowConnected), 1);
}

// R-CM-5
#[test]
fn what_is_held_at_the_end_of_a_connection_leaves_in_order_before_it() {
    let mut bench = connected(Recovery::Auto);
    bench.sync(HERE.qpn, 1, open(HERE.psn));
    bench.wan(request(&inbound(), HERE.qpn, HERE.psn));
    bench.lan(ack(&outbound(), THERE.qpn, HERE.psn));
    for psn in [3, 2] {
        bench.wan(request(&inbound(), HERE.qpn, HERE.psn + psn));
    }
    let sent = bench.wan(dreq(&inbound(), THERE, HERE));
    assert_eq!(psns(&sent, Lan), [HERE.psn + 2, HERE.psn + 3, 0], "then the DREQ");
    assert_eq!(bench.switch.held(), 0);
}

#[test]
fn after_the_end_nothing_is_known() {
    let mut bench = connected(Recovery::Lr2);
    let (old, _) = announced(&mut bench, request(&outbound(), THERE.qpn, THERE.psn));
    bench.assert_passes(Lan, &dreq(&outbound(), HERE, THERE));
    assert_eq!(bench.count(Metric::FlowDisconnected), 1);
    let (new, sync) = announced(&mut bench, request(&outbound(), THERE.qpn, THERE.psn + 1));
    assert_ne!(old, new);
    assert_eq!(sync.src_qpn, None);
    bench.assert_passes(Lan, &dreq(&outbound(), HERE, THERE));
    assert_eq!(bench.count(Metric::FlowDisconnected), 1, "it is repeated");
}

/// A connection that ends late, while its QP is part of another that nobody
/// told of.
// R-CM-5
#[test]
fn the_end_of_a_connection_is_not_that_of_a_qp_paired_otherwise() {
    let mut bench = connected(Recovery::Lr2);
    let leap = THERE.psn + (1 << 21);
    let (epoch, sync) = announced(&mut bench, request(&outbound(), THERE.qpn, leap));
    assert_eq!(sync.src_qpn, None, "the pair is dissolved");
    bench.status(
        THERE.qpn,
        epoch,
        common::control::Status { src_qpn: Some(Qpn::new(0x77)), ..report(leap, leap + 1, &[]) },
    );
    bench.assert_passes(Lan, &dreq(&outbound(), HERE, THERE));
    let sent = bench.lan(request(&outbound(), THERE.qpn, leap + 1));
    assert!(sent.iter().all(|sent| sent.sync().is_none()), "the flow lives on");
}

#[test]
fn data_that_begins_elsewhere_is_not_what_was_announced() {
    let mut bench = connected(Recovery::Lr2);
    let leap = THERE.psn + (1 << 21);
    assert_eq!(src_qpn(&mut bench, request(&outbound(), THERE.qpn, leap)), None);
}

/// Whether a NAK for the packet before `psn` revokes an acknowledgement.
fn is_acked(bench: &mut Bench, psn: u32) -> bool {
    bench.wan(nak(&inbound(), HERE.qpn, psn - 1));
    bench.count(Metric::FlowNewEpoch) > 0
}

/// A SYNC that claimed the announced PSN would have the Depot wait for packets that
/// nobody sends.
// R-CM-6
#[test]
fn a_first_psn_that_is_wrong_claims_nothing() {
    for first in [THERE.psn - 1, THERE.psn + 1, THERE.psn + 500] {
        let mut bench = connected(Recovery::Auto);
        let (_, sync) = announced(&mut bench, request(&outbound(), THERE.qpn, first));
        assert_eq!(sync.next_psn, Some(Psn::new(first)));
        assert_eq!(sync.src_qpn, Some(Qpn::new(HERE.qpn)), "that is another matter");
        assert!(!is_acked(&mut bench, first));
    }
    let mut bench = connected(Recovery::Auto);
    let (_, sync) = announced(&mut bench, request(&outbound(), THERE.qpn, THERE.psn));
    assert_eq!(sync.next_psn, Some(Psn::new(THERE.psn)));
    assert!(is_acked(&mut bench, THERE.psn));
}

/// Behind the link the first packets may be lost, but none come before them.
#[test]
fn what_begins_before_its_first_psn_is_not_what_was_announced() {
    // The first packet, the SYNC's claim, the expected PSN.
    for (first, next, expected) in [
        (HERE.psn - 9, HERE.psn - 8, HERE.psn - 8),
        (HERE.psn + 3, HERE.psn, HERE.psn),
        // Acknowledged before the connection was made: the SYNC is an old one.
        (HERE.psn, HERE.psn - 8, HERE.psn),
    ] {
        let mut bench = connected(Recovery::Auto);
        bench.wan(request(&inbound(), HERE.qpn, first));
        let sent = bench.sync(HERE.qpn, 1, open(next));
        let (_, status) = sent[0].status().expect("a STATUS");
        assert_eq!(status.expected.get(), expected, "{first}, {next}");
    }
}

#[test]
fn a_damaged_message_is_not_believed() {
    for broken in 0..2 {
        let mut bench = Bench::new(Recovery::Lr2);
        let exchange = [(Lan, req(&outbound(), HERE)), (Wan, rep(&inbound(), THERE, HERE))];
        for (n, (side, message)) in exchange.into_iter().enumerate() {
            let message = if n == broken { damaged(message) } else { message };
            bench.assert_passes(side, &message);
        }
        assert_eq!(bench.count(Metric::FlowConnected), 0);
        assert_eq!(bench.count(Metric::PassedBadIcrc), 1);
        assert_eq!(bench.count(Metric::PassedTransport), 1);
    }
    let mut bench = connected(Recovery::Lr2);
    bench.assert_passes(Lan, &damaged(dreq(&outbound(), HERE, THERE)));
    assert_eq!(bench.count(Metric::FlowDisconnected), 0);
}

// R-CM-1
#[test]
fn a_req_for_other_addresses_teaches_nothing() {
    let mut bench = Bench::new(Recovery::Lr2);
    let [src, dst] = [outbound().src(), outbound().dst()];
    let elsewhere = Addr::from_v4([10, 0, 0, 3]);
    for (local, remote) in [(elsewhere, dst), (src, elsewhere), (dst, src)] {
        bench.assert_passes(Lan, &req_between(&outbound(), HERE, local, remote));
        bench.assert_passes(Wan, &rep(&inbound(), THERE, HERE));
    }
    assert_eq!(bench.count(Metric::FlowConnected), 0);
}

#[test]
fn a_rep_from_the_side_of_the_req_teaches_nothing() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.assert_passes(Lan, &req(&outbound(), HERE));
    bench.assert_passes(Lan, &rep(&inbound(), THERE, HERE));
    assert_eq!(bench.count(Metric::FlowConnected), 0);
}

#[test]
fn a_connection_that_finds_the_table_full_passes() {
    for (max_flows, before) in [(1, 0), (2, 1), (2, 2)] {
        let config = Config { max_flows, ..Config::lab(Recovery::Lr2, NODE, BOOT) };
        let mut bench = Bench::with(config);
        for qpn in 0..before {
            bench.lan(request(&outbound(), 0x80 + qpn, 0));
        }
        connect(&mut bench, &outbound(), &inbound(), HERE, THERE);
        bench.housekeeping();
        assert_eq!(bench.count(Metric::FlowsAll), before.into(), "half of it would be no use");
        assert_eq!(bench.count(Metric::FlowPaired), 0);
        bench.assert_passes(Lan, &dreq(&outbound(), HERE, THERE));
    }
}

#[test]
fn a_full_table_has_room_for_flows_that_it_holds() {
    let config = Config { max_flows: 2, ..Config::lab(Recovery::Lr2, NODE, BOOT) };
    let mut bench = Bench::with(config);
    bench.lan(request(&outbound(), THERE.qpn, 3));
    bench.wait(QUIET);
    connect(&mut bench, &outbound(), &inbound(), HERE, THERE);
    assert_eq!(bench.count(Metric::FlowPaired), 1);
    assert_eq!(src_qpn(&mut bench, request(&outbound(), THERE.qpn, THERE.psn)), Some(HERE.qpn));
}

#[test]
fn nothing_is_learned_while_recovery_is_off_or_the_box_drains() {
    let mut off = Bench::new(Recovery::Off);
    connect(&mut off, &outbound(), &inbound(), HERE, THERE);
    let mut drained = Bench::new(Recovery::Auto);
    drained.drain();
    connect(&mut drained, &outbound(), &inbound(), HERE, THERE);
    for bench in [&mut off, &mut drained] {
        bench.housekeeping();
        assert_eq!(bench.count(Metric::FlowsAll), 0);
    }
}

/// Anything else that is a datagram.
#[test]
fn other_datagrams_pass() {
    let mut bench = Bench::new(Recovery::Auto);
    let mut deth = [0; 8 + 64];
    deth[..4].copy_from_slice(&[0x80, 1, 0, 0]);
    deth[7] = 1;
    for qpn in [1, 2] {
        bench.assert_passes(Lan, &frame(&outbound(), Opcode::UD_SEND_ONLY, qpn, 0, &deth));
    }
    assert_eq!(bench.count(Metric::PassedTransport), 2);
}

/// rping over rdma_cm between two Soft-RoCE hosts, from REQ to DREP.
#[test]
fn a_real_connection_from_beginning_to_end() {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/tests/captures");
    let file = std::fs::File::open(captures.join("rping_cm.pcap")).expect("the capture");
    let mut reader = PcapReader::new(file).expect("a pcap file");
    let active = Addr::from_v4([10, 9, 0, 1]);
    let mut bench = Bench::new(Recovery::Lr2);
    let mut announced = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let bytes = packet.expect("a packet").data.into_owned();
        let roce = parse(&bytes).expect("RoCEv2");
        let side: Side = if roce.src == active { Lan } else { Wan };
        assert_eq!(roce.vlans, Vlans::NONE);
        let sent = bench.receive(side, bytes.clone());
        assert!(sent.iter().any(|sent| sent.side == side.other() && sent.bytes == bytes));
        announced.extend(sent.iter().find_map(Sent::sync).map(|(_, sync)| sync));
    }
    assert_eq!(bench.count(Metric::FlowConnected), 1);
    assert_eq!(bench.count(Metric::FlowPaired), 1);
    assert_eq!(bench.count(Metric::FlowDisconnected), 1);
    let first = announced.first().expect("SYNC(open)");
    assert_eq!(first.src_qpn, Some(Qpn::new(37)), "both hosts have this QPN");
}
