//! Loss between the Depot and the destination is repaired from here.

use common::budget::Budget;
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::{Opcode, Qpn};
use testkit::depot::*;

const NANO: Span = Span::from_nanos(1);

/// A flow with a known requester that has delivered these packets. The destination acknowledges none of
/// them; the last one asks for a response.
fn unanswered(last: i32) -> Bench {
    let mut bench = Bench::paired();
    bench.data(1..last);
    bench.frame(asking(last));
    bench.clear();
    bench
}

// R-NAK-18
#[test]
fn what_asks_for_an_answer_and_gets_none_is_resent_with_the_oldest() {
    let mut bench = unanswered(3);
    bench.data([4, 5]); // they don't ask
    bench.clear();
    let mut at = bench.now + T_OUT;
    for patience in [T_OUT * 2, T_OUT * 4] {
        bench.assert_delivers(at, &[1, 3]);
        at += patience;
    }
    assert_eq!(bench.count(Metric::LocalTimeout), 4);
    // That were two retries.
    bench.run_timers(at - NANO);
    assert_eq!(bench.backup.frames(), 5);
    bench.run_timers(at);
    assert_eq!((bench.count(Metric::LocalExhausted), bench.backup.frames()), (1, 0));
    bench.run_timers(bench.now + GIVE_UP);
    assert!(bench.delivered().is_empty(), "from now on the source has to find out");
}

#[test]
fn an_answer_ends_the_wait_and_gives_all_retries_back() {
    let mut bench = unanswered(3);
    bench.frame(asking(4));
    bench.clear();
    bench.run_timers(bench.now + T_OUT * 3);
    assert_eq!(bench.delivered(), [1, 4, 1, 4]);
    let _ = bench.ack(3);
    // 3 was sent once, and so were all before it that have arrived: responses take that long.
    bench.assert_delivers(bench.now + T_OUT, &[4]);
    bench.assert_delivers(bench.now + T_OUT * 2, &[4]);
    let _ = bench.ack(4);
    // To which of three copies that was isn't known: the time stays doubled twice.
    bench.frame(asking(5));
    bench.clear();
    bench.assert_delivers(bench.now + T_OUT * 4, &[5]);
    let _ = bench.ack(5);
    bench.run_timers(bench.now + T_OUT * 20);
    assert_eq!((bench.delivered(), bench.backup.frames()), (vec![], 0));
}

#[test]
fn what_does_not_ask_is_not_waited_for() {
    let mut bench = Bench::paired();
    bench.data(1..5);
    bench.clear();
    bench.run_timers(bench.now + GIVE_UP);
    assert!(bench.delivered().is_empty());
    assert_eq!(bench.backup.frames(), 4);
}

#[test]
fn the_time_it_is_given_follows_the_measured_round_trip() {
    for (answered, t_out) in [
        // The first sample counts half as much as its deviation, which counts four times.
        (Span::from_millis(3), Span::from_millis(9)),
        (Span::from_micros(10), Span::from_micros(500)), // at least
    ] {
        let mut bench = Bench::paired();
        bench.config.t_out = None;
        bench.frame(asking(1));
        bench.wait(answered);
        let _ = bench.ack(1);
        bench.frame(asking(2));
        bench.clear();
        bench.assert_delivers(bench.now + t_out, &[2]);
        // A response now may be to either copy: it measures nothing, and the time stays
        // doubled.
        bench.wait(Span::from_nanos(50));
        let _ = bench.ack(2);
        bench.frame(asking(3));
        bench.clear();
        bench.assert_delivers(bench.now + t_out * 2, &[3]);
        // The response to a packet that was sent once sets it right.
        let _ = bench.ack(3);
        bench.frame(asking(4));
        bench.wait(answered);
        let _ = bench.ack(4);
        bench.frame(asking(5));
        bench.clear();
        bench.run_timers(bench.now + t_out);
        assert_eq!(bench.delivered(), [5], "{t_out:?}");
    }
}

