//! NAKs of the destination: answered by the Depot, or by the source.

use common::budget::Budget;
use common::control::Reason;
use common::metrics::Metric;
use common::time::Span;
use common::wire::{Aeth, Opcode, Qpn};
use testkit::depot::*;

const NANO: Span = Span::from_nanos(1);

/// A flow whose first packet arrived, and its third, which the Depot delivers as a probe.
fn probed() -> Bench {
    let mut bench = Bench::default();
    bench.out.src_qpn = Some(Qpn::new(0x77));
    bench.config.keeps_responses = false;
    bench.sync(LIFE, Reason::Open, 0);
    bench.data([0, 2]);
    bench
}

// R-NAK-14
#[test]
fn a_nak_for_what_was_delivered_is_answered_from_here() {
    let mut bench = Bench::paired();
    bench.data(1..10);
    bench.clear();
    assert_eq!(bench.nak(4), Became::Absorb);
    assert_eq!(bench.delivered(), (4..10).collect::<Vec<_>>(), "all from it on, in order");
    assert_eq!(bench.out.acks, [(3, 3)], "what it acknowledges goes on, with its MSN");
    assert!(bench.out.responses.is_empty());
    assert_eq!((bench.count(Metric::LocalNak), bench.backup.frames()), (6, 6));
    assert_eq!(bench.count(Metric::NakAtOnce), 0);
    // The destination is satisfied: nothing is left of the NAK.
    let _ = bench.ack(9);
    assert_eq!(bench.out.discarded.last(), Some(&(9, Metric::DropReleased)));
    assert!(bench.out.discarded.contains(&(4, Metric::DropNakAbsorbed)));
    assert_eq!((bench.pool.frames(), bench.backup.frames()), (0, 0));
    bench.run_timers(bench.now + T_OUT * 100);
    assert!(bench.delivered().is_empty());
}

#[test]
fn a_nak_that_acknowledges_nothing_new_makes_no_ack() {
    let mut bench = Bench::paired();
    bench.data(1..4);
    assert_eq!(bench.nak(1), Became::Absorb);
    assert!(bench.out.acks.is_empty());
}

// R-NAK-16
#[test]
fn a_nak_for_what_is_not_held_goes_on() {
    let mut bench = Bench::synced();
    bench.backup = Budget::new(0);
    bench.data(1..4);
    assert_eq!(bench.backup.frames(), 0);
    assert_eq!(bench.nak(2), Became::Forward);
    assert_eq!(bench.count(Metric::NakAtOnce), 1);
    // Later packets are.
    bench.backup = Budget::new(PLENTY);
    bench.out.src_qpn = Some(Qpn::new(0x77));
    bench.data(2..6);
    assert_eq!(bench.nak(4), Became::Absorb);
    // Delivered while nobody protected the flow.
    let mut bench = Bench::default();
    bench.out.src_qpn = Some(Qpn::new(0x77));
    bench.data(0..4);
    assert_eq!(bench.nak(2), Became::Forward);
}

#[test]
fn what_is_drained_is_kept_too() {
    let mut bench = Bench::paired();
    bench.data([1, 3, 4, 2]);
    bench.clear();
    assert_eq!(bench.nak(2), Became::Absorb);
    assert_eq!(bench.delivered(), [2, 3, 4]);
}

#[test]
fn a_nak_that_no_resend_satisfies_goes_on_when_the_retries_are_used_up() {
    let mut bench = Bench::paired();
    bench.data(1..4);
    assert_eq!(bench.nak(2), Became::Absorb);
    bench.clear();
    let start = bench.now;
    // The port before the destination may be paused: each
    // time it is given twice as long.
    for due in [1, 3] {
        bench.run_timers(start + T_OUT * due - NANO);
        assert_eq!(bench.delivered(), []);
        bench.run_timers(start + T_OUT * due);
        assert_eq!(bench.delivered(), [2, 3]);
    }
    bench.run_timers(start + T_OUT * 7 - NANO);
    assert!(bench.out.responses.is_empty());
    bench.run_timers(start + T_OUT * 7);
    assert_eq!(bench.out.responses.len(), 1);
    assert_eq!((bench.out.responses[0].0, bench.out.responses[0].1), (Opcode::ACK, 2));
    assert_eq!(bench.count(Metric::NakAfterGiveUp), 1);
    assert!(bench.delivered().is_empty());
}

#[test]
fn a_nak_for_a_gap_goes_on_when_the_gap_is_given_up() {
    let mut bench = Bench::paired();
    bench.data([2]);
    assert_eq!(bench.nak(1), Became::Absorb);
    bench.run_timers(bench.now + GIVE_UP - NANO);
    assert!(bench.out.responses.is_empty());
    bench.run_timers(bench.now + NANO);
    assert_eq!(bench.out.responses.len(), 1);
    assert_eq!(bench.count(Metric::NakAfterGiveUp), 1);
}

// R-NAK-16, R-GAP-13
#[test]
fn a_gap_that_a_nak_opens_again_is_open_for_give_up_from_then_on() {
    let mut bench = Bench::synced();
    bench.backup = Budget::new(0);
    bench.data(1..4);
    bench.wait(GIVE_UP - NANO);
    assert_eq!(bench.nak(2), Became::Forward);
    let opened = bench.now;
    bench.run_timers(opened + GIVE_UP - NANO);
    assert_eq!(bench.count(Metric::GapsGivenUp), 0);
    bench.run_timers(opened + GIVE_UP);
    assert_eq!(bench.count(Metric::GapsGivenUp), 1);
}

