//! BTH opcodes: which transport, which operation, which part of a message.

use core::fmt;

/// The opcode byte of a BTH: the transport in the top three bits, the
/// operation in the others (9.2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

/// The transport service an opcode belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// Reliable connection: the transport that the gateway protects.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagram.
    Rd,
    /// Unreliable datagram; connection management (MADs) among it.
    Ud,
    /// Congestion notification packets.
    Cnp,
    /// Extended reliable connection.
    Xrc,
    /// Left to manufacturers; our control messages take one of these.
    Manufacturer,
    /// A prefix that nobody has defined.
    Unknown,
}

/// Which part of its message a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The whole message.
    Only,
}

impl Position {
    /// First or only.
    pub const fn starts_message(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Last or only.
    pub const fn ends_message(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// The operation of an RC packet. Immediate data and invalidation make no difference
/// to recovery, so they make none here; see [`Opcode::has_imm`] and
/// [`Opcode::has_ieth`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PacketKind {
    /// Part of a SEND.
    Send(Position),
    /// Part of a RDMA WRITE.
    Write(Position),
    /// A RDMA READ request; takes as many PSNs as its response has packets.
    ReadRequest,
    /// Compare-and-swap or fetch-and-add.
    Atomic,
    /// ATOMIC WRITE; answered like a READ.
    AtomicWrite,
    /// FLUSH; answered like a READ.
    Flush,
    /// Part of a READ response.
    ReadResponse(Position),
    /// ACK or NAK; the AETH tells which.
    Ack,
    /// The response to an atomic.
    AtomicAck,
    /// No RC opcode, or one that isn't defined.
    Other,
}

impl PacketKind {
    /// Whether it travels from requester to responder.
    pub const fn is_request(self) -> bool {
        use PacketKind::*;
        matches!(self, Send(_) | Write(_) | ReadRequest | Atomic | AtomicWrite | Flush)
    }

    /// Whether it travels from responder to requester.
    pub const fn is_response(self) -> bool {
        matches!(self, Self::ReadResponse(_) | Self::Ack | Self::AtomicAck)
    }

    /// Whether it is a SEND or a WRITE: a request that takes one PSN and is
    /// answered by plain ACKs only.
    pub const fn is_plain(self) -> bool {
        matches!(self, Self::Send(_) | Self::Write(_))
    }

    /// Which part of a message it is; a request or response of a single packet
    /// is [`Position::Only`]. `None` for [`PacketKind::Other`].
    pub const fn position(self) -> Option<Position> {
        match self {
            Self::Send(p) | Self::Write(p) | Self::ReadResponse(p) => Some(p),
            Self::Other => None,
            _ => Some(Position::Only),
        }
    }
}

/// Declares the RC opcodes once: constant, byte, kind, length of the extension
/// headers, name.
macro_rules! rc_opcodes {
    ($($(#[$doc:meta])* $id:ident = $byte:literal, $kind:expr, $ext:expr, $name:literal;)*) => {
        impl Opcode {
            $($(#[$doc])* pub const $id: Self = Self($byte);)*

            /// Every RC opcode that is defined.
            pub const RC: &'static [Self] = &[$(Self($byte)),*];
        }

        /// By the low five bits of the opcode.
        const RC_KIND: [PacketKind; 32] = {
            let mut table = [PacketKind::Other; 32];
            $(table[$byte] = $kind;)*
            table
        };

        /// Bytes of extension headers, by the low five bits of the opcode.
        const RC_EXT: [u8; 32] = {
            let mut table = [0; 32];
            $(table[$byte] = $ext;)*
            table
        };

        /// By the low five bits of the opcode.
        const RC_NAME: [&str; 32] = {
            let mut table = [""; 32];
            $(table[$byte] = $name;)*
            table
        };
    };
}

const AETH: u8 = 4;
const RETH: u8 = 16;
const ATOMIC_ETH: u8 = 28;
const ATOMIC_ACK_ETH: u8 = 8;
const IMM: u8 = 4;
const IETH: u8 = 4;
const FETH: u8 = 4;
const DETH: u8 = 8;
const XRC_ETH: u8 = 4;

rc_opcodes! {
    /// SEND, first packet.
    SEND_FIRST = 0x00, PacketKind::Send(Position::First), 0, "SEND_FIRST";
    /// SEND, middle packet.
    SEND_MIDDLE = 0x01, PacketKind::Send(Position::Middle), 0, "SEND_MIDDLE";
    /// SEND, last packet.
    SEND_LAST = 0x02, PacketKind::Send(Position::Last), 0, "SEND_LAST";
    /// SEND with immediate data, last packet.
    SEND_LAST_IMM = 0x03, PacketKind::Send(Position::Last), IMM, "SEND_LAST_IMM";
    /// SEND, the only packet.
    SEND_ONLY = 0x04, PacketKind::Send(Position::Only), 0, "SEND_ONLY";
    /// SEND with immediate data, the only packet.
    SEND_ONLY_IMM = 0x05, PacketKind::Send(Position::Only), IMM, "SEND_ONLY_IMM";
    /// RDMA WRITE, first packet.
    WRITE_FIRST = 0x06, PacketKind::Write(Position::First), RETH, "WRITE_FIRST";
    /// RDMA WRITE, middle packet.
    WRITE_MIDDLE = 0x07, PacketKind::Write(Position::Middle), 0, "WRITE_MIDDLE";
    /// RDMA WRITE, last packet.
    WRITE_LAST = 0x08, PacketKind::Write(Position::Last), 0, "WRITE_LAST";
    /// RDMA WRITE with immediate data, last packet.
    WRITE_LAST_IMM = 0x09, PacketKind::Write(Position::Last), IMM, "WRITE_LAST_IMM";
    /// RDMA WRITE, the only packet.
    WRITE_ONLY = 0x0a, PacketKind::Write(Position::Only), RETH, "WRITE_ONLY";
    /// RDMA WRITE with immediate data, the only packet.
    WRITE_ONLY_IMM = 0x0b, PacketKind::Write(Position::Only), RETH + IMM, "WRITE_ONLY_IMM";
    /// RDMA READ request.
    READ_REQUEST = 0x0c, PacketKind::ReadRequest, RETH, "READ_REQUEST";
    /// RDMA READ response, first packet.
    READ_RESPONSE_FIRST = 0x0d, PacketKind::ReadResponse(Position::First), AETH, "READ_RESPONSE_FIRST";
    /// RDMA READ response, middle packet; the one without AETH.
    READ_RESPONSE_MIDDLE = 0x0e, PacketKind::ReadResponse(Position::Middle), 0, "READ_RESPONSE_MIDDLE";
    /// RDMA READ response, last packet.
    READ_RESPONSE_LAST = 0x0f, PacketKind::ReadResponse(Position::Last), AETH, "READ_RESPONSE_LAST";
    /// RDMA READ response, the only packet.
    READ_RESPONSE_ONLY = 0x10, PacketKind::ReadResponse(Position::Only), AETH, "READ_RESPONSE_ONLY";
    /// ACK or NAK.
    ACK = 0x11, PacketKind::Ack, AETH, "ACK";
    /// Answer to an atomic: the value before it.
    ATOMIC_ACK = 0x12, PacketKind::AtomicAck, AETH + ATOMIC_ACK_ETH, "ATOMIC_ACK";
    /// Compare and swap.
    COMPARE_SWAP = 0x13, PacketKind::Atomic, ATOMIC_ETH, "COMPARE_SWAP";
    /// Fetch and add.
    FETCH_ADD = 0x14, PacketKind::Atomic, ATOMIC_ETH, "FETCH_ADD";
    /// SEND with invalidate, last packet.
    SEND_LAST_INVALIDATE = 0x16, PacketKind::Send(Position::Last), IETH, "SEND_LAST_INVALIDATE";
    /// SEND with invalidate, the only packet.
    SEND_ONLY_INVALIDATE = 0x17, PacketKind::Send(Position::Only), IETH, "SEND_ONLY_INVALIDATE";
    /// FLUSH: make earlier writes visible or persistent.
    FLUSH = 0x1c, PacketKind::Flush, FETH + RETH, "FLUSH";
    /// ATOMIC WRITE: eight bytes at once.
    ATOMIC_WRITE = 0x1d, PacketKind::AtomicWrite, RETH, "ATOMIC_WRITE";
}

impl Opcode {
    /// UD SEND, the only packet; MADs of connection management are such.
    pub const UD_SEND_ONLY: Self = Self(0x64);
    /// Congestion notification packet of RoCEv2 (A17).
    pub const CNP: Self = Self(0x81);

    /// The operation, without the transport.
    const fn operation(self) -> u8 {
        self.0 & 0x1f
    }

    /// Which transport service it belongs to.
    #[inline]
    pub const fn transport(self) -> Transport {
        match self.0 >> 5 {
            0 => Transport::Rc,
            1 => Transport::Uc,
            2 => Transport::Rd,
            3 => Transport::Ud,
            4 => Transport::Cnp,
            5 => Transport::Xrc,
            7 => Transport::Manufacturer,
            _ => Transport::Unknown,
        }
    }

    /// The operation of an RC opcode; [`PacketKind::Other`] for every other transport.
    #[inline]
    pub const fn kind(self) -> PacketKind {
        if self.0 < 0x20 { RC_KIND[self.0 as usize] } else { PacketKind::Other }
    }

    /// Whether it is a SEND or a WRITE of RC: see [`PacketKind::is_plain`].
    #[inline]
    pub const fn is_plain(self) -> bool {
        self.0 < 0x20 && PLAIN >> self.0 & 1 != 0
    }

    /// Bytes of extension headers between BTH and payload. 0 for opcodes whose
    /// headers we don't know.
    #[inline]
    pub const fn ext_len(self) -> usize {
        EXT_LEN[self.0 as usize] as usize
    }

    /// Whether an RC packet carries an AETH. It comes right after the BTH.
    pub const fn has_aeth(self) -> bool {
        matches!(self.0, 0x0d | 0x0f..=0x12)
    }

    /// Whether an RC packet carries a RETH.
    pub const fn has_reth(self) -> bool {
        matches!(self.0, 0x06 | 0x0a..=0x0c | 0x1c | 0x1d)
    }

    /// Whether an RC packet carries immediate data.
    pub const fn has_imm(self) -> bool {
        matches!(self.0, 0x03 | 0x05 | 0x09 | 0x0b)
    }

    /// Whether an RC packet carries a key to invalidate.
    pub const fn has_ieth(self) -> bool {
        matches!(self.0, 0x16 | 0x17)
    }
}

/// The RC opcodes of SENDs and WRITEs, a bit each.
const PLAIN: u32 = {
    let (mut bits, mut op) = (0, 0);
    while op < RC_KIND.len() {
        bits |= (RC_KIND[op].is_plain() as u32) << op;
        op += 1;
    }
    bits
};

/// Bytes of extension headers, by opcode.
static EXT_LEN: [u8; 256] = {
    let mut table = [0; 256];
    let mut op = 0;
    while op < 256 {
        let opcode = Opcode(op as u8);
        let rc = RC_EXT[opcode.operation() as usize];
        table[op] = match opcode.transport() {
            Transport::Rc => rc,
            // SEND and WRITE, as in RC.
            Transport::Uc if op < 0x2c => rc,
            // A datagram may be a SEND only.
            Transport::Ud if op == 0x64 || op == 0x65 => DETH + rc,
            // Requests name the receive queue (A14).
            Transport::Xrc if RC_KIND[opcode.operation() as usize].is_request() => XRC_ETH + rc,
            Transport::Xrc => rc,
            _ => 0,
        };
        op += 1;
    }
    table
};

/// `RC SEND_FIRST`, `CNP`, `0xe1`.
impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.transport() {
            _ if *self == Self::CNP => return f.write_str("CNP"),
            Transport::Rc => "RC",
            Transport::Uc if self.0 < 0x2c => "UC",
            Transport::Ud if self.0 == 0x64 || self.0 == 0x65 => "UD",
            Transport::Xrc => "XRC",
            _ => "",
        };
        let name = RC_NAME[self.operation() as usize];
        if prefix.is_empty() || name.is_empty() {
            write!(f, "{:#04x}", self.0)
        } else {
            write!(f, "{prefix} {name}")
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_lengths_agree() {
        for op in 0..=0x1f {
            let op = Opcode(op);
            let mut len = 0;
            for (has, bytes) in [
                (op.has_aeth(), AETH),
                (op.has_reth(), RETH),
                (op.has_imm(), IMM),
                (op.has_ieth(), IETH),
                (op.kind() == PacketKind::Atomic, ATOMIC_ETH),
                (op.kind() == PacketKind::AtomicAck, ATOMIC_ACK_ETH),
                (op.kind() == PacketKind::Flush, FETH),
            ] {
                len += if has { usize::from(bytes) } else { 0 };
            }
            assert_eq!(op.ext_len(), len, "{op}");
            assert_eq!(op.kind() == PacketKind::Other, !Opcode::RC.contains(&op), "{op}");
        }
    }

    #[test]
    fn every_rc_opcode_is_request_or_response() {
        for &op in Opcode::RC {
            let kind = op.kind();
            assert_ne!(kind.is_request(), kind.is_response(), "{op}");
            assert!(!kind.is_plain() || kind.is_request(), "{op}");
            assert_eq!(kind.is_plain(), op.is_plain(), "{op}");
            assert!(kind.position().is_some(), "{op}");
        }
    }

    #[test]
    fn only_rc_has_a_kind() {
        for op in 0x20..=0xff {
            assert_eq!(Opcode(op).kind(), PacketKind::Other);
            assert!(!Opcode(op).is_plain());
        }
    }

    #[test]
    fn other_transports() {
        for (op, transport, ext, name) in [
            (0x2a, Transport::Uc, 16, "UC WRITE_ONLY"),
            (0x2c, Transport::Uc, 0, "0x2c"),
            (0x44, Transport::Rd, 0, "0x44"),
            (0x64, Transport::Ud, 8, "UD SEND_ONLY"),
            (0x65, Transport::Ud, 12, "UD SEND_ONLY_IMM"),
            (0x66, Transport::Ud, 0, "0x66"),
            (0x81, Transport::Cnp, 0, "CNP"),
            (0xa6, Transport::Xrc, 20, "XRC WRITE_FIRST"),
            (0xb1, Transport::Xrc, 4, "XRC ACK"),
            (0xc0, Transport::Unknown, 0, "0xc0"),
            (0xe1, Transport::Manufacturer, 0, "0xe1"),
        ] {
            let op = Opcode(op);
            assert_eq!((op.transport(), op.ext_len()), (transport, ext), "{op}");
            assert_eq!(op.to_string(), name);
        }
    }
}
