//! The rooms of a switch for the time of one call, and the way into a flow's pipeline.

use common::frame::{Frame, Side};
use common::ids::FlowId;
use common::metrics::Metric;
use common::time::Time;
use common::wire::{Ack, Look};

use crate::config::Config;
use crate::flow::Flows;
use crate::flow::coarse_time::{CoarseDeadline, CoarseTime};
use crate::flow::entry::{Entry, FlowState, Track};
use crate::flow::key::FlowKey;
use crate::flow::pipeline::{Pipeline, Resources};
use crate::io::Io;
use crate::qp::pairing::Pairing;
use crate::tx::actions::{FlowRef, Output, Tx};
use crate::tx::release::Release;

/// Entries that one step of leaving flows looks at, and how many of them it releases.
const LOOKED_AT: u32 = 1024;
const RELEASED: u32 = 64;

/// Access to all rooms.
pub(crate) struct Context<'a, I: Io> {
    pub config: &'a Config,
    pub flows: &'a mut Flows<I::Frame>,
    pub pairing: &'a mut Pairing,
    pub tx: &'a mut Tx<I::Frame>,
    pub io: &'a mut I,
}

/// A frame that did not take a fast path.
pub(crate) enum Declined<F> {
    /// It is not known to be the next packet of a flow.
    NotNext(F),
    /// It is, and is noted as such.
    Noted(F),
}

