//! NAKs that a switch makes, for RNICs that know them.

use common::frame::{Frame, Pool};
use common::psn::{Psn, Seq};
use common::wire::{Aeth, Headers, ICRC_LEN, Roce, icrc, parse};

use super::partner;
use crate::frame::{SimFrame, SimPool};

/// The byte of the BTH with AckReq, and the bit next to that.
const FLAGS: usize = 8;
const MARK: u8 = 0x40;

/// Whether a NAK is a switch's, or a packet is sent again because of one.
pub(super) fn is_marked(frame: &SimFrame, roce: &Roce) -> bool {
    frame.bytes()[usize::from(roce.bth) + FLAGS] & MARK != 0
}

/// A NAK of a switch to the sender of `frame`: go back to `missing`; nothing is
/// acknowledged. Between switches its MSN says how many packets are missing.
pub(super) fn nak(frame: &SimFrame, roce: &Roce, missing: Seq, count: u64) -> SimFrame {
    let headers = Headers::of(frame.bytes(), roce).reversed();
    let mut nak = SimPool.alloc(headers.frame_len(Aeth::LEN)).expect("memory without end");
    let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn: count as u32 & (Psn::MODULUS - 1) };
    let bytes = nak.bytes_mut();
    headers.emit_ack(partner(roce.dest_qpn), missing.psn(), aeth, bytes);
    let roce = parse(bytes).expect("made here");
    bytes[usize::from(roce.bth) + FLAGS] |= MARK;
    let at = roce.icrc_at();
    let crc = icrc(bytes, &roce).to_le_bytes();
    bytes[at..at + ICRC_LEN].copy_from_slice(&crc);
    nak
}
