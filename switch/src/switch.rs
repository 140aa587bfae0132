//! The switch itself: from a frame to the pipeline that it belongs to.

use arrayvec::ArrayVec;
use common::allowance::Allowance;
use common::budget::Budget;
use common::frame::{Class, Frame, Packet, Pool, Side, Sink};
use common::metrics::{Counters, Metric};
use common::time::Time;
use common::wire::{NotRoce, PacketKind, Roce, Transport, parse};

use crate::flow::entry::Id;
use crate::flow::key::FlowKey;
use crate::flow::psn_range::WINDOW_MAX;
use crate::flow::table::Table;
use crate::flow::timer_wheel::Timers;
use crate::maintenance::{Sweep, keeps_responses, sentry_recovery};
use crate::qp::cm::Connections;
use crate::qp::configured::Named;
use crate::tx::actions::{Released, TxContext, transmit};
use crate::tx::peers::Peers;
use crate::tx::release::Farewell;
use crate::{Config, Recovery};

/// Timers that are taken out at once.
const TIMERS: usize = 32;

/// One end of the link, for one pair of ports and one worker.
pub struct Switch<F: Frame> {
    pub(crate) config: Config,
    pub(crate) sentry: sentry::Config,
    pub(crate) depot: depot::Config,
    pub(crate) table: Table<F>,
    pub(crate) connections: Connections,
    pub(crate) named: Named,
    pub(crate) timers: Timers,
    pub(crate) tx: TxContext,
    pub(crate) released: Released<F::Shared>,
    pub(crate) pools: Pools,
    /// What is on the way to the hosts of the LAN.
    pub(crate) lan: depot::Lan,
    /// What may be said that need not be said.
    pub(crate) allowance: Allowance,
    pub(crate) epochs: u32,
    /// When the first frame came.
    pub(crate) started: Option<Time>,
    pub(crate) draining: bool,
    pub(crate) farewell: Farewell,
    pub(crate) sweep: Sweep,
}

/// Where frames come from and go to, for the time of one call.
pub(crate) struct Io<'a, P, S> {
    pub pool: &'a mut P,
    pub sink: &'a mut S,
    pub now: Time,
}

/// Bytes of frames held in pools.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HeldBytes {
    /// In the reordering pool.
    pub reorder: u64,
    /// In the backup pool.
    pub backup: u64,
    /// In the resend cache.
    pub cache: u64,
}

