//! Egress: the queues of the two ports.
//!
//! Per port one queue for each [`Class`], the high one first. Frames that a port
//! refuses stay queued, and are offered again in the next round. They keep their order; on the
//! LAN, data is served in turns between flows, so that a flow whose gap was filled does not
//! delay all others: a burst of releases from a reordering pool may be thousands of
//! frames, far more than a port's ring. The queues are bounded twice: a frame
//! that finds its queue full is dropped and counted, and so is all that waits
//! for a port that takes nothing for [`STALL`], since frames must not arrive
//! in another incarnation of their queue pair.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::fair_queue::FairQueue;
use common::frame::{Class, Frame, Packet, Shared, Side, Sink};
use common::time::{Span, Time};
use common::wire::flow_hash;

use super::capture::{Direction, Tap};
use super::io::Transmit;
use crate::config::BACKLOG;
use crate::port::PortId;
use crate::telemetry::{IoCounters, PortIo};

/// Time without progress after which a port's queues are emptied.
pub const STALL: Span = Span::from_millis(100);

/// Frames handed to a port at once.
const BURST: usize = 64;

/// Frames that may wait while mbufs are scarce.
const LOW_LIMIT: usize = BACKLOG as usize;

/// Flows that the LAN serves in turn: those whose hashes are equal modulo this share a turn.
const FLOWS: usize = 1024;

/// Handles behind a full head.
enum Rest<S> {
    /// First in, first out.
    Fifo(VecDeque<S>),
    /// A turn for each flow.
    Fair(FairQueue<S>),
}

impl<S: Shared> Rest<S> {
    fn pop(&mut self) -> Option<S> {
        match self {
            Self::Fifo(queue) => queue.pop_front(),
            Self::Fair(queue) => queue.pop(),
        }
    }

    /// Appends a handle. Returns whether there was room.
    fn push(&mut self, frame: S) -> bool {
        match self {
            Self::Fifo(queue) => queue.push_back(frame),
            Self::Fair(queue) => {
                let bytes = frame.bytes();
                let (hash, len) = (flow_hash(bytes), bytes.len() as u32);
                return queue.push(hash, len, frame).is_ok();
            }
        }
        true
    }

    fn clear(&mut self) {
        match self {
            Self::Fifo(queue) => queue.clear(),
            Self::Fair(queue) => _ = queue.clear(),
        }
    }
}

/// One class of one port.
struct Queue<S> {
    /// The front, in the form the port takes it.
    head: ArrayVec<S, BURST>,
    rest: Rest<S>,
    /// Frames in `rest`.
    behind: usize,
}

impl<S: Shared> Queue<S> {
    fn new(rest: Rest<S>) -> Self {
        Self { head: ArrayVec::new(), rest, behind: 0 }
    }

    fn len(&self) -> usize {
        self.head.len() + self.behind
    }

    /// Appends a frame, or returns it if the head is full.
    #[inline]
    fn push(&mut self, frame: S) -> Result<(), S> {
        if self.behind > 0 {
            return Err(frame);
        }
        self.head.try_push(frame).map_err(|full| full.element())
    }

    /// Appends a frame, if fewer than `limit` wait behind the head. Returns whether it did.
    fn push_behind(&mut self, frame: S, limit: usize) -> bool {
        let has_room = self.behind < limit && self.rest.push(frame);
        self.behind += usize::from(has_room);
        has_room
    }

    fn refill(&mut self) {
        while self.behind > 0
            && !self.head.is_full()
            && let Some(frame) = self.rest.pop()
        {
            self.behind -= 1;
            self.head.push(frame);
        }
    }

    fn clear(&mut self) -> usize {
        let n = self.len();
        self.head.clear();
        self.rest.clear();
        self.behind = 0;
        n
    }
}

/// Fates of frames, since the start.
#[derive(Default)]
struct Counts {
    frames: u64,
    bytes: u64,
    full: u64,
    stalled: u64,
    end: u64,
}

