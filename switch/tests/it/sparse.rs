//! Many flows that send a packet now and then: two switches, a round trip apart, on
//! virtual time.

use std::collections::BTreeMap;

use crate::support::*;
use common::allowance::Allowance;
use common::frame::Side;
use common::frame::Side::{Lan, Wan};
use common::metrics::Metric;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Addr, Bth, Opcode, Qpn, Vlans, parse};
use switch::{Config, End, QueuePair, Recovery, Tuning};

const SENTRY: usize = 0;
const DEPOT: usize = 1;
/// One way.
const DELAY: Span = Span::from_nanos(RTT.as_nanos() / 2);

/// Something that arrives somewhere.
enum Event {
    Frame(usize, Side, Vec<u8>),
    /// It is time for the next packet of a flow.
    Send(u32),
}

/// Flows of queue pairs that are all known, each with one packet outstanding, the
/// next one up to two round trips after its ACK.
struct Path {
    ends: [Bench; 2],
    now: Time,
    events: BTreeMap<(Time, u64), Event>,
    order: u64,
    random: u64,
    /// One in so many packets is lost on its first way across; 0: none.
    loses: u64,
    flows: Vec<Source>,
    /// From sending a packet to its ACK, where it was lost.
    repairs: Vec<Span>,
    packets: u64,
    /// Packets that were lost.
    lost: u64,
    /// Messages before it began.
    before: u64,
}

#[derive(Clone, Copy, Default)]
struct Source {
    psn: u32,
    sent: Time,
    was_lost: bool,
}

impl Path {
    fn new(flows: u32, loses: u64, recovery: Recovery, early_per_second: u32) -> Self {
        let addr = |last| Addr::from(std::net::IpAddr::from([10, 0, 0, last]));
        let pair = |flow| QueuePair {
            vlans: Vlans::NONE,
            ends: [(1, 1 << 20), (2, 0)]
                .map(|(host, base)| End { addr: addr(host), qpn: Qpn::new(base + flow) }),
        };
        let config = |node, boot| Config {
            queue_pairs: (0..flows).map(pair).collect(),
            tuning: Tuning { early_per_second, ..Tuning::default() },
            ..Config::lab(recovery, node, boot)
        };
        let mut path = Self {
            ends: [Bench::with(config(NODE, BOOT)), Bench::with(config(PEER, PEER_BOOT))],
            now: Time::from_nanos(1_000_000_000),
            events: BTreeMap::new(),
            order: 0,
            random: 1,
            loses,
            flows: vec![Source::default(); flows as usize],
            repairs: Vec::new(),
            packets: 0,
            lost: 0,
            before: 0,
        };
        for flow in 0..flows {
            let at = path.now + path.pause();
            path.at(at, Event::Send(flow));
        }
        path
    }

    fn at(&mut self, time: Time, event: Event) {
        self.order += 1;
        self.events.insert((time, self.order), event);
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 33
    }

