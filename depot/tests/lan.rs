//! Several flows on a LAN that loses: a queue for each host, which drops what it has no room
//! for, and RNICs that acknowledge one of so many packets and send one NAK per gap.

mod support;

use std::collections::VecDeque;

use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{Fetch, LastAck, Status};
use common::frame::{Class, Packet};
use common::heap::HeapFrame;
use common::metrics::{Counters, Metric};
use common::time::{Span, Time};
use common::wire::{Aeth, Answer, Bth, Opcode, parse};
use depot::{Actions, Config, Cx, Flow, Host, Lan};
use proptest::prelude::*;
use support::*;

/// Bytes of payload.
const LEN: usize = 1024;
/// From the Depot to a host and back, besides the queue.
const DELAY: Span = Span::from_micros(5);

/// What a flow does.
struct Out<'a> {
    sent: &'a mut Vec<(usize, Packet<HeapFrame>)>,
    to_source: &'a mut Vec<i32>,
    cnps: &'a mut Vec<Time>,
    now: Time,
    counters: &'a mut Counters,
    books: &'a mut (u64, u64),
    id: usize,
    host: usize,
}

impl Actions<HeapFrame> for Out<'_> {
    fn deliver(&mut self, packet: Packet<HeapFrame>) {
        self.sent.push((self.id, packet));
        self.books.1 += 1;
    }

    fn answer(&mut self, packet: Packet<HeapFrame>, _: Class) {
        let answer = parse(packet.bytes()).ok().and_then(|roce| Answer::of(&roce, packet.bytes()));
        if let Some(answer) = answer.filter(Answer::is_nak) {
            self.to_source.push(count_of(answer.psn));
        }
        self.books.1 += 1;
    }

    fn ack(&mut self, _: LastAck) {}

    fn discard(&mut self, _: Packet<HeapFrame>, _: Metric) {
        self.books.1 += 1;
    }

    fn status(&mut self, _: u32, _: Status) {}

    fn cnp(&mut self) -> bool {
        self.cnps.push(self.now);
        true
    }

    fn destination(&self) -> Host {
        host(self.host as u8)
    }

    fn id(&self) -> u32 {
        self.id as u32
    }

    fn absent(&mut self, _: u32, _: Fetch, _: Class) {}

    fn requester(&self) -> Option<u32> {
        Some(0x77)
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.counters.add(metric, n);
        if metric == Metric::CreatedHandle {
            self.books.0 += n;
        }
    }
}

/// A queue pair of a host.
struct Receiver {
    host: usize,
    expected: i32,
    is_complaining: bool,
    /// Every so many packets ask for an ACK; so does the last one.
    asks: i32,
    /// Packets that its source sends in all, and those that have come to the Depot.
    all: i32,
    come: i32,
    /// When the next one comes, and how long after it the one after that.
    next: Time,
    every: Span,
    /// When its source was sent CNPs.
    cnps: Vec<Time>,
}

/// The way to a host.
struct Port {
    queue: VecDeque<(usize, Packet<HeapFrame>)>,
    room: usize,
    per_packet: Span,
    free_at: Time,
    dropped: u64,
    served: [u64; 16],
}

struct World {
    config: Config,
    pool: Budget,
    backup: Budget,
    cache: Budget,
    allowance: Allowance,
    lan: Lan,
    now: Time,
    flows: Vec<Flow<HeapFrame>>,
    receivers: Vec<Receiver>,
    ports: Vec<Port>,
    /// On its way back.
    answers: VecDeque<(Time, usize, Vec<u8>)>,
    counters: Counters,
    books: (u64, u64),
    to_source: Vec<i32>,
    /// Every so many packets, one is damaged on its way to its host.
    damage: u64,
    passed: u64,
}

impl World {
    /// Hosts whose ports have `room` packets and take `per_packet` for each.
    fn new(hosts: usize, room: usize, per_packet: Span) -> Self {
        let Bench { mut config, pool, backup, cache, allowance, lan, now, .. } = Bench::new();
        config.t_out = None;
        config.local_retries = 3;
        config.window_max = 1 << 19;
        let port = || Port {
            queue: VecDeque::new(),
            room,
            per_packet,
            free_at: now,
            dropped: 0,
            served: [0; 16],
        };
        Self {
            config,
            pool,
            backup,
            cache,
            allowance,
            lan,
            now,
            flows: Vec::new(),
            receivers: Vec::new(),
            ports: (0..hosts).map(|_| port()).collect(),
            answers: VecDeque::new(),
            counters: Counters::default(),
            books: (0, 0),
            to_source: Vec::new(),
            damage: u64::MAX,
            passed: 0,
        }
    }