/// What the flows of a worker may hold between them.
pub(crate) struct Pools {
    pub cache: Budget,
    pub reorder: Budget,
    pub backup: Budget,
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
                t_out_min: tuning.t_out_min,
                local_retries: config.local_retries,
                keeps_responses: keeps_responses(config.recovery),
                window_max: WINDOW_MAX,
                pacing: config.pacing,
                cnp_interval: config.cnp_interval,
            },
            table: Table::new(config.max_flows, config.max_flows_of_hosts, config.hash_seed),
            connections: Connections::new(config.max_flows.div_ceil(2), config.hash_seed),
            named: Named::new(&config.queue_pairs, config.hash_seed),
            timers: Timers::default(),
            tx: TxContext {
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
            released: Released::new(),
            lan: depot::Lan::default(),
            allowance: Allowance::new(tuning.early_per_second),
            epochs: 0,
            started: None,
            draining: false,
            farewell: Farewell::new(config.hash_seed),
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
        self.started.get_or_insert(now);
        let mut io = Io { pool, sink, now };
        // Each step for all frames before the next: what one waits for in memory, the
        // others wait for at the same time.
        let mut parsed = ArrayVec::<_, N>::new();
        frames.iter().for_each(|frame| parsed.push(parse(frame.bytes())));
        let found = self.look_up_all(side, &parsed);
        let removed = self.table.removed();
        for ((frame, parsed), found) in frames.drain(..).zip(&parsed).zip(found) {
            // Whoever came before it in the burst may have ended its flow.
            let found = found.filter(|_| self.table.removed() == removed);
            self.receive(side, frame, parsed, found, &mut io);
        }
        self.take_turns(&mut io);
        self.released.flush();
    }

    /// The entries of the flows that the frames of a burst are of.
    #[inline]
    fn look_up_all<const N: usize>(
        &self,
        side: Side,
        parsed: &ArrayVec<Result<Roce, NotRoce>, N>,
    ) -> [Option<Id>; N] {
        let (mut hashes, mut found) = ([0; N], [None; N]);
        if self.config.recovery == Recovery::Off {
            return found;
        }
        for (hash, parsed) in hashes.iter_mut().zip(parsed) {
            if let Ok(roce) = parsed
                && let Some(key) = key(side, roce)
            {
                *hash = self.table.warm_bucket(&key);
            }
        }
        for ((found, hash), parsed) in found.iter_mut().zip(hashes).zip(parsed) {
            // To make the key again takes less than to keep it.
            if let Ok(roce) = parsed
                && let Some(key) = key(side, roce)
            {
                *found = self.table.find_hashed(hash, &key);
            }
        }
        for id in found.into_iter().flatten() {
            self.table.prefetch(id);
        }
        found
    }

    /// When [`timers`](Self::timers) has to be called next; [`Time::NEVER`] if
    /// nothing is outstanding.
    pub fn next_deadline(&self) -> Time {
        self.timers.next().min(self.farewell.due)
    }

    /// Runs at most `budget` timers that are due at `now`.
    pub fn timers<P, S>(&mut self, now: Time, budget: usize, pool: &mut P, sink: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut io = Io { pool, sink, now };
        let mut left = budget;
        while left > 0 {
            // As in a burst: what one waits for in memory, the others do as well.
            let room = left.min(TIMERS);
            let fired: ArrayVec<_, TIMERS> =
                core::iter::from_fn(|| self.timers.pop(now)).take(room).collect();
            fired.iter().for_each(|(_, id, _)| self.table.warm_due(*id));
            let is_due = |(at, id, generation)| self.is_due(at, id, generation, now).then_some(id);
            let due: ArrayVec<_, TIMERS> = fired.iter().copied().filter_map(is_due).collect();
            due.iter().for_each(|id| self.table.prefetch_all(*id));
            for id in due {
                self.with_sentry(id, &mut io, |flow, cx| flow.on_timer(cx));
                self.with_depot(id, &mut io, |flow, cx| flow.on_timer(cx));
            }
            left = if fired.len() < room { 0 } else { left - room };
        }
        self.take_turns(&mut io);
        self.release_again(&mut io);
        self.released.flush();
    }

    /// Whether a pipeline has something to do now that a timer has fired: the entry may
    /// have another by now, or its deadline may have moved back.
    fn is_due(&mut self, at: Time, id: Id, generation: u32, now: Time) -> bool {
        let Some(entry) = self.table.get_mut(id) else { return false };
        if entry.generation != generation || entry.armed != at {
            return false;
        }
        entry.armed = Time::NEVER;
        let Some(track) = entry.pipeline.track() else { return false };
        let later = track.due.later_than(now);
        if let Some(later) = later {
            self.timers.arm(&mut entry.armed, later, id, generation);
        }
        later.is_none()
    }

    /// Frames held in pools.
    pub fn held(&self) -> u64 {
        self.pools.reorder.frames() + self.pools.backup.frames() + self.pools.cache.frames()
    }

    /// Bytes of these frames.
    pub fn held_bytes(&self) -> HeldBytes {
        let Pools { cache, reorder, backup } = &self.pools;
        HeldBytes { reorder: reorder.used(), backup: backup.used(), cache: cache.used() }
    }

    /// What has happened so far.
    pub fn counters(&self) -> &Counters {
        &self.tx.counters
    }

    /// One frame.
    fn receive<P, S>(
        &mut self,
        side: Side,
        frame: F,
        parsed: &Result<Roce, NotRoce>,
        found: Option<Id>,
        io: &mut Io<'_, P, S>,
    ) where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.tx.counters.inc(match side {
            Side::Lan => Metric::ReceivedLan,
            Side::Wan => Metric::ReceivedWan,
        });
        let roce = match parsed {
            Ok(roce) => roce,
            Err(NotRoce::Other) => return self.pass(side, frame, Metric::PassedOther, io),
            Err(NotRoce::MacControl) => {
                // It was meant for this port, which handed it up.
                return self.tx.counters.inc(Metric::DropMacControl);
            }
            Err(NotRoce::Malformed(_)) => {
                return self.pass(side, frame, Metric::PassedMalformed, io);
            }
        };
        self.handle(side, frame, roce, found, io);
    }

    /// A RoCEv2 packet.
    fn handle<P, S>(
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
        let works = !self.draining
            && match side {
                Side::Lan => self.config.role.is_sentry(),
                Side::Wan => self.config.role.is_depot(),
            };
        if let Some(id) = found
            && works
            && self.table.follow(id, roce, io.now)
        {
            return self.on_ready(side, frame, roce, id, io);
        }
        let kind = roce.opcode.kind();
        if roce.opcode == self.tx.opcode {
            self.on_control(side, frame, roce, io);
        } else if self.config.recovery == Recovery::Off {
            self.pass(side, frame, Metric::PassedRole, io);
        } else if kind.is_response() {
            self.on_answer(side, frame, roce, found, io);
        } else if works && kind == PacketKind::Other && roce.opcode.transport() == Transport::Rc {
            self.on_unknown(side, frame, roce, found, io);
        } else if !kind.is_request() || roce.opcode.transport() != Transport::Rc {
            let reason = self.observe(side, frame.bytes(), roce, io);
            self.pass(side, frame, reason, io);
        } else if works {
            self.on_request(side, frame, roce, found, io);
        } else {
            self.pass(side, frame, Metric::PassedRole, io);
        }
    }

    /// Forwards a frame unchanged, in arrival order.
    pub(crate) fn pass<P, S>(&mut self, side: Side, frame: F, reason: Metric, io: &mut Io<'_, P, S>)
    where
        S: Sink<Frame = F>,
    {
        self.tx.counters.inc(reason);
        self.forward(side, frame, io);
    }

    pub(crate) fn forward<P, S: Sink<Frame = F>>(
        &mut self,
        side: Side,
        frame: F,
        io: &mut Io<'_, P, S>,
    ) {
        let counters = &mut self.tx.counters;
        transmit(counters, io.sink, side.other(), Class::Data, Packet::Owned(frame));
    }

    /// The entry of `key`, new if need be.
    pub(crate) fn entry(&mut self, key: FlowKey, now: Time) -> Option<Id> {
        let (id, new) = self.table.entry(key, now)?;
        if new {
            self.tx.counters.inc(Metric::FlowCreated);
            self.pair_as_named(id, now);
        }
        Some(id)
    }
}

/// What a packet's stream is looked up by, if it may have an entry.
#[inline]
fn key(side: Side, roce: &Roce) -> Option<FlowKey> {
    (roce.opcode.transport() == Transport::Rc).then(|| FlowKey::of(side, roce))
}
