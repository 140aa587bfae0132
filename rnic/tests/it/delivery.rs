//! Whichever frames are lost: every message arrives once, in order, intact.

use crate::support::{World, bernoulli};
use common::psn::Psn;
use common::time::{Span, Time};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use rnic::{
    ATOMIC_LEN, AckCoalescing, ImpliedNak, PartialRead, QpConfig, QpId, ReceiveQueue, RetryLimit,
    SecondNak, Status, WorkKind, WorkRequest,
};

/// By which operation, and its length. The operands of atomics are made from
/// both.
type Message = (u8, u32);

/// The word that atomics work on, and whether they leave it as it should be.
#[derive(Default)]
struct Word(u64);

fn work((kind, len): Message, id: u64) -> WorkRequest {
    let (kind, len) = match kind {
        0 => (WorkKind::Send, len),
        1 => (WorkKind::Write, len),
        2 => (WorkKind::Read, len),
        3 => (WorkKind::FetchAdd { add: 1 + u64::from(len) }, ATOMIC_LEN),
        // Succeeds at the beginning, later now and then.
        _ => (WorkKind::CompareSwap { compare: u64::from(len % 2), swap: 0 }, ATOMIC_LEN),
    };
    WorkRequest { kind, len, id }
}

impl Word {
    /// The word that an operation must find; `None` if it is no atomic.
    fn apply(&mut self, kind: WorkKind) -> Option<u64> {
        let original = self.0;
        match kind {
            WorkKind::FetchAdd { add } => self.0 += add,
            WorkKind::CompareSwap { compare, swap } if original == compare => self.0 = swap,
            WorkKind::CompareSwap { .. } => {}
            _ => return None,
        }
        Some(original)
    }
}

/// One trial.
#[derive(Clone, Debug)]
struct Trial {
    seed: u64,
    loss: [f64; 2],
    repeat: f64,
    rate: Option<u64>,
    rtt: Span,
    pmtu: u32,
    window: u32,
    ack_req_every: u32,
    coalesce: u32,
    obey: bool,
    re_nak: Option<Span>,
    max_rd_atomic: u32,
    implied_nak: ImpliedNak,
    partial_read: PartialRead,
    adaptive: bool,
    receive_queue: Option<ReceiveQueue>,
    first_psn: [u32; 2],
    /// Of each QP: the messages that each host sends.
    messages: Vec<[Vec<Message>; 2]>,
}

fn trial() -> impl Strategy<Value = Trial> {
    let psn = || prop_oneof![0..Psn::MODULUS, Psn::MODULUS - 64..Psn::MODULUS];
    let len = prop_oneof![Just(0), 1u32..20, 200u32..5_000, 1u32..100_000];
    let stream = || prop::collection::vec((0u8..5, len.clone()), 0..20);
    let messages = prop::collection::vec([stream(), stream()], 1..4);
    let buffers = (1u32..4, 1u64..200, 1u8..12).prop_map(|(depth, refill, rnr_timer)| {
        let refill = Some(Span::from_micros(refill));
        ReceiveQueue { depth, refill, rnr_timer }
    });
    let implied = prop_oneof![Just(ImpliedNak::AnyGap), Just(ImpliedNak::LaterRequest)];
    let partial = prop_oneof![Just(PartialRead::Continued), Just(PartialRead::Anew)];
    (
        (
            any::<u64>(),
            [0.0..0.2, 0.0..0.2],
            prop_oneof![Just(0.0), 0.0..0.1],
            prop::option::of(1_000_000_000u64..100_000_000_000),
        ),
        (1u64..5_000, 0usize..5, 1u32..300, 1u32..100, 1u32..5),
        (any::<bool>(), prop::option::of(1u64..1_000), [psn(), psn()], messages),
        (1u32..17, implied, partial, any::<bool>(), prop::option::of(buffers)),
    )
        .prop_map(
            |(
                (seed, loss, repeat, rate),
                (rtt, pmtu, window, ack_req_every, coalesce),
                rest,
                fetch,
            )| {
                let (obey, re_nak, first_psn, messages) = rest;
                let (max_rd_atomic, implied_nak, partial_read, adaptive, receive_queue) = fetch;
                Trial {
                    seed,
                    loss,
                    repeat,
                    rate,
                    rtt: Span::from_micros(rtt),
                    pmtu: 256 << pmtu,
                    window,
                    ack_req_every,
                    coalesce,
                    obey,
                    re_nak: re_nak.map(Span::from_micros),
                    max_rd_atomic,
                    implied_nak,
                    partial_read,
                    adaptive,
                    receive_queue,
                    first_psn,
                    messages,
                }
            },
        )
}

