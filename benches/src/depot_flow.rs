//! One flow at its Depot, without the switch around it.

use arrayvec::ArrayVec;
use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{Fetch, LastAck, Reason, Status, SyncMessage};
use common::frame::{Class, Frame, Packet};
use common::metrics::{Counters, Metric};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Answer, Roce, parse};
use depot::{Actions, Config, Context, Flow, Host, Incarnation, Known, Lan};
use testkit::control::sync;

use crate::frame::Recycled;
use crate::packets::{MESSAGE, PMTU, Qp};
use crate::{BURST, Stage};

/// An amount of memory that never runs out.
const PLENTY: u64 = 1 << 40;
const RTT: Span = Span::from_millis(1);
/// From packet to packet: 1 KiB at 100 Gbit/s.
const SLOT: Span = Span::from_nanos(88);
const LIFE: Incarnation = Incarnation { node: 1, boot: 5, epoch: 9 };

/// Counts as the switch does, and keeps sent packets until a case takes them.
#[derive(Default)]
struct Outlet {
    counters: Counters,
    sent: Vec<Packet<Recycled>>,
    src_qpn: Option<u32>,
    statuses: u64,
}

impl Actions<Recycled> for Outlet {
    fn cnp(&mut self) -> bool {
        true
    }

    fn destination(&self) -> Host {
        Host::default()
    }

    fn id(&self) -> u32 {
        1
    }

    fn deliver(&mut self, packet: Packet<Recycled>) {
        self.counters.inc(Metric::TransmittedLan);
        self.sent.push(packet);
    }

    fn answer(&mut self, packet: Packet<Recycled>, _: Class) {
        self.counters.inc(Metric::TransmittedWan);
        self.sent.push(packet);
    }

    fn ack(&mut self, _: LastAck) {
        self.counters.inc(Metric::CreatedAck);
    }

    fn discard(&mut self, packet: Packet<Recycled>, reason: Metric) {
        self.counters.inc(reason);
        drop(packet);
    }

    fn status(&mut self, _: u32, _: Status) {
        self.statuses += 1;
    }

    fn absent(&mut self, _: u32, _: Fetch, _: Class) {}

    fn src_qpn(&self) -> Option<u32> {
        self.src_qpn
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.counters.add(metric, n);
    }
}

/// The flow, with all that a switch gives it.
struct Bed {
    flow: Flow<Recycled>,
    config: Config,
    pool: Budget,
    backup: Budget,
    cache: Budget,
    lan: Lan,
    allowance: Allowance,
    now: Time,
    out: Outlet,
    qp: Qp,
    /// The next new packet.
    next: u32,
    /// Those that are ready to come, oldest first.
    ready: Vec<(Recycled, Roce)>,
}

impl Bed {
    /// A flow with a Sentry; `backup` says whether the backup pool has room for unacknowledged
    /// packets.
    fn new(backup: bool) -> Self {
        let config = Config {
            rtt_guess: RTT,
            status_interval: None,
            give_up: None,
            t_out: None,
            t_out_min: Span::from_micros(500),
            cnp_interval: Some(Span::from_micros(50)),
            local_retries: 3,
            keeps_responses: true,
            window_max: 1 << 19,
            pacing: true,
        };
        let now = Time::from_nanos(1_000_000_000);
        let room = if backup { PLENTY } else { 0 };
        let mut bed = Self {
            flow: Flow::new(&config, now, Psn::new(0)),
            config,
            pool: Budget::new(PLENTY),
            backup: Budget::new(room),
            cache: Budget::new(PLENTY),
            now,
            out: Outlet { src_qpn: backup.then_some(1), ..Outlet::default() },
            lan: Lan::default(),
            allowance: Allowance::default(),
            qp: Qp::new(0, MESSAGE),
            next: 0,
            ready: Vec::new(),
        };
        bed.sync();
        bed.ready_new(MESSAGE);
        bed.take_ready();
        bed.acknowledge();
        assert!(bed.flow.is_synced());
        bed
    }

