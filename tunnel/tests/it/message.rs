//! Control messages on the wire.

use arrayvec::ArrayVec;
use common::control::Keys;
use common::ids::{BootId, NodeId};
use common::time::Time;
use proptest::prelude::*;
use tunnel::message::{
    self, Echo, Header, Hello, MAX_REPORTED, Message, PathEcho, PathProbe, Probe, Reject, Report,
    Reports, Skip,
};
use tunnel::{Lane, Session, WireNumber};

fn lane(n: u8) -> Lane {
    Lane::new(n).expect("a lane")
}

prop_compose! {
    fn header()(node: u32, boot: u64, seq: u64, seen_boot: u64, session: u32, tunnel: u8) -> Header {
        Header {
 node: NodeId(node), boot: BootId(boot), seq, seen_boot: BootId(seen_boot), session: Session::new(session), tunnel }
    }
}

prop_compose! {
    fn report()(
        n in 0..255_u8, first: u32, is_part: bool,
        runs in prop::collection::vec((1..9_u32, 1..9_u32), 0..message::MAX_RANGES), rest in 0..9_u32,
        frames: u32, marked: u32, echo in prop::option::of((1..u64::MAX, any::<u64>())),
    ) -> Report {
        let (mut at, mut missing) = (first, ArrayVec::new());
        for (arrived, lost) in runs {
            at = at.wrapping_add(arrived);
            missing.push((WireNumber(at), lost));
            at = at.wrapping_add(lost);
        }
        let from = is_part.then_some(WireNumber(first));
        let next = WireNumber(at.wrapping_add(rest));
        let echo = echo.map(|(sent_at, arrived_at)| Echo {
            sent_at: Time::from_nanos(sent_at), arrived_at: Time::from_nanos(arrived_at) });
        Report { lane: lane(n), from, next, frames, marked, echo, missing }
    }
}

