//! RoCEv2 frames with any headers.

use std::net::IpAddr;

use common::psn::Psn;
use common::wire::{Bth, Deth, Headers, Opcode, Qpn, Vlans};

/// Headers from host `from` to host `to`, last bytes of their addresses.
pub fn headers(from: u8, to: u8, vlans: Vlans) -> Headers {
    let ip = |last| IpAddr::from([10, 0, 0, last]);
    Headers::new([from; 6], [to; 6], vlans, ip(from), ip(to), 50_000, 0, 64)
}

/// The same over IPv6.
pub fn headers_v6(from: u8, to: u8, vlans: Vlans) -> Headers {
    let ip = |last: u8| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last.into()]);
    Headers::new([from; 6], [to; 6], vlans, ip(from), ip(to), 50_000, 0, 64)
}

/// A frame with `body` between its BTH and its ICRC.
pub fn with_bth(headers: &Headers, bth: &Bth, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; headers.frame_len(body.len())];
    headers.emit(bth, &mut frame, |out| out.copy_from_slice(body));
    frame
}

/// A packet without flags.
pub fn frame(headers: &Headers, opcode: Opcode, qpn: u32, psn: u32, body: &[u8]) -> Vec<u8> {
    with_bth(headers, &Bth::new(opcode, Qpn::new(qpn), Psn::new(psn)), body)
}

/// A MAD of connection management, with these bytes at these offsets behind its header.
pub fn mad(attribute: u8, fields: &[(usize, &[u8])]) -> [u8; 256] {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    mad[17] = attribute;
    for (at, bytes) in fields {
        mad[24 + at..][..bytes.len()].copy_from_slice(bytes);
    }
    mad
}

/// A datagram between the QPs of connection management.
pub fn datagram(headers: &Headers, mad: &[u8]) -> Vec<u8> {
    let deth = Deth { qkey: 0x8001_0000, src_qpn: Qpn::GSI }.to_bytes();
    frame(headers, Opcode::UD_SEND_ONLY, 1, 0, &[&deth[..], mad].concat())
}

/// The frame with one bit flipped that the ICRC covers.
pub fn damaged(mut frame: Vec<u8>) -> Vec<u8> {
    let at = frame.len() - 6;
    frame[at] ^= 1;
    frame
}
