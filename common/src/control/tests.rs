use core::net::IpAddr;

use arrayvec::ArrayVec;
use proptest::prelude::*;

use super::keys::{Scope, TAG_LEN};
use super::layout::{self, MAGIC};
use super::*;
use crate::psn::Psn;
use crate::time::{Span, Time};
use crate::wire::{Bth, Headers, Qpn, Roce, Vlans, icrc, parse};

mod bytes;

const BTH_QPN: Qpn = Qpn::new(0xabcdef);

fn ip_headers(v4: bool) -> Headers {
    let ip = |last: u8| -> IpAddr {
        if v4 { [10, 0, 0, last].into() } else { [0xfd00, 0, 0, 0, 0, 0, 0, last.into()].into() }
    };
    Headers::new([2; 6], [4; 6], Vlans::new(7, 0), ip(1), ip(2), 0xc001, 0x68, 64)
}

fn frame_of(header: &Header, message: &Message, keys: &Keys, headers: &Headers) -> Vec<u8> {
    let mut frame = vec![0xa5; headers.frame_len(body_len(message))];
    encode(headers, DEFAULT_OPCODE, BTH_QPN, header, message, keys, &mut frame);
    frame
}

fn read(frame: &[u8], keys: &Keys) -> Option<Result<(Header, Message), Reject>> {
    decode(frame, &parse(frame).ok()?, DEFAULT_OPCODE, keys)
}

/// A frame with any body under a right tag and a right ICRC.
fn sealed(body: &[u8], keys: &Keys) -> Vec<u8> {
    let headers = ip_headers(true);
    let (src, dst, opcode) = (headers.src(), headers.dst(), DEFAULT_OPCODE);
    let tag = keys.seal(&Scope { src, dst, opcode, bth_qpn: BTH_QPN }, body);
    let mut frame = vec![0; headers.frame_len(body.len() + TAG_LEN)];
    headers.emit(&Bth::new(opcode, BTH_QPN, Psn::new(0)), &mut frame, |out| {
        out[..body.len()].copy_from_slice(body);
        out[body.len()..].copy_from_slice(&tag);
    });
    frame
}

/// A frame without tag and ICRC.
fn body_of<'a>(frame: &'a [u8], roce: &Roce) -> &'a [u8] {
    let body = roce.payload(frame);
    &body[..body.len() - TAG_LEN]
}

fn keys() -> Keys {
    Keys::from_secret(b"a secret of the right length, or so")
}

fn header() -> Header {
    Header {
        node: NodeId(0x0102_0304),
        boot: BootId(0x1112_1314_1516_1718),
        seq: 0x2122_2324_2526_2728,
        seen_boot: BootId(0x3132_3334_3536_3738),
        dest_qpn: Qpn::new(0x51_5253),
        epoch: Epoch(0x6162_6364),
    }
}

fn sync() -> SyncMessage {
    SyncMessage {
        reason: Reason::Tail,
        next_psn: Some(Psn::new(0x71_7273)),
        pmtu: 4096,
        src_qpn: Some(Qpn::new(0x91_9293)),
        sent_at: Time::from_nanos(0xa1a2_a3a4_a5a6_a7a8),
        rtt: Span::from_nanos(0xb1b2_b3b4_b5b6_b7b8),
    }
}

fn status(ranges: u32) -> Status {
    Status {
        expected: Psn::new(0xff_fff0),
        ack: Some(LastAck { psn: Psn::new(0xff_ffef), syndrome: 0x1f, msn: 0xc1_c2c3 }),
        missing: (0..ranges)
            .map(|n| PsnRange { start: Psn::new(0xff_fff0 + 8 * n), len: n % 8 + 1 })
            .collect(),
        from: Psn::new(0xff_fff0),
        to: Psn::new(0x00_0800),
        echo: Time::from_nanos(0xd1d2_d3d4_d5d6_d7d8),
        hold: Span::from_nanos(0xe1e2_e3e4_e5e6_e7e8),
        src_qpn: Some(Qpn::new(0xf1_f2f3)),
        keeps_responses: true,
        passive: false,
    }
}

