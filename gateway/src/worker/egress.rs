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
use common::frame::{Class, Frame, Packet, Side, Sink};
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

/// Packets behind a full head.
enum Rest<F: Frame> {
    /// First in, first out.
    Fifo(VecDeque<Packet<F>>),
    /// A turn for each flow.
    Fair(FairQueue<Packet<F>>),
}

impl<F: Frame> Rest<F> {
    fn len(&self) -> usize {
        match self {
            Self::Fifo(queue) => queue.len(),
            Self::Fair(queue) => queue.len(),
        }
    }

    fn pop(&mut self) -> Option<Packet<F>> {
        match self {
            Self::Fifo(queue) => queue.pop_front(),
            Self::Fair(queue) => queue.pop(),
        }
    }

    /// Appends a packet if fewer than `limit` wait. Returns whether it did.
    fn push(&mut self, packet: Packet<F>, limit: usize) -> bool {
        if self.len() >= limit {
            return false;
        }
        match self {
            Self::Fifo(queue) => queue.push_back(packet),
            Self::Fair(queue) => {
                let bytes = packet.bytes();
                let (hash, len) = (flow_hash(bytes), bytes.len() as u32);
                return queue.push(hash, len, packet).is_ok();
            }
        }
        true
    }

    fn clear(&mut self) -> usize {
        let n = self.len();
        match self {
            Self::Fifo(queue) => queue.clear(),
            Self::Fair(queue) => _ = queue.clear(),
        }
        n
    }
}

/// One class of one port.
struct Queue<T: Transmit> {
    /// The front, in the form the port takes it.
    head: ArrayVec<Packet<T::Frame>, BURST>,
    rest: Rest<T::Frame>,
}

impl<T: Transmit> Queue<T> {
    fn len(&self) -> usize {
        self.head.len() + self.rest.len()
    }

    fn refill(&mut self) {
        while !self.head.is_full()
            && let Some(packet) = self.rest.pop()
        {
            self.head.push(packet);
        }
    }

    fn clear(&mut self) -> usize {
        let n = self.head.len();
        self.head.clear();
        n + self.rest.clear()
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

/// One port.
struct Port<T: Transmit> {
    tx: T,
    high: Queue<T>,
    data: Queue<T>,
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
                let bytes =
                    |q: &Queue<T>| q.head.iter().map(|p| p.bytes().len() as u64).sum::<u64>();
                let offered = bytes(queue);
                let taken = self.tx.send(&mut queue.head);
                sent += taken;
                self.counts.frames += taken as u64;
                if !queue.head.is_empty() {
                    self.counts.bytes += offered - bytes(queue);
                    self.blocked = true;
                    return sent;
                }
                self.counts.bytes += offered;
            }
        }
        sent
    }

    fn add(&mut self, class: Class, packet: Packet<T::Frame>, limit: usize) {
        if self.queue(class).head.is_full() && !self.blocked {
            self.push();
        }
        let queue = self.queue(class);
        if queue.rest.len() == 0 && !queue.head.is_full() {
            queue.head.push(packet);
        } else if !queue.rest.push(packet, limit) {
            self.counts.full += 1;
        }
    }

    fn queue(&mut self, class: Class) -> &mut Queue<T> {
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
        let queue = |rest| Queue { head: ArrayVec::new(), rest };
        let fifo = || Rest::Fifo(VecDeque::with_capacity(limit));
        let port = |tx, data| Port {
            tx,
            high: queue(fifo()),
            data: queue(data),
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

    /// Whether a frame of class Data would find room in the queue of a port.
    #[inline]
    pub fn has_room(&self, port: PortId) -> bool {
        self.ports[port.index()].data.rest.len() < self.limit()
    }

    /// How long a frame of class Data waits in the queue of a port, whose link has that speed; `None` if it would find
    /// no room there. Frames count as long as the port's were so far.
    #[inline]
    pub fn wait(&self, port: PortId, mbit_per_s: u32) -> Option<Span> {
        self.has_room(port).then(|| {
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
        self.ports[port.index()].add(class, packet, limit);
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
