//! Copies the heads of frames for the control thread while somebody captures: as many as the ring to it has room for; the others are counted.
//! A worker never waits for a capture.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::time::Time;
use common::wire::{Addr, parse};
use rtrb::{Consumer, Producer, RingBuffer};
use tunnel::encapsulation::{Marks, Place};
use tunnel::shim::{Content, Shim};

use crate::port::PortId;

/// Orders that may wait for the worker: one to begin, one to end, and once more.
const ORDERS: usize = 4;
/// Bytes of a record before the copied part of the frame.
const HEAD: usize = 16;
/// Bytes of the two addresses at the start of a frame.
const MACS_LEN: usize = 12;
/// Bytes of the longest frame.
const FRAME_MAX: usize = 1 << 16;

/// Which way a frame goes through a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// It was received.
    In,
    /// The port has taken it to be sent.
    Out,
}

/// Which frames are captured: those that have all that is asked for.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Filter {
    /// At this port.
    pub port: Option<PortId>,
    /// In this direction.
    pub direction: Option<Direction>,
    /// RoCEv2 from or to this host, also inside the tunnel.
    pub address: Option<IpAddr>,
    /// RoCEv2 to this queue pair, also inside the tunnel.
    pub qpn: Option<u32>,
    /// On this lane of the tunnel.
    pub lane: Option<u8>,
    /// How frames of the tunnel look.
    pub marks: Marks,
}

impl Filter {
    fn has(&self, port: PortId, direction: Direction, frame: &[u8], scratch: &mut Vec<u8>) -> bool {
        self.port.is_none_or(|wanted| wanted == port)
            && self.direction.is_none_or(|wanted| wanted == direction)
            && self.has_content(frame, scratch)
    }

    fn has_content(&self, frame: &[u8], scratch: &mut Vec<u8>) -> bool {
        let is_any = self.address.is_none() && self.qpn.is_none();
        if is_any && self.lane.is_none() {
            return true;
        }
        let shim =
            self.marks.shim(frame).and_then(|place| match Shim::read(frame.get(place.at..)?) {
                Ok(Content::Frame(shim)) => Some((place, shim)),
                Ok(Content::Repair(_) | Content::Control) | Err(_) => None,
            });
        let Some((Place { at, addresses_before }, shim)) = shim else {
            return self.lane.is_none() && self.is_of_flow(frame);
        };
        if self.lane.is_some_and(|lane| lane != shim.lane.get()) {
            return false;
        }
        if is_any {
            return true;
        }
        let rest = frame.get(at + shim.wire_len()..).unwrap_or_default();
        if !addresses_before {
            return self.is_of_flow(rest);
        }
        // The frame inside has its addresses in front of the shim. There is memory for the longest.
        scratch.clear();
        scratch.extend_from_slice(frame.get(..MACS_LEN).unwrap_or_default());
        scratch.extend_from_slice(rest);
        self.is_of_flow(scratch)
    }

    fn is_of_flow(&self, frame: &[u8]) -> bool {
        parse(frame).is_ok_and(|roce| {
            let is_of = |address| [roce.src, roce.dst].map(Addr::to_ip).contains(&address);
            self.address.is_none_or(is_of) && self.qpn.is_none_or(|qpn| qpn == roce.dest_qpn.get())
        })
    }
}

/// What of a frame is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// So many bytes of it.
    Bytes(u16),
    /// What was decided for it when it arrived.
    Decisions,
}

/// A capture at one worker.
#[derive(Debug)]
pub struct Request {
    filter: Filter,
    /// What of a frame is wanted.
    wanted: Wanted,
    records: Producer<u8>,
    missed: Arc<AtomicU64>,
    scratch: Vec<u8>,
}

/// The control thread's end of a capture at one worker.
#[derive(Debug)]
pub struct Records {
    records: Consumer<u8>,
    missed: Arc<AtomicU64>,
}

/// A frame that was captured.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// When, by the worker's clock.
    pub at: Time,
    /// Where: [`PortId::index`].
    pub port: u8,
    /// Which way it went.
    pub direction: Direction,
    /// Bytes of the whole frame.
    pub len: u32,
    /// The first of them.
    pub bytes: Vec<u8>,
}

/// A capture, with room for so many bytes of records. A record takes 16 bytes and what is copied of the frame.
pub fn capture(filter: Filter, wanted: Wanted, room: usize) -> (Request, Records) {
    let (records, taken) = RingBuffer::new(room);
    let missed = Arc::<AtomicU64>::default();
    let scratch = Vec::with_capacity(FRAME_MAX);
    let request = Request { filter, wanted, records, missed: Arc::clone(&missed), scratch };
    (request, Records { records: taken, missed })
}

