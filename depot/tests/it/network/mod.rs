//! A LAN that loses: a queue for each host, which drops frames that it has no room for, and RNICs
//! that acknowledge one of so many packets and send one NAK per gap.

use std::collections::VecDeque;

use common::control::{Epoch, Fetch, LastAck, Reason, Status, SyncMessage};
use common::frame::{Class, Packet};
use common::heap::HeapFrame;
use common::ids::FlowId;
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::{Aeth, Bth, Opcode, Qpn, Response, parse};
use depot::{Actions, Config, Flow, Host};
use testkit::books::Books;
use testkit::depot::*;

/// Bytes of payload.
const LEN: usize = 1024;
/// From the Depot to a host and back, besides the queue.
const DELAY: Span = Span::from_micros(5);

/// The actions of the flow whose turn it is.
#[derive(Default)]
pub struct Out {
    sent: Vec<(usize, Packet<HeapFrame>)>,
    pub to_source: Vec<i32>,
    /// How many CNPs its source is sent.
    cnps: usize,
    /// A flow whose requester is not known.
    pub unpaired: Option<usize>,
    pub books: Books,
    id: usize,
    host: usize,
}

testkit::account!(Out);

impl Actions<HeapFrame> for Out {
    fn deliver(&mut self, packet: Packet<HeapFrame>) {
        self.sent.push((self.id, packet));
        self.books.left += 1;
    }

    fn respond(&mut self, packet: Packet<HeapFrame>, _: Class) {
        let response =
            parse(packet.bytes()).ok().and_then(|roce| Response::of(&roce, packet.bytes()));
        if let Some(response) = response.filter(Response::is_nak) {
            self.to_source.push(count_of(response.psn));
        }
        self.books.left += 1;
    }

    fn ack(&mut self, _: LastAck) {}

    fn discard(&mut self, _: Packet<HeapFrame>, _: Metric) {
        self.books.left += 1;
    }

    fn status(&mut self, _: Epoch, _: Status) {}

    fn cnp(&mut self) -> bool {
        self.cnps += 1;
        true
    }

    fn destination(&self) -> Host {
        host(self.host as u8)
    }

    fn id(&self) -> FlowId {
        FlowId(self.id as u32)
    }

    fn absent(&mut self, _: Epoch, _: Fetch, _: Class) {}

    fn src_qpn(&self) -> Option<Qpn> {
        (self.unpaired != Some(self.id)).then_some(Qpn::new(0x77))
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.books.count(metric, n);
    }
}

/// A queue pair of a host.
pub struct Receiver {
    pub host: usize,
    pub expected: i32,
    pub is_complaining: bool,
    /// Every so many packets ask for an ACK; so does the last one.
    pub asks: i32,
    /// Packets that its source sends in all, and those that have come to the Depot.
    pub all: i32,
    pub come: i32,
    /// When the next one comes, and how long after it the one after that.
    pub next: Time,
    pub every: Span,
    /// When its source was sent CNPs.
    pub cnps: Vec<Time>,
}

/// The way to a host.
pub struct Port {
    pub queue: VecDeque<(usize, Packet<HeapFrame>)>,
    pub room: usize,
    pub per_packet: Span,
    pub free_at: Time,
    pub dropped: u64,
    pub served: [u64; 64],
}

pub struct World {
    /// The surroundings of all flows, and a place for the one whose turn it is.
    pub harness: Harness<HeapFrame, Out>,
    pub flows: Vec<Flow<HeapFrame>>,
    pub receivers: Vec<Receiver>,
    pub ports: Vec<Port>,
    /// On its way back.
    pub responses: VecDeque<(Time, usize, Vec<u8>)>,
    /// Every so many packets, one is damaged on its way to its host.
    pub damage: u64,
    pub passed: u64,
}

impl World {
    /// Hosts whose ports have `room` packets and take `per_packet` for each.
    pub fn new(hosts: usize, room: usize, per_packet: Span) -> Self {
        let config = Config { t_out: None, local_retries: 3, window_max: 1 << 19, ..config() };
        let port = || Port {
            queue: VecDeque::new(),
            room,
            per_packet,
            free_at: START,
            dropped: 0,
            served: [0; 64],
        };
        Self {
            harness: Harness::new(config, START, FIRST, Out::default()),
            flows: Vec::new(),
            receivers: Vec::new(),
            ports: (0..hosts).map(|_| port()).collect(),
            responses: VecDeque::new(),
            damage: u64::MAX,
            passed: 0,
        }
    }

    /// A flow to `host` of which a packet comes `every` so often, `all` in all.
    pub fn flow(&mut self, host: usize, all: i32, asks: i32, every: Span) {
        let id = self.flows.len();
        let mut flow = Flow::new(&self.harness.config, self.harness.now, FIRST);
        flow.announce(LEN as u16);
        self.flows.push(flow);
        let next = self.harness.now + Span::from_nanos(id as u64);
        let is_complaining = false;
        self.receivers.push(Receiver {
            host,
            expected: 0,
            is_complaining,
            asks,
            all,
            come: 0,
            next,
            every,
            cnps: Vec::new(),
        });
        let open = sync(Reason::Open, FIRST, self.harness.now);
        let sync = SyncMessage { pmtu: LEN as u16, rtt: RTT, ..open };
        self.with(id, |harness| harness.with(|flow, cx| flow.on_sync(cx, LIFE, &sync)));
    }

