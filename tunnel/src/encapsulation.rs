//! How frames with a shim look on the WAN.

mod udp;

use common::frame::Headroom;
use common::wire::MacAddr;

pub use self::udp::Udp;
use crate::shim::{self, Shim};

const ETHER_LEN: usize = 14;
const MACS_LEN: usize = 12;

/// Where control messages of the encapsulation `ethernet` go: a multicast address of local meaning.
pub const PEERS: MacAddr = [0x03, b'L', b'R', b'2', 0, 1];
/// EtherType of the encapsulation `ethernet` unless configured otherwise: local experimental 1.
pub const DEFAULT_ETHERTYPE: u16 = 0x88b5;

/// How frames are carried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Encapsulation {
    /// On a link that carries Ethernet: the MAC addresses as they came, an EtherType, the shim, and the
    /// rest of the frame. R-TUN-19
    Ethernet {
        /// The EtherType.
        ethertype: u16,
        /// Source of control messages.
        mac: MacAddr,
    },
    /// Through a routed network: the whole frame in UDP between two addresses.
    Udp(Udp),
}

/// What a frame from the WAN is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outer {
    /// The shim begins at this offset; the outer ECN field is this.
    Tunnel { at: usize, ecn: u8 },
    /// A frame without a shim.
    Plain,
}

impl Encapsulation {
    /// Bytes in front of the shim.
    pub const fn shim_at(&self) -> usize {
        match self {
            Self::Ethernet { .. } => ETHER_LEN,
            Self::Udp(udp) => udp.len(),
        }
    }

    /// Bytes by which a frame grows.
    pub const fn overhead(&self) -> usize {
        shim::LEN
            + match self {
                Self::Ethernet { .. } => ETHER_LEN - MACS_LEN,
                Self::Udp(udp) => udp.len(),
            }
    }

    /// Writes shim and outer headers in front of a frame of at least an Ethernet header, which has grown by
    /// [`overhead`](Self::overhead).
    pub(crate) fn wrap(&self, bytes: &mut [u8], shim: &Shim, traffic_class: u8) {
        if let Self::Ethernet { .. } = self {
            let from = self.overhead();
            bytes.copy_within(from..from + MACS_LEN, 0);
        }
        self.write_outer(bytes, traffic_class);
        shim.write(&mut bytes[self.shim_at()..]);
    }

    /// Bytes of a frame that carries a copy of `kept` again.
    pub(crate) const fn resent_len(&self, kept: usize) -> usize {
        kept + shim::RESENT_LEN - shim::LEN
    }

    /// Writes a copy of the wrapped frame `kept` into `out`, which is [`resent_len`](Self::resent_len)
    /// long, behind `shim` with the predecessor of its first transmission.
    pub(crate) fn rewrap(&self, kept: &[u8], shim: &Shim, out: &mut [u8]) {
        let at = self.shim_at();
        let predecessor = match Shim::read(&kept[at..]) {
            Ok(shim::Content::Frame(first)) => first.predecessor,
            Ok(shim::Content::Control) | Err(_) => None,
        };
        out[..at].copy_from_slice(&kept[..at]);
        Shim { predecessor, ..*shim }.write(&mut out[at..]);
        out[at + shim::RESENT_LEN..].copy_from_slice(&kept[at + shim::LEN..]);
        if let Self::Udp(udp) = self {
            udp.write_lengths(out);
        }
    }

    /// Bytes of a frame with a control message of `len` bytes.
    pub(crate) const fn message_len(&self, len: usize) -> usize {
        self.shim_at() + len
    }

    /// Writes the headers of a frame with a control message; returns where the message goes.
    pub(crate) fn message<'a>(&self, out: &'a mut [u8]) -> &'a mut [u8] {
        if let Self::Ethernet { mac, .. } = self {
            out[..6].copy_from_slice(&PEERS);
            out[6..MACS_LEN].copy_from_slice(mac);
        }
        self.write_outer(out, 0);
        &mut out[self.shim_at()..]
    }

    fn write_outer(&self, bytes: &mut [u8], traffic_class: u8) {
        match self {
            Self::Ethernet { ethertype, .. } => {
                bytes[MACS_LEN..ETHER_LEN].copy_from_slice(&ethertype.to_be_bytes());
            }
            Self::Udp(udp) => udp.write(bytes, traffic_class),
        }
    }

    /// Looks at a frame from the WAN.
    pub(crate) fn look(&self, frame: &[u8]) -> Outer {
        match self {
            Self::Ethernet { .. } if self.is_reserved(frame) => {
                Outer::Tunnel { at: ETHER_LEN, ecn: 0 }
            }
            Self::Ethernet { .. } => Outer::Plain,
            Self::Udp(udp) => udp.look(frame),
        }
    }

    /// Whether a frame without a shim would be taken for one with a shim.
    pub(crate) fn is_reserved(&self, frame: &[u8]) -> bool {
        match self {
            Self::Ethernet { ethertype, .. } => {
                frame.get(MACS_LEN..ETHER_LEN) == Some(&ethertype.to_be_bytes())
            }
            Self::Udp(_) => false,
        }
    }

    /// Removes outer headers and a shim of `len` bytes. False if no Ethernet frame is left.
    pub(crate) fn unwrap<F: Headroom>(&self, frame: &mut F, len: usize) -> bool {
        let bytes = frame.bytes_mut();
        match self {
            Self::Ethernet { .. } => {
                if bytes.len() < ETHER_LEN + len + 2 {
                    return false;
                }
                let front = ETHER_LEN + len - MACS_LEN;
                bytes.copy_within(..MACS_LEN, front);
                frame.shrink_front(front);
            }
            Self::Udp(udp) => {
                if bytes.len() < udp.len() + len + ETHER_LEN {
                    return false;
                }
                frame.shrink_front(udp.len() + len);
            }
        }
        true
    }
}
