//! Which worker a frame belongs to.

use common::frame::Side;
use common::wire::Spread;
use tunnel::encapsulation::Encapsulation;
use tunnel::{Division, Port};

/// How flows are divided into parts. Part `n` belongs to worker `n` modulo their number.
#[derive(Clone, Debug)]
pub enum Owners {
    /// Each bucket of pairs of hosts is a part.
    Pairs(Spread),
    /// Each tunnel is a part; the WAN ports have these encapsulations. R-TUN-42
    Tunnels(Division, Vec<Encapsulation>),
}

impl Owners {
    /// The part of a frame that arrived on a side, at that port of the WAN; `None`: any worker can take it.
    #[inline]
    pub fn part(&self, (side, port): (Side, Port), frame: &[u8]) -> Option<usize> {
        match (self, side) {
            (Self::Pairs(spread), _) => Some(spread.bucket(frame)),
            (Self::Tunnels(division, _), Side::Lan) => Some(division.of_frame(frame).into()),
            (Self::Tunnels(division, wan), Side::Wan) => {
                let encapsulation = wan.get(usize::from(port.get()))?;
                encapsulation.tunnel_of(*division, frame).map(usize::from)
            }
        }
    }
}
