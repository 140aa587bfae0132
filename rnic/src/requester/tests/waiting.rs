//! RNR NAKs and adaptive retransmission.

use super::*;
use crate::config::rnr_delay;

impl Bench {
    fn rnr(&mut self, timer: u8, psn: u32) {
        self.respond(Response::Rnr { timer, msn: 0 }, psn);
    }
}

#[test]
fn an_rnr_nak_acknowledges_what_is_before_it_and_waits() {
    let mut bench = Bench::new(|_| ()).sent(&[2, 2]);
    bench.rnr(14, 2);
    assert_eq!(bench.done(), ok([0]));
    let until = bench.now + rnr_delay(14);
    assert_eq!(bench.send_psns(), [0; 0]);
    assert_eq!(bench.requester.deadline(), Some(until));
    // The packet behind has brought forth a NAK.
    bench.nak(2);
    assert_eq!(bench.send_psns(), [0; 0]);
    assert_eq!(bench.requester.stats.naks_ignored, 1);
    bench.requester.on_timer(until - Span::from_nanos(1), &mut bench.completions);
    assert_eq!(bench.send_psns(), [0; 0]);
    bench.requester.on_timer(until, &mut bench.completions);
    assert_eq!(bench.send_psns(), [2, 3]);
    let stats = bench.requester.stats;
    assert_eq!((stats.rnr_naks, stats.timeouts), (1, 0));
}

#[test]
fn rnr_retries_run_out_apart_from_the_others() {
    let mut bench = Bench::new(|c| {
        c.rnr_retry = RetryLimit::Count(2);
        c.retry = RetryLimit::Count(0);
    });
    bench.post(1);
    bench.post(1);
    // Progress gives them back.
    for psn in [0, 0, 1, 1] {
        bench.send();
        bench.rnr(1, psn);
        bench.time_out();
    }
    assert_eq!(bench.done(), ok([0]));
    bench.send();
    bench.rnr(1, 1);
    assert_eq!(bench.done(), [(1, Status::RnrRetryExceeded)]);
}

#[test]
fn seven_is_without_end() {
    let mut bench = Bench::new(|c| c.rnr_retry = RetryLimit::as_rxe(7));
    bench.post(1);
    for _ in 0..50 {
        assert_eq!(bench.send_psns(), [0]);
        bench.rnr(0, 0);
        assert_eq!(bench.requester.deadline(), Some(bench.now + Span::from_micros(655_360)));
        bench.time_out();
    }
    assert_eq!(bench.requester.stats.rnr_naks, 50);
}

#[test]
fn adaptive_timeouts_double_until_there_is_progress() {
    let mut bench = Bench::new(|c| {
        c.adaptive_retransmission = true;
        c.retry = RetryLimit::Infinite;
        c.timeout = Span::from_micros(1); // of no meaning
    });
    bench.post(2);
    for millis in [2, 4, 8, 16, 32] {
        bench.send();
        let start = bench.now;
        bench.time_out();
        assert_eq!(bench.now.since(start), Span::from_millis(millis));
    }
    bench.send();
    bench.ack(0);
    assert_eq!(bench.requester.deadline(), Some(bench.now + Span::from_millis(2)));
    // It never grows beyond all bounds.
    for _ in 0..100 {
        bench.time_out();
        bench.send();
    }
    let wait = bench.requester.deadline().unwrap().since(bench.now);
    assert_eq!(wait, Span::from_millis(2 << MAX_BACKOFF));
}
