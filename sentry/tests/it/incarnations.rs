//! Where one incarnation of a queue pair ends and the next begins, and which timeouts
//! of the source are believed.

use common::control::{Epoch, LastAck, Reason};
use common::frame::Class::{Data, High};
use common::metrics::Metric;
use common::time::Span;
use common::wire::{Opcode, icrc, parse};
use sentry::Flow;
use sentry::Recovery::{Cached, Lr2};
use testkit::sentry::*;

/// A pause that may separate two incarnations.
const PAUSE: Span = Span::from_millis(100);
const NANO: Span = Span::from_nanos(1);

/// Ten packets have gone, three of them acknowledged; the next is 10.
fn ten() -> Bench {
    let mut bench = Bench::start(Cached);
    bench.config.pause = Some(PAUSE);
    bench.data(0..10);
    bench.status(0, 0, &[]);
    bench.ack(2, 3);
    bench.clear();
    bench
}

// R-INC-2
#[test]
fn a_pause_and_a_later_psn_are_a_new_incarnation() {
    for psn in [12, 11] {
        let mut bench = ten();
        bench.wait(PAUSE - NANO);
        bench.data([psn]);
        assert_eq!(bench.epoch(), 1, "no pause");
        let mut bench = ten();
        bench.wait(PAUSE);
        bench.data([psn]);
        assert_eq!(bench.epoch(), 2, "{psn}");
        assert!(!bench.flow.is_protected());
        assert_eq!(bench.out.src_qpn, None, "it may be another one");
        let did = bench.take();
        assert!(did.contains(&Did::Discard(9, Metric::DropReleased)), "nothing of it is kept");
        let announced = Did::Sync { reason: Reason::Open, next: Some(psn), class: Data };
        assert!(did.ends_with(&[announced, Did::Forward(psn, Data)]), "{did:?}");
    }
}

// R-INC-3
#[test]
fn a_pause_and_the_next_psn_are_the_same_incarnation_which_is_announced_again() {
    let mut bench = ten();
    bench.wait(PAUSE);
    bench.data([10, 11]);
    let open = Did::Sync { reason: Reason::Open, next: Some(10), class: Data };
    assert_eq!(bench.take(), [open, Did::Forward(10, Data), Did::Forward(11, Data)]);
    assert_eq!((bench.epoch(), bench.out.syncs[0].0.0), (1, 1));
    assert!(bench.flow.is_protected());
    bench.nak(2);
    assert_eq!(bench.epoch(), 2, "what was acknowledged is still known");
}

/// It may be another incarnation after all, whose messages are counted from zero.
#[test]
fn the_destination_that_asks_after_a_pause_tells_its_count_anew() {
    let mut bench = Bench::protected(Lr2, 10, Some(10));
    bench.wait(PAUSE);
    bench.data(10..13);
    bench.nak(10);
    bench.data(10..14);
    bench.status(13, 14, &[(13, 14)]);
    assert_eq!(bench.epoch(), 1);
    assert_eq!(bench.take().last(), Some(&Did::Nak { psn: 10, msn: 0 }));
}

#[test]
fn a_damaged_packet_after_a_pause_begins_nothing() {
    let mut bench = ten();
    bench.wait(PAUSE);
    bench.frame(damaged(write(12)));
    assert_eq!((bench.epoch(), bench.take()), (1, vec![Did::Forward(12, Data)]));
}

#[test]
fn answers_are_no_pause() {
    let mut bench = ten();
    bench.wait(PAUSE - NANO);
    bench.ack(3, 4);
    bench.wait(PAUSE - NANO);
    bench.data([12]);
    assert_eq!(bench.epoch(), 1);
}

#[test]
fn without_a_setting_a_pause_is_24_round_trips() {
    let mut bench = ten();
    bench.config.pause = None;
    bench.wait(RTT * 24 - NANO);
    bench.data([12]);
    assert_eq!(bench.epoch(), 1);
    bench.wait(RTT * 24);
    bench.data([14]);
    assert_eq!(bench.epoch(), 2);
}

/// Its knowledge of the path is as true as before.
#[test]
fn a_new_incarnation_knows_the_path_mtu() {
    let mut bench = ten();
    bench.wait(PAUSE);
    bench.frame(read(70, 1_000));
    assert!(!bench.flow.is_bypassed());
    assert_eq!(bench.epoch(), 2);
}

