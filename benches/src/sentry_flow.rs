//! One protected flow at its Sentry, without the switch around it.

use arrayvec::ArrayVec;
use common::allowance::Allowance;
use common::budget::Budget;
use common::control::{Fetch, LastAck, Status, SyncMessage};
use common::frame::{Class, Frame, Packet};
use common::metrics::{Counters, Metric};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Answer, Roce, parse};
use sentry::{Actions, Config, Context, Flow, Recovery};
use testkit::control::status;

use crate::frame::Recycled;
use crate::packets::{MESSAGE, Qp};
use crate::{BURST, Stage};

/// An amount of memory that never runs out.
const PLENTY: u64 = 1 << 40;
/// The Depot's start.
const BOOT: u64 = 7;
const RTT: Span = Span::from_millis(1);

/// Counts as the switch does, and keeps sent packets until a case takes them.
#[derive(Default)]
struct Outlet {
    counters: Counters,
    sent: Vec<Packet<Recycled>>,
    syncs: u64,
}

impl Actions<Recycled> for Outlet {
    fn forward(&mut self, packet: Packet<Recycled>, _: Class) {
        self.counters.inc(Metric::TransmittedWan);
        self.sent.push(packet);
    }

    fn discard(&mut self, packet: Packet<Recycled>, reason: Metric) {
        self.counters.inc(reason);
        drop(packet);
    }

    fn sync(&mut self, _: u32, _: SyncMessage, _: Class) {
        self.syncs += 1;
    }

    fn unheard(&mut self) {}

    fn fetch(&mut self, _: u32, _: Fetch) {}

    fn answer(&mut self, frame: Recycled) {
        self.counters.inc(Metric::TransmittedLan);
        self.sent.push(Packet::Owned(frame));
    }

    fn src_qpn(&self) -> Option<u32> {
        Some(1)
    }

    fn new_incarnation(&mut self) {}

    fn nak(&mut self, _: Psn, _: u32) {
        self.counters.inc(Metric::CreatedNak);
    }

    fn ack(&mut self, _: LastAck) {
        self.counters.inc(Metric::CreatedAck);
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.counters.add(metric, n);
    }
}

/// The flow, with all that a switch gives it.
struct Bed {
    flow: Flow<Recycled>,
    config: Config,
    cache: Budget,
    pool: Budget,
    epochs: u32,
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
    fn new(recovery: Recovery) -> Self {
        let config = Config {
            recovery,
            rtt_guess: RTT,
            tail_timeout: None,
            status_interval: None,
            peer_timeout: None,
            forget: None,
            window_max: 1 << 19,
        };
        let now = Time::from_nanos(1_000_000_000);
        let mut bed = Self {
            flow: Flow::new(&config, now, 1, Psn::new(0)),
            config,
            cache: Budget::new(PLENTY),
            pool: Budget::new(PLENTY),
            epochs: 1,
            allowance: Allowance::default(),
            now,
            out: Outlet::default(),
            qp: Qp::new(0, MESSAGE),
            next: 0,
            ready: Vec::new(),
        };
        bed.ready_new(MESSAGE);
        bed.take_ready();
        bed.now += RTT;
        bed.report(0, MESSAGE, 0);
        bed.acknowledge();
        assert!(bed.flow.is_protected());
        bed
    }

    fn with<R>(
        &mut self,
        event: impl FnOnce(&mut Flow<Recycled>, &mut Context<'_, Outlet>) -> R,
    ) -> R {
        let mut cx = Context {
            now: self.now,
            config: &self.config,
            cache: &mut self.cache,
            pool: &mut self.pool,
            epochs: &mut self.epochs,
            allowance: &mut self.allowance,
            out: &mut self.out,
        };
        event(&mut self.flow, &mut cx)
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

    fn take_ready(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        for (frame, roce) in ready.drain(..) {
            self.with(|flow, cx| flow.on_data(cx, frame, &roce));
        }
        self.ready = ready;
    }

    /// The destination's ACK of everything up to and including `psn`.
    fn ack(&mut self, psn: u32) -> (Recycled, Roce, Answer) {
        let frame = self.qp.ack(psn);
        let roce = parse(frame.bytes()).expect("RoCEv2");
        let answer = Answer::of(&roce, frame.bytes()).expect("an ACK");
        (frame, roce, answer)
    }

    fn take_ack(&mut self, (frame, roce, answer): (Recycled, Roce, Answer)) {
        self.with(|flow, cx| flow.on_answer(cx, frame, &roce, answer));
    }

    /// The destination acknowledges all that was sent.
    fn acknowledge(&mut self) {
        let ack = self.ack(self.next - 1);
        self.take_ack(ack);
        self.out.sent.clear();
    }

    /// A STATUS: the Depot has everything before `expected`, and all later packets but
    /// `missing` packets.
    fn report(&mut self, expected: u32, high: u32, missing: u32) {
        let missing = &[(expected, expected + missing)][..usize::from(missing > 0)];
        let status = status(expected, high, missing, Psn::new);
        let status = Status { echo: self.now - RTT, keeps_responses: false, ..status };
        assert!(self.with(|flow, cx| flow.on_status(cx, BOOT, &status)));
    }
}

/// New packets in order.
pub struct InOrder(Bed);

impl InOrder {
    /// With nothing in flight.
    pub fn new(recovery: Recovery) -> Self {
        Self(Bed::new(recovery))
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
        self.0.out.counters.get(Metric::SentryNew)
    }
}

/// ACKs, each of a message, which free its packets.
pub struct Acks {
    bed: Bed,
    acks: ArrayVec<(Recycled, Roce, Answer), 2>,
}

impl Acks {
    /// With two messages in flight.
    pub fn new(recovery: Recovery) -> Self {
        Self { bed: Bed::new(recovery), acks: ArrayVec::new() }
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
            let ack = self.bed.ack(first + n * MESSAGE - 1);
            self.acks.push(ack);
        }
    }

    fn run(&mut self) {
        for ack in self.acks.drain(..) {
            self.bed.take_ack(ack);
        }
    }

    fn done(&self) -> u64 {
        self.bed.out.counters.get(Metric::TransmittedLan)
    }
}

/// Repeats of packets that the Depot holds, in a rewind that it requested.
pub struct Repeats(Bed);

impl Repeats {
    /// Recovery by the source.
    pub fn new() -> Self {
        Self(Bed::new(Recovery::Lr2))
    }
}

impl Default for Repeats {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage for Repeats {
    fn prepare(&mut self) {
        let Self(bed) = self;
        bed.acknowledge();
        let lost = bed.next;
        bed.ready_new(1 + BURST);
        bed.take_ready();
        // Nothing is under way any more; the first one was lost, and the source
        // goes back to it.
        bed.now += RTT * 2;
        bed.report(lost, bed.next, 1);
        bed.ready(lost);
        bed.take_ready();
        for psn in lost + 1..bed.next {
            bed.ready(psn);
        }
    }

    fn run(&mut self) {
        self.0.take_ready();
    }

    fn done(&self) -> u64 {
        self.0.out.counters.get(Metric::DropFiltered)
    }
}
