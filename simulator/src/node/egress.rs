//! The two ports of a gateway.

use common::frame::{Class, Frame, Packet, Side, Sink};

use crate::frame::SimFrame;
use crate::net::{Port, Priority};

/// Number of the port towards the hosts.
pub const LAN: usize = 0;
/// Number of the port towards the long-haul link.
pub const WAN: usize = 1;

/// The ports of a gateway, into which its box puts frames.
pub struct Egress {
    pub(super) ports: [Port; 2],
    /// Bytes that may wait at each.
    pub(super) limit: u64,
    pub(super) drops: u64,
}

impl Egress {
    /// Whether `bytes` more may wait at a port.
    pub fn has_room(&self, side: Side, bytes: u64) -> bool {
        let port = &self.ports[if side == Side::Lan { LAN } else { WAN }];
        port.queued(Priority::High) + port.queued(Priority::Data) + bytes <= self.limit
    }
}

impl Sink for Egress {
    type Frame = SimFrame;

    fn transmit(&mut self, side: Side, class: Class, packet: Packet<SimFrame>) {
        let (port, from) = if side == Side::Lan { (LAN, WAN) } else { (WAN, LAN) };
        let priority = match class {
            Class::High => Priority::High,
            Class::Data => Priority::Data,
        };
        let frame = SimFrame::of(packet);
        let port = &mut self.ports[port];
        let waiting = port.queued(Priority::High) + port.queued(Priority::Data);
        if waiting + frame.bytes().len() as u64 > self.limit {
            self.drops += 1;
            return;
        }
        port.push(frame, priority, from);
    }
}
