//! New packets, gaps before the Sentry, ACKs, and the incarnations of a flow.

use common::control::{Epoch, Reason, Status};
use common::frame::Class::{Data, High};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Opcode;
use sentry::Recovery::{Auto, Cached, Lr2};
use testkit::sentry::*;

// R-PEER-1, R-PSN-2
#[test]
fn new_packets_go_on_in_order_behind_a_sync_that_announces_them() {
    let mut bench = Bench::start(Lr2);
    bench.data(0..3);
    let announced = Did::Sync { reason: Reason::Open, next: Some(0), class: Data };
    let forward = |n| Did::Forward(n, Data);
    assert_eq!(bench.take(), [announced, forward(0), forward(1), forward(2)]);
    assert_eq!(bench.count(Metric::SentryNew), 3);
}

#[test]
fn a_packet_that_is_ahead_passes_where_no_nak_can_be_made_and_the_gap_before_it_is_lost() {
    let mut bench = Bench::protected(Lr2, 1, None);
    bench.data([4]);
    let lost = Did::Sync { reason: Reason::Lost, next: Some(5), class: Data };
    assert_eq!(bench.take(), [Did::Forward(4, Data), lost]);
    assert_eq!(bench.count(Metric::SentryAhead), 1);
    // Nobody has a copy of it: the source is asked.
    bench.ack(0, 1);
    bench.status(1, 5, &[(1, 4)]);
    assert_eq!(bench.naks(), [1]);
    // A packet that was never sent is not under way: the repeats pass.
    bench.data(1..5);
    assert_eq!(bench.forwarded(), [(1, High), (2, High), (3, High)]);
}

/// Right after its start a box's clock may stand near its origin.
#[test]
fn a_gap_is_not_under_way_just_because_the_clock_began_a_moment_ago() {
    let mut bench = Bench::start(Lr2);
    bench.now = Time::from_nanos(1_000);
    bench.flow = sentry::Flow::new(&bench.config, bench.now, Epoch(1), FIRST);
    bench.data([0, 2]);
    bench.status(0, 0, &[]);
    bench.clear();
    bench.data([1]);
    assert_eq!(bench.forwarded(), [(1, High)]);
}

#[test]
fn unprotected_repeats_pass_in_order() {
    for recovery in [Lr2, Cached, Auto] {
        let mut bench = Bench::start(recovery);
        bench.data([0, 1, 2, 0, 1, 2, 3]);
        let forwarded = bench.forwarded();
        assert_eq!(forwarded, [0, 1, 2, 0, 1, 2, 3].map(|n| (n, Data)));
        assert_eq!(bench.count(Metric::SentryUnprotected), 3);
    }
}

#[test]
fn a_damaged_packet_that_is_ahead_passes_but_is_not_believed() {
    let mut bench = Bench::protected(Lr2, 2, None);
    bench.frame(damaged(write(40)));
    assert_eq!(bench.forwarded(), [(40, Data)]);
    assert_eq!(bench.count(Metric::PassedBadIcrc), 1);
    bench.data([2]);
    assert_eq!(bench.count(Metric::SentryNew), 3, "2 is still new");
    assert_eq!(bench.count(Metric::SentryAhead), 0);
}

#[test]
fn a_damaged_leap_begins_no_new_incarnation() {
    let mut bench = Bench::protected(Lr2, 2, None);
    for leap in [WINDOW_MAX as i32 + 3, -(WINDOW_MAX as i32)] {
        bench.frame(damaged(write(leap)));
        assert_eq!(bench.forwarded(), [(leap, Data)]);
        assert_eq!(bench.epoch(), 1);
        assert!(bench.flow.is_protected());
    }
}

// R-INC-1
#[test]
fn a_leap_of_the_psn_begins_a_new_incarnation() {
    let far = WINDOW_MAX as i32;
    for leap in [2 + far + 1, 2 - far - 1] {
        let mut bench = Bench::protected(Cached, 2, Some(1));
        bench.data([leap]);
        assert_eq!(bench.epoch(), 2);
        assert!(!bench.flow.is_protected(), "the Depot knows nothing of it");
        let did = bench.take();
        assert!(did.contains(&Did::Discard(1, Metric::DropReleased)), "{did:?}");
        assert!(did.contains(&Did::Sync { reason: Reason::Open, next: Some(leap), class: Data }));
        assert!(did.contains(&Did::Forward(leap, Data)));
        assert_eq!(bench.out.syncs[0].0.0, 2, "the SYNC speaks of the new incarnation");
        assert_eq!(bench.out.syncs[0].1.src_qpn, None, "whose requester is unknown");
    }
    for no_leap in [2 + far, 2 - far] {
        let mut bench = Bench::protected(Cached, 2, Some(1));
        // A READ: so many others would be left to the RNICs.
        bench.frame(read(no_leap, 256));
        assert_eq!(bench.epoch(), 1);
        assert!(bench.flow.is_protected());
    }
}

