//! Packets about to leave: their description, and how
//! each becomes a frame.

use common::frame::{Frame, Pool};
use common::psn::Psn;
use common::wire::{Aeth, AtomicEth, Bth, Headers, Opcode, Qpn, Reth};

use crate::config::Region;
use crate::content::Content;
use crate::work::{WorkKind, WorkRequest};

/// The extension header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extension {
    /// There is none.
    None,
    /// Of a WRITE or READ.
    Reth(Reth),
    /// Of an atomic.
    Atomic(AtomicEth),
    /// Of an ACK, NAK or READ data.
    Aeth(Aeth),
    /// And the value that the atomic found.
    AtomicAck(Aeth, u64),
}

/// Payload: a part of a message.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    /// The message.
    pub content: Content,
    /// Where in the message it begins.
    pub offset: u64,
    /// Its length.
    pub len: usize,
}

/// A packet of either side.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The BTH's opcode.
    pub opcode: Opcode,
    /// Its sequence number.
    pub psn: Psn,
    /// It asks for an ACK.
    pub ack_req: bool,
    /// It has the bit of [`common::wire::has_switch_bit`].
    pub switch_bit: bool,
    /// The extension header behind the BTH.
    pub extension: Extension,
    /// The payload, if any.
    pub payload: Option<Payload>,
}

impl Extension {
    const fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Reth(_) => Reth::LEN,
            Self::Atomic(_) => AtomicEth::LEN,
            Self::Aeth(_) => Aeth::LEN,
            Self::AtomicAck(..) => Aeth::LEN + size_of::<u64>(),
        }
    }

    /// Writes it to `out`, which is as long as it.
    fn emit(&self, out: &mut [u8]) {
        match self {
            Self::None => {}
            Self::Reth(reth) => out.copy_from_slice(&reth.to_bytes()),
            Self::Atomic(eth) => out.copy_from_slice(&eth.to_bytes()),
            Self::Aeth(aeth) => out.copy_from_slice(&aeth.to_bytes()),
            Self::AtomicAck(aeth, original) => {
                let (head, tail) = out.split_at_mut(Aeth::LEN);
                head.copy_from_slice(&aeth.to_bytes());
                tail.copy_from_slice(&original.to_be_bytes());
            }
        }
    }
}

impl Packet {
    /// The packet with `psn` of a SEND or WRITE, from `offset` in the message
    /// on: the first one of a WRITE names `region`. It asks for an ACK if it is
    /// the last. `content` has the message from `content_offset` on.
    pub fn of_message(
        work: &WorkRequest,
        (psn, offset, pmtu): (Psn, u64, u32),
        region: Region,
        (content, content_offset): (Content, u64),
    ) -> Self {
        let len = (u64::from(work.len) - offset).min(u64::from(pmtu));
        let write = work.kind == WorkKind::Write;
        let (starts, ends) = (offset == 0, offset + len == u64::from(work.len));
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
        let Region { va, rkey, .. } = region;
        Self {
            opcode,
            psn,
            ack_req: ends,
            switch_bit: false,
            extension: match write && starts {
                true => Extension::Reth(Reth { va, rkey, len: work.len }),
                false => Extension::None,
            },
            payload: Some(Payload {
                content,
                offset: content_offset + offset,
                len: len as usize, // at most a PMTU
            }),
        }
    }

    /// Bytes of payload.
    pub fn payload_len(&self) -> usize {
        self.payload.as_ref().map_or(0, |payload| payload.len)
    }

    /// The frame, if `pool` has one.
    pub fn emit<P: Pool>(
        &self,
        headers: &mut Headers,
        dest_qpn: Qpn,
        pool: &mut P,
    ) -> Option<P::Frame> {
        let len = self.payload_len();
        let pad = len.wrapping_neg() & 3;
        let ext = self.extension.len();
        let mut frame = pool.alloc(headers.frame_len(ext + len + pad))?;
        let bth = Bth {
            pad: pad as u8, // at most 3
            ack_req: self.ack_req,
            ..Bth::new(self.opcode, dest_qpn, self.psn)
        };
        headers.set_switch_bit(self.switch_bit);
        headers.emit(&bth, frame.bytes_mut(), |body| {
            let (header, body) = body.split_at_mut(ext);
            self.extension.emit(header);
            let (payload, pad) = body.split_at_mut(len);
            if let Some(Payload { content, offset, .. }) = self.payload {
                content.fill(offset, payload);
            }
            pad.fill(0);
        });
        Some(frame)
    }
}
