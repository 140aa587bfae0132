//! How frames with a shim look on the WAN, and how the headers come and go.
//!
//! Headers are written into the headroom of a frame, so that its payload is never copied. Room is
//! [reserved](Encapsulation::reserve) first, which may fail; then the frame is numbered; then it is
//! [wrapped](Encapsulation::wrap), which may not fail.

mod ethernet;
mod find;
mod too_big;
mod udp;

use common::frame::Headroom;
use common::wire::MacAddr;

pub(crate) use self::ethernet::Tag;
pub use self::ethernet::{DEFAULT_ETHERTYPE, PEERS};
pub use self::find::{Marks, Place};
pub use self::udp::{DEFAULT_PORT, DEFAULT_SOURCE_PORT, Udp, UdpConfig, source_ports};
use crate::division::Division;
use crate::ecn;
pub use crate::ecn::Met;
use crate::flow::{Flow, Order};
use crate::number::Lane;
use crate::protection::Parts;
use crate::shim::{self, Content, Fault, RepairShim, Shim};

/// Bytes of an Ethernet header without tags: a frame has at least as many.
const ETHER_LEN: usize = 14;
/// Bytes of the two addresses in it.
pub(crate) const MACS_LEN: usize = 12;
/// Bytes of a frame that its flow follows from, at most: the two addresses, tags, IP with options, and a BTH with an AETH.
const FLOW_HEAD: usize = 128;

/// How frames are carried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Encapsulation {
    /// On a link that carries Ethernet: the MAC addresses as they came, an EtherType, the shim, and the
    /// rest of the frame from its own EtherType or VLAN tag on. R-TUN-19
    Ethernet {
        /// The EtherType.
        ethertype: u16,
        /// MAC address of the WAN port, source of control messages.
        mac: MacAddr,
    },
    /// Through a routed network: the whole frame in UDP between two addresses.
    Udp(Udp),
}

/// Why a frame can't be wrapped. It is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unfit {
    /// It is shorter than an Ethernet header.
    TooShort,
    /// With its headers, those of a resend included, it is longer than the path carries. R-TUN-17
    TooLong,
    /// There is no room in front of it.
    Headroom,
}

/// Bounds of frames that can be wrapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fit {
    /// Bytes in front of them.
    front: usize,
    longest: usize,
}

impl Fit {
    /// Whether a frame is within them.
    #[inline]
    pub fn takes<F: Headroom>(self, frame: &F) -> bool {
        let len = frame.bytes().len();
        len >= ETHER_LEN && len <= self.longest && frame.headroom() >= self.front
    }
}

/// The kind of a frame from the WAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unwrapped {
    /// A frame of the LAN, whose outer headers are gone.
    Frame {
        /// Its place.
        shim: Shim,
        /// Whether it met congestion. If its hosts know no marks, it takes its place, and is dropped then. R-TUN-22
        met: Met,
    },
    /// A control message, which begins at this byte; the frame is as it was.
    Control(usize),
    /// A repair frame, whose sum begins at this byte; the frame is as it was.
    Repair(RepairShim, usize),
    /// Not of the tunnel; as it was.
    Foreign,
    /// Meant for the tunnel, but not to be taken.
    Faulty(OuterFault),
}

/// Why a frame that is meant for the tunnel is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OuterFault {
    /// To our address and port, from another address than the peer's.
    Source,
    /// A fragment of a packet of the peer: the path's MTU is smaller than it should be.
    Fragment,
    /// The lengths of frame, IP and UDP contradict each other, or there are IP options.
    Length,
    /// A wrong checksum of the IPv4 header, or a wrong UDP checksum. The peer sends none; a network may fill one in.
    Checksum,
    /// A shim of another version.
    Version,
    /// A shim that ends early, or has a field without meaning.
    Shim,
    /// No Ethernet header behind the shim.
    Inner,
}

impl From<Fault> for OuterFault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Version => Self::Version,
            Fault::Truncated | Fault::Invalid => Self::Shim,
        }
    }
}

/// One kind of headers. A burst of frames that knows its kind does not ask for each of them.
pub(crate) trait Outer {
    /// See [`Encapsulation::shim_at`].
    fn shim_at(&self) -> usize;

    /// See [`Encapsulation::tag_len`].
    #[inline(always)]
    fn tag_len(&self) -> usize {
        0
    }

    /// Bytes of the frame's own headers that are moved to the front of the shim.
    const MOVED: usize;