fn fetch(ranges: u32) -> Fetch {
    let range = |n| PsnRange { start: Psn::new(0xff_fff0 + 8 * n), len: n % 8 + 1 };
    Fetch { expected: Psn::new(0xff_fff0), missing: (0..ranges).map(range).collect() }
}

fn any_psn() -> impl Strategy<Value = Psn> {
    (0..Psn::MODULUS).prop_map(Psn::new)
}

fn any_qpn() -> impl Strategy<Value = Qpn> {
    (0..Qpn::COUNT).prop_map(Qpn::new)
}

prop_compose! {
    fn any_header()(
        node in any::<u32>(), [boot, seen_boot] in any::<[u64; 2]>(), seq in any::<u64>(),
        dest_qpn in any_qpn(), epoch in any::<u32>(),
    ) -> Header {
        let (node, epoch) = (NodeId(node), Epoch(epoch));
        let [boot, seen_boot] = [boot, seen_boot].map(BootId);
        Header { node, boot, seq, seen_boot, dest_qpn, epoch }
    }
}

prop_compose! {
    fn any_sync()(
        reason in prop::sample::select(vec![
            Reason::Open, Reason::Tail, Reason::Resent, Reason::Keepalive, Reason::Release,
            Reason::Lost,
        ]),
        next in any_psn(), src_qpn in prop::option::of(any_qpn()),
        pmtu in prop::sample::select(vec![0, 256, 512, 1024, 2048, 4096]),
        sent_at in any::<u64>().prop_map(Time::from_nanos),
        rtt in any::<u64>().prop_map(Span::from_nanos),
    ) -> Message {
        let next_psn = (reason != Reason::Resent).then_some(next);
        Message::Sync(SyncMessage { reason, next_psn, pmtu, src_qpn, sent_at, rtt })
    }
}

prop_compose! {
    fn any_ack()(psn in any_psn(), syndrome in any::<u8>(), msn in 0..Psn::MODULUS) -> LastAck {
        LastAck { psn, syndrome, msn }
    }
}

prop_compose! {
    fn any_status()(
        expected in any_psn(), ack in prop::option::of(any_ack()),
        before in 0u32..1 << 20, behind in 0u32..1 << 20,
        // Gaps and the PSNs between them; with the above, less than half of the
        // PSN space together.
        ranges in prop::collection::vec((0u32..1 << 16, 1u32..1 << 16), 0..=MAX_RANGES),
        echo in any::<u64>().prop_map(Time::from_nanos),
        hold in any::<u64>().prop_map(Span::from_nanos),
        src_qpn in prop::option::of(any_qpn()), keeps_responses in any::<bool>(), is_fetch in any::<bool>(),
    ) -> Message {
        let from = expected.offset(before);
        let mut at = from;
        let mut missing = ArrayVec::new();
        for (skip, len) in ranges {
            at = at.offset(skip);
            missing.push(PsnRange { start: at, len });
            at = at.offset(len);
        }
        if is_fetch {
            return Message::Fetch(Fetch { expected, missing });
        }
        let to = at.offset(behind);
        Message::Status(Status {
            expected, from, to, ack, missing, echo, hold, src_qpn, keeps_responses,
            passive: false,
        })
    }
}

