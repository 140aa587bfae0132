//! STATUS and Depot-NACK: when, and with which content.

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{LastAck, MAX_RANGES, Message, Reason};
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::{Aeth, Qpn};
use testkit::control::HEADER;
use testkit::depot::*;

#[test]
fn a_sync_is_answered() {
    let mut bench = Bench::default();
    bench.sync(LIFE, Reason::Open, 0);
    assert_eq!(bench.out.statuses[0].0, LIFE.epoch);
    let status = &bench.statuses()[0];
    assert_eq!((status.expected, status.to), (psn(0), psn(0)));
    assert_eq!((status.ack, status.echo, status.hold), (None, bench.now, Span::ZERO));
    for reason in [Reason::Open, Reason::Tail, Reason::Keepalive] {
        bench.sync(LIFE, reason, 0);
        assert_eq!(bench.statuses().len(), 1, "{reason:?}");
    }
}

#[test]
fn a_status_tells_what_there_is_to_tell() {
    let mut bench = Bench::synced();
    bench.sync(LIFE, Reason::Keepalive, 1);
    let synced_at = bench.now;
    bench.pool = Budget::new(4);
    bench.out.src_qpn = Some(Qpn::new(0x42));
    bench.clear();
    bench.wait(Span::from_micros(70));
    bench.data([1, 4]);
    let status = &bench.statuses()[0];
    let ack = LastAck { psn: psn(0), syndrome: Aeth::ACK_UNLIMITED, msn: 3 };
    assert_eq!(status.ack, Some(ack));
    assert_eq!((status.expected, status.from, status.to), (psn(2), psn(2), psn(5)));
    assert_eq!(missing(status), [(2, 4)]);
    assert_eq!((status.echo, status.hold), (synced_at, Span::from_micros(70)));
    assert_eq!(status.src_qpn, Some(Qpn::new(0x42)));
}

#[test]
fn a_nak_of_the_destination_is_told_as_the_ack_that_it_implies() {
    let mut bench = Bench::synced();
    bench.data([1, 2, 4]);
    let _ = bench.nak(3);
    let ack = LastAck { psn: psn(2), syndrome: Aeth::ACK_UNLIMITED, msn: 3 };
    assert_eq!(bench.statuses().last().map(|s| s.ack), Some(Some(ack)));
}

// R-STATUS-1
#[test]
fn a_gap_is_reported_at_once_with_all_others() {
    let mut bench = Bench::synced();
    bench.data([2]);
    assert_eq!(bench.nacks(), [[(1, 2)]]);
    bench.data([3, 6]);
    assert_eq!(bench.nacks(), [[(1, 2), (4, 6)]]);
    bench.data([5]);
    assert!(bench.nacks().is_empty(), "a gap that fills is no news");
    bench.data([8]);
    assert_eq!(bench.nacks(), [[(1, 2), (4, 5), (7, 8)]]);
    assert_eq!(bench.count(Metric::NackNewGap), 3);
}

// R-STATUS-2
#[test]
fn more_gaps_than_fit_are_spread_over_several_messages() {
    const GAPS: usize = 2 * MAX_RANGES + 5;
    let mut bench = Bench::synced();
    bench.data((1..=GAPS as i32).map(|n| 2 * n));
    // A new gap: the newest ones, and from where on they are all.
    let last = bench.statuses().pop().expect("one per gap");
    assert_eq!(last.missing.len(), MAX_RANGES);
    let high = psn(2 * GAPS as i32 + 1);
    let skipped = (GAPS - MAX_RANGES) as i32;
    assert_eq!((last.from, last.to), (psn(2 * skipped), high));
    // A SYNC asks for all.
    bench.sync(LIFE, Reason::Keepalive, 2 * GAPS as i32 + 1);
    let parts = bench.statuses();
    assert_eq!(parts.len(), 3);
    assert_eq!(bench.count(Metric::NackSync), 3);
    let all: Vec<_> = parts.iter().flat_map(missing).collect();
    let expected: Vec<_> = (0..GAPS as i32).map(|n| (2 * n + 1, 2 * n + 2)).collect();
    assert_eq!(all, expected);
    assert_eq!((parts[0].from, parts[2].to), (parts[0].expected, high));
    for pair in parts.windows(2) {
        assert_eq!(pair[0].to, pair[1].from, "nothing lies between two parts");
    }
    for status in parts {
        // Each lists all that is missing in its part, and none beyond.
        let (from, to) = (count_of(status.from), count_of(status.to));
        let inside: Vec<_> = expected.iter().filter(|(a, b)| from <= *a && *b <= to).collect();
        assert_eq!(inside, missing(&status).iter().collect::<Vec<_>>());
    }
}

