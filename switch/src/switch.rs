//! The switch itself: its entry points, and the way of a frame to the room that handles it.

use arrayvec::ArrayVec;
use common::allowance::Allowance;
use common::control::Keys;
use common::frame::{Frame, Pool, Side, Sink};
use common::ids::FlowId;
use common::metrics::{Counters, Metric};
use common::recorder::Recorder;
use common::time::Time;
use common::wire::{Addr, Looked, NotRoce, Opcode, PacketKind, Roce, Transport, look, parse};

use ipnet::IpNet;

use crate::config::{Config, Recovery};
use crate::context::{Context, Declined};
use crate::flow::burst::{Burst, Seen};
use crate::flow::pipeline::Resources;
use crate::flow::table::{Leaving, Table};
use crate::flow::{Flows, TIMERS};
use crate::io::{Arrival, Io, Ports};
use crate::maintenance::Sweep;
use crate::peer::{PeerState, RefusedMessage};
use crate::qp::pairing::Pairing;
use crate::retune::Retuning;
use crate::rx::{cm, control, request, response};
use crate::tx::actions::Tx;

/// One end of the link, for one pair of ports and one worker.
pub struct Switch<F: Frame> {
    config: Config,
    flows: Flows<F>,
    pairing: Pairing,
    tx: Tx<F>,
    sweep: Sweep,
    retuning: Retuning,
}

