//! The flight recorder answers, after the fact, what happened to a packet with a given PSN and queue pair.
//!
//! A [`Recorder`] is a ring of the newest records, allocated at start. A packet that is forwarded in order leaves no record.

use crate::metrics::Metric;
use crate::psn::Psn;
use crate::time::{Span, Time};
use crate::wire::{Addr, Opcode, Qpn, ROCE_PORT, UDP};

/// The stream that a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// Source of its packets.
    pub source: Addr,
    /// Destination of its packets.
    pub destination: Addr,
    /// Queue pair at the destination.
    pub qpn: Qpn,
}

/// What happened on a lane of the tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneEvent {
    /// A frame was sent again.
    Resent,
    /// A frame could not be sent again: no memory, or no next hop.
    NotResent,
    /// A frame that was sent again has arrived.
    ResentArrived,
    /// Frames are no longer waited for.
    GivenUp,
}

impl LaneEvent {
    /// The name as the API and `lr2ctl` show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resent => "tunnel_frames resent",
            Self::NotResent => "tunnel_frames not_resent",
            Self::ResentArrived => "tunnel_frames resent_arrived",
            Self::GivenUp => "tunnel_frames given_up",
        }
    }

    /// The meaning of the event, in one sentence.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Resent => {
                "The frame was reported missing, or its lane went silent: it was sent again."
            }
            Self::NotResent => {
                "The frame was to be sent again, and could not be: no memory, or no next hop."
            }
            Self::ResentArrived => "The frame arrived after it was sent again.",
            Self::GivenUp => "Frames that were missing are no longer waited for.",
        }
    }
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The event that this metric counts.
    Counted(Metric),
    /// Something on a lane of the tunnel, at this number of the lane: the first one, where there are several.
    OnLane(LaneEvent, u8, u32),
}

/// An event of packets with consecutive PSNs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Time of the event of the first packet.
    pub first: Time,
    /// Time of the event of the last packet, to the microsecond.
    pub last: Time,
    /// The stream of the packets; `None` if they are not RoCEv2, or the stream is unknown.
    pub stream: Option<Stream>,
    /// PSN of the first packet; `None` if the event is one of the flow.
    pub psn: Option<Psn>,
    /// How many packets.
    pub packets: u32,
    /// What happened.
    pub what: What,
}

impl Record {
    /// Whether it is about a packet with this PSN.
    pub fn has(&self, psn: Psn) -> bool {
        self.psn.is_some_and(|first| {
            let distance = psn.distance(first);
            distance >= 0 && (distance as u32) < self.packets.max(1)
        })
    }
}

/// A record as the ring has it: a cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(64))]
struct Packed {
    first: Time,
    source: Addr,
    destination: Addr,
    /// Queue pair, with [`HAS_STREAM`] and [`HAS_PSN`].
    qpn: u32,
    psn: u32,
    packets: u32,
    /// Microseconds from the first packet to the last.
    lasted: u32,
    what: Kind,
    /// Of the lane.
    number: u32,
}

const _: () = assert!(size_of::<Packed>() == 64);

/// What happened, without the number on a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// By its position in [`Metric::ALL`].
    Counted(u16),
    OnLane(LaneEvent, u8),
}

const HAS_STREAM: u32 = 1 << 31;
const HAS_PSN: u32 = 1 << 30;

impl Packed {
    #[inline]
    fn new(record: &Record) -> Self {
        let (what, number) = match record.what {
            What::Counted(metric) => (Kind::Counted(metric as u16), 0),
            What::OnLane(event, lane, number) => (Kind::OnLane(event, lane), number),
        };
        let none = Addr::from_v6([0; 16]);
        let (source, destination, qpn) = match &record.stream {
            Some(stream) => (stream.source, stream.destination, stream.qpn.get() | HAS_STREAM),
            None => (none, none, 0),
        };
        let (psn, has_psn) = record.psn.map_or((0, 0), |psn| (psn.get(), HAS_PSN));
        Self {
            first: record.first,
            source,
            destination,
            qpn: qpn | has_psn,
            psn,
            packets: record.packets,
            lasted: micros(record.last.since(record.first)),
            what,
            number,
        }
    }

