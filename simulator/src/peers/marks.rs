//! NAKs that a switch makes, for RNICs that know them, and CNPs.

use common::frame::{Frame, Pool};
use common::psn::{Psn, Seq};
use common::wire::{Aeth, CNP_LEN, Headers, Roce};

use super::partner;
use crate::frame::{SimFrame, SimPool};

/// A NAK of a switch to the sender of `frame`: go back to `missing`; nothing is
/// acknowledged. Between switches its MSN says how many packets are missing.
pub(super) fn nak(frame: &SimFrame, roce: &Roce, missing: Seq, count: u64) -> SimFrame {
    let mut headers = Headers::of(frame.bytes(), roce).reversed();
    headers.set_switch_bit(true);
    let mut nak = SimPool.alloc(headers.frame_len(Aeth::LEN)).expect("memory without end");
    let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn: count as u32 & (Psn::MODULUS - 1) };
    headers.emit_ack(partner(roce.dest_qpn), missing.psn(), aeth, nak.bytes_mut());
    nak
}

/// A CNP to the sender of `frame`.
pub(super) fn cnp(frame: &SimFrame, roce: &Roce) -> SimFrame {
    let headers = Headers::of(frame.bytes(), roce).reversed();
    let mut cnp = SimPool.alloc(headers.frame_len(CNP_LEN)).expect("memory without end");
    headers.emit_cnp(partner(roce.dest_qpn), cnp.bytes_mut());
    cnp
}
