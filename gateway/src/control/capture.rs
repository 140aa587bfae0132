//! Captures of frames, for `/capture`: one at a time, which ends when nobody fetches it. The control thread makes pcapng of what the workers
//! have copied ([`worker::capture`](crate::worker::capture)).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::CaptureEnd;
use parking_lot::{Mutex, MutexGuard};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use rtrb::Producer;
use tunnel::encapsulation::Marks;

use super::trace;
use super::wall::Wall;
use crate::config::{Config, TunnelMode};
use crate::port::PortId;
use crate::worker::capture::{
    Direction, Filter, Order, Record, Records, Tap, Wanted as OfEach, capture, pair,
};

/// Bytes of records that wait at each worker for the control thread.
const ROOM: usize = 4 << 20;
/// Bytes of records in one answer, roughly.
const PART: usize = 4 << 20;
/// A capture that nobody fetches for so long ends.
pub const FORGOTTEN: Duration = Duration::from_secs(5);
/// Time that a request waits for frames.
pub const WAIT: Duration = Duration::from_secs(1);
/// Time between two looks at what the workers have captured.
pub const TICK: Duration = Duration::from_millis(20);
/// Bytes of a frame that are captured unless somebody asks for another number.
pub const SNAPLEN: usize = 256;
/// The most that can be asked for: all of any frame.
pub const SNAPLEN_MAX: usize = 16_384;
/// Frames of a capture unless somebody asks for another number.
pub const FRAMES: usize = 10_000;
/// Packets of a trace unless somebody asks for another number.
pub const TRACED: usize = 100;
/// The most that can be asked for.
pub const FRAMES_MAX: usize = 100_000_000;
/// Option `epb_flags` of pcapng: received, sent.
const FLAGS: [u32; 2] = [1, 2];

/// What is captured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wanted {
    /// Which frames.
    pub filter: Filter,
    /// What of each.
    pub of_each: OfEach,
    /// After how many frames the capture ends.
    pub frames: usize,
}

/// Why there is no capture, in one sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Another one runs.
    Busy(String),
    /// There is none of this number.
    Unknown(String),
    /// A worker does not take the order.
    Silent(String),
}

/// The ways to the workers, for one capture at a time.
#[derive(Debug, Default)]
pub struct Captures {
    inner: Mutex<Inner>,
    /// How the tunnel's frames look.
    marks: Marks,
    ports: u8,
    lanes: u8,
}

#[derive(Debug, Default)]
struct Inner {
    workers: Vec<Producer<Order>>,
    number: u64,
    running: Option<Running>,
    /// Ends of captures that are over: the last to drop one frees its memory, and that is not to be a worker.
    left: Vec<Records>,
}

struct Running {
    number: u64,
    records: Vec<Records>,
    /// What was not fetched yet.
    output: Output,
    /// Frames that may still come.
    rest: usize,
    captured: u64,
    fetched: Instant,
}

/// What the operator gets.
enum Output {
    /// A pcapng file.
    File(PcapNgWriter<Vec<u8>>),
    /// Lines of JSON, each what was decided for a packet.
    Lines(Vec<u8>, Marks),
}

impl Output {
    fn add(&mut self, record: Record, wall: &Wall) {
        let time = wall.time_of(record.at);
        match self {
            Self::File(file) => {
                let block = EnhancedPacketBlock {
                    interface_id: record.port.into(),
                    timestamp: time,
                    original_len: record.len,
                    data: Cow::Owned(record.bytes),
                    options: vec![EnhancedPacketOption::Flags(
                        FLAGS[usize::from(record.direction == Direction::Out)],
                    )],
                };
                // Writing to memory does not fail.
                let _ = file.write_pcapng_block(block);
            }
            Self::Lines(lines, marks) => {
                let Some(traced) = trace::shown(&record, time, marks) else { return };
                let _ = serde_json::to_writer(&mut *lines, &traced);
                lines.push(b'\n');
            }
        }
    }

    fn take(&mut self) -> Vec<u8> {
        core::mem::take(match self {
            Self::File(file) => file.get_mut(),
            Self::Lines(lines, _) => lines,
        })
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Captures {
    /// Those of a box of that configuration.
    pub fn of(config: &Config) -> Self {
        let marks = Marks { ethertype: config.tunnel.ethertype, port: config.tunnel.port };
        let ports = 1 + config.wan.len() as u8;
        let lanes = if config.tunnel.mode == TunnelMode::Off { 0 } else { config.lanes() };
        Self { marks, ports, lanes, ..Self::default() }
    }

    /// The way to one more worker.
    pub fn add_worker(&self) -> Tap {
        let (tap, order) = pair();
        self.lock().workers.push(order);
        tap
    }

    /// How the tunnel's frames look.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// The lanes of the tunnel: none without one.
    pub fn lanes(&self) -> u8 {
        self.lanes
    }

    /// The ports of the box.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        PortId::all(self.ports.saturating_sub(1))
    }

    /// A pcapng file with an interface for each port.
    fn file(&self, snaplen: u16) -> Result<PcapNgWriter<Vec<u8>>, PcapError> {
        let mut file = PcapNgWriter::new(Vec::new())?;
        for port in self.ports() {
            let name = InterfaceDescriptionOption::IfName(Cow::Borrowed(port.name()));
            file.write_pcapng_block(InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: snaplen.into(),
                // Nanoseconds.
                options: vec![name, InterfaceDescriptionOption::IfTsResol(9)],
            })?;
        }
        Ok(file)
    }

