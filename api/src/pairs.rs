//! The pairs of ports.

use serde::{Deserialize, Serialize};

use crate::{Port, Text, Worker};

/// `/pairs`: the pairs of ports.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Pairs {
    /// In the order of the file.
    pub pairs: Vec<Pair>,
}

/// A pair of ports, which answers under `/pairs/` and its name.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Pair {
    /// Its name; `1` if there is only one.
    pub pair: String,
    /// Node id.
    pub node: u32,
    /// `recovery.mode`, which counts without a tunnel.
    pub recovery: Text,
    /// `wan.tunnel`: `off`, `ethernet` or `udp`.
    pub tunnel: Text,
    /// `ok`, `degraded` (frames are forwarded, and not all are protected) or `down`.
    pub health: Text,
    /// Why it is not `ok`, a sentence each.
    pub reasons: Vec<String>,
    /// Its workers.
    pub workers: Vec<Worker>,
    /// Its ports.
    pub ports: Vec<Port>,
}
