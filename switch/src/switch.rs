//! The switch itself: from a frame to the pipeline that it belongs to.

use arrayvec::ArrayVec;
use common::budget::Budget;
use common::frame::{Class, Frame, Packet, Pool, Side, Sink};
use common::metrics::{Counters, Metric};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Headers, NotRoce, Roce, Transport, icrc_ok, parse};

use crate::connections::Connections;
use crate::operator::Named;
use crate::output::{Output, Speaker, Voice, transmit};
use crate::pairing::Arrived;
use crate::peers::Peers;
use crate::table::{FlowKey, Hosts, Id, Pipeline, Stage, Table};
use crate::timers::Timers;
use crate::{Command, Config, Recovery};

/// Most PSNs of one flow that may be in flight: 400 Gbit/s × 40 ms of 4 KiB
/// packets, or 100 Gbit/s × 40 ms of 1 KiB.
pub(crate) const WINDOW_MAX: u64 = 1 << 19;
/// How often the headers that a flow's own frames are made from are renewed.
const HEADERS_AGE: Span = Span::from_millis(100);
/// Entries that one call of `housekeeping` looks at.
const SWEEP: usize = 1024;

/// One end of the link, for one pair of ports and one worker.
pub struct Switch<F: Frame> {
    pub(crate) config: Config,
    sentry: sentry::Config,
    depot: depot::Config,
    pub(crate) table: Table<F>,
    pub(crate) connections: Connections,
    pub(crate) named: Named,
    timers: Timers,
    pub(crate) voice: Voice,
    pools: Pools,
    epochs: u32,
    pub(crate) draining: bool,
    sweep: Sweep,
}

/// Where frames come from and go to, for the time of one call.
pub(crate) struct Io<'a, P, S> {
    pub pool: &'a mut P,
    pub sink: &'a mut S,
    pub now: Time,
}

/// What the flows of a worker may hold between them.
struct Pools {
    cache: Budget,
    reorder: Budget,
    backup: Budget,
}

/// A round over the table.
#[derive(Default)]
struct Sweep {
    next: Id,
    protected: u64,
    synced: u64,
}

impl<F: Frame> Switch<F> {
    /// A switch that knows no flow yet.
    pub fn new(config: Config) -> Self {
        let tuning = &config.tuning;
        Self {
            sentry: sentry::Config {
                recovery: sentry_recovery(config.recovery),
                rtt_guess: tuning.rtt_guess,
                tail_timeout: tuning.tail_timeout,
                status_interval: tuning.status_interval,
                peer_timeout: tuning.peer_timeout,
                forget: tuning.give_up.map(|give_up| give_up * 4),
                window_max: WINDOW_MAX,
            },
            depot: depot::Config {
                rtt_guess: tuning.rtt_guess,
                status_interval: tuning.status_interval,
                give_up: tuning.give_up,
                t_out: tuning.t_out,
                local_retries: config.local_retries,
                keeps_responses: keeps_responses(config.recovery),
                window_max: WINDOW_MAX,
            },
            table: Table::new(config.max_flows, config.hash_seed),
            connections: Connections::new(config.max_flows.div_ceil(2), config.hash_seed),
            named: Named::new(&config.queue_pairs, config.hash_seed),
            timers: Timers::default(),
            voice: Voice {
                counters: Counters::default(),
                peers: Peers::new(config.node, config.boot, config.hash_seed),
                keys: config.keys.clone(),
                opcode: config.control_opcode,
            },
            pools: Pools {
                cache: Budget::new(config.resend_cache_bytes, config.resend_cache_frames),
                reorder: Budget::new(config.reorder_pool_bytes, config.reorder_pool_frames),
                backup: Budget::new(config.backup_pool_bytes, config.backup_pool_frames),
            },
            epochs: 0,
            draining: false,
            sweep: Sweep::default(),
            config,
        }
    }

    /// A burst that arrived on `side`. Takes every frame out of `frames`.
    pub fn burst<P, S, const N: usize>(
        &mut self,
        side: Side,
        frames: &mut ArrayVec<F, N>,
        now: Time,
        pool: &mut P,
        sink: &mut S,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut io = Io { pool, sink, now };
        for frame in frames.drain(..) {
            self.receive(side, frame, &mut io);
        }
    }

    /// When [`timers`](Self::timers) has to be called next; [`Time::NEVER`] if
    /// nothing is outstanding.
    pub fn next_deadline(&self) -> Time {
        self.timers.next()
    }

