//! Events that an operator wants to know of: rare changes of the tunnel and of the ports' links.

use std::fmt;

use common::time::Time;
use serde::Serialize;
use tunnel::LansRepaired;
use tunnel::session::End;

/// An event of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When the worker noticed it, by its clock: at most one housekeeping late.
    pub at: Time,
    /// The tunnel between the boxes.
    pub tunnel: u8,
    /// The event.
    pub what: What,
}

/// What happened. As JSON: the kind in `event`, and the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The link of a port is up.
    LinkUp {
        /// Name of the port.
        port: &'static str,
    },
    /// The link of a port is down.
    LinkDown {
        /// Name of the port.
        port: &'static str,
    },
    /// A port was taken down.
    LinkHeld {
        /// Name of the port.
        port: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// A port that was taken down may come up again.
    LinkReleased {
        /// Name of the port.
        port: &'static str,
    },
    /// A session with the peer began.
    SessionUp {
        /// Node id of the peer.
        peer: u32,
        /// Lanes of each direction.
        lanes: u8,
        /// Bytes of the longest frame of the peer's WAN port.
        frame_max: u16,
        /// Its WAN ports, if it told.
        wan_ports: Option<u8>,
        /// Its repair of the LANs, if it told.
        lan_repair: Option<&'static str>,
    },
    /// The session is over.
    SessionLost {
        /// Why.
        reason: &'static str,
    },
    /// A lane carries no new frames any more.
    LaneDown {
        /// Its number.
        lane: u8,
        /// Its port.
        port: &'static str,
        /// Why.
        reason: &'static str,
        /// Frames that go out again on other lanes.
        moved: u64,
    },
    /// A lane that was down carries new frames again.
    LaneBack {
        /// Its number.
        lane: u8,
        /// Its port.
        port: &'static str,
        /// Its round trip in microseconds.
        round_trip_us: u64,
    },
    /// The last lanes of a port that carried new frames carry none any more.
    PortLanesDown {
        /// The port.
        port: &'static str,
        /// How many lanes.
        lanes: u8,
        /// Why.
        reason: &'static str,
        /// Frames that go out again on lanes of other ports.
        moved: u64,
    },
    /// Lanes of a port that were down carry new frames again, and all of the port do.
    PortLanesBack {
        /// The port.
        port: &'static str,
        /// How many lanes.
        lanes: u8,
        /// The shortest round trip of these in microseconds.
        round_trip_us: u64,
    },
    /// A lane was seen to reorder more: a missing number is waited for longer than before.
    ToleranceRaised {
        /// The lane.
        lane: u8,
        /// By how many numbers one may be overtaken.
        depth: u64,
        /// How long one may be missing, in microseconds.
        loss_wait_us: u64,
    },
    /// Missing numbers were given up in the last second: frames that wait for them are delivered.
    GapGivenUp {
        /// The lane.
        lane: u8,
        /// How many.
        numbers: u64,
    },
}

impl What {
    /// The names of all kinds, in the order of [`kind`](Self::kind).
    pub const KINDS: [&'static str; 12] = [
        "link_up",
        "link_down",
        "session_up",
        "session_lost",
        "lane_down",
        "lane_back",
        "gap_given_up",
        "tolerance_raised",
        "link_held",
        "link_released",
        "port_lanes_down",
        "port_lanes_back",
    ];

    /// The position of its name among [`KINDS`](Self::KINDS).
    pub const fn kind(&self) -> usize {
        match self {
            Self::LinkUp { .. } => 0,
            Self::LinkDown { .. } => 1,
            Self::SessionUp { .. } => 2,
            Self::SessionLost { .. } => 3,
            Self::LaneDown { .. } => 4,
            Self::LaneBack { .. } => 5,
            Self::GapGivenUp { .. } => 6,
            Self::ToleranceRaised { .. } => 7,
            Self::LinkHeld { .. } => 8,
            Self::LinkReleased { .. } => 9,
            Self::PortLanesDown { .. } => 10,
            Self::PortLanesBack { .. } => 11,
        }
    }

