//! A worker: a thread that polls a queue of the LAN and of the WAN port and owns
//! the flows of the host pairs that fall to it.
//!
//! A round takes a burst from each port through the switch or the tunnel, and the frames that other
//! workers have handed off; runs the timers that are due; and offers queued frames
//! to the ports. It reads the clock as it begins, and behind each burst. A few hundred times a second there is
//! housekeeping as well: the worker publishes its counters, which is its
//! sign of life, and looks whether it is to stop. Nothing in here waits
//! for anybody, and nothing in a round allocates, logs or makes a system call, but
//! for the sleep of an adaptive worker that has found nothing to do.

pub mod capture;
pub mod egress;
pub mod events;
#[cfg(test)]
mod fake;
pub mod flows;
pub mod handoff;
pub mod idle;
pub mod io;
pub mod links;
pub mod listing;
pub mod load;
pub mod peers;
pub mod plane;
pub mod records;
pub mod station;
#[cfg(test)]
mod tests;
pub mod trace;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use arrayvec::ArrayVec;
use common::frame::Headroom;
use common::time::{Span, Time};
use rtrb::Consumer;

use self::capture::Direction;
use self::egress::Egress;
use self::events::Watch;
use self::flows::Flows;
use self::handoff::Handoff;
use self::idle::Idler;
use self::io::{Now, Receive, Reserve, Transmit};
use self::load::Load;
use self::plane::Plane;
use crate::port::PortId;
use crate::reload::Change;
use crate::telemetry::{IoCounters, LoopIo, PortIo, Published};

/// Timers run per round at most: more would keep the ports waiting.
const TIMER_BUDGET: usize = 64;

/// Time between two housekeepings.
const HOUSEKEEPING: Span = Span::from_millis(5);

/// How a worker ended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ended {
    /// Frames that recovery still held when time was up.
    pub held: u64,
    /// Frames that still waited for a port then.
    pub queued: u64,
}

/// Workers of the box that have not emptied their queues and pools since they were told to stop. One that has goes on until
/// all have: it may poll the only queue by which frames and confirmations for the others arrive.
#[derive(Clone, Debug)]
pub struct Unfinished(Arc<AtomicUsize>);

impl Unfinished {
    /// So many workers.
    pub fn new(workers: u16) -> Self {
        Self(Arc::new(AtomicUsize::new(workers.into())))
    }
}

/// The parts of a worker.
pub struct Parts<R: Receive<Frame: Headroom>, T: Transmit, P, C> {
    /// The ports' receive queues, by [`PortId::index`]. A port may have fewer
    /// than there are workers.
    pub rx: Vec<Option<R>>,
    /// The ways to the other workers and from them.
    pub handoff: Handoff<R::Frame>,
    /// The queues in front of the ports' transmit queues.
    pub egress: Egress<T>,
    /// Decides about frames.
    pub plane: Plane<R::Frame>,
    /// Where frames of the box's own come from.
    pub pool: P,
    /// The time.
    pub clock: C,
    /// How to wait when there is nothing to do.
    pub idle: Idler,
    /// Set when the worker is to deliver held frames, and to end when they have left.
    pub stop: Arc<AtomicBool>,
    /// The workers that have not come so far yet, this one among them.
    pub unfinished: Unfinished,
    /// The longest that this may take.
    pub drain_timeout: Span,
    /// Where counters are published. Only the worker writes.
    pub published: Arc<Published>,
    /// Where events are said.
    pub events: Watch,
    /// Settings that the operator has changed.
    pub settings: Consumer<Change>,
    /// Tells of flows when the operator asks.
    pub flows: flows::Lister,
    /// Tells of what was done to packets when the operator asks.
    pub records: records::Lister,
}

/// A worker, ready to run. See the [module](self).
pub struct Worker<R: Receive<Frame: Headroom>, T: Transmit, P, C> {
    parts: Parts<R, T, P, C>,
    io: IoCounters,
    load: Load,
    /// When the round before began, and whether it had something to do.
    last_round: (Time, bool),
    last_housekeeping: Time,
    /// Set once the worker is to end: when at the latest.
    leave_by: Option<Time>,
    /// Whether nothing was left once after that.
    has_finished: bool,
}

