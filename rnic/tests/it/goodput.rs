//! Goodput of one long flow under random loss, against the closed forms of
//! go-back-N.
//!
//! A slot is the time of one packet at line rate, here 1 µs; `W` is the RTT in
//! slots, `p` the loss of the data direction, `T` the retransmission timeout in
//! slots. Every packet asks for an ACK and the window never closes.

use crate::support::{World, bernoulli, send};
use common::time::{Span, Time};
use rnic::{RetryLimit, SecondNak};

/// bit/s at which a packet of PMTU 256 (338 bytes on the wire) takes 1 µs.
const RATE: u64 = 338 * 8 * 1_000_000;
const SLOTS: u64 = 600_000;

struct Flow {
    w: u64,
    p: f64,
    t: u64,
    /// `None`: real RNICs; `Some(slots)`: the NICs of network simulators.
    re_nak: Option<u64>,
}

impl Flow {
    /// Share of the slots that carried a packet which was accepted.
    fn goodput(&self, seed: u64) -> f64 {
        let mut world = World::new(Some(RATE), Span::from_micros(self.w));
        world.links[0].lose = bernoulli(self.p, seed);
        let qp = world.add_qp(0, |c| {
            c.pmtu = 256;
            c.window = 1 << 20;
            c.ack_req_every = 1;
            c.timeout = Span::from_micros(self.t);
            c.retry = RetryLimit::Infinite;
            c.re_nak = self.re_nak.map(Span::from_micros);
            if self.re_nak.is_some() {
                c.second_nak = SecondNak::Obey;
            }
        });
        let work = send(1 << 30);
        world.nics[0].post(qp, work, Time::ZERO).unwrap();
        assert!(!world.run(Time::ZERO + Span::from_micros(SLOTS)));
        let responder = world.nics[1].stats(qp).responder;
        assert_eq!(responder.corrupt_bytes, 0);
        responder.accepted as f64 / SLOTS as f64
    }

    fn check(&self, closed_form: f64) {
        let (w, p) = (self.w, self.p);
        let measured = self.goodput(w + (1.0 / p) as u64);
        let ratio = measured / closed_form;
        println!("W {w}, p {p}: measured {measured:.3}, closed form {closed_form:.3}");
        assert!((0.9..1.1).contains(&ratio), "W {w}, p {p}: {measured:.3}, not {closed_form:.3}");
    }
}

#[test]
fn one_nak_per_gap() {
    for (w, p) in [(200, 1e-3), (200, 1e-2), (1000, 1e-3)] {
        let t = 10 * w;
        let timeouts = p * p * t as f64 / (1.0 - p);
        let closed_form = 1.0 / (1.0 + p * (w + 1) as f64 + timeouts);
        Flow { w, p, t, re_nak: None }.check(closed_form);
    }
}

#[test]
fn a_nak_every_round_trip() {
    for (w, p) in [(200, 1e-2), (1000, 1e-3)] {
        let closed_form = (1.0 - p) / (1.0 - p + p * (w + 1) as f64);
        // One slot more than the RTT, or the last stale packet is NAKed again.
        Flow { w, p, t: 100 * w, re_nak: Some(w + 2) }.check(closed_form);
    }
}

#[test]
fn a_nak_every_four_slots() {
    let n = 4;
    for (w, p) in [(200, 1e-2), (1000, 1e-3)] {
        let closed_form = (1.0 - p + n as f64 * p) / (1.0 - p + p * (2 * w + 1) as f64);
        Flow { w, p, t: 100 * w, re_nak: Some(n) }.check(closed_form);
    }
}

#[test]
fn a_lossless_flow_fills_the_link() {
    let flow = Flow { w: 200, p: 0.0, t: 2_000, re_nak: None };
    let measured = flow.goodput(0);
    assert!(measured > 0.999, "{measured}");
}
