//! The box between a site and a long-haul link, with the queues of its
//! ports.

use common::frame::Side;
use common::metrics::Counters;
use common::time::Time;

use super::egress::{Egress, LAN, WAN};
use super::middlebox::Middlebox;
use crate::frame::SimFrame;
use crate::net::{Departure, Marking, Outbox, Pause, Port};
use crate::results::{Pools, TunnelUse};
use crate::scenario::LanQueue;

/// A gateway.
pub struct Gateway {
    inside: Box<dyn Middlebox>,
    egress: Egress,
    /// The most it held since it was asked last.
    most: Pools,
}

impl Gateway {
    /// A box with a LAN port of `lan_rate` bit/s, and WAN ports of those rates and with those marks, which let
    /// `queue` bytes wait each, the LAN's data in a queue of that kind: a wire has none.
    pub fn new(
        inside: Box<dyn Middlebox>,
        lan_rate: u64,
        wan: Vec<(u64, Marking)>,
        lan_queue: LanQueue,
        queue: u64,
    ) -> Self {
        let lan_queue = if inside.is_wire() { LanQueue::Fifo } else { lan_queue };
        let mut ports = vec![Port::with_queue(lan_rate, lan_queue)];
        ports.extend(wan.iter().map(|(rate, _)| Port::new(*rate)));
        let marking = wan.into_iter().map(|(_, marking)| marking).collect();
        let egress = Egress { ports, marking, limit: queue, drops: 0 };
        Self { inside, egress, most: Pools::default() }
    }

    pub(super) fn receive(&mut self, port: usize, frame: SimFrame, now: Time) {
        match port {
            LAN => self.inside.receive(Side::Lan, frame, now, &mut self.egress),
            _ => self.inside.receive_wan(port - WAN, frame, now, &mut self.egress),
        }
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
        self.egress.ports.iter().map(Port::next).fold(self.inside.next(), Time::min)
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

    /// The counts of the tunnel's end, if it is in here.
    pub fn tunnel(&self) -> TunnelUse {
        self.inside.tunnel()
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