    fn record(&self) -> Record {
        let qpn = Qpn::new(self.qpn & 0xff_ffff);
        let stream = Stream { source: self.source, destination: self.destination, qpn };
        Record {
            first: self.first,
            last: self.first + Span::from_micros(self.lasted.into()),
            stream: Some(stream).filter(|_| self.qpn & HAS_STREAM != 0),
            psn: Some(Psn::new(self.psn)).filter(|_| self.qpn & HAS_PSN != 0),
            packets: self.packets,
            what: match self.what {
                Kind::Counted(metric) => What::Counted(Metric::ALL[usize::from(metric)]),
                Kind::OnLane(event, lane) => What::OnLane(event, lane, self.number),
            },
        }
    }

    /// Merges `next` into this record if it is the same event of the next PSNs, or of the same PSNs again. Returns whether it did.
    #[inline(always)]
    fn takes(&mut self, next: &Self) -> bool {
        let is_like = self.qpn == next.qpn
            && self.qpn & HAS_PSN != 0
            && self.what == next.what
            && self.source == next.source
            && self.destination == next.destination;
        if !is_like {
            return false;
        }
        let is_on_lane = matches!(self.what, Kind::OnLane(..));
        let number = if is_on_lane { self.number.wrapping_add(self.packets) } else { 0 };
        let end = Psn::new(self.psn).offset(self.packets).get();
        if (next.psn, next.number) == (end, number) && self.packets > 0 {
            self.packets = self.packets.saturating_add(next.packets);
        } else if (next.psn, next.packets, next.number) != (self.psn, self.packets, self.number) {
            return false;
        }
        self.lasted = micros(next.first.since(self.first));
        true
    }
}

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1_000).unwrap_or(u32::MAX)
}

/// PSN of the first packet, and number of packets, of the records that follow.
#[derive(Clone, Copy, Debug)]
pub struct Subject(Option<(Psn, u32)>);

/// The newest records of one switch or tunnel.
#[derive(Debug, Default)]
pub struct Recorder {
    ring: Vec<Packed>,
    capacity: usize,
    /// Where the newest is.
    newest: usize,
    /// Records so far.
    count: u64,
    now: Time,
    /// The packets that the next records are about.
    subject: Option<(Psn, u32)>,
}

impl Recorder {
    /// A ring of so many records; 0: nothing is recorded.
    pub fn new(capacity: usize) -> Self {
        Self { ring: Vec::with_capacity(capacity), capacity, ..Self::default() }
    }

    /// Bytes of so many records.
    pub const fn memory(capacity: usize) -> usize {
        capacity * size_of::<Packed>()
    }

    /// Sets the time of the records that follow. They have no PSN until [`about`](Self::about) sets one.
    #[inline]
    pub fn begin(&mut self, now: Time) {
        (self.now, self.subject) = (now, None);
    }

    /// The time of the records that follow.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Sets the packets of the records that follow. Returns the former ones, for [`restore`](Self::restore).
    #[inline]
    pub fn about(&mut self, psn: Psn, packets: u64) -> Subject {
        Subject(self.subject.replace((psn, u32::try_from(packets).unwrap_or(u32::MAX))))
    }

    /// Sets the packets of the records that follow to the former ones.
    #[inline]
    pub fn restore(&mut self, before: Subject) {
        self.subject = before.0;
    }

    /// Records an event of the packets that [`about`](Self::about) has set, or of `packets` unknown ones.
    pub fn note(&mut self, stream: Stream, metric: Metric, packets: u64) {
        let (psn, has_psn, packets) = match self.subject {
            Some((psn, packets)) => (psn.get(), HAS_PSN, packets),
            None => (0, 0, u32::try_from(packets).unwrap_or(u32::MAX)),
        };
        let Stream { source, destination, qpn } = stream;
        let (first, qpn) = (self.now, qpn.get() | HAS_STREAM | has_psn);
        let what = Kind::Counted(metric as u16);
        self.put(Packed {
            first,
            source,
            destination,
            qpn,
            psn,
            packets,
            lasted: 0,
            what,
            number: 0,
        });
    }

    /// Adds a record, or merges it into the newest one.
    pub fn add(&mut self, record: Record) {
        self.put(Packed::new(&record));
    }

