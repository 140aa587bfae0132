//! A protected flow at its Sentry.

use common::control::{BootId, Epoch, Fetch, LastAck, Status, SyncMessage};
use common::frame::{Class, Packet};
use common::histogram::Timing;
use common::metrics::Metric;
use common::psn::Psn;
use common::time::Span;
use common::wire::{Qpn, Response, Roce};
use sentry::{Actions, Config, Recovery};
use testkit::control::status;
use testkit::sentry::{Harness, START, config};

use crate::flow::{Acks, Bed, InOrder, Outlet, Pipeline, RTT};
use crate::frame::Recycled;
use crate::{BURST, Stage};

/// The Depot's start.
const BOOT: BootId = BootId(7);

type Sentry = Harness<Recycled, Outlet>;

impl Actions<Recycled> for Outlet {
    fn forward(&mut self, packet: Packet<Recycled>, _: Class) {
        self.send(Metric::TransmittedWan, packet);
    }

    fn discard(&mut self, packet: Packet<Recycled>, reason: Metric) {
        self.counters.inc(reason);
        drop(packet);
    }

    fn sync(&mut self, _: Epoch, _: SyncMessage, _: Class) {
        self.messages += 1;
    }

    fn unheard(&mut self) {}

    fn fetch(&mut self, _: Epoch, _: Fetch) {}

    fn respond(&mut self, frame: Recycled) {
        self.send(Metric::TransmittedLan, Packet::Owned(frame));
    }

    fn src_qpn(&self) -> Option<Qpn> {
        Some(Qpn::new(1))
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

    fn record(&mut self, what: Timing, time: Span) {
        self.counters.record(what, time);
    }
}

impl Pipeline for Sentry {
    const IN_ORDER: Metric = Metric::SentryNew;
    const RESPONSES: Metric = Metric::TransmittedLan;

    #[inline]
    fn data(&mut self, frame: Recycled, roce: &Roce) {
        self.with(|flow, cx| flow.on_data(cx, frame, roce));
    }

    #[inline]
    fn respond(&mut self, frame: Recycled, roce: &Roce, response: Response) {
        self.with(|flow, cx| flow.on_response(cx, frame, roce, response));
    }

    fn out(&mut self) -> &mut Outlet {
        &mut self.out
    }

    fn count(&self, metric: Metric) -> u64 {
        self.out.counters.get(metric)
    }
}

/// A flow with nothing in flight.
fn protected(recovery: Recovery) -> Bed<Sentry> {
    let config = Config { rtt_guess: RTT, pause: None, window_max: 1 << 19, ..config(recovery) };
    let mut bed = Bed::new(Sentry::new(config, START, Psn::new(0), Outlet::default()));
    bed.take_ready();
    bed.flow.now += RTT;
    report(&mut bed, 0, 0);
    bed.acknowledge();
    assert!(bed.flow.flow.is_protected());
    bed
}

/// A STATUS: the Depot has everything but the `missing` packets from `expected` on.
fn report(bed: &mut Bed<Sentry>, expected: u32, missing: u32) {
    let missing = &[(expected, expected + missing)][..usize::from(missing > 0)];
    let status = status(expected, bed.next, missing, Psn::new);
    let status = Status { echo: bed.flow.now - RTT, keeps_responses: false, ..status };
    assert!(bed.flow.with(|flow, cx| flow.on_status(cx, BOOT, &status)));
}

/// New packets in order.
pub fn in_order(recovery: Recovery) -> impl Stage {
    InOrder(protected(recovery))
}

/// ACKs of messages.
pub fn acks(recovery: Recovery) -> impl Stage {
    Acks::new(protected(recovery))
}

struct Repeats(Bed<Sentry>);

/// Repeats of packets that the Depot holds, in a rewind that it requested.
pub fn repeats() -> impl Stage {
    Repeats(protected(Recovery::Lr2))
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
        bed.flow.now += RTT * 2;
        report(bed, lost, 1);
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
        self.0.flow.count(Metric::DropFiltered)
    }
}