    fn with<R>(
        &mut self,
        event: impl FnOnce(&mut Flow<Recycled>, &mut Context<'_, Outlet>) -> R,
    ) -> R {
        let mut cx = Context {
            now: self.now,
            config: &self.config,
            pool: &mut self.pool,
            backup: &mut self.backup,
            cache: &mut self.cache,
            lan: &mut self.lan,
            allowance: &mut self.allowance,
            out: &mut self.out,
        };
        event(&mut self.flow, &mut cx)
    }

    /// The Sentry announces its next PSN.
    fn sync(&mut self) {
        let keepalive = sync(Reason::Keepalive, Psn::new(self.next), self.now);
        let sync = SyncMessage { pmtu: PMTU as u16, rtt: RTT, ..keepalive };
        self.with(|flow, cx| flow.on_sync(cx, LIFE, &sync));
    }

    fn ready(&mut self, psn: u32) {
        let frame = self.qp.data(psn);
        let roce = parse(frame.bytes()).expect("RoCEv2");
        self.ready.push((frame, roce));
    }

    fn ready_new(&mut self, n: u32) {
        for psn in self.next..self.next + n {
            self.ready(psn);
        }
        self.next += n;
    }

    /// They come at line rate.
    fn take_ready(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        for (frame, roce) in ready.drain(..) {
            self.now += SLOT;
            self.with(|flow, cx| flow.on_data(cx, frame, &roce));
        }
        self.ready = ready;
    }

    /// The destination's ACK of everything up to and including `psn`.
    fn ack(&self, psn: u32) -> (Recycled, Answer) {
        let frame = self.qp.ack(psn);
        let roce = parse(frame.bytes()).expect("RoCEv2");
        let answer = Answer::of(&roce, frame.bytes()).expect("an ACK");
        (frame, answer)
    }

    fn take_ack(&mut self, (frame, answer): (Recycled, Answer)) {
        let known = self.with(|flow, cx| flow.on_answer(cx, frame, answer));
        assert_eq!(known, Known::ThisIncarnation);
    }

    /// The destination acknowledges all that was sent.
    fn acknowledge(&mut self) {
        self.take_ack(self.ack(self.next - 1));
        self.out.sent.clear();
    }

    /// One packet is lost, and those behind it come.
    fn ready_early(&mut self) {
        self.next += 1;
        self.ready_new(BURST);
    }

    /// The lost one comes, and all goes on when it is due.
    fn fill(&mut self) {
        self.take_ready();
        let early = self.pool.frames();
        for _ in 0..early {
            if self.pool.frames() == 0 {
                break;
            }
            self.now = self.now.max(self.flow.deadline(&self.config));
            self.with(|flow, cx| flow.on_timer(cx));
        }
    }
}

/// New packets in order.
pub struct InOrder(Bed);

impl InOrder {
    /// With a copy kept of each until the destination has it, or without.
    pub fn new(backup: bool) -> Self {
        Self(Bed::new(backup))
    }
}

impl Stage for InOrder {
    fn prepare(&mut self) {
        self.0.acknowledge();
        self.0.ready_new(BURST);
    }

    fn run(&mut self) {
        self.0.take_ready();
    }

    fn done(&self) -> u64 {
        self.0.out.counters.get(Metric::DepotInOrder)
    }
}

/// ACKs, each of a message, which free its packets.
pub struct Acks {
    bed: Bed,
    acks: ArrayVec<(Recycled, Answer), 2>,
}

impl Acks {
    /// With two messages that are not acknowledged.
    pub fn new() -> Self {
        Self { bed: Bed::new(true), acks: ArrayVec::new() }
    }
}

impl Default for Acks {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage for Acks {
    fn prepare(&mut self) {
        self.bed.out.sent.clear();
        let first = self.bed.next;
        self.bed.ready_new(2 * MESSAGE);
        self.bed.take_ready();
        self.bed.out.sent.clear();
        for n in [1, 2] {
            self.acks.push(self.bed.ack(first + n * MESSAGE - 1));
        }
    }

    fn run(&mut self) {
        for ack in self.acks.drain(..) {
            self.bed.take_ack(ack);
        }
    }

    fn done(&self) -> u64 {
        self.bed.out.counters.get(Metric::TransmittedWan)
    }
}

/// Packets behind a gap.
pub struct Early(Bed);

impl Early {
    /// With a gap that opens each time.
    pub fn new() -> Self {
        Self(Bed::new(true))
    }
}

impl Default for Early {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage for Early {
    fn prepare(&mut self) {
        let Self(bed) = self;
        if bed.pool.frames() > 0 {
            bed.ready(bed.next - BURST - 1);
            bed.fill();
            bed.acknowledge();
        }
        bed.ready_early();
    }

    fn run(&mut self) {
        self.0.take_ready();
    }

    fn done(&self) -> u64 {
        self.0.out.counters.get(Metric::DepotHeld)
    }
}

/// A packet fills a gap, and the Depot delivers the packets held behind it.
pub struct Drain(Bed);

impl Drain {
    /// With a gap that is filled each time.
    pub fn new() -> Self {
        Self(Bed::new(true))
    }
}

impl Default for Drain {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage for Drain {
    fn prepare(&mut self) {
        let Self(bed) = self;
        bed.acknowledge();
        bed.ready_early();
        bed.take_ready();
        bed.now += RTT;
        bed.ready(bed.next - BURST - 1);
    }

    fn run(&mut self) {
        self.0.fill();
    }

    fn done(&self) -> u64 {
        self.0.out.counters.get(Metric::DepotDrained)
    }
}