    // In line, so that a record is written where it stays.
    #[inline(always)]
    fn put(&mut self, record: Packed) {
        if self.ring.get_mut(self.newest).is_some_and(|newest| newest.takes(&record)) {
            return;
        }
        if self.ring.len() < self.capacity {
            self.newest = self.ring.len();
            self.ring.push(record);
        } else if self.capacity > 0 {
            self.newest = if self.newest + 1 == self.capacity { 0 } else { self.newest + 1 };
            self.ring[self.newest] = record;
        } else {
            return;
        }
        self.count += 1;
    }

    /// Number of the oldest record that is kept.
    pub fn start(&self) -> u64 {
        self.count - self.ring.len() as u64
    }

    /// Number of the next record.
    pub const fn end(&self) -> u64 {
        self.count
    }

    /// A record by its number.
    pub fn get(&self, number: u64) -> Option<Record> {
        let is_kept = (self.start()..self.count).contains(&number);
        let place = number.checked_rem(self.capacity as u64)?;
        self.ring.get(place as usize).filter(|_| is_kept).map(Packed::record)
    }
}

/// A RoCEv2 packet, for records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Its stream.
    pub stream: Stream,
    /// Its opcode.
    pub opcode: Opcode,
    /// Its PSN.
    pub psn: Psn,
}

