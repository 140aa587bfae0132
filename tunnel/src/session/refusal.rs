//! Why a control message is dropped.

use common::control::Stale;

use crate::message::Reject;

/// Why a control message was dropped. It changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// The frame ends within it.
    Truncated,
    /// Another version.
    Version,
    /// Another key, or a forgery.
    BadTag,
    /// A field is out of its range, though the tag is right.
    Invalid,
    /// Our own node id: two boxes have the same, or the message was sent back to us.
    OwnNode,
    /// A box other than the peer.
    OtherPeer,
    /// The message was seen before, or is older than all that are remembered.
    Replayed,
    /// Of a boot of the peer before the newest one that is known.
    OldBoot,
    /// Of another session.
    OtherSession,
    /// The peer has another number of lanes.
    Lanes,
    /// The peer has another number of tunnels, or divides flows otherwise.
    Tunnels,
}

impl Refusal {
    /// All of them, in the order of [`index`](Self::index).
    pub const ALL: [Self; 11] = [
        Self::Truncated,
        Self::Version,
        Self::BadTag,
        Self::Invalid,
        Self::OwnNode,
        Self::OtherPeer,
        Self::Replayed,
        Self::OldBoot,
        Self::OtherSession,
        Self::Lanes,
        Self::Tunnels,
    ];

    /// Position in [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Self {
        match reject {
            Reject::Truncated => Self::Truncated,
            Reject::Version => Self::Version,
            Reject::BadTag => Self::BadTag,
            Reject::Invalid => Self::Invalid,
        }
    }
}

impl From<Stale> for Refusal {
    fn from(stale: Stale) -> Self {
        match stale {
            Stale::OldBoot => Self::OldBoot,
            Stale::Replayed | Stale::TooOld => Self::Replayed,
        }
    }
}