/// Every STATUS can be encoded, and the decoder accepts it.
#[test]
fn every_status_is_a_valid_message() {
    use common::control::{DEFAULT_OPCODE, Keys, decode};
    use common::wire::{Vlans, parse};
    let mut bench = Bench::synced();
    bench.data((1..=200).map(|n| 3 * n));
    bench.sync(LIFE, Reason::Tail, 700);
    let headers = testkit::packets::headers(1, 2, Vlans::NONE);
    let keys = Keys::unkeyed_lab();
    for status in bench.statuses() {
        let message = Message::Status(status);
        let frame = testkit::control::frame(&headers, Qpn::GSI, &HEADER, &message, &keys);
        let roce = parse(&frame).expect("a frame of ours");
        assert_eq!(decode(&frame, &roce, DEFAULT_OPCODE, &keys), Some(Ok((HEADER, message))));
    }
}

#[test]
fn an_open_gap_is_reported_again_after_one_and_a_quarter_of_its_fill_time() {
    let mut bench = Bench::synced();
    bench.data([2]);
    bench.clear();
    let again = RTT.scale(5, 4);
    for _ in 0..3 {
        assert_eq!(bench.deadline(), bench.now + again);
        bench.run_timers(bench.now + again);
        assert_eq!(bench.nacks(), [[(1, 2)]]);
    }
    assert_eq!(bench.count(Metric::NackRepeat), 3);
}

#[test]
fn the_fill_time_is_measured() {
    let mut bench = Bench::synced();
    bench.config.give_up = Some(Span::from_millis(10_000));
    bench.data([2]);
    bench.wait(Span::from_millis(20));
    bench.data([1]);
    bench.data([4]);
    assert_eq!(bench.deadline(), bench.now + Span::from_millis(25));
    // At most four round trips, however long one gap took.
    bench.wait(Span::from_millis(5_000));
    bench.data([3, 6]);
    assert_eq!(bench.deadline(), bench.now + Span::from_millis(40));
}

// R-SYNC-4
#[test]
fn a_sync_tells_what_should_have_arrived() {
    let mut bench = Bench::synced();
    bench.sync(LIFE, Reason::Tail, 1);
    assert_eq!(bench.nacks(), [[]]);
    bench.sync(LIFE, Reason::Tail, 4);
    assert_eq!(bench.nacks(), [[(1, 4)]], "a lost tail");
    assert!(bench.deadline() < bench.now + PAUSE);
    bench.data([1, 2, 3]);
    assert_eq!(bench.delivered(), [1, 2, 3]);
    assert_eq!(bench.deadline(), bench.now + PAUSE);
}

#[test]
fn a_sync_from_beyond_the_window_opens_no_gap() {
    let mut bench = Bench::synced();
    bench.sync(LIFE, Reason::Tail, 2 + WINDOW_MAX as i32);
    assert_eq!(bench.nacks(), [[]]);
    bench.sync(LIFE, Reason::Tail, 0);
    assert_eq!(bench.nacks(), [[]], "one that was overtaken neither");
}

// R-SYNC-5
#[test]
fn a_sync_that_overtakes_a_resend_has_the_gap_reported_at_once() {
    let mut bench = Bench::synced();
    bench.data([3]);
    bench.clear();
    bench.sync_resent(LIFE);
    assert_eq!(bench.nacks(), [[(1, 3)]]);
}

// R-STATUS-1
#[test]
fn while_data_flows_a_status_goes_out_every_half_round_trip() {
    let mut bench = Bench::synced();
    bench.config.status_interval = None;
    let start = bench.now;
    let mut times = Vec::new();
    for n in 1..100 {
        bench.wait(Span::from_micros(500));
        bench.data([n]);
        times.extend(bench.statuses().iter().map(|_| bench.now.since(start).as_micros()));
    }
    assert!(times.len() >= 11, "{times:?}");
    assert!(times.windows(2).all(|t| t[1] - t[0] == 4_000), "{times:?}");
    bench.run_timers(bench.now + PAUSE);
    assert!(bench.statuses().is_empty(), "an idle flow says nothing");
    assert_eq!(bench.deadline(), Time::NEVER);
}