    /// Runs at most `budget` timers that are due at `now`.
    pub fn timers<P, S>(&mut self, now: Time, budget: usize, pool: &mut P, sink: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut io = Io { pool, sink, now };
        for _ in 0..budget {
            let Some((at, id, generation)) = self.timers.pop(now) else { break };
            match self.table.get_mut(id) {
                Some(entry) if entry.generation == generation && entry.armed == at => {
                    entry.armed = Time::NEVER;
                    self.with_sentry(id, &mut io, |flow, cx| flow.on_timer(cx));
                    self.with_depot(id, &mut io, |flow, cx| flow.on_timer(cx));
                }
                _ => {}
            }
        }
    }

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
    }

    /// Forgets flows that have been idle for long, a few at a time, and
    /// refreshes the gauges. To be called every few milliseconds.
    pub fn housekeeping<P, S>(&mut self, now: Time, pool: &mut P, sink: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut io = Io { pool, sink, now };
        let end = self.table.capacity();
        for _ in 0..SWEEP.min(end) {
            if self.sweep.next >= end {
                let Sweep { protected, synced, .. } = core::mem::take(&mut self.sweep);
                self.voice.counters.set(Metric::FlowsProtected, protected);
                self.voice.counters.set(Metric::FlowsSynced, synced);
                break;
            }
            let id = self.sweep.next;
            self.sweep.next += 1;
            let Some(entry) = self.table.get(id) else { continue };
            if now.since(entry.seen) >= self.config.flow_idle {
                self.remove(id, &mut io);
                self.voice.counters.inc(Metric::FlowAged);
                continue;
            }
            match &entry.pipeline {
                Pipeline::Sentry(s) => self.sweep.protected += u64::from(s.state.is_protected()),
                Pipeline::Depot(s) => self.sweep.synced += u64::from(s.state.is_synced()),
                Pipeline::None => {}
            }
        }
        let counters = &mut self.voice.counters;
        counters.set(Metric::FlowsAll, self.table.len() as u64);
        let Pools { cache, reorder, backup } = &self.pools;
        for (frames, bytes, pool) in [
            (Metric::HeldReorder, Metric::HeldReorderBytes, reorder),
            (Metric::HeldBackup, Metric::HeldBackupBytes, backup),
            (Metric::HeldCache, Metric::HeldCacheBytes, cache),
        ] {
            counters.set(frames, pool.frames());
            counters.set(bytes, pool.used());
        }
    }

    /// Frames held in pools.
    pub fn held(&self) -> u64 {
        self.pools.reorder.frames() + self.pools.backup.frames() + self.pools.cache.frames()
    }

    /// What has happened so far.
    pub fn counters(&self) -> &Counters {
        &self.voice.counters
    }

    /// One frame.
    fn receive<P, S>(&mut self, side: Side, frame: F, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.voice.counters.inc(match side {
            Side::Lan => Metric::ReceivedLan,
            Side::Wan => Metric::ReceivedWan,
        });
        let roce = match parse(frame.bytes()) {
            Ok(roce) => roce,
            Err(NotRoce::Other) => return self.pass(side, frame, Metric::PassedOther, io),
            Err(NotRoce::Malformed(_)) => {
                return self.pass(side, frame, Metric::PassedMalformed, io);
            }
        };
        let works = match side {
            Side::Lan => self.config.role.is_sentry(),
            Side::Wan => self.config.role.is_depot(),
        };
        let kind = roce.opcode.kind();
        if roce.opcode == self.voice.opcode {
            self.on_control(side, frame, &roce, io);
        } else if self.config.recovery == Recovery::Off {
            self.pass(side, frame, Metric::PassedRole, io);
        } else if kind.is_response() {
            self.on_answer(side, frame, &roce, io);
        } else if !kind.is_request() || roce.opcode.transport() != Transport::Rc {
            let reason = self.observe(side, frame.bytes(), &roce, io);
            self.pass(side, frame, reason, io);
        } else if works && !self.draining {
            self.on_request(side, frame, &roce, io);
        } else {
            self.pass(side, frame, Metric::PassedRole, io);
        }
    }

    /// Forwards a frame unchanged, in arrival order.
    pub(crate) fn pass<P, S>(&mut self, side: Side, frame: F, reason: Metric, io: &mut Io<'_, P, S>)
    where
        S: Sink<Frame = F>,
    {
        self.voice.counters.inc(reason);
        self.forward(side, frame, io);
    }

    pub(crate) fn forward<P, S: Sink<Frame = F>>(
        &mut self,
        side: Side,
        frame: F,
        io: &mut Io<'_, P, S>,
    ) {
        let counters = &mut self.voice.counters;
        transmit(counters, io.sink, side.other(), Class::Data, Packet::Owned(frame));
    }

    /// A request: SEND, WRITE, READ, atomic.
    fn on_request<P, S>(&mut self, side: Side, frame: F, roce: &Roce, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let key = FlowKey { hosts: Hosts::of(side, roce), dest_qpn: roce.dest_qpn };
        if side == Side::Lan && !self.may_have_peer(&key) {
            return self.pass(side, frame, Metric::PassedPrefix, io);
        }
        let Some(id) = self.entry(key, io.now) else {
            return self.pass(side, frame, Metric::PassedTableFull, io);
        };
        self.prepare(id, roce.psn, frame.bytes(), roce, io.now);
        self.note_arrival(id, frame.bytes(), roce);
        match side {
            Side::Lan => self.with_sentry(id, io, |flow, cx| flow.on_data(cx, frame, roce)),
            Side::Wan => self.with_depot(id, io, |flow, cx| flow.on_data(cx, frame, roce)),
        };
    }

    /// Whether there may be a gateway where a flow goes. It is asked once per
    /// flow: one that has a pipeline is known to be.
    fn may_have_peer(&self, key: &FlowKey) -> bool {
        let prefixes = &self.config.remote_prefixes;
        if prefixes.is_empty() {
            return true;
        }
        let entry = self.table.find(key).and_then(|id| self.table.get(id));
        let is_known = entry.is_some_and(|entry| !matches!(entry.pipeline, Pipeline::None));
        let dst = key.hosts.dst.to_ip();
        is_known || prefixes.iter().any(|prefix| prefix.contains(&dst))
    }

    /// Keeps in mind what may be answered.
    fn note_arrival(&mut self, id: Id, bytes: &[u8], roce: &Roce) {
        let Some(entry) = self.table.get_mut(id) else { return };
        let arrived = match &mut entry.pipeline {
            Pipeline::None => return,
            Pipeline::Sentry(stage) => &mut stage.arrived,
            Pipeline::Depot(stage) => &mut stage.arrived,
        };
        let mut next = *arrived;
        // The path MTU need not be known: with the smallest one a READ has the
        // most responses.
        if !next.add(roce.psn, roce.psn_count(bytes, 256)) {
            *arrived = next;
        } else if icrc_ok(bytes, roce) {
            *arrived = next;
            self.table.begin_life(id);
        }
    }

    /// The entry of `key`, new if need be.
    pub(crate) fn entry(&mut self, key: FlowKey, now: Time) -> Option<Id> {
        let (id, new) = self.table.entry(key, now)?;
        if new {
            self.voice.counters.inc(Metric::FlowCreated);
            self.pair_as_named(id, now);
        }
        Some(id)
    }

    /// Makes sure that the entry has its pipeline, and renews the headers that
    /// the flow's own frames are made from.
    pub(crate) fn prepare(&mut self, id: Id, psn: Psn, bytes: &[u8], roce: &Roce, now: Time) {
        let Some(entry) = self.table.get_mut(id) else { return };
        entry.seen = now;
        let (headers, headers_at, src_port) = match &mut entry.pipeline {
            Pipeline::Sentry(s) => (&mut s.headers, &mut s.headers_at, &mut s.src_port),
            Pipeline::Depot(s) => (&mut s.headers, &mut s.headers_at, &mut s.src_port),
            Pipeline::None => {
                let headers = Headers::of(bytes, roce);
                let (src_port, headers_at) = (roce.src_port, now);
                // What the hosts announced is where the flow begins. If it doesn't,
                // that is a leap, and the end of what was announced.
                let said = entry.announced.take();
                let arrived = Arrived::none(said.map_or(psn, |said| said.first_psn));
                let is_near =
                    |first: Psn| u64::from(psn.distance(first).unsigned_abs()) <= WINDOW_MAX;
                let announced = said.filter(|said| is_near(said.first_psn));
                let first = announced.map_or(psn, |announced| announced.first_psn);
                entry.pipeline = match entry.key.hosts.side {
                    Side::Lan => {
                        self.epochs = self.epochs.wrapping_add(1);
                        let mut state = sentry::Flow::new(&self.sentry, now, self.epochs, first);
                        if let Some(announced) = announced {
                            state.announce(announced.pmtu);
                        }
                        let stage =
                            Stage { state, headers, headers_at, arrived, src_port, node: None };
                        Pipeline::Sentry(Box::new(stage))
                    }
                    Side::Wan => {
                        let mut state = depot::Flow::new(&self.depot, now, first);
                        if let Some(announced) = announced {
                            state.announce(announced.pmtu);
                        }
                        let stage =
                            Stage { state, headers, headers_at, arrived, src_port, node: None };
                        Pipeline::Depot(Box::new(stage))
                    }
                };
                return self.table.await_pairing(id);
            }
        };
        if now.since(*headers_at) >= HEADERS_AGE {
            *headers = Headers::of(bytes, roce);
            (*headers_at, *src_port) = (now, roce.src_port);
        }
    }

    /// Lets `event` happen to the Sentry flow `id`, if it is one.
    pub(crate) fn with_sentry<P, S, R>(
        &mut self,
        id: Id,
        io: &mut Io<'_, P, S>,
        event: impl FnOnce(&mut sentry::Flow<F>, &mut sentry::Cx<'_, Output<'_, P, S>>) -> R,
    ) -> Option<R> {
        let requester = self.table.requester(id);
        let entry = self.table.get_mut(id)?;
        let Pipeline::Sentry(stage) = &mut entry.pipeline else { return None };
        let flow = Speaker {
            headers: &stage.headers,
            onward: Side::Wan,
            dest_qpn: entry.key.dest_qpn,
            requester,
            node: stage.node,
        };
        let now = io.now;
        let mut out = Output::new(&mut self.voice, io, flow);
        let mut cx = sentry::Cx {
            now,
            config: &self.sentry,
            cache: &mut self.pools.cache,
            pool: &mut self.pools.reorder,
            epochs: &mut self.epochs,
            out: &mut out,
        };
        let result = event(&mut stage.state, &mut cx);
        let is_reborn = out.is_reborn;
        let deadline = stage.state.deadline(&self.sentry, now);
        if is_reborn {
            stage.arrived.begin_again(stage.arrived.newest);
        }
        self.after(id, deadline, is_reborn);
        Some(result)
    }

    /// Lets `event` happen to the Depot flow `id`, if it is one.
    pub(crate) fn with_depot<P, S, R>(
        &mut self,
        id: Id,
        io: &mut Io<'_, P, S>,
        event: impl FnOnce(&mut depot::Flow<F>, &mut depot::Cx<'_, Output<'_, P, S>>) -> R,
    ) -> Option<R> {
        let requester = self.table.requester(id);
        let entry = self.table.get_mut(id)?;
        let Pipeline::Depot(stage) = &mut entry.pipeline else { return None };
        let flow = Speaker {
            headers: &stage.headers,
            onward: Side::Lan,
            dest_qpn: entry.key.dest_qpn,
            requester,
            node: stage.node,
        };
        let now = io.now;
        let mut out = Output::new(&mut self.voice, io, flow);
        let mut cx = depot::Cx {
            now,
            config: &self.depot,
            pool: &mut self.pools.reorder,
            backup: &mut self.pools.backup,
            cache: &mut self.pools.cache,
            out: &mut out,
        };
        let result = event(&mut stage.state, &mut cx);
        let is_reborn = out.is_reborn;
        let deadline = stage.state.deadline(&self.depot);
        self.after(id, deadline, is_reborn);
        Some(result)
    }

    /// Something happened to flow `id`, which is due at `deadline` now.
    fn after(&mut self, id: Id, deadline: Time, is_reborn: bool) {
        if let Some(entry) = self.table.get_mut(id)
            && deadline < entry.armed
        {
            entry.armed = deadline;
            self.timers.push(deadline, id, entry.generation);
        }
        if is_reborn {
            self.table.begin_life(id);
        }
    }

    /// Ends all protection; what is held goes on.
    fn let_go<P, S>(&mut self, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        for id in 0..self.table.capacity() {
            self.with_sentry(id, io, |flow, cx| flow.bypass(cx));
            self.with_depot(id, io, |flow, cx| flow.let_go(cx));
            self.table.remove(id);
        }
    }

    fn remove<P, S>(&mut self, id: Id, io: &mut Io<'_, P, S>)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.with_sentry(id, io, |flow, cx| flow.forget(cx));
        self.with_depot(id, io, |flow, cx| flow.forget(cx));
        self.table.remove(id);
    }
}

/// READ responses are kept where packets are.
const fn keeps_responses(recovery: Recovery) -> bool {
    sentry_recovery(recovery).caches()
}

const fn sentry_recovery(recovery: Recovery) -> sentry::Recovery {
    match recovery {
        // Off never gets to a pipeline.
        Recovery::Lr2 | Recovery::Off => sentry::Recovery::Lr2,
        Recovery::Cached => sentry::Recovery::Cached,
        Recovery::Auto => sentry::Recovery::Auto,
    }
}