/// A repeated NAK may meet the source's next incarnation.
// R-NAK-19
#[test]
fn a_nak_that_went_on_is_not_repeated() {
    let mut bench = Bench::synced();
    bench.backup = Budget::new(0);
    bench.data(1..4);
    assert_eq!(bench.nak(2), Became::Forward);
    bench.run_timers(bench.now + RTT * 20);
    assert_eq!((bench.out.responses.len(), bench.pool.frames()), (1, 0));
}

#[test]
fn an_error_goes_on_and_changes_nothing() {
    let mut bench = Bench::paired();
    bench.data(1..4);
    let refused = plain_response(2, Aeth::NAK_REMOTE_ACCESS, 3);
    assert_eq!(bench.respond(refused), Became::Forward);
    assert_eq!(bench.backup.frames(), 3);
}

#[test]
fn when_a_gap_fills_the_destination_is_given_the_time_to_say_so() {
    let mut bench = probed();
    assert_eq!(bench.nak(1), Became::Absorb);
    bench.wait(RTT);
    bench.data([1]);
    bench.clear();
    bench.run_timers(bench.now + T_OUT - NANO);
    assert!(bench.delivered().is_empty(), "1 and 2 have only just been delivered");
    assert!(bench.out.responses.is_empty());
    let _ = bench.ack(2);
    bench.run_timers(bench.now + T_OUT * 10);
    assert!(bench.delivered().is_empty());
}

// R-NAK-15
#[test]
fn a_nak_that_a_probe_brought_too_late_resends_nothing() {
    let mut bench = probed();
    bench.data([3, 1]);
    bench.clear();
    assert_eq!(bench.nak(1), Became::Absorb);
    assert!(bench.delivered().is_empty(), "1 to 3 are on their way");
    assert_eq!(bench.out.acks, [(0, 3)], "what it acknowledges goes on");
    assert_eq!(bench.nak(1), Became::Absorb);
    assert_eq!(bench.delivered(), [1, 2, 3], "the next one is not of the probe");
    let _ = bench.ack(3);
}

/// Nothing more comes of the ignored NAK: its PSN is acknowledged,
/// or resent by the timer of a packet that requests an ACK.
#[test]
fn what_a_probes_nak_asks_for_has_its_own_timer() {
    let mut bench = probed();
    bench.data([1]); // lost behind the Depot
    bench.frame(asking(3));
    assert_eq!(bench.nak(1), Became::Absorb);
    bench.clear();
    bench.run_timers(bench.now + T_OUT);
    assert_eq!(bench.delivered(), [1, 3]);
}

/// It would end the queue pair there.
#[test]
fn an_absorbed_nak_goes_on_only_between_messages() {
    let mut bench = Bench::synced();
    bench.frame(read(1, 4));
    bench.data([5, 7]);
    assert_eq!(bench.nak(6), Became::Absorb);
    let _ = bench.respond(response(1));
    let since = bench.now;
    bench.run_timers(since + GIVE_UP / 2);
    bench.sync(LIFE, Reason::Keepalive, 8); // the Sentry lives
    bench.run_timers(since + GIVE_UP);
    let opcodes = |bench: &Bench| bench.out.responses.iter().map(|a| a.0).collect::<Vec<_>>();
    assert_eq!(opcodes(&bench), [Opcode::READ_RESPONSE_MIDDLE], "it waits");
    let _ = bench.respond(packet(Opcode::READ_RESPONSE_LAST, 4, false, 260));
    bench.run_timers(bench.now + GIVE_UP);
    assert_eq!(opcodes(&bench).last(), Some(&Opcode::ACK), "but then it goes on");
}

/// The destination did not acknowledge the READ, but answered it; that response
/// was lost.
// R-NAK-17
#[test]
fn no_ack_is_made_for_a_read_or_an_atomic() {
    for (request, next) in [(read(1, 4), 5), (packet(Opcode::FETCH_ADD, 1, false, 28), 2)] {
        let mut bench = Bench::paired();
        bench.frame(request);
        bench.data(next..next + 3);
        bench.clear();
        assert_eq!(bench.nak(next), Became::Forward, "only it says what it means");
        assert!(bench.out.acks.is_empty(), "an ACK would complete it without its data");
        bench.sync(LIFE, Reason::Tail, next + 3);
        let ack = bench.statuses().pop().and_then(|status| status.ack).expect("that of packet 0");
        assert_eq!(ack.psn, psn(0));
    }
}

#[test]
fn a_destination_that_is_not_ready_takes_its_nak_back() {
    let mut bench = Bench::paired();
    bench.data(1..5);
    assert_eq!(bench.nak(3), Became::Absorb);
    assert_eq!(bench.rnr(3), Became::Forward);
    assert_eq!((bench.pool.frames(), bench.backup.frames()), (0, 0));
    bench.clear();
    bench.run_timers(bench.now + T_OUT * 20);
    assert!(bench.out.responses.is_empty() && bench.delivered().is_empty());
}

/// Of a packet that is not kept it isn't known whether it was a READ.
#[test]
fn no_ack_is_made_for_what_is_not_kept() {
    let mut bench = Bench::paired();
    bench.backup = Budget::new(0);
    bench.data([1, 2, 4]);
    bench.clear();
    assert_eq!(bench.nak(3), Became::Absorb);
    assert_eq!(bench.out.acks, []);
    assert_eq!(bench.nacks(), [[(3, 4)]]);
}

#[test]
fn a_gap_before_which_the_depot_goes_back_becomes_a_larger_one() {
    let mut bench = Bench::paired();
    bench.backup = Budget::new(0);
    bench.data([1, 2, 3, 5]);
    bench.clear();
    assert_eq!(bench.nak(2), Became::Forward);
    assert_eq!(bench.nacks(), [[(2, 5)]]);
}
