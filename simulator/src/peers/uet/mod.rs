//! Hosts whose RNIC takes packets in any order and acknowledges each of them: what
//! Ultra Ethernet Transport (UET 1.0, reliable unordered delivery) asks of a
//! NIC, without loss of speed for memory. An upper bound for repair by hosts.
//!
//! # The rules
//!
//! - *Direct placement.* The receiver puts each packet where it belongs when it comes. It
//!   holds nothing back, and refuses nothing: of a packet ahead it
//!   remembers a bit.
//! - *Selective acknowledgement.* Each packet brings forth an ACK with all that
//!   came in order and a bitmap of 64 packets up to the one that came. So a lost ACK costs
//!   nothing.
//! - *Loss.* A packet is lost once one that was sent after it, new or repeated, has come.
//!   A repeat that is lost is found in the same way, a round trip later: there
//!   is no other timeout than that of a tail, of two round trips without a word,
//!   doubled each time. Reordering is taken for loss. What is acknowledged sooner
//!   after its repeat than a round trip had come before.
//! - *Window.* It counts packets on their way: those that came ahead of a gap are
//!   none, so that a gap never stops the source.
//! - Messages complete in order, and congestion control is [`rnic::Dcqcn`], as that of all
//!   others.
//!
//! # Left out
//!
//! The frames are RoCEv2: an ACK is an atomic's, which has room for 64 bits. UET's own
//! headers, its congestion control (NSCC, RCCC), packet trimming and spraying are left
//! out.

mod receiver;
mod sender;

use common::time::{Span, Time};
use common::wire::{PacketKind, Roce};
use rnic::parts::{Events, Packet, Timer, Transport};
use rnic::{NicConfig, Port, PostError, QpConfig, QpId, WorkKind, WorkRequest};

use self::receiver::Receiver;
use self::sender::Sender;
use crate::node::{Nic, Rnic};
use crate::results::HostUse;

rnic::counters! {
    /// The counters of a queue pair.
    pub struct UetStats {
        /// Data packets sent, repeats included.
        pub packets: u64,
        /// Of these, repeats.
        pub repeated: u64,
        /// ACKs received that told of a gap.
        pub gaps: u64,
        /// Timeouts.
        pub timeouts: u64,
        /// CNPs received.
        pub cnps: u64,
        /// Data packets that had come before.
        pub duplicates: u64,
        /// Messages received completely.
        pub received: u64,
        /// Bytes that were not those the sender put there. Not zero: a defect.
        pub corrupt_bytes: u64,
    }
}

/// The RNIC of a host, on paths with a round trip of `rtt`.
pub fn nic(config: NicConfig, rtt: Span) -> impl Rnic {
    let connect = move |port: &mut Port<Uet>, config: QpConfig| {
        port.add(config, |qp, config| Uet::new(qp, config, rtt))
    };
    Nic::new(config, connect, |totals: &UetStats| {
        let hosts = HostUse {
            packets: totals.packets,
            repeated: totals.repeated,
            timeouts: totals.timeouts,
            naks: totals.gaps,
            cnps: totals.cnps,
            failed_qps: 0,
        };
        (hosts, totals.corrupt_bytes)
    })
}

/// The two sides of a queue pair.
#[derive(Debug)]
pub struct Uet {
    sender: Sender,
    receiver: Receiver,
}

impl Uet {
    fn new(qp: QpId, config: &QpConfig, rtt: Span) -> Self {
        Self { sender: Sender::new(qp, config, rtt), receiver: Receiver::new(qp, config) }
    }
}

impl Transport for Uet {
    type Stats = UetStats;

    fn takes(kind: PacketKind) -> bool {
        kind.is_plain() || kind == PacketKind::AtomicAck
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
                if let (Some(aeth), Some(map)) = (roce.aeth(frame), roce.atomic_original(frame)) {
                    self.sender.on_ack(roce.psn, aeth.msn, map, now, &mut events.completions);
                }
                return;
            }
        };
        self.receiver.on_packet((kind, position), roce, frame, now, &mut events.received);
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

    fn count_cnp_sent(&mut self) {}

    fn stats(&self) -> UetStats {
        let mut stats = self.sender.stats;
        stats += &self.receiver.stats;
        stats
    }
}
