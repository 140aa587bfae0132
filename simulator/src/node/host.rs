//! A host: its RNIC and its connection manager at the end of a cable.

use common::frame::Frame;
use common::time::Time;
use link::{Line, wire_bytes};
use rnic::{Completion, PostError, QpConfig, QpError, QpId, WorkRequest};

use super::cm::Agent;
use super::rnic::Rnic;
use crate::frame::SimFrame;
use crate::net::{Departure, Outbox, Pause, Priority};
use crate::results::HostUse;

/// A host with one port.
pub struct Host {
    rnic: Box<dyn Rnic>,
    /// Who answers at QP 1.
    pub cm: Agent,
    line: Line,
    paused: bool,
}

impl Host {
    /// A host on a cable of `rate` bit/s, which the NIC keeps to as well.
    pub fn new(rnic: Box<dyn Rnic>, cm: Agent, rate: u64) -> Self {
        Self { rnic, cm, line: Line::new(Some(rate), u64::MAX), paused: false }
    }

    /// Sets up a queue pair.
    ///
    /// # Errors
    /// If the NIC doesn't take it.
    pub fn connect(&mut self, config: QpConfig) -> Result<QpId, QpError> {
        self.rnic.connect(config)
    }

    /// Posts a message.
    ///
    /// # Errors
    /// If the queue pair doesn't take it.
    pub fn post(&mut self, qp: QpId, work: WorkRequest, now: Time) -> Result<(), PostError> {
        self.rnic.post(qp, work, now)
    }

    /// The next message that has ended, at its sender.
    pub fn completed(&mut self) -> Option<Completion> {
        self.rnic.completed()
    }

    /// Totals so far, without failures; and bytes of messages that did
    /// not arrive as they were sent: a defect if there are any.
    pub fn totals(&self) -> (HostUse, u64) {
        self.rnic.totals()
    }

    /// Frames received and sent.
    pub fn frames(&self) -> (u64, u64) {
        let (frames_in, frames_out) = self.rnic.frames();
        let (managed_in, managed_out) = self.cm.frames();
        (frames_in + managed_in, frames_out + managed_out)
    }

    pub(super) fn receive(&mut self, frame: &SimFrame, now: Time) {
        if let Some(roce) = Agent::is_for(frame.bytes()) {
            return self.cm.receive(frame.bytes(), &roce, now);
        }
        self.rnic.receive(frame, now);
    }

    pub(super) fn pause(&mut self, pause: Pause) {
        if pause.priority == Priority::Data {
            self.paused = pause.stop;
            self.rnic.set_paused(pause.stop);
        }
    }

    pub(super) fn serve(&mut self, now: Time, out: &mut Outbox) {
        self.cm.on_timers(now);
        if !self.paused {
            send(|| self.cm.poll_transmit(), &mut self.line, now, out);
        }
        self.rnic.on_timers(now);
        send(|| self.rnic.transmit(now), &mut self.line, now, out);
    }

    pub(super) fn next(&self) -> Time {
        self.rnic.next().unwrap_or(Time::NEVER).min(self.cm.next())
    }
}

/// Everything that may leave now.
fn send(mut next: impl FnMut() -> Option<SimFrame>, line: &mut Line, now: Time, out: &mut Outbox) {
    while let Some(frame) = next() {
        let sent = line.enqueue(wire_bytes(frame.bytes().len()), now);
        out.frames.push(Departure { port: 0, frame, sent: sent.unwrap_or(now) });
    }
}
