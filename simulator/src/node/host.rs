//! A host: its RNIC and its connection manager at the end of a cable.

use common::frame::Frame;
use common::time::Time;
use link::{Line, wire_bytes};
use rnic::{Completion, Nic, PostError, QpConfig, QpError, QpId, WorkRequest};

use super::Outbox;
use super::cm::Agent;
use crate::frame::{SimFrame, SimPool};
use crate::net::{Departure, Pause, Priority};
use crate::peers::irn::{Irn, IrnNic, SelectiveRepeat};
use crate::results::HostUse;

/// A host's NIC.
pub enum Rnic {
    /// Go-back-N, as RNICs have it.
    GoBackN(Box<Nic>),
    /// Selective repeat, and how its queue pairs are set up.
    SelectiveRepeat(Box<IrnNic>, Irn),
}

/// Does the same with a NIC of either kind.
macro_rules! with_nic {
    ($rnic:expr, $nic:ident => $do:expr) => {
        match $rnic {
            Rnic::GoBackN($nic) => $do,
            Rnic::SelectiveRepeat($nic, _) => $do,
        }
    };
}

/// A host with one port.
pub struct Host {
    rnic: Rnic,
    /// Who answers at QP 1.
    pub cm: Agent,
    line: Line,
    paused: bool,
}

impl Host {
    /// A host on a cable of `rate` bit/s, which the NIC keeps to as well.
    pub fn new(rnic: Rnic, cm: Agent, rate: u64) -> Self {
        Self { rnic, cm, line: Line::new(Some(rate), u64::MAX), paused: false }
    }

    /// Sets up a queue pair.
    ///
    /// # Errors
    /// If the NIC doesn't take it.
    pub fn connect(&mut self, config: QpConfig) -> Result<QpId, QpError> {
        match &mut self.rnic {
            Rnic::GoBackN(nic) => nic.add_qp(config),
            Rnic::SelectiveRepeat(nic, irn) => SelectiveRepeat::add_qp(nic, config, *irn),
        }
    }

    /// Posts a message.
    ///
    /// # Errors
    /// If the queue pair doesn't take it.
    pub fn post(&mut self, qp: QpId, work: WorkRequest, now: Time) -> Result<(), PostError> {
        with_nic!(&mut self.rnic, nic => nic.post(qp, work, now)).map(|_| ())
    }

    /// The next message that has ended, at its sender.
    pub fn completed(&mut self) -> Option<Completion> {
        with_nic!(&mut self.rnic, nic => nic.poll_completion())
    }

    /// Totals so far, without failures; and bytes of messages that did
    /// not arrive as they were sent: a defect if there are any.
    pub fn totals(&self) -> (HostUse, u64) {
        match &self.rnic {
            Rnic::GoBackN(nic) => {
                let totals = nic.totals();
                let (sent, received) = (totals.requester, totals.responder);
                let hosts = HostUse {
                    packets: sent.packets,
                    repeated: sent.retransmitted,
                    timeouts: sent.timeouts,
                    naks: sent.naks,
                    cnps: sent.cnps,
                    failed_qps: 0,
                };
                (hosts, received.corrupt_bytes)
            }
            Rnic::SelectiveRepeat(nic, _) => {
                let totals = nic.totals();
                let hosts = HostUse {
                    packets: totals.packets,
                    repeated: totals.repeated,
                    timeouts: totals.timeouts,
                    naks: totals.naks,
                    cnps: totals.cnps,
                    failed_qps: 0,
                };
                (hosts, totals.corrupt_bytes)
            }
        }
    }

    /// Frames received and sent.
    pub fn frames(&self) -> (u64, u64) {
        let stats = with_nic!(&self.rnic, nic => nic.port_stats());
        let (managed_in, managed_out) = self.cm.frames();
        (stats.frames_in + managed_in, stats.frames_out + managed_out)
    }

    pub(super) fn receive(&mut self, frame: &SimFrame, now: Time) {
        if let Some(roce) = Agent::is_for(frame.bytes()) {
            return self.cm.receive(frame.bytes(), &roce, now);
        }
        with_nic!(&mut self.rnic, nic => nic.receive(frame.bytes(), now));
    }

    pub(super) fn pause(&mut self, pause: Pause) {
        if pause.priority == Priority::Data {
            self.paused = pause.stop;
            with_nic!(&mut self.rnic, nic => nic.set_paused(pause.stop));
        }
    }

    pub(super) fn serve(&mut self, now: Time, out: &mut Outbox) {
        self.cm.on_timers(now);
        if !self.paused {
            send(|| self.cm.poll_transmit(), &mut self.line, now, out);
        }
        with_nic!(&mut self.rnic, nic => {
            nic.on_timers(now);
            send(|| nic.poll_transmit(now, &mut SimPool), &mut self.line, now, out);
            while nic.poll_received().is_some() {}
        });
    }

    pub(super) fn next(&self) -> Time {
        let rnic = with_nic!(&self.rnic, nic => nic.next_deadline());
        rnic.unwrap_or(Time::NEVER).min(self.cm.next())
    }
}

/// Everything that may leave now.
fn send(mut next: impl FnMut() -> Option<SimFrame>, line: &mut Line, now: Time, out: &mut Outbox) {
    while let Some(frame) = next() {
        let sent = line.enqueue(wire_bytes(frame.bytes().len()), now);
        out.frames.push(Departure { port: 0, frame, sent: sent.unwrap_or(now) });
    }
}
