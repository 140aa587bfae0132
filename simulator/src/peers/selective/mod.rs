//! The parts that models of RNICs with selective repeat share: the [send queue](SendQueue),
//! the [placement](Arrivals) of packets that arrive in any order, and a queue pair of a
//! [`Sender`] and a [`Receiver`] with rules of their own.

mod arrivals;
mod send_queue;

use std::collections::VecDeque;

use common::psn::Psn;
use common::time::Time;
use common::wire::{Aeth, PacketKind, Roce};
use rnic::parts::{Events, Packet, Timer, Transport};
use rnic::{
    Completion, NicConfig, Port, PostError, QpConfig, QpError, QpId, Received, WorkKind,
    WorkRequest,
};

pub use self::arrivals::{Arrivals, Data};
pub use self::send_queue::SendQueue;
use crate::node::{Nic, Rnic};
use crate::results::HostUse;

rnic::counters! {
    /// Counters of a queue pair, or of several added up.
    pub struct Stats {
        /// Data packets sent, repeats included.
        pub packets: u64,
        /// Of these, repeats.
        pub repeated: u64,
        /// Responses received that told of a gap.
        pub naks: u64,
        /// Timeouts.
        pub timeouts: u64,
        /// Times that loss recovery began.
        pub recoveries: u64,
        /// Responses with numbers that were never sent. Not zero: a defect.
        pub beyond_sent: u64,
        /// CNPs received.
        pub cnps: u64,
        /// Data packets accepted.
        pub accepted: u64,
        /// Of these, ahead of the expected one.
        pub early: u64,
        /// Data packets that had been accepted before.
        pub duplicates: u64,
        /// Data packets beyond the bitmap: discarded.
        pub beyond_bitmap: u64,
        /// Bytes that were not those the sender put there. Not zero: a defect.
        pub corrupt_bytes: u64,
        /// CNPs sent.
        pub cnps_sent: u64,
    }
}

/// A response to packets of a [`Sender`].
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// Its PSN.
    pub psn: Psn,
    /// Its AETH.
    pub aeth: Aeth,
    /// The 64 bits of an [`PacketKind::AtomicAck`], else 0.
    pub map: u64,
    /// When it arrived.
    pub at: Time,
}

/// The sending side of a queue pair: SENDs and WRITEs only.
pub trait Sender {
    /// The kind of the responses that it understands.
    const RESPONSE: PacketKind;

    /// The messages that it sends.
    fn queue(&self) -> &SendQueue;

    /// The same, to change it.
    fn queue_mut(&mut self) -> &mut SendQueue;

    /// A [response](Self::RESPONSE) has arrived.
    fn on_reply(&mut self, reply: Reply, completions: &mut VecDeque<Completion>);

    /// When [`on_timer`](Self::on_timer) has something to do.
    fn deadline(&self) -> Option<Time>;

    /// The [deadline](Self::deadline) has passed.
    fn on_timer(&mut self, now: Time);

    /// The next packet to leave, if one may.
    fn next_packet(&mut self) -> Option<Packet>;

    /// `packet`, from [`next_packet`](Self::next_packet), is leaving.
    fn sent(&mut self, packet: &Packet, now: Time);
}

/// The rules of the receiving side of a queue pair.
pub trait Receiver {
    /// A packet of a SEND or WRITE has arrived.
    fn on_data(&self, data: Data<'_>, arrivals: &mut Arrivals, received: &mut VecDeque<Received>);
}

/// The two sides of a queue pair.
#[derive(Debug)]
pub struct Pair<S, R> {
    /// The sending side.
    pub sender: S,
    /// The rules of the receiving side.
    pub receiver: R,
    /// The packets that arrive.
    pub arrivals: Arrivals,
}

/// The RNIC of a host: a port whose queue pairs `connect` sets up.
pub fn nic<S: Sender, R: Receiver>(
    config: NicConfig,
    connect: impl FnMut(&mut Port<Pair<S, R>>, QpConfig) -> Result<QpId, QpError>,
) -> impl Rnic {
    Nic::new(config, connect, |totals: &Stats| {
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

impl<S: Sender, R: Receiver> Transport for Pair<S, R> {
    type Stats = Stats;

    fn takes(kind: PacketKind) -> bool {
        kind.is_plain() || kind == S::RESPONSE
    }

    fn post(&mut self, work: WorkRequest, now: Time) -> Result<u64, PostError> {
        self.sender.queue_mut().post(work, now)
    }

    fn pending(&self) -> usize {
        self.sender.queue().pending()
    }

    fn has_failed(&self) -> bool {
        false
    }

    fn on_packet(&mut self, roce: &Roce, frame: &[u8], now: Time, events: &mut Events) {
        let (kind, position) = match roce.kind() {
            PacketKind::Send(position) => (WorkKind::Send, position),
            PacketKind::Write(position) => (WorkKind::Write, position),
            _ => {
                let Some(aeth) = roce.aeth(frame) else { return };
                let map = roce.atomic_original(frame).unwrap_or_default();
                let reply = Reply { psn: roce.psn, aeth, map, at: now };
                return self.sender.on_reply(reply, &mut events.completions);
            }
        };
        let Roce { psn, ack_req, .. } = *roce;
        let data = Data { psn, ack_req, kind, position, payload: roce.payload(frame), at: now };
        self.receiver.on_data(data, &mut self.arrivals, &mut events.received);
    }

    fn on_timer(&mut self, _: Timer, now: Time, _: &mut Events) {
        if self.sender.deadline().is_some_and(|deadline| deadline <= now) {
            self.sender.queue_mut().stats.timeouts += 1;
            self.sender.on_timer(now);
        }
    }

    fn deadline(&self, timer: Timer) -> Option<Time> {
        self.sender.deadline().filter(|_| timer == Timer::Retransmit)
    }

    fn next_ack(&self) -> Option<Packet> {
        self.arrivals.responses.front().copied()
    }

    fn ack_sent(&mut self, _: &Packet) {
        self.arrivals.responses.pop_front();
    }

    fn next_data(&mut self) -> Option<Packet> {
        self.sender.next_packet()
    }

    fn data_sent(&mut self, packet: &Packet, now: Time) {
        self.sender.sent(packet, now);
    }

    fn count_cnp_received(&mut self) {
        self.sender.queue_mut().stats.cnps += 1;
    }

    fn count_cnp_sent(&mut self) {
        self.arrivals.stats.cnps_sent += 1;
    }

    fn stats(&self) -> Stats {
        let mut stats = self.sender.queue().stats;
        stats += &self.arrivals.stats;
        stats
    }
}