/// A source may time out after longer than any pause.
#[test]
fn a_pause_and_a_repeat_are_the_same_incarnation() {
    for psn in [9, 3, 2] {
        let mut bench = ten();
        bench.wait(PAUSE * 100);
        bench.data([psn]);
        assert_eq!((bench.epoch(), bench.flow.is_protected()), (1, true), "{psn}");
        assert_eq!(bench.forwarded().len(), 1);
    }
}

/// Another packet than the one that `write` makes.
fn other(n: i32) -> Vec<u8> {
    packet(Opcode::SEND_MIDDLE, n, false, 256)
}

// R-INC-4
#[test]
fn another_packet_with_a_number_in_flight_is_a_new_incarnation_whenever_it_comes() {
    for recovery in [Cached, Lr2] {
        let mut bench = Bench::protected(recovery, 10, Some(3));
        bench.frame(other(5));
        assert_eq!((bench.epoch(), bench.flow.is_protected()), (2, false));
        assert_eq!(bench.out.src_qpn, None, "it may be another one");
        let did = bench.take();
        let announced = Did::Sync { reason: Reason::Open, next: Some(5), class: Data };
        assert!(did.ends_with(&[announced, Did::Forward(5, Data)]), "{did:?}");
        assert_eq!(bench.cache.frames(), u64::from(recovery == Cached));
    }
}

/// A copy with another IPv4 identification, as Soft-RoCE makes them.
fn with_ip_id(mut frame: Vec<u8>, id: u16) -> Vec<u8> {
    frame[18..20].copy_from_slice(&id.to_be_bytes());
    let roce = parse(&frame).expect("a RoCEv2 frame");
    let crc = icrc(&frame, &roce).to_le_bytes();
    let at = frame.len() - crc.len();
    frame[at..].copy_from_slice(&crc);
    frame
}

// R-INC-8
#[test]
fn a_copy_may_ask_for_an_ack_and_have_another_ip_identification() {
    let mut bench = Bench::protected(Lr2, 10, Some(3));
    bench.frame(packet(Opcode::WRITE_MIDDLE, 5, true, 256));
    bench.frame(with_ip_id(write(6), 0x1234));
    bench.frame(with_ip_id(packet(Opcode::WRITE_MIDDLE, 7, true, 256), 0xffff));
    assert_eq!((bench.epoch(), bench.flow.is_protected()), (1, true));
    bench.frame(with_ip_id(other(8), 0x1234));
    assert_eq!(bench.epoch(), 2);
}

#[test]
fn a_damaged_packet_is_no_other() {
    let mut bench = Bench::protected(Cached, 10, Some(3));
    bench.frame(damaged(write(5)));
    assert_eq!(bench.epoch(), 1);
    // The first copy was the damaged one.
    bench.frame(damaged(write(10)));
    for _ in 0..3 {
        bench.data([10]);
        assert_eq!(bench.epoch(), 1);
    }
    bench.frame(other(10));
    assert_eq!(bench.epoch(), 2);
}

/// A source asks for the rest of a READ that was answered in part.
#[test]
fn the_rest_of_a_read_is_no_other_packet() {
    let mut bench = Bench::protected(Lr2, 10, Some(10));
    bench.frame(read(10, 4 * 256));
    bench.frame(read(12, 2 * 256));
    assert_eq!(bench.epoch(), 1);
    bench.data([12]);
    assert_eq!(bench.epoch(), 2);
}

/// Ten packets have gone, six of them acknowledged, and the source repeats the last of
/// those: the ACK was lost on its way to the source, or the queue pair has begun another
/// incarnation.
fn doubtful(recovery: sentry::Recovery) -> Bench {
    let mut bench = Bench::protected(recovery, 10, Some(6));
    bench.status(6, 10, &[(8, 9)]);
    bench.wait(PAUSE * 100);
    bench.clear();
    bench.data([5]);
    assert_eq!(bench.epoch(), 1, "time tells nothing");
    assert_eq!(bench.forwarded(), [(5, High)]);
    bench
}

/// PSN 8 is missing at the Depot. Whether it is repaired.
fn repairs(bench: &mut Bench) -> bool {
    bench.wait(UNDER_WAY);
    bench.clear();
    bench.status(6, 10, &[(8, 9)]);
    bench.take().iter().any(|did| matches!(did, Did::Forward(..) | Did::Nak { .. }))
}

