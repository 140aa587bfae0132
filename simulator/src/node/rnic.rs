//! The RNICs of hosts, of any protocol.

use common::frame::Frame;
use common::time::Time;
use rnic::parts::Transport;
use rnic::{
    Completion, NicConfig, Port, PostError, QpConfig, QpError, QpId, ReliableConnection,
    WorkRequest,
};

use crate::frame::{SimFrame, SimPool};
use crate::results::HostUse;

/// A host's RNIC.
pub trait Rnic {
    /// Sets up a queue pair.
    ///
    /// # Errors
    /// If the RNIC doesn't take it.
    fn connect(&mut self, config: QpConfig) -> Result<QpId, QpError>;

    /// Posts a message.
    ///
    /// # Errors
    /// If the queue pair doesn't take it.
    fn post(&mut self, qp: QpId, work: WorkRequest, now: Time) -> Result<(), PostError>;

    /// The next message that has ended, at its sender.
    fn completed(&mut self) -> Option<Completion>;

    /// A frame has arrived.
    fn receive(&mut self, frame: &SimFrame, now: Time);

    /// Whether a PFC frame forbids it to send data.
    fn set_paused(&mut self, paused: bool);

    /// When [`on_timers`](Self::on_timers) or [`transmit`](Self::transmit) has
    /// something to do; `None`: not before something else happens.
    fn next(&self) -> Option<Time>;

    /// Runs due timers.
    fn on_timers(&mut self, now: Time);

    /// The next frame that may leave now.
    fn transmit(&mut self, now: Time) -> Option<SimFrame>;

    /// Totals so far, without failures; and bytes of messages that did
    /// not arrive as they were sent: a defect if there are any.
    fn totals(&self) -> (HostUse, u64);

    /// Frames received and sent.
    fn frames(&self) -> (u64, u64);
}

/// An RNIC made of the port of the crate `rnic`, with the protocol `T`.
pub struct Nic<T: Transport, C> {
    port: Port<T>,
    connect: C,
    totals: fn(&T::Stats) -> (HostUse, u64),
}

impl<T, C> Nic<T, C>
where
    T: Transport,
    C: FnMut(&mut Port<T>, QpConfig) -> Result<QpId, QpError>,
{
    /// A port whose queue pairs `connect` sets up, and of whose counters `totals`
    /// makes [`Rnic::totals`].
    pub fn new(config: NicConfig, connect: C, totals: fn(&T::Stats) -> (HostUse, u64)) -> Self {
        Self { port: Port::new(config), connect, totals }
    }
}

/// Sets up a queue pair of a port.
type Connect = fn(&mut rnic::Nic, QpConfig) -> Result<QpId, QpError>;

impl Nic<ReliableConnection, Connect> {
    /// Go-back-N, as RNICs have it.
    pub fn go_back_n(config: NicConfig) -> Self {
        Self::new(config, rnic::Nic::add_qp, |totals| {
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
        })
    }
}

impl<T, C> Rnic for Nic<T, C>
where
    T: Transport,
    C: FnMut(&mut Port<T>, QpConfig) -> Result<QpId, QpError>,
{
    fn connect(&mut self, config: QpConfig) -> Result<QpId, QpError> {
        (self.connect)(&mut self.port, config)
    }

    fn post(&mut self, qp: QpId, work: WorkRequest, now: Time) -> Result<(), PostError> {
        self.port.post(qp, work, now).map(|_| ())
    }

    fn completed(&mut self) -> Option<Completion> {
        self.port.poll_completion()
    }

    fn receive(&mut self, frame: &SimFrame, now: Time) {
        self.port.receive(frame.bytes(), now);
        while self.port.poll_received().is_some() {}
    }

    fn set_paused(&mut self, paused: bool) {
        self.port.set_paused(paused);
    }

    fn next(&self) -> Option<Time> {
        self.port.next_deadline()
    }

    fn on_timers(&mut self, now: Time) {
        self.port.on_timers(now);
    }

    fn transmit(&mut self, now: Time) -> Option<SimFrame> {
        self.port.poll_transmit(now, &mut SimPool)
    }

    fn totals(&self) -> (HostUse, u64) {
        (self.totals)(&self.port.totals())
    }

    fn frames(&self) -> (u64, u64) {
        let stats = self.port.port_stats();
        (stats.frames_in, stats.frames_out)
    }
}
