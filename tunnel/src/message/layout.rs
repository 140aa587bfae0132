//! Control messages in network byte order, field by field. There is one way to write each.

use arrayvec::ArrayVec;
use common::ids::{BootId, NodeId};
use common::time::Time;
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    Echo, Header, Hello, Message, PathEcho, PathProbe, Probe, Reject, Report, Reports, Skip,
};
use crate::number::{Lane, Session, WireNumber};
use crate::shim::{CONTROL_BYTE, VERSION};

const HELLO: u8 = 1;
const REPORT: u8 = 2;
const PROBE: u8 = 3;
const SKIP: u8 = 4;
const BYE: u8 = 5;
const PATH: u8 = 6;
const PATH_ECHO: u8 = 7;

/// Flag of a REPORT of a lane: it speaks of numbers from `from` on only.
const HAS_FROM: u8 = 1 << 0;
/// The same: the newest PROBE of the lane follows.
const HAS_ECHO: u8 = 1 << 1;

macro_rules! layout {
    ($(#[$doc:meta])* $name:ident, $len:literal { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        struct $name { $($field: $type,)* }
        const _: () = assert!(size_of::<$name>() == $len);
    };
}

layout! {
    /// The beginning of every message: the shim, and who speaks.
    Prefix, 40 {
        first: u8,
        lane: u8,
        kind: u8,
        zero: u8,
        session: U32,
        node: U32,
        len: U16,
        tunnel: u8,
        reserved: u8,
        boot: U64,
        seq: U64,
        seen_boot: U64,
    }
}

layout! {
    /// The fields of a HELLO; zeros follow.
    HelloFields, 16 {
        session: U32,
        features: U32,
        frame_max: U16,
        heard: U16,
        lanes: u8,
        division: u8,
        reserved: [u8; 2],
    }
}

layout! {
    /// The fields of a REPORT of a lane; the echo follows, if there is one, and its ranges.
    ReportFields, 20 {
        lane: u8,
        flags: u8,
        ranges: u8,
        reserved: u8,
        from: U32,
        next: U32,
        frames: U32,
        marked: U32,
    }
}

layout! {
    /// The newest PROBE of a lane, in its REPORT.
    EchoFields, 16 {
        sent: U64,
        arrived: U64,
    }
}

layout! {
    /// The fields of a PROBE.
    ProbeFields, 12 {
        next: U32,
        sent: U64,
    }
}

layout! {
    /// The fields of a PATH; zeros follow.
    PathFields, 8 {
        sent: U64,
    }
}

layout! {
    /// The fields of a PATH_ECHO.
    PathEchoFields, 12 {
        sent: U64,
        len: U16,
        reserved: [u8; 2],
    }
}

layout! {
    /// A range of a REPORT or SKIP.
    RangeFields, 8 {
        start: U32,
        count: U32,
    }
}

/// Where the tunnel stands in a message.
pub(super) const TUNNEL_AT: usize = core::mem::offset_of!(Prefix, tunnel);

/// Bytes of a HELLO without padding and tag.
pub(super) const HELLO_LEN: usize = size_of::<Prefix>() + size_of::<HelloFields>();

/// Bytes of a PATH without padding and tag.
pub(super) const PATH_LEN: usize = size_of::<Prefix>() + size_of::<PathFields>();

/// Bytes of a message without its tag.
pub(super) fn len(message: &Message) -> usize {
    size_of::<Prefix>()
        + match message {
            Message::Hello(hello) => size_of::<HelloFields>() + usize::from(hello.padding),
            Message::Reports(reports) => {
                reports.lanes().len() * size_of::<ReportFields>()
                    + reports.echoes() * size_of::<EchoFields>()
                    + reports.ranges() * size_of::<RangeFields>()
            }
            Message::Probe(_) => size_of::<ProbeFields>(),
            Message::Skip(skip) => skip.ranges.len() * size_of::<RangeFields>(),
            Message::Bye => 0,
            Message::PathProbe(probe) => size_of::<PathFields>() + usize::from(probe.padding),
            Message::PathEcho(_) => size_of::<PathEchoFields>(),
        }
}

/// Bytes that a message says it has, without its tag.
pub(super) fn declared_len(bytes: &[u8]) -> Result<usize, Reject> {
    let (prefix, _) = Prefix::ref_from_prefix(bytes).map_err(|_| Reject::Truncated)?;
    if prefix.first >> 4 != VERSION {
        return Err(Reject::Version);
    }
    Ok(usize::from(prefix.len.get()).max(size_of::<Prefix>()))
}

/// Writes a message into `out`, which must be [`len`] bytes long.
pub(super) fn write(header: &Header, message: &Message, out: &mut [u8]) {
    let (kind, lane) = match message {
        Message::Hello(_) => (HELLO, 0),
        Message::Reports(_) => (REPORT, 0),
        Message::Probe(probe) => (PROBE, probe.lane.get()),
        Message::Skip(skip) => (SKIP, skip.lane.get()),
        Message::Bye => (BYE, 0),
        Message::PathProbe(probe) => (PATH, probe.lane.get()),
        Message::PathEcho(echo) => (PATH_ECHO, echo.lane.get()),
    };
    let prefix = Prefix {
        first: CONTROL_BYTE,
        lane,
        kind,
        zero: 0,
        session: header.session.get().into(),
        node: header.node.0.into(),
        len: (out.len() as u16).into(),
        tunnel: header.tunnel,
        reserved: 0,
        boot: header.boot.0.into(),
        seq: header.seq.into(),
        seen_boot: header.seen_boot.0.into(),
    };
    let mut rest = put(out, &prefix);
    match message {
        Message::Hello(hello) => {
            let fields = HelloFields {
                session: hello.session.get().into(),
                features: hello.features.into(),
                frame_max: hello.frame_max.into(),
                heard: hello.heard.into(),
                lanes: hello.lanes,
                division: hello.division,
                reserved: [0; 2],
            };
            put(rest, &fields).fill(0);
        }
        Message::Reports(reports) => {
            for report in reports.iter() {
                rest = put_report(rest, &report);
            }
        }
        Message::Probe(probe) => {
            let (next, sent) =
                (probe.next.0.into(), probe.sent_at.unwrap_or_default().as_nanos().into());
            put(rest, &ProbeFields { next, sent });
        }
        Message::Skip(skip) => {
            put_ranges(rest, &skip.ranges);
        }
        Message::Bye => {}
        Message::PathProbe(probe) => {
            put(rest, &PathFields { sent: probe.sent_at.as_nanos().into() }).fill(0);
        }
        Message::PathEcho(echo) => {
            let (sent, len) = (echo.sent_at.as_nanos().into(), echo.len.into());
            put(rest, &PathEchoFields { sent, len, reserved: [0; 2] });
        }
    }
}

/// Reads a message of the right length. `None` if a field is out of its range.
pub(super) fn read(bytes: &[u8]) -> Option<(Header, Message)> {
    let (prefix, rest) = Prefix::ref_from_prefix(bytes).ok()?;
    let lane = Lane::new(prefix.lane)?;
    let of_no_lane = lane.get() == 0;
    let is_plain = prefix.first == CONTROL_BYTE && prefix.zero == 0 && prefix.reserved == 0;
    is_plain.then_some(())?;
    let message = match prefix.kind {
        HELLO if of_no_lane => Message::Hello(read_hello(rest)?),
        REPORT if of_no_lane => Message::Reports(read_reports(rest)?),
        PROBE => {
            let fields = ProbeFields::ref_from_bytes(rest).ok()?;
            let sent_at = Some(Time::from_nanos(fields.sent.get())).filter(|at| *at > Time::ZERO);
            Message::Probe(Probe { lane, next: WireNumber(fields.next.get()), sent_at })
        }
        SKIP => {
            let all = <[RangeFields]>::ref_from_bytes(rest).ok().filter(|all| !all.is_empty())?;
            let mut ranges = ArrayVec::new();
            for range in all {
                let count = Some(range.count.get()).filter(|count| (1..1 << 31).contains(count))?;
                ranges.try_push((WireNumber(range.start.get()), count)).ok()?;
            }
            Message::Skip(Skip { lane, ranges })
        }
        BYE if of_no_lane && rest.is_empty() => Message::Bye,
        PATH => {
            let (fields, zeros) = PathFields::ref_from_prefix(rest).ok()?;
            let sent_at = Time::from_nanos(fields.sent.get());
            let is_plain = sent_at > Time::ZERO && zeros.iter().all(|byte| *byte == 0);
            // A message is shorter than 2^16.
            let padding = zeros.len() as u16;
            is_plain.then_some(Message::PathProbe(PathProbe { lane, sent_at, padding }))?
        }
        PATH_ECHO => {
            let fields = PathEchoFields::ref_from_bytes(rest).ok()?;
            let sent_at = Time::from_nanos(fields.sent.get());
            let is_plain = sent_at > Time::ZERO && fields.reserved == [0; 2];
            let len = fields.len.get();
            is_plain.then_some(Message::PathEcho(PathEcho { lane, sent_at, len }))?
        }
        _ => return None,
    };
    let header = Header {
        node: NodeId(prefix.node.get()),
        boot: BootId(prefix.boot.get()),
        seq: prefix.seq.get(),
        seen_boot: BootId(prefix.seen_boot.get()),
        session: Session::new(prefix.session.get()),
        tunnel: prefix.tunnel,
    };
    Some((header, message))
}

fn read_hello(rest: &[u8]) -> Option<Hello> {
    let (fields, zeros) = HelloFields::ref_from_prefix(rest).ok()?;
    let is_plain = fields.reserved == [0; 2] && zeros.iter().all(|byte| *byte == 0);
    (is_plain && fields.lanes > 0 && fields.session.get() != 0).then(|| Hello {
        session: Session::new(fields.session.get()),
        lanes: fields.lanes,
        division: fields.division,
        features: fields.features.get(),
        frame_max: fields.frame_max.get(),
        heard: fields.heard.get(),
        padding: zeros.len() as u16, // A message is shorter than 2^16.
    })
}

fn read_reports(mut rest: &[u8]) -> Option<Reports> {
    let mut reports = Reports::default();
    while !rest.is_empty() || reports.is_empty() {
        let (report, behind) = read_report(rest)?;
        reports.push(&report).then_some(())?;
        rest = behind;
    }
    Some(reports)
}

/// Reads the REPORT of a lane, and returns what is behind it.
fn read_report(rest: &[u8]) -> Option<(Report, &[u8])> {
    let (fields, rest) = ReportFields::ref_from_prefix(rest).ok()?;
    let is_plain = fields.reserved == 0 && fields.flags & !(HAS_FROM | HAS_ECHO) == 0;
    is_plain.then_some(())?;
    let (echo, rest) = if fields.flags & HAS_ECHO == 0 {
        (None, rest)
    } else {
        let (echo, rest) = EchoFields::ref_from_prefix(rest).ok()?;
        let sent_at = Time::from_nanos(echo.sent.get());
        (sent_at > Time::ZERO).then_some(())?;
        (Some(Echo { sent_at, arrived_at: Time::from_nanos(echo.arrived.get()) }), rest)
    };
    let (from, next) = (fields.from.get(), fields.next.get());
    let has_from = fields.flags & HAS_FROM != 0;
    (has_from || from == 0).then_some(())?;
    let mut missing = ArrayVec::new();
    // Each range begins behind the one before it, and all lie before `next`.
    let mut left = has_from.then(|| next.wrapping_sub(from)).filter(|left| *left < 1 << 31);
    (has_from == left.is_some()).then_some(())?;
    let count = usize::from(fields.ranges);
    let (ranges, rest) = <[RangeFields]>::ref_from_prefix_with_elems(rest, count).ok()?;
    for range in ranges {
        let (start, count) = (range.start.get(), range.count.get());
        let to_end = next.wrapping_sub(start);
        let fits = left.is_none_or(|left| to_end <= left) && to_end < 1 << 31;
        (fits && (1..=to_end).contains(&count)).then_some(())?;
        left = Some(to_end - count);
        missing.try_push((WireNumber(start), count)).ok()?;
    }
    let report = Report {
        lane: Lane::new(fields.lane)?,
        from: has_from.then_some(WireNumber(from)),
        next: WireNumber(next),
        frames: fields.frames.get(),
        marked: fields.marked.get(),
        echo,
        missing,
    };
    Some((report, rest))
}

/// Writes the REPORT of a lane to the front of `out`, and returns the rest of it.
fn put_report<'a>(out: &'a mut [u8], report: &Report) -> &'a mut [u8] {
    let has_from = if report.from.is_some() { HAS_FROM } else { 0 };
    let has_echo = if report.echo.is_some() { HAS_ECHO } else { 0 };
    let fields = ReportFields {
        lane: report.lane.get(),
        flags: has_from | has_echo,
        ranges: report.missing.len() as u8, // No more than `MAX_RANGES`.
        reserved: 0,
        from: report.from.unwrap_or_default().0.into(),
        next: report.next.0.into(),
        frames: report.frames.into(),
        marked: report.marked.into(),
    };
    let mut rest = put(out, &fields);
    if let Some(echo) = report.echo {
        let (sent, arrived) = (echo.sent_at.as_nanos().into(), echo.arrived_at.as_nanos().into());
        rest = put(rest, &EchoFields { sent, arrived });
    }
    put_ranges(rest, &report.missing)
}

fn put_ranges<'a>(mut rest: &'a mut [u8], ranges: &[(WireNumber, u32)]) -> &'a mut [u8] {
    for (start, count) in ranges {
        rest = put(rest, &RangeFields { start: start.0.into(), count: (*count).into() });
    }
    rest
}

/// Writes `part` to the front of `out`, and returns the rest of it.
fn put<'a>(out: &'a mut [u8], part: &(impl IntoBytes + Immutable)) -> &'a mut [u8] {
    let (front, rest) = out.split_at_mut(size_of_val(part));
    front.copy_from_slice(part.as_bytes());
    rest
}
