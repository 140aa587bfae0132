//! Packets of one flow, from QP 0x77 to QP 0x11.
//!
//! PSNs are counted from the flow's first packet, which lies just before the
//! end of the PSN space: every test also crosses the wrap.

use common::control::PsnRange;
use common::psn::Psn;
use common::time::Time;
use common::wire::{Aeth, Bth, Opcode, Qpn, Reth, Vlans};

use crate::packets;
pub use crate::packets::damaged;

/// The flow's first PSN.
pub const FIRST: Psn = Psn::new(0xff_fff8);

/// When a flow begins.
pub const START: Time = Time::from_nanos(1_000_000_000);

/// The PSN of packet `n`.
pub fn psn(n: i32) -> Psn {
    FIRST.offset(n as u32)
}

/// The number of the packet with this PSN.
pub fn count_of(psn: Psn) -> i32 {
    psn.distance(FIRST)
}

/// Ranges as from .. to.
pub fn counted(ranges: &[PsnRange]) -> Vec<(i32, i32)> {
    let count = |r: &PsnRange| (count_of(r.start), count_of(r.start) + r.len as i32);
    ranges.iter().map(count).collect()
}

/// A full packet from the middle of a WRITE.
pub fn write(n: i32) -> Vec<u8> {
    packet(Opcode::WRITE_MIDDLE, n, false, 256)
}

/// The last packet of a WRITE with PSN `n`, which asks for an ACK.
pub fn asking(n: i32) -> Vec<u8> {
    packet(Opcode::WRITE_LAST, n, true, 256)
}

/// A READ of `len` bytes.
pub fn read(n: i32, len: u32) -> Vec<u8> {
    let reth = Reth { va: 0, rkey: 0, len };
    with_bth(Bth::new(Opcode::READ_REQUEST, Qpn::new(0x11), psn(n)), &reth.to_bytes())
}

/// An ACK with an atomic's old value.
pub fn atomic_ack(n: i32) -> Vec<u8> {
    let aeth = Aeth { syndrome: Aeth::ACK_UNLIMITED, msn: 1 }.to_bytes();
    with_bth(Bth::new(Opcode::ATOMIC_ACK, Qpn::new(0x77), psn(n)), &[&aeth[..], &[0; 8]].concat())
}

/// A packet of a READ response; `opcode` says which.
pub fn response(opcode: Opcode, n: i32) -> Vec<u8> {
    let aeth = Aeth { syndrome: Aeth::ACK_UNLIMITED, msn: 1 }.to_bytes();
    let content = [if opcode.has_aeth() { &aeth[..] } else { &[] }, &[n as u8; 256]].concat();
    with_bth(Bth::new(opcode, Qpn::new(0x77), psn(n)), &content)
}

/// An ACK or NAK.
pub fn plain_response(n: i32, syndrome: u8, msn: u32) -> Vec<u8> {
    with_bth(Bth::new(Opcode::ACK, Qpn::new(0x77), psn(n)), &Aeth { syndrome, msn }.to_bytes())
}

/// A request with `len` bytes behind its BTH.
pub fn packet(opcode: Opcode, n: i32, ack_req: bool, len: usize) -> Vec<u8> {
    with_bth(Bth { ack_req, ..Bth::new(opcode, Qpn::new(0x11), psn(n)) }, &vec![n as u8; len])
}

/// A packet of the flow, or of its destination.
pub fn with_bth(bth: Bth, body: &[u8]) -> Vec<u8> {
    packets::with_bth(&packets::headers(1, 2, Vlans::NONE), &bth, body)
}
