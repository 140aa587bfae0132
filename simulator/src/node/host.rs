//! A host: its RNIC at the end of a cable.

use common::frame::Frame;
use common::time::Time;
use link::{Line, wire_bytes};
use rnic::Nic;

use super::Outbox;
use crate::frame::{SimFrame, SimPool};
use crate::net::{Departure, Pause, Priority};

/// A host with one port.
pub struct Host {
    /// Its RNIC.
    pub nic: Nic,
    line: Line,
}

impl Host {
    /// A host on a cable of `rate` bit/s, which the NIC keeps to as well.
    pub fn new(nic: Nic, rate: u64) -> Self {
        Self { nic, line: Line::new(Some(rate), u64::MAX) }
    }

    pub(super) fn receive(&mut self, frame: &SimFrame, now: Time) {
        self.nic.receive(frame.bytes(), now);
    }

    pub(super) fn pause(&mut self, pause: Pause) {
        if pause.priority == Priority::Data {
            self.nic.set_paused(pause.stop);
        }
    }

    pub(super) fn serve(&mut self, now: Time, out: &mut Outbox) {
        self.nic.on_timers(now);
        while let Some(frame) = self.nic.poll_transmit(now, &mut SimPool) {
            let sent = self.line.enqueue(wire_bytes(frame.bytes().len()), now);
            out.frames.push(Departure { port: 0, frame, sent: sent.unwrap_or(now) });
        }
    }

    pub(super) fn next(&self) -> Time {
        self.nic.next_deadline().unwrap_or(Time::NEVER)
    }
}