    /// A flow to `host` of which a packet comes `every` so often, `all` in all.
    fn flow(&mut self, host: usize, all: i32, asks: i32, every: Span) {
        let id = self.flows.len();
        let mut flow = Flow::new(&self.config, self.now, FIRST);
        flow.announce(LEN as u16);
        self.flows.push(flow);
        let next = self.now + Span::from_nanos(id as u64);
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
        self.with(id, |flow, cx| {
            let sync = common::control::Sync {
                reason: common::control::Reason::Open,
                next_psn: Some(FIRST),
                acked: None,
                pmtu: LEN as u16,
                src_qpn: None,
                sent_at: cx.now,
                rtt: RTT,
            };
            flow.on_sync(cx, LIFE, &sync);
        });
    }

    fn with<R>(
        &mut self,
        id: usize,
        event: impl FnOnce(&mut Flow<HeapFrame>, &mut Cx<'_, Out<'_>>) -> R,
    ) -> R {
        let mut sent = Vec::new();
        let host = self.receivers[id].host;
        let mut out = Out {
            sent: &mut sent,
            to_source: &mut self.to_source,
            cnps: &mut self.receivers[id].cnps,
            now: self.now,
            counters: &mut self.counters,
            books: &mut self.books,
            id,
            host,
        };
        let mut cx = Cx {
            now: self.now,
            config: &self.config,
            pool: &mut self.pool,
            backup: &mut self.backup,
            cache: &mut self.cache,
            lan: &mut self.lan,
            allowance: &mut self.allowance,
            out: &mut out,
        };
        let result = event(&mut self.flows[id], &mut cx);
        for (id, packet) in sent {
            let port = &mut self.ports[self.receivers[id].host];
            if port.queue.len() < port.room {
                port.queue.push_back((id, packet));
            } else {
                port.dropped += 1;
            }
        }
        result
    }

    fn turns(&mut self) {
        while let Some(id) = self.lan.next_turn() {
            self.with(id as usize, |flow, cx| flow.on_turn(cx));
        }
    }

    /// The next thing happens; false if nothing ever will.
    fn step(&mut self) -> bool {
        let arrival = |r: &Receiver| if r.come < r.all { r.next } else { Time::NEVER };
        let serve = |p: &Port| if p.queue.is_empty() { Time::NEVER } else { p.free_at };
        let next = [
            self.receivers.iter().map(arrival).min().unwrap_or(Time::NEVER),
            self.ports.iter().map(serve).min().unwrap_or(Time::NEVER),
            self.answers.front().map_or(Time::NEVER, |(at, ..)| *at),
            self.flows.iter().map(|flow| flow.deadline(&self.config)).min().unwrap_or(Time::NEVER),
        ];
        let at = next.into_iter().min().unwrap_or(Time::NEVER);
        if at == Time::NEVER {
            return false;
        }
        self.now = self.now.max(at);
        for id in 0..self.flows.len() {
            let receiver = &mut self.receivers[id];
            if receiver.come < receiver.all && receiver.next <= self.now {
                let n = receiver.come;
                receiver.come += 1;
                receiver.next = self.now + receiver.every;
                let asks = n % receiver.asks == receiver.asks - 1 || n == receiver.all - 1;
                let bth = Bth { ack_req: asks, ..Bth::new(Opcode::WRITE_MIDDLE, 0x11, psn(n)) };
                let bytes = with_bth(bth, &[n as u8; LEN]);
                let roce = parse(&bytes).expect("a frame");
                self.books.0 += 1;
                self.with(id, |flow, cx| flow.on_data(cx, HeapFrame::from(bytes), &roce));
            }
            if self.flows[id].deadline(&self.config) <= self.now {
                self.with(id, |flow, cx| flow.on_timer(cx));
            }
        }
        for port in 0..self.ports.len() {
            self.serve(port);
        }
        while let Some((_, id, bytes)) = self.answers.pop_front_if(|(at, ..)| *at <= self.now) {
            let roce = parse(&bytes).expect("a frame");
            let answer = Answer::of(&roce, &bytes).expect("an answer");
            self.books.0 += 1;
            let _ = self.with(id, |flow, cx| flow.on_answer(cx, HeapFrame::from(bytes), answer));
        }
        self.turns();
        let held = self.pool.frames() + self.backup.frames() + self.cache.frames();
        assert_eq!(self.books.0, self.books.1 + held, "a frame got lost");
        true
    }