/// What [settings](crate::retune) are about.
pub(crate) type Rooms<'a, F> =
    (&'a mut Config, &'a mut Flows<F>, &'a mut Pairing, &'a mut Tx<F>, &'a mut Retuning);

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

impl<F: Frame> Switch<F> {
    /// A switch that knows no flow yet.
    pub fn new(config: Config) -> Self {
        Self {
            flows: Flows::new(&config),
            pairing: Pairing::new(&config),
            tx: Tx::new(&config),
            sweep: Sweep::default(),
            retuning: Retuning::default(),
            config,
        }
    }

    /// Every packet takes the general way, also those of steady flows, for which there is a fast path. The result is
    /// the same: tests compare the two. To be called before the first packet.
    pub fn avoid_fast_paths(&mut self) {
        let Resources { sentry, depot, .. } = &mut self.flows.resources;
        (sentry.fast_path, depot.fast_path) = (false, false);
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
        self.flows.resources.started(now);
        let mut io = Ports { pool, sink, now };
        let mut cx = self.context(&mut io);
        cx.tx.counters.add(received(side), frames.len() as u64);
        match cx.config.recovery {
            Recovery::Off => pass_all(&mut cx, side, frames),
            _ => process(&mut cx, side, frames),
        }
        cx.take_turns();
        cx.tx.released.flush();
    }

    /// When [`timers`](Self::timers) has to be called next; [`Time::NEVER`] if
    /// nothing is outstanding.
    pub fn next_deadline(&self) -> Time {
        self.flows.timers.next().min(self.tx.releases.due())
    }

    /// Runs at most `budget` timers that are due at `now`.
    pub fn timers<P, S>(&mut self, now: Time, budget: usize, pool: &mut P, sink: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut io = Ports { pool, sink, now };
        let mut cx = self.context(&mut io);
        let mut left = budget;
        while left > 0 {
            let room = left.min(TIMERS);
            let (due, fired) = cx.flows.due(now, room);
            for id in due {
                cx.tx.recorder.begin(now);
                cx.sentry(id, |flow, cx| flow.on_timer(cx));
                cx.depot(id, |flow, cx| flow.on_timer(cx));
            }
            left = if fired < room { 0 } else { left - room };
        }
        cx.take_turns();
        cx.release_again();
        cx.tx.released.flush();
    }

    /// Forgets flows that have been idle for long, a few at a time, and
    /// refreshes the gauges. To be called every few milliseconds.
    pub fn housekeeping<P, S>(&mut self, now: Time, pool: &mut P, sink: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut sweep = core::mem::take(&mut self.sweep);
        let mut retuning = core::mem::take(&mut self.retuning);
        let mut io = Ports { pool, sink, now };
        let mut cx = self.context(&mut io);
        cx.release_some();
        retuning.set_timers(&mut cx);
        sweep.run(&mut cx);
        (self.sweep, self.retuning) = (sweep, retuning);
        self.go_on_retuning();
        self.tx.released.flush();
    }

    /// Delivers held packets in order, tells the peers, and protects no flow from now on.
    pub fn drain<P, S>(&mut self, now: Time, pool: &mut P, sink: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        self.tx.releases.drain();
        let mut io = Ports { pool, sink, now };
        self.context(&mut io).release_all(true);
        self.tx.released.flush();
    }

    /// Forgets all flows at once: held packets are delivered in order, and the next packets begin anew. The Depots are
    /// told once.
    pub fn forget_all<P, S>(&mut self, now: Time, pool: &mut P, sink: &mut S)
    where
        P: Pool<Frame = F>,
        S: Sink<Frame = F>,
    {
        let mut io = Ports { pool, sink, now };
        self.context(&mut io).release_all(false);
        self.tx.released.flush();
    }

    /// Forgets the flows between some hosts, given by their addresses, some at each [`housekeeping`](Self::housekeeping):
    /// held packets are delivered in order, and the Depots are told until they answer. None of these hosts' flows
    /// begins until that [is done](Self::is_forgetting). A call before then ends the former one.
    pub fn forget(&mut self, is_one: impl Fn(Addr, Addr) -> bool + Send + 'static) {
        let is_one = Box::new(is_one);
        self.flows.table.leaving = Some(Leaving { is_one, next: 0 });
    }

    /// Whether flows of some hosts are still being forgotten.
    pub fn is_forgetting(&self) -> bool {
        self.flows.table.leaving.is_some()
    }

    /// Whether a Depot is still to be told that this box drains.
    pub fn is_leaving(&self) -> bool {
        self.tx.releases.due() != Time::NEVER
    }

    /// Reads and writes control messages with other keys from now on.
    pub fn set_keys(&mut self, keys: &Keys) {
        self.tx.peers.set_keys(keys);
    }

    /// Whether the caller keeps up with its frames no longer. If so, new flows pass unprotected, and early
    /// messages are not sent (R-PASS-7, R-MSG-11). Protected flows stay protected.
    pub fn set_overloaded(&mut self, is_overloaded: bool) {
        self.flows.resources.allowance.set_overloaded(is_overloaded);
    }

    /// The budget of messages begins anew, and time pays for so many a second. For measurements that begin once flows are protected.
    pub fn set_early_per_second(&mut self, per_second: u32) {
        self.flows.resources.allowance = Allowance::new(per_second);
    }

    /// New flows to other destinations are announced to a peer from now on. Those that are known stay as they are.
    pub fn set_remote_prefixes(&mut self, prefixes: &[IpNet]) {
        self.config.remote_prefixes = prefixes.to_vec();
    }

    /// The boxes that were heard, in no order.
    pub fn peers(&self) -> impl Iterator<Item = PeerState> {
        self.tx.peers.states()
    }

    /// The newest message of another box that was refused.
    pub fn last_refusal(&self) -> Option<RefusedMessage> {
        self.tx.peers.last_refusal()
    }

    /// What was done to packets of late.
    pub fn recorder(&self) -> &Recorder {
        &self.tx.recorder
    }

    pub(crate) fn table(&self) -> &Table<F> {
        &self.flows.table
    }

    pub(crate) fn table_mut(&mut self) -> &mut Table<F> {
        &mut self.flows.table
    }

    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) const fn retuning(&self) -> &Retuning {
        &self.retuning
    }

    /// What settings are about.
    pub(crate) fn rooms(&mut self) -> Rooms<'_, F> {
        let Self { config, flows, pairing, tx, retuning, .. } = self;
        (config, flows, pairing, tx, retuning)
    }

    /// Releases the handles that pools have given up.
    pub(crate) fn flush(&mut self) {
        self.tx.released.flush();
    }

    /// Frames held in pools.
    pub fn held(&self) -> u64 {
        let Resources { cache, reorder, backup, .. } = &self.flows.resources;
        reorder.frames() + backup.frames() + cache.frames()
    }

    /// Bytes of these frames.
    pub fn held_bytes(&self) -> HeldBytes {
        let Resources { cache, reorder, backup, .. } = &self.flows.resources;
        HeldBytes { reorder: reorder.used(), backup: backup.used(), cache: cache.used() }
    }

    /// Counts of all events so far.
    pub fn counters(&self) -> &Counters {
        &self.tx.counters
    }

    #[inline]
    pub(crate) fn context<'a, I: Io<Frame = F>>(&'a mut self, io: &'a mut I) -> Context<'a, I> {
        let Self { config, flows, pairing, tx, .. } = self;
        tx.recorder.begin(io.now());
        Context { config, flows, pairing, tx, io }
    }
}

const fn received(side: Side) -> Metric {
    match side {
        Side::Lan => Metric::ReceivedLan,
        Side::Wan => Metric::ReceivedWan,
    }
}

/// A burst whose flows are looked up.
#[inline(always)]
fn process<I: Io, const N: usize>(
    cx: &mut Context<'_, I>,
    side: Side,
    frames: &mut ArrayVec<I::Frame, N>,
) {
    let mut burst = Burst::<N>::new();
    burst.look_at(side, frames, &cx.flows.table, cx.io.now());
    let works = cx.works_on(side);
    let removed = cx.flows.table.removed();
    // Whether each flow that was found is still in the table.
    let mut is_valid = true;
    'frames: for (frame, seen) in frames.drain(..).zip(burst.frames()) {
        let flow = seen.flow.filter(|_| is_valid);
        let declined = match flow.filter(|_| works) {
            Some(id) => {
                let mut frame = frame;
                loop {
                    match cx.on_next(id, side, frame, &seen.look) {
                        Ok(()) => continue 'frames,
                        Err(Declined::NotNext(same)) if renew(cx, &same, (&burst, seen), id) => {
                            frame = same;
                        }
                        Err(declined) => break declined,
                    }
                }
            }
            None => Declined::NotNext(frame),
        };
        on_other(cx, side, declined, (&burst, seen), flow, works);
        is_valid = cx.flows.table.removed() == removed;
    }
}

