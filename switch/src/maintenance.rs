//! Work that is not urgent: the control thread's commands, ageing of idle flows, and the gauges.

use common::frame::{Frame, Pool, Sink};
use common::metrics::Metric;
use common::time::{Span, Time};

use crate::flow::entry::{Id, Pipeline};
use crate::switch::{Io, Pools, Switch};
use crate::{Command, Recovery};

/// Entries that one call of `housekeeping` looks at.
const SWEEP: Id = 1024;
/// Time without a packet after which a flow gives back the memory that its last
/// burst took.
const IDLE: Span = Span::from_millis(1_000);
/// Time without a packet after which a flow with nothing outstanding gives up its
/// pipeline. What is known of it stays.
const REST: Span = Span::from_millis(10_000);

/// Percent of the slots from which on a flow that has been idle for [`IDLE`] has none.
const PRESSURE: u8 = 50;

/// A round over the table.
#[derive(Default)]
pub(crate) struct Sweep {
    next: Id,
    protected: u64,
    synced: u64,
    /// Memory that the flows take besides their entries.
    bytes: u64,
}

impl<F: Frame> Switch<F> {
    /// Does what the control thread asks.
    pub fn command<P, S>(&mut self, command: Command, now: Time, pool: &mut P, sink: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut io = Io { pool, sink, now };
        match command {
            Command::Drain => {
                self.draining = true;
                self.let_go(&mut io);
            }
            Command::SetRecovery(recovery) => {
                // Handles kept by one mode are of no use to another.
                self.let_go(&mut io);
                self.config.recovery = recovery;
                self.sentry.recovery = sentry_recovery(recovery);
                self.depot.keeps_responses = keeps_responses(recovery);
            }
        }
        self.released.flush();
    }

    /// Forgets flows that have been idle for long, a few at a time, and
    /// refreshes the gauges. To be called every few milliseconds.
    pub fn housekeeping<P, S>(&mut self, now: Time, pool: &mut P, sink: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut io = Io { pool, sink, now };
        let end = self.table.end();
        for _ in 0..SWEEP.min(end) {
            if self.sweep.next >= end {
                self.end_sweep();
                break;
            }
            let id = self.sweep.next;
            self.sweep.next += 1;
            self.look_at(id, &mut io);
        }
        let counters = &mut self.tx.counters;
        counters.set(Metric::FlowsAll, self.table.len() as u64);
        counters.set(Metric::LanHosts, self.lan.len() as u64);
        counters.set(Metric::LanWaiting, self.lan.waiting());
        let Pools { cache, reorder, backup } = &self.pools;
        for (frames, bytes, pool) in [
            (Metric::HeldReorder, Metric::HeldReorderBytes, reorder),
            (Metric::HeldBackup, Metric::HeldBackupBytes, backup),
            (Metric::HeldCache, Metric::HeldCacheBytes, cache),
        ] {
            counters.set(frames, pool.frames());
            counters.set(bytes, pool.used());
        }
        self.released.flush();
    }

    fn look_at<P, S>(&mut self, id: Id, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let Some(entry) = self.table.get(id) else { return };
        let idle = entry.seen.since(io.now);
        if idle >= self.config.flow_idle {
            self.remove(id, io);
            return self.tx.counters.inc(Metric::FlowAged);
        }
        if idle >= IDLE && self.pools.cache.are_slots_filled(PRESSURE) {
            // Others need what it was never answered for.
            self.with_sentry(id, io, |flow, cx| flow.forget(cx));
        }
        let Some(entry) = self.table.get_mut(id) else { return };
        if let Pipeline::Sentry(stage) = &mut entry.pipeline
            && idle >= IDLE
        {
            stage.state.shrink();
            self.pools.cache.give_slots(stage.state.spare_slots());
        }
        if idle >= REST && entry.peer().is_some() {
            entry.rest(&self.sentry, io.now);
        }
        let sweep = &mut self.sweep;
        match &mut entry.pipeline {
            Pipeline::Sentry(stage) => {
                sweep.protected += u64::from(stage.state.is_protected());
                sweep.bytes += stage.state.heap_bytes() as u64;
            }
            Pipeline::Depot(stage) => {
                if idle >= IDLE {
                    stage.state.shrink();
                }
                sweep.synced += u64::from(stage.state.is_synced());
                sweep.bytes += stage.state.heap_bytes() as u64;
            }
            Pipeline::None => {}
        }
    }

    /// All flows were looked at.
    fn end_sweep(&mut self) {
        let Sweep { protected, synced, bytes, .. } = core::mem::take(&mut self.sweep);
        let counters = &mut self.tx.counters;
        counters.set(Metric::FlowsProtected, protected);
        counters.set(Metric::FlowsSynced, synced);
        counters.set(Metric::FlowStateBytes, bytes);
        self.timers.shrink();
    }
}

/// READ responses are kept where packets are.
pub(crate) const fn keeps_responses(recovery: Recovery) -> bool {
    sentry_recovery(recovery).caches()
}

pub(crate) const fn sentry_recovery(recovery: Recovery) -> sentry::Recovery {
    match recovery {
        // Off never gets to a pipeline.
        Recovery::Lr2 | Recovery::Off => sentry::Recovery::Lr2,
        Recovery::Cached => sentry::Recovery::Cached,
        Recovery::Auto => sentry::Recovery::Auto,
    }
}
