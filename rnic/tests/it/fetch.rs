//! READs and atomics between two NICs: packets on the wire, and losses
//! there.

use crate::support::{Seen, World, bernoulli, drain, give, look, once, read, send, work};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Opcode, Reth, parse};
use proptest::prelude::*;
use rnic::{
    ATOMIC_LEN, AckCoalescing, Completion, ImpliedNak, Nic, PartialRead, QpConfig, QpId, Region,
    RetryLimit, Status, WorkKind, WorkRequest,
};

const PMTU: u32 = 256;
const FIRST: u32 = 0xff_fffd;
const RTT: Span = Span::from_micros(100);
const LONG: Time = Time::from_nanos(1 << 40);

fn add(add: u64) -> WorkRequest {
    work(WorkKind::FetchAdd { add }, ATOMIC_LEN)
}

fn swap(compare: u64, swap: u64) -> WorkRequest {
    work(WorkKind::CompareSwap { compare, swap }, ATOMIC_LEN)
}

/// Two hosts whose PSNs wrap early, towards the responder.
fn world(change: impl FnOnce(&mut QpConfig)) -> (World, QpId) {
    let mut world = World::new(None, RTT);
    let qp = world.add_qp(0, |c| {
        c.send_psn = Psn::new(FIRST);
        c.recv_psn = Psn::new(7);
        c.pmtu = PMTU;
        c.timeout = Span::from_millis(1);
        change(c);
    });
    (world, qp)
}

/// Posts `work` at host 1 and runs to the end. All has to be well.
fn run(world: &mut World, qp: QpId, work: &[WorkRequest]) -> Vec<Completion> {
    for work in work {
        world.nics[0].post(qp, *work, world.now).unwrap();
    }
    assert!(world.run(LONG));
    let done = std::mem::take(&mut world.completions[0]);
    assert_eq!(done.iter().map(|c| c.work).collect::<Vec<_>>(), work);
    assert!(done.iter().all(|c| c.status == Status::Ok && c.corrupt_bytes == 0), "{done:?}");
    sane(world, qp);
    let requester = world.nics[0].stats(qp).requester;
    let responder = world.nics[1].stats(qp).responder;
    if requester.failed == 0 {
        let executed = (responder.reads, responder.atomics);
        assert_eq!((requester.reads, requester.atomics), executed);
    }
    done
}

/// Nothing has been seen that can't be.
fn sane(world: &World, qp: QpId) {
    for nic in &world.nics {
        let stats = nic.stats(qp);
        let requester = stats.requester;
        assert_eq!(requester.unexpected + requester.beyond_sent + requester.wrong_msn, 0);
        assert_eq!(requester.corrupt_bytes + requester.wrong_originals, 0);
        assert_eq!(stats.responder.refused + stats.responder.corrupt_bytes, 0);
    }
}

/// PSN relative to the first.
fn relative(psn: u32) -> u32 {
    Psn::new(psn).distance(Psn::new(FIRST)) as u32
}

/// All that the NIC may send now, with relative PSNs.
fn sent(nic: &mut Nic, now: Time) -> (Vec<Vec<u8>>, Vec<Seen>) {
    let frames = drain(nic, now);
    let seen = frames
        .iter()
        .map(|frame| match look(frame) {
            Seen::Data(opcode, psn, ask) => Seen::Data(opcode, relative(psn), ask),
            Seen::Ack(psn, syndrome, msn) => Seen::Ack(relative(psn), syndrome, msn),
        })
        .collect();
    (frames, seen)
}

/// Posts `work`, and returns all that the NIC may send then.
fn request(nic: &mut Nic, qp: QpId, work: &[WorkRequest]) -> (Vec<Vec<u8>>, Vec<Seen>) {
    for work in work {
        nic.post(qp, *work, Time::ZERO).unwrap();
    }
    sent(nic, Time::ZERO)
}

