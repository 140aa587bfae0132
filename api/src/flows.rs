//! Flows, and the order in which they are asked for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Text;

/// `/flows`: a page of the flows that a box knows.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Flows {
    /// Flows in the tables of all workers.
    pub total: u64,
    /// Of these, the ones that the filter lets through.
    pub matched: u64,
    /// Matching flows before this page.
    pub offset: usize,
    /// The page.
    pub flows: Vec<Flow>,
    /// What these flows are, where that is not all of the traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Text>,
}

/// One direction of a queue pair.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Flow {
    /// The worker that owns it.
    pub worker: usize,
    /// `sentry`: its requests come from the LAN; `depot`: from the WAN.
    pub role: Text,
    /// Address of the host that sends it.
    pub source: String,
    /// Address of the host that it goes to.
    pub destination: String,
    /// Number of the queue pair that it goes to.
    pub destination_qpn: u32,
    /// Number of the queue pair that sends it, if that is known.
    pub source_qpn: Option<u32>,
    /// VLAN ids, outermost first.
    pub vlans: Vec<u16>,
    /// `protected`, `unprotected`, `resting` (nothing was sent for seconds; the next packet is protected) or `responses`
    /// (only responses and ACKs travel in this direction).
    pub state: Text,
    /// Why it is not protected.
    pub why: Option<Text>,
    /// Path MTU in bytes, if it is known.
    pub path_mtu: Option<u16>,
    /// Round trip of the long haul as this flow measured it.
    pub round_trip: Option<f64>,
    /// Packets that wait: at a Sentry for the destination's ACK, at a Depot behind a gap.
    pub held: u64,
    /// Packets that were missing, since the flow was last at rest: at a Sentry as the Depot reported, at a Depot as
    /// it saw.
    pub lost: u64,
    /// Packets that this box sent again since then.
    pub resent: u64,
    /// Time since its newest packet.
    pub idle: f64,
}

/// By what flows are sorted, the largest first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Packets that were missing.
    #[default]
    Lost,
    /// Packets that were sent again.
    Resent,
    /// Packets that wait.
    Held,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lost, Self::Resent, Self::Held];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Resent => "resent",
            Self::Held => "held",
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// No order has this name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParseOrderError;

impl fmt::Display for ParseOrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("allowed: lost, resent, held")
    }
}

impl std::error::Error for ParseOrderError {}

impl FromStr for Order {
    type Err = ParseOrderError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|order| order.word() == word).ok_or(ParseOrderError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_has_its_word() {
        for order in Order::ALL {
            assert_eq!(order.word().parse(), Ok(order));
            assert_eq!(serde_json::to_value(order).ok(), Some(order.word().into()));
        }
        assert_eq!("size".parse::<Order>(), Err(ParseOrderError));
    }
}
