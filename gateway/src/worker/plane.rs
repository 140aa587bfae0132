//! Between the ports: a [`Datapath`], or one for each tunnel of the worker, and the way to the stations with the WAN ports' addresses.

use arrayvec::ArrayVec;
use common::frame::{Class, Headroom, Packet, Pool, Side, Sink};
use common::histogram::Timings;
use common::metrics::Counters;
use common::recorder::Recorder;
use common::time::{Span, Time};
use datapath::{Datapath, Owners, Ports, Tunnelled, Which};
use switch::Switch;
use tunnel::Port;

use super::egress::Egress;
use super::events::Watch;
use super::io::Transmit;
use super::links::Links;
use super::station::{Order, WorkerEnd};
use crate::port::PortId;
use crate::reload::Change;
use crate::telemetry::{IoCounters, Published, TunnelCounters};

/// The way of frames from one port to the other.
pub struct Plane<F: Headroom> {
    /// One, or one for each of the worker's tunnels in ascending order.
    paths: Vec<Datapath<F>>,
    /// The tunnel of a frame, and how many workers share the tunnels, if the worker has several.
    division: Option<(Owners, usize)>,
    /// The stations with the addresses of the WAN ports, with the encapsulation `udp`.
    stations: Vec<WorkerEnd>,
    /// The state of the WAN ports' links.
    links: Links,
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
    fn room(&mut self, port: Port) -> usize {
        self.egress.room(PortId::wan(port))
    }

    #[inline]
    fn wan(&mut self, port: Port, class: Class, packet: Packet<F>) {
        self.egress.transmit_at(PortId::wan(port), class, packet);
    }

    #[inline]
    fn wan_all<const N: usize>(&mut self, port: Port, frames: &mut ArrayVec<F::Shared, N>) {
        self.egress.transmit_all(PortId::wan(port), frames);
    }

