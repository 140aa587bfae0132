//! READs and atomics: the effect of responses on them.

use common::wire::Position;

use super::*;

const BYTES: [u8; PMTU as usize] = [0; PMTU as usize];

fn data(position: Position) -> Response<'static> {
    let msn = (position != Position::Middle).then_some(1);
    Response::Data { position, msn, payload: &BYTES }
}

impl Bench {
    fn read(&mut self, packets: u32) {
        let work = WorkRequest { kind: WorkKind::Read, len: packets * PMTU, id: 0 };
        self.requester.post(work, self.now).unwrap();
    }

    fn add(&mut self) {
        let kind = WorkKind::FetchAdd { add: 1 };
        let work = WorkRequest { kind, len: ATOMIC_LEN, id: 0 };
        self.requester.post(work, self.now).unwrap();
    }

    fn data(&mut self, position: Position, psn: u32) {
        self.respond(data(position), psn);
    }
}

/// A READ of six packets, of which two have come, and a WRITE behind it.
fn begun(change: impl FnOnce(&mut QpConfig)) -> Bench {
    let mut bench = Bench::new(change);
    bench.read(6);
    bench.post(1);
    assert_eq!(bench.send_psns(), [0, 6]);
    bench.data(Position::First, 0);
    bench.data(Position::Middle, 1);
    assert_eq!(bench.done(), ok([]));
    bench
}

#[test]
fn data_is_progress_and_starts_the_timer_anew() {
    let mut bench = begun(|c| c.retry = RetryLimit::Count(1));
    assert_eq!(bench.requester.deadline(), Some(bench.now + TIMEOUT));
    for psn in 2..5 {
        bench.time_out();
        assert_eq!(bench.send_psns(), [psn, 6]);
        bench.data(Position::Middle, psn);
    }
    bench.data(Position::Last, 5);
    assert_eq!(bench.done(), ok([0]));
    assert_eq!(bench.requester.stats.timeouts, 3);
}

#[test]
fn an_old_ack_between_the_packets_of_a_response_ends_the_qp_of_newer_rxe() {
    for (old_ack_ends_read, status) in [(false, None), (true, Some(Status::BadResponse))] {
        let mut bench = Bench::new(|c| c.old_ack_ends_read = old_ack_ends_read);
        bench.post(1);
        bench.read(3);
        bench.send_psns();
        bench.ack(0);
        bench.data(Position::First, 1);
        bench.ack(0);
        assert_eq!(bench.requester.stats.stale, 1);
        bench.data(Position::Middle, 2);
        let ended = bench.completions.iter().find(|c| c.status != Status::Ok);
        assert_eq!(ended.map(|c| c.status), status);
    }
}

#[test]
fn an_ack_in_place_of_a_response_completes_a_fetch_of_rxe_without_data() {
    for ack_completes_fetch in [false, true] {
        let mut bench = Bench::new(|c| c.ack_completes_fetch = ack_completes_fetch);
        bench.read(1);
        bench.send_psns();
        bench.ack(0);
        assert_eq!(bench.done(), if ack_completes_fetch { ok([0]) } else { ok([]) });
        assert_eq!(bench.requester.stats.without_data, u64::from(ack_completes_fetch));
    }
}

#[test]
fn an_ack_or_nak_between_the_packets_of_a_response_ends_the_qp() {
    for response in [
        Response::Ack { msn: 0 },
        Response::Nak { msn: 0 },
        Response::Rnr { timer: 1, msn: 0 },
        Response::Refused(Status::RemoteAccess),
        Response::Atomic { original: 0, msn: 1 },
        Response::Unexpected,
    ] {
        let mut bench = begun(|_| ());
        bench.respond(response, 2);
        assert_eq!(bench.done(), [(0, Status::BadResponse), (0, Status::Flushed)], "{response:?}");
        assert_eq!(bench.requester.stats.unexpected, 1);
    }
}