// R-INC-7
#[test]
fn a_nak_below_acked_begins_a_new_incarnation() {
    let mut bench = Bench::protected(Cached, 8, Some(5));
    bench.nak(5);
    assert_eq!(bench.epoch(), 1, "acknowledging again is no contradiction");
    bench.nak(4);
    assert_eq!(bench.epoch(), 2);
    assert!(!bench.flow.is_protected());
    assert_eq!(bench.cache.frames(), 0);
}

#[test]
fn a_nak_for_what_was_never_sent_proves_nothing() {
    let mut bench = Bench::protected(Lr2, 4, Some(1));
    bench.nak(5);
    bench.data([4]);
    assert_eq!(bench.out.syncs.len(), 0);
    bench.nak(1);
    assert_eq!(bench.epoch(), 1, "it revokes nothing");
}

// R-ACK-2
#[test]
fn an_ack_for_what_was_never_sent_proves_nothing() {
    let mut bench = Bench::protected(Cached, 4, None);
    bench.ack(4, 1);
    assert_eq!(bench.cache.frames(), 4);
    bench.ack(3, 1);
    assert_eq!(bench.cache.frames(), 0, "but one for the newest packet does");
}

#[test]
fn an_older_ack_takes_nothing_back() {
    let mut bench = Bench::protected(Lr2, 8, Some(5));
    bench.ack(2, 1);
    bench.status(6, 8, &[(6, 7)]);
    assert_eq!(bench.take(), [Did::Nak { psn: 5, msn: 5 }]);
}

// R-READ-1
#[test]
fn a_read_whose_psns_cannot_be_told_leaves_the_flow_to_the_rnics() {
    let single = |n| packet(Opcode::WRITE_ONLY, n, true, 64);
    let mut bench = Bench::start(Cached);
    (0..4).for_each(|n| bench.frame(single(n)));
    bench.status(0, 0, &[]);
    bench.ack(0, 1);
    bench.clear();
    bench.frame(read(4, 257)); // no packet was full: the path MTU is unknown
    let did = bench.take();
    assert!(did.contains(&Did::Sync { reason: Reason::Release, next: Some(4), class: Data }));
    assert_eq!(did.last(), Some(&Did::Forward(4, Data)));
    assert!(bench.flow.is_bypassed() && !bench.flow.is_protected());
    assert_eq!(bench.cache.frames(), 0, "nothing is kept");
    let status = Status::passive(Time::ZERO, None);
    assert!(bench.with(|flow, cx| flow.on_status(cx, BOOT, &status)));
    assert_eq!(bench.deadline(), Time::NEVER, "the Depot knows");
    // From now on it is a wire.
    assert!(bench.status(4, 5, &[]));
    bench.nak(0);
    [5, 0, 1, 6].into_iter().for_each(|n| bench.frame(single(n)));
    assert_eq!(bench.take(), [5, 0, 1, 6].map(|n| Did::Forward(n, Data)));
    assert_eq!(bench.epoch(), 1);
}

/// A Depot that never heard of the flow has nothing to release.
#[test]
fn a_flow_that_begins_with_a_long_read_says_nothing() {
    let mut bench = Bench::start(Lr2);
    bench.frame(read(0, 4_096));
    assert_eq!(bench.take(), [Did::Forward(0, Data)]);
}

/// A flow without protection must not cost a checksum per packet, nor come to
/// look like another incarnation after `window_max` packets.
#[test]
fn a_bypassed_flow_stays_bypassed_and_its_packets_unread() {
    let mut bench = Bench::start(Lr2);
    let single = |n| packet(Opcode::WRITE_ONLY, n, false, 64);
    bench.frame(read(0, 4_096));
    (1..3 * WINDOW_MAX as i32).for_each(|n| bench.frame(single(n)));
    assert!(bench.flow.is_bypassed());
    assert_eq!(bench.epoch(), 1);
    bench.frame(damaged(single(3 * WINDOW_MAX as i32)));
    assert_eq!(bench.count(Metric::PassedBadIcrc), 0, "the next packet is no surprise");
}

#[test]
fn more_packets_than_the_window_push_out_the_oldest() {
    let mut bench = Bench::start(Cached);
    let n = WINDOW_MAX as i32 + 10;
    bench.data(0..n);
    assert_eq!(bench.cache.frames(), WINDOW_MAX);
    bench.status(0, n, &[(0, n)]);
    let resent = bench.forwarded().into_iter().filter(|(_, class)| *class == High).count();
    assert_eq!(resent as u64, WINDOW_MAX);
}

// R-READ-3
#[test]
fn the_path_mtu_is_learned_from_full_packets() {
    let mut bench = Bench::start(Lr2);
    bench.data([0]);
    bench.wait(Span::from_millis(1));
    bench.timer();
    assert_eq!(bench.out.syncs.last().map(|(_, sync)| sync.pmtu), Some(256));
}
