//! Whatever is lost on the way: every message arrives once, in order, intact.

mod support;

use common::psn::Psn;
use common::time::{Span, Time};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use rnic::{AckCoalescing, QpId, RetryLimit, SecondNak, Status, WorkKind, WorkRequest};
use support::{World, bernoulli};

/// Whether it is a WRITE, and its length.
type Message = (bool, u32);

/// One trial.
#[derive(Clone, Debug)]
struct Trial {
    seed: u64,
    loss: [f64; 2],
    rate: Option<u64>,
    rtt: Span,
    pmtu: u32,
    window: u32,
    ack_req_every: u32,
    coalesce: u32,
    obey: bool,
    re_nak: Option<Span>,
    first_psn: [u32; 2],
    /// Of each QP: the messages that each host sends.
    messages: Vec<[Vec<Message>; 2]>,
}

fn trial() -> impl Strategy<Value = Trial> {
    let psn = || prop_oneof![0..Psn::MODULUS, Psn::MODULUS - 64..Psn::MODULUS];
    let len = prop_oneof![Just(0), 1u32..20, 200u32..5_000, 1u32..100_000];
    let stream = || prop::collection::vec((any::<bool>(), len.clone()), 0..20);
    let messages = prop::collection::vec([stream(), stream()], 1..4);
    (
        (any::<u64>(), [0.0..0.2, 0.0..0.2], prop::option::of(1_000_000_000u64..100_000_000_000)),
        (1u64..5_000, 0usize..5, 1u32..300, 1u32..100, 1u32..5),
        (any::<bool>(), prop::option::of(1u64..1_000), [psn(), psn()], messages),
    )
        .prop_map(
            |((seed, loss, rate), (rtt, pmtu, window, ack_req_every, coalesce), rest)| {
                let (obey, re_nak, first_psn, messages) = rest;
                Trial {
                    seed,
                    loss,
                    rate,
                    rtt: Span::from_micros(rtt),
                    pmtu: 256 << pmtu,
                    window,
                    ack_req_every,
                    coalesce,
                    obey,
                    re_nak: re_nak.map(Span::from_micros),
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
                c.content_seed = self.seed;
            });
            for (nic, messages) in world.nics.iter_mut().zip(messages) {
                for (id, (write, len)) in (0..).zip(messages) {
                    let kind = if *write { WorkKind::Write } else { WorkKind::Send };
                    nic.post(qp, WorkRequest { kind, len: *len, id }, Time::ZERO).unwrap();
                }
            }
            qps.push(qp);
        }
        (world, qps)
    }
}

/// What host `side` sent on `qp` has arrived at the other one.
fn check_stream(world: &World, qp: QpId, side: usize, messages: &[Message]) -> TestCaseResult {
    let received: Vec<_> = world.received[1 - side].iter().filter(|r| r.qp == qp).collect();
    let completed: Vec<_> = world.completions[side].iter().filter(|c| c.qp == qp).collect();
    prop_assert_eq!(received.len(), messages.len());
    prop_assert_eq!(completed.len(), messages.len());
    for (i, (write, len)) in messages.iter().enumerate() {
        let (r, c) = (received[i], completed[i]);
        prop_assert_eq!((r.index, r.len, r.corrupt_bytes), (i as u64, *len, 0));
        prop_assert_eq!(r.kind == WorkKind::Write, *write);
        prop_assert_eq!((c.work.id, c.index, c.status), (i as u64, i as u64, Status::Ok));
        prop_assert!(r.at <= c.completed_at, "completed before it arrived");
    }
    let sender = world.nics[side].stats(qp).requester;
    let receiver = world.nics[1 - side].stats(qp).responder;
    prop_assert_eq!(sender.beyond_sent + sender.wrong_msn + sender.unexpected, 0);
    prop_assert_eq!(receiver.refused + receiver.corrupt_messages, 0);
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
            prop_assert_eq!(to.frames_in, link.offered - link.lost);
            // Each frame was a packet of some QP.
            let totals = world.nics[1 - side].totals();
            let requests = totals.responder.accepted
                + totals.responder.duplicates
                + totals.responder.out_of_sequence;
            let responses = totals.requester.acks + totals.requester.naks;
            prop_assert_eq!(to.frames_in, requests + responses);
        }
    }
}
