//! The switch itself: from a frame to the pipeline that it belongs to.

use arrayvec::ArrayVec;
use common::allowance::Allowance;
use common::budget::Budget;
use common::frame::{Class, Frame, Packet, Pool, Side, Sink};
use common::metrics::{Counters, Metric};
use common::time::Time;
use common::wire::{NotRoce, PacketKind, Roce, Transport, icrc_ok, parse};

use crate::connections::Connections;
use crate::entry::{Id, Pipeline, Track};
use crate::farewell::Farewell;
use crate::housekeeping::Sweep;
use crate::key::FlowKey;
use crate::operator::Named;
use crate::output::{Released, TxContext, transmit};
use crate::table::Table;
use crate::timers::Timers;
use crate::{Config, Recovery};

/// Most PSNs of one flow that may be in flight: 400 Gbit/s × 40 ms of 4 KiB
/// packets, or 100 Gbit/s × 40 ms of 1 KiB.
pub(crate) const WINDOW_MAX: u64 = 1 << 19;

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

    /// A packet with an RC opcode that is not defined. If it is a request it takes PSNs, and
    /// nobody can tell how many: its flow, if there is one, is left to the RNICs.
    #[inline(never)]
    fn on_unknown<P, S>(
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

    /// A request (SEND, WRITE, READ, atomic) that does more than follow the one before.
    #[inline(never)]
    fn on_request<P, S>(
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
    fn on_ready<P, S>(&mut self, side: Side, frame: F, roce: &Roce, id: Id, io: &mut Io<'_, P, S>)
    where
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
