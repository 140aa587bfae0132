//! The way between the workers, which have the WAN port, and the main thread, which plays the station with
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
    /// From and to each worker.
    workers: Vec<(Consumer<Short>, Producer<Order>)>,
    /// The worker whose frame is next.
    next: usize,
}

/// The ends of so many workers, at least one, and of the main thread. R-TUN-45
pub fn join(workers: u16) -> (Vec<WorkerEnd>, ControlEnd) {
    let ways = (0..workers).map(|_| {
        let ((to, from_worker), (to_worker, from)) =
            (RingBuffer::new(DEPTH), RingBuffer::new(DEPTH));
        (WorkerEnd { to, from, dropped: 0 }, (from_worker, to_worker))
    });
    let (ends, workers) = ways.unzip();
    (ends, ControlEnd { workers, next: 0 })
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
    /// The next frame for the station: the workers take turns.
    pub fn frame(&mut self) -> Option<Short> {
        let count = self.workers.len();
        for _ in 0..count {
            let n = self.next;
            self.next = (n + 1) % count;
            if let Ok(frame) = self.workers[n].0.pop() {
                return Some(frame);
            }
        }
        None
    }

    /// Sends a frame, by the first worker. False if that is behind.
    pub fn send(&mut self, frame: Short) -> bool {
        self.workers.first_mut().is_some_and(|(_, to)| to.push(Order::Send(frame)).is_ok())
    }

    /// Tells all workers the next hop's MAC address, if it is known. False if one is behind.
    pub fn tell(&mut self, next_hop: Option<MacAddr>) -> bool {
        let mut all_know = true;
        for (_, to) in &mut self.workers {
            all_know &= to.push(Order::NextHop(next_hop)).is_ok();
        }
        all_know
    }
}
