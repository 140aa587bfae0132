//! Between the two ports: a [`Datapath`], and the way to the station with the WAN port's address.

use arrayvec::ArrayVec;
use common::frame::{Class, Headroom, Packet, Pool, Side, Sink};
use common::metrics::Counters;
use common::time::{Span, Time};
use datapath::{Datapath, Ports, Which};
use tunnel::{Port, Setting};

use super::egress::Egress;
use super::io::Transmit;
use super::links::Links;
use super::station::{Order, WorkerEnd};
use crate::port::PortId;
use crate::telemetry::TunnelCounters;

/// The way of frames from one port to the other.
pub struct Plane<F: Headroom> {
    path: Datapath<F>,
    /// The stations with the addresses of the WAN ports, with the encapsulation `udp`.
    stations: Vec<WorkerEnd>,
    /// The state of the WAN ports' links.
    links: Links,
    /// Zeros, where there is no switch.
    none: Counters,
}

/// The egress queues, and the station.
struct Out<'a, T: Transmit> {
    egress: &'a mut Egress<T>,
    stations: &'a mut [WorkerEnd],
    links: &'a Links,
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
    fn wait(&mut self, port: Port) -> Option<Span> {
        self.egress.wait(PortId::wan(port), self.links.speed(port))
    }

    #[inline]
    fn wan(&mut self, port: Port, class: Class, packet: Packet<F>) {
        self.egress.transmit_at(PortId::wan(port), class, packet);
    }

    fn local(&mut self, port: Port, frame: F) {
        if let Some(station) = self.stations.get_mut(usize::from(port.get())) {
            station.receive(&frame);
        }
    }
}

impl<F: Headroom> Plane<F> {
    /// A switch of that configuration.
    pub fn switch(config: switch::Config) -> Self {
        Self {
            path: Datapath::switch(config),
            stations: Vec::new(),
            links: Links::default(),
            none: Counters::default(),
        }
    }

    /// An end of a tunnel of that configuration, the switch that repairs the LANs for some packets, and
    /// the ways to the stations with the ports' addresses, if they have any. `links` says which ports can be used.
    pub fn tunnel(
        config: tunnel::Config,
        lan: Option<(switch::Config, Which)>,
        stations: Vec<WorkerEnd>,
        links: Links,
    ) -> Self {
        Self { path: Datapath::tunnel(config, lan), stations, links, none: Counters::default() }
    }

    /// Takes the frames that arrived at a port.
    #[inline]
    pub fn burst<const N: usize, T, P>(
        &mut self,
        port: PortId,
        frames: &mut ArrayVec<F, N>,
        now: Time,
        pool: &mut P,
        egress: &mut Egress<T>,
    ) where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        let mut out = Out { egress, stations: &mut self.stations, links: &self.links };
        self.path.burst((port.side(), port.wan_port()), frames, now, pool, &mut out);
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
        let mut out = Out { egress, stations: &mut self.stations, links: &self.links };
        self.path.timers(now, budget, pool, &mut out);
    }

    /// Tasks of every few milliseconds.
    pub fn housekeeping<T, P>(&mut self, now: Time, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        self.obey(pool, egress);
        self.follow_links(now, pool, egress);
        let mut out = Out { egress, stations: &mut self.stations, links: &self.links };
        self.path.housekeeping(now, pool, &mut out);
    }

    /// Works by another setting of the tunnel from the next frame on.
    pub fn set(&mut self, setting: Setting) {
        self.path.set(setting);
    }

    /// The worker is to end: held frames are delivered, and the peer learns of it.
    pub fn drain<T, P>(&mut self, now: Time, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        let mut out = Out { egress, stations: &mut self.stations, links: &self.links };
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
        let dropped = self.stations.iter().map(WorkerEnd::dropped).sum();
        self.path.as_tunnel().map(|path| TunnelCounters::of(path, dropped))
    }

    /// Tells the path of links that went up or down.
    fn follow_links<T, P>(&mut self, now: Time, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        for (port, is_up) in self.links.changes() {
            let mut out = Out { egress, stations: &mut self.stations, links: &self.links };
            self.path.set_link(now, port, is_up, pool, &mut out);
        }
    }

    /// Sends the stations' frames, and sets the next hops that they have found.
    fn obey<T, P>(&mut self, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        for (port, station) in Port::all(Port::COUNT_MAX).zip(&mut self.stations) {
            while let Some(order) = station.order() {
                match order {
                    Order::NextHop(mac) => self.path.set_next_hop(port, mac),
                    // Without memory the frame is lost, as on any link.
                    Order::Send(short) => {
                        let Some(mut frame) = pool.alloc(short.len()) else { continue };
                        frame.bytes_mut().copy_from_slice(&short);
                        egress.transmit_at(PortId::wan(port), Class::Data, Packet::Owned(frame));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
