//! A queue pair of a port: its two sides, and the frames they send.

use common::frame::{Frame, Pool};
use common::psn::Psn;
use common::time::Time;
use common::wire::{Addr, DEFAULT_TTL, Headers, PacketKind, Roce};

use crate::config::{NicConfig, QpConfig};
use crate::congestion::Congestion;
use crate::packet::Packet;
use crate::requester::Requester;
use crate::responder::Responder;
use crate::stats::QpStats;
use crate::work::QpId;

/// The ECN bits of a packet that was marked.
const CONGESTION_EXPERIENCED: u8 = 3;

/// State for congestion control, if `config` enables it. A NIC without a rate
/// has been refused.
fn congestion(config: &QpConfig, nic: &NicConfig) -> Option<Congestion> {
    Some(Congestion::new(config.dcqcn?, nic.rate?, nic.pacing_slack))
}

#[derive(Debug)]
pub(super) struct Qp {
    pub(super) config: QpConfig,
    /// Our address, and the peer's.
    pub(super) local: Addr,
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
    /// If it has congestion control.
    pub(super) congestion: Option<Congestion>,
}

impl Qp {
    pub(super) fn new(qp: QpId, config: QpConfig, nic: &NicConfig) -> Self {
        let local = config.local_ip.unwrap_or(nic.ip);
        Self {
            local: local.into(),
            remote: config.remote_ip.into(),
            headers: Headers::new(
                nic.mac,
                config.remote_mac,
                config.vlans,
                local,
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
            congestion: congestion(&config, nic),
            config,
        }
    }

    /// Another incarnation, with these PSNs. Statistics go on.
    pub(super) fn restart(&mut self, qp: QpId, send_psn: Psn, recv_psn: Psn, nic: &NicConfig) {
        let stats = self.stats();
        self.config.send_psn = send_psn;
        self.config.recv_psn = recv_psn;
        // So that no packet of the incarnation before looks right in this one.
        self.config.content_seed = self.config.content_seed.wrapping_add(1);
        self.congestion = congestion(&self.config, nic);
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

    /// When its next request or READ data may leave; `None`: at any time.
    pub(super) fn paced_until(&self) -> Option<Time> {
        self.congestion.as_ref().map(Congestion::free_at)
    }

    /// A CNP has arrived.
    pub(super) fn on_cnp(&mut self, now: Time) {
        self.requester.stats.cnps += 1;
        if let Some(congestion) = &mut self.congestion {
            congestion.on_cnp(now);
        }
    }

    /// A packet has arrived. Whether it makes a CNP due.
    pub(super) fn on_mark(&mut self, roce: &Roce, now: Time) -> bool {
        let data = roce.kind().is_request() || matches!(roce.kind(), PacketKind::ReadResponse(_));
        let Some(congestion) = &mut self.congestion else { return false };
        roce.ecn == CONGESTION_EXPERIENCED && data && congestion.on_mark(now)
    }

    /// Whether there is a CNP to send.
    pub(super) fn cnp_due(&self) -> bool {
        self.congestion.as_ref().is_some_and(Congestion::cnp_due)
    }

    /// The CNP that is due, if there is one and `pool` has a frame.
    pub(super) fn emit_cnp<P: Pool>(&mut self, pool: &mut P) -> Option<P::Frame> {
        let congestion = self.congestion.as_mut()?;
        self.headers.set_ip_id(self.ip_id);
        let frame = congestion.emit_cnp(&mut self.headers, self.config.remote_qpn, pool)?;
        self.ip_id = self.ip_id.wrapping_add(1);
        self.responder.stats.cnps += 1;
        Some(frame)
    }

    /// The next answer as a frame, if there is one and `pool` has a frame.
    pub(super) fn emit_answer<P: Pool>(&mut self, now: Time, pool: &mut P) -> Option<P::Frame> {
        let packet = self.responder.next_packet()?;
        let data = self.responder.data_waits() == Some(true);
        let frame = if data {
            self.emit_data(&packet, now, pool)?
        } else {
            self.emit(&packet, self.config.tos, pool)?
        };
        self.data_last |= data;
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
        let frame = self.emit_data(packet, now, pool)?;
        self.requester.sent(packet, now);
        self.data_last = false;
        Some(frame)
    }

    /// A packet that is paced, as a frame.
    fn emit_data<P: Pool>(&mut self, packet: &Packet, now: Time, pool: &mut P) -> Option<P::Frame> {
        let tos = match self.congestion {
            Some(_) => Congestion::data_tos(self.config.tos),
            None => self.config.tos,
        };
        let frame = self.emit(packet, tos, pool)?;
        if let Some(congestion) = &mut self.congestion {
            congestion.sent(frame.bytes().len(), now);
        }
        Some(frame)
    }

    fn emit<P: Pool>(&mut self, packet: &Packet, tos: u8, pool: &mut P) -> Option<P::Frame> {
        self.headers.set_tos(tos);
        self.headers.set_ip_id(self.ip_id);
        let frame = packet.emit(&mut self.headers, self.config.remote_qpn, pool)?;
        // Hosts number their IPv4 packets.
        self.ip_id = self.ip_id.wrapping_add(1);
        Some(frame)
    }
}
