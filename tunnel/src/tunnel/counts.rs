//! The books of a tunnel.

use crate::encapsulation::{OuterFault, Unfit};
use crate::session::Refusal;

/// Why a frame was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dropped {
    /// Shorter than an Ethernet header, or MAC control: it goes no further than a port.
    NotForward,
    /// The WAN port's queue has no room.
    Queue,
    /// With the encapsulation `udp`: there is no session.
    NoSession,
    /// With the encapsulation `udp`: it does not fit the path with its headers.
    TooLong,
    /// It has the tunnel's EtherType, and there is no session to carry it in.
    Reserved,
    /// There was no room for the shim in front of it.
    Headroom,
    /// With the encapsulation `udp`: the MAC address of the next hop is not known.
    NoNextHop,
    /// See [`OuterFault::Source`].
    Source,
    /// See [`OuterFault::Fragment`].
    Fragment,
    /// See [`OuterFault::Length`].
    Length,
    /// See [`OuterFault::Checksum`].
    Checksum,
    /// See [`OuterFault::Version`].
    Version,
    /// See [`OuterFault::Shim`].
    Shim,
    /// See [`OuterFault::Inner`].
    Inner,
    /// A frame of another session.
    Session,
    /// It met congestion, and its hosts don't know marks (RFC 6040); or MAC control in a shim.
    Mark,
}

impl Dropped {
    /// How many there are.
    const COUNT: usize = Self::Mark as usize + 1;

    /// Its position in an array of [`COUNT`](Self::COUNT).
    const fn index(self) -> usize {
        self as usize
    }
}

impl From<Unfit> for Dropped {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::TooShort => Self::NotForward,
            Unfit::TooLong => Self::TooLong,
            Unfit::Headroom => Self::Headroom,
        }
    }
}

impl From<OuterFault> for Dropped {
    fn from(fault: OuterFault) -> Self {
        match fault {
            OuterFault::Source => Self::Source,
            OuterFault::Fragment => Self::Fragment,
            OuterFault::Length => Self::Length,
            OuterFault::Checksum => Self::Checksum,
            OuterFault::Version => Self::Version,
            OuterFault::Shim => Self::Shim,
            OuterFault::Inner => Self::Inner,
        }
    }
}

/// Frames in and out, beside [`Sent`](crate::Sent) and [`Received`](crate::Received).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// From the LAN.
    pub from_lan: u64,
    /// From the WAN.
    pub from_wan: u64,
    /// To the WAN without a shim.
    pub plain_to_wan: u64,
    /// To the LAN, that came without a shim.
    pub plain_to_lan: u64,
    /// To the LAN, of another session while there is none.
    pub unsequenced: u64,
    /// To the box itself.
    pub local: u64,
    /// Frames from the LAN that do not fit the path with their headers.
    pub too_long: u64,
    /// Control messages that were taken.
    pub messages: u64,
    /// Sessions that began or ended.
    pub changes: u64,
    /// Sessions that began.
    pub began: u64,
    /// Frames that arrived in order of the lanes, and were dropped after it.
    pub after_order: u64,
    /// Repair frames that arrived.
    pub repairs: u64,
    /// Lost frames that were decoded from them.
    pub decoded: u64,
    dropped: [u64; Dropped::COUNT],
    refused: [u64; Refusal::ALL.len()],
}

impl Counts {
    /// Frames dropped for a reason.
    pub const fn dropped(&self, why: Dropped) -> u64 {
        self.dropped[why.index()]
    }

    /// Control messages refused for a reason.
    pub const fn refused(&self, why: Refusal) -> u64 {
        self.refused[why.index()]
    }

    pub(super) fn drop(&mut self, why: Dropped) {
        self.dropped[why.index()] += 1;
    }

    pub(super) fn refuse(&mut self, why: Refusal) {
        self.refused[why.index()] += 1;
    }

    /// Whether all frames that came in are accounted for; lanes have `sent` and received `arrived` of them.
    pub(super) fn is_balanced(&self, sent: u64, arrived: u64) -> bool {
        let came = self.from_lan + self.from_wan;
        let refused: u64 = self.refused.iter().sum();
        let dropped: u64 = self.dropped.iter().sum();
        let went = self.plain_to_wan + self.plain_to_lan + self.unsequenced + self.local;
        let both = self.after_order + self.decoded;
        let taken = self.messages + self.repairs;
        came + both == went + taken + refused + dropped + sent + arrived
    }
}