// R-INC-5
#[test]
fn while_it_is_not_known_whether_an_incarnation_has_ended_all_is_left_to_the_rnics() {
    for recovery in [Cached, Lr2] {
        let mut bench = doubtful(recovery);
        assert!(!repairs(&mut bench), "{recovery:?}");
        bench.data([5]);
        assert_eq!(bench.forwarded(), [(5, High)], "nothing is filtered");
        // The source reaches a remembered PSN: its ACK was lost.
        bench.data([6]);
        bench.clear();
        assert!(repairs(&mut bench) || recovery == Lr2, "{recovery:?}");
        assert_eq!(bench.epoch(), 1);
    }
}

// R-INC-5
#[test]
fn a_damaged_repeat_raises_no_doubt() {
    let mut bench = Bench::protected(Cached, 10, Some(6));
    bench.frame(damaged(write(5)));
    assert!(repairs(&mut bench));
}

// R-INC-9
#[test]
fn doubt_ends_when_the_destination_acknowledges_what_was_sent_later() {
    let mut bench = doubtful(Cached);
    bench.data([10, 11]);
    bench.ack(9, 10);
    bench.wait(UNDER_WAY);
    bench.clear();
    bench.status(10, 12, &[(11, 12)]);
    assert!(bench.forwarded().is_empty(), "that may be of what was sent before");
    bench.ack(10, 11);
    bench.status(11, 12, &[(11, 12)]);
    assert_eq!(bench.forwarded(), [(11, High)]);
}

/// The other incarnation repeats its own packets as well. And that the Depot has delivered
/// them does not tell how many messages its destination has counted.
// R-INC-9
#[test]
fn what_was_sent_in_doubt_does_not_end_it() {
    let mut bench = doubtful(Lr2);
    bench.data([10, 11, 12]);
    bench.data([5, 10, 11, 12, 13]);
    bench.wait(UNDER_WAY);
    bench.status(12, 14, &[(12, 13)]);
    let ends = |did: &Did| matches!(did, Did::Nak { .. } | Did::Ack { .. });
    assert!(!bench.take().iter().any(ends));
    let ack = LastAck { psn: psn(10), syndrome: 0x1f, msn: 7 };
    bench.clear();
    bench.status_with(12, 14, &[(12, 13)], |status| status.ack = Some(ack));
    assert!(bench.take().contains(&Did::Ack { psn: 10, msn: 7 }), "that does");
}

// R-INC-6
#[test]
fn an_ack_that_takes_back_what_was_acknowledged_ends_an_incarnation_that_is_in_doubt() {
    let mut bench = Bench::protected(Cached, 10, Some(6));
    bench.wait(PAUSE * 100);
    bench.ack(2, 1);
    assert_eq!(bench.epoch(), 1, "it was overtaken");
    let mut bench = doubtful(Cached);
    bench.ack(5, 6);
    assert_eq!(bench.epoch(), 1);
    bench.ack(2, 1);
    assert_eq!((bench.epoch(), bench.answered()), (2, vec![5, 2]));
}

/// All packets of the next incarnation have PSNs that the one before has used. Its later packets
/// are new, and cached.
// R-INC-17
#[test]
fn an_incarnation_behind_the_one_before_continues_where_its_source_is() {
    for nak in [false, true] {
        let mut bench = Bench::protected(Cached, 600, Some(600));
        bench.wait(PAUSE * 100);
        bench.data(100..110);
        assert_eq!(bench.epoch(), 1, "the source may lack the ACK");
        if nak {
            bench.nak(104)
        } else {
            bench.ack(103, 1)
        }
        assert_eq!(bench.epoch(), 2);
        bench.clear();
        bench.data([110, 111]);
        bench.clear();
        bench.status(110, 112, &[(110, 111)]);
        assert_eq!(bench.forwarded(), [(110, High)], "nak: {nak}");
    }
}

/// A STATUS travels in the high class, and tells of an ACK that is behind the NAK.
// R-INC-7
#[test]
fn a_nak_that_a_status_overtook_revokes_nothing() {
    let mut bench = Bench::protected(Cached, 10, Some(3));
    let ack = LastAck { psn: psn(5), syndrome: 0x1f, msn: 6 };
    bench.status_with(6, 10, &[], |status| status.ack = Some(ack));
    bench.nak(4);
    assert_eq!(bench.epoch(), 1);
    bench.nak(2);
    assert_eq!(bench.epoch(), 2, "a response acknowledged it");
}