    /// See [`Encapsulation::overhead`].
    #[inline(always)]
    fn overhead(&self) -> usize {
        self.shim_at() - Self::MOVED + shim::LEN
    }

    /// See [`Encapsulation::wrap`].
    fn wrap(&self, frame: &mut [u8], shim: &Shim, traffic_class: u8);

    /// The shim of a frame with these headers, if they say nothing besides; `None` of any other.
    fn shim<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8; shim::LEN]>;

    /// Removes the headers and the shim of a first transmission.
    fn unwrap<F: Headroom>(&self, frame: &mut F);

    /// See [`Encapsulation::reserve`].
    #[inline(always)]
    fn reserve<F: Headroom>(&self, frame: &mut F, limit: u16) -> Result<(), Unfit> {
        let (len, overhead) = (frame.bytes().len(), self.overhead());
        if len < ETHER_LEN {
            return Err(Unfit::TooShort);
        }
        if len + overhead - self.tag_len() + Encapsulation::RESENT_MORE > usize::from(limit) {
            return Err(Unfit::TooLong);
        }
        if frame.grow_front(overhead) { Ok(()) } else { Err(Unfit::Headroom) }
    }
}

impl Encapsulation {
    /// Bytes by which a frame grows; a resend takes [`RESENT_MORE`](Self::RESENT_MORE) more.
    #[inline]
    pub const fn overhead(&self) -> usize {
        self.front() + shim::LEN
    }

    /// Bytes of a resend beyond [`overhead`](Self::overhead).
    pub const RESENT_MORE: usize = shim::RESENT_LEN - shim::LEN;

    /// Bytes in front of the shim that the frame did not have.
    const fn front(&self) -> usize {
        self.shim_at() - if let Self::Ethernet { .. } = self { MACS_LEN } else { 0 }
    }