#[test]
fn every_pmtu_and_length() {
    for pmtu in [256, 512, 1024, 2048, 4096] {
        for len in [0, 1, 7, pmtu - 1, pmtu, pmtu + 1, 2 * pmtu, 100 * pmtu + 3] {
            let (mut world, qp) = world(|c| c.pmtu = pmtu);
            // The next message shows how many PSNs the READ took.
            run(&mut world, qp, &[read(len), send(1)]);
            let responses = u64::from(len.div_ceil(pmtu).max(1));
            let stats = world.nics[1].stats(qp).responder;
            assert_eq!((stats.read_responses, stats.read_bytes), (responses, u64::from(len)));
            let requester = world.nics[0].stats(qp).requester;
            assert_eq!((requester.read_responses, requester.packets), (responses, 2));
            assert_eq!(requester.message_bytes, u64::from(len) + 1);
            assert_eq!(requester.rtt.samples, 1);
            assert_eq!(requester.rtt.mean(), Some(RTT));
        }
    }
}

#[test]
fn packets_of_all_kinds_in_one_ordered_stream() {
    let (mut world, qp) = world(|_| ());
    let [a, b] = &mut world.nics;
    let (frames, requests) = request(
        a,
        qp,
        &[send(1), read(3 * PMTU), add(1), read(0), send(PMTU + 1), read(PMTU), swap(1, 5)],
    );
    let ask = |opcode, psn| Seen::Data(opcode, psn, true);
    assert_eq!(
        requests,
        [
            ask(Opcode::SEND_ONLY, 0),
            ask(Opcode::READ_REQUEST, 1),
            ask(Opcode::FETCH_ADD, 4),
            ask(Opcode::READ_REQUEST, 5),
            Seen::Data(Opcode::SEND_FIRST, 6, false),
            ask(Opcode::SEND_LAST, 7),
            ask(Opcode::READ_REQUEST, 8),
            ask(Opcode::COMPARE_SWAP, 9),
        ]
    );
    give(b, &frames);
    let (frames, answers) = sent(b, Time::ZERO);
    let data = |opcode, psn| Seen::Data(opcode, psn, false);
    assert_eq!(
        answers,
        [
            Seen::Ack(0, 0x1f, 1),
            data(Opcode::READ_RESPONSE_FIRST, 1),
            data(Opcode::READ_RESPONSE_MIDDLE, 2),
            data(Opcode::READ_RESPONSE_LAST, 3),
            data(Opcode::ATOMIC_ACK, 4),
            data(Opcode::READ_RESPONSE_ONLY, 5),
            Seen::Ack(7, 0x1f, 5),
            data(Opcode::READ_RESPONSE_ONLY, 8),
            data(Opcode::ATOMIC_ACK, 9),
        ]
    );
    let msns: Vec<_> = frames
        .iter()
        .filter_map(|frame| parse(frame).unwrap().aeth(frame).map(|aeth| aeth.msn))
        .collect();
    assert_eq!(msns, [1, 2, 2, 3, 4, 5, 6, 7]);
    give(a, &frames);
    let done: Vec<_> = std::iter::from_fn(|| a.poll_completion()).collect();
    // Messages and fetches are counted apart.
    assert_eq!(done.iter().map(|c| c.index).collect::<Vec<_>>(), [0, 0, 1, 2, 1, 3, 4]);
    let originals: Vec<_> = done.iter().map(|c| c.original).collect();
    assert_eq!(originals, [None, None, Some(0), None, None, None, Some(1)]);
    let received: Vec<_> = std::iter::from_fn(|| b.poll_received()).map(|r| r.index).collect();
    assert_eq!(received, [0, 1]);
    assert_eq!(b.atomic_word(qp), 5);
    sane(&world, qp);
}

#[test]
fn the_request_for_the_rest_has_its_address_and_length() {
    let (mut world, qp) = world(|_| ());
    let [a, b] = &mut world.nics;
    a.post(qp, read(10 * PMTU - 6), Time::ZERO).unwrap();
    give(b, &sent(a, Time::ZERO).0);
    let (mut frames, _) = sent(b, Time::ZERO);
    frames.remove(4);
    give(a, &frames);
    let (frames, requests) = sent(a, Time::ZERO);
    assert_eq!(requests, [Seen::Data(Opcode::READ_REQUEST, 4, true)]);
    let Region { va, rkey, .. } = Region::DEFAULT;
    let rest = Reth { va: va + u64::from(4 * PMTU), rkey, len: 6 * PMTU - 6 };
    assert_eq!(parse(&frames[0]).unwrap().reth(&frames[0]), Some(rest));
    give(b, &frames);
    // rxe goes on with the message.
    let (frames, answers) = sent(b, Time::ZERO);
    let data = |opcode, psn| Seen::Data(opcode, psn, false);
    let mut expected: Vec<_> = (4..9).map(|psn| data(Opcode::READ_RESPONSE_MIDDLE, psn)).collect();
    expected.push(data(Opcode::READ_RESPONSE_LAST, 9));
    assert_eq!(answers, expected);
    give(a, &frames);
    assert_eq!(a.poll_completion().map(|c| (c.status, c.corrupt_bytes)), Some((Status::Ok, 0)));
    let stats = a.stats(qp).requester;
    assert_eq!((stats.implied_naks, stats.implied_naks_ignored), (1, 4));
    assert_eq!(b.stats(qp).responder.reads_repeated, 1);
    sane(&world, qp);
}

