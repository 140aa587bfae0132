//! The next packet of a requester.

use common::wire::{AtomicEth, Opcode, Reth};

use super::{Entry, Requester};
use crate::config::Region;
use crate::packet::{Extension, Packet};
use crate::work::WorkKind;

impl Requester {
    /// The packet to be sent next, if there is one and the window, the number
    /// of READs and atomics on their way, and the peer's receive queue allow
    /// it.
    pub(crate) fn next_packet(&self) -> Option<Packet> {
        let outstanding = self.next.since(self.acked);
        if self.next >= self.end
            || outstanding >= u64::from(self.config.window)
            || self.rnr_until.is_some()
        {
            return None;
        }
        let entry = self.queue.get(self.cursor)?;
        match entry.work.kind {
            kind if !kind.is_fetch() => Some(self.message_packet(entry, outstanding)),
            _ if self.fetching >= self.config.max_rd_atomic => None,
            _ => Some(self.fetch_packet(entry)),
        }
    }

    /// The next packet of a SEND or WRITE.
    fn message_packet(&self, entry: &Entry, outstanding: u64) -> Packet {
        let place = (self.next.psn(), self.offset(entry, self.next), self.config.pmtu);
        let content = self.stream.message(entry.index);
        let mut packet =
            Packet::of_message(&entry.work, place, self.config.remote_region, (content, 0));
        let fills_window = outstanding + 1 == u64::from(self.config.window);
        let asked = self.asked.is_some_and(|asked| asked >= self.acked);
        packet.ack_req |= self.unasked + 1 >= self.config.ack_req_every || (fills_window && !asked);
        packet.switch_bit = self.tells_repeat();
        packet
    }

    /// Whether the packet to be sent next is to say that it is a repeat that a
    /// switch asked for.
    fn tells_repeat(&self) -> bool {
        self.for_switch && self.next < self.high
    }

    /// The request of a READ, or for its missing part, or an atomic.
    fn fetch_packet(&self, entry: &Entry) -> Packet {
        let Region { va, rkey, .. } = self.config.remote_region;
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
