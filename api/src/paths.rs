//! The paths behind the WAN ports.

use serde::{Deserialize, Serialize};

use crate::Text;

/// `/paths`: the paths between the WAN ports and the peer.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Paths {
    /// One for each WAN port. Empty without a tunnel.
    pub paths: Vec<Path>,
}

/// The path behind a WAN port, as probes find it all the time. With several tunnels, the shortest frame and round trip of them.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Path {
    /// `wan`, `wan1` ..
    pub port: Text,
    /// Address of the peer; `null` with the encapsulation `ethernet`.
    pub peer: Option<String>,
    /// Bytes of the longest frame that reaches the peer on a lane of the port, from the destination MAC address on; 0 while none
    /// is known to, e.g. without a session.
    pub frame_bytes: u16,
    /// The same on the lane of the port whose path is the shortest.
    pub shortest_lane_bytes: u16,
    /// Bytes of a full frame of the LAN with the tunnel's headers.
    pub needed_bytes: u16,
    /// Round trip of probes; `null` until it is measured, or if the peer answers none.
    pub round_trip: Option<f64>,
    /// The newest probes with the length of the longest frame, up to 64 for each tunnel.
    pub probes: u16,
    /// Of these, probes that were not answered in time.
    pub lost: u16,
}