impl<F: Frame, I: Io<Frame = F>> Context<'_, I> {
    /// Whether requests that arrive on `side` go through pipelines (R-PASS-1).
    #[inline]
    pub fn works_on(&self, side: Side) -> bool {
        let role = self.config.role;
        !self.tx.releases.is_draining()
            && match side {
                Side::Lan => role.is_sentry(),
                Side::Wan => role.is_depot(),
            }
    }

    /// Gives `event` to the Sentry flow `id`, if it is one.
    #[inline]
    pub fn sentry<R>(
        &mut self,
        id: FlowId,
        event: impl FnOnce(&mut sentry::Flow<F>, &mut sentry::Context<'_, Output<'_, I>>) -> R,
    ) -> Option<R> {
        let now = self.io.now();
        self.run(id, |flow, resources, out| event(flow, &mut resources.sentry(now, out)))
    }

    /// Gives `event` to the Depot flow `id`, if it is one.
    #[inline]
    pub fn depot<R>(
        &mut self,
        id: FlowId,
        event: impl FnOnce(&mut depot::Flow<F>, &mut depot::Context<'_, Output<'_, I>>) -> R,
    ) -> Option<R> {
        let now = self.io.now();
        self.run(id, |flow, resources, out| event(flow, &mut resources.depot(now, out)))
    }

    /// Gives `event` to the pipeline of flow `id`, if it is a `Q`, and arms its timer.
    #[inline]
    fn run<Q: Pipeline<F>, R>(
        &mut self,
        id: FlowId,
        event: impl FnOnce(&mut Q, &mut Resources, &mut Output<'_, I>) -> R,
    ) -> Option<R> {
        let (result, is_reborn) = self.run_event(id, |_, _| true, event)?;
        self.arm::<Q>(id);
        if is_reborn {
            let track = self.flows.table.get_mut(id).and_then(|entry| entry.state.track_mut());
            track.into_iter().for_each(|track| track.arrived.reset(track.arrived.newest));
            self.begin_incarnation(id);
        }
        Some(result)
    }

    /// Gives `event` to the pipeline of flow `id`, if it is a `Q` and `is_for` takes it. Returns its result, and whether
    /// another incarnation of the flow has begun.
    // In line: then a fast path writes nothing of `Output` to memory.
    #[inline(always)]
    fn run_event<Q: Pipeline<F>, R>(
        &mut self,
        id: FlowId,
        is_for: impl FnOnce(&mut Track, &mut CoarseTime) -> bool,
        event: impl FnOnce(&mut Q, &mut Resources, &mut Output<'_, I>) -> R,
    ) -> Option<(R, bool)> {
        let Flows { table, resources, .. } = &mut *self.flows;
        let entry = table.get_mut(id)?;
        let src_qpn = entry.src_qpn();
        resources.allowance.select(entry.pair);
        let stage = Q::stage(&mut entry.state)?;
        if !is_for(&mut stage.track, &mut entry.seen) {
            return None;
        }
        let flow = FlowRef {
            headers: &stage.headers,
            onward: Q::ONWARD,
            key: &entry.key,
            id,
            src_qpn,
            node: &mut stage.node,
        };
        let mut out = Output { tx: &mut *self.tx, io: &mut *self.io, flow, is_reborn: false };
        let result = event(&mut stage.state, resources, &mut out);
        Some((result, out.is_reborn))
    }

    /// Arms the timer of flow `id`, whose pipeline is a `Q`, for its deadline.
    #[inline(never)]
    fn arm<Q: Pipeline<F>>(&mut self, id: FlowId) {
        let now = self.io.now();
        self.arm_for(id, |flow: &mut Q, resources| flow.next_deadline(resources, now));
    }

    /// The same, of a flow on the fast path.
    #[inline(never)]
    fn arm_on_fast_path<Q: Pipeline<F>>(&mut self, id: FlowId) {
        let now = self.io.now();
        self.arm_for(id, |flow: &mut Q, resources| flow.fast_deadline(resources, now));
    }

    /// The same; `find` finds out the deadline.
    #[inline(always)]
    fn arm_for<Q: Pipeline<F>>(
        &mut self,
        id: FlowId,
        find: impl FnOnce(&mut Q, &Resources) -> Time,
    ) {
        let Flows { table, timers, resources } = &mut *self.flows;
        let Some(entry) = table.get_mut(id) else { return };
        let Some(stage) = Q::stage(&mut entry.state) else { return };
        let deadline = find(&mut stage.state, resources);
        entry.due = CoarseDeadline::at(deadline);
        timers.arm(&mut entry.armed, deadline, id, entry.generation);
    }

    /// A packet of flow `id` that arrived on `side` takes the fast path of its pipeline.
    ///
    /// # Errors
    /// The frame, if it is to take a general way.
    #[inline(always)]
    pub fn on_next(
        &mut self,
        id: FlowId,
        side: Side,
        frame: F,
        look: &Look,
    ) -> Result<(), Declined<F>> {
        let now = self.io.now();
        match side {
            Side::Lan => {
                self.run_next(id, frame, look, |flow: &mut sentry::Flow<F>, r, out, frame| {
                    flow.on_fast_path(&mut r.sentry(now, out), frame, look)
                })
            }
            Side::Wan => {
                self.run_next(id, frame, look, |flow: &mut depot::Flow<F>, r, out, frame| {
                    flow.on_fast_path(&mut r.depot(now, out), frame, look)
                })
            }
        }
    }

    /// Gives `event`, a packet on the fast path, to flow `id`, if its pipeline is a `Q` and the packet its next one. It
    /// returns whether the flow's deadline may be earlier than before.
    #[inline(always)]
    fn run_next<Q: Pipeline<F>>(
        &mut self,
        id: FlowId,
        frame: F,
        look: &Look,
        event: impl FnOnce(&mut Q, &mut Resources, &mut Output<'_, I>, F) -> Result<bool, F>,
    ) -> Result<(), Declined<F>> {
        let now = self.io.now();
        let mut frame = Some(frame);
        let result = self.run_event(
            id,
            |track, seen| {
                let follows = track.follow(look, now);
                if follows {
                    *seen = CoarseTime::at(now);
                }
                follows
            },
            |flow, resources, out| {
                frame.take().map(|frame| {
                    resources.allowance.earn(frame.bytes().len(), Q::ONWARD == Side::Wan);
                    event(flow, resources, out, frame)
                })
            },
        );
        match (frame, result) {
            (Some(frame), _) => return Err(Declined::NotNext(frame)),
            (None, Some((Some(Err(frame)), _))) => return Err(Declined::Noted(frame)),
            (None, Some((Some(Ok(true)), _))) => self.arm_on_fast_path::<Q>(id),
            (None, _) => {}
        }
        Ok(())
    }

    /// The next packet of flow `id` arrived from the long-haul link while the Depot holds earlier ones: it takes the fast
    /// path for these.
    ///
    /// # Errors
    /// The frame, if it is to take a general way.
    #[inline]
    pub fn on_next_behind(&mut self, id: FlowId, frame: F, look: &Look) -> Result<(), F> {
        let now = self.io.now();
        self.run_timed(id, frame, |flow: &mut depot::Flow<F>, r, out, frame| {
            flow.on_next_behind(&mut r.depot(now, out), frame, look)
        })
    }

    /// An ACK in the stream `id`, which arrived on `side`, takes the fast path of the flow that it is for.
    ///
    /// # Errors
    /// The frame, if it is to take the general way.
    #[inline(always)]
    pub fn on_ack(&mut self, id: FlowId, side: Side, frame: F, ack: &Ack) -> Result<(), F> {
        let now = self.io.now();
        let Some(entry) = self.flows.table.get_mut(id) else { return Err(frame) };
        let Some(flow) = entry.peer() else { return Err(frame) };
        entry.seen = CoarseTime::at(now);
        match side {
            Side::Lan => self.run_timed(flow, frame, |flow: &mut depot::Flow<F>, r, out, frame| {
                flow.on_ack(&mut r.depot(now, out), frame, ack)
            }),
            Side::Wan => {
                self.run_timed(flow, frame, |flow: &mut sentry::Flow<F>, r, out, frame| {
                    flow.on_ack(&mut r.sentry(now, out), frame, ack)
                })
            }
        }
    }

    /// Gives `event`, a packet on a fast path, to flow `id`, if its pipeline is a `Q`, and arms its timer for the deadline that
    /// `event` returns.
    ///
    /// # Errors
    /// The frame, if it is to take a general way.
    #[inline(always)]
    fn run_timed<Q: Pipeline<F>>(
        &mut self,
        id: FlowId,
        frame: F,
        event: impl FnOnce(&mut Q, &mut Resources, &mut Output<'_, I>, F) -> Result<Time, F>,
    ) -> Result<(), F> {
        let mut frame = Some(frame);
        let result = self.run_event(
            id,
            |_, _| true,
            |flow, resources, out| frame.take().map(|frame| event(flow, resources, out, frame)),
        );
        match (frame, result) {
            (Some(frame), _) | (None, Some((Some(Err(frame)), _))) => return Err(frame),
            (None, Some((Some(Ok(deadline)), _))) => self.arm_for(id, |_: &mut Q, _| deadline),
            (None, _) => {}
        }
        Ok(())
    }

    /// Lets the flows deliver that waited for room on the LAN.
    #[inline]
    pub fn take_turns(&mut self) {
        while let Some(id) = self.flows.resources.lan.next_turn() {
            self.depot(id, |flow, cx| flow.on_turn(cx));
        }
    }

    /// The entry of `key`, new if need be.
    pub fn entry(&mut self, key: FlowKey) -> Option<FlowId> {
        let (table, counters) = (&mut self.flows.table, &mut self.tx.counters);
        self.pairing.entry(table, counters, key, self.io.now())
    }

    /// `a` and `b` are the two directions of one queue pair.
    pub fn pair(&mut self, a: FlowId, b: FlowId) {
        self.pairing.pair(&mut self.flows.table, &mut self.tx.counters, a, b, self.io.now());
    }

    /// See [`Pairing::begin_incarnation`].
    pub fn begin_incarnation(&mut self, id: FlowId) {
        self.pairing.begin_incarnation(&mut self.flows.table, id, self.io.now());
    }

    /// Drops all that the pipeline of flow `id` holds.
    pub fn discard(&mut self, id: FlowId) {
        self.sentry(id, |flow, cx| flow.release_all(cx));
        self.depot(id, |flow, cx| flow.reset(cx));
    }

    /// Takes an entry out of the table, and drops all that its pipeline holds.
    pub fn remove(&mut self, id: FlowId) {
        self.discard(id);
        self.pairing.remove(&mut self.flows.table, id, self.io.now());
    }

    /// Ends the protection of all flows; held packets are delivered. The Depots are told once, and again until they
    /// answer if `is_told`.
    pub fn release_all(&mut self, is_told: bool) {
        self.flows.table.leaving = None;
        for id in (0..self.flows.table.end()).map(FlowId) {
            self.release(id, is_told);
        }
    }

    /// The same for some of the flows that are being [left](crate::flow::table::Leaving). Packets of the two directions
    /// of a queue pair are left together: one needs the responses that are beside the other.
    pub fn release_some(&mut self) {
        let Some(mut leaving) = self.flows.table.leaving.take() else { return };
        let end = self.flows.table.end();
        let stop = end.min(leaving.next.saturating_add(LOOKED_AT));
        let mut released = 0;
        while leaving.next < stop && released < RELEASED {
            let id = FlowId(leaving.next);
            leaving.next += 1;
            let entry = self.flows.table.get(id).filter(|entry| leaving.has(&entry.key.hosts));
            // What the operator has left stays so.
            let entry = entry.filter(|_| !self.is_left(id));
            let Some(peer) = entry.map(Entry::peer) else { continue };
            let peer = peer.filter(|peer| !self.is_left(*peer));
            for id in [Some(id), peer].into_iter().flatten() {
                self.release(id, true);
                released += 1;
            }
        }
        if leaving.next < end {
            self.flows.table.leaving = Some(leaving);
        }
    }

    /// Whether the operator has left flow `id` to the RNICs.
    fn is_left(&self, id: FlowId) -> bool {
        let state = self.flows.table.get(id).map(|entry| &entry.state);
        matches!(state, Some(FlowState::Left(_)))
    }

    fn release(&mut self, id: FlowId, is_told: bool) {
        if self.flows.table.get(id).is_none() {
            return;
        }
        self.sentry(id, |flow, cx| flow.bypass(cx));
        self.depot(id, |flow, cx| flow.bypass(cx));
        if is_told {
            self.await_release(id);
        }
        self.pairing.remove(&mut self.flows.table, id, self.io.now());
    }

    /// Flow `id` has just been released; its Depot is to answer.
    pub fn await_release(&mut self, id: FlowId) {
        let now = self.io.now();
        let Some(entry) = self.flows.table.get(id) else { return };
        let FlowState::Sentry(stage) = &entry.state else { return };
        let Some(sync) = stage.state.release(entry.src_qpn(), now) else { return };
        let (headers, node, epoch) = (stage.headers.clone(), stage.node, stage.state.epoch());
        let release = Release { headers, node, epoch, sync };
        self.tx.releases.insert(entry.key, release, self.flows.resources.allowance.rtt(), now);
    }

    /// Repeats the SYNC(release) that are not answered.
    pub fn release_again(&mut self) {
        let Tx { counters, peers, releases, .. } = &mut *self.tx;
        releases.send_again(peers, counters, self.io, self.flows.resources.allowance.rtt());
    }

    /// Forwards a frame that no pipeline takes, and books why.
    pub fn pass(&mut self, side: Side, frame: F, reason: Metric) {
        self.tx.pass(self.io, side, frame, reason);
    }
}