    #[inline]
    fn lan_all<const N: usize>(&mut self, frames: &mut ArrayVec<F, N>) {
        // The list below is copied as a whole.
        if frames.is_empty() {
            return;
        }
        let mut shared: ArrayVec<_, N> = frames.drain(..).map(F::share).collect();
        self.egress.transmit_all(PortId::LAN, &mut shared);
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
            paths: vec![Datapath::switch(config)],
            division: None,
            stations: Vec::new(),
            links: Links::default(),
        }
    }

    /// Ends of tunnels of those configurations, each with a switch that repairs the LANs for some packets: one tunnel,
    /// or several of those that so many workers share as `owners` says, in ascending order. `stations` are the ways to
    /// the stations with the ports' addresses, if they have any; `links` says which ports can be used.
    pub fn tunnels(
        ends: impl IntoIterator<Item = (tunnel::Config, Option<(switch::Config, Which)>)>,
        (owners, workers): (Owners, u16),
        stations: Vec<WorkerEnd>,
        links: Links,
    ) -> Self {
        let paths: Vec<_> =
            ends.into_iter().map(|(config, lan)| Datapath::tunnel(config, lan)).collect();
        let division = (paths.len() > 1).then(|| (owners, workers.into()));
        Self { paths, division, stations, links }
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
        let at = (port.side(), port.wan_port());
        let mut out = Out { egress, stations: &mut self.stations, links: &self.links };
        let Some((owners, workers)) = &self.division else {
            if let [path] = &mut *self.paths {
                path.burst(at, frames, now, pool, &mut out);
            }
            return;
        };
        // Each tunnel gets its frames in the order in which they came.
        let place = |frame: &F| owners.part(at, frame.bytes()).unwrap_or(0) / workers;
        let mut rest: ArrayVec<(usize, F), N> =
            frames.drain(..).map(|frame| (place(&frame), frame)).collect();
        while let Some(&(first, _)) = rest.first() {
            for (place, frame) in core::mem::take(&mut rest) {
                if place == first { frames.push(frame) } else { rest.push((place, frame)) }
            }
            self.paths[first].burst(at, frames, now, pool, &mut out);
        }
    }

    /// When [`timers`](Self::timers) has something to do.
    #[inline]
    pub fn next_deadline(&self) -> Time {
        self.paths.iter().map(Datapath::next_deadline).min().unwrap_or(Time::NEVER)
    }

    /// Runs the timers that are due, at most `budget` of a switch.
    pub fn timers<T, P>(&mut self, now: Time, budget: usize, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        let mut out = Out { egress, stations: &mut self.stations, links: &self.links };
        for path in &mut self.paths {
            path.timers(now, budget, pool, &mut out);
        }
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
        for path in &mut self.paths {
            path.housekeeping(now, pool, &mut out);
        }
    }

    /// Does what the operator wants from the next frame on.
    pub fn apply<T, P>(&mut self, change: &Change, now: Time, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        let mut out = Out { egress, stations: &mut self.stations, links: &self.links };
        for path in &mut self.paths {
            match change {
                Change::Protection(flow, is_on) => {
                    path.set_protection(flow, *is_on, now, pool, &mut out);
                }
                Change::Settings(settings) => path.set_settings(settings, now),
                Change::Keys(keys) => path.set_keys(keys),
                Change::RemotePrefixes(prefixes) => path.set_remote_prefixes(prefixes),
            }
        }
    }

    /// Whether the worker keeps up with its frames no longer: if so, no further flow is protected.
    pub fn set_overloaded(&mut self, is_overloaded: bool) {
        self.paths.iter_mut().for_each(|path| path.set_overloaded(is_overloaded));
    }

    /// The worker is to end: held frames are delivered, and the peer learns of it.
    pub fn drain<T, P>(&mut self, now: Time, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        let mut out = Out { egress, stations: &mut self.stations, links: &self.links };
        for path in &mut self.paths {
            path.drain(now, pool, &mut out);
        }
    }

    /// Frames that are held, besides copies.
    pub fn held(&self) -> u64 {
        self.paths.iter().map(Datapath::held).sum()
    }

    /// Whether the peer is still to confirm that it knows of the end.
    pub fn is_leaving(&self) -> bool {
        self.paths.iter().any(Datapath::is_leaving)
    }

    /// The switches: one, or those that repair the LANs beside the tunnels.
    pub fn switches(&self) -> impl Iterator<Item = &Switch<F>> {
        self.paths.iter().filter_map(Datapath::as_switch)
    }

    /// The ways through the tunnels.
    pub fn tunnelled(&self) -> impl Iterator<Item = &Tunnelled<F>> {
        self.paths.iter().filter_map(Datapath::as_tunnel)
    }

    /// The flight recorders of switches and tunnels.
    pub fn recorders(&self) -> impl Iterator<Item = &Recorder> {
        self.paths.iter().flat_map(Datapath::recorders)
    }

    /// Publishes its counters and those of the worker, and finds events.
    pub fn publish(&self, now: Time, io: &IoCounters, published: &Published, events: &mut Watch) {
        let mut switches = Counters::default();
        for switch in self.switches() {
            switches.join(switch.counters());
        }
        // The stations are those of all tunnels: the first one counts for them.
        let mut missed = self.stations.iter().map(WorkerEnd::dropped).sum();
        let mut timings = Timings::default();
        for (path, published) in self.tunnelled().zip(published.tunnels()) {
            let counters = TunnelCounters::of(path, now, core::mem::take(&mut missed));
            published.store(&counters, path.tunnel().lanes(now));
            timings.join(&TunnelCounters::timings(path.tunnel()));
        }
        published.tunnel_timings().store(&timings);
        published.store(&switches, io);
        events.look(now, self.tunnelled().map(Tunnelled::tunnel));
        events.report(now, &self.paths);
    }

    /// Tells the path of links that went up or down.
    fn follow_links<T, P>(&mut self, now: Time, pool: &mut P, egress: &mut Egress<T>)
    where
        T: Transmit<Frame = F>,
        P: Pool<Frame = F>,
    {
        for (port, is_up) in self.links.changes() {
            let mut out = Out { egress, stations: &mut self.stations, links: &self.links };
            for path in &mut self.paths {
                path.set_link(now, port, is_up, pool, &mut out);
            }
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
                    Order::NextHop(mac) => {
                        self.paths.iter_mut().for_each(|path| path.set_next_hop(port, mac));
                    }
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