impl Counts {
    /// Offers frames to a port. Returns how many it took.
    #[inline]
    fn send<T: Transmit, const N: usize>(
        &mut self,
        (tx, id): (&mut T, PortId),
        frames: &mut ArrayVec<Handle<T>, N>,
        tap: &mut Tap,
    ) -> usize {
        let offered = bytes(frames);
        let taken = match tap.is_on() {
            false => tx.send(frames),
            true => seen(tx, id, frames, tap),
        };
        self.frames += taken as u64;
        self.bytes += offered - bytes(frames);
        taken
    }
}

/// Sends, and captures what the port takes.
#[cold]
fn seen<T: Transmit, const N: usize>(
    tx: &mut T,
    id: PortId,
    frames: &mut ArrayVec<Handle<T>, N>,
    tap: &mut Tap,
) -> usize {
    let handles = frames.clone();
    let taken = tx.send(frames);
    tap.see(id, Direction::Out, handles.iter().take(taken).map(Shared::bytes));
    taken
}

/// A frame that waits for its port. Others may have handles as well.
type Handle<T> = <<T as Transmit>::Frame as Frame>::Shared;

/// One port.
struct Port<T: Transmit> {
    id: PortId,
    tx: T,
    high: Queue<Handle<T>>,
    data: Queue<Handle<T>>,
    /// The port took less than it was offered in this round: no use trying
    /// again before the next.
    blocked: bool,
    /// When it last began to take nothing although frames wait.
    stalled_since: Option<Time>,
    counts: Counts,
}

impl<T: Transmit> Port<T> {
    /// Offers queued frames, high class first, until all are sent or the port
    /// takes no more. Returns how many it took.
    fn push(&mut self, tap: &mut Tap) -> usize {
        let mut sent = 0;
        for queue in [&mut self.high, &mut self.data] {
            loop {
                queue.refill();
                if queue.head.is_empty() {
                    break;
                }
                sent += self.counts.send((&mut self.tx, self.id), &mut queue.head, tap);
                if !queue.head.is_empty() {
                    self.blocked = true;
                    return sent;
                }
            }
        }
        sent
    }

    #[inline]
    fn add(&mut self, class: Class, frame: Handle<T>, limit: usize, tap: &mut Tap) {
        if let Err(frame) = self.queue(class).push(frame) {
            self.add_behind(class, frame, limit, tap);
        }
    }

    /// The same where the head is full.
    #[inline(never)]
    fn add_behind(&mut self, class: Class, frame: Handle<T>, limit: usize, tap: &mut Tap) {
        if !self.blocked {
            self.push(tap);
        }
        let queue = self.queue(class);
        if let Err(frame) = queue.push(frame)
            && !queue.push_behind(frame, limit)
        {
            self.counts.full += 1;
        }
    }

    #[inline]
    fn queue(&mut self, class: Class) -> &mut Queue<Handle<T>> {
        match class {
            Class::High => &mut self.high,
            Class::Data => &mut self.data,
        }
    }

    fn queued(&self) -> usize {
        self.high.len() + self.data.len()
    }

    fn clear(&mut self) -> u64 {
        (self.high.clear() + self.data.clear()) as u64
    }
}

/// The egress queues of all ports.
pub struct Egress<T: Transmit> {
    /// By [`PortId::index`].
    ports: Vec<Port<T>>,
    limit: usize,
    low: bool,
    /// Captures frames. It lies here since frames leave from here.
    tap: Tap,
}

impl<T: Transmit> Egress<T> {
    /// Queues in front of the LAN and the WAN ports, of at most `limit` frames
    /// per class. Memory for as many is taken now, so that none is later. `tap` captures frames.
    pub fn new(lan: T, wans: Vec<T>, limit: usize, tap: Tap) -> Self {
        let fifo = || Rest::Fifo(VecDeque::with_capacity(limit));
        let port = |id, tx, data| Port {
            id,
            tx,
            high: Queue::new(fifo()),
            data: Queue::new(data),
            blocked: false,
            stalled_since: None,
            counts: Counts::default(),
        };
        let lan = port(PortId::LAN, lan, Rest::Fair(FairQueue::new(limit, FLOWS)));
        let wans = PortId::all(u8::MAX).skip(1).zip(wans).map(|(id, tx)| port(id, tx, fifo()));
        let ports = std::iter::once(lan).chain(wans).collect();
        Self { ports, limit, low: false, tap }
    }

    /// Captures frames.
    #[inline]
    pub fn tap(&mut self) -> &mut Tap {
        &mut self.tap
    }

