//! The kind of a frame, for the counters. The link treats all kinds alike.

use common::control::DEFAULT_OPCODE;
use common::wire::{self, Opcode};

/// The content of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    /// An RC request: SEND, WRITE, READ request, atomic.
    Request,
    /// A response: ACK, NAK, READ response, atomic ACK.
    Response,
    /// An LR2 control message.
    Control,
    /// All the rest, malformed RoCE included.
    Other,
}

impl FrameKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Request, Self::Response, Self::Control, Self::Other];

    /// Label in the JSON counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Control => "control",
            Self::Other => "other",
        }
    }

    /// Looks at the BTH opcode of `frame`.
    pub fn of(frame: &[u8]) -> Self {
        let Ok(roce) = wire::parse(frame) else { return Self::Other };
        match roce.opcode {
            CONTROL => Self::Control,
            opcode if opcode.kind().is_request() => Self::Request,
            opcode if opcode.kind().is_response() => Self::Response,
            _ => Self::Other,
        }
    }
}

/// Opcode of LR2 control messages unless a gateway is configured otherwise.
const CONTROL: Opcode = DEFAULT_OPCODE;
