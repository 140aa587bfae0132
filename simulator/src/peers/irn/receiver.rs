//! The receiving side of a queue pair. The rules are those of the
//! [module](super).

use std::collections::VecDeque;

use common::psn::{Psn, Seq};
use common::time::Time;
use common::window::Window;
use common::wire::{Aeth, Opcode, Position, Roce};
use rnic::parts::{Content, Extension, Packet, Stream};
use rnic::{QpConfig, QpId, Received, WorkKind};

use super::config::Irn;
use super::stats::IrnStats;

/// A packet that was accepted.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    kind: WorkKind,
    position: Position,
    len: u32,
    corrupt: u32,
}

/// The received part of the message that is not complete.
#[derive(Clone, Copy, Default, Debug)]
struct Open {
    len: u32,
    corrupt: u64,
}

#[derive(Debug)]
pub(super) struct Receiver {
    qp: QpId,
    cap: u64,
    pmtu: u64,
    content: Content,
    /// PSN of the first packet ever.
    origin: Seq,
    /// PSN of the next packet in order.
    expected: Seq,
    /// From `expected` on, packets accepted ahead of it; empty if there are
    /// none.
    early: Window<Option<Accepted>>,
    open: Open,
    /// Messages received completely.
    messages: u64,
    /// ACKs and NACKs that wait for the port.
    responses: VecDeque<(Psn, Aeth)>,
    pub(super) stats: IrnStats,
}

impl Receiver {
    pub(super) fn new(qp: QpId, config: &QpConfig, irn: Irn) -> Self {
        let first = Seq::first(config.recv_psn);
        Self {
            qp,
            cap: u64::from(irn.cap),
            pmtu: u64::from(config.pmtu),
            content: Stream::received(config).message(0),
            origin: first,
            expected: first,
            early: Window::new(first),
            open: Open::default(),
            messages: 0,
            responses: VecDeque::new(),
            stats: IrnStats::default(),
        }
    }

    /// A packet of a SEND or WRITE has arrived.
    pub(super) fn on_packet(
        &mut self,
        kind: WorkKind,
        position: Position,
        roce: &Roce,
        frame: &[u8],
        now: Time,
        received: &mut VecDeque<Received>,
    ) {
        let seq = roce.psn.unwrap_near(self.expected);
        if seq < self.expected {
            self.stats.duplicates += 1;
            return self.ack();
        }
        if seq.since(self.expected) >= self.cap {
            self.stats.beyond_bitmap += 1;
            return;
        }
        if seq > self.expected {
            if self.early.get(seq).is_some_and(Option::is_some) {
                self.stats.duplicates += 1;
            } else {
                let accepted = self.accept(seq, kind, position, roce, frame);
                self.stats.early += 1;
                self.keep(seq, accepted);
            }
            let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn: seq.psn().get() };
            return self.responses.push_back((self.expected.psn(), aeth));
        }
        let accepted = self.accept(seq, kind, position, roce, frame);
        let filled = !self.early.is_empty();
        self.take(&accepted, now, received);
        while let Some(Some(accepted)) = self.early.get(self.expected).copied() {
            self.take(&accepted, now, received);
        }
        if filled || roce.ack_req {
            self.ack();
        }
    }

    /// Looks at the content of a packet that did not come before.
    fn accept(
        &mut self,
        seq: Seq,
        kind: WorkKind,
        position: Position,
        roce: &Roce,
        frame: &[u8],
    ) -> Accepted {
        let payload = roce.payload(frame);
        let corrupt = self.content.mismatches(seq.since(self.origin) * self.pmtu, payload);
        self.stats.accepted += 1;
        self.stats.corrupt_bytes += corrupt;
        // A frame has less than 64 KiB.
        Accepted { kind, position, len: payload.len() as u32, corrupt: corrupt as u32 }
    }

    fn keep(&mut self, seq: Seq, accepted: Accepted) {
        self.early.skip_to(self.expected);
        while self.early.end() <= seq {
            self.early.push(None);
        }
        if let Some(slot) = self.early.get_mut(seq) {
            *slot = Some(accepted);
        }
    }

    /// The packet with the expected PSN takes its place.
    fn take(&mut self, accepted: &Accepted, now: Time, received: &mut VecDeque<Received>) {
        self.early.pop();
        self.expected = self.expected.next();
        if accepted.position.starts_message() {
            self.open = Open::default();
        }
        self.open.len = self.open.len.saturating_add(accepted.len);
        self.open.corrupt += u64::from(accepted.corrupt);
        if accepted.position.ends_message() {
            received.push_back(Received {
                qp: self.qp,
                kind: accepted.kind,
                index: self.messages,
                len: self.open.len,
                corrupt_bytes: self.open.corrupt,
                at: now,
            });
            self.messages += 1;
            self.stats.received += 1;
        }
    }

    /// An ACK of everything in order.
    fn ack(&mut self) {
        let msn = (self.messages % u64::from(Psn::MODULUS)) as u32;
        let ack = (self.expected.prev().psn(), Aeth { syndrome: Aeth::ACK_UNLIMITED, msn });
        // Nothing is gained by saying it twice.
        if self.responses.back() != Some(&ack) {
            self.responses.push_back(ack);
        }
    }

    /// The response to be sent next.
    pub(super) fn next_packet(&self) -> Option<Packet> {
        let (psn, aeth) = *self.responses.front()?;
        Some(Packet {
            opcode: Opcode::ACK,
            psn,
            ack_req: false,
            switch_bit: false,
            extension: Extension::Aeth(aeth),
            payload: None,
        })
    }

    /// It is leaving.
    pub(super) fn sent(&mut self) {
        self.responses.pop_front();
    }
}
