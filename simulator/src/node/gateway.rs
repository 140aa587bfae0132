//! The box between a site and a long-haul link, with the queues of its two
//! ports.

use common::frame::{Class, Frame, Packet, Side, Sink};
use common::metrics::Counters;
use common::time::Time;

use super::Outbox;
use super::middlebox::Middlebox;
use crate::frame::SimFrame;
use crate::net::{Departure, Pause, Port, Priority};
use crate::results::Pools;
use crate::scenario::LanQueue;

/// Number of the port towards the hosts.
pub const LAN: usize = 0;
/// Number of the port towards the long-haul link.
pub const WAN: usize = 1;

/// A gateway.
pub struct Gateway {
    inside: Box<dyn Middlebox>,
    egress: Egress,
    /// The most it held since it was asked last.
    most: Pools,
}

/// The ports of a gateway, into which its box puts frames.
pub struct Egress {
    ports: [Port; 2],
    /// Bytes that may wait at each.
    limit: u64,
    drops: u64,
}

impl Gateway {
    /// A box with ports of `rates` bit/s, [`LAN`] and [`WAN`], which let
    /// `queue` bytes wait each, the LAN's data in a queue of that kind: a wire has none.
    pub fn new(
        inside: Box<dyn Middlebox>,
        rates: [u64; 2],
        lan_queue: LanQueue,
        queue: u64,
    ) -> Self {
        let lan_queue = if inside.is_wire() { LanQueue::Fifo } else { lan_queue };
        let ports = [Port::with_queue(rates[LAN], lan_queue), Port::new(rates[WAN])];
        let egress = Egress { ports, limit: queue, drops: 0 };
        Self { inside, egress, most: Pools::default() }
    }

    pub(super) fn receive(&mut self, port: usize, frame: SimFrame, now: Time) {
        let side = if port == LAN { Side::Lan } else { Side::Wan };
        self.inside.receive(side, frame, now, &mut self.egress);
        self.most = self.most.max(self.inside.held());
    }

    pub(super) fn pause(&mut self, port: usize, pause: Pause) {
        self.egress.ports[port].set_stopped(pause.priority, pause.stop);
    }

    pub(super) fn serve(&mut self, now: Time, out: &mut Outbox) {
        if self.inside.next() <= now {
            self.inside.timers(now, &mut self.egress);
        }
        self.most = self.most.max(self.inside.held());
        for (port, egress) in self.egress.ports.iter_mut().enumerate() {
            while let Some((frame, _, _, sent)) = egress.pop(now) {
                out.frames.push(Departure { port, frame, sent });
            }
        }
    }

    pub(super) fn next(&self) -> Time {
        let [lan, wan] = &self.egress.ports;
        self.inside.next().min(lan.next()).min(wan.next())
    }

    /// A box's housekeeping every few milliseconds.
    pub fn housekeeping(&mut self, now: Time) {
        self.inside.housekeeping(now, &mut self.egress);
    }

    /// The most it held at the end of any event since this was asked last.
    pub fn most_held(&mut self) -> Pools {
        let now = self.inside.held();
        std::mem::replace(&mut self.most, now).max(now)
    }

    /// The product's counters, if it is in here.
    pub fn counters(&self) -> Option<&Counters> {
        self.inside.counters()
    }

    /// Checks that of `arrived` frames and those made here `left` have gone on,
    /// and that all others are accounted for, as far as the box keeps books.
    ///
    /// # Panics
    /// If a frame is unaccounted for.
    pub fn check(&self, arrived: u64, left: u64) {
        let Egress { ports, drops, .. } = &self.egress;
        let transmitted = left + drops + ports.iter().map(Port::frames).sum::<u64>();
        self.inside.check(arrived, transmitted);
    }

    /// Frames dropped because a port's queue was full.
    pub fn drops(&self) -> u64 {
        self.egress.drops
    }
}

impl Egress {
    /// Whether `bytes` more may wait at a port.
    pub fn has_room(&self, side: Side, bytes: u64) -> bool {
        let port = &self.ports[if side == Side::Lan { LAN } else { WAN }];
        port.queued(Priority::High) + port.queued(Priority::Data) + bytes <= self.limit
    }
}

impl Sink for Egress {
    type Frame = SimFrame;

    fn transmit(&mut self, side: Side, class: Class, packet: Packet<SimFrame>) {
        let (port, from) = if side == Side::Lan { (LAN, WAN) } else { (WAN, LAN) };
        let priority = match class {
            Class::High => Priority::High,
            Class::Data => Priority::Data,
        };
        let frame = SimFrame::of(packet);
        let port = &mut self.ports[port];
        let waiting = port.queued(Priority::High) + port.queued(Priority::Data);
        if waiting + frame.bytes().len() as u64 > self.limit {
            self.drops += 1;
            return;
        }
        port.push(frame, priority, from);
    }
}
