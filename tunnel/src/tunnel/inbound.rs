//! The way of frames from the WAN ports to the LAN.

use arrayvec::ArrayVec;
use common::frame::{Frame, Headroom};
use common::recorder::LaneEvent;
use common::time::Time;
use common::wire::is_mac_control;

use super::ports::{self, Inner, Lan, Ready, to_lan};
use super::{Dropped, Io, Tunnel};
use crate::encapsulation::{Encapsulation, MACS_LEN, Met, Outer, Tag, Unwrapped};
use crate::number::{Lane, Port, Session};
use crate::receiver::{Deliver, Receiver, Step};
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
        self.recorder.begin(now);
        let (mut frames, mut ready) = (frames.drain(..), Ready::new());
        let (mut first, mut lane) = (None, self.ways.newest(port));
        loop {
            let mut run = first.take().into_iter().chain(&mut frames);
            let Some(frame) = self.take_run(now, port, lane, &mut run, &mut ready, io) else {
                break;
            };
            match self.config.ports[port.index()].lane(frame.bytes()) {
                Some(other) if other != lane => (first, lane) = (Some(frame), other),
                _ => {
                    self.take(now, port, frame, &mut ready, io);
                    lane = self.ways.newest(port);
                }
            }
        }
        io.lan_all(&mut ready);
    }

    /// Takes the frames of a burst that continue a lane. Returns the first one that does not, if there is one. R-TUN-6
    fn take_run<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        port: Port,
        lane: Lane,
        frames: &mut impl Iterator<Item = F>,
        ready: &mut Ready<F>,
        io: &mut I,
    ) -> Option<F> {
        let Self { config, end, receiver, ways, counts, recorder, .. } = self;
        // A REPORT leaves where the lane's frames arrive.
        if !ways.is_at(lane, port) {
            return frames.next();
        }
        let (config, session) = (&*config, end.own());
        let before = counts.from_wan;
        let wan = ports::wan(io, end, config, ways, recorder);
        let mut lan = Lan { wan, counts, ready, together: None };
        // The compiler makes a loop of each.
        let other = match &config.ports[port.index()] {
            Encapsulation::Ethernet { ethertype, .. } => {
                follow(&Tag(*ethertype), now, (lane, session), receiver, frames, &mut lan)
            }
            Encapsulation::Udp(udp) => {
                follow(udp, now, (lane, session), receiver, frames, &mut lan)
            }
        };
        if counts.from_wan > before {
            end.mark_used();
            ways.arrived(lane, port);
            self.due = self.due.min(receiver.due_of(&config.receiver, lane));
        }
        other
    }

    /// A frame from a WAN port.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn on_wan<I: Io<Frame = F>>(&mut self, now: Time, port: Port, frame: F, io: &mut I) {
        self.recorder.begin(now);
        let mut ready = Ready::new();
        self.take(now, port, frame, &mut ready, io);
        io.lan_all(&mut ready);
    }

    // Beside the loop over a run, whose registers it would take.
    #[inline(never)]
    fn take<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        port: Port,
        mut frame: F,
        ready: &mut Ready<F>,
        io: &mut I,
    ) {
        self.counts.from_wan += 1;
        let encapsulation = &self.config.ports[port.index()];
        match encapsulation.unwrap(&mut frame) {
            Unwrapped::Frame { shim, met } => {
                self.on_frame(now, port, (&shim, met), frame, ready, io);
            }
            Unwrapped::Control(at) => self.on_message(now, port, at, frame, ready, io),
            Unwrapped::Faulty(fault) => self.counts.drop(fault.into()),
            Unwrapped::Foreign => match encapsulation {
                Encapsulation::Ethernet { .. } if is_mac_control(frame.bytes()) => {
                    self.counts.drop(Dropped::NotForward)
                }
                Encapsulation::Ethernet { .. } => {
                    self.counts.plain_to_lan += 1;
                    to_lan(frame, ready, io);
                }
                Encapsulation::Udp(_) => {
                    if encapsulation.is_too_big(frame.bytes()) {
                        self.end.sizes.doubt(now, port, None);
                        self.due = self.due.min(self.end.sizes.due());
                    }
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
        (shim, met): (&Shim, Met),
        frame: F,
        ready: &mut Ready<F>,
        io: &mut I,
    ) {
        if shim.session != self.end.own() {
            return self.on_other_session(now, shim, frame, ready, io);
        }
        self.end.mark_used();
        self.ways.arrived(shim.lane, port);
        if shim.original.is_some() {
            ports::note(
                &mut self.recorder,
                LaneEvent::ResentArrived,
                shim,
                frame.bytes().get(MACS_LEN..),
            );
        }
        let is_for_lan = met != Met::CongestionUnmarkable && !is_mac_control(frame.bytes());
        let inner = Inner { frame, is_for_lan };
        let wan = ports::wan(io, &mut self.end, &self.config, &self.ways, &mut self.recorder);
        let mut lan = Lan { wan, counts: &mut self.counts, ready, together: None };
        let is_marked = met != Met::Nothing;
        self.receiver.on_frame(&self.config.receiver, now, shim, is_marked, inner, &mut lan);
        self.due = self.due.min(self.receiver.due_of(&self.config.receiver, shim.lane));
    }

    /// A frame of another session. Where there is none, the first transmission of a frame is what a plain one would be; so it is
    /// where one has just begun, of which no frame has come: HELLOs overtake frames in the queue of the peer's port. R-TUN-19
    #[cold]
    fn on_other_session<I: Io<Frame = F>>(
        &mut self,
        now: Time,
        shim: &Shim,
        frame: F,
        ready: &mut Ready<F>,
        io: &mut I,
    ) {
        let is_new = self.end.up().is_none() || !self.end.is_used() && self.is_early(now);
        let is_open = self.is_ethernet() && is_new && shim.original.is_none();
        if !is_open {
            return self.counts.drop(Dropped::Session);
        }
        if is_mac_control(frame.bytes()) {
            return self.counts.drop(Dropped::NotForward);
        }
        self.counts.unsequenced += 1;
        to_lan(frame, ready, io);
    }
}

/// Takes the frames of a burst that continue a lane. Returns the first one that does not.
#[inline(always)]
fn follow<I: Io<Frame: Headroom>>(
    outer: &impl Outer,
    now: Time,
    (lane, session): (Lane, Session),
    receiver: &mut Receiver<Inner<I::Frame>>,
    frames: &mut impl Iterator<Item = I::Frame>,
    lan: &mut Lan<'_, '_, I>,
) -> Option<I::Frame> {
    let Some(mut run) = receiver.begin_run(lane, session) else { return frames.next() };
    let mut other = None;
    for mut frame in frames {
        let shim = outer.shim(frame.bytes());
        let step = shim.map_or(Step::Other, |shim| run.step(shim, receiver));
        if let Step::Other = step {
            other = Some(frame);
            break;
        }
        outer.unwrap(&mut frame);
        let is_for_lan = !is_mac_control(frame.bytes());
        if is_for_lan && matches!(step, Step::Deliver) {
            to_lan(frame, lan.ready, lan.wan.io);
            continue;
        }
        let inner = Inner { frame, is_for_lan };
        let Step::Ask(order) = step else {
            lan.deliver(inner);
            continue;
        };
        let config = &lan.wan.config.receiver;
        let count = receiver.take_next(config, now, (&mut run, order), inner, lan);
        lan.counts.from_wan += count;
    }
    lan.counts.from_wan += receiver.end_run(&run);
    other
}
