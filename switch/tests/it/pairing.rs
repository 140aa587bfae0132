//! Which responses belong to which flow: a NAK that reached a wrong queue pair would complete
//! messages that were never delivered.

use crate::support::*;
use common::control::{LastAck, Reason, Status, SyncMessage};
use common::frame::Side::{Lan, Wan};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Span;
use common::wire::{Aeth, Headers, Opcode, Qpn};
use switch::Recovery;

/// For longer than this a response must be confirmed.
const SPREAD: Span = Span::from_millis(20);

fn other_port() -> Headers {
    with_port(&inbound(), PORT + 1)
}

/// The host's flow towards QP 0x22 has sent PSNs 0..20.
fn one_flow() -> Bench {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.sends(0x22, 0..20);
    bench.wait(SPREAD);
    bench
}

/// Packets are acknowledged to QP 0x11, one after the other.
fn acks(bench: &mut Bench, headers: &Headers, psns: impl IntoIterator<Item = u32>) {
    for psn in psns {
        bench.assert_passes(Wan, &ack(headers, 0x11, psn));
        bench.wait(SPREAD);
    }
}

// R-PAIR-4
#[test]
fn a_single_flow_is_paired_after_two_answers_from_the_same_port() {
    let mut bench = one_flow();
    bench.assert_passes(Wan, &ack(&inbound(), 0x11, 1));
    bench.wait(SPREAD);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
    bench.assert_passes(Wan, &ack(&inbound(), 0x11, 3));
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

// R-PAIR-4
#[test]
fn or_three_from_another_one() {
    let mut bench = one_flow();
    acks(&mut bench, &other_port(), [1, 3]);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
    bench.assert_passes(Wan, &ack(&other_port(), 0x11, 5));
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

// R-PAIR-4
#[test]
fn the_confirmations_outlast_two_round_trips() {
    let mut bench = one_flow();
    for psn in 1..10 {
        bench.wan(ack(&inbound(), 0x11, psn));
    }
    assert_eq!(bench.count(Metric::FlowPaired), 0);
    bench.wait(SPREAD - Span::from_nanos(1));
    bench.wan(ack(&inbound(), 0x11, 10));
    assert_eq!(bench.count(Metric::FlowPaired), 0);
    bench.wait(Span::from_nanos(1));
    bench.wan(ack(&inbound(), 0x11, 11));
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

#[test]
fn the_same_answer_again_confirms_nothing() {
    let mut bench = one_flow();
    acks(&mut bench, &inbound(), [1; 5]);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
}

// R-PAIR-2
#[test]
fn two_flows_with_the_same_psns_stay_ambiguous() {
    let mut bench = one_flow();
    bench.sends(0x23, 0..20);
    acks(&mut bench, &inbound(), 0..20);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
}

// R-PAIR-3
#[test]
fn an_answer_beyond_what_a_flow_has_sent_rules_it_out_for_good() {
    let mut bench = one_flow();
    bench.sends(0x23, 0..10);
    bench.wan(ack(&inbound(), 0x11, 5));
    bench.wait(SPREAD);
    bench.wan(ack(&inbound(), 0x11, 12)); // 0x23 has not sent it
    bench.sends(0x23, 10..20);
    bench.wait(SPREAD);
    bench.wan(ack(&inbound(), 0x11, 14));
    assert_eq!(bench.count(Metric::FlowPaired), 1);
    // It is 0x22 whose packets are acknowledged.
    bench.wan(ack(&inbound(), 0x12, 15));
    let sent = bench.lan(request(&outbound(), 0x22, 20));
    assert!(sent.iter().all(|s| s.sync().is_none()));
}

// R-PAIR-3
#[test]
fn a_nak_may_ask_for_the_very_next_packet_but_an_ack_may_not_have_it() {
    let mut bench = one_flow();
    for psn in [18, 20] {
        bench.wan(nak(&inbound(), 0x11, psn));
        bench.wait(SPREAD);
    }
    assert_eq!(bench.count(Metric::FlowPaired), 1);
    let mut bench = one_flow();
    acks(&mut bench, &inbound(), [18, 20, 19]);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
}

/// READ responses take the PSNs of the request: more of them than packets were
/// sent. That rules nothing out.
#[test]
fn answers_to_reads_do_not_rule_their_flow_out() {
    for role_is_sentry in [true, false] {
        let mut bench = Bench::new(Recovery::Lr2);
        let (side, there, back) = if role_is_sentry {
            (Lan, outbound(), inbound())
        } else {
            (Wan, inbound(), outbound())
        };
        for psn in 0..200 {
            bench.receive(side, request(&there, 0x22, psn));
        }
        // Another queue pair reads 100 packets.
        bench.receive(side, read(&there, 0x33, 0, 100));
        for psn in 0..100 {
            let response = frame(&back, Opcode::READ_RESPONSE_MIDDLE, 0x44, psn, &[0; 256]);
            bench.receive(side.other(), response);
            bench.wait(Span::from_millis(1));
        }
        assert_eq!(bench.count(Metric::FlowPaired), 0, "0x44 is not the requester of 0x22");
    }
}

#[test]
fn both_ends_may_have_the_same_qpn() {
    let mut bench = Bench::new(Recovery::Lr2);
    for psn in 0..20 {
        bench.lan(request(&outbound(), 0x11, psn));
        bench.wan(request(&inbound(), 0x11, 500 + psn));
    }
    bench.wait(SPREAD);
    for psn in [1, 3] {
        bench.wan(ack(&inbound(), 0x11, psn));
        bench.lan(ack(&outbound(), 0x11, 500 + psn));
        bench.wait(SPREAD);
    }
    assert_eq!(bench.count(Metric::FlowPaired), 1, "the two flows are each other's peers");
}

#[test]
fn vlans_separate_flows() {
    let mut bench = one_flow();
    for psn in 1..10 {
        bench.assert_passes(Wan, &ack(&tagged(&inbound(), 7), 0x11, psn));
        bench.wait(SPREAD);
    }
    assert_eq!(bench.count(Metric::FlowPaired), 0);
    bench.lan(request(&tagged(&outbound(), 7), 0x22, 0));
    assert_eq!(bench.count(Metric::SyncOpen), 2, "the same QPN in another VLAN is another flow");
}

#[test]
fn naks_and_rnr_naks_reach_their_flow() {
    let (mut bench, _) = Bench::paired(Recovery::Lr2, 0..20);
    bench.wait(RTT * 2);
    for (syndrome, metric) in
        [(Aeth::NAK_PSN_SEQUENCE, Metric::NakDestination), (Aeth::RNR + 3, Metric::NakRnr)]
    {
        bench.assert_passes(Wan, &respond(&inbound(), 0x11, 5, syndrome));
        assert_eq!(bench.count(metric), 1);
        bench.sends(0x22, 5..20);
        bench.wait(RTT);
    }
    assert_eq!(bench.count(Metric::SentryNeeded), 30, "all that was asked for");
    assert_eq!(bench.count(Metric::PassSolicited), 2);
    // An error that no gateway can help with.
    bench.assert_passes(Wan, &respond(&inbound(), 0x11, 5, Aeth::NAK_REMOTE_ACCESS));
}

// R-PAIR-5
#[test]
fn the_peers_knowledge_of_the_requester_is_adopted() {
    let mut bench = Bench::new(Recovery::Lr2);
    // The box has seen all of the flow.
    bench.lan(request(&outbound(), 0x99, 0));
    bench.wait(Span::from_millis(1_000));
    let epoch = bench.protect(0x22, 0..20);
    let ack = LastAck { psn: Psn::new(4), syndrome: Aeth::ACK_UNLIMITED, msn: 2 };
    let lost = Status { ack: Some(ack), src_qpn: Some(Qpn::new(0x11)), ..report(7, 20, &[(7, 8)]) };
    let sent = bench.status(0x22, epoch, lost);
    // The ACK that the source may not have got, then the NAK.
    assert_eq!(naks(&sent), [(0x11, 4), (0x11, 5)]);
    let nak = sent.last().expect("the NAK");
    let aeth = nak.roce().aeth(&nak.bytes).expect("an AETH");
    assert_eq!((aeth.syndrome, aeth.msn), (Aeth::NAK_PSN_SEQUENCE, 2));

    let mut bench = Bench::new(Recovery::Lr2);
    let sent = bench.sync(0x33, 1, SyncMessage { src_qpn: Some(Qpn::new(0x44)), ..open(0) });
    assert_eq!(sent[0].status().expect("a STATUS").1.src_qpn, Some(Qpn::new(0x44)));
    assert_eq!(sent[0].roce().dest_qpn.get(), 0x44, "and the STATUS goes there");
}

// R-PAIR-6
#[test]
fn a_new_incarnation_of_a_flow_has_no_requester_yet() {
    const WINDOW_MAX: u32 = 1 << 19;
    let (mut bench, epoch) = Bench::paired(Recovery::Lr2, 0..20);
    let leap = 20 + WINDOW_MAX + 1;
    let sent = bench.lan(request(&outbound(), 0x22, leap));
    let (header, sync) = sent.iter().find_map(Sent::sync).expect("SYNC(open)");
    assert_ne!(header.epoch, epoch);
    assert_eq!(sync.src_qpn, None);
}

/// Nor at the Depot: the other end would adopt its `src_qpn`.
#[test]
fn a_new_incarnation_has_no_requester_at_the_depot_either() {
    let mut bench = Bench::new(Recovery::Lr2);
    assert_eq!(
        bench.told(0x33, 1, SyncMessage { src_qpn: Some(Qpn::new(0x44)), ..open(0) }).src_qpn,
        Some(Qpn::new(0x44))
    );
    assert_eq!(bench.told(0x33, 2, open(0)).src_qpn, None);
    assert_eq!(
        bench.told(0x33, 3, SyncMessage { src_qpn: Some(Qpn::new(0x55)), ..open(0) }).src_qpn,
        Some(Qpn::new(0x55))
    );
    // An older one changes nothing.
    assert!(
        bench.sync(0x33, 2, SyncMessage { src_qpn: Some(Qpn::new(0x44)), ..open(0) }).is_empty()
    );
    let keepalive = SyncMessage { reason: Reason::Keepalive, ..open(0) };
    assert_eq!(bench.told(0x33, 3, keepalive).src_qpn, Some(Qpn::new(0x55)));
}

#[test]
fn a_nak_below_acked_dissolves_the_pair() {
    let (mut bench, _) = Bench::paired(Recovery::Lr2, 0..20);
    bench.wan(ack(&inbound(), 0x11, 15));
    bench.assert_passes(Wan, &nak(&inbound(), 0x11, 5));
    assert_eq!(bench.count(Metric::FlowNewEpoch), 1);
    let sent = bench.lan(request(&outbound(), 0x22, 20));
    let (_, sync) = sent.iter().find_map(Sent::sync).expect("SYNC(open)");
    assert_eq!(sync.src_qpn, None);

    let mut bench = Bench::new(Recovery::Lr2);
    bench.sync(0x33, 1, SyncMessage { src_qpn: Some(Qpn::new(0x44)), ..open(0) });
    bench.arrive(0x33, 0..20);
    bench.lan(ack(&outbound(), 0x44, 15));
    bench.assert_passes(Lan, &nak(&outbound(), 0x44, 5));
    assert_eq!(bench.told(0x33, 2, open(20)).src_qpn, None);
}

#[test]
fn a_nak_that_the_depot_repairs_is_absorbed() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.sync(0x33, 1, SyncMessage { src_qpn: Some(Qpn::new(0x44)), ..open(0) });
    bench.arrive(0x33, [0, 1, 3]);
    let sent = bench.lan(nak(&outbound(), 0x44, 2));
    let acks = |sent: &[Sent]| {
        let is_cnp = |s: &Sent| s.roce().opcode == Opcode::CNP;
        let on = sent.iter().filter(|s| s.status().is_none() && s.side == Wan && !is_cnp(s));
        let aeth = |s: &Sent| s.roce().aeth(&s.bytes).expect("an ACK");
        on.map(|s| (s.roce().psn.get(), aeth(s).is_ack())).collect::<Vec<_>>()
    };
    assert!(sent.iter().any(|s| s.status().is_some()), "the Sentry is told");
    assert_eq!(acks(&sent), [(1, true)], "what it acknowledges goes on");
    let sent = bench.wan(request(&inbound(), 0x33, 2));
    assert_eq!(psns(&sent, Lan), [2, 3]);
    // The Depot resends the delivered packets.
    let sent = bench.lan(nak(&outbound(), 0x44, 3));
    assert_eq!((psns(&sent, Lan), acks(&sent)), (vec![3], vec![(2, true)]));
    assert_eq!(bench.count(Metric::DropNakAbsorbed), 1, "the newest one is kept");
}

/// They may as well be for another flow, whose packets passed before this box
/// was started.
#[test]
fn answers_to_what_was_never_seen_confirm_nothing() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.sends(0x22, 10..20);
    acks(&mut bench, &inbound(), [3, 5, 7, 9]);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
}

/// A source that goes back is seen to have sent less than it has: its own response rules nothing out, and
/// another flow with the same PSNs is not taken for it. R-PAIR-7
#[test]
fn a_source_that_has_just_gone_back_is_not_ruled_out() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.sends(0x22, 5..8);
    bench.sends(0x23, 0..20);
    bench.assert_passes(Wan, &ack(&inbound(), 0x11, 12)); // 0x22 sent it before it was seen.
    bench.wait(SPREAD);
    bench.sends(0x22, 8..20);
    acks(&mut bench, &inbound(), [13, 15, 17]);
    assert_eq!(bench.count(Metric::FlowPaired), 0, "both may be meant");
    bench.sends(0x22, 20..30);
    acks(&mut bench, &inbound(), [21, 23]);
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

#[test]
fn a_packet_that_was_overtaken_was_seen() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.sends(0x22, [12, 10, 11]);
    bench.wait(SPREAD);
    acks(&mut bench, &inbound(), [10, 11]);
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

/// Confirmations of one flow prove nothing for the next.
#[test]
fn another_candidate_has_to_be_confirmed_anew() {
    let mut bench = one_flow();
    acks(&mut bench, &other_port(), [1, 3]);
    bench.wan(ack(&other_port(), 0x11, 30)); // 0x22 has not sent it
    bench.sends(0x23, 0..40);
    acks(&mut bench, &other_port(), [31, 33]);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
    bench.wan(ack(&other_port(), 0x11, 35));
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

#[test]
fn a_flow_that_was_ruled_out_is_considered_again_in_its_next_incarnation() {
    const FAR: u32 = 1 << 22;
    let mut bench = one_flow();
    bench.wan(ack(&inbound(), 0x11, 30)); // not sent yet: not this flow's
    bench.sends(0x22, 20..40);
    acks(&mut bench, &inbound(), [31, 33]);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
    bench.sends(0x22, FAR..FAR + 20);
    acks(&mut bench, &inbound(), [FAR + 1, FAR + 3]);
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

/// The queue pair may have been given to somebody else during the pause, and
/// responses to its former owner are still on their way.
#[test]
fn answers_of_an_old_incarnation_confirm_nothing_in_the_next() {
    let mut bench = one_flow();
    bench.wait(Span::from_millis(1_000));
    bench.sends(0x22, 50..60);
    assert_eq!(bench.count(Metric::FlowNewEpoch), 1);
    acks(&mut bench, &inbound(), [1, 3, 5, 7]);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
}

// R-PASS-4
#[test]
fn what_a_damaged_packet_claims_to_have_sent_fits_no_answer() {
    let mut bench = one_flow();
    bench.sends(0x23, 0..10);
    bench.assert_passes(Lan, &damaged(request(&outbound(), 0x23, 300)));
    bench.wan(ack(&inbound(), 0x11, 5));
    bench.wait(SPREAD);
    bench.wan(ack(&inbound(), 0x11, 12)); // 0x23 has not sent it
    acks(&mut bench, &inbound(), [13, 14]);
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

#[test]
fn a_damaged_packet_does_not_dissolve_a_pair() {
    const FAR: u32 = 1 << 22;
    let (mut bench, epoch) = Bench::paired(Recovery::Lr2, 0..20);
    bench.assert_passes(Lan, &damaged(request(&outbound(), 0x22, FAR)));
    bench.wait(Span::from_millis(20));
    let sent = bench.timers();
    let (header, sync) = sent.iter().find_map(Sent::sync).expect("SYNC(tail)");
    assert_eq!((header.epoch, sync.src_qpn), (epoch, Some(Qpn::new(0x11))));
}

/// A NAK of one of two flows: neither may filter packets that it makes a source repeat.
// R-NAK-2
#[test]
fn what_a_nak_of_an_unknown_flow_may_ask_for_passes() {
    let mut bench = Bench::new(Recovery::Cached);
    let epoch = bench.protect(0x22, 0..20);
    bench.sends(0x23, 0..20);
    bench.status(0x22, epoch, report(0, 20, &[]));
    let repeat = |bench: &mut Bench, psn| bench.lan(request(&outbound(), 0x22, psn));
    assert_eq!(psns(&repeat(&mut bench, 5), Wan), [], "it is still under way");
    bench.assert_passes(Wan, &nak(&inbound(), 0x11, 5));
    assert_eq!(psns(&repeat(&mut bench, 4), Wan), [], "nor does anybody ask for it");
    for psn in 5..8 {
        assert_eq!(psns(&repeat(&mut bench, psn), Wan), [psn]);
    }
    assert_eq!(bench.count(Metric::FlowPaired), 0);
}

/// Where the destination is on the LAN, ten milliseconds are enough.
#[test]
fn answers_of_a_near_destination_need_not_outlast_the_long_haul_link() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.arrive(0x22, 0..20);
    bench.wait(Span::from_millis(10));
    bench.lan(ack(&outbound(), 0x11, 1));
    bench.wait(Span::from_millis(10));
    bench.lan(ack(&outbound(), 0x11, 3));
    assert_eq!(bench.count(Metric::FlowPaired), 1);
}

#[test]
fn answers_of_an_old_incarnation_confirm_nothing_at_the_depot_either() {
    let mut bench = Bench::new(Recovery::Lr2);
    bench.sync(0x22, 1, open(0));
    bench.arrive(0x22, 0..20);
    bench.sync(0x22, 2, open(50));
    for psn in [1, 3, 5, 7] {
        bench.lan(ack(&outbound(), 0x11, psn));
        bench.wait(SPREAD);
    }
    assert_eq!(bench.count(Metric::FlowPaired), 0);
}

/// So far back nothing of the flow can be acknowledged.
#[test]
fn an_answer_from_far_before_a_flow_rules_it_out() {
    const WINDOW_MAX: u32 = 1 << 19;
    let mut bench = one_flow();
    bench.wan(ack(&inbound(), 0x11, (1 << 24) - WINDOW_MAX - 1));
    acks(&mut bench, &inbound(), [5, 7, 9]);
    assert_eq!(bench.count(Metric::FlowPaired), 0);
}

/// A box that was just started may have missed the beginning of a READ
/// response: it inserts nothing until it knows.
#[test]
fn nothing_is_inserted_into_a_stream_of_which_the_past_is_unknown() {
    for (age, made) in [(999, vec![]), (1_000, vec![(0x11, 1)])] {
        let mut bench = Bench::new(Recovery::Lr2);
        bench.lan(request(&outbound(), 0x55, 0));
        bench.wait(Span::from_millis(age));
        let epoch = bench.protect(0x22, 0..4);
        let ack = LastAck { psn: Psn::new(1), syndrome: Aeth::ACK_UNLIMITED, msn: 2 };
        let status = Status { ack: Some(ack), src_qpn: Some(Qpn::new(0x11)), ..report(2, 4, &[]) };
        assert_eq!(naks(&bench.status(0x22, epoch, status)), made, "after {age} ms");
    }
}

/// Responses passed before it was known which flow they are for: the newest of them shows whether the source is in the middle of
/// a READ response message. A source whose window is full gets no other.
// R-PAIR-8
#[test]
fn a_response_that_passed_before_shows_where_its_stream_stands() {
    let answer = |bench: &mut Bench, epoch| {
        let ack = LastAck { psn: Psn::new(1), syndrome: Aeth::ACK_UNLIMITED, msn: 2 };
        let status = Status { ack: Some(ack), src_qpn: Some(Qpn::new(0x11)), ..report(2, 4, &[]) };
        naks(&bench.status(0x22, epoch, status))
    };
    let (ack, middle) = (ack(&inbound(), 0x11, 1), response(&inbound(), 0x11, 1));
    let cases = [(vec![&ack], true), (vec![&ack, &middle], false), (vec![&middle, &ack], true)];
    for (responses, is_known) in cases {
        let mut bench = Bench::new(Recovery::Lr2);
        let epoch = bench.protect(0x22, 0..4);
        for response in responses {
            bench.assert_passes(Wan, response);
        }
        let made = if is_known { vec![(0x11, 1)] } else { vec![] };
        assert_eq!(answer(&mut bench, epoch), made);
    }
    // A response of an incarnation before shows nothing of this one.
    let mut bench = Bench::new(Recovery::Lr2);
    let epoch = bench.protect(0x22, 0..4);
    bench.assert_passes(Wan, &ack);
    answer(&mut bench, epoch);
    let epoch = bench.protect(0x22, 1 << 20..(1 << 20) + 4);
    let ack = LastAck { psn: Psn::new((1 << 20) + 1), syndrome: Aeth::ACK_UNLIMITED, msn: 2 };
    let status = report((1 << 20) + 2, (1 << 20) + 4, &[]);
    let status = Status { ack: Some(ack), src_qpn: Some(Qpn::new(0x11)), ..status };
    assert_eq!(naks(&bench.status(0x22, epoch, status)), []);
}
