//! SENDs for which there is no buffer.

use crate::support::{Seen, World, drain, look, once, work};
use common::time::{Span, Time};
use rnic::{QpConfig, QpId, ReceiveQueue, RetryLimit, Status, WorkKind, rnr_delay};

/// 80 µs.
const TIMER: u8 = 6;
const RNR: u8 = 0x20 | TIMER;
const RTT: Span = Span::from_micros(10);
const LONG: Time = Time::from_nanos(1 << 40);

fn world(depth: u32, refill: Option<Span>, change: impl FnOnce(&mut QpConfig)) -> (World, QpId) {
    let mut world = World::new(None, RTT);
    let qp = world.add_qp(0, |c| {
        c.pmtu = 256;
        c.receive_queue = Some(ReceiveQueue { depth, refill, rnr_timer: TIMER });
        change(c);
    });
    (world, qp)
}

fn post(world: &mut World, qp: QpId, kind: WorkKind, len: u32, n: u32) {
    for _ in 0..n {
        world.nics[0].post(qp, work(kind, len), world.now).unwrap();
    }
}

/// Nothing has been seen that can't be, and all is done.
fn check(world: &World, qp: QpId, messages: usize) {
    assert!(world.completions[0].iter().all(|c| c.status == Status::Ok));
    assert_eq!((world.completions[0].len(), world.received[1].len()), (messages, messages));
    assert!(world.received[1].iter().all(|r| r.corrupt_bytes == 0));
    let stats = world.nics[0].stats(qp).requester;
    assert_eq!(stats.beyond_sent + stats.unexpected + stats.wrong_msn + stats.timeouts, 0);
}

#[test]
fn one_nak_for_the_buffer_and_one_for_what_is_behind() {
    let (mut world, qp) = world(1, None, |_| ());
    post(&mut world, qp, WorkKind::Send, 600, 3);
    let [a, b] = &mut world.nics;
    for frame in drain(a, Time::ZERO) {
        b.receive(&frame, Time::ZERO);
    }
    let answers: Vec<_> = drain(b, Time::ZERO).iter().map(|frame| look(frame)).collect();
    let nak = Seen::Ack(3, 0x60, 1);
    assert_eq!(answers, [Seen::Ack(2, 0x1f, 1), Seen::Ack(3, RNR, 1), nak]);
    assert_eq!(b.stats(qp).responder.rnr_naks, 1);
}

#[test]
fn sends_wait_for_buffers_that_come_back() {
    let (mut world, qp) = world(2, Some(Span::from_micros(100)), |_| ());
    post(&mut world, qp, WorkKind::Send, 1_000, 20);
    assert!(world.run(LONG));
    check(&world, qp, 20);
    let stats = world.nics[1].stats(qp).responder;
    assert!(stats.rnr_naks >= 9, "{}", stats.rnr_naks);
    assert_eq!(world.nics[0].stats(qp).requester.rnr_naks, stats.rnr_naks);
    // 18 buffers had to come back, one each 100 µs; nobody waits for long
    // once one is there.
    let last = world.completions[0][19].completed_at;
    let (least, most) = (Span::from_micros(1_800), Span::from_micros(2_100));
    assert!((Time::ZERO + least..Time::ZERO + most).contains(&last), "{last:?}");
}

#[test]
fn the_requester_waits_as_long_as_it_is_told() {
    let (mut world, qp) = world(1, None, |_| ());
    post(&mut world, qp, WorkKind::Send, 1, 2);
    world.run(Time::ZERO + RTT * 2);
    assert_eq!(world.completions[0].len(), 1);
    world.nics[1].post_receives(qp, 1);
    assert!(world.run(LONG));
    let duration = world.completions[0][1].duration();
    assert_eq!(duration, RTT + rnr_delay(TIMER) + RTT);
    check(&world, qp, 2);
}

#[test]
fn what_takes_no_buffer_needs_none() {
    let (mut world, qp) = world(0, None, |_| ());
    post(&mut world, qp, WorkKind::Write, 1_000, 3);
    post(&mut world, qp, WorkKind::Read, 1_000, 3);
    post(&mut world, qp, WorkKind::FetchAdd { add: 1 }, 8, 3);
    assert!(world.run(LONG));
    assert_eq!(world.nics[1].stats(qp).responder.rnr_naks, 0);
    assert_eq!(world.completions[0].iter().filter(|c| c.status == Status::Ok).count(), 9);
}

#[test]
fn without_buffers_the_requester_gives_up_or_never_does() {
    let (mut limited, qp) = world(0, None, |c| c.rnr_retry = RetryLimit::Count(3));
    post(&mut limited, qp, WorkKind::Send, 1, 2);
    assert!(limited.run(LONG));
    let statuses: Vec<_> = limited.completions[0].iter().map(|c| c.status).collect();
    assert_eq!(statuses, [Status::RnrRetryExceeded, Status::Flushed]);
    assert_eq!(limited.nics[1].stats(qp).responder.rnr_naks, 4);

    let (mut patient, qp) = world(1, None, |c| c.retry = RetryLimit::Count(1));
    post(&mut patient, qp, WorkKind::Send, 1, 2);
    assert!(!patient.run(Time::ZERO + Span::from_millis(100)));
    assert_eq!(patient.nics[0].pending(qp), 1);
    assert!(patient.nics[1].stats(qp).responder.rnr_naks > 1_000);
    patient.nics[1].post_receives(qp, 1);
    assert!(patient.run(LONG));
    check(&patient, qp, 2);
}

#[test]
fn a_lost_rnr_nak_is_noticed_by_the_nak_behind_it_or_a_timeout() {
    for behind in [0, 1] {
        let (mut world, qp) = world(0, None, |_| ());
        world.links[1].lose = once(|frame| matches!(look(frame), Seen::Ack(_, RNR, _)));
        post(&mut world, qp, WorkKind::Send, 1, 1 + behind);
        world.run(Time::ZERO + Span::from_millis(1));
        let stats = world.nics[0].stats(qp).requester;
        assert_eq!((stats.naks > 0, stats.rnr_naks > 0), (behind == 1, behind == 1));
        world.run(Time::ZERO + Span::from_millis(100));
        let stats = world.nics[0].stats(qp).requester;
        assert!(stats.rnr_naks > 0);
        assert_eq!(stats.timeouts, u64::from(behind == 0));
    }
}
