//! READ responses and atomic ACKs: in order, or fetched, or let go.

use common::budget::Budget;
use common::control::LastAck;
use common::frame::Class::High;
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Opcode;
use sentry::Recovery::Cached;
use testkit::sentry::*;

// R-ACK-1
#[test]
fn in_order_all_pass_at_once() {
    let mut bench = reading();
    let mut expected = Vec::new();
    for n in 1..10 {
        match n {
            5 | 6 | 9 => bench.ack(n, 1),
            _ => come(&mut bench, [n]),
        }
        expected.push(n);
        assert_eq!(bench.out.responses.len(), expected.len());
    }
    assert_eq!(bench.answered(), expected);
    assert_eq!(bench.count(Metric::ResponseHeld), 0);
    assert!(bench.out.fetches.is_empty());
    assert_eq!(bench.deadline(), Time::NEVER);
}

// R-READ-4
#[test]
fn a_gap_holds_all_that_follows_it_and_is_fetched() {
    let mut bench = reading();
    come(&mut bench, [1, 3, 4]);
    assert_eq!(bench.fetched(), [[(2, 3)]]);
    bench.ack(5, 1);
    come(&mut bench, [7, 8]);
    bench.nak(9);
    assert_eq!(bench.answered(), [1]);
    assert_eq!(bench.pool.frames(), 6);
    assert!(bench.naks().is_empty());
    come(&mut bench, [2]);
    assert_eq!(bench.answered(), [2, 3, 4, 5, 7, 8, 9]);
    assert_eq!((bench.pool.frames(), bench.pool.used()), (0, 0));
    let gaps = [Metric::ReadGapsSeen, Metric::ReadGapsFilled, Metric::ReadGapsGivenUp];
    assert_eq!(gaps.map(|m| bench.count(m)), [1, 1, 0]);
    assert_eq!(bench.count(Metric::ResponseHeld), 6);
}

/// Held responses prove nothing yet, neither to the source nor to the Sentry.
#[test]
fn what_waits_is_not_believed() {
    let mut bench = reading();
    come(&mut bench, [1, 3]);
    bench.ack(6, 9);
    assert_eq!(bench.out.stream, [Got::Response(Opcode::READ_RESPONSE_FIRST, 1)]);
    assert_eq!(bench.cache.frames(), 4, "the READ is answered, the rest is not");
    come(&mut bench, [2, 4]);
    assert_eq!(bench.cache.frames(), 2, "up to 6");
}

#[test]
fn a_peer_that_is_lost_will_not_send_them_again() {
    let mut bench = reading();
    come(&mut bench, [1, 3]);
    bench.config.peer_timeout = Some(Span::from_millis(5));
    bench.run_timers(bench.now + Span::from_millis(12));
    assert!(!bench.flow.is_protected());
    assert_eq!((bench.answered(), bench.pool.frames()), (vec![1, 3], 0));
}

#[test]
fn a_full_pool_lets_go_of_all_in_order() {
    let mut bench = reading();
    bench.pool = Budget::new(2);
    come(&mut bench, [1, 4, 3]);
    assert_eq!(bench.answered(), [1]);
    bench.ack(5, 1);
    assert_eq!(bench.answered(), [3, 4, 5]);
    assert_eq!(bench.count(Metric::ReadGapsGivenUp), 1);
    assert_eq!(bench.pool.frames(), 0);
}

// R-FILTER-6, R-READ-11
#[test]
fn a_read_that_the_source_asks_for_again_goes_on_and_lets_go_of_what_waits() {
    let mut bench = reading();
    come(&mut bench, [1, 3]);
    bench.clear();
    bench.frame(read(2, 3 * 256)); // from the response that it lacks on
    assert_eq!(bench.answered(), [], "it will come again, with what it asks for");
    assert_eq!(bench.forwarded(), [(2, High)], "though it is under way");
    assert_eq!((bench.epoch(), bench.count(Metric::PassTimeout)), (1, 1));
    assert_eq!(bench.count(Metric::DropAskedAgain), 1);
    bench.run_timers(bench.now + TAIL * 4);
    assert!(bench.fetched().is_empty(), "until it was seen where the responses go on");
    // Both the old responses and the new ones come.
    come(&mut bench, [4]);
    assert_eq!(bench.answered(), [4]);
    come(&mut bench, [2, 3, 4]);
    assert_eq!(bench.answered(), [2, 3, 4]);
    come(&mut bench, [8]);
    assert_eq!(bench.fetched(), [[(7, 8)]], "they do again");
}