/// Takes the headers of a flow's own frames from a packet, if they are old. Returns whether that was so: then the packet may
/// be on the fast path all the same, as are most of a flow that sends one now and then.
#[inline(never)]
fn renew<I: Io, const N: usize>(
    cx: &mut Context<'_, I>,
    frame: &I::Frame,
    (burst, seen): (&Burst<N>, &Seen),
    id: FlowId,
) -> bool {
    if !seen.look.opcode.is_plain() || !cx.flows.table.is_stale(id, cx.io.now()) {
        return false;
    }
    let Ok(roce) = burst.parsed(seen, frame.bytes()) else { return false };
    request::prepare(cx, id, roce.psn, frame.bytes(), &roce);
    !cx.flows.table.is_stale(id, cx.io.now())
}

/// A frame of a burst that [`Context::on_next`] did not take.
#[inline(never)]
fn on_other<I: Io, const N: usize>(
    cx: &mut Context<'_, I>,
    side: Side,
    declined: Declined<I::Frame>,
    (burst, seen): (&Burst<N>, &Seen),
    flow: Option<FlowId>,
    works: bool,
) {
    let frame = match (declined, flow) {
        (Declined::NotNext(frame) | Declined::Noted(frame), None) => frame,
        (Declined::Noted(frame), Some(id)) => {
            return on_noted(cx, side, frame, (burst, seen), id);
        }
        (Declined::NotNext(frame), Some(id)) => {
            let is_ack = seen.look.opcode == Opcode::ACK;
            let ack = if is_ack { burst.ack(seen, frame.bytes()) } else { None };
            match ack {
                None => frame,
                Some(ack) => match cx.on_ack(id, side, frame, &ack) {
                    Ok(()) => return,
                    Err(frame) => frame,
                },
            }
        }
    };
    let parsed = burst.parsed(seen, frame.bytes());
    receive(cx, side, frame, &parsed, flow, works);
}

/// The next packet of a flow, which its track has noted.
fn on_noted<I: Io, const N: usize>(
    cx: &mut Context<'_, I>,
    side: Side,
    frame: I::Frame,
    (burst, seen): (&Burst<N>, &Seen),
    id: FlowId,
) {
    let frame = match side {
        Side::Lan => frame,
        Side::Wan => match cx.on_next_behind(id, frame, &seen.look) {
            Ok(()) => return,
            Err(frame) => frame,
        },
    };
    let parsed = burst.parsed(seen, frame.bytes());
    request::on_noted(cx, side, frame, &parsed, id);
}

/// With recovery off all frames pass but control messages, and what is meant for this port.
#[inline(always)]
fn pass_all<I: Io, const N: usize>(
    cx: &mut Context<'_, I>,
    side: Side,
    frames: &mut ArrayVec<I::Frame, N>,
) {
    let control = cx.tx.peers.opcode();
    for frame in frames.drain(..) {
        let (parsed, opcode) = match look(frame.bytes()) {
            Looked::Ipv4(_, look) => (None, Some(look.opcode)),
            Looked::Other(parsed) => (Some(parsed), parsed.ok().map(|roce| roce.opcode)),
        };
        if opcode.is_some_and(|opcode| opcode != control) {
            cx.pass(side, frame, Metric::PassedRole);
        } else {
            let parsed = parsed.unwrap_or_else(|| parse(frame.bytes()));
            receive(cx, side, frame, &parsed, None, false);
        }
    }
}

/// A frame that is not the next packet of its flow. `works` tells whether requests go through pipelines.
#[inline(never)]
fn receive<I: Io>(
    cx: &mut Context<'_, I>,
    side: Side,
    frame: I::Frame,
    parsed: &Result<Roce, NotRoce>,
    flow: Option<FlowId>,
    works: bool,
) {
    let roce = match parsed {
        Ok(roce) => roce,
        Err(NotRoce::Other) => return cx.pass(side, frame, Metric::PassedOther),
        // It was meant for this port, which handed it up (R-PASS-5).
        Err(NotRoce::MacControl) => return cx.tx.counters.inc(Metric::DropMacControl),
        Err(NotRoce::Malformed(_)) => return cx.pass(side, frame, Metric::PassedMalformed),
    };
    let arrival = Arrival { side, frame, roce, flow };
    cx.tx.recorder.begin(cx.io.now());
    let (kind, is_rc) = (roce.opcode.kind(), roce.opcode.transport() == Transport::Rc);
    if roce.opcode == cx.tx.peers.opcode() {
        control::on_control(cx, arrival);
    } else if kind.is_response() {
        response::on_response(cx, arrival);
    } else if works && kind == PacketKind::Other && is_rc {
        request::on_unknown(cx, arrival);
    } else if !kind.is_request() || !is_rc {
        let reason = cm::observe(cx, side, arrival.frame.bytes(), roce);
        cx.pass(side, arrival.frame, reason);
    } else if works {
        request::on_request(cx, arrival);
    } else {
        cx.pass(side, arrival.frame, Metric::PassedRole);
    }
}
