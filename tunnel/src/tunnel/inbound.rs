//! The way of frames from the WAN ports to the LAN.

use arrayvec::ArrayVec;
use common::frame::{Frame, Headroom};
use common::time::Time;
use common::wire::is_mac_control;

use super::ports::{self, Inner, Lan};
use super::{Counts, Dropped, Io, Tunnel};
use crate::encapsulation::{Encapsulation, Met, Outer, Tag, Unwrapped};
use crate::number::Port;
use crate::receiver::Run;
use crate::shim::Shim;

impl<F: Headroom> Tunnel<F> {
    /// Frames from a WAN port that arrived together.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn on_wan_burst<I: Io<Frame = F>, const N: usize>(
        &mut self,
        now: Time,
        port: Port,
        frames: &mut ArrayVec<F, N>,
        io: &mut I,
    ) {
        let mut frames = frames.drain(..);
        while let Some(frame) = self.deliver_run(port, &mut frames, io) {
            self.on_wan(now, port, frame, io);
        }
    }

    /// Delivers frames of a burst for which nothing has to be asked: each is the next one of the lane whose frames
    /// arrived last, and nothing is missing there or waits. Returns the first one that is not, if there is one. R-TUN-6
    fn deliver_run<I: Io<Frame = F>>(
        &mut self,
        port: Port,
        frames: &mut impl Iterator<Item = F>,
        io: &mut I,
    ) -> Option<F> {
        let Self { config, end, receiver, ways, counts, .. } = self;
        let Some(mut run) = receiver.begin_run(ways.newest(port), end.own()) else {
            return frames.next();
        };
        // The compiler makes a loop of each.
        let other = match &config.ports[port.index()] {
            Encapsulation::Ethernet { ethertype, .. } => {
                follow(&mut run, &Tag(*ethertype), frames, counts, io)
            }
            Encapsulation::Udp(udp) => follow(&mut run, udp, frames, counts, io),
        };
        if run.count() > 0 {
            end.mark_used();
            ways.arrived(run.lane(), port);
            counts.from_wan += run.count();
            receiver.end_run(&run);
        }
        other
    }

    /// A frame from a WAN port.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn on_wan<I: Io<Frame = F>>(&mut self, now: Time, port: Port, mut frame: F, io: &mut I) {
        self.counts.from_wan += 1;
        let encapsulation = &self.config.ports[port.index()];
        match encapsulation.unwrap(&mut frame) {
            Unwrapped::Frame { shim, met } => self.on_frame(now, port, &shim, met, frame, io),
            Unwrapped::Control(at) => self.on_message(now, port, at, frame, io),
            Unwrapped::Faulty(fault) => self.counts.drop(fault.into()),
            Unwrapped::Foreign => match encapsulation {
                Encapsulation::Ethernet { .. } if is_mac_control(frame.bytes()) => {
                    self.counts.drop(Dropped::NotForward)
                }
                Encapsulation::Ethernet { .. } => {
                    self.counts.plain_to_lan += 1;
                    io.lan(frame);
                }
                Encapsulation::Udp(_) => {
                    self.counts.local += 1;
                    io.local(port, frame);
                }
            },
        }
    }

    fn on_frame<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        port: Port,
        shim: &Shim,
        met: Met,
        frame: F,
        io: &mut I,
    ) {
        if shim.session != self.end.own() {
            return self.on_other_session(shim, frame, io);
        }
        self.end.mark_used();
        self.ways.arrived(shim.lane, port);
        let is_for_lan = met != Met::CongestionUnmarkable && !is_mac_control(frame.bytes());
        let inner = Inner { frame, is_for_lan };
        let wan = ports::wan(io, &mut self.end, &self.config, &self.ways);
        let mut lan = Lan { wan, counts: &mut self.counts };
        let is_marked = met != Met::Nothing;
        self.receiver.on_frame(&self.config.receiver, now, shim, is_marked, inner, &mut lan);
    }

    /// A frame of another session. Where there is none, the first transmission of a frame is what a plain one would be.
    #[cold]
    fn on_other_session<I: Io<Frame = F>>(&mut self, shim: &Shim, frame: F, io: &mut I) {
        let is_open = self.is_ethernet() && self.end.up().is_none() && shim.original.is_none();
        if !is_open {
            return self.counts.drop(Dropped::Session);
        }
        if is_mac_control(frame.bytes()) {
            return self.counts.drop(Dropped::NotForward);
        }
        self.counts.unsequenced += 1;
        io.lan(frame);
    }
}

/// Delivers the frames of a run. Returns the first one that does not belong to it.
#[inline(always)]
fn follow<I: Io<Frame: Headroom>>(
    run: &mut Run,
    outer: &impl Outer,
    frames: &mut impl Iterator<Item = I::Frame>,
    counts: &mut Counts,
    io: &mut I,
) -> Option<I::Frame> {
    for mut frame in frames {
        if !outer.shim(frame.bytes()).is_some_and(|shim| run.takes(shim)) {
            return Some(frame);
        }
        outer.unwrap(&mut frame);
        let is_for_lan = !is_mac_control(frame.bytes());
        Inner { frame, is_for_lan }.deliver(counts, io);
    }
    None
}
