//! Requests, and how a flow's pipeline is given an event and its timer is
//! set anew.

use common::frame::{Frame, Pool, Side, Sink};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Headers, Roce, icrc_ok};

use crate::flow::coarse_time::{CoarseDeadline, CoarseTime};
use crate::flow::entry::{By, HEADERS_AGE, Id, Pipeline, Stage, Track};
use crate::flow::key::FlowKey;
use crate::flow::psn_range::PsnRange;
use crate::flow::psn_range::WINDOW_MAX;
use crate::switch::{Io, Switch};
use crate::tx::actions::{FlowRef, Output};
use common::metrics::Metric;

/// When a box has run for so long, a queue pair that it doesn't know was silent.
const FAMILIAR: Span = Span::from_millis(1_000);

/// Whether a flow whose first packet here is `psn` may begin with `first`, as it
/// was announced. Next to the source it does, or the announcement was wrong, or
/// packets were lost on the LAN: then the RNICs sort it out, rather than that a
/// gap is waited for that nothing may ever fill. Behind the link the first
/// packets may be missing; the SYNC tells where it begins.
fn may_begin_at(side: Side, psn: Psn, first: Psn) -> bool {
    let ahead = i64::from(psn.distance(first));
    match side {
        Side::Lan => ahead == 0,
        Side::Wan => (0..=WINDOW_MAX as i64).contains(&ahead),
    }
}

