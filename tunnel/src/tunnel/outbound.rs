//! The way of frames from the LAN to the WAN ports.

use arrayvec::ArrayVec;
use common::frame::{Class, Headroom, Packet};
use common::time::Time;
use common::wire::{Meta, is_mac_control};

use super::ports;
use super::{Dropped, Io, Tunnel};
use crate::encapsulation::{Encapsulation, Outer, Tag};
use crate::flow::{Flow, Order};
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

    /// Frames from the LAN that arrived together.
    pub fn on_lan_burst<I: Io<Frame = F>, const N: usize>(
        &mut self,
        now: Time,
        frames: &mut ArrayVec<F, N>,
        io: &mut I,
    ) {
        let mut others = ArrayVec::new();
        self.on_some_of_lan_burst(now, frames, |meta, _| Some(meta.into()), &mut others, io);
    }

    /// Those frames of a burst from the LAN for which `pick` says which order they have to keep; the others go to `others`.
    #[inline]
    pub fn on_some_of_lan_burst<I: Io<Frame = F>, const N: usize>(
        &mut self,
        now: Time,
        frames: &mut ArrayVec<F, N>,
        mut pick: impl FnMut(Meta, &[u8]) -> Option<Flow>,
        others: &mut ArrayVec<F, N>,
        io: &mut I,
    ) {
        let limit = self.limit(now);
        let Some(fit) = self.config.ports.first().zip(limit).map(|(port, limit)| port.fit(limit))
        else {
            for frame in frames.drain(..) {
                match pick(Meta::of(frame.bytes()), frame.bytes()) {
                    Some(flow) => self.accept(now, limit, flow, frame, io),
                    None => others.push(frame),
                }
            }
            return;
        };
        // All are looked at before the first one is sent, so that the memory in front of them and their flow buckets are
        // fetched side by side.
        let (mut looked, mut is_fit) = (ArrayVec::<(Flow, F), N>::new(), true);
        for frame in frames.drain(..) {
            frame.prefetch_front();
            let bytes = frame.bytes();
            let picked = match Meta::of_plain_roce(bytes) {
                Some(meta) => pick(meta, bytes),
                None => {
                    is_fit &= !is_mac_control(bytes);
                    pick(Meta::of_any(bytes), bytes)
                }
            };
            match picked {
                Some(flow) => {
                    is_fit &= fit.takes(&frame);
                    looked.push((flow, frame));
                }
                None => others.push(frame),
            }
        }
        if !is_fit {
            let each = looked.drain(..);
            return each.for_each(|(flow, frame)| self.accept(now, limit, flow, frame, io));
        }
        looked.iter().for_each(|(flow, _)| self.sender.fetch(flow.order));
        let most = self.sender.in_a_row().min(self.config.sender.cache_max);
        while let Some((flow, _)) = looked.first() {
            match self.choose(now, flow.order, io) {
                Ok(lane) => {
                    let room = io.room(lane.port(self.config.session.ports));
                    let count = room.min(most).clamp(1, looked.len());
                    self.send_all::<I, N>(now, lane, looked.drain(..count), io);
                }
                Err(why) => {
                    self.counts.from_lan += 1;
                    self.counts.drop(why);
                    drop(looked.remove(0));
                }
            }
        }
    }

    /// The lane of the next frame, whose port has room for it. R-TUN-23
    #[inline]
    fn choose<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        order: Order,
        io: &mut I,
    ) -> Result<Lane, Dropped> {
        let (encapsulations, ports) = (&self.config.ports, self.config.session.ports);
        let wait = |lane: Lane| {
            let port = lane.port(ports);
            encapsulations[port.index()].is_ready().then(|| io.wait(port))?
        };
        let chosen = self.sender.choose(now, order, wait);
        if chosen.is_none() {
            // Lanes are measured for a frame that finds no room, too.
            self.due = self.due.min(self.sender.due_of_all());
        }
        chosen.ok_or_else(|| {
            let is_ready = encapsulations.iter().any(Encapsulation::is_ready);
            if is_ready { Dropped::Queue } else { Dropped::NoNextHop }
        })
    }

    /// Numbers and sends frames on a lane whose port has room for all of them, and which it carries.
    // Each way of bursts has one of its own.
    #[inline(always)]
    fn send_all<I: Io<Frame = F>, const N: usize>(
        &mut self,
        now: Time,
        lane: Lane,
        frames: impl ExactSizeIterator<Item = (Flow, F)>,
        io: &mut I,
    ) {
        let count = frames.len();
        self.counts.from_lan += count as u64;
        self.make_room(count, io);
        let (lane, mut wrapped) = (self.sender.usable(lane), ArrayVec::<_, N>::new());
        let port = lane.port(self.config.session.ports);
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
        if self.protection.as_ref().is_some_and(|protection| protection.is_on()) {
            self.send_protected(port, &mut wrapped, io);
        } else {
            io.wan_all(port, &mut wrapped);
        }
        let mut wan = ports::wan_of!(self, io);
        self.sender.free_for(count, &mut wan);
        self.due = self.due.min(self.sender.due_of(lane));
    }

    /// So many frames are to be kept, if there is room for them: if not, all are freed that have arrived.
    #[inline]
    fn make_room<I: Io<Frame = F>>(&mut self, count: usize, io: &mut I) {
        if !self.sender.has_room(&self.config.sender, count) {
            let mut wan = ports::wan_of!(self, io);
            self.sender.free(usize::MAX, &mut wan);
        }
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
        // Whether the frame fits must be known before it has a lane.
        let Some(first) = self.config.ports.first() else {
            return self.counts.drop(Dropped::NoNextHop);
        };
        if let Err(unfit) = first.reserve(&mut frame, limit) {
            let why = Dropped::from(unfit);
            self.counts.too_long += u64::from(why == Dropped::TooLong);
            return self.plain(frame, why, io);
        }
        let lane = match self.choose(now, flow.order, io) {
            Ok(lane) => lane,
            Err(why) => return self.counts.drop(why),
        };
        self.make_room(1, io);
        let mut wan = ports::wan_of!(self, io);
        self.sender.on_frame(&self.config.sender, now, lane, flow, frame, &mut wan);
        self.sender.free_for(1, &mut wan);
        self.due = self.due.min(self.sender.due_of(self.sender.usable(lane)));
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
