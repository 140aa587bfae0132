//! The order of frames between the LANs of two boxes with a tunnel. No frame may overtake another frame of its flow, and
//! none may arrive twice, unless the tunnel counted that it gave a frame up or had no session. R-TUN-4, R-TUN-5, R-TUN-44
//!
//! At the end of a run every frame must have arrived, unless there was such an event in its tunnel after it had entered, a box was
//! killed later, or the long haul damaged frames. [`Ordered`] counts the faults that such an event excuses.
//!
//! The check writes a number into each frame that enters a box from its LAN, in place of the source MAC address: the ICRC does
//! not cover it, and neither the tunnel nor a NIC reads it. The LAN repair sends NAKs to that address, so this check runs
//! without LAN repair only.

use std::collections::HashMap;

use common::frame::Frame;
use common::heap::HeapFrame;
use common::time::{Span, Time};
use common::wire::{Addr, Qpn, Response, Verdict, icrc_ok, parse};
use tunnel::Division;

use crate::workers::Workers;

/// The source MAC address.
const MAC: core::ops::Range<usize> = 6..12;
/// First byte of the source MAC address of a numbered frame. No NIC of these tests has an address that begins so.
const MARK: u8 = 0x06;
/// Least time between two snapshots of the tunnels' counts.
const NOTED_EVERY: Span = Span::from_micros(200);

/// A stream of packets whose order is checked: the requests, or the responses, to one queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Flow {
    from: usize,
    hosts: (Addr, Addr),
    qpn: Qpn,
    is_response: bool,
}

/// A frame that has entered a box from its LAN.
#[derive(Clone, Copy, Debug)]
struct Entered {
    flow: Flow,
    /// A positive ACK, which may overtake others. R-TUN-24
    is_ack: bool,
    tunnel: usize,
    at: Time,
    mac: [u8; 6],
    has_left: bool,
}

/// Numbers of the newest frames of a flow that have left.
#[derive(Clone, Copy, Default)]
struct Newest {
    any: Option<usize>,
    /// No ACK.
    other: Option<usize>,
}

/// A frame that came behind a later one, or twice.
pub(crate) struct Fault {
    frame: Entered,
    number: usize,
    /// The later one.
    behind: Option<usize>,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { frame: Entered { flow, at, tunnel, .. }, number, behind } = self;
        match behind {
            Some(later) => write!(f, "frame {number} came behind frame {later}")?,
            None => write!(f, "frame {number} came twice")?,
        }
        write!(f, ", tunnel {tunnel}, entered at {at:?}, {flow:?}")
    }
}

/// The frames that entered boxes from their LANs, and what happened to them that would be a fault but for an event that allows it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ordered {
    /// All of them.
    pub frames: u64,
    /// Those that had to arrive: there was no such event in their tunnel after they entered.
    pub sure: u64,
    /// Of the others, those that did not arrive.
    pub missing: u64,
    /// Frames that came behind a later one, or twice.
    pub excused: u64,
}

impl core::ops::AddAssign for Ordered {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.sure += other.sure;
        self.missing += other.missing;
        self.excused += other.excused;
    }
}

/// Counts of the events that allow a tunnel to deliver frames of one direction out of order, summed over both its ends.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Disorder {
    /// Changes of session, frames sent without a number, and frames that were given up or skipped.
    events: u64,
    /// Frames that were delivered before their predecessor ([`Received::unordered`](tunnel::Received::unordered)). R-TUN-10
    unordered: u64,
}

/// A snapshot of the counts: for each tunnel, those of the direction from each box.
struct Noted {
    at: Time,
    counts: Vec<[Disorder; 2]>,
}

/// The frames of a run.
pub(crate) struct InOrder {
    division: Division,
    /// By number.
    entered: Vec<Entered>,
    newest: HashMap<Flow, Newest>,
    noted: Vec<Noted>,
    /// When a box was started last: it counts from 0 again.
    started: Time,
    /// Faults for which there was an event that allows them.
    excused: u64,
}

impl Disorder {
    /// That of a tunnel, for frames from the first box to the second one.
    fn of([from, to]: [&Workers; 2], tunnel: usize) -> Self {
        let [from, to] = [from, to].map(|workers| workers.tunnel(tunnel).tunnel());
        let (sent, received) = (from.sent(), to.received());
        let (here, there) = (from.counts(), to.counts());
        let sessions = here.changes + there.changes;
        let plain = here.plain_to_wan + there.plain_to_lan + there.unsequenced;
        let given_up = sent.skipped + received.skipped + received.given_up + received.late;
        Self { events: sessions + plain + given_up, unordered: received.unordered }
    }
}

impl InOrder {
    /// Nothing has entered boxes with these tunnels.
    pub fn new(division: Division) -> Self {
        Self {
            division,
            entered: Vec::new(),
            newest: HashMap::new(),
            noted: Vec::new(),
            started: Time::ZERO,
            excused: 0,
        }
    }

    /// A box starts again.
    pub fn box_starts(&mut self, now: Time) {
        self.started = now;
    }

