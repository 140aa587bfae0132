//! Egress: the queues of the two ports.
//!
//! Per port one queue for each [`Class`], the high one first. Frames that a port
//! refuses stay queued, in order, and are offered again in the
//! next round: a burst of releases from a reordering pool may be thousands of
//! frames, far more than a port's ring. The queues are bounded twice: a frame
//! that finds its queue full is dropped and counted, and so is all that waits
//! for a port that takes nothing for [`STALL`], since frames must not arrive
//! in another incarnation of their queue pair.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use common::frame::{Class, Packet, Side, Sink};
use common::time::{Span, Time};

use super::io::Transmit;
use crate::config::BACKLOG;
use crate::telemetry::{IoCounters, PortIo};

/// Time without progress after which a port's queues are emptied.
pub const STALL: Span = Span::from_millis(100);

/// Frames handed to a port at once.
const BURST: usize = 64;

/// Frames that may wait while mbufs are scarce.
const LOW_LIMIT: usize = BACKLOG as usize;

/// One class of one port.
struct Queue<T: Transmit> {
    /// The front, in the form the port takes it.
    head: ArrayVec<Packet<T::Frame>, BURST>,
    /// Packets behind a full head.
    rest: VecDeque<Packet<T::Frame>>,
}

impl<T: Transmit> Queue<T> {
    fn len(&self) -> usize {
        self.head.len() + self.rest.len()
    }

    fn refill(&mut self) {
        let n = self.head.remaining_capacity().min(self.rest.len());
        self.head.extend(self.rest.drain(..n));
    }

    fn clear(&mut self) -> usize {
        let n = self.len();
        self.head.clear();
        self.rest.clear();
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
        if queue.rest.is_empty() && !queue.head.is_full() {
            queue.head.push(packet);
        } else if queue.rest.len() < limit {
            queue.rest.push_back(packet);
        } else {
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

/// The egress queues of both ports.
pub struct Egress<T: Transmit> {
    ports: [Port<T>; 2],
    limit: usize,
    low: bool,
}

impl<T: Transmit> Egress<T> {
    /// Queues in front of the LAN and the WAN port, of at most `limit` frames
    /// per class. Memory for as many is taken now, so that none is later.
    pub fn new(lan: T, wan: T, limit: usize) -> Self {
        let queue = || Queue { head: ArrayVec::new(), rest: VecDeque::with_capacity(limit) };
        let port = |tx| Port {
            tx,
            high: queue(),
            data: queue(),
            blocked: false,
            stalled_since: None,
            counts: Counts::default(),
        };
        let ports = [port(lan), port(wan)];
        Self { ports, limit, low: false }
    }

    /// Offers queued frames to both ports; to be called once per round. Returns
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
        for side in [Side::Lan, Side::Wan] {
            let port = &self.ports[side.index()];
            for (what, value) in [
                (PortIo::TxFrames, port.counts.frames),
                (PortIo::TxBytes, port.counts.bytes),
                (PortIo::DropFull, port.counts.full),
                (PortIo::DropStalled, port.counts.stalled),
                (PortIo::DropEnd, port.counts.end),
                (PortIo::Queued, port.queued() as u64),
            ] {
                io.set(side, what, value);
            }
        }
    }
}

impl<T: Transmit> Sink for Egress<T> {
    type Frame = T::Frame;

    #[inline]
    fn transmit(&mut self, side: Side, class: Class, packet: Packet<T::Frame>) {
        let limit = if self.low { self.limit.min(LOW_LIMIT) } else { self.limit };
        self.ports[side.index()].add(class, packet, limit);
    }
}

#[cfg(test)]
mod tests {
    use common::heap::HeapFrame;

    use super::*;
    use crate::worker::fake::FakeTx;

    fn packet(n: u8) -> Packet<HeapFrame> {
        Packet::Owned(vec![n; 100].into())
    }

    fn egress(limit: usize) -> (Egress<FakeTx>, FakeTx) {
        let lan = FakeTx::default();
        (Egress::new(lan.clone(), FakeTx::default(), limit), lan)
    }

    fn lan(egress: &Egress<FakeTx>, what: PortIo) -> u64 {
        let mut io = IoCounters::default();
        egress.report(&mut io);
        io.port(Side::Lan, what)
    }

    fn first_bytes(tx: &FakeTx) -> Vec<u8> {
        tx.taken().iter().map(|f| f[0]).collect()
    }

    #[test]
    fn the_high_class_goes_first_and_each_class_keeps_its_order() {
        let (mut egress, tx) = egress(10);
        for (n, class) in [(1, Class::Data), (2, Class::High), (3, Class::Data), (4, Class::High)] {
            egress.transmit(Side::Lan, class, packet(n));
        }
        assert_eq!(egress.flush(Time::ZERO), 4);
        assert_eq!(first_bytes(&tx), [2, 4, 1, 3]);
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
        assert_eq!(first_bytes(&tx), (0..70).collect::<Vec<_>>());
        assert_eq!(lan(&egress, PortIo::Queued), 130);
        assert_eq!(lan(&egress, PortIo::TxBytes), 7000);
        egress.transmit(Side::Lan, Class::Data, packet(200));
        tx.accept(1000);
        egress.flush(Time::ZERO);
        assert_eq!(first_bytes(&tx), (0..=200).collect::<Vec<_>>());
        assert_eq!(lan(&egress, PortIo::Queued), 0);
        assert_eq!(lan(&egress, PortIo::TxFrames), 201);
        assert_eq!(lan(&egress, PortIo::DropFull), 0);
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
        assert_eq!(first_bytes(&tx), (0..74).collect::<Vec<_>>());
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
        assert_eq!(first_bytes(&tx), [1]);
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
