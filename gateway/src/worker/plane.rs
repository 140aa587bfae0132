//! Between the two ports: a [`Datapath`], and the way to the station with the WAN port's address.

use arrayvec::ArrayVec;
use common::frame::{Class, Headroom, Packet, Pool, Side, Sink};
use common::metrics::Counters;
use common::time::{Span, Time};
use datapath::{Datapath, Ports, Which};
use tunnel::Port;

use super::egress::Egress;
use super::io::Transmit;
use super::station::{Order, WorkerEnd};
use crate::telemetry::TunnelCounters;

/// The way of frames from one port to the other.
pub struct Plane<F: Headroom> {
    path: Datapath<F>,
    /// The station with the WAN port's address, with the encapsulation `udp`.
    station: Option<WorkerEnd>,
    /// Zeros, where there is no switch.
    none: Counters,
}

/// The egress queues, and the station.
struct Out<'a, T: Transmit> {
    egress: &'a mut Egress<T>,
    station: Option<&'a mut WorkerEnd>,
}

impl<F: Headroom, T: Transmit<Frame = F>> Sink for Out<'_, T> {
    type Frame = F;

    #[inline]
    fn transmit(&mut self, side: Side, class: Class, packet: Packet<F>) {
        self.egress.transmit(side, class, packet);
    }
}

impl<F: Headroom, T: Transmit<Frame = F>> Ports for Out<'_, T> {
    #[inline]
    fn wait(&mut self, _: Port) -> Option<Span> {
        self.egress.has_room(Side::Wan).then_some(Span::ZERO)
    }

    fn local(&mut self, _: Port, frame: F) {
        if let Some(station) = &mut self.station {
            station.receive(&frame);
        }
    }
}

impl<F: Headroom> Plane<F> {
    /// A switch of that configuration.
    pub fn switch(config: switch::Config) -> Self {
        Self { path: Datapath::switch(config), station: None, none: Counters::default() }
    }

    /// An end of a tunnel of that configuration, the switch that repairs the LANs for some packets, and
    /// the way to the station with the port's address, if it has them.
    pub fn tunnel(
        config: tunnel::Config,
        lan: Option<(switch::Config, Which)>,
        station: Option<WorkerEnd>,
    ) -> Self {
        Self { path: Datapath::tunnel(config, lan), station, none: Counters::default() }
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
        let mut out = Out { egress, station: self.station.as_mut() };
        self.path.burst((side, Port::default()), frames, now, pool, &mut out);
    }

    /// When [`timers`](Self::timers) has something to do.
    #[inline]
    pub fn next_deadline(&self) -> Time {
        self.path.next_deadline()
    }

    /// Runs the timers that are due, at most `budget` of a switch.
    pub fn timers<T, P>(&mut self, now: Time, budget: usize, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        let mut out = Out { egress, station: self.station.as_mut() };
        self.path.timers(now, budget, pool, &mut out);
    }

    /// Tasks of every few milliseconds.
    pub fn housekeeping<T, P>(&mut self, now: Time, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        self.obey(pool, egress);
        let mut out = Out { egress, station: self.station.as_mut() };
        self.path.housekeeping(now, pool, &mut out);
    }

    /// The worker is to end: held frames are delivered, and the peer learns of it.
    pub fn drain<T, P>(&mut self, now: Time, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        let mut out = Out { egress, station: self.station.as_mut() };
        self.path.drain(now, pool, &mut out);
    }

    /// Frames that are held, besides copies.
    pub fn held(&self) -> u64 {
        self.path.held()
    }

    /// Whether the peer is still to confirm that it knows of the end.
    pub fn is_leaving(&self) -> bool {
        self.path.is_leaving()
    }

    /// The counters of the switch.
    pub fn counters(&self) -> &Counters {
        self.path.as_switch().map_or(&self.none, |switch| switch.counters())
    }

    /// The tunnel, if there is one.
    pub fn as_tunnel(&self) -> Option<&tunnel::Tunnel<F>> {
        self.path.as_tunnel().map(datapath::Tunnelled::tunnel)
    }

    /// The counters of the tunnel.
    pub fn tunnel_counters(&self) -> Option<TunnelCounters> {
        let dropped = self.station.as_ref().map_or(0, WorkerEnd::dropped);
        self.path.as_tunnel().map(|path| TunnelCounters::of(path, dropped))
    }

    /// Does what the station orders.
    fn obey<T, P>(&mut self, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        let Some(station) = &mut self.station else { return };
        while let Some(order) = station.order() {
            match order {
                Order::NextHop(mac) => self.path.set_next_hop(Port::default(), mac),
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