/// The source rewinds because of a NAK, and a STATUS tells meanwhile that the destination has it.
// R-INC-5
#[test]
fn what_a_nak_has_just_asked_for_is_in_no_doubt() {
    // Where the round trip is a guess, the queue pair may have been connected anew.
    for (pause, is_measured, is_repaired) in
        [(Span::ZERO, true, true), (RTT * 2, true, false), (Span::ZERO, false, false)]
    {
        let mut bench = Bench::protected(Cached, 10, Some(3));
        let sent = bench.now;
        bench.wait(RTT);
        bench.status_with(3, 10, &[], |status| {
            if is_measured {
                status.echo = sent;
            }
        });
        bench.nak(3);
        let ack = LastAck { psn: psn(5), syndrome: 0x1f, msn: 6 };
        bench.status_with(6, 10, &[], |status| status.ack = Some(ack));
        bench.wait(pause);
        bench.data([3]);
        assert_eq!(repairs(&mut bench), is_repaired, "{pause:?} after the NAK, {is_measured}");
        assert_eq!(bench.epoch(), 1);
    }
}

/// The source has rewound, and an ACK passes the repeats that are on their way here.
// R-INC-5
#[test]
fn what_continues_a_pass_is_in_no_doubt() {
    let mut bench = Bench::protected(Lr2, 10, Some(3));
    bench.status(7, 10, &[(7, 8)]);
    assert_eq!(bench.naks(), [3]);
    bench.data(3..5);
    bench.ack(6, 7);
    bench.data(5..10);
    assert_eq!(bench.forwarded(), [(7, High)]);
    assert_eq!(bench.epoch(), 1);
}

/// Held responses may be of the incarnation before.
#[test]
fn in_doubt_no_answer_waits() {
    let mut bench = reading();
    come(&mut bench, [2, 3]);
    assert_eq!(bench.pool.frames(), 2);
    bench.data([0]);
    assert_eq!(bench.pool.frames(), 0);
    assert_eq!(bench.count(Metric::DropAskedAgain), 2);
    come(&mut bench, [4]);
    assert_eq!(bench.pool.frames(), 0);
}

const LONG: Span = Span::from_millis(40);

/// Ten packets have just gone onto a path of 40 ms.
fn long_path() -> Bench {
    let mut bench = Bench::start(Lr2);
    bench.config.rtt_guess = LONG;
    bench.flow = Flow::new(&bench.config, bench.now, Epoch(1), FIRST);
    bench.data(0..10);
    bench.status(0, 0, &[]);
    bench.clear();
    bench
}

/// NICs with adaptive retransmission resend after 2, 4, 8 ms, with any
/// round trip.
// R-FILTER-11
#[test]
fn spurious_timeouts_do_not_cross_the_link_and_real_ones_do() {
    let mut bench = long_path();
    let start = bench.now;
    for at in [2, 6, 14, 30, 44] {
        bench.now = start + Span::from_millis(at);
        bench.data(0..10);
        assert_eq!(bench.forwarded(), [], "after {at} ms");
    }
    assert_eq!(bench.count(Metric::PassTimeout), 5);
    assert_eq!(bench.count(Metric::DropSpurious), 50);
    bench.now = start + Span::from_millis(45);
    bench.data(0..10);
    assert_eq!(bench.forwarded(), (0..10).map(|n| (n, High)).collect::<Vec<_>>());
    // They are under way again.
    bench.wait(LONG);
    bench.data(0..10);
    assert_eq!(bench.forwarded(), []);
}

/// Timeouts within one round trip prove nothing: only one of them counts
/// towards those after which everything passes.
// R-FILTER-7
#[test]
fn fruitless_passes_count_once_per_round_trip() {
    let mut bench = long_path();
    bench.status(0, 10, &[(0, 1)]); // so 1..10 may be dropped for ever
    bench.clear();
    let start = bench.now;
    let others = |bench: &mut Bench| {
        bench.data(0..10);
        bench.forwarded().iter().filter(|(n, _)| *n > 0).count()
    };
    for at in 0..90 {
        bench.now = start + Span::from_millis(at);
        assert_eq!(others(&mut bench), 0, "after {at} ms");
    }
    bench.now = start + Span::from_millis(90);
    assert_eq!(others(&mut bench), 9, "the third");
}
