//! The box between a site and a long-haul link: the product's switch, a peer's,
//! or nothing but a wire, with the queues of its two ports.

use arrayvec::ArrayVec;
use common::frame::{Class, Frame, Packet, Side, Sink};
use common::metrics::Counters;
use common::time::Time;

use super::Outbox;
use crate::frame::{SimFrame, SimPool};
use crate::net::{Departure, Pause, Port, Priority};
use crate::peers::paper::Paper;
use crate::peers::slr::Slr;
use crate::results::Pools;

/// Number of the port towards the hosts.
pub const LAN: usize = 0;
/// Number of the port towards the long-haul link.
pub const WAN: usize = 1;

/// Timers run at a time: more than are ever due.
const TIMERS: usize = 1 << 20;

/// The kind of box.
pub enum Inside {
    /// Nothing.
    Wire,
    /// The product.
    Product(Box<switch::Switch<SimFrame>>),
    /// LR2 as published.
    Paper(Box<Paper>),
    /// Feedback near the sender.
    Slr(Box<Slr>),
}

/// A gateway.
pub struct Gateway {
    inside: Inside,
    egress: Egress,
    /// The most it held since it was asked last.
    most: Pools,
}

/// Its ports.
struct Egress {
    ports: [Port; 2],
    /// Bytes that may wait at each.
    limit: u64,
    drops: u64,
}

impl Gateway {
    /// A box with ports of `rates` bit/s, [`LAN`] and [`WAN`], which let
    /// `queue` bytes wait each.
    pub fn new(inside: Inside, rates: [u64; 2], queue: u64) -> Self {
        let egress = Egress { ports: rates.map(Port::new), limit: queue, drops: 0 };
        Self { inside, egress, most: Pools::default() }
    }

    pub(super) fn receive(&mut self, port: usize, frame: SimFrame, now: Time) {
        let side = if port == LAN { Side::Lan } else { Side::Wan };
        match &mut self.inside {
            Inside::Wire => {
                self.egress.transmit(side.other(), Class::Data, Packet::Owned(frame));
            }
            Inside::Product(switch) => {
                let mut burst = ArrayVec::<SimFrame, 1>::new();
                burst.push(frame);
                switch.burst(side, &mut burst, now, &mut SimPool, &mut self.egress);
            }
            Inside::Paper(paper) => paper.receive(side, frame, now, &mut self.egress),
            Inside::Slr(slr) => slr.receive(side, frame, &mut self.egress),
        }
        self.most = self.most.max(self.holds());
    }

    pub(super) fn pause(&mut self, port: usize, pause: Pause) {
        self.egress.ports[port].set_stopped(pause.priority, pause.stop);
    }

    pub(super) fn serve(&mut self, now: Time, out: &mut Outbox) {
        match &mut self.inside {
            Inside::Product(switch) if switch.next_deadline() <= now => {
                switch.timers(now, TIMERS, &mut SimPool, &mut self.egress);
            }
            Inside::Paper(paper) => paper.timers(now, &mut self.egress),
            Inside::Product(_) | Inside::Slr(_) | Inside::Wire => {}
        }
        self.most = self.most.max(self.holds());
        for (port, egress) in self.egress.ports.iter_mut().enumerate() {
            while let Some((frame, _, _, sent)) = egress.pop(now) {
                out.frames.push(Departure { port, frame, sent });
            }
        }
    }

    pub(super) fn next(&self) -> Time {
        let inside = match &self.inside {
            Inside::Wire | Inside::Slr(_) => Time::NEVER,
            Inside::Product(switch) => switch.next_deadline(),
            Inside::Paper(paper) => paper.next(),
        };
        let [lan, wan] = &self.egress.ports;
        inside.min(lan.next()).min(wan.next())
    }

    /// Bytes that it holds now.
    fn holds(&self) -> Pools {
        match &self.inside {
            Inside::Wire | Inside::Slr(_) => Pools::default(),
            Inside::Paper(paper) => {
                let (reorder, backup) = paper.held();
                Pools { reorder_bytes: reorder, backup_bytes: backup, cache_bytes: 0 }
            }
            Inside::Product(switch) => {
                let switch::HeldBytes { reorder, backup, cache } = switch.held_bytes();
                Pools { reorder_bytes: reorder, backup_bytes: backup, cache_bytes: cache }
            }
        }
    }

    /// A box's housekeeping every few milliseconds.
    pub fn housekeeping(&mut self, now: Time) {
        if let Inside::Product(switch) = &mut self.inside {
            switch.housekeeping(now, &mut SimPool, &mut self.egress);
        }
    }

    /// The most it held at the end of any event since this was asked last.
    pub fn most_held(&mut self) -> Pools {
        let now = self.holds();
        std::mem::replace(&mut self.most, now).max(now)
    }

    /// The product's counters, if it is in here.
    pub fn counters(&self) -> Option<&Counters> {
        match &self.inside {
            Inside::Product(switch) => Some(switch.counters()),
            Inside::Wire | Inside::Paper(_) | Inside::Slr(_) => None,
        }
    }

    /// Checks that of `arrived` frames and those made here `left` have gone on,
    /// and that all others are accounted for. The peers' models keep no such books.
    ///
    /// # Panics
    /// If a frame is unaccounted for.
    pub fn check(&self, arrived: u64, left: u64) {
        let Egress { ports, drops, .. } = &self.egress;
        let transmitted = left + drops + ports.iter().map(Port::frames).sum::<u64>();
        match &self.inside {
            Inside::Wire => assert_eq!(arrived, transmitted, "a wire's books"),
            Inside::Product(switch) => {
                let counters = switch.counters();
                let family = |name| counters.family(name);
                assert_eq!(family("lr2_received_frames_total"), arrived, "what a gateway received");
                assert_eq!(family("lr2_transmitted_frames_total"), transmitted, "what it sent");
                assert_eq!(counters.entered(), counters.left() + switch.held(), "its own books");
            }
            Inside::Paper(_) | Inside::Slr(_) => {}
        }
    }

    /// Frames dropped because a port's queue was full.
    pub fn drops(&self) -> u64 {
        self.egress.drops
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
