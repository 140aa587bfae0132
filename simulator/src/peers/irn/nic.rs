//! A port whose queue pairs have IRN.

use common::time::Time;
use common::wire::{PacketKind, Roce};
use rnic::parts::{Events, Packet, Timer, Transport};
use rnic::{NicConfig, Port, PostError, QpConfig, QpError, QpId, WorkKind, WorkRequest};

use super::config::Irn;
use super::receiver::Receiver;
use super::sender::Sender;
use super::stats::IrnStats;
use crate::node::{Nic, Rnic};
use crate::results::HostUse;

/// A port with its queue pairs, to be driven like [`rnic::Nic`]. Its differences
/// from RNICs are in the [module's documentation](super).
pub type IrnNic = Port<SelectiveRepeat>;

/// The RNIC of a host: a port whose queue pairs have the parameters `irn`.
pub fn nic(config: NicConfig, irn: Irn) -> impl Rnic {
    let connect = move |port: &mut IrnNic, qp| SelectiveRepeat::add_qp(port, qp, irn);
    Nic::new(config, connect, |totals: &IrnStats| {
        let hosts = HostUse {
            packets: totals.packets,
            repeated: totals.repeated,
            timeouts: totals.timeouts,
            naks: totals.naks,
            cnps: totals.cnps,
            failed_qps: 0,
        };
        (hosts, totals.corrupt_bytes)
    })
}

/// The two sides of a queue pair.
#[derive(Debug)]
pub struct SelectiveRepeat {
    sender: Sender,
    receiver: Receiver,
}

impl SelectiveRepeat {
    /// Sets up a connected QP on `nic`. Of `config` these count: QP numbers,
    /// addresses, VLANs, UDP source port, ToS, PSNs, PMTU, `ack_req_every`,
    /// `remote_region`, `dcqcn` and `content_seed`. It takes SENDs and WRITEs.
    ///
    /// # Errors
    /// If a field of `config` or `irn` is out of range or the QP number is in
    /// use.
    pub fn add_qp(nic: &mut IrnNic, config: QpConfig, irn: Irn) -> Result<QpId, QpError> {
        irn.check()?;
        nic.add(config, |qp, config| Self {
            sender: Sender::new(qp, config, irn),
            receiver: Receiver::new(qp, config, irn),
        })
    }

    /// Packets from the oldest that is not acknowledged to the newest that was
    /// sent.
    pub fn in_flight(&self) -> u64 {
        self.sender.in_flight()
    }
}

impl Transport for SelectiveRepeat {
    type Stats = IrnStats;

    fn takes(kind: PacketKind) -> bool {
        kind.is_plain() || kind == PacketKind::Ack
    }

    fn post(&mut self, work: WorkRequest, now: Time) -> Result<u64, PostError> {
        self.sender.post(work, now)
    }

    fn pending(&self) -> usize {
        self.sender.pending()
    }

    fn has_failed(&self) -> bool {
        false
    }

    fn on_packet(&mut self, roce: &Roce, frame: &[u8], now: Time, events: &mut Events) {
        let (kind, position) = match roce.kind() {
            PacketKind::Send(position) => (WorkKind::Send, position),
            PacketKind::Write(position) => (WorkKind::Write, position),
            _ => {
                if let Some(aeth) = roce.aeth(frame) {
                    self.sender.on_response(roce.psn, aeth, now, &mut events.completions);
                }
                return;
            }
        };
        self.receiver.on_packet(kind, position, roce, frame, now, &mut events.received);
    }

    fn on_timer(&mut self, _: Timer, now: Time, _: &mut Events) {
        self.sender.on_timer(now);
    }

    fn deadline(&self, timer: Timer) -> Option<Time> {
        self.sender.deadline().filter(|_| timer == Timer::Retransmit)
    }

    fn next_ack(&self) -> Option<Packet> {
        self.receiver.next_packet()
    }

    fn ack_sent(&mut self, _: &Packet) {
        self.receiver.sent();
    }

    fn next_data(&mut self) -> Option<Packet> {
        self.sender.next_packet()
    }

    fn data_sent(&mut self, packet: &Packet, now: Time) {
        self.sender.sent(packet, now);
    }

    fn count_cnp_received(&mut self) {
        self.sender.stats.cnps += 1;
    }

    fn count_cnp_sent(&mut self) {
        self.receiver.stats.cnps_sent += 1;
    }

    fn stats(&self) -> IrnStats {
        let mut stats = self.sender.stats;
        stats += &self.receiver.stats;
        stats
    }
}