// R-READ-13
#[test]
fn acked_never_goes_beyond_a_response_that_the_source_lacks() {
    let mut bench = reading();
    come(&mut bench, [1]);
    let ack = LastAck { psn: psn(9), syndrome: 0x1f, msn: 9 };
    bench.status_with(10, 10, &[], |status| status.ack = Some(ack));
    assert_eq!(bench.out.stream.len(), 1, "no ACK overtakes them: {:?}", bench.out.stream);
    bench.data([11]);
    assert!(bench.naks().is_empty());
    come(&mut bench, 2..5);
    assert_eq!(bench.naks(), [5], "asked for at the end of the message");
    come(&mut bench, [7, 8]);
    bench.status_with(10, 10, &[], |status| status.ack = Some(ack));
    assert_eq!(bench.out.stream.last(), Some(&Got::Ack(9)), "now it may follow");
}

#[test]
fn an_atomic_is_awaited_like_a_read() {
    let mut bench = Bench::protected(Cached, 1, Some(1));
    bench.frame(atomic(1));
    bench.data([2]);
    bench.clear();
    bench.ack(2, 2);
    assert_eq!((bench.fetched(), bench.answered()), (vec![vec![(1, 2)]], vec![]));
    bench.respond(atomic_ack(1));
    let order = [(Opcode::ATOMIC_ACK, 1), (Opcode::ACK, 2)];
    assert_eq!(bench.out.responses, order);
    assert_eq!(bench.deadline(), Time::NEVER);
    // A lost one is fetched as a tail.
    bench.frame(atomic(3));
    bench.run_timers(bench.now + TAIL);
    assert_eq!(bench.fetched(), [[(3, 4)]]);
    // The source repeats it: whether it was executed, its responder knows.
    bench.clear();
    bench.frame(atomic(3));
    assert_eq!(bench.forwarded(), [(3, High)]);
}

#[test]
fn a_duplicate_of_what_waits_is_dropped_and_one_of_what_passed_passes() {
    let mut bench = reading();
    come(&mut bench, [1, 3, 3, 4, 3]);
    assert_eq!(bench.count(Metric::DropReorderDuplicate), 2);
    assert_eq!(bench.pool.frames(), 2);
    come(&mut bench, [1]);
    assert_eq!(bench.answered(), [1, 1]);
    come(&mut bench, [2, 3]);
    assert_eq!(bench.answered(), [2, 3, 4, 3]);
    assert_eq!(bench.pool.frames(), 0);
}

#[test]
fn what_waits_goes_on_once_the_peer_keeps_no_responses_any_more() {
    let mut bench = reading();
    come(&mut bench, [1, 3]);
    bench.status_with(10, 10, &[], |status| status.keeps_responses = false);
    assert!(bench.deadline() <= bench.now);
    bench.timer();
    assert_eq!((bench.answered(), bench.fetched().len()), (vec![1, 3], 1));
}

/// The source asked again before it had the responses, which come twice then: when it
/// has the end of the first message for the second time it is within the next one.
#[test]
fn responses_that_the_source_got_after_it_asked_again_end_no_message() {
    let mut bench = reading();
    come(&mut bench, [1, 2, 3, 4, 7]);
    bench.frame(read(1, 4 * 256));
    bench.data([5, 6]);
    bench.frame(read(7, 2 * 256));
    // Of this it is known that it is no other packet.
    bench.data([9]);
    bench.clear();
    come(&mut bench, [1, 2, 3, 4]);
    bench.data([12]);
    assert!(bench.naks().is_empty());
    assert_eq!(bench.count(Metric::NakMidMessage), 1);
    come(&mut bench, [7, 8]);
    assert_eq!(bench.naks().len(), 1, "now it is between two");
}

/// The source has asked before the flow was known here: one of its responses passes,
/// behind an ACK that was late.
#[test]
fn responses_to_requests_that_went_by_unseen_are_not_interrupted() {
    let mut bench = Bench::protected(Cached, 10, Some(1));
    bench.data([10]);
    bench.ack(5, 1);
    bench.respond(response(Opcode::READ_RESPONSE_FIRST, -2));
    bench.clear();
    bench.data([12]);
    assert!(bench.naks().is_empty());
    assert_eq!(bench.count(Metric::NakMidMessage), 1);
}