    fn pause(&mut self) -> Span {
        Span::from_nanos(self.random() % (2 * RTT.as_nanos()))
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let next = self.events.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
            let due = [SENTRY, DEPOT].map(|i| self.ends[i].switch.next_deadline());
            let now = next.min(due[SENTRY]).min(due[DEPOT]);
            if now > end {
                break;
            }
            self.now = self.now.max(now);
            for i in [SENTRY, DEPOT] {
                self.ends[i].now = self.now;
                if due[i] <= self.now {
                    let sent = self.ends[i].timers();
                    self.route(i, sent);
                }
            }
            if next <= self.now
                && let Some((_, event)) = self.events.pop_first()
            {
                match event {
                    Event::Send(flow) => self.send(flow),
                    Event::Frame(i, side, bytes) => {
                        let sent = self.ends[i].receive(side, bytes);
                        self.route(i, sent);
                    }
                }
            }
        }
        self.now = end;
    }

    fn send(&mut self, flow: u32) {
        self.packets += 1;
        let was_lost = self.loses > 0 && self.random().is_multiple_of(self.loses);
        self.lost += u64::from(was_lost);
        let source = &mut self.flows[flow as usize];
        (source.sent, source.was_lost) = (self.now, was_lost);
        let bth = Bth {
            ack_req: true,
            ..Bth::new(Opcode::SEND_ONLY, Qpn::new(flow), Psn::new(source.psn))
        };
        let bytes = with_bth(&outbound(), &bth, &[0; 1_024]);
        let mut sent = self.ends[SENTRY].lan(bytes);
        if was_lost {
            sent.retain(|sent| sent.control().is_some());
        }
        self.route(SENTRY, sent);
    }

    /// Frames that left end `i`.
    fn route(&mut self, i: usize, sent: Vec<Sent>) {
        for Sent { side, bytes, .. } in sent {
            match (i, side) {
                (_, Wan) => self.at(self.now + DELAY, Event::Frame(1 - i, Wan, bytes)),
                (SENTRY, Lan) => self.acked(&bytes),
                (_, Lan) => {
                    let roce = parse(&bytes).expect("a packet");
                    let (qpn, psn) = (roce.dest_qpn.get(), roce.psn.get());
                    let ack = ack(&inbound(), (1 << 20) + qpn, psn);
                    self.at(self.now + Span::from_micros(10), Event::Frame(DEPOT, Lan, ack));
                }
            }
        }
    }

    fn acked(&mut self, bytes: &[u8]) {
        let roce = parse(bytes).expect("an ACK");
        let flow = roce.dest_qpn.get() - (1 << 20);
        let source = &mut self.flows[flow as usize];
        if source.psn != roce.psn.get() {
            return;
        }
        source.psn += 1;
        if source.was_lost {
            self.repairs.push(self.now.since(source.sent));
        }
        let at = self.now + self.pause();
        self.at(at, Event::Send(flow));
    }

    fn sentry(&self, metric: Metric) -> u64 {
        self.ends[SENTRY].count(metric)
    }

    /// Control messages of both ends.
    fn sent(&self) -> u64 {
        self.sentry(Metric::CreatedSync) + self.ends[DEPOT].count(Metric::CreatedStatus)
    }

    /// Earlier events are not counted.
    fn begin(&mut self) {
        (self.packets, self.before) = (0, self.sent());
        self.repairs.clear();
    }

    fn messages(&self) -> u64 {
        self.sent() - self.before
    }

    fn show(&self, flows: u32) {
        let mut repairs: Vec<_> = self.repairs.iter().map(|span| span.as_micros()).collect();
        repairs.sort_unstable();
        println!(
            "{flows} flows: {} packets, {} messages ({:.3} per packet); {} repairs took {:?} us, at most {:?}",
            self.packets,
            self.messages(),
            self.messages() as f64 / self.packets as f64,
            repairs.len(),
            repairs.get(repairs.len() / 2),
            repairs.last(),
        );
    }
}

/// After a time in which the flows are opened, and nothing is lost.
fn run(flows: u32, loses: u64, early_per_second: u32) -> Path {
    let mut path = Path::new(flows, 0, Recovery::Cached, early_per_second);
    path.run(Span::from_millis(2_000));
    path.begin();
    path.loses = loses;
    path.run(Span::from_millis(500));
    path.loses = 0;
    path.run(RTT * 4);
    path.show(flows);
    assert!(path.repairs.len() > 20, "{}", path.repairs.len());
    path
}

#[test]
fn with_an_ample_allowance_the_tail_is_announced_early() {
    let path = run(64, 20, Allowance::AMPLE);
    let slowest = path.repairs.iter().max().copied().expect("there are some");
    // An eighth of a round trip, one for the report and the repair, one for the ACK.
    assert!(slowest < RTT.scale(17, 8) + Span::from_micros(100), "{slowest:?}");
    assert_eq!(path.sentry(Metric::WithheldTail) + path.sentry(Metric::WithheldKeepalive), 0);
}

#[test]
fn among_a_thousand_flows_messages_are_few_and_every_loss_is_repaired() {
    let path = run(1_024, 200, Allowance::PER_SECOND);
    assert_eq!(path.sentry(Metric::FlowProtected), 1_024, "all are opened");
    // A packet and its ACK.
    assert!(path.messages() * 20 <= path.packets * 2, "{}", path.messages());
    assert!(path.sentry(Metric::WithheldTail) > 0);
    assert_eq!(path.sentry(Metric::WithheldLate), 0);
    assert_eq!(path.repairs.len() as u64, path.lost);
    let slowest = path.repairs.iter().max().copied().expect("there are some");
    // A quarter and an eighth after the ACK should have come, and the same as ever.
    assert!(slowest < RTT.scale(27, 8) + Span::from_micros(100), "{slowest:?}");
}
