//! From message to frame and back.

use super::keys::{Keys, Scope, TAG_LEN};
use super::layout::{self, Fault, MAGIC, VERSION};
use super::message::{Header, Message, is_control_opcode};
use crate::psn::Psn;
use crate::wire::{Bth, Headers, Opcode, Qpn, Roce, icrc_ok};

/// Why a control message was not accepted. It is to be dropped and counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reject {
    /// The ICRC is wrong: damaged on the way.
    BadIcrc,
    /// Shorter, or longer, than its type asks for.
    Truncated,
    /// An unknown version: the peer runs another release.
    Version,
    /// No key of ours gives this tag: another key, or a forgery.
    BadTag,
    /// A field is out of its range, though the tag is right.
    Invalid,
}

/// Bytes that a message takes between BTH and ICRC: 88 for a SYNC, 104 to 360
/// for a STATUS, 68 to 324 for a FETCH. Always a multiple of 4, so that no pad is needed.
pub fn body_len(message: &Message) -> usize {
    layout::len(message) + TAG_LEN
}

/// Writes a whole frame with a message.
///
/// `headers` are those of the flow or of its reverse, `opcode` is from the
/// manufacturer range, `bth_qpn` the destination QP of the BTH.
///
/// # Panics
/// If `out` isn't `headers.frame_len(body_len(message))` bytes long. In debug
/// builds also if a field is out of the range that its documentation gives; the
/// receiver would reject the message.
pub fn encode(
    headers: &Headers,
    opcode: Opcode,
    bth_qpn: Qpn,
    header: &Header,
    message: &Message,
    keys: &Keys,
    out: &mut [u8],
) {
    debug_assert!(is_control_opcode(opcode), "{opcode} is no manufacturer's opcode");
    debug_assert!(message.is_valid(), "{header:?} {message:?}");
    // Queue pairs discard the packet for its opcode before they look at its PSN.
    let bth = Bth::new(opcode, bth_qpn, Psn::new(header.seq as u32));
    headers.emit(&bth, out, |body| {
        let (message_part, tag) = body.split_at_mut(layout::len(message));
        layout::write(header, message, message_part);
        let scope = Scope { src: headers.src(), dst: headers.dst(), opcode, bth_qpn };
        tag.copy_from_slice(&keys.seal(&scope, message_part));
    });
}

/// Reads a message. Never panics, on any frame.
///
/// `None`: not one of ours, by opcode or magic; pass it on. Otherwise it was
/// meant for a gateway, and must not go further, accepted or not.
pub fn decode(
    frame: &[u8],
    roce: &Roce,
    opcode: Opcode,
    keys: &Keys,
) -> Option<Result<(Header, Message), Reject>> {
    is_ours(frame, roce, opcode).then(|| open(frame, roce, roce.payload(frame), keys))
}

/// Whether a frame claims to be a control message of ours, by opcode and magic.
pub fn is_ours(frame: &[u8], roce: &Roce, opcode: Opcode) -> bool {
    roce.opcode == opcode && roce.payload(frame).starts_with(&MAGIC)
}

/// Whether a message, of which nothing else was checked, says that it is a SYNC.
pub fn claims_sync(frame: &[u8], roce: &Roce) -> bool {
    roce.payload(frame).get(MAGIC.len() + 1) == Some(&layout::SYNC)
}

fn open(frame: &[u8], roce: &Roce, body: &[u8], keys: &Keys) -> Result<(Header, Message), Reject> {
    if !icrc_ok(frame, roce) {
        return Err(Reject::BadIcrc);
    }
    if *body.get(MAGIC.len()).ok_or(Reject::Truncated)? != VERSION {
        return Err(Reject::Version);
    }
    let (message, tag) = body.split_last_chunk::<TAG_LEN>().ok_or(Reject::Truncated)?;
    let Roce { src, dst, opcode, dest_qpn: bth_qpn, .. } = *roce;
    if !keys.verify(&Scope { src, dst, opcode, bth_qpn }, message, tag) {
        return Err(Reject::BadTag);
    }
    layout::read(message).map_err(|fault| match fault {
        Fault::Length => Reject::Truncated,
        Fault::Value => Reject::Invalid,
    })
}
