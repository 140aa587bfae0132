//! The next packet of a requester.

use common::wire::{AtomicEth, Opcode, Reth};

use super::{Entry, Requester};
use crate::config::Region;
use crate::packet::{Extension, Packet, Payload};
use crate::work::WorkKind;

impl Requester {
    /// The packet to be sent next, if there is one and the window, the number
    /// of READs and atomics on their way, and the peer's receive queue allow
    /// it.
    pub(crate) fn next_packet(&self) -> Option<Packet> {
        let outstanding = self.next.since(self.acked);
        if self.next >= self.end || outstanding >= self.window || self.rnr_until.is_some() {
            return None;
        }
        let entry = self.queue.get(self.cursor)?;
        match entry.work.kind {
            kind if !kind.is_fetch() => Some(self.message_packet(entry, outstanding)),
            _ if self.fetching >= self.max_rd_atomic => None,
            _ => Some(self.fetch_packet(entry)),
        }
    }

    /// The next packet of a SEND or WRITE.
    fn message_packet(&self, entry: &Entry, outstanding: u64) -> Packet {
        let offset = self.offset(entry, self.next);
        let len = (u64::from(entry.work.len) - offset).min(u64::from(self.pmtu));
        let write = entry.work.kind == WorkKind::Write;
        let starts = self.next == entry.first;
        let ends = self.next == entry.last;
        let opcode = match (write, starts, ends) {
            (false, true, true) => Opcode::SEND_ONLY,
            (false, true, false) => Opcode::SEND_FIRST,
            (false, false, false) => Opcode::SEND_MIDDLE,
            (false, false, true) => Opcode::SEND_LAST,
            (true, true, true) => Opcode::WRITE_ONLY,
            (true, true, false) => Opcode::WRITE_FIRST,
            (true, false, false) => Opcode::WRITE_MIDDLE,
            (true, false, true) => Opcode::WRITE_LAST,
        };
        let fills_window = outstanding + 1 == self.window;
        let asked = self.asked.is_some_and(|asked| asked >= self.acked);
        Packet {
            opcode,
            psn: self.next.psn(),
            ack_req: ends || self.unasked + 1 >= self.ack_req_every || (fills_window && !asked),
            switch_bit: self.tells_repeat(),
            extension: if write && starts {
                let Region { va, rkey, .. } = self.region;
                Extension::Reth(Reth { va, rkey, len: entry.work.len })
            } else {
                Extension::None
            },
            payload: Some(Payload {
                content: self.stream.message(entry.index),
                offset,
                len: len as usize, // at most a PMTU
            }),
        }
    }

    /// Whether the packet to be sent next is to say that it is a repeat that a
    /// switch asked for.
    fn tells_repeat(&self) -> bool {
        self.for_switch && self.next < self.high
    }

    /// The request of a READ, or for its missing part, or an atomic.
    fn fetch_packet(&self, entry: &Entry) -> Packet {
        let Region { va, rkey, .. } = self.region;
        let atomic =
            |swap_add, compare| Extension::Atomic(AtomicEth { va, rkey, swap_add, compare });
        let (opcode, extension) = match entry.work.kind {
            WorkKind::CompareSwap { compare, swap } => {
                (Opcode::COMPARE_SWAP, atomic(swap, compare))
            }
            WorkKind::FetchAdd { add } => (Opcode::FETCH_ADD, atomic(add, 0)),
            _ => {
                let offset = self.offset(entry, self.next);
                let len = entry.work.len - offset as u32; // within the message
                let reth = Reth { va: va + offset, rkey, len };
                (Opcode::READ_REQUEST, Extension::Reth(reth))
            }
        };
        let (psn, switch_bit) = (self.next.psn(), self.tells_repeat());
        Packet { opcode, psn, ack_req: true, switch_bit, extension, payload: None }
    }
}
