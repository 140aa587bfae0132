//! The receiving side: places each packet when it comes, and acknowledges it.

use std::collections::{BTreeMap, VecDeque};

use common::psn::{Psn, Seq};
use common::time::Time;
use common::wire::{Aeth, Opcode, Position, Roce};
use rnic::parts::{Content, Extension, Packet, Stream};
use rnic::{QpConfig, QpId, Received, WorkKind};

use super::UetStats;

/// A packet that was placed, for the message that it is of.
#[derive(Clone, Copy, Debug)]
struct Placed {
    kind: WorkKind,
    position: Position,
    len: u32,
    corrupt: u64,
}

/// An ACK: the next packet in order, where the bitmap begins, the bitmap.
type Ack = (Psn, Psn, u64);

#[derive(Debug)]
pub(super) struct Receiver {
    qp: QpId,
    pmtu: u64,
    content: Content,
    origin: Seq,
    /// The next packet in order.
    expected: Seq,
    /// Ahead of it.
    early: BTreeMap<Seq, Placed>,
    /// Length and wrong bytes of the message whose last packet has not come.
    open: (u32, u64),
    messages: u64,
    acks: VecDeque<Ack>,
    pub(super) stats: UetStats,
}

impl Receiver {
    pub(super) fn new(qp: QpId, config: &QpConfig) -> Self {
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
            acks: VecDeque::new(),
            stats: UetStats::default(),
        }
    }

    /// A packet of a SEND or WRITE has arrived.
    pub(super) fn on_packet(
        &mut self,
        (kind, position): (WorkKind, Position),
        roce: &Roce,
        frame: &[u8],
        now: Time,
        received: &mut VecDeque<Received>,
    ) {
        let seq = roce.psn.unwrap_near(self.expected);
        if seq < self.expected || self.early.contains_key(&seq) {
            self.stats.duplicates += 1;
        } else {
            let payload = roce.payload(frame);
            let corrupt = self.content.mismatches(seq.since(self.origin) * self.pmtu, payload);
            self.stats.corrupt_bytes += corrupt;
            // A frame has less than 64 KiB.
            self.early.insert(seq, Placed { kind, position, len: payload.len() as u32, corrupt });
            while let Some(placed) = self.early.remove(&self.expected) {
                self.expected = self.expected.next();
                self.count(&placed, now, received);
            }
        }
        // A repeat that fills a gap is acknowledged with all behind it.
        let base = if seq < self.expected + 64 { self.expected } else { seq - 63 };
        let mut map = 0;
        for (early, _) in self.early.range(base..base + 64) {
            map |= 1 << early.since(base);
        }
        self.acks.push_back((self.expected.psn(), base.psn(), map));
    }

    fn count(&mut self, placed: &Placed, now: Time, received: &mut VecDeque<Received>) {
        if placed.position.starts_message() {
            self.open = (0, 0);
        }
        self.open.0 = self.open.0.saturating_add(placed.len);
        self.open.1 += placed.corrupt;
        if placed.position.ends_message() {
            received.push_back(Received {
                qp: self.qp,
                kind: placed.kind,
                index: self.messages,
                len: self.open.0,
                corrupt_bytes: self.open.1,
                at: now,
            });
            self.messages += 1;
            self.stats.received += 1;
        }
    }

    /// The ACK to be sent next.
    pub(super) fn next_packet(&self) -> Option<Packet> {
        let (psn, base, map) = *self.acks.front()?;
        let aeth = Aeth { syndrome: Aeth::ACK_UNLIMITED, msn: base.get() };
        Some(Packet {
            opcode: Opcode::ATOMIC_ACK,
            psn,
            ack_req: false,
            switch_bit: false,
            extension: Extension::AtomicAck(aeth, map),
            payload: None,
        })
    }

    /// It is leaving.
    pub(super) fn sent(&mut self) {
        self.acks.pop_front();
    }
}
