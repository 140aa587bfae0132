//! The way of frames from the WAN ports to the LAN.

use arrayvec::ArrayVec;
use common::frame::{Frame, Headroom};
use common::recorder::LaneEvent;
use common::time::Time;
use common::wire::{Exceptions, exceptions, is_mac_control};

use super::ports::{self, Inner, Lan, Ready};
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
        let (mut ready, mut lane) = (Ready::new(), self.ways.newest(port));
        // The next one is at the end.
        frames.reverse();
        loop {
            self.take_run(now, port, lane, frames, &mut ready, io);
            let Some(frame) = frames.pop() else { break };
            match self.config.ports[port.index()].lane(frame.bytes()) {
                Some(other) if other != lane => {
                    lane = other;
                    frames.push(frame);
                }
                _ => {
                    self.take(now, port, frame, &mut ready, io);
                    lane = self.ways.newest(port);
                }
            }
        }
        ready.send(io);
    }

    /// Takes frames from the end of a burst for as long as they continue a lane. R-TUN-6
    fn take_run<I: Io<Frame = F>, const N: usize>(
        &mut self,
        now: Time,
        port: Port,
        lane: Lane,
        frames: &mut ArrayVec<F, N>,
        ready: &mut Ready<F>,
        io: &mut I,
    ) {
        let Self { config, end, receiver, ways, counts, recorder, protection, .. } = self;
        // A REPORT leaves where the lane's frames arrive. Sums take frames one by one.
        let is_decoding = protection.as_ref().is_some_and(|it| it.is_decoding(lane));
        if !ways.is_at(lane, port) || is_decoding {
            return;
        }
        let (config, session) = (&*config, end.own());
        let before = counts.from_wan;
        let wan = ports::wan(io, end, config, ways, recorder, protection);
        let mut lan = Lan { wan, counts, ready, together: None };
        // The compiler makes a loop of each.
        match &config.ports[port.index()] {
            Encapsulation::Ethernet { ethertype, .. } => {
                follow(&Tag(*ethertype), now, (lane, session), receiver, frames, &mut lan)
            }
            Encapsulation::Udp(udp) => {
                follow(udp, now, (lane, session), receiver, frames, &mut lan)
            }
        }
        if counts.from_wan > before {
            end.mark_used();
            ways.arrived(lane, port);
            self.due = self.due.min(receiver.due_of(&config.receiver, lane));
        }
    }

    /// A frame from a WAN port.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn on_wan<I: Io<Frame = F>>(&mut self, now: Time, port: Port, frame: F, io: &mut I) {
        self.recorder.begin(now);
        let mut ready = Ready::new();
        self.take(now, port, frame, &mut ready, io);
        ready.send(io);
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
        if self.protection.as_ref().is_some_and(|protection| protection.is_on()) {
            self.add(port, frame.bytes());
        }
        let encapsulation = &self.config.ports[port.index()];
        match encapsulation.unwrap(&mut frame) {
            Unwrapped::Frame { shim, met } => {
                self.on_frame(now, port, (&shim, met), frame, ready, io);
                // A late frame may solve an equation.
                if self.protection.as_ref().is_some_and(|it| it.is_decoding(shim.lane)) {
                    self.take_decoded(now, port, shim.lane, ready, io);
                }
            }
            Unwrapped::Control(at) => self.on_message(now, port, at, frame, ready, io),
            Unwrapped::Repair(shim, at) => self.on_repair(now, port, (&shim, at), frame, ready, io),
            Unwrapped::Faulty(fault) => self.counts.drop(fault.into()),
            Unwrapped::Foreign => match encapsulation {
                Encapsulation::Ethernet { .. } if is_mac_control(frame.bytes()) => {
                    self.counts.drop(Dropped::NotForward)
                }
                Encapsulation::Ethernet { .. } => {
                    self.counts.plain_to_lan += 1;
                    let Exceptions { may_be_notable, .. } = exceptions(frame.bytes());
                    ready.push(frame, may_be_notable, io);
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
        let Exceptions { is_mac_control, may_be_notable } = exceptions(frame.bytes());
        let is_for_lan = met != Met::CongestionUnmarkable && !is_mac_control;
        let inner = Inner { frame, is_for_lan, may_be_notable };
        let wan = ports::wan_of!(self, io);
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
        let Exceptions { is_mac_control, may_be_notable } = exceptions(frame.bytes());
        if is_mac_control {
            return self.counts.drop(Dropped::NotForward);
        }
        self.counts.unsequenced += 1;
        ready.push(frame, may_be_notable, io);
    }
}

/// Takes frames from the end of a burst for as long as they continue a lane.
#[inline(always)]
fn follow<I: Io<Frame: Headroom>, const N: usize>(
    outer: &impl Outer,
    now: Time,
    (lane, session): (Lane, Session),
    receiver: &mut Receiver<Inner<I::Frame>>,
    frames: &mut ArrayVec<I::Frame, N>,
    lan: &mut Lan<'_, '_, I>,
) {
    let Some(mut run) = receiver.begin_run(lane, session) else { return };
    while let Some(frame) = frames.last() {
        let shim = outer.shim(frame.bytes());
        match shim.map_or(Step::Other, |shim| run.step(shim, receiver)) {
            Step::Other => break,
            Step::Deliver => {
                let Some(inner) = frames.pop().map(|frame| unwrap(outer, frame)) else { break };
                lan.deliver(inner);
            }
            Step::Ask(order) => {
                let Some(inner) = frames.pop().map(|frame| unwrap(outer, frame)) else { break };
                let config = &lan.wan.config.receiver;
                let count = receiver.take_next(config, now, (&mut run, order), inner, lan);
                lan.counts.from_wan += count;
            }
        }
    }
    lan.counts.from_wan += receiver.end_run(&run);
}

#[inline(always)]
fn unwrap<F: Headroom>(outer: &impl Outer, mut frame: F) -> Inner<F> {
    outer.unwrap(&mut frame);
    let Exceptions { is_mac_control, may_be_notable } = exceptions(frame.bytes());
    Inner { frame, is_for_lan: !is_mac_control, may_be_notable }
}
