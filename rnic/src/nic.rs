//! A port whose queue pairs are reliable connections: go-back-N, as RNICs do it.

use common::psn::Psn;
use common::time::Time;
use common::wire::{PacketKind, Roce};

use crate::config::{QpConfig, QpError};
use crate::packet::Packet;
use crate::port::{Events, Port, Transport};
use crate::requester::{Requester, Response};
use crate::responder::Responder;
use crate::stats::QpStats;
use crate::timers::Timer;
use crate::work::{PostError, QpId, Status, WorkRequest};

/// A port with go-back-N queue pairs.
///
/// A QP with both requests and READ data to send takes them by turns. The
/// responses of one QP leave in the order they were decided on, so an ACK may
/// have to wait for READ data.
pub type Nic = Port<ReliableConnection>;

/// The two sides of a reliable connection.
#[derive(Debug)]
pub struct ReliableConnection {
    requester: Requester,
    responder: Responder,
    /// Its last data packet was READ data, not a request.
    data_last: bool,
}

impl Nic {
    /// Sets up a connected QP.
    ///
    /// # Errors
    /// If a field of `config` is out of range or the QP number is in use.
    pub fn add_qp(&mut self, config: QpConfig) -> Result<QpId, QpError> {
        self.add(config, ReliableConnection::new)
    }

    /// Begins another incarnation of a QP with the same numbers: work requests that
    /// are pending are flushed, unfinished received messages are
    /// forgotten, responses are not sent any more, messages are counted from 0,
    /// the receive queue is full, the word that atomics work on 0, the rate
    /// that of the line. Messages have other content. Statistics are kept. The peer
    /// has to do the same, with the PSNs the other way round.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn reset_qp(&mut self, qp: QpId, send_psn: Psn, recv_psn: Psn, now: Time) {
        self.restart(qp, |connection, config, events| {
            connection.requester.fail(Status::Flushed, now, &mut events.completions);
            let stats = connection.stats();
            config.send_psn = send_psn;
            config.recv_psn = recv_psn;
            // So that no packet of the incarnation before looks right in this one.
            config.content_seed = config.content_seed.wrapping_add(1);
            connection.requester = Requester::new(qp, config);
            connection.responder = Responder::new(qp, config);
            connection.requester.stats = stats.requester;
            connection.responder.stats = stats.responder;
        });
    }

    /// Gives the responder of `qp` buffers for `n` SENDs, as far as its
    /// [receive queue](crate::QpConfig::receive_queue) has room.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn post_receives(&mut self, qp: QpId, n: u32) {
        self.transport_mut(qp).responder.post_receives(n);
    }

    /// The value that the peer's atomics have left in the word at the beginning of our
    /// region.
    ///
    /// # Panics
    /// If `qp` is not of this NIC.
    pub fn atomic_word(&self, qp: QpId) -> u64 {
        self.transport(qp).responder.word()
    }
}

impl ReliableConnection {
    fn new(qp: QpId, config: &QpConfig) -> Self {
        let (requester, responder) = (Requester::new(qp, config), Responder::new(qp, config));
        Self { requester, responder, data_last: false }
    }

    /// The failure of one side is that of the other.
    fn spread_failure(&mut self, now: Time, events: &mut Events) {
        // A responder that has failed by itself still has to say so.
        if self.responder.has_failed() && !self.requester.has_failed() {
            self.requester.fail(Status::Flushed, now, &mut events.completions);
        } else if self.requester.has_failed() && !self.responder.has_failed() {
            self.responder.fail();
        }
    }
}

impl Transport for ReliableConnection {
    type Stats = QpStats;

    fn takes(kind: PacketKind) -> bool {
        kind != PacketKind::Other
    }

    fn post(&mut self, work: WorkRequest, now: Time) -> Result<u64, PostError> {
        self.requester.post(work, now)
    }

    fn pending(&self) -> usize {
        self.requester.pending()
    }

    fn has_failed(&self) -> bool {
        self.requester.has_failed() || self.responder.has_failed()
    }

    fn on_packet(&mut self, roce: &Roce, frame: &[u8], now: Time, events: &mut Events) {
        let kind = roce.kind();
        if kind.is_response() {
            let response = Response::of(kind, roce, frame);
            self.requester.on_response(response, roce.psn, now, &mut events.completions);
        } else {
            self.responder.on_request(kind, roce, frame, now, &mut events.received);
        }
        self.spread_failure(now, events);
    }

    fn on_timer(&mut self, timer: Timer, now: Time, events: &mut Events) {
        match timer {
            Timer::Retransmit => self.requester.on_timer(now, &mut events.completions),
            Timer::Ack => self.responder.on_timer(now),
        }
        self.spread_failure(now, events);
    }

    fn deadline(&self, timer: Timer) -> Option<Time> {
        match timer {
            Timer::Retransmit => self.requester.deadline(),
            Timer::Ack => self.responder.deadline(),
        }
    }

    fn next_ack(&self) -> Option<Packet> {
        self.responder.next_packet().filter(|_| self.responder.data_waits() == Some(false))
    }

    fn ack_sent(&mut self, packet: &Packet) {
        self.responder.sent(packet);
    }

    fn next_data(&mut self) -> Option<Packet> {
        let data = self.responder.data_waits() == Some(true);
        let request = self.requester.next_packet();
        match request {
            Some(request) if !data || self.data_last => Some(request),
            _ if data => self.responder.next_packet(),
            _ => None,
        }
    }

    fn data_sent(&mut self, packet: &Packet, now: Time) {
        self.data_last = !packet.opcode.kind().is_request();
        if self.data_last {
            self.responder.sent(packet);
        } else {
            self.requester.sent(packet, now);
        }
    }

    fn count_cnp_received(&mut self) {
        self.requester.stats.cnps += 1;
    }

    fn count_cnp_sent(&mut self) {
        self.responder.stats.cnps += 1;
    }

    fn stats(&self) -> QpStats {
        QpStats { requester: self.requester.stats, responder: self.responder.stats }
    }
}
