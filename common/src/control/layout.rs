//! Control messages in network byte order, field by field.
//!
//! An absent field is zero, and so is a reserved one: there is one way to
//! write a message.

use arrayvec::ArrayVec;
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::message::{
    Fetch, Header, LastAck, MAX_RANGES, Message, PsnRange, Reason, Status, SyncMessage,
};
use crate::psn::Psn;
use crate::time::{Span, Time};
use crate::wire::Qpn;

/// First bytes of a body.
pub(crate) const MAGIC: [u8; 4] = *b"LR2\x93";
/// The version that is spoken here.
pub const VERSION: u8 = 3;

/// Type of a SYNC.
pub(super) const SYNC: u8 = 1;
/// Type of a STATUS.
const STATUS: u8 = 2;
/// Type of a FETCH.
const FETCH: u8 = 3;
/// Type of an ABSENT.
const ABSENT: u8 = 4;

/// Flag of both types: the source QPN is known.
const HAS_SRC_QPN: u16 = 1 << 0;
/// Flag of a SYNC: `next_psn` is claimed.
const HAS_NEXT_PSN: u16 = 1 << 1;
/// Flag of a STATUS: an ACK has been seen.
const HAS_ACK: u16 = 1 << 1;
/// Flag of a STATUS: READ responses are kept.
const KEEPS_RESPONSES: u16 = 1 << 2;
/// Flag of a STATUS: nothing is held, and no packets are reported.
const PASSIVE: u16 = 1 << 3;

/// Declares a fixed part of the body, readable and writable in place.
macro_rules! layout {
    ($(#[$doc:meta])* $name:ident, $len:literal { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub(super) struct $name { $(pub $field: $type,)* }
        const _: () = assert!(size_of::<$name>() == $len);
    };
}

layout! {
    /// The beginning of every body.
    Prefix, 44 {
        magic: [u8; 4],
        version: u8,
        kind: u8,
        flags: U16,
        node: U32,
        boot: U64,
        seq: U64,
        seen_boot: U64,
        dest_qpn: U32,
        epoch: U32,
    }
}

layout! {
    /// The fields of a SYNC.
    SyncFields, 28 {
        reason: u8,
        reserved: u8,
        pmtu: U16,
        next_psn: U32,
        src_qpn: U32,
        sent_at: U64,
        rtt: U64,
    }
}

layout! {
    /// The fields of a STATUS, before its ranges.
    StatusFields, 44 {
        expected: U32,
        from: U32,
        to: U32,
        ack_psn: U32,
        ack_syndrome: u8,
        ack_msn: [u8; 3],
        src_qpn: U32,
        echo: U64,
        hold: U64,
        ranges: u8,
        reserved: [u8; 3],
    }
}

layout! {
    /// The fields of a FETCH or ABSENT, before its ranges.
    FetchFields, 8 {
        expected: U32,
        ranges: u8,
        reserved: [u8; 3],
    }
}

layout! {
    /// One missing range.
    RangeFields, 8 {
        start: U32,
        len: U32,
    }
}

/// Bytes that a message takes, without its tag.
pub(super) fn len(message: &Message) -> usize {
    size_of::<Prefix>()
        + match message {
            Message::Sync(_) => size_of::<SyncFields>(),
            Message::Status(status) => {
                size_of::<StatusFields>() + status.missing.len() * size_of::<RangeFields>()
            }
            Message::Fetch(fetch) | Message::Absent(fetch) => {
                size_of::<FetchFields>() + fetch.missing.len() * size_of::<RangeFields>()
            }
        }
}

/// Writes a message into `out`, which must be [`len`] bytes long.
pub(super) fn write(header: &Header, message: &Message, out: &mut [u8]) {
    let (kind, flags) = match message {
        Message::Sync(sync) => (SYNC, sync_flags(sync)),
        Message::Status(status) => (STATUS, status_flags(status)),
        Message::Fetch(_) => (FETCH, 0),
        Message::Absent(_) => (ABSENT, 0),
    };
    let prefix = Prefix {
        magic: MAGIC,
        version: VERSION,
        kind,
        flags: flags.into(),
        node: header.node.0.into(),
        boot: header.boot.0.into(),
        seq: header.seq.into(),
        seen_boot: header.seen_boot.0.into(),
        dest_qpn: header.dest_qpn.get().into(),
        epoch: header.epoch.0.into(),
    };
    let rest = put(out, &prefix);
    match message {
        Message::Sync(sync) => _ = put(rest, &sync_fields(sync)),
        Message::Status(status) => {
            put_ranges(put(rest, &status_fields(status)), &status.missing);
        }
        Message::Fetch(fetch) | Message::Absent(fetch) => {
            let fields = FetchFields {
                expected: psn(fetch.expected),
                ranges: fetch.missing.len() as u8, // at most 32
                reserved: [0; 3],
            };
            put_ranges(put(rest, &fields), &fetch.missing);
        }
    }
}

/// Reads a message whose magic and version are right. `Err` if it has another
/// length than it should, or a field is out of its range.
pub(super) fn read(body: &[u8]) -> Result<(Header, Message), Fault> {
    let (prefix, rest) = Prefix::ref_from_prefix(body).map_err(|_| Fault::Length)?;
    let flags = prefix.flags.get();
    let message = match prefix.kind {
        SYNC => {
            let fields = SyncFields::ref_from_bytes(rest).map_err(|_| Fault::Length)?;
            read_sync(flags, fields).map(Message::Sync)
        }
        STATUS => {
            let (fields, rest) = StatusFields::ref_from_prefix(rest).map_err(|_| Fault::Length)?;
            let ranges = ranges(rest, fields.ranges)?;
            read_status(flags, fields, ranges).map(Message::Status)
        }
        kind @ (FETCH | ABSENT) => {
            let (fields, rest) = FetchFields::ref_from_prefix(rest).map_err(|_| Fault::Length)?;
            let ranges = ranges(rest, fields.ranges)?;
            let made = if kind == FETCH { Message::Fetch } else { Message::Absent };
            read_fetch(flags, fields, ranges).map(made)
        }
        _ => None,
    };
    let header = Header {
        node: prefix.node.get().into(),
        boot: prefix.boot.get().into(),
        seq: prefix.seq.get(),
        seen_boot: prefix.seen_boot.get().into(),
        dest_qpn: Qpn::checked(prefix.dest_qpn.get()).ok_or(Fault::Value)?,
        epoch: prefix.epoch.get().into(),
    };
    let message = message.filter(Message::is_valid).ok_or(Fault::Value)?;
    Ok((header, message))
}

/// The fault of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Too short or too long for its type.
    Length,
    /// A field out of its range.
    Value,
}