/// Held responses belong to an incarnation that has ended.
#[test]
fn another_incarnation_gets_no_answers_of_this_one() {
    let mut bench = reading();
    come(&mut bench, [1, 3]);
    bench.data([10 + WINDOW_MAX as i32 + 1]);
    assert_eq!((bench.epoch(), bench.pool.frames()), (2, 0));
    assert_eq!(bench.count(Metric::DropOldIncarnation), 1);
    assert_eq!(bench.answered(), [1]);
}

/// A response that the source knows already neither begins nor ends a message for it.
#[test]
fn an_answer_that_comes_again_ends_no_message() {
    for (got, again) in [(vec![1, 2, 3, 4, 7], 4), (vec![1, 2], 1)] {
        let mut bench = reading();
        come(&mut bench, got);
        bench.respond(response(Opcode::READ_RESPONSE_LAST, again));
        bench.data([12]);
        assert!(bench.naks().is_empty(), "within a message it would end the queue pair");
        assert_eq!(bench.count(Metric::NakMidMessage), 1);
    }
    // Nor does one begin.
    let mut bench = reading();
    come(&mut bench, [1, 2, 3, 4]);
    bench.respond(response(Opcode::READ_RESPONSE_MIDDLE, 2));
    bench.data([12]);
    assert_eq!(bench.naks(), [5]);
}

/// 1..5 was lost on the way here, and came when 5 had passed already.
#[test]
fn a_read_that_fills_a_gap_is_awaited_too() {
    for protected in [false, true] {
        let mut bench = Bench::start(Cached);
        bench.data([0]);
        if protected {
            bench.status(0, 0, &[]);
        }
        bench.data([5]);
        bench.frame(read(1, 4 * 256));
        bench.status(0, 0, &[]);
        bench.ack(0, 1);
        bench.clear();
        // The destination answered both, and all of it was lost on its way.
        let ack = LastAck { psn: psn(5), syndrome: 0x1f, msn: 3 };
        bench.status_with(6, 6, &[], |status| status.ack = Some(ack));
        assert_eq!(bench.out.stream, [], "an ACK would complete a READ without its data");
        come(&mut bench, 1..5);
        bench.ack(5, 3);
        assert_eq!(bench.answered(), [1, 2, 3, 4, 5]);
        assert_eq!(bench.cache.frames(), 0);
    }
}

#[test]
fn a_read_that_is_asked_for_again_is_awaited_again() {
    let mut bench = reading();
    come(&mut bench, [1, 3]);
    bench.ack(5, 1);
    bench.clear();
    bench.frame(read(2, 3 * 256));
    assert_eq!(bench.answered(), []);
    come(&mut bench, [2, 3, 4]);
    bench.ack(5, 1);
    assert_eq!(bench.answered(), [2, 3, 4, 5]);
    come(&mut bench, [8]);
    assert_eq!(bench.fetched(), [[(7, 8)]], "from here on they are known");
    // Also if all of them had gone on, and were lost behind us.
    let mut bench = reading();
    come(&mut bench, 1..5);
    bench.frame(read(1, 4 * 256));
    bench.data([5]);
    let ack = LastAck { psn: psn(6), syndrome: 0x1f, msn: 3 };
    bench.clear();
    bench.status_with(9, 9, &[], |status| status.ack = Some(ack));
    assert_eq!(bench.out.stream, []);
    come(&mut bench, [1, 3]);
    assert_eq!(bench.fetched(), [[(2, 3)]]);
}

/// Two READs that the source asks for again: the first one's responses are
/// missing first.
#[test]
fn the_oldest_read_that_is_asked_for_again_is_what_is_expected() {
    let mut bench = reading();
    bench.frame(read(1, 4 * 256));
    bench.frame(read(7, 2 * 256));
    bench.clear();
    come(&mut bench, [1, 3]);
    assert_eq!(bench.fetched(), [[(2, 3)]]);
    assert_eq!(bench.answered(), [1]);
}

/// Not even where nothing waits for it.
#[test]
fn an_ack_that_passes_beyond_a_gap_proves_nothing_of_what_lies_behind() {
    let mut bench = reading();
    bench.status_with(5, 10, &[], |status| status.keeps_responses = false);
    come(&mut bench, [1]);
    bench.ack(9, 9);
    assert_eq!(bench.answered(), [1, 9]);
    bench.nak(2);
    assert_eq!(bench.epoch(), 1, "it revokes nothing");
}

