//! Between the two ports: the switch, or the tunnel.

use arrayvec::ArrayVec;
use common::frame::{Class, Headroom, Packet, Pool, Side, Sink};
use common::metrics::Counters;
use common::time::Time;
use switch::Switch;
use tunnel::{Io, Tunnel};

use super::egress::Egress;
use super::io::Transmit;
use super::station::{Order, WorkerEnd};
use crate::telemetry::TunnelCounters;

/// The way of frames from one port to the other.
pub enum Plane<F: Headroom> {
    /// Packets are recovered per queue pair.
    Switch(Box<Switch<F>>),
    /// Frames are numbered on a lane.
    Tunnel(Box<TunnelEnd<F>>),
}

/// The tunnel, and the state of a worker that leaves it.
pub struct TunnelEnd<F: Headroom> {
    tunnel: Tunnel<F>,
    /// The box has said BYE: no HELLO follows.
    has_left: bool,
    /// Those of the switch, which no frame enters.
    none: Counters,
    /// The station with the WAN port's address, with the encapsulation `udp`.
    station: Option<WorkerEnd>,
}

/// The ports and the pool, as the tunnel uses them.
struct Ports<'a, T: Transmit, P> {
    egress: &'a mut Egress<T>,
    pool: &'a mut P,
    station: Option<&'a mut WorkerEnd>,
}

impl<F, T, P> Io for Ports<'_, T, P>
where
    F: Headroom,
    T: Transmit<Frame = F>,
    P: Pool<Frame = F>,
{
    type Frame = F;

    #[inline]
    fn admits(&mut self) -> bool {
        self.egress.has_room(Side::Wan)
    }

    #[inline]
    fn wan(&mut self, class: Class, packet: Packet<F>) {
        self.egress.transmit(Side::Wan, class, packet);
    }

    #[inline]
    fn lan(&mut self, frame: F) {
        self.egress.transmit(Side::Lan, Class::Data, Packet::Owned(frame));
    }

    fn local(&mut self, frame: F) {
        if let Some(station) = &mut self.station {
            station.receive(&frame);
        }
    }

    fn alloc(&mut self, len: usize) -> Option<F> {
        self.pool.alloc(len)
    }
}

impl<F: Headroom> Plane<F> {
    /// A switch of that configuration.
    pub fn switch(config: switch::Config) -> Self {
        Self::Switch(Box::new(Switch::new(config)))
    }

    /// An end of a tunnel of that configuration, and the way to the station with the port's address, if it
    /// has one.
    pub fn tunnel(config: tunnel::Config, station: Option<WorkerEnd>) -> Self {
        let (tunnel, none) = (Tunnel::new(config), Counters::default());
        Self::Tunnel(Box::new(TunnelEnd { tunnel, has_left: false, none, station }))
    }

    /// Takes the frames that arrived at a port.
    #[inline]
    pub fn burst<const N: usize, T, P>(
        &mut self,
        side: Side,
        frames: &mut ArrayVec<F, N>,
        now: Time,
        pool: &mut P,
        egress: &mut Egress<T>,
    ) where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        match self {
            Self::Switch(switch) => switch.burst(side, frames, now, pool, egress),
            Self::Tunnel(end) => {
                let station = end.station.as_mut();
                let mut ports = Ports { egress, pool, station };
                for frame in frames.drain(..) {
                    match side {
                        Side::Lan => end.tunnel.on_lan(now, frame, &mut ports),
                        Side::Wan => end.tunnel.on_wan(now, frame, &mut ports),
                    }
                }
            }
        }
    }

    /// When [`timers`](Self::timers) has something to do.
    #[inline]
    pub fn next_deadline(&self) -> Time {
        match self {
            Self::Switch(switch) => switch.next_deadline(),
            Self::Tunnel(end) if end.has_left => Time::NEVER,
            Self::Tunnel(end) => end.tunnel.deadline(),
        }
    }

    /// Runs the timers that are due, at most `budget` of them.
    pub fn timers<T, P>(&mut self, now: Time, budget: usize, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        match self {
            Self::Switch(switch) => switch.timers(now, budget, pool, egress),
            Self::Tunnel(end) => {
                let station = end.station.as_mut();
                end.tunnel.on_timer(now, &mut Ports { egress, pool, station });
            }
        }
    }

    /// Tasks of every few milliseconds.
    pub fn housekeeping<T, P>(&mut self, now: Time, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        match self {
            Self::Switch(switch) => switch.housekeeping(now, pool, egress),
            Self::Tunnel(end) => end.obey(pool, egress),
        }
    }

    /// The worker is to end: held frames are delivered, and the peer learns of it.
    pub fn drain<T, P>(&mut self, now: Time, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        match self {
            Self::Switch(switch) => switch.drain(now, pool, egress),
            Self::Tunnel(end) => {
                let station = end.station.as_mut();
                end.tunnel.close(now, &mut Ports { egress, pool, station });
                end.has_left = true;
            }
        }
    }

    /// Frames that are held, besides copies.
    pub fn held(&self) -> u64 {
        match self {
            Self::Switch(switch) => switch.held(),
            Self::Tunnel(end) => end.tunnel.waiting() as u64,
        }
    }

    /// Whether the peer is still to confirm that it knows of the end.
    pub fn is_leaving(&self) -> bool {
        match self {
            Self::Switch(switch) => switch.is_leaving(),
            Self::Tunnel(_) => false,
        }
    }

    /// The counters of the switch.
    pub fn counters(&self) -> &Counters {
        match self {
            Self::Switch(switch) => switch.counters(),
            Self::Tunnel(end) => &end.none,
        }
    }

    /// Those of the tunnel.
    pub fn tunnel_counters(&self) -> Option<TunnelCounters> {
        match self {
            Self::Switch(_) => None,
            Self::Tunnel(end) => {
                let dropped = end.station.as_ref().map_or(0, WorkerEnd::dropped);
                Some(TunnelCounters::of(&end.tunnel, dropped))
            }
        }
    }
}

impl<F: Headroom> TunnelEnd<F> {
    /// Does what the station orders.
    fn obey<T, P>(&mut self, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        let Some(station) = &mut self.station else { return };
        while let Some(order) = station.order() {
            match order {
                Order::NextHop(mac) => self.tunnel.set_next_hop(mac),
                // Without memory the frame is lost, as on any link.
                Order::Send(short) => {
                    let Some(mut frame) = pool.alloc(short.len()) else { continue };
                    frame.bytes_mut().copy_from_slice(&short);
                    egress.transmit(Side::Wan, Class::Data, Packet::Owned(frame));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