// R-MSG-6
#[test]
fn a_status_that_nobody_asked_for_is_not_missed() {
    let mut bench = Bench::synced();
    bench.config.status_interval = None;
    bench.allowance = Allowance::new(0);
    for n in 1..100 {
        bench.wait(Span::from_micros(500));
        bench.data([n]);
    }
    assert!(bench.statuses().is_empty());
    assert!(bench.count(Metric::WithheldStatus) >= 11, "it waits as if it had gone out");
    bench.data([101]);
    bench.sync(LIFE, Reason::Keepalive, 102);
    assert_eq!(bench.statuses().len(), 2, "a gap, and what is asked for, are told of");
}

/// They tell the Sentry more.
#[test]
fn where_acks_pass_no_status_goes_out_by_itself() {
    let mut bench = Bench::synced();
    bench.config.status_interval = None;
    for n in 1..100 {
        bench.wait(Span::from_micros(500));
        bench.data([n]);
        bench.ack(n);
    }
    assert!(bench.statuses().is_empty());
    assert_eq!(bench.count(Metric::WithheldStatus), 0);
}

#[test]
fn the_rtt_is_the_sentrys_to_tell() {
    let mut bench = Bench::synced();
    let keepalive = sync(Reason::Keepalive, psn(1), bench.now);
    let sync = common::control::SyncMessage { rtt: Span::from_millis(40), ..keepalive };
    bench.with(|flow, cx| flow.on_sync(cx, LIFE, &sync));
    bench.config.give_up = None;
    bench.data([2]);
    assert_eq!(bench.deadline(), bench.now + Span::from_millis(50));
}

#[test]
fn an_older_sync_does_not_move_the_echo_back() {
    let mut bench = Bench::synced();
    bench.sync(LIFE, Reason::Keepalive, 1);
    let newest = bench.now;
    bench.clear();
    let old = sync(Reason::Keepalive, psn(1), newest - Span::from_millis(1));
    bench.with(|flow, cx| flow.on_sync(cx, LIFE, &old));
    assert_eq!(bench.statuses()[0].echo, newest);
}

// R-GAP-13
#[test]
fn after_give_up_what_waits_goes_on_in_order_past_the_gap() {
    let mut bench = Bench::synced();
    let start = bench.now;
    bench.data([2, 3, 6]);
    bench.clear();
    bench.run_timers(start + GIVE_UP / 2);
    // The Sentry is there.
    bench.sync_resent(LIFE);
    bench.run_timers(start + GIVE_UP - Span::from_nanos(1));
    assert!(bench.delivered().is_empty());
    bench.run_timers(bench.now + Span::from_nanos(1));
    assert_eq!(bench.delivered(), [2, 3, 6]);
    assert_eq!(bench.count(Metric::GapsGivenUp), 2);
    assert_eq!((bench.pool.frames(), bench.deadline()), (0, start + GIVE_UP / 2 + PAUSE));
    // The flow stays protected, and the RNICs' own repair passes.
    assert!(bench.flow.is_synced());
    bench.data([1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(bench.delivered(), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn progress_begins_the_wait_anew() {
    let mut bench = Bench::synced();
    bench.data([2, 4]);
    bench.run_timers(bench.now + GIVE_UP - Span::from_millis(1));
    bench.data([1]);
    bench.run_timers(bench.now + GIVE_UP - Span::from_millis(1));
    assert_eq!(bench.count(Metric::GapsGivenUp), 0);
    bench.run_timers(bench.now + Span::from_millis(1));
    assert_eq!(bench.count(Metric::GapsGivenUp), 1);
}

#[test]
fn the_derived_give_up_is_six_round_trips() {
    let mut bench = Bench::synced();
    bench.config.give_up = None;
    bench.data([2]);
    bench.run_timers(bench.now + RTT * 6 - Span::from_nanos(1));
    assert_eq!(bench.pool.frames(), 1);
    bench.run_timers(bench.now + Span::from_nanos(1));
    assert_eq!(bench.pool.frames(), 0);
}

/// Its MSN counts a READ that is not complete yet.
#[test]
fn a_part_of_a_read_response_is_not_told_as_an_ack() {
    let mut bench = Bench::synced();
    bench.frame(read(1, 3));
    let _ = bench.respond(first_response(1));
    let _ = bench.respond(response(2));
    bench.clear();
    bench.sync(LIFE, Reason::Keepalive, 4);
    let ack = bench.statuses()[0].ack.expect("of packet 0");
    assert_eq!(ack.psn, psn(0));
}
