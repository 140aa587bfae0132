//! Collects the frames that a box transmits during one call.

use common::frame::{Class, Packet, Side, Sink};
use common::heap::HeapFrame;
use common::time::Span;
use datapath::Ports;
use tunnel::Port;

use crate::world::{TO_NIC, WAN_OUT};

/// Collects the frames that a box sends, each with the link that it leaves on. Its ports always have room.
#[derive(Default)]
pub(crate) struct Out {
    high: Vec<(usize, HeapFrame)>,
    data: Vec<(usize, HeapFrame)>,
}

impl Out {
    /// The frames in the order in which they leave, and their links.
    pub fn into_frames(self) -> impl Iterator<Item = (usize, HeapFrame)> {
        self.high.into_iter().chain(self.data)
    }

    fn add(&mut self, link: usize, class: Class, packet: &Packet<HeapFrame>) {
        let frame = HeapFrame::from(packet.bytes().to_vec());
        match class {
            Class::High => self.high.push((link, frame)),
            Class::Data => self.data.push((link, frame)),
        }
    }
}

impl Sink for Out {
    type Frame = HeapFrame;

    fn transmit(&mut self, side: Side, class: Class, packet: Packet<HeapFrame>) {
        let link = if side == Side::Wan { WAN_OUT } else { TO_NIC };
        self.add(link, class, &packet);
    }
}

impl Ports for Out {
    fn wait(&mut self, _: Port) -> Option<Span> {
        Some(Span::ZERO)
    }

    fn room(&mut self, _: Port) -> usize {
        usize::MAX
    }

    fn wan(&mut self, port: Port, class: Class, packet: Packet<HeapFrame>) {
        self.add(WAN_OUT + usize::from(port.get()), class, &packet);
    }

    fn local(&mut self, _: Port, _: HeapFrame) {}
}
