//! Connection management: the datagrams on QP 1 with which two hosts join
//! their queue pairs.
//!
//! They carry facts that data packets don't: which QP numbers belong together, at
//! which PSNs both directions begin, and the path MTU. [`read`] takes a
//! message out of a frame; anything it isn't sure of is `None`, and passes.
//!
//! A message is a management datagram (MAD, 13.4) of class 7 in a UD packet.
//! Tables and offsets are those of chapter 12.6, which
//! Linux has in `include/rdma/ibta_vol1_c12.h`. Only fields that a gateway can
//! use are read. LAP, APR and SIDR are not: they are about alternate paths
//! and datagrams.
//!
//! [`emit`] is the other way round, for models of hosts.

use super::{Addr, Bth, Deth, Headers, Opcode, Qpn, Roce, be16, be24, be32};
use crate::psn::Psn;

/// Queue key of QP 1, the same everywhere (Linux: `IB_QP1_QKEY`).
const GSI_QKEY: u32 = 0x8001_0000;

/// Length of every MAD.
const MAD_LEN: usize = 256;
/// Length of the header that MADs have in common.
const HEADER_LEN: usize = 24;
/// Base version, management class, class version, and the method Send.
const CM_SEND: [u8; 4] = [1, 0x07, 2, 0x03];

/// A host's id for a connection; of no meaning to others.
pub type CommId = u32;

/// A message, as far as a gateway can use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// Asks for a connection.
    Req(Req),
    /// The reply to one takes its time.
    Mra(Ids),
    /// No.
    Rej(Rej),
    /// Yes.
    Rep(Rep),
    /// The connection is in use.
    Rtu(Ids),
    /// Ends a connection.
    Dreq(Dreq),
    /// Confirms the end.
    Drep(Ids),
}

/// The ids of the connection at both ends, from the sender's point of view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ids {
    /// The sender's.
    pub local: CommId,
    /// The receiver's.
    pub remote: CommId,
}

/// A request for communication (table 106).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Req {
    /// The sender's id.
    pub local: CommId,
    /// The sender's QP.
    pub qpn: Qpn,
    /// Where the *receiver* is to begin: the PSN of the first packet that is
    /// sent to `qpn`.
    pub starting_psn: Psn,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096.
    pub pmtu: u16,
    /// Whether the service is RC, and not UC, RD or XRC.
    pub is_rc: bool,
    /// Address of the sender's port: the GID, which is its IP address with
    /// RoCEv2 (A17).
    pub local_gid: Addr,
    /// Address of the receiver's port.
    pub remote_gid: Addr,
}

/// A reply, which accepts (table 110).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rep {
    /// The ids of the connection.
    pub ids: Ids,
    /// The sender's QP.
    pub qpn: Qpn,
    /// Where the *receiver* is to begin, as in [`Req`].
    pub starting_psn: Psn,
}

/// A rejection (table 108).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rej {
    /// The ids of the connection; 0 where the sender has none yet.
    pub ids: Ids,
    /// Why (12.6.7.2).
    pub reason: u16,
}

/// A request to end a connection (table 112).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dreq {
    /// The ids of the connection.
    pub ids: Ids,
    /// The receiver's QP.
    pub remote_qpn: Qpn,
}

/// Whether the packet could hold a message. The rest of [`read`] is for those
/// few that do.
#[inline]
pub fn is_candidate(roce: &Roce) -> bool {
    roce.opcode == Opcode::UD_SEND_ONLY && roce.dest_qpn == Qpn::GSI
}

/// The message in a frame, `None` if there is none that is well-formed. Never
/// panics.
///
/// The ICRC isn't looked at: ask [`icrc_ok`](super::icrc_ok) before anything
/// is believed.
pub fn read(frame: &[u8], roce: &Roce) -> Option<Message> {
    if !is_candidate(roce) {
        return None;
    }
    let deth = roce.deth(frame)?;
    if deth.qkey != GSI_QKEY || deth.src_qpn != Qpn::GSI {
        return None;
    }
    let mad: &[u8; MAD_LEN] = roce.payload(frame).try_into().ok()?;
    let body: &[u8; MAD_LEN - HEADER_LEN] = mad[HEADER_LEN..].first_chunk()?;
    if mad[..4] != CM_SEND {
        return None;
    }
    let ids = Ids { local: be32(body, 0), remote: be32(body, 4) };
    Some(match be16(mad, 16) {
        0x10 => Message::Req(Req {
            local: ids.local,
            qpn: Qpn::new(be24(body, 32)),
            starting_psn: Psn::new(be24(body, 44)),
            pmtu: pmtu(body[50] >> 4)?,
            // The type of service RC; 3 refers to another field.
            is_rc: body[43] >> 1 & 3 == 0,
            local_gid: gid(body, 56),
            remote_gid: gid(body, 72),
        }),
        0x11 => Message::Mra(ids),
        0x12 => Message::Rej(Rej { ids, reason: be16(body, 10) }),
        0x13 => Message::Rep(Rep {
            ids,
            qpn: Qpn::new(be24(body, 12)),
            starting_psn: Psn::new(be24(body, 20)),
        }),
        0x14 => Message::Rtu(ids),
        0x15 => Message::Dreq(Dreq { ids, remote_qpn: Qpn::new(be24(body, 8)) }),
        0x16 => Message::Drep(ids),
        _ => return None,
    })
}

