//! Each message byte for byte.

use super::*;

/// The layout as it stands on the wire, so that it can't change unnoticed.
#[test]
fn a_sync_byte_for_byte() {
    let frame = frame_of(&header(), &Message::Sync(sync()), &keys(), &ip_headers(true));
    #[rustfmt::skip]
    let body = [
        b'L', b'R', b'2', 0x93, 3, 1, 0, 0b11,
        0x01, 0x02, 0x03, 0x04,
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
        0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
        0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
        0x00, 0x51, 0x52, 0x53, 0x61, 0x62, 0x63, 0x64,
        2, 0, 0x10, 0x00,
        0x00, 0x71, 0x72, 0x73, 0x00, 0x91, 0x92, 0x93,
        0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
        0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8,
    ];
    let roce = parse(&frame).unwrap();
    assert_eq!(body_of(&frame, &roce), body);
    assert_eq!(roce.payload_len(), 88);
    assert_eq!((roce.opcode, roce.dest_qpn, roce.ack_req), (DEFAULT_OPCODE, BTH_QPN, false));
    let expected = blake3::keyed_hash(
        &blake3::derive_key(
            "LR2 Gateway, tag of control messages, version 1",
            b"a secret of the right length, or so",
        ),
        &[&roce.src.as_bytes()[..], roce.dst.as_bytes(), &[0xe1, 0, 0xab, 0xcd, 0xef], &body]
            .concat(),
    );
    assert_eq!(roce.payload(&frame)[body.len()..], expected.as_bytes()[..16]);
}

#[test]
fn a_status_byte_for_byte() {
    let frame = frame_of(&header(), &Message::Status(status(2)), &keys(), &ip_headers(true));
    #[rustfmt::skip]
    let fields = [
        0x00, 0xff, 0xff, 0xf0,
        0x00, 0xff, 0xff, 0xf0, 0x00, 0x00, 0x08, 0x00,
        0x00, 0xff, 0xff, 0xef, 0x1f, 0xc1, 0xc2, 0xc3,
        0x00, 0xf1, 0xf2, 0xf3,
        0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8,
        0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8,
        2, 0, 0, 0,
        0x00, 0xff, 0xff, 0xf0, 0, 0, 0, 1,
        0x00, 0xff, 0xff, 0xf8, 0, 0, 0, 2,
    ];
    let body = body_of(&frame, &parse(&frame).unwrap()).to_vec();
    assert_eq!(body[4..8], [3, 2, 0, 0b111]);
    assert_eq!(body[44..], fields);
    assert_eq!(body_len(&Message::Status(status(0))), 104);
    assert_eq!(body_len(&Message::Status(status(32))), 360);
}

#[test]
fn a_fetch_byte_for_byte() {
    let frame = frame_of(&header(), &Message::Fetch(fetch(2)), &keys(), &ip_headers(true));
    #[rustfmt::skip]
    let fields = [
        0x00, 0xff, 0xff, 0xf0, 2, 0, 0, 0,
        0x00, 0xff, 0xff, 0xf0, 0, 0, 0, 1,
        0x00, 0xff, 0xff, 0xf8, 0, 0, 0, 2,
    ];
    let body = body_of(&frame, &parse(&frame).unwrap()).to_vec();
    assert_eq!(body[4..8], [3, 3, 0, 0]);
    assert_eq!(body[44..], fields);
    assert_eq!(body_len(&Message::Fetch(fetch(0))), 68);
    assert_eq!(body_len(&Message::Fetch(fetch(32))), 324);
}