#[test]
fn data_in_an_impossible_order_ends_the_qp() {
    // LAST too early, FIRST without a request from there, ONLY likewise.
    for position in [Position::Last, Position::First, Position::Only] {
        let mut bench = begun(|_| ());
        bench.data(position, 2);
        assert_eq!(bench.done()[0], (0, Status::BadResponse), "{position:?}");
    }
    for position in [Position::Middle, Position::Last, Position::Only] {
        let mut bench = Bench::new(|_| ());
        bench.read(3);
        bench.send();
        bench.data(position, 0);
        assert_eq!(bench.done()[0], (0, Status::BadResponse), "{position:?}");
    }
}

#[test]
fn data_of_a_wrong_length_ends_the_qp() {
    for len in [0, PMTU as usize - 4] {
        let mut bench = begun(|_| ());
        bench.respond(
            Response::Data { position: Position::Middle, msn: None, payload: &BYTES[..len] },
            2,
        );
        assert_eq!(bench.done()[0], (0, Status::BadResponse));
    }
}

#[test]
fn data_for_another_operation_ends_the_qp() {
    let mut bench = Bench::new(|_| ()).sent(&[2]);
    bench.data(Position::Only, 1);
    assert_eq!(bench.done(), [(0, Status::BadResponse)]);

    let mut bench = Bench::new(|_| ());
    bench.add();
    bench.send();
    bench.data(Position::Only, 0);
    assert_eq!(bench.done(), [(0, Status::BadResponse)]);
}

#[test]
fn the_rest_may_come_as_a_message_of_its_own() {
    let mut bench = begun(|_| ());
    bench.time_out();
    assert_eq!(bench.send_psns(), [2, 6]);
    bench.data(Position::First, 2);
    // The responses to the first request are still right, too.
    bench.data(Position::Middle, 3);
    bench.time_out();
    bench.send();
    bench.data(Position::Middle, 4);
    bench.time_out();
    assert_eq!(bench.send_psns(), [5, 6]);
    bench.data(Position::Only, 5);
    assert_eq!(bench.done(), ok([0]));
}

#[test]
fn missing_data_is_noticed_at_once_or_with_the_next_request() {
    for (implied_nak, again) in [(ImpliedNak::AnyGap, true), (ImpliedNak::LaterRequest, false)] {
        let mut bench = begun(|c| c.implied_nak = implied_nak);
        bench.data(Position::Middle, 3);
        let asked = bench.send_psns();
        assert_eq!(asked, if again { vec![2, 6] } else { vec![] });
        bench.ack(6);
        let asked = bench.send_psns();
        assert_eq!(asked, if again { vec![] } else { vec![2, 6] });
        // Once, even if the old response follows.
        bench.data(Position::Last, 5);
        bench.nak(6);
        assert_eq!(bench.send_psns(), [0; 0]);
        assert_eq!(bench.requester.stats.implied_naks, 1);
        assert_eq!(bench.requester.stats.implied_naks_ignored, 3);
        assert_eq!(bench.done(), ok([]));
    }
}

#[test]
fn implied_naks_take_tries_and_run_out() {
    let mut bench = Bench::new(|c| c.retry = RetryLimit::Count(0));
    bench.read(1);
    bench.post(1);
    bench.send();
    bench.ack(1);
    assert_eq!(bench.done(), [(0, Status::RetryExceeded), (0, Status::Flushed)]);
}

#[test]
fn nothing_but_its_answer_completes_an_atomic() {
    for response in [Response::Ack { msn: 2 }, Response::Nak { msn: 2 }] {
        let mut bench = Bench::new(|_| ());
        bench.post(1);
        bench.add();
        bench.post(1);
        bench.send();
        bench.respond(response, 2);
        assert_eq!(bench.done(), ok([0]));
        assert_eq!(bench.send_psns(), [1, 2]);
        bench.respond(Response::Atomic { original: 0, msn: 3 }, 1);
        bench.ack(2);
        assert_eq!(bench.done(), ok([0, 1]));
        assert_eq!(bench.requester.stats.wrong_originals, 0);
    }
}

/// A duplicate of an earlier SEND may be acknowledged with the PSN of an
/// atomic.
#[test]
fn an_ack_of_an_atomic_tells_that_its_answer_was_lost() {
    let mut bench = Bench::new(|_| ());
    bench.post(1);
    bench.add();
    bench.send();
    bench.respond(Response::Ack { msn: 2 }, 1);
    assert_eq!(bench.done(), ok([0]));
    assert_eq!(bench.send_psns(), [1]);
    assert_eq!(bench.requester.stats.wrong_msn, 0);
}