    /// Begins a capture, and returns its number.
    ///
    /// # Errors
    /// Another one runs, or a worker takes no orders.
    pub fn begin(&self, wanted: &Wanted, now: Instant) -> Result<u64, Refused> {
        let mut inner = self.lock();
        inner.forget(now);
        if let Some(Running { number, .. }) = &inner.running {
            let why = format!("capture {number} is under way; there is one at a time");
            return Err(Refused::Busy(why));
        }
        let output = match wanted.of_each {
            OfEach::Bytes(snaplen) => {
                Output::File(self.file(snaplen).map_err(|e| Refused::Silent(e.to_string()))?)
            }
            OfEach::Decisions => Output::Lines(Vec::new(), self.marks),
        };
        let mut records = Vec::new();
        for (n, worker) in inner.workers.iter_mut().enumerate() {
            let (request, end) = capture(wanted.filter, wanted.of_each, ROOM);
            if worker.push(Order::Begin(request)).is_err() {
                inner.end(records);
                let why = format!("worker {n} takes no orders; /healthz says how it does");
                return Err(Refused::Silent(why));
            }
            records.push(end);
        }
        inner.number += 1;
        let (number, rest, captured) = (inner.number, wanted.frames, 0);
        inner.running = Some(Running { number, records, output, rest, captured, fetched: now });
        Ok(number)
    }

    /// The next part of the capture's pcapng file, which may be empty; `None` once it has all its frames.
    ///
    /// # Errors
    /// There is no such capture: it was ended, or forgotten.
    pub fn next(&self, number: u64, now: Instant, wall: &Wall) -> Result<Option<Vec<u8>>, Refused> {
        let mut inner = self.lock();
        let running = inner.running(number)?;
        running.fetched = now;
        if running.rest == 0 {
            return Ok(None);
        }
        for record in running.take() {
            running.output.add(record, wall);
        }
        Ok(Some(running.output.take()))
    }

    /// Ends a capture.
    ///
    /// # Errors
    /// There is no such capture.
    pub fn end(&self, number: u64) -> Result<CaptureEnd, Refused> {
        let mut inner = self.lock();
        let running = inner.running(number)?;
        let end = CaptureEnd {
            captured: running.captured,
            missed: running.records.iter().map(Records::missed).sum(),
        };
        inner.stop();
        Ok(end)
    }

    /// Ends a capture that nobody fetches, and frees what the workers have left. Returns whether there is more to do later.
    pub fn tidy(&self, now: Instant) -> bool {
        let mut inner = self.lock();
        inner.forget(now);
        inner.left.retain(|records| !records.is_left());
        inner.running.is_some() || !inner.left.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    fn running(&mut self, number: u64) -> Result<&mut Running, Refused> {
        let running = self.running.as_mut().filter(|running| running.number == number);
        let why = || format!("there is no capture {number}; one that nobody fetches for 5 s ends");
        running.ok_or_else(|| Refused::Unknown(why()))
    }

    fn forget(&mut self, now: Instant) {
        let is_forgotten =
            |running: &Running| now.saturating_duration_since(running.fetched) >= FORGOTTEN;
        if self.running.as_ref().is_some_and(is_forgotten) {
            self.stop();
        }
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            self.end(running.records);
        }
    }

    fn end(&mut self, records: Vec<Records>) {
        for worker in &mut self.workers {
            // One that takes no orders has not begun, or sees the next.
            let _ = worker.push(Order::End);
        }
        self.left.extend(records);
    }
}

impl Running {
    /// The records that wait, oldest first, as many as an answer takes.
    fn take(&mut self) -> Vec<Record> {
        let mut all = Vec::new();
        let share = PART / self.records.len().max(1);
        for records in &mut self.records {
            let mut bytes = 0;
            while bytes < share
                && let Some(record) = records.pop()
            {
                bytes += record.bytes.len();
                all.push(record);
            }
        }
        all.sort_by_key(|record| record.at);
        all.truncate(self.rest);
        self.rest -= all.len();
        self.captured += all.len() as u64;
        all
    }
}

/// Tidies until there is nothing left to do.
pub async fn watch(state: Arc<super::State>) {
    while state.captures.tidy(Instant::now()) {
        tokio::time::sleep(WAIT).await;
    }
}

#[cfg(test)]
mod tests;
