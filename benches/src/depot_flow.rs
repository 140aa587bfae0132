//! A flow at its Depot.

use common::budget::Budget;
use common::control::{BootId, Epoch, Fetch, LastAck, NodeId, Reason, Status, SyncMessage};
use common::frame::{Class, Packet};
use common::histogram::Timing;
use common::ids::FlowId;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Span;
use common::wire::{Qpn, Response, Roce};
use depot::{Actions, Config, Host, Incarnation, Known};
use testkit::control::sync;
use testkit::depot::{Harness, START, Timers, config};

use crate::flow::{Acks, Bed, InOrder, Outlet, Pipeline, RTT};
use crate::frame::Recycled;
use crate::packets::PMTU;
use crate::{BURST, Stage};

/// From packet to packet: 1 KiB at 100 Gbit/s.
const SLOT: Span = Span::from_nanos(88);
const LIFE: Incarnation = Incarnation { node: NodeId(1), boot: BootId(5), epoch: Epoch(9) };

type Depot = Harness<Recycled, Outlet>;

impl Actions<Recycled> for Outlet {
    fn cnp(&mut self) -> bool {
        true
    }

    fn destination(&self) -> Host {
        Host::default()
    }

    fn id(&self) -> FlowId {
        FlowId(1)
    }

    fn deliver(&mut self, packet: Packet<Recycled>) {
        self.send(Metric::TransmittedLan, packet);
    }

    fn respond(&mut self, packet: Packet<Recycled>, _: Class) {
        self.send(Metric::TransmittedWan, packet);
    }

    fn ack(&mut self, _: LastAck) {
        self.counters.inc(Metric::CreatedAck);
    }

    fn discard(&mut self, packet: Packet<Recycled>, reason: Metric) {
        self.counters.inc(reason);
        drop(packet);
    }

    fn status(&mut self, _: Epoch, _: Status) {
        self.messages += 1;
    }

    fn absent(&mut self, _: Epoch, _: Fetch, _: Class) {}

    fn src_qpn(&self) -> Option<Qpn> {
        self.src_qpn
    }

    fn count(&mut self, metric: Metric, n: u64) {
        self.counters.add(metric, n);
    }

    fn record(&mut self, what: Timing, time: Span) {
        self.counters.record(what, time);
    }
}

impl Pipeline for Depot {
    const IN_ORDER: Metric = Metric::DepotInOrder;
    const RESPONSES: Metric = Metric::TransmittedWan;

    /// Packets come at line rate.
    #[inline]
    fn data(&mut self, frame: Recycled, roce: &Roce) {
        self.now += SLOT;
        self.with(|flow, cx| flow.on_data(cx, frame, roce));
    }

    #[inline]
    fn respond(&mut self, frame: Recycled, _: &Roce, response: Response) {
        let known = self.with(|flow, cx| flow.on_response(cx, frame, response));
        assert_eq!(known, Known::ThisIncarnation);
    }

    fn out(&mut self) -> &mut Outlet {
        &mut self.out
    }

    fn count(&self, metric: Metric) -> u64 {
        self.out.counters.get(metric)
    }
}

/// A flow with a Sentry; `backup`: whether the backup pool has room for unacknowledged
/// packets.
fn synced(backup: bool) -> Bed<Depot> {
    let config = Config {
        rtt_guess: RTT,
        status_interval: None,
        give_up: None,
        t_out: None,
        local_retries: 3,
        window_max: 1 << 19,
        ..config()
    };
    let out = Outlet { src_qpn: backup.then_some(Qpn::new(1)), ..Outlet::default() };
    let mut flow = Depot::new(config, START, Psn::new(0), out);
    if !backup {
        flow.backup = Budget::new(0);
    }
    let keepalive = sync(Reason::Keepalive, Psn::new(0), flow.now);
    let sync = SyncMessage { pmtu: PMTU as u16, rtt: RTT, ..keepalive };
    flow.with(|flow, cx| flow.on_sync(cx, LIFE, &sync));
    let mut bed = Bed::new(flow);
    bed.take_ready();
    bed.acknowledge();
    assert!(bed.flow.flow.is_synced());
    bed
}

/// One packet is lost, and those behind it come.
fn ready_early(bed: &mut Bed<Depot>) {
    bed.next += 1;
    bed.ready_new(BURST);
}

/// The lost packet arrives, and the held packets are delivered as they fall due.
fn fill(bed: &mut Bed<Depot>) {
    bed.take_ready();
    let early = bed.flow.pool.frames();
    for _ in 0..early {
        if bed.flow.pool.frames() == 0 {
            break;
        }
        bed.flow.next_timer();
    }
}

/// New packets in order, with a copy kept of each until the destination has it, or without.
pub fn in_order(backup: bool) -> impl Stage {
    InOrder(synced(backup))
}

/// ACKs of messages.
pub fn acks() -> impl Stage {
    Acks::new(synced(true))
}

struct Early(Bed<Depot>);

/// Packets behind a gap.
pub fn early() -> impl Stage {
    Early(synced(true))
}

impl Stage for Early {
    fn prepare(&mut self) {
        let Self(bed) = self;
        if bed.flow.pool.frames() > 0 {
            bed.ready(bed.next - BURST - 1);
            fill(bed);
            bed.acknowledge();
        }
        ready_early(bed);
    }

    fn run(&mut self) {
        self.0.take_ready();
    }

    fn done(&self) -> u64 {
        self.0.flow.count(Metric::DepotHeld)
    }
}

struct Drain(Bed<Depot>);

/// A packet fills a gap, and the Depot delivers the packets held behind it.
pub fn drain() -> impl Stage {
    Drain(synced(true))
}

impl Stage for Drain {
    fn prepare(&mut self) {
        let Self(bed) = self;
        bed.acknowledge();
        ready_early(bed);
        bed.take_ready();
        bed.flow.now += RTT;
        bed.ready(bed.next - BURST - 1);
    }

    fn run(&mut self) {
        fill(&mut self.0);
    }

    fn done(&self) -> u64 {
        self.0.flow.count(Metric::DepotDrained)
    }
}