/// A response that the source may take for one in the middle of a message, or
/// not: nobody can tell.
#[test]
fn after_a_response_that_was_not_expected_no_nak_is_made() {
    let mut bench = reading();
    bench.status_with(5, 10, &[], |status| status.keeps_responses = false);
    come(&mut bench, [1, 2, 3, 4, 8]);
    assert_eq!(bench.answered(), [1, 2, 3, 4, 8]);
    bench.data([12]);
    assert!(bench.naks().is_empty());
    assert_eq!(bench.count(Metric::NakMidMessage), 1);
}

/// The destination has answered a READ, and the responses are still on their
/// way.
#[test]
fn an_ack_of_a_status_does_not_overtake_responses() {
    let mut bench = reading();
    come(&mut bench, 1..5);
    bench.clear();
    let ack = LastAck { psn: psn(8), syndrome: 0x1f, msn: 4 };
    bench.status_with(10, 10, &[], |status| status.ack = Some(ack));
    assert_eq!(bench.out.stream, [], "it would tell the source that 7 and 8 are lost");
    come(&mut bench, [7, 8]);
    assert_eq!(bench.answered(), [7, 8]);
}

/// An ACK of before the gap, even, as it answers a duplicate: it would end the
/// queue pair between two packets of a message.
// R-READ-9
#[test]
fn whatever_is_held_holds_all_that_comes_later() {
    let mut bench = reading();
    come(&mut bench, [1, 2, 4]);
    bench.ack(0, 1);
    assert_eq!(bench.answered(), [1, 2]);
    come(&mut bench, [3]);
    assert_eq!(bench.answered(), [3, 4, 0]);
    // Between two messages it may go.
    come(&mut bench, [8]);
    bench.ack(6, 1);
    come(&mut bench, [7]);
    assert_eq!(bench.answered(), [7, 6, 8]);
    assert_eq!(bench.pool.frames(), 0);
}

/// The source rewinds to its first missing response: it has those before, though
/// nobody here saw them all.
#[test]
fn a_rewind_tells_which_responses_have_arrived() {
    let mut bench = reading();
    bench.status_with(5, 10, &[], |status| status.keeps_responses = false);
    come(&mut bench, [1, 3]);
    bench.data([5]);
    bench.ack(6, 3);
    bench.nak(6);
    assert_eq!(bench.epoch(), 2, "it revokes an acknowledgement");
}

/// To a READ that was never seen, perhaps, as others may come.
#[test]
fn after_responses_that_nobody_asked_for_nothing_is_held() {
    let mut bench = Bench::protected(Cached, 6, Some(1));
    bench.respond(response(Opcode::READ_RESPONSE_MIDDLE, 5));
    bench.frame(read(6, 2 * 256));
    bench.respond(part(6..8, 7));
    assert_eq!((bench.answered(), bench.pool.frames()), (vec![5, 7], 0));
}

// R-READ-12
#[test]
fn what_waits_goes_on_once_answers_cannot_be_told_any_more() {
    let mut bench = reading();
    come(&mut bench, [1, 3]);
    bench.out.src_qpn = None;
    bench.data([10]);
    assert_eq!((bench.answered(), bench.pool.frames()), (vec![1, 3], 0));
    bench.run_timers(bench.now + TAIL * 4);
    assert_eq!(bench.fetched().len(), 1, "nothing is awaited");
}

/// The source lost the responses 1 and 2 on its LAN and goes back: the Sentry, which has forgotten the identity of these, is in
/// doubt and no longer awaits the responses to 3 and 4. The copy of 3 ends the doubt. The response to 4 is lost.
// R-ACK-4
#[test]
fn no_ack_is_made_that_would_complete_an_atomic_without_its_response() {
    for is_plain in [false, true] {
        let mut bench = Bench::protected(Cached, 1, Some(1));
        for n in 1..4 {
            bench.frame(atomic(n));
        }
        if is_plain {
            bench.data([4]);
        } else {
            bench.frame(atomic(4));
        }
        bench.respond(atomic_ack(1));
        bench.respond(atomic_ack(2));
        for n in 1..4 {
            bench.frame(atomic(n));
        }
        for n in 1..4 {
            bench.respond(atomic_ack(n));
        }
        bench.clear();
        let ack = LastAck { psn: psn(4), syndrome: 0x1f, msn: 5 };
        bench.status_with(5, 5, &[], |status| status.ack = Some(ack));
        let acks = bench.take().into_iter().filter(|did| matches!(did, Did::Ack { .. }));
        assert_eq!(acks.count(), usize::from(is_plain));
    }
}