    /// A frame enters box `me`, the first of `boxes`, from its LAN: numbers it, if it is an intact RoCEv2 packet.
    pub fn enters(
        &mut self,
        (me, now): (usize, Time),
        frame: &mut HeapFrame,
        boxes: [&Workers; 2],
    ) {
        let bytes = frame.bytes();
        let Some(roce) = parse(bytes).ok().filter(|roce| icrc_ok(bytes, roce)) else { return };
        let flow = Flow {
            from: me,
            hosts: (roce.src, roce.dst),
            qpn: roce.dest_qpn,
            is_response: roce.kind().is_response(),
        };
        let verdict = Response::of(&roce, bytes).map(|response| response.verdict);
        let is_ack = verdict == Some(Verdict::Acknowledged);
        let tunnel = self.division.of_frame(bytes).into();
        let number = self.entered.len() as u64;
        let mac = bytes[MAC].try_into().expect("six bytes");
        self.entered.push(Entered { flow, is_ack, tunnel, at: now, mac, has_left: false });
        frame.bytes_mut()[MAC].copy_from_slice(&number.to_be_bytes()[2..]);
        frame.bytes_mut()[MAC.start] = MARK;
        if self.noted.last().is_none_or(|noted| now >= noted.at + NOTED_EVERY) {
            let [here, there] = boxes;
            let [a, b] = if me == 0 { [here, there] } else { [there, here] };
            let both = |tunnel| [[a, b], [b, a]].map(|way| Disorder::of(way, tunnel));
            let counts = (0..self.division.tunnels().into()).map(both).collect();
            self.noted.push(Noted { at: now, counts });
        }
    }

    /// A frame leaves box `me` to its LAN: restores its source MAC address. Returns a fault if it is out of order or arrived before.
    pub fn leaves(&mut self, me: usize, frame: &mut HeapFrame) -> Option<Fault> {
        let bytes = frame.bytes_mut();
        if bytes.get(MAC.start) != Some(&MARK) {
            return None;
        }
        let number = bytes[MAC.start + 1..MAC.end].iter().fold(0, |n, b| n << 8 | usize::from(*b));
        let entered = self.entered.get_mut(number)?;
        bytes[MAC].copy_from_slice(&entered.mac);
        let frame = *entered;
        if frame.flow.from == me {
            return None;
        }
        let newest = self.newest.entry(frame.flow).or_default();
        let before = if frame.is_ack { newest.other } else { newest.any };
        let behind = before.filter(|newer| *newer > number);
        newest.any = newest.any.max(Some(number));
        if !frame.is_ack {
            newest.other = newest.other.max(Some(number));
        }
        let is_faulty = behind.is_some() || entered.has_left;
        entered.has_left = true;
        is_faulty.then_some(Fault { frame, number, behind })
    }

    /// Whether an event that allows the fault has been counted since the frame entered, or the long haul `is_damaged`: a damaged
    /// shim may name any number or predecessor. Such a fault is counted. `boxes` are the one that it entered and the one that it left.
    pub fn excuses(
        &mut self,
        fault: &Fault,
        is_damaged: bool,
        boxes: [&Workers; 2],
        now: Time,
    ) -> bool {
        let is_excused = is_damaged || self.had_event(fault, boxes, now);
        self.excused += u64::from(is_excused);
        is_excused
    }

    fn had_event(&self, fault: &Fault, boxes: [&Workers; 2], now: Time) -> bool {
        let Entered { at, tunnel, flow, .. } = fault.frame;
        let noted = self.noted[..self.noted.partition_point(|noted| noted.at <= at)].last();
        let Some(before) = noted.map(|noted| noted.counts[tunnel][flow.from]) else { return true };
        let after = Disorder::of(boxes, tunnel);
        let give_up = boxes[1].tunnel(tunnel).tunnel().config().receiver.give_up;
        let is_late = after.unordered != before.unordered && now >= at + give_up;
        self.started >= at || after.events != before.events || is_late
    }

    /// The run is over: checks that all frames have left that had to. `boxes` are the first and the second one, if both are there.
    ///
    /// # Panics
    /// If one has not.
    pub fn end(&self, boxes: Option<[&Workers; 2]>, is_damaged: bool, now: Time) -> Ordered {
        let boxes = boxes.filter(|_| !is_damaged);
        // For each tunnel and direction: frames that entered between these times have arrived.
        let sure = |tunnel: usize, from: usize| {
            let [a, b] = boxes?;
            let boxes = if from == 0 { [a, b] } else { [b, a] };
            let give_up = boxes[1].tunnel(tunnel).tunnel().config().receiver.give_up;
            let after = Disorder::of(boxes, tunnel).events;
            // Counts only grow while no box is started.
            let of_boxes =
                &self.noted[self.noted.partition_point(|noted| noted.at <= self.started)..];
            let calm = of_boxes.iter().find(|noted| noted.counts[tunnel][from].events == after)?;
            Some(calm.at..Time::ZERO + now.since(Time::ZERO + give_up * 2))
        };
        let sure: Vec<[_; 2]> = (0..self.division.tunnels().into())
            .map(|tunnel| [0, 1].map(|from| sure(tunnel, from)))
            .collect();
        let frames = self.entered.len() as u64;
        let mut found = Ordered { frames, excused: self.excused, ..Ordered::default() };
        for (number, frame) in self.entered.iter().enumerate() {
            let times = &sure[frame.tunnel][frame.flow.from];
            let is_sure = times.as_ref().is_some_and(|times| times.contains(&frame.at));
            // An ACK that comes behind a newer one is dropped. R-TUN-24
            let newest = self.newest.get(&frame.flow).and_then(|newest| newest.any);
            let is_overtaken = frame.is_ack && newest > Some(number);
            assert!(
                !is_sure || frame.has_left || is_overtaken,
                "frame {number} has not arrived: {frame:?}"
            );
            found.sure += u64::from(is_sure);
            found.missing += u64::from(!frame.has_left);
        }
        found
    }
}