impl Records {
    /// The oldest record.
    pub fn pop(&mut self) -> Option<Record> {
        // The head and the copy of a frame are written as one.
        let (head, rest) = {
            let chunk = self.records.read_chunk(HEAD).ok()?;
            let mut head = [0; HEAD];
            head.iter_mut().zip(chunk).for_each(|(to, byte)| *to = byte);
            let [at @ .., a, b, c, d, e, f, port, direction] = head;
            let (len, copied) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
            ((u64::from_be_bytes(at), len, port, direction), usize::from(copied))
        };
        let bytes = self.records.read_chunk(rest).map(|chunk| chunk.into_iter().collect());
        let (at, len, port, direction) = head;
        let direction = if direction == 0 { Direction::In } else { Direction::Out };
        let at = Time::from_nanos(at);
        Some(Record { at, port, direction, len, bytes: bytes.unwrap_or_default() })
    }

    /// Frames that found no room so far.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Whether the worker has ended the capture. The ring's memory is freed by who drops its end last: not a worker.
    pub fn is_left(&self) -> bool {
        self.records.is_abandoned()
    }
}

/// What the control thread tells a worker.
#[derive(Debug)]
pub enum Order {
    /// To capture from now on. A capture before it ends.
    Begin(Request),
    /// To end the capture.
    End,
}

/// The worker's end.
#[derive(Debug)]
pub struct Tap {
    orders: Consumer<Order>,
    on: Option<Request>,
    now: Time,
}

/// Both ends.
pub fn pair() -> (Tap, Producer<Order>) {
    let (order, orders) = RingBuffer::new(ORDERS);
    (Tap { orders, on: None, now: Time::ZERO }, order)
}

impl Tap {
    /// Takes orders.
    pub fn poll(&mut self) {
        while let Ok(order) = self.orders.pop() {
            self.on = match order {
                Order::Begin(request) => Some(request),
                Order::End => None,
            };
        }
    }

    /// Whether frames are captured.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Whether it is wanted what is decided for frames.
    #[inline]
    pub fn is_tracing(&self) -> bool {
        self.on.as_ref().is_some_and(|request| request.wanted == Wanted::Decisions)
    }

    /// Whether that is wanted of a frame that arrives at a port.
    pub fn traces(&mut self, port: PortId, frame: &[u8]) -> bool {
        let Some(Request { filter, scratch, .. }) = &mut self.on else { return false };
        filter.has(port, Direction::In, frame, scratch)
    }

    /// Something was decided for a frame of `len` bytes that has arrived at a port.
    pub fn decided(&mut self, port: PortId, len: usize, decisions: &[u8], head: &[u8]) {
        if let Some(request) = &mut self.on {
            request.record(self.now, port, Direction::In, len, [decisions, head]);
        }
    }

    /// The time of the frames that follow.
    #[inline]
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// Frames pass through a port: those that are wanted are copied.
    #[cold]
    pub fn see<'a>(
        &mut self,
        port: PortId,
        direction: Direction,
        frames: impl Iterator<Item = &'a [u8]>,
    ) {
        let Some(request) = &mut self.on else { return };
        let Wanted::Bytes(snaplen) = request.wanted else { return };
        for frame in frames {
            if request.filter.has(port, direction, frame, &mut request.scratch) {
                let copied = frame.get(..snaplen.into()).unwrap_or(frame);
                request.record(self.now, port, direction, frame.len(), [copied, &[]]);
            }
        }
    }
}

impl Request {
    /// Leaves a record with these bytes, or counts it where there is no room.
    fn record(&mut self, now: Time, port: PortId, to: Direction, len: usize, parts: [&[u8]; 2]) {
        let Self { records, missed, .. } = self;
        let copied = parts.iter().map(|part| part.len()).sum::<usize>();
        let Ok(mut chunk) = records.write_chunk(HEAD + copied) else {
            missed.store(missed.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        };
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        head[8..12].copy_from_slice(&(len as u32).to_be_bytes());
        head[12..14].copy_from_slice(&(copied as u16).to_be_bytes());
        head[14] = port.index() as u8;
        head[15] = u8::from(to == Direction::Out);
        let (mut first, mut second) = chunk.as_mut_slices();
        for part in [&head[..], parts[0], parts[1]] {
            let (a, b) = part.split_at(part.len().min(first.len()));
            let (to, rest) = first.split_at_mut(a.len());
            to.copy_from_slice(a);
            first = rest;
            let (to, rest) = second.split_at_mut(b.len());
            to.copy_from_slice(b);
            second = rest;
        }
        chunk.commit_all();
    }
}

#[cfg(test)]
mod tests;
