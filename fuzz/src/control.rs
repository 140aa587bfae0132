//! Control messages: any body, under a tag that is right.
//!
//! The tag is computed here once more, from its description in
//! `docs/protocol.md`.

use common::control::{DEFAULT_OPCODE, Keys, Reject, decode};
use common::wire::{Headers, Qpn, Vlans, parse};
use testkit::{control, packets};

const MAGIC: [u8; 4] = [0x4c, 0x52, 0x32, 0x93];
const VERSION: u8 = 3;
const QPN: u32 = 0x11;
const TAG_LEN: usize = 16;
/// Longest body of a frame that a port takes.
const LONGEST: usize = 8000;

/// `data` is the body behind magic and version.
pub fn run(data: &[u8]) {
    let headers = packets::headers(1, 2, Vlans::NONE);
    let mut body = [&MAGIC[..], &[VERSION], &data[..data.len().min(LONGEST)]].concat();
    // Whole words, as a packet without pad has them.
    body.resize(body.len().next_multiple_of(4), 0);
    let tag = tag(&headers, &body);
    let frame = frame(&headers, &body, tag);
    let roce = parse(&frame).expect("what is made is RoCEv2");
    let keys = Keys::unkeyed_lab();
    match decode(&frame, &roce, DEFAULT_OPCODE, &keys).expect("it has the magic") {
        Ok((header, message)) => {
            let again = control::frame(&headers, Qpn::new(QPN), &header, &message, &keys);
            let roce = parse(&again).expect("what is made is RoCEv2");
            // There is one way to write a message.
            assert_eq!(roce.payload(&again), [&body[..], &tag].concat());
        }
        Err(reject) => {
            assert!(matches!(reject, Reject::Truncated | Reject::Invalid), "{reject:?}");
        }
    }

    let other = frame_with(&headers, &body, tag, |tag| tag[0] ^= 1);
    let roce = parse(&other).expect("what is made is RoCEv2");
    let found = decode(&other, &roce, DEFAULT_OPCODE, &keys);
    assert!(matches!(found, Some(Err(Reject::BadTag))), "{found:?}");
    for cut in [frame.len() - 1, frame.len() / 2] {
        let found = decode(&frame[..cut], &roce, DEFAULT_OPCODE, &keys);
        assert!(!matches!(found, Some(Ok(_))), "{found:?}");
    }
}

fn tag(headers: &Headers, body: &[u8]) -> [u8; TAG_LEN] {
    let mut hasher = blake3::Hasher::new_keyed(&[0; 32]);
    hasher.update(headers.src().as_bytes()).update(headers.dst().as_bytes());
    hasher.update(&[DEFAULT_OPCODE.0]).update(&QPN.to_be_bytes()).update(body);
    let mut tag = [0; TAG_LEN];
    tag.copy_from_slice(&hasher.finalize().as_bytes()[..TAG_LEN]);
    tag
}

fn frame(headers: &Headers, body: &[u8], tag: [u8; TAG_LEN]) -> Vec<u8> {
    frame_with(headers, body, tag, |_| {})
}

fn frame_with(
    headers: &Headers,
    body: &[u8],
    mut tag: [u8; TAG_LEN],
    change: impl FnOnce(&mut [u8; TAG_LEN]),
) -> Vec<u8> {
    change(&mut tag);
    packets::frame(headers, DEFAULT_OPCODE, QPN, 0, &[body, &tag].concat())
}