impl<F, R, T, P, C> Worker<R, T, P, C>
where
    F: Headroom,
    R: Receive<Frame = F>,
    T: Transmit<Frame = F>,
    P: Reserve<Frame = F>,
    C: Now,
{
    /// Puts a worker together.
    pub fn new(parts: Parts<R, T, P, C>) -> Self {
        let now = parts.clock.now();
        let load = Load::new(parts.rx.len(), 1 + parts.handoff.others());
        Self {
            parts,
            io: IoCounters::default(),
            load,
            last_round: (now, false),
            last_housekeeping: now,
            leave_by: None,
            has_finished: false,
        }
    }

    /// Runs until it was told to [stop](Parts::stop) and all has left, in bursts of up to `N`
    /// frames. Frames that are left after the time for that are dropped and counted.
    pub fn run<const N: usize>(mut self) -> Ended {
        let mut frames = ArrayVec::<F, N>::new();
        loop {
            let now = self.parts.clock.now();
            let worked = self.round(&mut frames, now);
            if self.may_leave(now) {
                let now = self.parts.clock.now();
                return self.end(now);
            }
            let deadline = self.parts.plane.next_deadline();
            self.parts.idle.end_round(worked, now, deadline);
        }
    }

    /// One round. Returns whether there was something to do.
    fn round<const N: usize>(&mut self, frames: &mut ArrayVec<F, N>, began: Time) -> bool {
        self.account(began);
        let Parts { rx, handoff, egress, plane, pool, clock, flows, records, .. } = &mut self.parts;
        egress.tap().set_now(began);
        let (mut worked, mut now) = (false, began);
        for (port, rx) in PortId::all(u8::MAX).zip(rx) {
            let n = rx.as_mut().map_or(0, |rx| rx.receive(frames));
            self.load.polled(port, 0, n == N);
            if n > 0 {
                worked = true;
                // Not before they came: the worker may have lost its core since the round began, and would measure a delay that is
                // shorter than the path's.
                now = clock.now();
                egress.tap().set_now(now);
                let bytes = frames.iter().map(|f| f.bytes().len() as u64).sum();
                self.io.add(port, PortIo::RxFrames, n as u64);
                self.io.add(port, PortIo::RxBytes, bytes);
                if egress.tap().is_on() {
                    let seen = frames.iter().map(|frame| frame.bytes());
                    egress.tap().see(port, Direction::In, seen);
                }
                let sorted = handoff.sort(port, frames);
                self.io.add(port, PortIo::Handoff, sorted.handed_off);
                self.io.add(port, PortIo::DropHandoff, sorted.dropped);
                pass(plane, port, frames, now, pool, egress);
            }
            for other in 0..handoff.others() {
                let n = handoff.take(other, port, frames);
                self.load.polled(port, 1 + other, n == N);
                if n > 0 {
                    worked = true;
                    now = clock.now();
                    egress.tap().set_now(now);
                    pass(plane, port, frames, now, pool, egress);
                }
            }
        }
        // Not what became due since: its answer may lie unread at a port that was looked at before.
        if plane.next_deadline() <= began {
            worked = true;
            plane.timers(began, TIMER_BUDGET, pool, egress);
        }
        worked |= egress.flush(now) > 0;
        if flows.is_on() {
            worked |= flows.slice(plane.switches().map(|switch| Flows(switch, now)));
        }
        if records.is_on() {
            worked |= records.slice(plane.recorders());
        }
        let since = now.since(self.last_housekeeping);
        if since >= HOUSEKEEPING {
            self.last_housekeeping = now;
            self.housekeeping(now, since);
        }
        self.last_round.1 = worked;
        worked
    }

    /// Books the time since the last round began.
    fn account(&mut self, now: Time) {
        let (began, worked) = self.last_round;
        let nanos = now.since(began).as_nanos();
        let (round, time) = if worked {
            (LoopIo::BusyRounds, LoopIo::BusyNanos)
        } else {
            (LoopIo::IdleRounds, LoopIo::IdleNanos)
        };
        self.io.add_loop(round, 1);
        self.io.add_loop(time, nanos);
        self.last_round.0 = now;
    }

    /// Housekeeping, some time after the one before.
    fn housekeeping(&mut self, now: Time, since: Span) {
        let Self { load, io, .. } = self;
        load.look(now, |port| io.add(port, PortIo::OverloadedNanos, since.as_nanos()));
        self.parts.plane.set_overloaded(self.load.is_overloaded(now));
        let Parts { egress, plane, pool, settings, flows, records, .. } = &mut self.parts;
        flows.poll();
        records.poll();
        egress.tap().poll();
        while let Ok(change) = settings.pop() {
            plane.apply(&change, now, pool, egress);
        }
        plane.housekeeping(now, pool, egress);
        egress.set_low(pool.is_low());
        if self.leave_by.is_none() && self.parts.stop.load(Relaxed) {
            let Parts { egress, plane, pool, drain_timeout, .. } = &mut self.parts;
            plane.drain(now, pool, egress);
            self.leave_by = Some(now + *drain_timeout);
        }
        self.publish(now);
    }

    fn publish(&mut self, now: Time) {
        let Parts { rx, egress, plane, published, events, .. } = &mut self.parts;
        for (port, rx) in PortId::all(u8::MAX).zip(rx) {
            let Some(rx) = rx else { continue };
            let repairs = rx.repairs();
            self.io.set(port, PortIo::RxFlattened, repairs.flattened);
            self.io.set(port, PortIo::RxTooLong, repairs.too_long);
            self.io.set(port, PortIo::RxNoMbuf, repairs.no_mbuf);
        }
        egress.report(&mut self.io);
        plane.publish(now, &self.io, published, events);
    }

    fn may_leave(&mut self, now: Time) -> bool {
        let Some(leave_by) = self.leave_by else { return false };
        let Parts { plane, egress, handoff, unfinished: Unfinished(unfinished), .. } = &self.parts;
        let empty =
            plane.held() == 0 && !plane.is_leaving() && egress.queued() == 0 && handoff.is_empty();
        if empty && !self.has_finished {
            self.has_finished = true;
            unfinished.fetch_sub(1, Relaxed);
        }
        (empty && unfinished.load(Relaxed) == 0) || now >= leave_by
    }

    fn end(mut self, now: Time) -> Ended {
        let Parts { handoff, egress, plane, pool, .. } = &mut self.parts;
        for port in PortId::all(u8::MAX) {
            self.io.add(port, PortIo::DropHandoff, handoff.discard(port));
        }
        let ended = Ended { held: plane.held(), queued: egress.queued() as u64 };
        egress.discard();
        plane.housekeeping(now, pool, egress);
        self.publish(now);
        ended
    }
}

/// Takes the frames that arrived at a port.
#[inline(always)]
fn pass<const N: usize, F, T, P>(
    plane: &mut Plane<F>,
    port: PortId,
    frames: &mut ArrayVec<F, N>,
    now: Time,
    pool: &mut P,
    egress: &mut Egress<T>,
) where
    F: Headroom,
    T: Transmit<Frame = F>,
    P: Reserve<Frame = F>,
{
    if egress.tap().is_tracing() {
        trace::burst(plane, port, frames, now, pool, egress);
    } else {
        plane.burst(port, frames, now, pool, egress);
    }
}