/// Writes a message as a host sends it to `frame`, whose length is
/// [`frame_len`]. Fields that [`Message`] lacks are 0. `transaction` ties a REQ,
/// or a DREQ, to its replies; `psn` counts the packets of QP 1.
///
/// # Panics
/// If `frame` has another length, or a path MTU is none.
pub fn emit(headers: &Headers, psn: Psn, transaction: u64, message: &Message, frame: &mut [u8]) {
    let mut mad = [0; MAD_LEN];
    mad[..4].copy_from_slice(&CM_SEND);
    mad[8..16].copy_from_slice(&transaction.to_be_bytes());
    mad[16..18].copy_from_slice(&message.attribute().to_be_bytes());
    message.write(&mut mad[HEADER_LEN..]);
    headers.emit(&Bth::new(Opcode::UD_SEND_ONLY, Qpn::GSI, psn), frame, |body| {
        let deth = Deth { qkey: GSI_QKEY, src_qpn: Qpn::GSI };
        body[..Deth::LEN].copy_from_slice(&deth.to_bytes());
        body[Deth::LEN..][..MAD_LEN].copy_from_slice(&mad);
    });
}

/// Length of a frame with a message, behind these headers.
pub fn frame_len(headers: &Headers) -> usize {
    headers.frame_len(Deth::LEN + MAD_LEN)
}

impl Message {
    /// The attribute of its MAD (12.6, table 104).
    const fn attribute(&self) -> u16 {
        match self {
            Self::Req(_) => 0x10,
            Self::Mra(_) => 0x11,
            Self::Rej(_) => 0x12,
            Self::Rep(_) => 0x13,
            Self::Rtu(_) => 0x14,
            Self::Dreq(_) => 0x15,
            Self::Drep(_) => 0x16,
        }
    }

    /// Writes the message into the rest of a MAD, behind the common header.
    fn write(&self, body: &mut [u8]) {
        let mut put = |at: usize, bytes: &[u8]| body[at..at + bytes.len()].copy_from_slice(bytes);
        let three = |number: u32| (number << 8).to_be_bytes();
        let ids = match self {
            Self::Req(req) => Ids { local: req.local, remote: 0 },
            Self::Rep(rep) => rep.ids,
            Self::Rej(rej) => rej.ids,
            Self::Dreq(dreq) => dreq.ids,
            Self::Mra(ids) | Self::Rtu(ids) | Self::Drep(ids) => *ids,
        };
        put(0, &ids.local.to_be_bytes());
        put(4, &ids.remote.to_be_bytes());
        match self {
            Self::Req(req) => {
                put(32, &three(req.qpn.get()));
                // RC is type of service 0; all others count as one.
                put(43, &[if req.is_rc { 0 } else { 1 << 1 }]);
                put(44, &three(req.starting_psn.get()));
                put(50, &[code(req.pmtu) << 4]);
                put(56, req.local_gid.as_bytes());
                put(72, req.remote_gid.as_bytes());
            }
            Self::Rep(rep) => {
                put(12, &three(rep.qpn.get()));
                put(20, &three(rep.starting_psn.get()));
            }
            Self::Rej(rej) => put(10, &rej.reason.to_be_bytes()),
            Self::Dreq(dreq) => put(8, &three(dreq.remote_qpn.get())),
            Self::Mra(_) | Self::Rtu(_) | Self::Drep(_) => {}
        }
    }
}

/// The code of a path MTU: the reverse of [`pmtu`].
const fn code(pmtu: u16) -> u8 {
    (pmtu >> 7).ilog2() as u8
}

/// Bytes of a path MTU's code: 1 is 256, 5 is 4096.
const fn pmtu(code: u8) -> Option<u16> {
    match code {
        1..=5 => Some(128 << code),
        _ => None,
    }
}

fn gid(body: &[u8], at: usize) -> Addr {
    let mut gid = [0; 16];
    gid.copy_from_slice(&body[at..at + 16]);
    Addr::from_v6(gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_mtus() {
        assert_eq!((1..=5).filter_map(pmtu).collect::<Vec<_>>(), [256, 512, 1024, 2048, 4096]);
        assert_eq!([0, 6, 15].map(pmtu), [None; 3]);
    }
}