    /// Offers queued frames to all ports; to be called once per round. Returns
    /// how many frames they took.
    pub fn flush(&mut self, now: Time) -> usize {
        let mut all = 0;
        for port in &mut self.ports {
            let before = port.counts.frames;
            port.blocked = false;
            all += port.push(&mut self.tap);
            if !port.blocked || port.counts.frames != before {
                port.stalled_since = None;
            } else if now.since(*port.stalled_since.get_or_insert(now)) >= STALL {
                port.counts.stalled += port.clear();
                port.stalled_since = None;
            }
        }
        all
    }

    /// Frames of class Data for which the queue of a port has room.
    #[inline]
    pub fn room(&self, port: PortId) -> usize {
        self.limit().saturating_sub(self.ports[port.index()].data.behind)
    }

    /// How long a frame of class Data waits in the queue of a port, whose link has that speed; `None` if it would find
    /// no room there. Frames count as long as the port's were so far.
    #[inline]
    pub fn wait(&self, port: PortId, mbit_per_s: u32) -> Option<Span> {
        (self.room(port) > 0).then(|| {
            let Port { data, counts, .. } = &self.ports[port.index()];
            let queued = data.len() as u64;
            if queued == 0 {
                return Span::ZERO;
            }
            let bits = counts.bytes.saturating_mul(8).checked_div(counts.frames).unwrap_or(0);
            let us = (queued * bits).checked_div(mbit_per_s.into()).unwrap_or(0);
            Span::from_micros(us)
        })
    }

    /// Queues a frame at a port.
    #[inline]
    pub fn transmit_at(&mut self, port: PortId, class: Class, packet: Packet<T::Frame>) {
        let limit = self.limit();
        let frame = match packet {
            Packet::Owned(frame) => frame.share(),
            Packet::Shared(frame) => frame,
        };
        self.ports[port.index()].add(class, frame, limit, &mut self.tap);
    }

    /// Sends frames of class Data to a port, if none waits for it, and queues those that it does not take.
    #[inline]
    pub fn transmit_all<const N: usize>(
        &mut self,
        port: PortId,
        frames: &mut ArrayVec<Handle<T>, N>,
    ) {
        let limit = self.limit();
        let port = &mut self.ports[port.index()];
        if port.queued() == 0 && !port.blocked {
            port.counts.send((&mut port.tx, port.id), frames, &mut self.tap);
            port.blocked = !frames.is_empty();
        }
        frames.drain(..).for_each(|frame| port.add(Class::Data, frame, limit, &mut self.tap));
    }

    fn limit(&self) -> usize {
        if self.low { self.limit.min(LOW_LIMIT) } else { self.limit }
    }

    /// While mbufs are scarce, fewer frames may wait.
    pub fn set_low(&mut self, low: bool) {
        self.low = low;
    }

    /// Frames that wait.
    pub fn queued(&self) -> usize {
        self.ports.iter().map(Port::queued).sum()
    }

    /// Drops and counts all queued frames.
    pub fn discard(&mut self) {
        for port in &mut self.ports {
            port.counts.end += port.clear();
        }
    }

    /// Writes the fates of frames into `io`.
    pub fn report(&self, io: &mut IoCounters) {
        for (id, port) in PortId::all(u8::MAX).zip(&self.ports) {
            for (what, value) in [
                (PortIo::TxFrames, port.counts.frames),
                (PortIo::TxBytes, port.counts.bytes),
                (PortIo::DropFull, port.counts.full),
                (PortIo::DropStalled, port.counts.stalled),
                (PortIo::DropEnd, port.counts.end),
                (PortIo::Queued, port.queued() as u64),
            ] {
                io.set(id, what, value);
            }
        }
    }
}

impl<T: Transmit> Sink for Egress<T> {
    type Frame = T::Frame;

    #[inline]
    fn transmit(&mut self, side: Side, class: Class, packet: Packet<T::Frame>) {
        self.transmit_at(side.into(), class, packet);
    }
}

fn bytes(frames: &[impl Shared]) -> u64 {
    frames.iter().map(|frame| frame.bytes().len() as u64).sum()
}

#[cfg(test)]
mod tests;
