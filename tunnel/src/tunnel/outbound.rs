//! The way of frames from the LAN to the WAN ports.

use arrayvec::ArrayVec;
use common::frame::{Class, Headroom, Packet};
use common::time::Time;
use common::wire::is_mac_control;

use super::ports;
use super::{Dropped, Io, Tunnel};
use crate::encapsulation::{Encapsulation, Outer, Tag};
use crate::flow::Flow;
use crate::number::{Lane, Port};
use crate::sender::Transmit;
use crate::shim::Shim;

/// Least bytes of a frame: an Ethernet header.
const FRAME_MIN: usize = 14;

impl<F: Headroom> Tunnel<F> {
    /// A frame from the LAN.
    pub fn on_lan<I: Io<Frame = F>>(&mut self, now: Time, frame: F, io: &mut I) {
        let (limit, flow) = (self.limit(now), Flow::of(frame.bytes()));
        self.accept(now, limit, flow, frame, io);
    }

    /// The same, for a frame that whoever looks at queue pairs on the other side has to have in order: an
    /// ACK overtakes none either. R-TUN-24
    pub fn on_lan_in_order<I: Io<Frame = F>>(&mut self, now: Time, frame: F, io: &mut I) {
        let flow = Flow::of(frame.bytes());
        let flow = Flow { order: flow.order.strict(), ..flow };
        self.accept(now, self.limit(now), flow, frame, io);
    }

    /// Frames from the LAN that arrived together.
    pub fn on_lan_burst<I: Io<Frame = F>, const N: usize>(
        &mut self,
        now: Time,
        frames: &mut ArrayVec<F, N>,
        io: &mut I,
    ) {
        let limit = self.limit(now);
        let straight = limit.zip(self.only_lane(frames.len(), io));
        let fit = self.config.ports[0].fit(limit.unwrap_or(0));
        // All are looked at before the first one is sent, so that the memory in front of them and their flow buckets are
        // fetched side by side.
        let (mut flows, mut is_fit) = (ArrayVec::<Flow, N>::new(), true);
        for frame in &*frames {
            frame.prefetch_front();
            if let Some(plain) = Flow::of_plain_roce(frame.bytes()) {
                flows.push(plain);
            } else {
                flows.push(Flow::of_any(frame.bytes()));
                is_fit &= !is_mac_control(frame.bytes());
            }
            is_fit &= fit.takes(frame);
        }
        flows.iter().for_each(|flow| self.sender.fetch(flow.order));
        let flows = flows.iter().copied();
        // Where there is no choice and room for all, nothing has to be asked for each of them.
        match straight.filter(|_| is_fit) {
            Some((_, lane)) => self.send_all(now, lane, flows, frames, io),
            None => {
                for (flow, frame) in flows.zip(frames.drain(..)) {
                    self.accept(now, limit, flow, frame, io);
                }
            }
        }
    }

    /// The lane, if there is only one and its port has room for so many frames. R-TUN-23
    #[inline]
    fn only_lane<I: Io<Frame = F>>(&self, frames: usize, io: &mut I) -> Option<Lane> {
        let [encapsulation] = &self.config.ports[..] else { return None };
        let is_only = self.config.session.lanes == 1 && encapsulation.is_ready();
        Lane::new(0).filter(|lane| is_only && io.room(lane.port(1)) >= frames)
    }

    /// Numbers and sends frames on a lane whose port has room for all of them, and which it carries.
    #[inline]
    fn send_all<I: Io<Frame = F>, const N: usize>(
        &mut self,
        now: Time,
        lane: Lane,
        flows: impl ExactSizeIterator<Item = Flow>,
        frames: &mut ArrayVec<F, N>,
        io: &mut I,
    ) {
        self.counts.from_lan += frames.len() as u64;
        let port = lane.port(self.config.session.ports);
        let (frames, mut wrapped) = (flows.zip(frames.drain(..)), ArrayVec::<_, N>::new());
        // The compiler makes a loop of each.
        match &self.config.ports[port.index()] {
            Encapsulation::Ethernet { ethertype, .. } => {
                let mut out = Wrap { outer: &Tag(*ethertype), wrapped: &mut wrapped };
                self.sender.on_frames(&self.config.sender, now, lane, frames, &mut out);
            }
            Encapsulation::Udp(outer) => {
                let mut out = Wrap { outer, wrapped: &mut wrapped };
                self.sender.on_frames(&self.config.sender, now, lane, frames, &mut out);
            }
        }
        io.wan_all(port, &mut wrapped);
    }

    /// Numbers and sends a frame, if the path carries as many as `limit` bytes.
    #[inline]
    fn accept<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        limit: Option<u16>,
        flow: Flow,
        mut frame: F,
        io: &mut I,
    ) {
        self.counts.from_lan += 1;
        if frame.bytes().len() < FRAME_MIN || is_mac_control(frame.bytes()) {
            return self.counts.drop(Dropped::NotForward);
        }
        let Some(limit) = limit else { return self.plain(frame, Dropped::NoSession, io) };
        let (order, ports) = (flow.order, self.config.session.ports);
        // Whether the frame fits must be known before it has a lane.
        let Some(first) = self.config.ports.first() else {
            return self.counts.drop(Dropped::NoNextHop);
        };
        if let Err(unfit) = first.reserve(&mut frame, limit) {
            let why = Dropped::from(unfit);
            self.counts.too_long += u64::from(why == Dropped::TooLong);
            return self.plain(frame, why, io);
        }
        // R-TUN-23
        let encapsulations = &self.config.ports;
        let wait = |lane: Lane| {
            let port = lane.port(ports);
            encapsulations[port.index()].is_ready().then(|| io.wait(port))?
        };
        let Some(lane) = self.sender.choose(now, order, wait) else {
            let is_ready = encapsulations.iter().any(Encapsulation::is_ready);
            return self.counts.drop(if is_ready { Dropped::Queue } else { Dropped::NoNextHop });
        };
        let mut wan = ports::wan(io, &mut self.end, &self.config, &self.ways);
        self.sender.on_frame(&self.config.sender, now, lane, flow, frame, &mut wan);
    }

    /// Sends a frame without a shim, if there is such a way. R-TUN-19
    fn plain<I: Io<Frame = F>>(&mut self, frame: F, otherwise: Dropped, io: &mut I) {
        let Some(ethernet) = self.config.ports.first().filter(|_| self.is_ethernet()) else {
            return self.counts.drop(otherwise);
        };
        // It would be taken for one of ours.
        if ethernet.is_reserved(frame.bytes()) {
            return self.counts.drop(Dropped::Reserved);
        }
        self.counts.plain_to_wan += 1;
        let up = Port::all(self.config.session.ports).find(|port| self.links[port.index()]);
        io.wan(up.unwrap_or_default(), Class::Data, Packet::Owned(frame));
    }
}

/// Puts headers of one kind in front of frames.
struct Wrap<'a, O, S, const N: usize> {
    outer: &'a O,
    /// Frames with headers.
    wrapped: &'a mut ArrayVec<S, N>,
}

impl<O: Outer, F: Headroom, const N: usize> Transmit<F> for Wrap<'_, O, F::Shared, N> {
    type Kept = F::Shared;

    #[inline(always)]
    fn send(&mut self, shim: &Shim, traffic_class: u8, mut frame: F) -> Option<F::Shared> {
        frame.grow_front(self.outer.overhead());
        self.outer.wrap(frame.bytes_mut(), shim, traffic_class);
        if shim.is_kept {
            let (sent, kept) = frame.share_twice();
            self.wrapped.push(sent);
            Some(kept)
        } else {
            self.wrapped.push(frame.share());
            None
        }
    }
}
