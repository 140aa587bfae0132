//! Work that is not urgent: ageing of idle flows, and the gauges.

use common::frame::Frame;
use common::ids::FlowId;
use common::metrics::Metric;
use common::time::Span;
use sentry::Standing;

use crate::context::Context;
use crate::flow::entry::FlowState;
use crate::flow::pipeline::Resources;
use crate::io::Io;

/// Entries that one call of `housekeeping` looks at.
const SWEEP: u32 = 1024;
/// Time without a packet after which a flow gives back the memory that its last
/// burst took.
const IDLE: Span = Span::from_millis(1_000);
/// Time without a packet after which a flow with nothing outstanding gives up its
/// pipeline. The PSN at which it continues stays.
const REST: Span = Span::from_millis(10_000);

/// Percent of the slots from which on a flow that has been idle for [`IDLE`] has none.
const PRESSURE: u8 = 50;

/// A round over the table.
#[derive(Default)]
pub(crate) struct Sweep {
    next: u32,
    protected: u64,
    synced: u64,
    unprotected: u64,
    deferred: u64,
    /// Memory that the flows take besides their entries.
    bytes: u64,
}

impl Sweep {
    /// Forgets flows that have been idle for long, a few at a time, and refreshes the gauges.
    pub fn run<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let end = cx.flows.table.end();
        for _ in 0..SWEEP.min(end) {
            if self.next >= end {
                self.end(cx);
                break;
            }
            let id = FlowId(self.next);
            self.next += 1;
            self.look_at(cx, id);
        }
        let Resources { cache, reorder, backup, lan, .. } = &cx.flows.resources;
        let counters = &mut cx.tx.counters;
        counters.set(Metric::FlowsAll, cx.flows.table.len() as u64);
        counters.set(Metric::LanHosts, lan.len() as u64);
        counters.set(Metric::LanWaiting, lan.waiting());
        for (frames, bytes, pool) in [
            (Metric::HeldReorder, Metric::HeldReorderBytes, reorder),
            (Metric::HeldBackup, Metric::HeldBackupBytes, backup),
            (Metric::HeldCache, Metric::HeldCacheBytes, cache),
        ] {
            counters.set(frames, pool.frames());
            counters.set(bytes, pool.used());
        }
    }

    fn look_at<F: Frame, I: Io<Frame = F>>(&mut self, cx: &mut Context<'_, I>, id: FlowId) {
        let now = cx.io.now();
        let Some(entry) = cx.flows.table.get(id) else { return };
        let idle = entry.seen.since(now);
        if idle >= cx.config.flow_idle {
            cx.remove(id);
            return cx.tx.counters.inc(Metric::FlowAged);
        }
        if idle >= IDLE && cx.flows.resources.cache.are_slots_filled(PRESSURE) {
            // Others need the slots of its unanswered packets.
            cx.sentry(id, |flow, cx| flow.release_all(cx));
        }
        let resources = &mut cx.flows.resources;
        let Some(entry) = cx.flows.table.get_mut(id) else { return };
        if let FlowState::Sentry(stage) = &mut entry.state
            && idle >= IDLE
        {
            stage.state.shrink();
            resources.cache.give_slots(stage.state.spare_slots());
        }
        if idle >= REST && entry.peer().is_some() {
            entry.rest(&resources.sentry, now);
        }
        match &mut entry.state {
            FlowState::Sentry(stage) => {
                self.protected += u64::from(stage.state.is_protected());
                // Protected ones that are silent for so long are at rest.
                let is_active = idle < REST;
                self.deferred +=
                    u64::from(is_active && stage.state.standing() == Standing::Deferred);
                self.bytes += stage.state.heap_bytes() as u64;
            }
            FlowState::Depot(stage) => {
                if idle >= IDLE {
                    stage.state.shrink();
                }
                self.synced += u64::from(stage.state.is_synced());
                self.bytes += stage.state.heap_bytes() as u64;
            }
            FlowState::Left(left) => self.unprotected += u64::from(!left.is_over),
            FlowState::Responses | FlowState::Resting(_) => {}
        }
    }

    /// All flows were looked at.
    fn end<I: Io>(&mut self, cx: &mut Context<'_, I>) {
        let Self { protected, synced, unprotected, deferred, bytes, .. } = core::mem::take(self);
        let counters = &mut cx.tx.counters;
        counters.set(Metric::FlowsProtected, protected);
        counters.set(Metric::FlowsSynced, synced);
        counters.set(Metric::FlowsUnprotected, unprotected);
        counters.set(Metric::FlowsDeferred, deferred);
        counters.set(Metric::FlowStateBytes, bytes);
        cx.flows.timers.shrink();
    }
}
