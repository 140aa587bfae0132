//! Extension headers that follow the BTH, by opcode.

use super::{Qpn, be24, be32};

/// ACK extended transport header (9.3.5): the verdict of a responder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Aeth {
    /// The syndrome; see [`Aeth::kind`].
    pub syndrome: u8,
    /// Messages completed so far, modulo 2^24.
    pub msn: u32,
}

/// The meaning of a syndrome (9.7.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AethKind {
    /// All up to and including this PSN has arrived.
    Ack {
        /// Credit code, 0 to 31; 31 is no limit.
        credits: u8,
    },
    /// All before this PSN has arrived; for this one no receive buffer was
    /// ready: try again later.
    Rnr {
        /// Timer code, 0 to 31.
        timer: u8,
    },
    /// All before this PSN has arrived; this one is refused.
    Nak {
        /// 0 PSN sequence error, 1 invalid request, 2 remote access error,
        /// 3 remote operational error; the rest is reserved.
        code: u8,
    },
    /// A syndrome without meaning.
    Reserved,
}

impl Aeth {
    /// Length on the wire.
    pub const LEN: usize = 4;

    /// Syndrome: ACK without limit of credits.
    pub const ACK_UNLIMITED: u8 = 0x1f;
    /// Syndrome: RNR NAK, to which the timer code is added.
    pub const RNR: u8 = 0x20;
    /// Syndrome: NAK, PSN sequence error. The one that go-back-N answers.
    pub const NAK_PSN_SEQUENCE: u8 = 0x60;
    /// Syndrome: NAK, invalid request.
    pub const NAK_INVALID_REQUEST: u8 = 0x61;
    /// Syndrome: NAK, remote access error.
    pub const NAK_REMOTE_ACCESS: u8 = 0x62;

    /// The meaning of the syndrome. Its top bit is reserved.
    pub const fn kind(self) -> AethKind {
        let low = self.syndrome & 0x1f;
        match self.syndrome >> 5 {
            0 => AethKind::Ack { credits: low },
            1 => AethKind::Rnr { timer: low },
            3 => AethKind::Nak { code: low },
            _ => AethKind::Reserved,
        }
    }

    /// Whether it acknowledges its own PSN, and not only those before.
    pub const fn is_ack(self) -> bool {
        matches!(self.kind(), AethKind::Ack { .. })
    }

    /// As on the wire; of `msn` the low 24 bits.
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let msn = self.msn.to_be_bytes();
        [self.syndrome, msn[1], msn[2], msn[3]]
    }

    /// From the wire.
    pub const fn from_bytes(b: &[u8; Self::LEN]) -> Self {
        Self { syndrome: b[0], msn: be24(b, 1) }
    }
}

/// RDMA extended transport header: which memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reth {
    /// Virtual address at the responder.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Bytes of the whole message, at most 2^31.
    pub len: u32,
}

impl Reth {
    /// Length on the wire.
    pub const LEN: usize = 16;

    /// As on the wire.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut b = [0; Self::LEN];
        b[..8].copy_from_slice(&self.va.to_be_bytes());
        b[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        b[12..].copy_from_slice(&self.len.to_be_bytes());
        b
    }

    /// From the wire.
    pub const fn from_bytes(b: &[u8; Self::LEN]) -> Self {
        Self { va: be64(b, 0), rkey: be32(b, 8), len: be32(b, 12) }
    }
}

/// Atomic extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AtomicEth {
    /// Virtual address at the responder, a multiple of 8.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// The value to add, or to swap in.
    pub swap_add: u64,
    /// The value to compare with; of no meaning to fetch-and-add.
    pub compare: u64,
}

impl AtomicEth {
    /// Length on the wire.
    pub const LEN: usize = 28;

    /// As on the wire.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut b = [0; Self::LEN];
        b[..8].copy_from_slice(&self.va.to_be_bytes());
        b[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        b[12..20].copy_from_slice(&self.swap_add.to_be_bytes());
        b[20..].copy_from_slice(&self.compare.to_be_bytes());
        b
    }

    /// From the wire.
    pub const fn from_bytes(b: &[u8; Self::LEN]) -> Self {
        Self { va: be64(b, 0), rkey: be32(b, 8), swap_add: be64(b, 12), compare: be64(b, 20) }
    }
}

/// Datagram extended transport header: whom a UD packet is from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// The sender's QP.
    pub src_qpn: Qpn,
}

impl Deth {
    /// Length on the wire.
    pub const LEN: usize = 8;

    /// As on the wire.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut b = [0; Self::LEN];
        b[..4].copy_from_slice(&self.qkey.to_be_bytes());
        b[5..].copy_from_slice(&self.src_qpn.get().to_be_bytes()[1..]);
        b
    }

    /// From the wire.
    pub const fn from_bytes(b: &[u8; Self::LEN]) -> Self {
        Self { qkey: be32(b, 0), src_qpn: Qpn::new(be24(b, 5)) }
    }
}

const fn be64(b: &[u8], at: usize) -> u64 {
    (be32(b, at) as u64) << 32 | be32(b, at + 4) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syndromes() {
        for (syndrome, kind) in [
            (Aeth::ACK_UNLIMITED, AethKind::Ack { credits: 31 }),
            (0x00, AethKind::Ack { credits: 0 }),
            (Aeth::RNR + 12, AethKind::Rnr { timer: 12 }),
            (0x40, AethKind::Reserved),
            (Aeth::NAK_PSN_SEQUENCE, AethKind::Nak { code: 0 }),
            (0x63, AethKind::Nak { code: 3 }),
            (0x9f, AethKind::Reserved),
        ] {
            assert_eq!(Aeth { syndrome, msn: 0 }.kind(), kind, "{syndrome:#x}");
        }
    }

    #[test]
    fn bytes_and_back() {
        let aeth = Aeth { syndrome: 0x60, msn: 0xabcdef };
        assert_eq!(Aeth::from_bytes(&aeth.to_bytes()), aeth);
        let reth = Reth { va: 0x0102_0304_0506_0708, rkey: 0x090a_0b0c, len: 0x0d0e_0f10 };
        assert_eq!(reth.to_bytes(), core::array::from_fn(|i| i as u8 + 1));
        assert_eq!(Reth::from_bytes(&reth.to_bytes()), reth);
        let atomic = AtomicEth { va: 8, rkey: 7, swap_add: u64::MAX - 3, compare: 1 << 60 };
        assert_eq!(AtomicEth::from_bytes(&atomic.to_bytes()), atomic);
        let deth = Deth { qkey: 0x8001_0000, src_qpn: Qpn::new(0x123456) };
        assert_eq!(Deth::from_bytes(&deth.to_bytes()), deth);
    }
}