// R-ORDER-16
#[test]
fn a_full_pool_forgets_the_oldest_first() {
    let mut bench = Bench::paired();
    bench.backup = Budget::new(3);
    bench.data(1..7);
    assert_eq!((bench.backup.frames(), bench.count(Metric::BackupFull)), (3, 3));
    bench.clear();
    assert_eq!(bench.nak(4), Became::Absorb);
    assert_eq!(bench.delivered(), [4, 5, 6], "the rest has no gap");
    let mut bench = Bench::paired();
    bench.backup = Budget::new(3);
    bench.data(1..7);
    bench.clear();
    assert_eq!(bench.nak(3), Became::Forward, "released");
    assert_eq!(bench.nacks(), [[(3, 4)]], "the rest waits for it");
    bench.data([3]);
    assert_eq!(bench.delivered(), [3, 4, 5, 6]);
}

#[test]
fn without_any_room_all_passes() {
    let mut bench = Bench::paired();
    bench.backup = Budget::new(0);
    bench.frame(asking(1));
    bench.data([2]);
    assert_eq!(bench.delivered(), [1, 2]);
    bench.run_timers(bench.now + T_OUT);
    assert_eq!(bench.count(Metric::LocalExhausted), 1);
    assert_eq!(bench.nak(1), Became::Forward);
    assert!(bench.delivered().is_empty());
}

/// After an RNR NAK only the source may send the packet again, and only after the
/// RNR delay.
// R-NAK-12
#[test]
fn an_rnr_nak_empties_the_pool_and_is_silence_from_here() {
    let mut bench = unanswered(4);
    assert_eq!(bench.rnr(2), Became::Forward);
    assert_eq!(bench.backup.frames(), 0);
    bench.data([5]); // was under way
    bench.frame(asking(6));
    bench.clear();
    bench.run_timers(bench.now + T_OUT * 40);
    assert!(bench.delivered().is_empty());
    // The source comes again.
    bench.data(2..7);
    assert_eq!(bench.delivered(), (2..7).collect::<Vec<_>>());
    let _ = bench.ack(6);
    bench.frame(asking(7));
    bench.clear();
    bench.run_timers(bench.now + T_OUT);
    assert_eq!(bench.delivered(), [7], "and all is as before");
}

#[test]
fn a_read_request_is_one_packet_with_its_psns() {
    let mut bench = Bench::paired();
    bench.data([1]);
    bench.frame(read(2, 4));
    bench.data([6, 7]);
    bench.clear();
    assert_eq!(bench.backup.frames(), 4);
    assert_eq!(bench.nak(2), Became::Absorb);
    assert_eq!(bench.delivered(), [2, 6, 7]);
    // It asks for a response, and its responses are one.
    bench.run_timers(bench.now + T_OUT);
    assert_eq!(bench.delivered().first(), Some(&2));
    let _ = bench.respond(response(2));
    assert_eq!(bench.backup.frames(), 2, "it has begun to answer");
    let _ = bench.ack(5);
    assert_eq!(bench.nak(6), Became::Absorb);
}

#[test]
fn what_went_past_a_gap_is_not_in_order() {
    let mut bench = Bench::paired();
    bench.data([1, 2, 4, 5]);
    bench.run_timers(bench.now + GIVE_UP / 2);
    // The Sentry is there.
    bench.sync_resent(LIFE);
    bench.run_timers(bench.now + GIVE_UP / 2);
    assert_eq!(bench.delivered(), [1, 2, 4, 5]);
    assert_eq!(bench.backup.frames(), 0);
    assert_eq!(bench.nak(3), Became::Forward);
    assert!(bench.delivered().is_empty());
    bench.data([6, 7]);
    assert_eq!(bench.nak(6), Became::Absorb, "from here on it is again");
}

// R-INC-16
#[test]
fn silence_ends_it_all() {
    let mut bench = unanswered(3);
    bench.config.t_out = Some(PAUSE * 2);
    bench.run_timers(bench.now + PAUSE - NANO);
    assert_eq!(bench.backup.frames(), 3);
    bench.run_timers(bench.now + NANO);
    assert_eq!((bench.backup.frames(), bench.backup.used()), (0, 0));
    assert!(!bench.flow.is_synced() && bench.deadline() == Time::NEVER);
    assert_eq!(bench.count(Metric::FlowReset), 1);
}

