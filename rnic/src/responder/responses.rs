//! The responses of a responder: one ordered stream per QP.
//!
//! A response that overtook READ data would tell the requester that the data
//! was lost, and one between the packets of a READ response would end the QP.
//! So a response decided during a READ response waits behind it.

use std::collections::VecDeque;

use common::psn::{Psn, Seq};
use common::wire::{Aeth, Opcode};

use crate::content::Content;
use crate::packet::{Extension, Packet, Payload};

/// Responses of one QP that may wait for the port. Far more than a port that is
/// polled ever holds; a bound for one that isn't.
const MAX_RESPONSES: usize = 1 << 16;

/// An ACK or NAK to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Acknowledge {
    pub(super) psn: Psn,
    pub(super) aeth: Aeth,
}

/// The rest of a READ response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadResponse {
    pub(super) content: Content,
    /// PSN of the next packet.
    pub(super) next: Seq,
    /// Where in the READ its data begins …
    pub(super) offset: u64,
    /// … and where the response ends.
    pub(super) end: u64,
    /// The next packet is the first of the message.
    pub(super) starts: bool,
    pub(super) msn: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Response {
    Acknowledge(Acknowledge),
    /// The word before an atomic.
    Original {
        psn: Psn,
        aeth: Aeth,
        original: u64,
    },
    Read(ReadResponse),
}

/// Responses that wait for the port, in the order they were decided on.
#[derive(Default, Debug)]
pub(super) struct Responses {
    waiting: VecDeque<Response>,
}

impl Responses {
    /// Whether there is no room for another one.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_RESPONSES
    }

    pub(super) fn push(&mut self, response: Response) {
        self.waiting.push_back(response);
    }

    /// Whether the newest response is this one.
    pub(super) fn ends_with(&self, acknowledge: &Acknowledge) -> bool {
        matches!(self.waiting.back(), Some(Response::Acknowledge(newest)) if newest == acknowledge)
    }

    /// Whether there is a response, and whether it is data of a READ.
    pub(super) fn front_is_data(&self) -> Option<bool> {
        self.waiting.front().map(|response| matches!(response, Response::Read(_)))
    }

    /// The packet to be sent next.
    pub(super) fn next_packet(&self, pmtu: u64) -> Option<Packet> {
        let packet = |opcode, psn, extension, payload| Packet {
            opcode,
            psn,
            ack_req: false,
            switch_bit: false,
            extension,
            payload,
        };
        Some(match *self.waiting.front()? {
            Response::Acknowledge(Acknowledge { psn, aeth }) => {
                packet(Opcode::ACK, psn, Extension::Aeth(aeth), None)
            }
            Response::Original { psn, aeth, original } => {
                packet(Opcode::ATOMIC_ACK, psn, Extension::AtomicAck(aeth, original), None)
            }
            Response::Read(read) => {
                let len = (read.end - read.offset).min(pmtu);
                let ends = read.offset + len == read.end;
                let opcode = match (read.starts, ends) {
                    (true, true) => Opcode::READ_RESPONSE_ONLY,
                    (true, false) => Opcode::READ_RESPONSE_FIRST,
                    (false, false) => Opcode::READ_RESPONSE_MIDDLE,
                    (false, true) => Opcode::READ_RESPONSE_LAST,
                };
                let extension = if opcode.has_aeth() {
                    Extension::Aeth(Aeth { syndrome: Aeth::ACK_UNLIMITED, msn: read.msn })
                } else {
                    Extension::None
                };
                let payload =
                    Payload { content: read.content, offset: read.offset, len: len as usize };
                packet(opcode, read.next.psn(), extension, Some(payload))
            }
        })
    }

    /// The packet from [`next_packet`](Self::next_packet) is leaving.
    pub(super) fn sent(&mut self, pmtu: u64) {
        if let Some(Response::Read(read)) = self.waiting.front_mut()
            && read.offset + pmtu < read.end
        {
            read.offset += pmtu;
            read.next = read.next.next();
            read.starts = false;
        } else {
            self.waiting.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}