impl<F: Frame> Switch<F> {
    /// A request (SEND, WRITE, READ, atomic) that does more than follow the one before.
    #[inline(never)]
    pub(crate) fn on_request<P, S>(
        &mut self,
        side: Side,
        frame: F,
        roce: &Roce,
        found: Option<Id>,
        io: &mut Io<'_, P, S>,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        if side == Side::Lan && !self.may_have_peer(found, roce) {
            return self.pass(side, frame, Metric::PassedPrefix, io);
        }
        if self.begins(found, roce) && !icrc_ok(frame.bytes(), roce) {
            // No flow and no incarnation begins on the word of a damaged packet.
            return self.pass(side, frame, Metric::PassedBadIcrc, io);
        }
        let key = FlowKey::of(side, roce);
        let Some(id) = found.or_else(|| self.entry_by_force(key, io)) else {
            let is_used_up = self.table.is_used_up(&key.hosts);
            let why = if is_used_up { Metric::PassedHostsFull } else { Metric::PassedTableFull };
            return self.pass(side, frame, why, io);
        };
        self.prepare(id, roce.psn, frame.bytes(), roce, io.now);
        self.note_arrival(id, frame.bytes(), roce);
        self.on_ready(side, frame, roce, id, io);
    }

    /// A request, noted, of a flow that has its pipeline.
    #[inline]
    pub(crate) fn on_ready<P, S>(
        &mut self,
        side: Side,
        frame: F,
        roce: &Roce,
        id: Id,
        io: &mut Io<'_, P, S>,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.allowance.earn();
        match side {
            Side::Lan => self.with_sentry(id, io, |flow, cx| flow.on_data(cx, frame, roce)),
            Side::Wan => self.with_depot(id, io, |flow, cx| flow.on_data(cx, frame, roce)),
        };
    }

    /// Whether a packet makes a flow or its pipeline, and not with the PSN that was
    /// announced.
    #[inline]
    fn begins(&self, found: Option<Id>, roce: &Roce) -> bool {
        let Some(entry) = found.and_then(|id| self.table.get(id)) else {
            return self.table.has_room();
        };
        matches!(entry.pipeline, Pipeline::None)
            && entry.announced.is_none_or(|it| it.first_psn != roce.psn)
    }

    /// Whether there may be a gateway where a flow goes. It is asked once per
    /// flow: one that has a pipeline is known to be.
    fn may_have_peer(&self, found: Option<Id>, roce: &Roce) -> bool {
        let prefixes = &self.config.remote_prefixes;
        if prefixes.is_empty() {
            return true;
        }
        let entry = found.and_then(|id| self.table.get(id));
        let is_known = entry.is_some_and(|entry| !matches!(entry.pipeline, Pipeline::None));
        let dst = roce.dst.to_ip();
        is_known || prefixes.iter().any(|prefix| prefix.contains(&dst))
    }

    /// Keeps in mind what may be answered.
    fn note_arrival(&mut self, id: Id, bytes: &[u8], roce: &Roce) {
        let track = self.table.get_mut(id).and_then(|entry| entry.pipeline.track());
        let Some(Track { arrived, .. }) = track else { return };
        let mut next = *arrived;
        // The path MTU need not be known: with the smallest one a READ has the
        // most responses.
        let leapt = next.add(roce.psn, roce.psn_count(bytes, 256));
        if !(leapt || arrived.is_ahead(roce.psn)) || icrc_ok(bytes, roce) {
            *arrived = next;
            if leapt {
                self.table.begin_incarnation(id);
            }
        }
    }

    /// The entry of `key`, new if need be, in place of a flow of which there is little
    /// reason to think that it is one.
    fn entry_by_force<P, S>(&mut self, key: FlowKey, io: &mut Io<'_, P, S>) -> Option<Id>
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        if let Some(id) = self.entry(key, io.now) {
            return Some(id);
        }
        if self.table.is_used_up(&key.hosts) {
            return None;
        }
        let least = self.table.least(io.now)?;
        self.remove(least, io);
        self.tx.counters.inc(Metric::FlowEvicted);
        self.entry(key, io.now)
    }

    /// A packet with an RC opcode that is not defined. If it is a request it takes PSNs, and
    /// nobody can tell how many: its flow, if there is one, is left to the RNICs.
    #[inline(never)]
    pub(crate) fn on_unknown<P, S>(
        &mut self,
        side: Side,
        frame: F,
        roce: &Roce,
        found: Option<Id>,
        io: &mut Io<'_, P, S>,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let flow = found.or_else(|| self.table.find(&FlowKey::of(side, roce)));
        if let Some(id) = flow.filter(|_| icrc_ok(frame.bytes(), roce)) {
            self.with_sentry(id, io, |flow, cx| flow.on_unknown(cx));
            self.with_depot(id, io, |flow, cx| flow.let_go(cx));
        }
        self.pass(side, frame, Metric::PassedTransport, io);
    }

    /// Makes sure that the entry has its pipeline, and renews the headers that
    /// the flow's own frames are made from.
    pub(crate) fn prepare(&mut self, id: Id, psn: Psn, bytes: &[u8], roce: &Roce, now: Time) {
        let Some(entry) = self.table.get_mut(id) else { return };
        entry.seen = CoarseTime::at(now);
        let (headers, track, is_next) = match &mut entry.pipeline {
            Pipeline::Sentry(stage) => {
                (&mut stage.headers, &mut stage.track, stage.state.expects(psn))
            }
            Pipeline::Depot(stage) => {
                (&mut stage.headers, &mut stage.track, stage.state.expects(psn))
            }
            Pipeline::None => {
                let headers = Headers::of(bytes, roce);
                // What the hosts announced is where the flow begins. If it doesn't,
                // that may be a leap, and the end of what was announced.
                let said = entry.announced.take();
                let side = entry.key.hosts.side;
                let announced = said.filter(|said| may_begin_at(side, psn, said.first_psn));
                let first = announced.map_or(psn, |announced| announced.first_psn);
                let elsewhere = said.is_some_and(|said| said.by == By::Past) && announced.is_none();
                // A leap from what the hosts said shows up as one.
                let said = said.filter(|_| !elsewhere);
                let arrived = PsnRange::none(said.map_or(psn, |said| said.first_psn));
                let (src_port, headers_at) = (roce.src_port, CoarseTime::at(now));
                let due = CoarseDeadline::NEVER;
                let track = Track { arrived, headers_at, due, src_port };
                entry.pipeline = match side {
                    Side::Lan => {
                        self.epochs = self.epochs.wrapping_add(1);
                        let mut state = sentry::Flow::new(&self.sentry, now, self.epochs, first);
                        let started = *self.started.get_or_insert(now);
                        if let Some(announced) = announced {
                            state.announce(announced.pmtu(), announced.msn, announced.rtt());
                        } else if now >= started + FAMILIAR {
                            state.begin();
                        }
                        // If it was heard lately, the Depot may hold what is early from
                        // the first packet on.
                        let node = self.tx.peers.towards(&roce.dst);
                        let stage = Stage { track, state, node, headers };
                        Pipeline::Sentry(Box::new(stage))
                    }
                    Side::Wan => {
                        let mut state = depot::Flow::new(&self.depot, now, first);
                        if let Some(announced) = announced {
                            state.announce(announced.pmtu());
                        }
                        let stage = Stage { track, state, node: None, headers };
                        Pipeline::Depot(Box::new(stage))
                    }
                };
                if elsewhere {
                    // It doesn't go on where it was: another incarnation, unannounced.
                    self.table.begin_incarnation(id);
                }
                return self.table.await_pairing(id);
            }
        };
        // Whoever knows a flow's key may send packets of it, from anywhere. The next one in
        // order is most likely its source's.
        if track.headers_at.since(now) >= HEADERS_AGE && is_next && icrc_ok(bytes, roce) {
            *headers = Headers::of(bytes, roce);
            (track.headers_at, track.src_port) = (CoarseTime::at(now), roce.src_port);
        }
    }

    /// Lets `event` happen to the Sentry flow `id`, if it is one.
    #[inline]
    pub(crate) fn with_sentry<P, S, R>(
        &mut self,
        id: Id,
        io: &mut Io<'_, P, S>,
        event: impl FnOnce(&mut sentry::Flow<F>, &mut sentry::Context<'_, Output<'_, F, P, S>>) -> R,
    ) -> Option<R> {
        let entry = self.table.get_mut(id)?;
        let src_qpn = entry.src_qpn();
        let Pipeline::Sentry(stage) = &mut entry.pipeline else { return None };
        let flow = FlowRef {
            headers: &stage.headers,
            onward: Side::Wan,
            key: &entry.key,
            id,
            src_qpn,
            node: &mut stage.node,
        };
        let now = io.now;
        let mut out = Output::new(&mut self.tx, &mut self.released, io, flow);
        let mut cx = sentry::Context {
            now,
            config: &self.sentry,
            cache: &mut self.pools.cache,
            pool: &mut self.pools.reorder,
            allowance: &mut self.allowance,
            epochs: &mut self.epochs,
            out: &mut out,
        };
        let result = event(&mut stage.state, &mut cx);
        let is_reborn = out.is_reborn;
        // The first packet after a pause may be one that changes no deadline by itself.
        if !stage.state.is_due_as_before() || stage.track.due.is_never() {
            let may_be_early = self.allowance.may_be_early(now);
            let deadline = stage.state.deadline(&self.sentry, now, may_be_early);
            stage.track.due = CoarseDeadline::at(deadline);
            self.timers.arm(&mut entry.armed, deadline, id, entry.generation);
        }
        if is_reborn {
            stage.track.arrived.begin_again(stage.track.arrived.newest);
            self.table.begin_incarnation(id);
        }
        Some(result)
    }

    /// Lets `event` happen to the Depot flow `id`, if it is one.
    #[inline]
    pub(crate) fn with_depot<P, S, R>(
        &mut self,
        id: Id,
        io: &mut Io<'_, P, S>,
        event: impl FnOnce(&mut depot::Flow<F>, &mut depot::Context<'_, Output<'_, F, P, S>>) -> R,
    ) -> Option<R> {
        let entry = self.table.get_mut(id)?;
        let src_qpn = entry.src_qpn();
        let Pipeline::Depot(stage) = &mut entry.pipeline else { return None };
        let flow = FlowRef {
            headers: &stage.headers,
            onward: Side::Lan,
            key: &entry.key,
            id,
            src_qpn,
            node: &mut stage.node,
        };
        let now = io.now;
        let mut out = Output::new(&mut self.tx, &mut self.released, io, flow);
        let mut cx = depot::Context {
            now,
            config: &self.depot,
            pool: &mut self.pools.reorder,
            backup: &mut self.pools.backup,
            cache: &mut self.pools.cache,
            lan: &mut self.lan,
            allowance: &mut self.allowance,
            out: &mut out,
        };
        let result = event(&mut stage.state, &mut cx);
        // The first packet after a pause may be one that changes no deadline by itself.
        if !stage.state.is_due_as_before() || stage.track.due.is_never() {
            let deadline = stage.state.deadline(&self.depot);
            stage.track.due = CoarseDeadline::at(deadline);
            self.timers.arm(&mut entry.armed, deadline, id, entry.generation);
        }
        Some(result)
    }

    /// Lets the flows deliver that waited for room on the LAN.
    #[inline]
    pub(crate) fn take_turns<P, S>(&mut self, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        while let Some(id) = self.lan.next_turn() {
            self.with_depot(id, io, |flow, cx| flow.on_turn(cx));
        }
    }

    /// Ends all protection; what is held goes on.
    pub(crate) fn let_go<P, S>(&mut self, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        for id in 0..self.table.end() {
            self.with_sentry(id, io, |flow, cx| flow.bypass(cx));
            self.with_depot(id, io, |flow, cx| flow.let_go(cx));
            if self.draining {
                self.await_release(id, io.now);
            }
            self.table.remove(id);
        }
    }

    pub(crate) fn remove<P, S>(&mut self, id: Id, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.with_sentry(id, io, |flow, cx| flow.forget(cx));
        self.with_depot(id, io, |flow, cx| flow.forget(cx));
        self.table.remove(id);
    }
}