fn sync_flags(sync: &SyncMessage) -> u16 {
    flag(sync.src_qpn.is_some(), HAS_SRC_QPN) | flag(sync.next_psn.is_some(), HAS_NEXT_PSN)
}

fn sync_fields(sync: &SyncMessage) -> SyncFields {
    SyncFields {
        reason: reason_code(sync.reason),
        reserved: 0,
        pmtu: sync.pmtu.into(),
        next_psn: psn(sync.next_psn.unwrap_or_default()),
        src_qpn: sync.src_qpn.unwrap_or_default().get().into(),
        sent_at: sync.sent_at.as_nanos().into(),
        rtt: sync.rtt.as_nanos().into(),
    }
}

fn read_sync(flags: u16, fields: &SyncFields) -> Option<SyncMessage> {
    let known = HAS_SRC_QPN | HAS_NEXT_PSN;
    (flags & !known == 0 && fields.reserved == 0).then_some(())?;
    Some(SyncMessage {
        reason: reason(fields.reason)?,
        next_psn: optional(flags & HAS_NEXT_PSN, fields.next_psn)?.map(Psn::new),
        pmtu: fields.pmtu.get(),
        src_qpn: optional(flags & HAS_SRC_QPN, fields.src_qpn)?.map(Qpn::new),
        sent_at: Time::from_nanos(fields.sent_at.get()),
        rtt: Span::from_nanos(fields.rtt.get()),
    })
}

fn status_flags(status: &Status) -> u16 {
    flag(status.src_qpn.is_some(), HAS_SRC_QPN)
        | flag(status.ack.is_some(), HAS_ACK)
        | flag(status.keeps_responses, KEEPS_RESPONSES)
        | flag(status.passive, PASSIVE)
}

fn status_fields(status: &Status) -> StatusFields {
    let none = LastAck { psn: Psn::default(), syndrome: 0, msn: 0 };
    let ack = status.ack.unwrap_or(none);
    let [_, ack_msn @ ..] = ack.msn.to_be_bytes();
    StatusFields {
        expected: psn(status.expected),
        from: psn(status.from),
        to: psn(status.to),
        ack_psn: psn(ack.psn),
        ack_syndrome: ack.syndrome,
        ack_msn,
        src_qpn: status.src_qpn.unwrap_or_default().get().into(),
        echo: status.echo.as_nanos().into(),
        hold: status.hold.as_nanos().into(),
        ranges: status.missing.len() as u8, // at most 32
        reserved: [0; 3],
    }
}

