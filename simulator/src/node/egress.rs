//! The ports of a gateway.

use common::frame::{Class, Frame, Packet, Side, Sink};
use common::time::{Span, Time};

use crate::frame::SimFrame;
use crate::net::{Marking, Port, Priority, mark_ip, path_of};

/// Number of the port towards the hosts.
pub const LAN: usize = 0;
/// Number of the first port towards the long-haul link; the others follow it.
pub const WAN: usize = 1;

/// The ports of a gateway, into which its box puts frames.
pub struct Egress {
    pub(super) ports: Vec<Port>,
    /// Of each WAN port.
    pub(super) marking: Vec<Marking>,
    /// Bytes that may wait at each.
    pub(super) limit: u64,
    pub(super) drops: u64,
}

impl Egress {
    /// Whether `bytes` more may wait at a port: of the WAN ports, the first.
    pub fn has_room(&self, side: Side, bytes: u64) -> bool {
        self.waiting(if side == Side::Lan { LAN } else { WAN }) + bytes <= self.limit
    }

    /// How long a frame of `bytes` waits until a port has sent it; `None` if it has no room for it.
    pub fn wait(&self, port: usize, bytes: u64, now: Time) -> Option<Span> {
        (self.waiting(port) + bytes <= self.limit).then(|| self.ports[port].wait(bytes, now))
    }

    /// How many WAN ports there are.
    pub fn wan_ports(&self) -> usize {
        self.ports.len() - WAN
    }

    /// Sends a frame by a port.
    pub fn transmit_at(&mut self, port: usize, class: Class, packet: Packet<SimFrame>) {
        let (from, priority) = (
            if port == LAN { WAN } else { LAN },
            match class {
                Class::High => Priority::High,
                Class::Data => Priority::Data,
            },
        );
        let mut frame = SimFrame::of(packet);
        let waiting = self.waiting(port);
        if waiting + frame.bytes().len() as u64 > self.limit {
            self.drops += 1;
            return;
        }
        if port >= WAN && priority == Priority::Data && self.marking[port - WAN].marks(waiting) {
            mark_ip(&mut frame);
        }
        self.ports[port].push(frame, priority, from);
    }

    /// A LAN port and so many WAN ports of 10 Gbit/s.
    #[cfg(test)]
    pub(crate) fn of_wan_ports(count: usize) -> Self {
        let ports = (0..=count).map(|_| Port::new(10_000_000_000)).collect();
        let marking = (0..count).map(|n| Marking::new(None, 1, n as u64)).collect();
        Self { ports, marking, limit: 1 << 20, drops: 0 }
    }

    /// Takes the frames that wait at a port.
    #[cfg(test)]
    pub(crate) fn take(&mut self, port: usize) -> Vec<SimFrame> {
        let port = &mut self.ports[port];
        std::iter::from_fn(|| port.pop(port.next()).map(|(frame, ..)| frame)).collect()
    }

    /// Sends a frame that arrived on `side` to the other one, where a wire would.
    pub fn transmit_other(&mut self, side: Side, frame: SimFrame) {
        self.transmit(side.other(), Class::Data, Packet::Owned(frame));
    }

    fn waiting(&self, port: usize) -> u64 {
        let port = &self.ports[port];
        port.queued(Priority::High) + port.queued(Priority::Data)
    }
}

/// Of several WAN ports, a packet takes the one that it would take of several paths behind one port.
impl Sink for Egress {
    type Frame = SimFrame;

    fn transmit(&mut self, side: Side, class: Class, packet: Packet<SimFrame>) {
        let port = match side {
            Side::Lan => LAN,
            Side::Wan => WAN + path_of(packet.bytes(), self.wan_ports()),
        };
        self.transmit_at(port, class, packet);
    }
}
