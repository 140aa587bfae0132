//! A queue pair of a port: its two sides, and the frames they send.

use common::frame::Pool;
use common::psn::Psn;
use common::time::Time;
use common::wire::{Addr, DEFAULT_TTL, Headers};

use crate::config::{NicConfig, QpConfig};
use crate::packet::Packet;
use crate::requester::Requester;
use crate::responder::Responder;
use crate::stats::QpStats;
use crate::work::QpId;

#[derive(Debug)]
pub(super) struct Qp {
    pub(super) config: QpConfig,
    pub(super) remote: Addr,
    headers: Headers,
    /// Identification of the next IPv4 packet.
    ip_id: u16,
    pub(super) requester: Requester,
    pub(super) responder: Responder,
    /// Whether it is in `Nic::answering`.
    pub(super) answering: bool,
    /// Whether it is in `Nic::ready`.
    pub(super) ready: bool,
    /// Its last packet of either was READ data, not a request.
    pub(super) data_last: bool,
}

impl Qp {
    pub(super) fn new(qp: QpId, config: QpConfig, nic: &NicConfig) -> Self {
        Self {
            remote: config.remote_ip.into(),
            headers: Headers::new(
                nic.mac,
                config.remote_mac,
                config.vlans,
                nic.ip,
                config.remote_ip,
                config.udp_src_port,
                config.tos,
                DEFAULT_TTL,
            ),
            ip_id: 0,
            requester: Requester::new(qp, &config),
            responder: Responder::new(qp, &config),
            answering: false,
            ready: false,
            data_last: false,
            config,
        }
    }

    /// Another life, with these PSNs. Statistics go on.
    pub(super) fn restart(&mut self, qp: QpId, send_psn: Psn, recv_psn: Psn) {
        let stats = self.stats();
        self.config.send_psn = send_psn;
        self.config.recv_psn = recv_psn;
        self.requester = Requester::new(qp, &self.config);
        self.responder = Responder::new(qp, &self.config);
        self.requester.stats = stats.requester;
        self.responder.stats = stats.responder;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.requester.has_failed() || self.responder.has_failed()
    }

    pub(super) fn stats(&self) -> QpStats {
        QpStats { requester: self.requester.stats, responder: self.responder.stats }
    }

    /// Whether it has a request or READ data to send.
    pub(super) fn has_data(&self) -> bool {
        self.responder.data_waits() == Some(true) || self.requester.next_packet().is_some()
    }

    /// The next answer as a frame, if there is one and `pool` has a frame.
    pub(super) fn emit_answer<P: Pool>(&mut self, pool: &mut P) -> Option<P::Frame> {
        let packet = self.responder.next_packet()?;
        let frame = self.emit(&packet, pool)?;
        self.data_last |= self.responder.data_waits() == Some(true);
        self.responder.sent(&packet);
        Some(frame)
    }

    /// `packet`, the requester's next one, as a frame, if `pool` has one.
    pub(super) fn emit_request<P: Pool>(
        &mut self,
        packet: &Packet,
        now: Time,
        pool: &mut P,
    ) -> Option<P::Frame> {
        let frame = self.emit(packet, pool)?;
        self.requester.sent(packet, now);
        self.data_last = false;
        Some(frame)
    }

    fn emit<P: Pool>(&mut self, packet: &Packet, pool: &mut P) -> Option<P::Frame> {
        self.headers.set_ip_id(self.ip_id);
        let frame = packet.emit(&self.headers, self.config.remote_qpn, pool)?;
        // Hosts number their IPv4 packets.
        self.ip_id = self.ip_id.wrapping_add(1);
        Some(frame)
    }
}
