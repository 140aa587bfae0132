//! A queue pair of a port: its protocol, its addresses and its congestion
//! control, and the frames it sends.

use common::frame::{Frame, Pool};
use common::time::Time;
use common::wire::{Addr, DEFAULT_TTL, Headers, PacketKind, Roce};

use super::Transport;
use crate::config::{NicConfig, QpConfig};
use crate::congestion::Congestion;
use crate::packet::Packet;

/// The ECN bits of a packet that was marked.
const CONGESTION_EXPERIENCED: u8 = 3;

/// State for congestion control, if `config` enables it. A NIC without a rate
/// has been refused.
fn congestion(config: &QpConfig, nic: &NicConfig) -> Option<Congestion> {
    Some(Congestion::new(config.dcqcn?, nic.rate?, nic.pacing_slack))
}

#[derive(Debug)]
pub(super) struct Qp<T> {
    pub(super) transport: T,
    pub(super) config: QpConfig,
    /// Our address, and the peer's.
    pub(super) local: Addr,
    pub(super) remote: Addr,
    headers: Headers,
    /// Identification of the next IPv4 packet.
    ip_id: u16,
    /// Whether it is in `Port::acking`.
    pub(super) acking: bool,
    /// Whether it is in `Port::ready` or `Port::paced`.
    pub(super) ready: bool,
    /// If it has congestion control.
    pub(super) congestion: Option<Congestion>,
}

impl<T: Transport> Qp<T> {
    pub(super) fn new(transport: T, config: QpConfig, nic: &NicConfig) -> Self {
        let local = config.local_ip.unwrap_or(nic.ip);
        Self {
            transport,
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
            acking: false,
            ready: false,
            congestion: congestion(&config, nic),
            config,
        }
    }

    /// Congestion control starts again, at the rate of the line.
    pub(super) fn reset_congestion(&mut self, nic: &NicConfig) {
        self.congestion = congestion(&self.config, nic);
    }

    /// When its next data may leave; `None`: at any time.
    pub(super) fn paced_until(&self) -> Option<Time> {
        self.congestion.as_ref().map(Congestion::free_at)
    }

    /// A CNP has arrived.
    pub(super) fn on_cnp(&mut self, now: Time) {
        self.transport.count_cnp_received();
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
        self.transport.count_cnp_sent();
        Some(frame)
    }

    /// `packet`, the next ACK, as a frame, if `pool` has one.
    pub(super) fn emit_ack<P: Pool>(&mut self, packet: &Packet, pool: &mut P) -> Option<P::Frame> {
        let frame = self.emit(packet, self.config.tos, pool)?;
        self.transport.ack_sent(packet);
        Some(frame)
    }

    /// `packet`, the next data packet, as a frame, if `pool` has one.
    pub(super) fn emit_data<P: Pool>(
        &mut self,
        packet: &Packet,
        now: Time,
        pool: &mut P,
    ) -> Option<P::Frame> {
        let tos = match self.congestion {
            Some(_) => Congestion::data_tos(self.config.tos),
            None => self.config.tos,
        };
        let frame = self.emit(packet, tos, pool)?;
        if let Some(congestion) = &mut self.congestion {
            congestion.sent(frame.bytes().len(), now);
        }
        self.transport.data_sent(packet, now);
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