    /// Whether an operator should look: something is worse than before.
    pub const fn is_warning(&self) -> bool {
        match self {
            Self::LinkUp { .. }
            | Self::LinkReleased { .. }
            | Self::SessionUp { .. }
            | Self::LaneBack { .. }
            | Self::PortLanesBack { .. }
            | Self::ToleranceRaised { .. } => false,
            Self::LinkDown { .. }
            | Self::LinkHeld { .. }
            | Self::SessionLost { .. }
            | Self::LaneDown { .. }
            | Self::PortLanesDown { .. }
            | Self::GapGivenUp { .. } => true,
        }
    }
}

/// A peer's repair of the LANs, by the words of the configuration.
pub const fn lan_repair(lans: LansRepaired) -> &'static str {
    match lans {
        LansRepaired::Off => "off",
        LansRepaired::On => "on",
        LansRepaired::Auto => "auto",
    }
}

/// Why a session is over, in words.
pub const fn end(why: Option<End>) -> &'static str {
    match why {
        Some(End::Silence) => "the peer is silent",
        Some(End::PeerRestarted) => {
            "the peer began another session: it restarted, or did not hear this box"
        }
        Some(End::Bye) => "the peer ended it",
        Some(End::Closed) => "this box ended it",
        None => "unknown",
    }
}

/// One line for the log.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkUp { port } => write!(f, "port {port} is up"),
            Self::LinkDown { port } => write!(f, "port {port} is down"),
            Self::LinkHeld { port, reason } => {
                write!(f, "port {port} is taken down: {reason} (link_loss.forward)")
            }
            Self::LinkReleased { port } => write!(f, "port {port} may come up again"),
            Self::SessionUp { peer, lanes, frame_max, .. } => write!(
                f,
                "a session with node {peer} began, {lanes} lane(s), frames of up to {frame_max} bytes"
            ),
            Self::SessionLost { reason } => write!(f, "the session is over: {reason}"),
            Self::LaneDown { lane, port, reason, moved } => write!(
                f,
                "lane {lane} of port {port} is down: {reason}; {moved} frame(s) go out again on other lanes"
            ),
            Self::LaneBack { lane, port, round_trip_us } => write!(
                f,
                "lane {lane} of port {port} is back, its round trip is {round_trip_us} us"
            ),
            Self::PortLanesDown { port, lanes, reason, moved } => write!(
                f,
                "all lanes of port {port} are down, {lanes} at once: {reason}; {moved} frame(s) go out again on lanes of other ports"
            ),
            Self::PortLanesBack { port, lanes, round_trip_us } => write!(
                f,
                "all lanes of port {port} are back, {lanes} at once, the shortest round trip is {round_trip_us} us"
            ),
            Self::ToleranceRaised { lane, depth, loss_wait_us } => write!(
                f,
                "lane {lane} reorders: a missing number is waited for until {depth} later ones came, or for {loss_wait_us} us"
            ),
            Self::GapGivenUp { lane, numbers } => write!(
                f,
                "{numbers} missing number(s) of lane {lane} were given up, the RNICs recover"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_the_name_that_its_json_has() {
        let all = [
            What::LinkUp { port: "lan" },
            What::LinkDown { port: "lan" },
            What::SessionUp {
                peer: 1,
                lanes: 1,
                frame_max: 1514,
                wan_ports: Some(1),
                lan_repair: None,
            },
            What::SessionLost { reason: end(Some(End::Bye)) },
            What::LaneDown { lane: 0, port: "wan", reason: "", moved: 0 },
            What::LaneBack { lane: 0, port: "wan", round_trip_us: 0 },
            What::GapGivenUp { lane: 0, numbers: 1 },
            What::ToleranceRaised { lane: 0, depth: 8, loss_wait_us: 50 },
            What::LinkHeld { port: "lan", reason: "" },
            What::LinkReleased { port: "lan" },
            What::PortLanesDown { port: "wan", lanes: 8, reason: "", moved: 0 },
            What::PortLanesBack { port: "wan", lanes: 8, round_trip_us: 0 },
        ];
        for (n, what) in all.iter().enumerate() {
            assert_eq!(what.kind(), n);
            let json = serde_json::to_value(what).unwrap();
            assert_eq!(json["event"], What::KINDS[n]);
            assert!(!what.to_string().contains('\n'));
        }
        assert_eq!(all.len(), What::KINDS.len());
    }
}