    /// A packet reaches its host.
    fn serve(&mut self, port: usize) {
        let port = &mut self.ports[port];
        if port.free_at > self.now {
            return;
        }
        let Some((id, packet)) = port.queue.pop_front() else { return };
        port.free_at = self.now + port.per_packet;
        port.served[id] += 1;
        self.passed += 1;
        if self.passed.is_multiple_of(self.damage) {
            return;
        }
        let receiver = &mut self.receivers[id];
        let roce = parse(packet.bytes()).expect("a frame");
        let n = count_of(roce.psn);
        assert!(common::wire::icrc_ok(packet.bytes(), &roce));
        let answer = if n > receiver.expected {
            let is_news = !core::mem::replace(&mut receiver.is_complaining, true);
            is_news.then_some((receiver.expected, Aeth::NAK_PSN_SEQUENCE))
        } else if n < receiver.expected {
            Some((receiver.expected - 1, Aeth::ACK_UNLIMITED))
        } else {
            receiver.expected += 1;
            receiver.is_complaining = false;
            roce.ack_req.then_some((n, Aeth::ACK_UNLIMITED))
        };
        if let Some((n, syndrome)) = answer {
            self.answers.push_back((self.now + DELAY, id, plain_answer(n, syndrome)));
        }
    }

    /// Runs until everything has arrived.
    ///
    /// # Panics
    /// If it doesn't within a second.
    fn run(&mut self) {
        let end = self.now + Span::from_millis(1_000);
        while self.receivers.iter().any(|r| r.expected < r.all) {
            assert!(self.step() && self.now < end, "something waits for ever: {}", self.missing());
        }
    }

    fn missing(&self) -> i32 {
        self.receivers.iter().map(|r| r.all - r.expected).sum()
    }

    /// The source is not needed so far.
    fn is_alone(&self) -> bool {
        self.to_source.is_empty() && self.counters.get(Metric::LocalExhausted) == 0
    }

    fn resent(&self) -> u64 {
        self.counters.get(Metric::LocalNak) + self.counters.get(Metric::LocalTimeout)
    }

    fn dropped(&self) -> u64 {
        self.ports.iter().map(|port| port.dropped).sum()
    }
}

/// Twice as much comes as a host can take, for long: without a window every resend would be
/// lost again.
#[test]
fn what_a_host_cannot_take_waits_here() {
    let mut world = World::new(1, 200, Span::from_micros(1));
    for _ in 0..8 {
        world.flow(0, 2_000, 16, Span::from_micros(4));
    }
    let start = world.now;
    world.run();
    let (dropped, resent) = (world.dropped(), world.resent());
    assert!(dropped < 1_600, "{dropped} of 16,000 were lost");
    assert!(resent < 2 * 1_600, "{resent} of 16,000 were resent");
    assert!(world.to_source.is_empty(), "the source need not know: {:?}", world.to_source);
    let took = world.now.since(start);
    assert!(took < Span::from_micros(16_000 * 5 / 4), "{took:?}: the host was idle");
}

/// While the flows of a host wait, their sources are told, each at most once in the interval.
#[test]
fn sources_are_told_at_most_once_in_the_interval() {
    let mut world = World::new(2, 200, Span::from_micros(1));
    for _ in 0..4 {
        world.flow(0, 1_000, 16, Span::from_micros(1));
    }
    world.flow(1, 1_000, 16, Span::from_micros(2));
    world.run();
    let interval = world.config.cnp_interval.expect("it is on");
    for receiver in &world.receivers[..4] {
        let cnps = &receiver.cnps;
        assert!(cnps.windows(2).all(|pair| pair[1].since(pair[0]) >= interval));
    }
    assert!(world.receivers[4].cnps.is_empty(), "its host is not congested");
    let [loss, queue] = [Metric::CnpLoss, Metric::CnpQueue].map(|m| world.counters.get(m));
    let sent: usize = world.receivers.iter().map(|receiver| receiver.cnps.len()).sum();
    assert!(sent >= 4 && loss + queue == sent as u64, "{loss} + {queue} = {sent}");
}

#[test]
fn sources_are_told_nothing_if_that_is_off() {
    let mut world = World::new(1, 200, Span::from_micros(1));
    world.config.cnp_interval = None;
    for _ in 0..4 {
        world.flow(0, 1_000, 16, Span::from_micros(1));
    }
    world.run();
    assert!(world.receivers.iter().all(|receiver| receiver.cnps.is_empty()));
}