/// A READ of ten packets and a SEND; the answer with each PSN is lost once, in
/// every way that NICs recover. The last packet of the READ is noticed by the
/// ACK of the SEND, that one by a timeout.
#[test]
fn any_lost_answer_is_asked_for_again() {
    for partial_read in [PartialRead::Continued, PartialRead::Anew] {
        for implied_nak in [ImpliedNak::AnyGap, ImpliedNak::LaterRequest] {
            for lost in 0..=10 {
                let (mut world, qp) = world(|c| {
                    c.partial_read = partial_read;
                    c.implied_nak = implied_nak;
                });
                world.links[1].lose =
                    once(move |frame| relative(parse(frame).unwrap().psn.get()) == lost);
                let done = run(&mut world, qp, &[read(10 * PMTU), send(1)]);
                let stats = world.nics[0].stats(qp).requester;
                let by_timeout = u64::from(lost == 10);
                assert_eq!((stats.timeouts, stats.implied_naks), (by_timeout, 1 - by_timeout));
                let round_trips = if lost == 10 { 12 } else { 2 };
                assert!(done[1].duration() <= RTT * round_trips, "{lost}: {:?}", done[1]);
                assert_eq!(world.received[1].len(), 1);
            }
        }
    }
}

#[test]
fn any_lost_request_is_sent_again() {
    let work = [read(10), send(1), add(3), read(3 * PMTU), send(PMTU * 2), add(1)];
    for lost in 0..7 {
        let (mut world, qp) = world(|_| ());
        let mut n = 0;
        world.links[0].lose = Box::new(move |_| {
            n += 1;
            n == lost + 1
        });
        let done = run(&mut world, qp, &work);
        assert_eq!(world.links[0].lost, 1);
        assert_eq!(done.iter().filter_map(|c| c.original).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(world.nics[1].atomic_word(qp), 4);
        // All but the last are noticed by those behind them.
        let timeouts = world.nics[0].stats(qp).requester.timeouts;
        assert_eq!(timeouts, u64::from(lost == 6), "{lost}");
    }
}

#[test]
fn an_atomic_whose_answer_is_lost_is_not_executed_again() {
    for only_the_first in [true, false] {
        let (mut world, qp) = world(|c| c.retry = RetryLimit::Infinite);
        let mut n = 0;
        let mut dice = bernoulli(0.6, 1);
        world.links[1].lose = Box::new(move |frame| {
            let answer = parse(frame).unwrap().opcode == Opcode::ATOMIC_ACK;
            n += u32::from(answer);
            answer && if only_the_first { n == 1 } else { dice(frame) }
        });
        let work: Vec<_> =
            (0..40).map(|i| if i % 5 == 4 { swap(i, i + 1) } else { add(1) }).collect();
        let done = run(&mut world, qp, &work);
        let originals: Vec<_> = done.iter().filter_map(|c| c.original).collect();
        assert_eq!(originals, (0..40).collect::<Vec<_>>());
        assert_eq!(world.nics[1].atomic_word(qp), 40);
        let stats = world.nics[1].stats(qp).responder;
        assert_eq!(stats.atomics, 40);
        assert!(stats.atomics_repeated > 0);
    }
}

#[test]
fn what_is_too_old_is_discarded() {
    let (mut world, qp) = world(|c| c.max_rd_atomic = 2);
    let [a, b] = &mut world.nics;
    let mut old = Vec::new();
    for work in [add(1), read(2 * PMTU), add(1), read(1)] {
        a.post(qp, work, Time::ZERO).unwrap();
        let (frames, _) = sent(a, Time::ZERO);
        give(b, &frames);
        give(a, &sent(b, Time::ZERO).0);
        old.extend(frames);
    }
    give(b, &old);
    let (_, answers) = sent(b, Time::ZERO);
    let data = |opcode, psn| Seen::Data(opcode, psn, false);
    assert_eq!(answers, [data(Opcode::ATOMIC_ACK, 3), data(Opcode::READ_RESPONSE_ONLY, 4)]);
    let stats = b.stats(qp).responder;
    assert_eq!((stats.duplicates, stats.duplicates_dropped), (4, 2));
    assert_eq!((stats.atomics, b.atomic_word(qp)), (2, 2));
    sane(&world, qp);
}

#[test]
fn a_limited_number_is_on_its_way() {
    let (mut world, qp) = world(|c| c.max_rd_atomic = 2);
    let [a, b] = &mut world.nics;
    let (frames, requests) = request(a, qp, &[send(1), read(1), add(1), read(1), send(1)]);
    let ask = |opcode, psn| Seen::Data(opcode, psn, true);
    let first =
        [ask(Opcode::SEND_ONLY, 0), ask(Opcode::READ_REQUEST, 1), ask(Opcode::FETCH_ADD, 2)];
    assert_eq!(requests, first);
    give(b, &frames);
    let (answers, _) = sent(b, Time::ZERO);
    give(a, &answers[..2]);
    // The work requests behind the waiting READ go with it.
    assert_eq!(sent(a, Time::ZERO).1, [ask(Opcode::READ_REQUEST, 3), ask(Opcode::SEND_ONLY, 4)]);
}

#[test]
fn a_read_may_overshoot_the_window_and_closes_it() {
    let (mut world, qp) = world(|c| c.window = 4);
    let [a, b] = &mut world.nics;
    let (frames, requests) = request(a, qp, &[send(1), read(100 * PMTU), send(1)]);
    assert_eq!(requests.len(), 2);
    give(b, &frames);
    let (answers, _) = sent(b, Time::ZERO);
    give(a, &answers[..97]);
    assert_eq!(sent(a, Time::ZERO).1, []);
    give(a, &answers[97..98]);
    assert_eq!(sent(a, Time::ZERO).1, [Seen::Data(Opcode::SEND_ONLY, 101, true)]);
}

#[test]
fn duplicates_of_a_read_are_answered_in_their_turn() {
    let (mut world, qp) = world(|_| ());
    let [a, b] = &mut world.nics;
    let (frames, _) = request(a, qp, &[read(2 * PMTU), send(1)]);
    give(b, &frames);
    give(b, &frames);
    let (frames, answers) = sent(b, Time::ZERO);
    let data = |opcode, psn| Seen::Data(opcode, psn, false);
    let once = [
        data(Opcode::READ_RESPONSE_FIRST, 0),
        data(Opcode::READ_RESPONSE_LAST, 1),
        Seen::Ack(2, 0x1f, 2),
    ];
    assert_eq!(answers, [once, once].concat());
    give(a, &frames);
    assert_eq!(a.stats(qp).requester.stale, 3);
    assert_eq!(a.pending(qp), 0);
    sane(&world, qp);
}

/// rxe: the ACK of a duplicate does not cover a READ behind it. It does cover an
/// atomic, whose response has then to be asked for again.
#[test]
fn the_ack_of_a_duplicate_covers_atomics_and_no_reads() {
    for (fetch, acked, again) in
        [(read(2 * PMTU), 0, vec![]), (add(1), 1, vec![Seen::Data(Opcode::FETCH_ADD, 1, true)])]
    {
        let (mut world, qp) = world(|_| ());
        let [a, b] = &mut world.nics;
        let (frames, _) = request(a, qp, &[send(1), fetch]);
        give(b, &frames);
        sent(b, Time::ZERO); // lost
        give(b, &frames[..1]);
        let (frames, answers) = sent(b, Time::ZERO);
        assert_eq!(answers, [Seen::Ack(acked, 0x1f, 2)]);
        give(a, &frames);
        assert_eq!(a.poll_completion().map(|c| c.work.kind), Some(WorkKind::Send));
        assert_eq!(sent(a, Time::ZERO).1, again);
        sane(&world, qp);
    }
}

#[test]
fn an_answer_covers_the_acks_that_are_owed() {
    for (fetch, opcode) in [(read(1), Opcode::READ_RESPONSE_ONLY), (add(1), Opcode::ATOMIC_ACK)] {
        let delay = Span::from_micros(50);
        let (mut world, qp) = world(|c| c.ack_coalescing = AckCoalescing { packets: 3, delay });
        let [a, b] = &mut world.nics;
        let (frames, _) = request(a, qp, &[send(1), fetch]);
        give(b, &frames);
        assert_eq!(sent(b, Time::ZERO).1, [Seen::Data(opcode, 1, false)]);
        b.on_timers(Time::ZERO + delay);
        assert_eq!(sent(b, Time::ZERO + delay).1, []);
    }
}

#[test]
fn a_request_that_is_not_the_one_before_is_not_answered() {
    let (mut world, qp) = world(|_| ());
    let [a, b] = &mut world.nics;
    let (frames, _) = request(a, qp, &[read(4 * PMTU)]);
    give(b, &frames);
    sent(b, Time::ZERO);
    let roce = parse(&frames[0]).unwrap();
    let good = roce.reth(&frames[0]).unwrap();
    for wrong in [
        Reth { va: good.va + 1, ..good },
        Reth { rkey: !good.rkey, ..good },
        Reth { len: good.len + 1, ..good },
        Reth { len: 0, ..good },
    ] {
        let mut frame = frames[0].clone();
        frame[roce.extension()].copy_from_slice(&wrong.to_bytes());
        let at = roce.icrc_at();
        let crc = common::wire::icrc(&frame, &roce);
        frame[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        give(b, &[frame]);
        assert_eq!(sent(b, Time::ZERO).1, [], "{wrong:?}");
    }
    assert_eq!(b.stats(qp).responder.duplicates_dropped, 4);
}

#[test]
fn reads_and_atomics_outside_the_region_are_refused() {
    type Change = fn(&mut Region);
    let changes: [Change; 3] = [|r| r.rkey ^= 1, |r| r.va += 8, |r| r.va -= 8];
    for work in [read(1000), add(1)] {
        for change in changes {
            let (mut world, qp) = world(|c| {
                c.remote_region.len = 1000;
                c.local_region = c.remote_region;
                change(&mut c.remote_region);
            });
            for work in [read(0), work, work] {
                world.nics[0].post(qp, work, Time::ZERO).unwrap();
            }
            world.run(LONG);
            let statuses: Vec<_> = world.completions[0].iter().map(|c| c.status).collect();
            assert_eq!(statuses, [Status::Ok, Status::RemoteAccess, Status::Flushed], "{work:?}");
        }
    }
}

#[test]
fn a_reset_ends_reads_and_atomics() {
    let (mut world, qp) = world(|_| ());
    let [a, b] = &mut world.nics;
    for work in [add(5), read(4 * PMTU)] {
        a.post(qp, work, Time::ZERO).unwrap();
    }
    give(b, &drain(a, Time::ZERO));
    let answers = drain(b, Time::ZERO);
    give(a, &answers[..3]); // The READ has begun.
    give(b, &[]);
    for nic in [&mut *a, &mut *b] {
        nic.reset_qp(qp, Psn::new(FIRST), Psn::new(FIRST), Time::ZERO);
    }
    let ended: Vec<_> = std::iter::from_fn(|| a.poll_completion()).map(|c| c.status).collect();
    assert_eq!(ended, [Status::Ok, Status::Flushed]);
    assert_eq!(b.atomic_word(qp), 0);
    let done = run(&mut world, qp, &[add(2), read(4 * PMTU), add(1)]);
    assert_eq!(done.iter().filter_map(|c| c.original).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(done.iter().map(|c| c.index).collect::<Vec<_>>(), [0, 1, 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// One READ of any length from any PSN takes the PSNs it should, and comes
    /// whole.
    #[test]
    fn any_read(len in 0u32..20_000, pmtu in 0u32..5, first in prop_oneof![0..Psn::MODULUS, Psn::MODULUS - 9..Psn::MODULUS]) {
        let (mut world, qp) = world(|c| {
            c.pmtu = 256 << pmtu;
            c.send_psn = Psn::new(first);
        });
        run(&mut world, qp, &[read(len), add(1), read(len)]);
        prop_assert_eq!(world.links[0].offered, 3);
        prop_assert_eq!(world.links[1].offered, 2 * u64::from(len.div_ceil(256 << pmtu).max(1)) + 1);
    }
}
