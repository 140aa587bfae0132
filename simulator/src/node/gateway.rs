//! The box between a site and a long-haul link, with the queues of its two
//! ports.

use common::frame::Side;
use common::metrics::Counters;
use common::time::Time;

use super::egress::{Egress, LAN, WAN};
use super::middlebox::Middlebox;
use crate::frame::SimFrame;
use crate::net::{Departure, Outbox, Pause, Port};
use crate::results::Pools;
use crate::scenario::LanQueue;

/// A gateway.
pub struct Gateway {
    inside: Box<dyn Middlebox>,
    egress: Egress,
    /// The most it held since it was asked last.
    most: Pools,
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