/// The flows of a host get equal parts, and a host that loses takes nothing from another.
#[test]
fn flows_and_hosts_are_treated_alike() {
    let mut world = World::new(2, 100, Span::from_micros(1));
    world.flow(0, 4_000, 16, Span::from_nanos(700));
    world.flow(0, 4_000, 16, Span::from_nanos(1_400));
    world.flow(1, 2_000, 16, Span::from_micros(2));
    let end = world.now + Span::from_micros(4_200);
    while world.now < end {
        assert!(world.step());
    }
    let [first, second, third] = [0, 1, 2].map(|id| world.receivers[id].expected);
    assert!(first + second > 3_600, "{first} + {second} of what fits into the time, 4,200");
    assert!(first.abs_diff(second) < 400, "{first} and {second} through one port");
    assert!(third > 1_980, "{third} of 2,000 to a host that is not congested");
    assert_eq!(world.ports[1].dropped, 0);
    world.run();
}

/// A host that takes nothing for a while, and whose queue is long enough, loses nothing:
/// next to nothing is to be resent.
#[test]
fn a_host_that_pauses_is_not_stormed() {
    for millis in [1, 10, 50] {
        let mut world = World::new(1, 100_000, Span::from_nanos(500));
        for _ in 0..4 {
            world.flow(0, 20_000, 16, Span::from_micros(3));
        }
        let end = world.now + Span::from_millis(5);
        while world.now < end {
            assert!(world.step());
        }
        world.ports[0].free_at = world.now + Span::from_millis(millis);
        world.run();
        let resent = world.resent();
        assert!(resent <= 4 * 8, "{millis} ms: {resent}");
        assert_eq!(world.dropped(), 0);
    }
}

/// The same where the queue is short: what is lost meanwhile is resent once, or left to the
/// source if the host is silent for too long.
#[test]
fn a_host_that_pauses_and_loses_is_not_stormed() {
    let mut world = World::new(1, 500, Span::from_nanos(500));
    for _ in 0..4 {
        world.flow(0, 20_000, 16, Span::from_micros(3));
    }
    let end = world.now + Span::from_millis(5);
    while world.now < end {
        assert!(world.step());
    }
    world.ports[0].free_at = world.now + Span::from_millis(1);
    world.run();
    let (resent, dropped) = (world.resent(), world.dropped());
    assert!(dropped < 2_000 && resent < 2 * dropped + 500, "{resent} for {dropped}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever the ports' room, the flows' number and pace, how often they ask, and what is
    /// damaged on the way: everything arrives in order, the books hold at every step, and
    /// nothing is left in a pool or on the way.
    #[test]
    fn everything_arrives(
        room in 20..300_usize,
        flows in proptest::collection::vec((0..2_usize, 1..600_i32, 1..70_i32, 200..4_000_u64), 1..8),
        damage in prop_oneof![Just(u64::MAX), 50..500_u64],
        pool in prop_oneof![Just(1 << 30), 10_000..200_000_u64],
    ) {
        let mut world = World::new(2, room, Span::from_micros(1));
        world.damage = damage;
        world.pool = Budget::new(pool, 1 << 20);
        for (host, all, asks, every) in flows {
            world.flow(host, all, asks, Span::from_nanos(every));
        }
        let end = world.now + Span::from_millis(1_000);
        while world.missing() > 0 && world.is_alone() {
            prop_assert!(world.step() && world.now < end, "something waits for ever");
        }
        if world.is_alone() {
            let idle = world.now + Span::from_millis(300);
            while world.now < idle && world.step() {}
            prop_assert_eq!((world.pool.frames(), world.backup.frames()), (0, 0));
            prop_assert_eq!(world.lan.on_the_way(), 0);
        }
    }
}

/// All that was on the way was lost, each packet asked for an answer, and nothing follows. A
/// question at a time would take a timeout for each.
#[test]
fn a_tail_that_is_lost_as_a_whole_is_repaired_at_the_first_timeout() {
    let mut world = World::new(1, 0, Span::from_micros(1));
    world.flow(0, 100, 1, Span::from_nanos(100));
    while world.receivers[0].come < 100 {
        assert!(world.step());
    }
    assert_eq!(world.dropped(), 100);
    world.ports[0].room = 1_000;
    world.run();
    assert_eq!(world.counters.get(Metric::LocalTimeout), 2);
    assert!(world.resent() <= 2 + 100, "{}", world.resent());
}