fn any_message() -> impl Strategy<Value = Message> {
    let passive = any::<u64>().prop_map(|echo| {
        Message::Status(Status::passive(Time::from_nanos(echo), Some(Qpn::new(7))))
    });
    let absent = any_status().prop_map(|message| match message {
        Message::Fetch(fetch) => Message::Absent(fetch),
        other => other,
    });
    prop_oneof![4 => any_sync(), 4 => any_status(), 1 => passive, 1 => absent]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_written_is_read(header in any_header(), message in any_message(), v4 in any::<bool>()) {
        let frame = frame_of(&header, &message, &keys(), &ip_headers(v4));
        prop_assert_eq!(read(&frame, &keys()), Some(Ok((header, message))));
    }

    /// There is one way to write a message: an accepted one is written
    /// again just so. Nothing panics on the way.
    #[test]
    fn what_is_read_is_written_so(
        header in any_header(), message in any_message(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in prop::option::of(0usize..120),
    ) {
        let frame = frame_of(&header, &message, &keys(), &ip_headers(true));
        let mut body = body_of(&frame, &parse(&frame).unwrap()).to_vec();
        for (at, value) in changes {
            *at.get_mut(&mut body) = value;
        }
        body.truncate(cut.unwrap_or(body.len()));
        if let Some(Ok((header, message))) = read(&sealed(&body, &keys()), &keys()) {
            let mut again = vec![0xa5; layout::len(&message)];
            layout::write(&header, &message, &mut again);
            prop_assert_eq!(again, body);
        }
    }

    #[test]
    fn any_body_under_a_right_tag(rest in prop::collection::vec(any::<u8>(), 0..500)) {
        let body = [&MAGIC[..], &rest].concat();
        let frame = sealed(&body, &keys());
        prop_assert!(read(&frame, &keys()).is_some_and(|read| read.is_err()));
    }
}

/// The effect of a change of one byte on a message, after `repair`.
fn change_each_byte(message: Message, v4: bool, repair: bool) -> Vec<usize> {
    let original = frame_of(&header(), &message, &keys(), &ip_headers(v4));
    let mut unnoticed = Vec::new();
    for at in 0..original.len() {
        let mut accepted = 0;
        let flips = (0..8).map(|n| 1 << n).chain([0xff, 0x55]);
        for flip in flips {
            let mut frame = original.clone();
            frame[at] ^= flip;
            let Ok(roce) = parse(&frame) else { continue };
            if repair {
                let crc = icrc(&frame, &roce).to_le_bytes();
                frame[roce.icrc_at()..usize::from(roce.end)].copy_from_slice(&crc);
            }
            if let Some(Ok(read)) = decode(&frame, &roce, DEFAULT_OPCODE, &keys()) {
                assert_eq!(read, (header(), message.clone()), "byte {at} changed the message");
                accepted += 1;
            }
        }
        if accepted > 0 {
            unnoticed.push(at);
        }
    }
    unnoticed
}

#[test]
fn a_changed_byte_is_noticed_unless_the_way_may_change_it() {
    // MACs, priority, and another TPID. Behind one tag the IP header is at 18.
    let ethernet: Vec<usize> = (0..=12).chain([14, 15]).collect();
    for message in [Message::Sync(sync()), Message::Status(status(32)), Message::Fetch(fetch(3))] {
        // ToS, TTL, both checksums; FECN, BECN and resv6a of the BTH.
        let v4 = [&ethernet[..], &[19, 26, 28, 29, 44, 45, 50]].concat();
        assert_eq!(change_each_byte(message.clone(), true, false), v4);
        // Traffic class, flow label, hop limit, checksum; the same of the BTH.
        let v6 = [&ethernet[..], &[18, 19, 20, 21, 25, 64, 65, 70]].concat();
        assert_eq!(change_each_byte(message, false, false), v6);
    }
}

#[test]
fn without_the_key_only_what_carries_no_meaning_can_be_changed() {
    let ethernet: Vec<usize> = (0..=12).chain([14, 15]).collect();
    for message in [Message::Sync(sync()), Message::Status(status(1)), Message::Fetch(fetch(1))] {
        // Besides those: identification and flags of IPv4, the UDP
        // source port, of the BTH its flags, P_Key, AckReq and PSN. And the ICRC
        // itself, since it was repaired.
        let unnoticed = change_each_byte(message.clone(), true, true);
        let end = ip_headers(true).frame_len(body_len(&message));
        let allowed: Vec<usize> = [&ethernet[..], &[19, 22, 23, 24, 26, 28, 29, 38, 39]]
            .concat()
            .into_iter()
            .chain([44, 45, 47, 48, 49, 50, 54, 55, 56, 57])
            .chain(end - 4..end)
            .collect();
        assert_eq!(unnoticed, allowed);
    }
}

#[test]
fn what_is_not_ours_is_passed_on() {
    let frame = frame_of(&header(), &Message::Sync(sync()), &keys(), &ip_headers(true));
    let roce = parse(&frame).unwrap();
    assert_eq!(decode(&frame, &roce, Opcode(0xe2), &keys()), None);

    let mut other_magic = frame.clone();
    other_magic[usize::from(roce.body)] ^= 1;
    assert_eq!(read(&other_magic, &keys()), None);

    let headers = ip_headers(true);
    for (len, verdict) in [(0, None), (3, None), (4, Some(Err(Reject::Truncated)))] {
        let mut short = vec![0; headers.frame_len(len)];
        headers.emit(&Bth::new(DEFAULT_OPCODE, Qpn::new(1), Psn::new(1)), &mut short, |out| {
            out.copy_from_slice(&MAGIC[..len]);
        });
        assert_eq!(read(&short, &keys()), verdict, "{len} bytes of the magic");
    }
}

#[test]
fn each_reason_to_reject() {
    let frame = frame_of(&header(), &Message::Status(status(2)), &keys(), &ip_headers(true));
    let body = body_of(&frame, &parse(&frame).unwrap()).to_vec();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut body = body.clone();
        change(&mut body);
        read(&sealed(&body, &keys()), &keys()).expect("magic and opcode are ours").err()
    };
    assert_eq!(with(&|_| ()), None);
    for len in 5..body.len() {
        assert_eq!(with(&|b| b.truncate(len)), Some(Reject::Truncated), "{len}");
    }
    assert_eq!(with(&|b| b.push(0)), Some(Reject::Truncated));
    assert_eq!(with(&|b| b.extend([0; 8])), Some(Reject::Truncated));
    assert_eq!(with(&|b| b[4] = 4), Some(Reject::Version));
    assert_eq!(with(&|b| b[4] = 2), Some(Reject::Version));

    let invalid: [(&str, usize, u8); 15] = [
        ("an unknown type", 5, 5),
        ("passive, but it tells of packets", 7, 0b1111),
        ("a reserved flag", 7, 0b1_0111),
        ("another reserved flag", 6, 0x80),
        ("no source QPN, but its field", 7, 0b110),
        ("no ACK, but its fields", 7, 0b101),
        ("QPN of 25 bits", 36, 1),
        ("expected of 25 bits", 44, 1),
        ("from of 25 bits", 48, 1),
        ("to of 25 bits", 52, 1),
        ("ACK's PSN of 25 bits", 56, 1),
        ("source QPN of 25 bits", 64, 1),
        ("a reserved byte", 87, 1),
        ("a range of 25 bits", 88, 1),
        ("an empty range", 95, 0),
    ];
    for (what, at, value) in invalid {
        assert_eq!(with(&|b| b[at] = value), Some(Reject::Invalid), "{what}");
    }
    assert_eq!(with(&|b| b[84] = 1), Some(Reject::Truncated), "more ranges than declared");
    assert_eq!(with(&|b| b[84] = 3), Some(Reject::Truncated), "fewer ranges than declared");

    let others = Keys::from_secret(b"another");
    assert_eq!(read(&frame, &others), Some(Err(Reject::BadTag)));
    let mut damaged = frame.clone();
    damaged[120] ^= 1;
    assert_eq!(read(&damaged, &keys()), Some(Err(Reject::BadIcrc)));
}

