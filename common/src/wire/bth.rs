//! The base transport header, as a builder sees it.

use super::{BTH_LEN, Opcode, Qpn, be16, be32};
use crate::psn::Psn;

/// The partition every RoCE port is a full member of. RoCEv2 hosts ignore the
/// P_Key, but send it.
pub const DEFAULT_PKEY: u16 = 0xffff;

/// Bit of the first flags byte: solicited event.
const SOLICITED: u8 = 0x80;
/// Bit of the first flags byte: path migration state.
pub(super) const MIGRATED: u8 = 0x40;
/// Bit of the byte before the destination QPN: congestion on the way back.
pub(super) const BECN: u8 = 0x40;
/// Bit of the byte before the PSN: the responder is to acknowledge.
pub(super) const ACK_REQ: u8 = 0x80;
/// Reserved bit of the same byte: see [`super::has_switch_bit`].
pub(super) const SWITCH: u8 = 0x40;

/// A base transport header (9.2). The remaining fields, FECN, BECN, the
/// transport version and the reserved bits, are 0 in packets of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// The opcode.
    pub opcode: Opcode,
    /// Ask for a completion event at the destination.
    pub solicited: bool,
    /// Bytes between payload and ICRC, 0 to 3.
    pub pad: u8,
    /// Partition key.
    pub pkey: u16,
    /// QP at the destination.
    pub dest_qpn: Qpn,
    /// Ask the responder to acknowledge.
    pub ack_req: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl Bth {
    /// A header with the usual partition and no flags.
    pub const fn new(opcode: Opcode, dest_qpn: Qpn, psn: Psn) -> Self {
        let pkey = DEFAULT_PKEY;
        Self { opcode, solicited: false, pad: 0, pkey, dest_qpn, ack_req: false, psn }
    }

    /// As on the wire; of `pad` only the bits that fit.
    pub const fn to_bytes(&self) -> [u8; BTH_LEN] {
        let solicited = if self.solicited { SOLICITED } else { 0 };
        let ack_req = if self.ack_req { ACK_REQ } else { 0 };
        let pkey = self.pkey.to_be_bytes();
        let qpn = self.dest_qpn.get().to_be_bytes();
        let psn = self.psn.get().to_be_bytes();
        [
            self.opcode.0,
            solicited | (self.pad & 3) << 4,
            pkey[0],
            pkey[1],
            0,
            qpn[1],
            qpn[2],
            qpn[3],
            ack_req,
            psn[1],
            psn[2],
            psn[3],
        ]
    }

    /// From the wire.
    #[inline(always)]
    pub const fn from_bytes(b: &[u8; BTH_LEN]) -> Self {
        // In whole words: a load each.
        let (qpn, psn) = (be32(b, 4), be32(b, 8));
        Self {
            opcode: Opcode(b[0]),
            solicited: b[1] & SOLICITED != 0,
            pad: b[1] >> 4 & 3,
            pkey: be16(b, 2),
            dest_qpn: Qpn::new(qpn),
            ack_req: psn >> 24 & ACK_REQ as u32 != 0,
            psn: Psn::new(psn),
        }
    }
}
