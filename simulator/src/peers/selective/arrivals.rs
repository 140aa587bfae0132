//! Packets that arrive in any order, and the messages that they complete.

use std::collections::{BTreeMap, VecDeque};

use common::psn::{Psn, Seq};
use common::time::Time;
use common::wire::{Opcode, Position};
use rnic::parts::{Content, Extension, Packet, Stream};
use rnic::{QpConfig, QpId, Received, WorkKind};

use super::Stats;

/// A packet of a SEND or WRITE.
#[derive(Clone, Copy, Debug)]
pub struct Data<'f> {
    /// Its PSN.
    pub psn: Psn,
    /// It asks for an ACK.
    pub ack_req: bool,
    /// The kind of its message.
    pub kind: WorkKind,
    /// Its position in the message.
    pub position: Position,
    /// Its bytes.
    pub payload: &'f [u8],
    /// When it arrived.
    pub at: Time,
}

/// A packet that was accepted.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    kind: WorkKind,
    position: Position,
    len: u32,
    corrupt: u64,
}

/// The receive side: the packets ahead of a gap, and the responses that wait.
#[derive(Debug)]
pub struct Arrivals {
    qp: QpId,
    pmtu: u64,
    content: Content,
    /// PSN of the first packet ever.
    origin: Seq,
    /// PSN of the next packet in order.
    pub expected: Seq,
    /// Packets ahead of it.
    early: BTreeMap<Seq, Accepted>,
    /// Length and wrong bytes of the message that is not complete.
    open: (u32, u64),
    /// Messages received completely.
    pub messages: u64,
    /// Responses that wait for the port.
    pub responses: VecDeque<Packet>,
    /// Counters of the receiving side.
    pub stats: Stats,
}

impl Arrivals {
    /// Before the first packet of `qp`.
    pub fn new(qp: QpId, config: &QpConfig) -> Self {
        let first = Seq::first(config.recv_psn);
        Self {
            qp,
            pmtu: config.pmtu.into(),
            content: Stream::received(config).message(0),
            origin: first,
            expected: first,
            early: BTreeMap::new(),
            open: (0, 0),
            messages: 0,
            responses: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// Whether a packet arrived ahead of one that is missing.
    pub fn has_gap(&self) -> bool {
        !self.early.is_empty()
    }

    /// Of the 64 packets from `base` on, those that are ahead of a gap.
    pub fn bitmap(&self, base: Seq) -> u64 {
        self.early.range(base..base + 64).fold(0, |map, (early, _)| map | 1 << early.since(base))
    }

    /// Accepts the packet `seq`, and all that follow it in order; counts it if it was
    /// accepted before.
    pub fn accept(&mut self, seq: Seq, data: Data<'_>, received: &mut VecDeque<Received>) {
        if seq < self.expected || self.early.contains_key(&seq) {
            self.stats.duplicates += 1;
            return;
        }
        let Data { kind, position, payload, at, .. } = data;
        let corrupt = self.content.mismatches(seq.since(self.origin) * self.pmtu, payload);
        self.stats.accepted += 1;
        self.stats.early += u64::from(seq > self.expected);
        self.stats.corrupt_bytes += corrupt;
        // A frame has less than 64 KiB.
        let len = payload.len() as u32;
        self.early.insert(seq, Accepted { kind, position, len, corrupt });
        while let Some(accepted) = self.early.remove(&self.expected) {
            self.expected = self.expected.next();
            self.take(&accepted, at, received);
        }
    }

    /// The next packet in order joins its message.
    fn take(&mut self, accepted: &Accepted, at: Time, received: &mut VecDeque<Received>) {
        if accepted.position.starts_message() {
            self.open = (0, 0);
        }
        self.open.0 = self.open.0.saturating_add(accepted.len);
        self.open.1 += accepted.corrupt;
        if accepted.position.ends_message() {
            received.push_back(Received {
                qp: self.qp,
                kind: accepted.kind,
                index: self.messages,
                len: self.open.0,
                corrupt_bytes: self.open.1,
                at,
            });
            self.messages += 1;
        }
    }

    /// Queues a response.
    pub fn respond(&mut self, opcode: Opcode, psn: Psn, extension: Extension) {
        self.responses.push_back(Packet {
            opcode,
            psn,
            ack_req: false,
            switch_bit: false,
            extension,
            payload: None,
        });
    }
}