    /// A [wrapped](Self::wrap) frame as its sums have it: all but the headers that a network may change. R-TUN-66
    ///
    /// # Panics
    /// If it has no shim.
    pub(crate) fn parts<'a>(&self, wrapped: &'a [u8]) -> Parts<'a> {
        match self {
            Self::Ethernet { .. } => [&wrapped[..MACS_LEN], &wrapped[ETHER_LEN..]],
            Self::Udp(udp) => [&[], &wrapped[udp.len()..]],
        }
    }

    /// The same, with its shim.
    pub(crate) fn sent<'a>(&self, wrapped: &'a [u8]) -> Option<(Shim, Parts<'a>)> {
        match Shim::read(wrapped.get(self.shim_at()..)?) {
            Ok(Content::Frame(shim)) => Some((shim, self.parts(wrapped))),
            Ok(Content::Repair(_) | Content::Control) | Err(_) => None,
        }
    }

    /// The same of a frame from the WAN, if it has a shim.
    pub(crate) fn arrived<'a>(&self, frame: &'a [u8]) -> Option<(Shim, Parts<'a>)> {
        let is_ours = match self {
            Self::Ethernet { .. } => self.is_reserved(frame),
            Self::Udp(udp) => udp.look(frame).is_ok(),
        };
        if is_ours { self.sent(frame) } else { None }
    }

    /// Shim, MAC addresses and the rest of a frame, from the bytes of both [parts](Self::parts); `None`: they are no frame.
    pub(crate) fn decoded<'a>(&self, bytes: &'a [u8]) -> Option<(Shim, Parts<'a>)> {
        let (macs, rest) = match self {
            Self::Ethernet { .. } => bytes.split_at_checked(MACS_LEN)?,
            Self::Udp(_) => (&[][..], bytes),
        };
        let Ok(Content::Frame(shim)) = Shim::read(rest) else { return None };
        let rest = &rest[shim.wire_len()..];
        (macs.len() + rest.len() >= ETHER_LEN).then_some((shim, [macs, rest]))
    }

    /// Bytes in front of a shim or a control message.
    #[inline]
    pub const fn shim_at(&self) -> usize {
        match self {
            Self::Ethernet { .. } => ETHER_LEN,
            Self::Udp(udp) => udp.len(),
        }
    }

    /// Bytes of the WAN port's VLAN tag in front of a shim. Lengths that boxes compare do not count the tag: it is of the link of
    /// a port, and the peer's may have another.
    #[inline]
    pub const fn tag_len(&self) -> usize {
        match self {
            Self::Ethernet { .. } => 0,
            Self::Udp(udp) => udp.tag_len(),
        }
    }

    /// Makes room for the headers in front of a frame, on a path that carries frames of `limit` bytes from
    /// the destination MAC address on, without [the tag](Self::tag_len). The new bytes are unspecified.
    ///
    /// # Errors
    /// [`Unfit`]; the frame is as it was.
    #[inline]
    pub fn reserve<F: Headroom>(&self, frame: &mut F, limit: u16) -> Result<(), Unfit> {
        match self {
            Self::Ethernet { ethertype, .. } => Tag(*ethertype).reserve(frame, limit),
            Self::Udp(udp) => udp.reserve(frame, limit),
        }
    }

    /// The frames for which [`reserve`](Self::reserve) can make room.
    #[inline]
    pub const fn fit(&self, limit: u16) -> Fit {
        let front = self.overhead();
        let counted = front - self.tag_len() + Self::RESENT_MORE;
        Fit { front, longest: (limit as usize).saturating_sub(counted) }
    }

    /// Writes the headers of a first transmission into the room in front of a frame. `traffic_class` is
    /// that of the frame as it came, as [`Flow`] has it.
    ///
    /// # Panics
    /// If no room was [reserved](Self::reserve), or `shim` is that of a resend.
    #[inline]
    pub fn wrap(&self, frame: &mut [u8], shim: &Shim, traffic_class: u8) {
        match self {
            Self::Ethernet { ethertype, .. } => Tag(*ethertype).wrap(frame, shim, traffic_class),
            Self::Udp(udp) => udp.wrap(frame, shim, traffic_class),
        }
    }

    /// Bytes of a resend of a wrapped frame of `kept` bytes.
    #[inline]
    pub const fn resent_len(&self, kept: usize) -> usize {
        kept + Self::RESENT_MORE
    }

    /// The flow of the frame inside a [wrapped](Self::wrap) one.
    pub(crate) fn flow(&self, kept: &[u8]) -> Flow {
        let mut head = [0; FLOW_HEAD];
        let macs = if let Self::Ethernet { .. } = self { 0 } else { self.shim_at() + shim::LEN };
        let (macs, inner) = (kept.get(macs..), self.inner(kept));
        let macs = macs.and_then(|rest| rest.first_chunk::<MACS_LEN>());
        let (Some(macs), Some(inner)) = (macs, inner) else { return Order::Free.into() };
        let end = inner.len().min(FLOW_HEAD - MACS_LEN);
        head[..MACS_LEN].copy_from_slice(macs);
        head[MACS_LEN..][..end].copy_from_slice(&inner[..end]);
        Flow::of(&head[..MACS_LEN + end])
    }

    /// The frame inside a [wrapped](Self::wrap) one, from its own EtherType on.
    pub(crate) fn inner<'a>(&self, kept: &'a [u8]) -> Option<&'a [u8]> {
        let moved = if let Self::Ethernet { .. } = self { 0 } else { MACS_LEN };
        kept.get(self.shim_at() + shim::LEN + moved..)
    }

    /// Writes the resend of `kept`, a frame as it was [wrapped](Self::wrap), into `out`: `shim` with the
    /// place of the first transmission in its bucket, and the same content. R-TUN-8
    ///
    /// # Panics
    /// If `kept` is not such a frame, `out` is not [`resent_len`](Self::resent_len) bytes long, or `shim`
    /// is that of a first transmission.
    pub fn rewrap(&self, kept: &[u8], shim: &Shim, out: &mut [u8]) {
        let at = self.shim_at();
        let (predecessor, clear) = match Shim::read(&kept[at..]) {
            Ok(Content::Frame(first)) => (first.predecessor, first.clear),
            Ok(Content::Repair(_) | Content::Control) | Err(_) => (None, 0),
        };
        let (head, content) = out.split_at_mut(at + shim::RESENT_LEN);
        content.copy_from_slice(&kept[at + shim::LEN..]);
        head[..at].copy_from_slice(&kept[..at]);
        Shim { predecessor, clear, ..*shim }.write(&mut head[at..]);
        if let Self::Udp(udp) = self {
            let class = udp.class_of(kept);
            udp.write(out, shim.lane, class);
        }
    }

    /// Writes the headers of a frame around a control message that rides `lane`, and returns the rest of
    /// `out`, where the message goes. `to` is the MAC address of the peer, if that is known. `None`: no next
    /// hop is known.
    ///
    /// # Panics
    /// If `out` is shorter than [`shim_at`](Self::shim_at).
    pub fn wrap_message<'a>(
        &self,
        lane: Lane,
        to: Option<MacAddr>,
        out: &'a mut [u8],
    ) -> Option<&'a mut [u8]> {
        match self {
            Self::Ethernet { ethertype, mac } => {
                ethernet::write(out, *ethertype, *mac, to.unwrap_or(PEERS));
            }
            Self::Udp(udp) => {
                udp.next_hop()?;
                udp.write(out, lane, udp.outer_class(0));
            }
        }
        Some(&mut out[self.shim_at()..])
    }

    /// Whether a frame from the WAN is a router's word that a datagram of the tunnel is too long. R-TUN-65
    pub(crate) fn is_too_big(&self, frame: &[u8]) -> bool {
        matches!(self, Self::Udp(udp) if udp.is_too_big(frame))
    }

    /// Sets the MAC address of the next hop, if there is one; `None`: it is not known.
    pub fn set_next_hop(&mut self, mac: Option<MacAddr>) {
        if let Self::Udp(udp) = self {
            udp.set_next_hop(mac);
        }
    }

    /// Whether frames can be sent: the MAC address of the next hop is known, where there is one.
    #[inline]
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Ethernet { .. } => true,
            Self::Udp(udp) => udp.next_hop().is_some(),
        }
    }

    /// Whether a frame without a shim would be taken for one with a shim by the peer: it can't be sent
    /// as it is.
    #[inline]
    pub fn is_reserved(&self, frame: &[u8]) -> bool {
        matches!(self, Self::Ethernet { ethertype, .. } if ethernet::is_ours(frame, *ethertype))
    }

    /// The tunnel of a frame from the WAN. With `ethernet`, a frame that is not of a tunnel belongs to the one of its
    /// flow; with `udp` such a frame belongs to none. R-TUN-42
    #[inline]
    pub fn tunnel_of(&self, division: Division, frame: &[u8]) -> Option<u8> {
        match self {
            Self::Ethernet { .. } if !self.is_reserved(frame) => Some(division.of_frame(frame)),
            Self::Udp(udp) if udp.look(frame).is_err() => {
                let frame = udp.without_priority_tag(frame)?;
                udp.look(frame).ok().map(|_| division.of_shim(&frame[self.shim_at()..]))
            }
            Self::Ethernet { .. } | Self::Udp(_) => {
                Some(division.of_shim(frame.get(self.shim_at()..).unwrap_or_default()))
            }
        }
    }

    /// The lane of a frame from the WAN, if it has a shim.
    #[inline]
    pub(crate) fn lane(&self, frame: &[u8]) -> Option<Lane> {
        let shim = match self {
            Self::Ethernet { ethertype, .. } => Tag(*ethertype).shim(frame),
            Self::Udp(udp) => udp.shim(frame),
        };
        shim.and_then(|shim| Lane::new(shim[1]))
    }

    /// Looks at a frame from the WAN. A frame of the LAN is freed of its outer headers, and gets the marks
    /// that these have met. With `udp`, a priority tag is removed from any frame.
    #[inline]
    pub fn unwrap<F: Headroom>(&self, frame: &mut F) -> Unwrapped {
        let outer_ecn = match self {
            Self::Ethernet { .. } if self.is_reserved(frame.bytes()) => 0,
            Self::Ethernet { .. } => return Unwrapped::Foreign,
            Self::Udp(udp) => match udp.look(frame.bytes()) {
                Ok(ecn) => ecn,
                Err(other) => match udp.again(frame) {
                    Some(Ok(ecn)) => ecn,
                    Some(Err(other)) => return other,
                    None => return other,
                },
            },
        };
        let bytes = frame.bytes();
        let shim = match Shim::read(&bytes[self.shim_at()..]) {
            Ok(Content::Frame(shim)) => shim,
            Ok(Content::Control) => return Unwrapped::Control(self.shim_at()),
            Ok(Content::Repair(shim)) => {
                return Unwrapped::Repair(shim, self.shim_at() + shim::LEN);
            }
            Err(fault) => return Unwrapped::Faulty(fault.into()),
        };
        let front = self.front() + shim.wire_len();
        if bytes.len() < front + ETHER_LEN {
            return Unwrapped::Faulty(OuterFault::Inner);
        }
        if let Self::Ethernet { .. } = self {
            ethernet::unwrap(frame.bytes_mut(), front);
        }
        frame.shrink_front(front);
        Unwrapped::Frame { shim, met: ecn::decapsulate(frame.bytes_mut(), outer_ecn) }
    }
}