#[test]
fn each_bad_range_and_sync() {
    const HALF: u32 = 1 << 23;
    let range = |start, len| PsnRange { start: Psn::new(start), len };
    let is_valid = |from, to, missing: &[PsnRange]| {
        let [expected, from, to] = [100, from, to].map(Psn::new);
        let missing = missing.iter().copied().collect();
        Message::Status(Status { expected, from, to, missing, ..status(0) }).is_valid()
    };
    assert!(is_valid(100, 100, &[]), "nothing is open");
    assert!(is_valid(100, 201, &[range(100, 1), range(101, 5), range(200, 1)]));
    assert!(is_valid(100, 99 + HALF, &[range(100, HALF - 1)]), "all that there can be");
    assert!(is_valid(150, 160, &[range(150, 10)]), "one of several messages");
    for (what, from, to, missing) in [
        ("before from", 150, 200, &[range(149, 1)][..]),
        ("beyond to", 100, 200, &[range(199, 2)]),
        ("at to", 100, 200, &[range(200, 1)]),
        ("empty", 100, 200, &[range(100, 0)]),
        ("overlapping", 100, 200, &[range(100, 5), range(104, 1)]),
        ("descending", 100, 200, &[range(110, 1), range(105, 1)]),
        ("longer than any space", 100, 200, &[range(100, u32::MAX)]),
        ("from before expected", 99, 200, &[]),
        ("to before from", 150, 149, &[]),
        ("to beyond half the space", 100, 100 + HALF, &[]),
    ] {
        assert!(!is_valid(from, to, missing), "{what}");
    }

    let is_valid = |sync| Message::Sync(sync).is_valid();
    assert!(is_valid(sync()));
    assert!(!is_valid(SyncMessage { next_psn: None, ..sync() }), "only a resend claims nothing");
    assert!(!is_valid(SyncMessage { reason: Reason::Resent, ..sync() }), "a resend claims nothing");
    assert!(is_valid(SyncMessage { reason: Reason::Resent, next_psn: None, ..sync() }));
    assert!(!is_valid(SyncMessage { pmtu: 1500, ..sync() }));
}