fn read_status(flags: u16, fields: &StatusFields, ranges: &[RangeFields]) -> Option<Status> {
    let known = HAS_SRC_QPN | HAS_ACK | KEEPS_RESPONSES | PASSIVE;
    (flags & !known == 0 && fields.reserved == [0; 3]).then_some(())?;
    let [a, b, c] = fields.ack_msn;
    let (syndrome, msn) = (fields.ack_syndrome, u32::from_be_bytes([0, a, b, c]));
    let ack = match optional(flags & HAS_ACK, fields.ack_psn)? {
        Some(psn) => Some(LastAck { psn: Psn::new(psn), syndrome, msn }),
        None => ((syndrome, msn) == (0, 0)).then_some(None)?,
    };
    Some(Status {
        expected: read_psn(fields.expected)?,
        from: read_psn(fields.from)?,
        to: read_psn(fields.to)?,
        ack,
        missing: read_ranges(ranges)?,
        echo: Time::from_nanos(fields.echo.get()),
        hold: Span::from_nanos(fields.hold.get()),
        src_qpn: optional(flags & HAS_SRC_QPN, fields.src_qpn)?.map(Qpn::new),
        keeps_responses: flags & KEEPS_RESPONSES != 0,
        passive: flags & PASSIVE != 0,
    })
}

fn read_fetch(flags: u16, fields: &FetchFields, ranges: &[RangeFields]) -> Option<Fetch> {
    (flags == 0 && fields.reserved == [0; 3]).then_some(())?;
    Some(Fetch { expected: read_psn(fields.expected)?, missing: read_ranges(ranges)? })
}

/// The ranges that fill the rest of a body, as many as it says.
fn ranges(rest: &[u8], count: u8) -> Result<&[RangeFields], Fault> {
    let ranges = <[RangeFields]>::ref_from_bytes(rest).map_err(|_| Fault::Length)?;
    if ranges.len() == usize::from(count) { Ok(ranges) } else { Err(Fault::Length) }
}

fn read_ranges(ranges: &[RangeFields]) -> Option<ArrayVec<PsnRange, MAX_RANGES>> {
    let mut all = ArrayVec::new();
    for range in ranges {
        let range = PsnRange { start: read_psn(range.start)?, len: range.len.get() };
        all.try_push(range).ok()?;
    }
    Some(all)
}

fn put_ranges(mut rest: &mut [u8], ranges: &[PsnRange]) {
    for range in ranges {
        rest = put(rest, &RangeFields { start: psn(range.start), len: range.len.into() });
    }
}

const fn reason_code(reason: Reason) -> u8 {
    match reason {
        Reason::Open => 1,
        Reason::Tail => 2,
        Reason::Resent => 3,
        Reason::Keepalive => 4,
        Reason::Release => 5,
        Reason::Lost => 6,
    }
}

const fn reason(code: u8) -> Option<Reason> {
    Some(match code {
        1 => Reason::Open,
        2 => Reason::Tail,
        3 => Reason::Resent,
        4 => Reason::Keepalive,
        5 => Reason::Release,
        6 => Reason::Lost,
        _ => return None,
    })
}

const fn flag(set: bool, bit: u16) -> u16 {
    if set { bit } else { 0 }
}

fn psn(psn: Psn) -> U32 {
    psn.get().into()
}

/// A value of 24 bits in a field of 32.
fn read_u24(field: U32) -> Option<u32> {
    Some(field.get()).filter(|&value| value < Psn::MODULUS)
}

fn read_psn(field: U32) -> Option<Psn> {
    read_u24(field).map(Psn::new)
}

/// `None` if out of range, `Some(None)` if absent.
fn optional(present: u16, field: U32) -> Option<Option<u32>> {
    if present != 0 { read_u24(field).map(Some) } else { (field == U32::ZERO).then_some(None) }
}

/// Writes `part` to the front of `out`, and returns the rest of it.
fn put<'a>(out: &'a mut [u8], part: &(impl IntoBytes + Immutable)) -> &'a mut [u8] {
    let (front, rest) = out.split_at_mut(size_of_val(part));
    front.copy_from_slice(part.as_bytes());
    rest
}