/// As many of some REPORTs as a message has room for.
fn reports() -> impl Strategy<Value = Reports> {
    prop::collection::vec(report(), 1..2 * MAX_REPORTED).prop_map(|all| {
        let mut reports = Reports::default();
        let taken = all.iter().filter(|report| reports.push(report)).count();
        assert_eq!(reports.iter().count(), taken);
        assert!((1..=MAX_REPORTED).contains(&taken));
        reports
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    let hello = (1..u32::MAX, 1..=255_u8, any::<[u16; 2]>(), any::<(u32, u8)>(), 0..2_000_u16)
        .prop_map(|(session, lanes, [frame_max, heard], (features, division), padding)| {
            let session = Session::new(session);
            Message::Hello(Hello { session, lanes, division, features, frame_max, heard, padding })
        });
    let probe =
        (0..255_u8, any::<u32>(), prop::option::of(1..u64::MAX)).prop_map(|(n, next, sent_at)| {
            let sent_at = sent_at.map(Time::from_nanos);
            Message::Probe(Probe { lane: lane(n), next: WireNumber(next), sent_at })
        });
    let skip =
        (0..255_u8, prop::collection::vec((any::<u32>(), 1..1_u32 << 31), 1..=message::MAX_RANGES));
    let skip = skip.prop_map(|(n, ranges)| {
        let ranges = ranges.into_iter().map(|(start, count)| (WireNumber(start), count)).collect();
        Message::Skip(Skip { lane: lane(n), ranges })
    });
    let path = (0..255_u8, 1..u64::MAX, 0..2_000_u16, any::<bool>());
    let path = path.prop_map(|(n, sent_at, bytes, is_echo)| {
        let (lane, sent_at) = (lane(n), Time::from_nanos(sent_at));
        match is_echo {
            true => Message::PathEcho(PathEcho { lane, sent_at, len: bytes }),
            false => Message::PathProbe(PathProbe { lane, sent_at, padding: bytes }),
        }
    });
    prop_oneof![hello, reports().prop_map(Message::Reports), probe, skip, path, Just(Message::Bye)]
}

fn written(header: &Header, message: &Message, keys: &Keys) -> Vec<u8> {
    let mut bytes = vec![0xaa; message::wire_len(message)];
    message::write(header, message, keys, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn what_is_written_is_read(header in header(), message in any_message(), padding in 0..50_usize) {
        let keys = Keys::from_secret(b"the secret of both");
        let mut bytes = written(&header, &message, &keys);
        bytes.resize(bytes.len() + padding, 0);
        prop_assert_eq!(message::read(&bytes, &keys), Ok((header, message)));
    }

    /// R-TUN-2: no bit of a message can be changed by who has no key.
    #[test]
    fn a_changed_message_is_refused(
        header in header(), message in any_message(), at: prop::sample::Index, bit in 0..8_u8,
    ) {
        let keys = Keys::from_secret(b"the secret of both");
        let mut bytes = written(&header, &message, &keys);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let found = message::read(&bytes, &keys);
        prop_assert!(matches!(found, Err(Reject::BadTag | Reject::Version | Reject::Truncated)), "{found:?}");
    }

    /// R-TUN-2
    #[test]
    fn any_bytes_are_refused_or_mean_themselves(
        kind in 0..9_u8, zero in 0..2_u8, body in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..90),
    ) {
        let keys = Keys::unkeyed_lab();
        let mut bytes = vec![0; 40];
        bytes[..4].copy_from_slice(&[0x23, 0, kind, zero]);
        bytes.extend(&body);
        let len = bytes.len() as u16;
        bytes[12..14].copy_from_slice(&len.to_be_bytes());
        let tag = keys.seal_tunnel(&bytes);
        bytes.extend(tag);
        match message::read(&bytes, &keys) {
            Ok((header, message)) => prop_assert_eq!(written(&header, &message, &keys), bytes),
            Err(reject) => prop_assert_eq!(reject, Reject::Invalid),
        }
    }
}

/// R-TUN-2
#[test]
fn another_key_or_version_is_refused() {
    let header = Header {
        node: NodeId(1),
        boot: BootId(2),
        seq: 3,
        seen_boot: BootId(4),
        session: Session::new(5),
        tunnel: 0,
    };
    let [ours, theirs] = [b"one", b"two"].map(|secret| Keys::from_secret(secret));
    let mut bytes = written(&header, &Message::Bye, &ours);
    assert_eq!(message::read(&bytes, &theirs), Err(Reject::BadTag));
    let both = Keys::from_secret(b"two").also_accepting(b"one");
    assert_eq!(message::read(&bytes, &both), Ok((header, Message::Bye)));
    for short in 0..bytes.len() {
        assert_eq!(message::read(&bytes[..short], &ours), Err(Reject::Truncated));
    }
    bytes[0] = 0x13;
    assert_eq!(message::read(&bytes, &ours), Err(Reject::Version));
}

#[test]
fn byte_for_byte() {
    let header = Header {
        node: NodeId(0x0102_0304),
        boot: BootId(0x1112_1314_1516_1718),
        seq: 0x2122_2324_2526_2728,
        seen_boot: BootId(0x3132_3334_3536_3738),
        session: Session::new(0x4142_4344),
        tunnel: 3,
    };
    let missing = [(WireNumber(0x5152_5354), 2)].into_iter().collect();
    let report = Report {
        lane: lane(7),
        from: Some(WireNumber(0x5152_5350)),
        next: WireNumber(0x5152_5360),
        frames: 0x6162_6364,
        marked: 0x6566_6768,
        echo: Some(Echo { sent_at: Time::from_nanos(0x71), arrived_at: Time::from_nanos(0x72) }),
        missing,
    };
    let mut reports = Reports::from(report);
    let other = Report {
        lane: lane(8),
        from: None,
        next: WireNumber(9),
        frames: 1,
        marked: 0,
        echo: None,
        missing: ArrayVec::new(),
    };
    assert!(reports.push(&other));
    let bytes = written(&header, &Message::Reports(reports), &Keys::unkeyed_lab());
    #[rustfmt::skip]
    assert_eq!(bytes[..104], [
        0x23, 0, 2, 0, 0x41, 0x42, 0x43, 0x44, 1, 2, 3, 4, 0, 104, 3, 0,
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
        0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
        7, 3, 1, 0, 0x51, 0x52, 0x53, 0x50, 0x51, 0x52, 0x53, 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
        0, 0, 0, 0, 0, 0, 0, 0x71, 0, 0, 0, 0, 0, 0, 0, 0x72, 0x51, 0x52, 0x53, 0x54, 0, 0, 0, 2,
        8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0,
    ]);
    assert_eq!(bytes.len(), 104 + 16);
}