#[test]
fn keys_change_without_losing_a_message() {
    let message = Message::Sync(sync());
    let (old, new): (&[u8], &[u8]) = (b"old", b"new");
    let steps = [
        Keys::from_secret(old),
        Keys::from_secret(old).also_accepting(new),
        Keys::from_secret(new).also_accepting(old),
        Keys::from_secret(new),
    ];
    let understands = |reader: &Keys, writer: &Keys| {
        let frame = frame_of(&header(), &message, writer, &ip_headers(true));
        read(&frame, reader).unwrap().is_ok()
    };
    for pair in steps.windows(2) {
        assert!(understands(&pair[0], &pair[1]) && understands(&pair[1], &pair[0]));
    }
    assert!(!understands(&steps[0], &steps[3]));
    assert!(!understands(&steps[3], &steps[0]));
    // Two steps at once do lose some.
    assert!(!understands(&steps[0], &steps[2]));

    let lab = Keys::unkeyed_lab();
    assert!(understands(&lab, &lab));
    assert!(!understands(&lab, &steps[0]) && !understands(&steps[0], &lab));
    assert!(!understands(&lab, &Keys::from_secret(b"")));
    assert_eq!(format!("{:?}", steps[1]), "Keys(..)");
}

/// The same message between other hosts, or for another QP, is another message.
#[test]
fn the_tag_covers_the_addresses_the_opcode_and_the_qp() {
    let frame = frame_of(&header(), &Message::Sync(sync()), &keys(), &ip_headers(true));
    let roce = parse(&frame).unwrap();
    let swapped = Roce { src: roce.dst, dst: roce.src, ..roce };
    let other_qp = Roce { dest_qpn: Qpn::new(roce.dest_qpn.get() + 1), ..roce };
    for view in [swapped, other_qp] {
        assert_eq!(decode(&frame, &view, DEFAULT_OPCODE, &keys()), Some(Err(Reject::BadTag)));
    }
    let other_opcode = Opcode(0xe2);
    let view = Roce { opcode: other_opcode, ..roce };
    assert_eq!(decode(&frame, &view, other_opcode, &keys()), Some(Err(Reject::BadTag)));
}