#[test]
fn what_an_atomic_finds_is_checked() {
    let mut bench = Bench::new(|_| ());
    for _ in 0..4 {
        bench.add();
    }
    bench.send();
    for (psn, original, wrong) in [(0, 0, 0), (1, 1, 0), (2, 1, 1), (3, 2, 1)] {
        bench.respond(Response::Atomic { original, msn: psn + 1 }, psn);
        assert_eq!(bench.requester.stats.wrong_originals, wrong, "{psn}");
    }
    assert_eq!(bench.done(), ok(0..4));
    assert_eq!(bench.requester.stats.atomics, 4);
}

#[test]
fn corrupt_data_is_counted_and_completes() {
    let mut bench = Bench::new(|_| ());
    bench.read(2);
    bench.send();
    bench.data(Position::First, 0);
    bench.data(Position::Last, 1);
    let corrupt = bench.completions[0].corrupt_bytes;
    assert!((480..=512).contains(&corrupt), "{corrupt}");
    let stats = bench.requester.stats;
    assert_eq!((stats.corrupt_bytes, stats.corrupt_messages), (corrupt, 1));
    assert_eq!(bench.done(), ok([0]));
}

#[test]
fn message_numbers_of_answers_are_checked() {
    let mut bench = Bench::new(|_| ());
    for _ in 0..4 {
        bench.add();
    }
    // The third and fourth have not been sent.
    for _ in 0..2 {
        let packet = bench.requester.next_packet().unwrap();
        bench.requester.sent(&packet, bench.now);
    }
    let mut respond = |msn, psn: u32| {
        bench.respond(Response::Atomic { original: psn.into(), msn }, psn);
        bench.requester.stats.wrong_msn
    };
    assert_eq!(respond(0, 0), 1, "it does not count itself");
    assert_eq!(respond(3, 1), 2, "it counts one that was not sent");

    // The ACK of a SEND counts the READs behind it, if it is one of a
    // duplicate; nothing else.
    for (msn, wrong) in [(0, 1), (1, 0), (2, 0), (3, 0), (4, 1)] {
        let mut bench = Bench::new(|_| ());
        bench.post(1);
        bench.read(1);
        bench.read(2);
        bench.post(1);
        bench.send();
        bench.respond(Response::Ack { msn }, 0);
        assert_eq!(bench.requester.stats.wrong_msn, wrong, "{msn}");
    }
}

#[test]
fn what_cannot_be_fetched_is_refused() {
    let work = |kind, len| WorkRequest { kind, len, id: 0 };
    let add = WorkKind::FetchAdd { add: 1 };
    let mut bench = Bench::new(|c| c.remote_region.len = 1 << 31);
    let mut post = |work| bench.requester.post(work, Time::ZERO);
    let most = MAX_READ_PACKETS * PMTU;
    assert_eq!(post(work(WorkKind::Read, most + 1)), Err(PostError::ReadTooLong(most + 1)));
    assert_eq!(post(work(WorkKind::Read, most)), Ok(0));
    assert_eq!(post(work(add, 4)), Err(PostError::NoAtomicWord));
    assert_eq!(post(work(add, ATOMIC_LEN)), Ok(1));

    let small = PostError::OutsideRegion { len: 8, region: 7 };
    let mut bench = Bench::new(|c| c.remote_region.len = 7);
    let mut post = |work| bench.requester.post(work, Time::ZERO);
    assert_eq!(post(work(WorkKind::Read, 8)), Err(small));
    assert_eq!(post(work(add, ATOMIC_LEN)), Err(PostError::NoAtomicWord));

    let mut bench = Bench::new(|c| c.remote_region.va += 4);
    assert_eq!(
        bench.requester.post(work(add, ATOMIC_LEN), Time::ZERO),
        Err(PostError::NoAtomicWord)
    );

    let mut bench = Bench::new(|c| c.max_rd_atomic = 0);
    assert_eq!(
        bench.requester.post(work(WorkKind::Read, 1), Time::ZERO),
        Err(PostError::FetchNotAllowed)
    );
}