    fn with<R>(&mut self, id: usize, event: impl FnOnce(&mut Harness<HeapFrame, Out>) -> R) -> R {
        let Self { harness, flows, receivers, ports, .. } = self;
        (harness.out.id, harness.out.host) = (id, receivers[id].host);
        std::mem::swap(&mut harness.flow, &mut flows[id]);
        let result = event(harness);
        std::mem::swap(&mut harness.flow, &mut flows[id]);
        let cnps = std::mem::take(&mut harness.out.cnps);
        receivers[id].cnps.extend(std::iter::repeat_n(harness.now, cnps));
        for (id, packet) in harness.out.sent.drain(..) {
            let port = &mut ports[receivers[id].host];
            if port.queue.len() < port.room {
                port.queue.push_back((id, packet));
            } else {
                port.dropped += 1;
            }
        }
        result
    }

    fn turns(&mut self) {
        while let Some(id) = self.harness.lan.next_turn() {
            self.with(id.0 as usize, |harness| harness.with(|flow, cx| flow.on_turn(cx)));
        }
    }

    /// The next thing happens; false if nothing ever will.
    pub fn step(&mut self) -> bool {
        let arrival = |r: &Receiver| if r.come < r.all { r.next } else { Time::NEVER };
        let serve = |p: &Port| if p.queue.is_empty() { Time::NEVER } else { p.free_at };
        let next = [
            self.receivers.iter().map(arrival).min().unwrap_or(Time::NEVER),
            self.ports.iter().map(serve).min().unwrap_or(Time::NEVER),
            self.responses.front().map_or(Time::NEVER, |(at, ..)| *at),
            self.flows
                .iter_mut()
                .map(|flow| flow.deadline(&self.harness.config))
                .min()
                .unwrap_or(Time::NEVER),
        ];
        let at = next.into_iter().min().unwrap_or(Time::NEVER);
        if at == Time::NEVER {
            return false;
        }
        self.harness.now = self.harness.now.max(at);
        for id in 0..self.flows.len() {
            let receiver = &mut self.receivers[id];
            if receiver.come < receiver.all && receiver.next <= self.harness.now {
                let n = receiver.come;
                receiver.come += 1;
                receiver.next = self.harness.now + receiver.every;
                let asks = n % receiver.asks == receiver.asks - 1 || n == receiver.all - 1;
                let bth =
                    Bth { ack_req: asks, ..Bth::new(Opcode::WRITE_MIDDLE, Qpn::new(0x11), psn(n)) };
                let bytes = with_bth(bth, &[n as u8; LEN]);
                self.with(id, |harness| harness.frame(bytes));
            }
            if self.flows[id].deadline(&self.harness.config) <= self.harness.now {
                self.with(id, Timers::timer);
            }
        }
        for port in 0..self.ports.len() {
            self.serve(port);
        }
        while let Some((_, id, bytes)) =
            self.responses.pop_front_if(|(at, ..)| *at <= self.harness.now)
        {
            let _ = self.with(id, |harness| harness.response(bytes));
        }
        self.turns();
        true
    }

    /// A packet reaches its host.
    fn serve(&mut self, port: usize) {
        let port = &mut self.ports[port];
        if port.free_at > self.harness.now {
            return;
        }
        let Some((id, packet)) = port.queue.pop_front() else { return };
        port.free_at = self.harness.now + port.per_packet;
        port.served[id] += 1;
        self.passed += 1;
        if self.passed.is_multiple_of(self.damage) {
            return;
        }
        let receiver = &mut self.receivers[id];
        let roce = parse(packet.bytes()).expect("a frame");
        let n = count_of(roce.psn);
        assert!(common::wire::icrc_ok(packet.bytes(), &roce));
        let response = if n > receiver.expected {
            let is_news = !core::mem::replace(&mut receiver.is_complaining, true);
            is_news.then_some((receiver.expected, Aeth::NAK_PSN_SEQUENCE))
        } else if n < receiver.expected {
            Some((receiver.expected - 1, Aeth::ACK_UNLIMITED))
        } else {
            receiver.expected += 1;
            receiver.is_complaining = false;
            roce.ack_req.then_some((n, Aeth::ACK_UNLIMITED))
        };
        if let Some((n, syndrome)) = response {
            self.responses.push_back((
                self.harness.now + DELAY,
                id,
                plain_response(n, syndrome, 3),
            ));
        }
    }

    /// Runs until everything has arrived.
    ///
    /// # Panics
    /// If it doesn't within a second.
    pub fn run(&mut self) {
        let end = self.harness.now + Span::from_millis(1_000);
        while self.receivers.iter().any(|r| r.expected < r.all) {
            assert!(
                self.step() && self.harness.now < end,
                "something waits for ever: {}",
                self.missing()
            );
        }
    }

    /// Runs for `span`, in which there is something to do.
    pub fn run_for(&mut self, span: Span) {
        let end = self.harness.now + span;
        while self.harness.now < end {
            assert!(self.step());
        }
    }

    pub fn missing(&self) -> i32 {
        self.receivers.iter().map(|r| r.all - r.expected).sum()
    }

    /// The source is not needed so far.
    pub fn is_alone(&self) -> bool {
        self.harness.out.to_source.is_empty()
            && self.harness.out.books.counters.get(Metric::LocalExhausted) == 0
    }

    pub fn resent(&self) -> u64 {
        self.harness.out.books.counters.get(Metric::LocalNak)
            + self.harness.out.books.counters.get(Metric::LocalTimeout)
    }

    pub fn dropped(&self) -> u64 {
        self.ports.iter().map(|port| port.dropped).sum()
    }
}
