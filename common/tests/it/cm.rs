//! Connection management: the content of real messages, and that nothing else is
//! taken for one.

use std::net::IpAddr;
use std::sync::LazyLock;

use crate::support::{all_frames, frames};
use common::psn::Psn;
use common::wire::cm::{Dreq, Ids, Message, Rej, Rep, Req, emit, frame_len, is_candidate, read};
use common::wire::{Addr, Deth, Headers, Opcode, Qpn, Vlans, icrc_ok, parse};
use proptest::prelude::*;
use testkit::packets::{self, mad};

static CAPTURED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(all_frames);

/// The ids of the connection at the two hosts of the capture.
const ACTIVE: u32 = 0xe310_1d7a;
const PASSIVE: u32 = 0xf09b_c0ac;

fn message(frame: &[u8]) -> Option<Message> {
    read(frame, &parse(frame).ok()?)
}

fn addr(ip: &str) -> Addr {
    ip.parse::<IpAddr>().unwrap().into()
}

fn headers(ips: [&str; 2]) -> Headers {
    let [src, dst] = ips.map(|ip| ip.parse().unwrap());
    Headers::new([2; 6], [3; 6], Vlans::new(7, 0), src, dst, 0xd872, 0, 64)
}

/// A packet for QP `qpn` with DETH and this payload.
fn datagram(opcode: Opcode, qpn: u32, deth: Deth, payload: &[u8]) -> Vec<u8> {
    let body = [&deth.to_bytes()[..], payload].concat();
    packets::frame(&headers(["fd00::1", "fd00::2"]), opcode, qpn, 0, &body)
}

const DETH: Deth = Deth { qkey: 0x8001_0000, src_qpn: Qpn::new(1) };

fn mad_frame(mad: &[u8]) -> Vec<u8> {
    datagram(Opcode::UD_SEND_ONLY, 1, DETH, mad)
}

/// The values are those that tshark 4.0 shows.
#[test]
fn the_messages_of_a_real_connection() {
    let frames = frames("rping_cm");
    let found: Vec<_> = frames.iter().filter_map(|frame| message(frame)).collect();
    let from_active = Ids { local: ACTIVE, remote: PASSIVE };
    let from_passive = Ids { local: PASSIVE, remote: ACTIVE };
    assert_eq!(
        found,
        [
            Message::Req(Req {
                local: ACTIVE,
                qpn: Qpn::new(37),
                starting_psn: Psn::new(0x7169ec),
                pmtu: 1024,
                is_rc: true,
                local_gid: addr("10.9.0.1"),
                remote_gid: addr("10.9.0.2"),
            }),
            Message::Rep(Rep {
                ids: from_passive,
                qpn: Qpn::new(37),
                starting_psn: Psn::new(0x47bd24)
            }),
            Message::Rtu(from_active),
            Message::Dreq(Dreq { ids: from_active, remote_qpn: Qpn::new(37) }),
            Message::Drep(from_passive),
        ]
    );
    for frame in frames {
        let roce = parse(&frame).unwrap();
        assert_eq!(is_candidate(&roce), message(&frame).is_some());
        assert!(icrc_ok(&frame, &roce));
    }
}

#[test]
fn what_is_written_is_read_again() {
    let ids = Ids { local: ACTIVE, remote: PASSIVE };
    let req = Req {
        local: ACTIVE,
        qpn: Qpn::new(0xabcdef),
        starting_psn: Psn::new(0xfffffe),
        pmtu: 2048,
        is_rc: true,
        local_gid: addr("fd00::1"),
        remote_gid: addr("fd00::2"),
    };
    let messages = [
        Message::Req(req),
        Message::Req(Req { is_rc: false, pmtu: 256, remote_gid: addr("10.9.0.2"), ..req }),
        Message::Mra(ids),
        Message::Rej(Rej { ids, reason: 28 }),
        Message::Rep(Rep { ids, qpn: Qpn::new(37), starting_psn: Psn::new(0x47bd24) }),
        Message::Rtu(ids),
        Message::Dreq(Dreq { ids, remote_qpn: Qpn::new(0x010203) }),
        Message::Drep(ids),
    ];
    let headers = headers(["fd00::1", "fd00::2"]);
    for sent in messages {
        let mut frame = vec![0xff; frame_len(&headers)];
        emit(&headers, Psn::new(5), 0x0102, &sent, &mut frame);
        let roce = parse(&frame).unwrap();
        assert_eq!(read(&frame, &roce), Some(sent));
        assert!(icrc_ok(&frame, &roce));
        assert_eq!((roce.psn.get(), roce.dest_qpn), (5, Qpn::GSI));
        assert_eq!(roce.payload(&frame)[8..16], [0, 0, 0, 0, 0, 0, 1, 2], "its transaction");
    }
}

/// A starting PSN is where the receiver of the message begins, not its sender.
#[test]
fn who_begins_at_which_psn() {
    let frames = frames("rping_cm");
    let messages: Vec<_> = frames.iter().filter_map(|frame| message(frame)).collect();
    let [Message::Req(req), Message::Rep(rep), ..] = messages[..] else { panic!("{messages:?}") };
    for (to, starting_psn) in
        [(req.local_gid, req.starting_psn), (req.remote_gid, rep.starting_psn)]
    {
        let mut requests = frames.iter().map(|frame| parse(frame).unwrap());
        let first = requests.find(|roce| roce.dst == to && roce.kind().is_request());
        assert_eq!(first.map(|roce| roce.psn), Some(starting_psn), "to {to}");
    }
}

