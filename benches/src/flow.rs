//! One flow at its Sentry or at its Depot, without the switch around it.

use arrayvec::ArrayVec;
use common::frame::{Frame, Packet};
use common::metrics::{Counters, Metric};
use common::time::Span;
use common::wire::{Qpn, Response, Roce, parse};
use testkit::books::Ledger;

use crate::frame::Recycled;
use crate::packets::{MESSAGE, Qp};
use crate::{BURST, Stage};

/// The round trip of the long-haul link.
pub const RTT: Span = Span::from_millis(1);

/// Counts as the switch does, and keeps sent packets until a case takes them.
#[derive(Default)]
pub struct Outlet {
    /// The flow's counters.
    pub counters: Counters,
    /// Sent in either direction.
    pub sent: Vec<Packet<Recycled>>,
    /// The requester, if the Depot knows it.
    pub src_qpn: Option<Qpn>,
    /// Messages to the other gateway.
    pub messages: u64,
}

impl Ledger for Outlet {}

impl Outlet {
    /// A packet leaves, counted under `metric`.
    #[inline]
    pub fn send(&mut self, metric: Metric, packet: Packet<Recycled>) {
        self.counters.inc(metric);
        self.sent.push(packet);
    }
}

/// A flow of either pipeline.
pub trait Pipeline {
    /// Counts packets in order.
    const IN_ORDER: Metric;
    /// Counts responses sent on to the source.
    const RESPONSES: Metric;

    /// A request arrives.
    fn data(&mut self, frame: Recycled, roce: &Roce);

    /// A response of the destination arrives.
    fn respond(&mut self, frame: Recycled, roce: &Roce, response: Response);

    /// Its output.
    fn out(&mut self) -> &mut Outlet;

    /// The value of a counter.
    fn count(&self, metric: Metric) -> u64;
}

/// A flow, with packets for it.
pub struct Bed<P> {
    /// The flow, with all that a switch gives it.
    pub flow: P,
    qp: Qp,
    /// The next new packet.
    pub next: u32,
    /// Those that are ready to come, oldest first.
    ready: Vec<(Recycled, Roce)>,
}

impl<P: Pipeline> Bed<P> {
    /// A message is ready to come.
    pub fn new(flow: P) -> Self {
        let mut bed = Self { flow, qp: Qp::new(0, MESSAGE), next: 0, ready: Vec::new() };
        bed.ready_new(MESSAGE);
        bed
    }

    /// Packet number `psn` is ready.
    pub fn ready(&mut self, psn: u32) {
        let frame = self.qp.data(psn);
        let roce = parse(frame.bytes()).expect("RoCEv2");
        self.ready.push((frame, roce));
    }

    /// The next `n` new packets are ready.
    pub fn ready_new(&mut self, n: u32) {
        for psn in self.next..self.next + n {
            self.ready(psn);
        }
        self.next += n;
    }

    /// All that are ready come.
    #[inline]
    pub fn take_ready(&mut self) {
        for (frame, roce) in self.ready.drain(..) {
            self.flow.data(frame, &roce);
        }
    }

    /// The destination's ACK of everything up to and including `psn`.
    fn ack(&self, psn: u32) -> (Recycled, Roce, Response) {
        let frame = self.qp.ack(psn);
        let roce = parse(frame.bytes()).expect("RoCEv2");
        let response = Response::of(&roce, frame.bytes()).expect("an ACK");
        (frame, roce, response)
    }

    /// The destination acknowledges all that was sent.
    pub fn acknowledge(&mut self) {
        let (frame, roce, response) = self.ack(self.next - 1);
        self.flow.respond(frame, &roce, response);
        self.flow.out().sent.clear();
    }
}

/// New packets in order.
pub struct InOrder<P>(pub Bed<P>);

impl<P: Pipeline> Stage for InOrder<P> {
    fn prepare(&mut self) {
        self.0.acknowledge();
        self.0.ready_new(BURST);
    }

    fn run(&mut self) {
        self.0.take_ready();
    }

    fn done(&self) -> u64 {
        self.0.flow.count(P::IN_ORDER)
    }
}

/// ACKs, each of a message, which free its packets.
pub struct Acks<P> {
    bed: Bed<P>,
    acks: ArrayVec<(Recycled, Roce, Response), 2>,
}

impl<P> Acks<P> {
    /// Each time two messages are in flight.
    pub fn new(bed: Bed<P>) -> Self {
        Self { bed, acks: ArrayVec::new() }
    }
}

impl<P: Pipeline> Stage for Acks<P> {
    fn prepare(&mut self) {
        self.bed.flow.out().sent.clear();
        let first = self.bed.next;
        self.bed.ready_new(2 * MESSAGE);
        self.bed.take_ready();
        self.bed.flow.out().sent.clear();
        for n in [1, 2] {
            self.acks.push(self.bed.ack(first + n * MESSAGE - 1));
        }
    }

    fn run(&mut self) {
        for (frame, roce, response) in self.acks.drain(..) {
            self.bed.flow.respond(frame, &roce, response);
        }
    }

    fn done(&self) -> u64 {
        self.bed.flow.count(P::RESPONSES)
    }
}
