//! Connection management: any datagram on QP 1.

use common::wire::cm::{Message, is_candidate, read};
use common::wire::{Vlans, parse};
use testkit::packets;

/// `data` follows the MAD header's first four bytes; or, if it starts
/// with ones, a whole frame.
pub fn run(data: &[u8]) {
    match data.strip_prefix(&[0xff]) {
        Some(frame) => look(frame),
        None => look(&datagram(data)),
    }
}

/// A frame with `data` in its MAD, of the length that a MAD has.
fn datagram(data: &[u8]) -> Vec<u8> {
    let mut mad = packets::mad(0, &[]);
    mad.iter_mut().skip(4).zip(data).for_each(|(out, byte)| *out = *byte);
    packets::datagram(&packets::headers(1, 2, Vlans::NONE), &mad)
}

fn look(frame: &[u8]) {
    let Ok(roce) = parse(frame) else { return };
    let found = read(frame, &roce);
    assert!(found.is_none() || is_candidate(&roce));
    // A look that belongs to another frame.
    let _ = read(&frame[..frame.len() / 2], &roce);
    if let Some(Message::Req(req)) = found {
        assert!(matches!(req.pmtu, 256 | 512 | 1024 | 2048 | 4096), "{req:?}");
    }
}