impl Trial {
    /// The hosts and their QPs, with all messages posted.
    fn world(&self) -> (World, Vec<QpId>) {
        let mut world = World::new(self.rate, self.rtt);
        for side in [0, 1] {
            world.links[side].lose = bernoulli(self.loss[side], self.seed ^ side as u64);
            world.links[side].repeat = bernoulli(self.repeat, !self.seed ^ side as u64);
        }
        let mut qps = Vec::new();
        for (n, messages) in (0..).zip(&self.messages) {
            let qp = world.add_qp(n, |c| {
                c.send_psn = Psn::new(self.first_psn[0]).offset(n);
                c.recv_psn = Psn::new(self.first_psn[1]);
                c.pmtu = self.pmtu;
                c.window = self.window;
                c.ack_req_every = self.ack_req_every;
                c.ack_coalescing =
                    AckCoalescing { packets: self.coalesce, delay: Span::from_micros(20) };
                c.second_nak = if self.obey { SecondNak::Obey } else { SecondNak::IgnoreUntilAck };
                c.re_nak = self.re_nak;
                c.timeout = self.rtt * 4 + Span::from_millis(1);
                c.retry = RetryLimit::Infinite;
                self.fetching(c);
                c.content_seed = self.seed;
            });
            for (nic, messages) in world.nics.iter_mut().zip(messages) {
                for (id, message) in (0..).zip(messages) {
                    nic.post(qp, work(*message, id), Time::ZERO).unwrap();
                }
            }
            qps.push(qp);
        }
        (world, qps)
    }

    fn fetching(&self, c: &mut QpConfig) {
        c.max_rd_atomic = self.max_rd_atomic;
        c.implied_nak = self.implied_nak;
        c.partial_read = self.partial_read;
        c.adaptive_retransmission = self.adaptive;
        c.receive_queue = self.receive_queue;
    }
}

/// The messages of host `side` on `qp` have arrived at the other one.
fn check_stream(world: &World, qp: QpId, side: usize, messages: &[Message]) -> TestCaseResult {
    let received: Vec<_> = world.received[1 - side].iter().filter(|r| r.qp == qp).collect();
    let completed: Vec<_> = world.completions[side].iter().filter(|c| c.qp == qp).collect();
    prop_assert_eq!(completed.len(), messages.len());
    let mut word = Word::default();
    // Messages and fetches are counted apart.
    let mut indexes = [0; 2];
    let mut arrivals = received.iter();
    for (id, (message, c)) in (0..).zip(messages.iter().zip(&completed)) {
        let expected = work(*message, id);
        let index = &mut indexes[usize::from(expected.kind.is_fetch())];
        prop_assert_eq!((c.work, c.index, c.status), (expected, *index, Status::Ok));
        prop_assert_eq!(c.original, word.apply(expected.kind));
        prop_assert_eq!(c.corrupt_bytes, 0);
        if !expected.kind.is_fetch() {
            let r = arrivals.next().expect("as many as were sent");
            prop_assert_eq!((r.index, r.len, r.corrupt_bytes), (*index, expected.len, 0));
            prop_assert_eq!(r.kind, expected.kind);
            prop_assert!(r.at <= c.completed_at, "completed before it arrived");
        }
        *index += 1;
    }
    prop_assert_eq!(arrivals.next(), None);
    prop_assert_eq!(world.nics[1 - side].atomic_word(qp), word.0);
    let sender = world.nics[side].stats(qp).requester;
    let receiver = world.nics[1 - side].stats(qp).responder;
    prop_assert_eq!(sender.beyond_sent + sender.unexpected, 0);
    prop_assert_eq!(sender.wrong_msn + sender.wrong_originals + sender.corrupt_bytes, 0);
    prop_assert_eq!(receiver.refused + receiver.corrupt_messages, 0);
    prop_assert_eq!((sender.reads, sender.atomics), (receiver.reads, receiver.atomics));
    prop_assert_eq!(sender.packets - sender.retransmitted, receiver.accepted);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_message_once_in_order_and_intact(trial in trial()) {
        let (mut world, qps) = trial.world();
        prop_assert!(world.run(Time::from_nanos(3_600_000_000_000)), "not done after an hour");
        for (qp, messages) in qps.iter().zip(&trial.messages) {
            for side in [0, 1] {
                check_stream(&world, *qp, side, &messages[side])?;
            }
        }
        for side in [0, 1] {
            let link = &world.links[side];
            let (from, to) = (world.nics[side].port_stats(), world.nics[1 - side].port_stats());
            prop_assert_eq!(from.frames_out, link.offered);
            prop_assert_eq!(to.frames_in, link.offered - link.lost + link.repeated);
            // Each frame was a packet of some QP.
            let totals = world.nics[1 - side].totals();
            let requests = totals.responder.accepted
                + totals.responder.duplicates
                + totals.responder.out_of_sequence
                + totals.responder.rnr_naks;
            let responses = totals.requester.acks
                + totals.requester.naks
                + totals.requester.rnr_naks
                + totals.requester.read_responses
                + totals.requester.atomic_acks;
            prop_assert_eq!(to.frames_in, requests + responses);
        }
    }
}
