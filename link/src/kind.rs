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
        if shim(frame).is_some_and(|(at, _)| frame.get(at) == Some(&MESSAGE)) {
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

/// EtherType of the tunnel and UDP port of its datagrams, unless a gateway is configured otherwise
/// (`docs/tunnel.md`).
const TUNNEL: [u8; 2] = [0x88, 0xb5];
const PORT: [u8; 2] = 49791_u16.to_be_bytes();
/// First byte of a shim, by its content.
const FRAME: u8 = 0x20;
const RESENT: u8 = 0x21;
const MESSAGE: u8 = 0x23;
/// Bytes of MAC addresses, of an Ethernet header without tags, and of a UDP header.
const MACS: usize = 12;
const ETHERNET: usize = 14;
const UDP: usize = 8;

/// Offset of the shim of a frame of the tunnel, and how many bytes of the frame within precede it.
fn shim(frame: &[u8]) -> Option<(usize, usize)> {
    let at = |at: usize, bytes: &[u8]| frame.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    let udp = |ip: usize| at(ETHERNET + ip + 2, &PORT).then_some((ETHERNET + ip + UDP, 0));
    match *frame.get(MACS..=ETHERNET)? {
        [a, b, _] if [a, b] == TUNNEL => Some((ETHERNET, MACS)),
        // IPv4 without options, and IPv6, with UDP.
        [0x08, 0x00, 0x45] if at(ETHERNET + 9, &[17]) => udp(20),
        [0x86, 0xdd, _] if at(ETHERNET + 6, &[17]) => udp(40),
        _ => None,
    }
}

/// The frame that a frame of the tunnel carries, and any other itself. Its first twelve bytes need not be
/// its MAC addresses.
pub fn within(frame: &[u8]) -> &[u8] {
    let Some((at, before)) = shim(frame) else { return frame };
    let len = match frame.get(at) {
        Some(&FRAME) => 16,
        Some(&RESENT) => 24,
        _ => return frame,
    };
    frame.get(at + len - before..).unwrap_or(frame)
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
        let shim = |first: u8, len: usize| [&[first][..], &vec![7; len - 1]].concat();
        let ethernet =
            |shim: Vec<u8>| [&plain[..MACS], &TUNNEL, &shim[..], &plain[MACS..]].concat();
        let outer = |ether: [u8; 2], ip: &[u8], shim: Vec<u8>| {
            let udp = [&50_000_u16.to_be_bytes(), &PORT, &[0; 4][..]].concat();
            [&[6; MACS][..], &ether, ip, &udp, &shim, &plain].concat()
        };
        let v4 = |shim| outer([0x08, 0x00], &[&[0x45; 9][..], &[17; 11]].concat(), shim);
        let v6 = |shim| outer([0x86, 0xdd], &[&[0x60; 6][..], &[17; 34]].concat(), shim);
        let wraps: [&dyn Fn(Vec<u8>) -> Vec<u8>; 3] = [&ethernet, &v4, &v6];
        assert_eq!(FrameKind::of(&plain), FrameKind::Request);
        for wrapped in wraps {
            for frame in [wrapped(shim(FRAME, 16)), wrapped(shim(RESENT, 24))] {
                assert_eq!(FrameKind::of(&frame), FrameKind::Request);
                assert_eq!(within(&frame)[MACS..], plain[MACS..]);
            }
            assert_eq!(FrameKind::of(&wrapped(shim(MESSAGE, 60))), FrameKind::Control);
            let whole = wrapped(shim(FRAME, 16));
            (0..whole.len()).for_each(|len| _ = FrameKind::of(&whole[..len]));
        }
        assert_eq!(FrameKind::of(&ethernet(shim(FRAME, 16))[..20]), FrameKind::Other);
    }
}
