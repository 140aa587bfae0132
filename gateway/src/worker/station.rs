//! The way between a worker, which has the WAN port, and the main thread, which plays the station with
//! the port's address. Frames are copied: they are short and few.

use arrayvec::ArrayVec;
use common::frame::Frame;
use common::wire::MacAddr;
use rtrb::{Consumer, Producer, RingBuffer};

/// Bytes of the longest frame of a station.
pub const LONGEST: usize = 1294;
/// Frames that may be on their way, to either side.
const DEPTH: usize = 64;

/// A frame of the station.
pub type Short = ArrayVec<u8, LONGEST>;

/// Orders to the worker.
#[expect(clippy::large_enum_variant, reason = "it lives in a ring, and boxes are for the heap")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Sends a frame to the WAN.
    Send(Short),
    /// The MAC address of the next hop, if it is known.
    NextHop(Option<MacAddr>),
}

/// The worker's end.
pub struct WorkerEnd {
    to: Producer<Short>,
    from: Consumer<Order>,
    dropped: u64,
}

/// The main thread's end.
pub struct ControlEnd {
    from: Consumer<Short>,
    to: Producer<Order>,
}

/// Both ends.
pub fn pair() -> (WorkerEnd, ControlEnd) {
    let ((to, from_worker), (to_worker, from)) = (RingBuffer::new(DEPTH), RingBuffer::new(DEPTH));
    (WorkerEnd { to, from, dropped: 0 }, ControlEnd { from: from_worker, to: to_worker })
}

impl WorkerEnd {
    /// Hands a frame to the station, unless it is too long or the station is behind.
    pub fn receive(&mut self, frame: &impl Frame) {
        let short = Short::try_from(frame.bytes());
        if !short.is_ok_and(|short| self.to.push(short).is_ok()) {
            self.dropped += 1;
        }
    }

    /// The next order.
    pub fn order(&mut self) -> Option<Order> {
        self.from.pop().ok()
    }

    /// Frames that the station did not get.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl ControlEnd {
    /// The next frame for the station.
    pub fn frame(&mut self) -> Option<Short> {
        self.from.pop().ok()
    }

    /// Gives the worker an order. False if it is behind.
    pub fn order(&mut self, order: Order) -> bool {
        self.to.push(order).is_ok()
    }
}
