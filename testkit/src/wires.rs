//! The ports of a switch under test.

use common::control::{self, Header, Keys, Message, Status, SyncMessage};
use common::frame::{Class, Packet, Side, Sink};
use common::heap::HeapFrame;
use common::wire::{Roce, parse};

/// A frame that left a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// The side of the port.
    pub side: Side,
    /// The queue of the port.
    pub class: Class,
    /// All of it.
    pub bytes: Vec<u8>,
}

impl Sent {
    /// Its headers.
    ///
    /// # Panics
    /// If it isn't RoCEv2.
    pub fn roce(&self) -> Roce {
        parse(&self.bytes).expect("RoCEv2")
    }

    /// The control message in it, by the key of labs.
    pub fn control(&self) -> Option<(Header, Message)> {
        let opcode = control::DEFAULT_OPCODE;
        let roce = parse(&self.bytes).ok()?;
        control::decode(&self.bytes, &roce, opcode, &Keys::unkeyed_lab())?.ok()
    }

    /// The SYNC in it.
    pub fn sync(&self) -> Option<(Header, SyncMessage)> {
        match self.control()? {
            (header, Message::Sync(sync)) => Some((header, sync)),
            _ => None,
        }
    }

    /// The STATUS in it.
    pub fn status(&self) -> Option<(Header, Status)> {
        match self.control()? {
            (header, Message::Status(status)) => Some((header, status)),
            _ => None,
        }
    }
}

/// Keeps all frames of a switch, on either side.
#[derive(Default)]
pub struct Wires(pub Vec<Sent>);

impl Sink for Wires {
    type Frame = HeapFrame;

    fn transmit(&mut self, side: Side, class: Class, packet: Packet<HeapFrame>) {
        self.0.push(Sent { side, class, bytes: packet.bytes().to_vec() });
    }
}
