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
    /// A control message of the gateways.
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

    /// Looks at the BTH opcode of `frame`, or of the one that it carries.
    pub fn of(frame: &[u8]) -> Self {
        if frame.get(SHIM - 2..=SHIM) == Some(&[TUNNEL[0], TUNNEL[1], MESSAGE]) {
            return Self::Control;
        }
        let Ok(roce) = wire::parse(within(frame)) else { return Self::Other };
        match roce.opcode {
            CONTROL => Self::Control,
            opcode if opcode.kind().is_request() => Self::Request,
            opcode if opcode.kind().is_response() => Self::Response,
            _ => Self::Other,
        }
    }
}

/// EtherType of the tunnel unless a gateway is configured otherwise (`docs/tunnel.md`).
const TUNNEL: [u8; 2] = [0x88, 0xb5];
/// Offset of the shim behind it, and its first byte, by its content.
const SHIM: usize = 14;
const FRAME: u8 = 0x10;
const RESENT: u8 = 0x11;
const MESSAGE: u8 = 0x13;
/// Bytes of MAC addresses.
const MACS: usize = 12;

/// The frame that a frame of the tunnel carries, and any other itself. Its first twelve bytes are not
/// its MAC addresses.
pub fn within(frame: &[u8]) -> &[u8] {
    let shim = match frame.get(SHIM - 2..=SHIM) {
        Some(&[a, b, FRAME]) if [a, b] == TUNNEL => 16,
        Some(&[a, b, RESENT]) if [a, b] == TUNNEL => 24,
        _ => return frame,
    };
    frame.get(SHIM + shim - MACS..).unwrap_or(frame)
}

/// Opcode of LR2 control messages unless a gateway is configured otherwise.
const CONTROL: Opcode = DEFAULT_OPCODE;

#[cfg(test)]
mod tests {
    use super::*;
    use common::psn::Psn;
    use common::wire::{Bth, Headers, Qpn, Vlans};

    #[test]
    fn a_frame_in_a_tunnel_is_of_its_own_kind() {
        let headers = Headers::new(
            [2; 6],
            [4; 6],
            Vlans::NONE,
            [10, 0, 0, 1].into(),
            [10, 0, 0, 2].into(),
            0xc001,
            0,
            64,
        );
        let mut plain = vec![0; headers.frame_len(64)];
        let bth = Bth::new(Opcode::SEND_MIDDLE, Qpn::new(9), Psn::new(5));
        headers.emit(&bth, &mut plain, |body| body.fill(3));
        let wrapped = |first: u8, shim: usize| {
            [&plain[..12], &TUNNEL, &[first], &vec![7; shim - 1], &plain[12..]].concat()
        };
        for frame in [plain.clone(), wrapped(FRAME, 16), wrapped(RESENT, 24)] {
            assert_eq!(FrameKind::of(&frame), FrameKind::Request);
            assert_eq!(within(&frame)[12..], plain[12..]);
        }
        assert_eq!(FrameKind::of(&wrapped(MESSAGE, 60)), FrameKind::Control);
        assert_eq!(FrameKind::of(&wrapped(FRAME, 16)[..20]), FrameKind::Other);
    }
}
