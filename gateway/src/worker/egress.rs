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

/// A frame that waits for its port. Others may have handles as well.
type Handle<T> = <<T as Transmit>::Frame as Frame>::Shared;

/// One port.
struct Port<T: Transmit> {
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
    fn push(&mut self) -> usize {
        let mut sent = 0;
        for queue in [&mut self.high, &mut self.data] {
            loop {
                queue.refill();
                if queue.head.is_empty() {
                    break;
                }
                let offered = bytes(&queue.head);
                let taken = self.tx.send(&mut queue.head);
                sent += taken;
                self.counts.frames += taken as u64;
                self.counts.bytes += offered;
                if !queue.head.is_empty() {
                    self.counts.bytes -= bytes(&queue.head);
                    self.blocked = true;
                    return sent;
                }
            }
        }
        sent
    }

    #[inline]
    fn add(&mut self, class: Class, frame: Handle<T>, limit: usize) {
        if let Err(frame) = self.queue(class).push(frame) {
            self.add_behind(class, frame, limit);
        }
    }

    /// The same where the head is full.
    #[inline(never)]
    fn add_behind(&mut self, class: Class, frame: Handle<T>, limit: usize) {
        if !self.blocked {
            self.push();
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
}

impl<T: Transmit> Egress<T> {
    /// Queues in front of the LAN and the WAN ports, of at most `limit` frames
    /// per class. Memory for as many is taken now, so that none is later.
    pub fn new(lan: T, wans: Vec<T>, limit: usize) -> Self {
        let fifo = || Rest::Fifo(VecDeque::with_capacity(limit));
        let port = |tx, data| Port {
            tx,
            high: Queue::new(fifo()),
            data: Queue::new(data),
            blocked: false,
            stalled_since: None,
            counts: Counts::default(),
        };
        let lan = port(lan, Rest::Fair(FairQueue::new(limit, FLOWS)));
        let wans = wans.into_iter().map(|tx| port(tx, fifo()));
        let ports = std::iter::once(lan).chain(wans).collect();
        Self { ports, limit, low: false }
    }

    /// Offers queued frames to all ports; to be called once per round. Returns
    /// how many frames they took.
    pub fn flush(&mut self, now: Time) -> usize {
        let mut all = 0;
        for port in &mut self.ports {
            let before = port.counts.frames;
            port.blocked = false;
            all += port.push();
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
        self.ports[port.index()].add(class, frame, limit);
    }

    /// Queues frames of class Data at a port.
    #[inline]
    pub fn transmit_all<const N: usize>(
        &mut self,
        port: PortId,
        frames: &mut ArrayVec<Handle<T>, N>,
    ) {
        let limit = self.limit();
        let port = &mut self.ports[port.index()];
        frames.drain(..).for_each(|frame| port.add(Class::Data, frame, limit));
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
mod tests {
    use common::heap::HeapFrame;

    use super::*;
    use crate::worker::fake::FakeTx;

    /// A frame of one flow; its last byte is its number.
    fn packet(n: u8) -> Packet<HeapFrame> {
        let mut frame = vec![0; 100];
        frame[99] = n;
        Packet::Owned(frame.into())
    }

    fn egress(limit: usize) -> (Egress<FakeTx>, FakeTx) {
        let lan = FakeTx::default();
        (Egress::new(lan.clone(), vec![FakeTx::default()], limit), lan)
    }

    fn lan(egress: &Egress<FakeTx>, what: PortIo) -> u64 {
        let mut io = IoCounters::default();
        egress.report(&mut io);
        io.port(PortId::LAN, what)
    }

    fn numbers(tx: &FakeTx) -> Vec<u8> {
        tx.taken().iter().map(|f| f[f.len() - 1]).collect()
    }

    #[test]
    fn the_high_class_goes_first_and_each_class_keeps_its_order() {
        let (mut egress, tx) = egress(10);
        for (n, class) in [(1, Class::Data), (2, Class::High), (3, Class::Data), (4, Class::High)] {
            egress.transmit(Side::Lan, class, packet(n));
        }
        assert_eq!(egress.flush(Time::ZERO), 4);
        assert_eq!(numbers(&tx), [2, 4, 1, 3]);
        assert_eq!(lan(&egress, PortIo::TxBytes), 400);
    }

    #[test]
    fn what_a_port_does_not_take_stays_in_order_until_it_does() {
        let (mut egress, tx) = egress(1000);
        tx.accept(70);
        for n in 0..200 {
            egress.transmit(Side::Lan, Class::Data, packet(n));
        }
        egress.flush(Time::ZERO);
        assert_eq!(numbers(&tx), (0..70).collect::<Vec<_>>());
        assert_eq!(lan(&egress, PortIo::Queued), 130);
        assert_eq!(lan(&egress, PortIo::TxBytes), 7000);
        egress.transmit(Side::Lan, Class::Data, packet(200));
        tx.accept(1000);
        egress.flush(Time::ZERO);
        assert_eq!(numbers(&tx), (0..=200).collect::<Vec<_>>());
        assert_eq!(lan(&egress, PortIo::Queued), 0);
        assert_eq!(lan(&egress, PortIo::TxFrames), 201);
        assert_eq!(lan(&egress, PortIo::DropFull), 0);
    }

    /// A frame of a flow, by the last byte of its destination address, and its number.
    fn of_flow(flow: u8, n: u8) -> Packet<HeapFrame> {
        let mut frame = vec![n; 1000];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14..34].copy_from_slice(&[
            0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, flow,
        ]);
        frame[34..38].fill(0);
        Packet::Owned(frame.into())
    }

    /// The position at which `tx` gets a frame of one flow behind 200 frames of another one.
    fn position(egress: &mut Egress<FakeTx>, tx: &FakeTx, side: Side) -> Option<usize> {
        tx.accept(0);
        egress.transmit(side, Class::Data, of_flow(1, 0));
        egress.flush(Time::ZERO);
        for n in 0..200 {
            egress.transmit(side, Class::Data, of_flow(1, n));
        }
        egress.transmit(side, Class::Data, of_flow(2, 255));
        tx.accept(1000);
        egress.flush(Time::ZERO);
        let taken = numbers(tx);
        assert!(taken.iter().filter(|n| **n != 255).skip(1).copied().eq(0..200));
        taken.iter().position(|n| *n == 255)
    }

    #[test]
    fn flows_take_turns_on_the_lan_and_keep_their_order_on_the_wan() {
        let (lan, wan) = (FakeTx::default(), FakeTx::default());
        let mut egress = Egress::new(lan.clone(), vec![wan.clone()], 1000);
        assert_eq!(position(&mut egress, &wan, Side::Wan), Some(201));
        // Behind those that the head holds already, and a turn.
        assert_eq!(position(&mut egress, &lan, Side::Lan), Some(BURST + 4));
    }

    #[test]
    fn a_full_queue_drops_the_newest_and_counts() {
        let (mut egress, tx) = egress(10);
        tx.accept(0);
        for n in 0..100 {
            egress.transmit(Side::Lan, Class::Data, packet(n));
        }
        assert_eq!(lan(&egress, PortIo::Queued), 74, "a burst and the limit");
        assert_eq!(lan(&egress, PortIo::DropFull), 26);
        tx.accept(1000);
        egress.flush(Time::ZERO);
        assert_eq!(numbers(&tx), (0..74).collect::<Vec<_>>());
    }

    #[test]
    fn a_port_that_takes_nothing_for_long_loses_what_waits() {
        let (mut egress, tx) = egress(10);
        tx.accept(0);
        egress.transmit(Side::Lan, Class::High, packet(1));
        egress.transmit(Side::Lan, Class::Data, packet(2));
        egress.flush(Time::ZERO);
        egress.flush(Time::ZERO + STALL / 2);
        assert_eq!(lan(&egress, PortIo::DropStalled), 0);
        // Progress starts the time anew.
        tx.accept(1);
        egress.flush(Time::ZERO + STALL);
        assert_eq!(numbers(&tx), [1]);
        egress.flush(Time::ZERO + STALL + STALL / 2);
        egress.flush(Time::ZERO + STALL * 2);
        assert_eq!(lan(&egress, PortIo::DropStalled), 0);
        egress.flush(Time::ZERO + STALL * 3);
        assert_eq!(lan(&egress, PortIo::DropStalled), 1);
        assert_eq!(egress.queued(), 0);
    }

    #[test]
    fn scarce_mbufs_shorten_the_queue() {
        let (mut egress, tx) = egress(10_000);
        tx.accept(0);
        egress.set_low(true);
        for _ in 0..3000 {
            egress.transmit(Side::Lan, Class::Data, packet(0));
        }
        assert_eq!(egress.queued(), BURST + LOW_LIMIT);
        egress.discard();
        assert_eq!(lan(&egress, PortIo::DropEnd) as usize, BURST + LOW_LIMIT);
        assert_eq!(lan(&egress, PortIo::Queued), 0);
    }
}