/// The source repeats a delivered packet. If it isn't the same packet, the
/// queue pair may be in its next incarnation.
// R-INC-11, R-ORDER-3
#[test]
fn nothing_is_resent_once_the_source_sends_something_else_by_a_number_that_is_kept() {
    let others =
        [packet(Opcode::SEND_MIDDLE, 2, false, 256), packet(Opcode::WRITE_MIDDLE, 2, false, 128)];
    for other in others {
        let mut bench = Bench::paired();
        bench.data(1..5);
        bench.data([2]);
        assert_eq!(bench.backup.frames(), 4, "the very same");
        bench.clear();
        bench.frame(other);
        assert_eq!((bench.delivered(), bench.backup.frames()), (vec![2], 0));
        assert_eq!(bench.nak(1), Became::Forward);
        assert_eq!(bench.delivered(), []);
    }
}

/// Held packets are then of the incarnation before, too.
// R-INC-10
#[test]
fn nothing_held_is_delivered_once_the_source_sends_something_else_by_a_number_that_is_kept() {
    let mut bench = Bench::paired();
    bench.data(1..5);
    bench.data([6, 7]);
    bench.clear();
    bench.frame(damaged(packet(Opcode::SEND_MIDDLE, 2, false, 256)));
    assert_eq!(bench.pool.frames(), 2, "a damaged one proves nothing");
    bench.frame(packet(Opcode::SEND_MIDDLE, 1, false, 256));
    assert_eq!(bench.pool.frames(), 2, "nor does one that is not kept any more");
    let mut bench = Bench::paired();
    bench.data(1..5);
    bench.data([6, 7]);
    bench.clear();
    bench.frame(packet(Opcode::SEND_MIDDLE, 2, false, 256));
    assert_eq!(bench.pool.frames(), 0);
    bench.data([5]);
    assert_eq!(bench.delivered(), [2, 5]);
}

/// While the requester is unknown, a pool that is half full is for others.
#[test]
fn what_is_kept_has_no_gap() {
    let mut bench = Bench::synced();
    bench.backup = Budget::new(4);
    bench.data(1..4);
    assert_eq!(bench.backup.frames(), 2);
    bench.out.src_qpn = Some(Qpn::new(0x77));
    bench.data([4]);
    assert_eq!(bench.backup.frames(), 1, "3 was not kept");
    bench.clear();
    assert_eq!(bench.nak(1), Became::Forward);
    assert_eq!(bench.delivered(), []);
}

/// It would be resent for ever, since no response can be told to be for it.
#[test]
fn nobody_waits_for_answers_to_a_flow_of_an_unknown_requester() {
    let mut bench = Bench::synced();
    bench.frame(asking(1));
    bench.clear();
    bench.run_timers(bench.now + T_OUT * 10);
    assert_eq!((bench.delivered(), bench.backup.frames()), (vec![], 1));
}

#[test]
fn an_answer_to_what_did_not_ask_measures_nothing() {
    let mut bench = Bench::paired();
    bench.config.t_out = None;
    bench.frame(asking(1));
    bench.data([2]);
    bench.wait(Span::from_micros(10));
    let _ = bench.ack(2);
    bench.frame(asking(3));
    bench.clear();
    // A millisecond is guessed; half of that is its margin.
    bench.run_timers(bench.now + Span::from_millis(2));
    assert_eq!(bench.delivered(), []);
    bench.run_timers(bench.now + Span::from_millis(1));
    assert_eq!(bench.delivered(), [3]);
}

/// It would be discarded there like the first one. The Sentry has another copy.
#[test]
fn a_copy_that_is_damaged_is_not_resent() {
    let mut bench = Bench::paired();
    bench.frame(damaged(write(1)));
    bench.data([2, 3]);
    bench.clear();
    assert_eq!(bench.nak(1), Became::Forward);
    assert_eq!((bench.delivered(), bench.nacks()), (vec![], vec![vec![(1, 2)]]));
    bench.data([1]);
    assert_eq!(bench.delivered(), [1, 2, 3]);
    // In the middle of the resends.
    let mut bench = Bench::paired();
    bench.data([1, 2]);
    bench.frame(damaged(write(3)));
    bench.data([4]);
    bench.clear();
    assert_eq!(bench.nak(1), Became::Absorb);
    assert_eq!((bench.delivered(), bench.nacks()), (vec![1, 2], vec![vec![(3, 4)]]));
    bench.data([3]);
    assert_eq!(bench.delivered(), [3, 4]);
}