/// A RoCEv2 packet from its EtherType on, whole or not; `None` of anything else. Nothing is checked besides.
pub fn packet(mut bytes: &[u8]) -> Option<Packet> {
    const VLAN_TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
    while VLAN_TAGS.iter().any(|tag| bytes.starts_with(tag)) {
        bytes = bytes.get(4..)?;
    }
    let (ethertype, ip) = bytes.split_first_chunk()?;
    let (source, destination, rest) = match ethertype {
        [0x08, 0x00] if ip.get(9) == Some(&UDP) => {
            let addr = |at| ip.get(at..)?.first_chunk().copied().map(Addr::from_v4);
            (addr(12)?, addr(16)?, ip.get(usize::from(ip[0] & 0xf) * 4..)?)
        }
        [0x86, 0xdd] if ip.get(6) == Some(&UDP) => {
            let addr = |at| ip.get(at..)?.first_chunk().copied().map(Addr::from_v6);
            (addr(8)?, addr(24)?, ip.get(40..)?)
        }
        _ => return None,
    };
    let (_, udp) = rest.split_first_chunk::<2>()?;
    if !udp.starts_with(&ROCE_PORT.to_be_bytes()) {
        return None;
    }
    // From the UDP header on: BTH at 8, in it the QPN at 5 and the PSN at 9.
    let opcode = Opcode(*rest.get(8)?);
    let number = |at: usize| {
        let [a, b, c] = *rest.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes([0, a, b, c]))
    };
    let qpn = Qpn::new(number(13)?);
    let stream = Stream { source, destination, qpn };
    Some(Packet { stream, opcode, psn: Psn::new(number(17)?) })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Aeth, Headers, Vlans, parse};

    const STREAM: Stream = Stream {
        source: Addr::from_v4([10, 1, 0, 1]),
        destination: Addr::from_v4([10, 2, 0, 1]),
        qpn: Qpn::new(0x11),
    };

    fn record(psn: u32, at: u64) -> Record {
        let at = Time::from_nanos(at);
        Record {
            first: at,
            last: at,
            stream: Some(STREAM),
            psn: Some(Psn::new(psn)),
            packets: 1,
            what: What::Counted(Metric::DepotHeld),
        }
    }

    #[test]
    fn consecutive_packets_are_one_record() {
        let mut recorder = Recorder::new(4);
        for (at, psn) in [0xff_fffe, 0xff_ffff, 0, 1, 3].into_iter().enumerate() {
            recorder.begin(Time::from_nanos(1_000 * at as u64));
            recorder.about(Psn::new(psn), 1);
            recorder.note(STREAM, Metric::DepotHeld, 1);
        }
        let expected = Record { last: Time::from_nanos(3_000), packets: 4, ..record(0xff_fffe, 0) };
        assert_eq!(recorder.get(0), Some(expected));
        assert_eq!((recorder.get(1), recorder.end()), (Some(record(3, 4_000)), 2));
        let has = |psn| expected.has(Psn::new(psn));
        assert_eq!([0xff_fffd, 0xff_fffe, 1, 2].map(has), [false, true, true, false]);
    }

    #[test]
    fn events_of_other_streams_lanes_and_kinds_stay_apart() {
        let lane = |event, lane, number| What::OnLane(event, lane, number);
        let next = Record { what: lane(LaneEvent::Resent, 1, 8), ..record(11, 0) };
        let other = |stream| Record { stream: Some(stream), ..next };
        let host = Addr::from_v4([10, 3, 0, 1]);
        for (apart, second) in [
            (false, next),
            (true, other(Stream { qpn: Qpn::new(0x12), ..STREAM })),
            (true, other(Stream { source: host, ..STREAM })),
            (true, other(Stream { destination: host, ..STREAM })),
            (true, Record { stream: None, ..next }),
            (true, Record { psn: Some(Psn::new(12)), ..next }),
            (true, Record { what: lane(LaneEvent::Resent, 2, 8), ..next }),
            (true, Record { what: lane(LaneEvent::Resent, 1, 9), ..next }),
            (true, Record { what: lane(LaneEvent::NotResent, 1, 8), ..next }),
            (true, record(11, 0)),
        ] {
            let mut recorder = Recorder::new(4);
            recorder.add(Record { what: lane(LaneEvent::Resent, 1, 7), ..record(10, 0) });
            recorder.add(second);
            assert_eq!(recorder.end(), 1 + u64::from(apart), "{second:?}");
        }
    }

    #[test]
    fn what_is_about_no_packet_stays_apart() {
        let mut recorder = Recorder::new(4);
        recorder.begin(Time::from_nanos(7));
        recorder.note(STREAM, Metric::FlowProtected, 1);
        recorder.note(STREAM, Metric::FlowProtected, 1);
        assert_eq!((recorder.end(), recorder.get(0).unwrap().psn), (2, None));
    }

    /// With the parser of frames as the oracle; the front of the packet is enough.
    #[test]
    fn a_packet_is_found_with_tags_and_over_ipv6() {
        let hosts: [(IpAddr, IpAddr); 2] = [
            ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()),
        ];
        for (vlans, (src, dst)) in
            [Vlans::NONE, Vlans::new(0, 7), Vlans::new(5, 7)].into_iter().zip(hosts.iter().cycle())
        {
            let headers = Headers::new([2; 6], [4; 6], vlans, *src, *dst, 0xc000, 0, 64);
            let mut frame = vec![0; headers.frame_len(Aeth::LEN)];
            let aeth = Aeth { syndrome: 0, msn: 1 };
            headers.emit_ack(Qpn::new(0x123456), Psn::new(0xfe_dcba), aeth, &mut frame);
            let roce = parse(&frame).unwrap();
            let stream =
                Stream { source: roce.src, destination: roce.dst, qpn: Qpn::new(0x123456) };
            let found = packet(&frame[12..usize::from(roce.body)]).unwrap();
            assert_eq!((found.stream, found.opcode), (stream, roce.opcode));
            assert_eq!(found.psn, Psn::new(0xfe_dcba));
            assert_eq!(packet(&frame[12..usize::from(roce.bth)]), None);
        }
    }

    proptest! {
        /// Against a list of all records.
        #[test]
        fn the_newest_are_kept(capacity in 0_usize..9, psns in prop::collection::vec(0_u32..6, 0..60)) {
            let (mut recorder, mut all) = (Recorder::new(capacity), Vec::<Record>::new());
            for (at, psn) in psns.into_iter().enumerate() {
                let new = record(psn, 1_000 * at as u64);
                recorder.add(new);
                match all.last_mut() {
                    Some(last) if last.packets == 1 && last.psn == new.psn => last.last = new.last,
                    Some(last) if last.psn.map(|it| it.offset(last.packets)) == new.psn => {
                        last.packets += 1;
                        last.last = new.last;
                    }
                    _ => all.push(new),
                }
            }
            if capacity == 0 {
                all.clear();
            }
            let start = all.len().saturating_sub(capacity);
            prop_assert_eq!((recorder.start(), recorder.end()), (start as u64, all.len() as u64));
            for (n, record) in all.iter().enumerate() {
                prop_assert_eq!(recorder.get(n as u64), Some(*record).filter(|_| n >= start));
            }
            prop_assert_eq!(recorder.get(all.len() as u64), None);
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            packet(&bytes);
        }
    }
}
