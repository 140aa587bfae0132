//! The boxes at the other end, as workers tell the main thread of them.

use std::net::IpAddr;

use common::control::Reject;
use common::ids::{BootId, NodeId};
use common::time::{Span, Time};
use tunnel::session::Refusal;

use crate::event::What;

/// Where a box stands with this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// There is a session of the tunnel.
    Session,
    /// Without a tunnel: it answers, or announces flows to this box by its boot.
    Knows,
    /// It is heard, and does not hear this box.
    Heard,
}

impl Standing {
    /// Its word in the API.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Knows => "answers",
            Self::Heard => "heard",
        }
    }
}

/// How a box is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// By the address of a host behind it, in whose name its newest message came.
    Host(IpAddr),
    /// Through a WAN port.
    Port(&'static str),
}

/// What a worker says of a box, several times a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Its node id.
    pub node: NodeId,
    /// Its boot id.
    pub boot: BootId,
    /// How it is reached.
    pub via: Via,
    /// Where it stands.
    pub standing: Standing,
    /// The version of its control messages.
    pub version: u8,
    /// When it was last heard.
    pub heard: Time,
    /// When it last reported what arrived there.
    pub reported: Option<Time>,
    /// Round trip to it, once measured.
    pub round_trip: Option<Span>,
    /// What it told of itself when the session began.
    pub told: Option<What>,
}

/// What a worker says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// A box is there.
    Seen(Seen),
    /// No box is there: there is no session, and none is heard.
    Nobody,
    /// A message was refused.
    Refused {
        /// Why.
        reason: &'static str,
        /// In whose name it came.
        from: Option<IpAddr>,
        /// When.
        at: Time,
    },
}

/// News, and their tunnel if there are several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The tunnel; `None` without one.
    pub tunnel: Option<u8>,
    /// The news.
    pub news: News,
}

/// Why a control message was refused, in words.
pub const fn rejected(reason: Reject) -> &'static str {
    match reason {
        Reject::BadTag => "another key",
        Reject::Version => "another version",
        Reject::BadIcrc => "damaged",
        Reject::Truncated => "too short",
        Reject::Invalid => "a field out of its range",
    }
}

/// Why a message of the tunnel was refused, in words.
pub const fn refused(reason: Refusal) -> &'static str {
    match reason {
        Refusal::BadTag => "another key",
        Refusal::Version => "another version",
        Refusal::Truncated => "too short",
        Refusal::Invalid => "a field out of its range",
        Refusal::OwnNode => "this box's own node id",
        Refusal::OtherPeer => "a box beside the peer",
        Refusal::Replayed => "seen before",
        Refusal::OldBoot => "an older boot id",
        Refusal::OtherSession => "another session",
        Refusal::Lanes => "another number of lanes",
        Refusal::Tunnels => "another number of tunnels",
    }
}