#[test]
fn every_field_is_where_the_tables_have_it() {
    let (local, remote) = (addr("fd00::1"), addr("fd00::2"));
    let req = mad(
        0x10,
        &[
            (0, &[1, 2, 3, 4]),
            (32, &[5, 6, 7, 0xff]),
            (43, &[0b1111_1001]),
            (44, &[8, 9, 10, 0xff]),
            (50, &[0x5f]),
            (56, local.as_bytes()),
            (72, remote.as_bytes()),
        ],
    );
    let expected = Req {
        local: 0x0102_0304,
        qpn: Qpn::new(0x050607),
        starting_psn: Psn::new(0x08090a),
        pmtu: 4096,
        is_rc: true,
        local_gid: local,
        remote_gid: remote,
    };
    assert_eq!(message(&mad_frame(&req)), Some(Message::Req(expected)));
    for service in 1..=3u8 {
        let mut other = req;
        other[24 + 43] |= service << 1;
        let expected = Req { is_rc: false, ..expected };
        assert_eq!(message(&mad_frame(&other)), Some(Message::Req(expected)));
    }

    let both: (usize, &[u8]) = (0, &[1, 2, 3, 4, 0xa, 0xb, 0xc, 0xd]);
    let ids = Ids { local: 0x0102_0304, remote: 0x0a0b_0c0d };
    let rep = mad(0x13, &[both, (12, &[5, 6, 7, 0xff]), (20, &[8, 9, 10, 0xff])]);
    let starting_psn = Psn::new(0x08090a);
    let expected = Rep { ids, qpn: Qpn::new(0x050607), starting_psn };
    assert_eq!(message(&mad_frame(&rep)), Some(Message::Rep(expected)));
    let rej = mad(0x12, &[both, (8, &[0xff, 0xff, 0, 28])]);
    assert_eq!(message(&mad_frame(&rej)), Some(Message::Rej(Rej { ids, reason: 28 })));
    let dreq = mad(0x15, &[both, (8, &[5, 6, 7, 0xff])]);
    let expected = Dreq { ids, remote_qpn: Qpn::new(0x050607) };
    assert_eq!(message(&mad_frame(&dreq)), Some(Message::Dreq(expected)));
    let plain = [Message::Mra(ids), Message::Rtu(ids), Message::Drep(ids)];
    for (attribute, expected) in [0x11, 0x14, 0x16].into_iter().zip(plain) {
        assert_eq!(message(&mad_frame(&mad(attribute, &[both]))), Some(expected));
    }
}

#[test]
fn what_is_no_message_of_connection_management() {
    let good = mad(0x14, &[]);
    assert!(message(&mad_frame(&good)).is_some());
    // Base version, class, class version, method; Get of the same class.
    for (at, value) in [(0, 2), (1, 3), (2, 1), (3, 1), (3, 0x83)] {
        let mut other = good;
        other[at] = value;
        assert_eq!(message(&mad_frame(&other)), None, "byte {at}");
    }
    // ClassPortInfo, LAP, APR, SIDR REQ and REP, and none at all.
    for attribute in [0x01, 0x17, 0x18, 0x19, 0x1a, 0x00, 0xff] {
        assert_eq!(message(&mad_frame(&mad(attribute, &[]))), None, "{attribute:#x}");
    }
    let mut attribute = good;
    attribute[16] = 1;
    assert_eq!(message(&mad_frame(&attribute)), None);
    // A path MTU that doesn't exist.
    assert_eq!(message(&mad_frame(&mad(0x10, &[(50, &[0x00])]))), None);
    assert_eq!(message(&mad_frame(&mad(0x10, &[(50, &[0x60])]))), None);

    assert_eq!(message(&mad_frame(&good[..252])), None);
    let mut longer = good.to_vec();
    longer.extend([0; 4]);
    assert_eq!(message(&mad_frame(&longer)), None);
    // Other QPs, another queue key, other opcodes.
    assert_eq!(message(&datagram(Opcode::UD_SEND_ONLY, 2, DETH, &good)), None);
    for deth in [Deth { src_qpn: Qpn::new(2), ..DETH }, Deth { qkey: 0x1111_1111, ..DETH }] {
        assert_eq!(message(&datagram(Opcode::UD_SEND_ONLY, 1, deth, &good)), None);
    }
    let with_immediate_data = Opcode(0x65);
    for opcode in [with_immediate_data, Opcode::SEND_ONLY] {
        assert_eq!(message(&datagram(opcode, 1, DETH, &good)), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_mad(mut mad in prop::collection::vec(any::<u8>(), 250..262), attribute in 0u8..32) {
        mad[..4].copy_from_slice(&[1, 7, 2, 3]);
        mad[16..18].copy_from_slice(&[0, attribute]);
        // Whole words, as a packet without pad has them.
        mad.truncate(mad.len() & !3);
        let found = message(&mad_frame(&mad));
        prop_assert!(found.is_none() || mad.len() == 256 && (0x10..=0x16).contains(&attribute));
    }

    /// Bytes of real frames changed and cut, and a look that belongs to
    /// another frame.
    #[test]
    fn damaged_frames(
        which in any::<[prop::sample::Index; 2]>(),
        changes in prop::collection::vec((0usize..330, any::<u8>()), 0..6),
        cut in 0usize..330,
    ) {
        let [mut frame, other] = which.map(|which| which.get(&CAPTURED).clone());
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        let whole = parse(&frame);
        let _ = message(&frame);
        frame.truncate(cut);
        let _ = message(&frame);
        for roce in [whole, parse(&other)].into_iter().flatten() {
            let _ = read(&frame, &roce);
        }
    }
}
