//! Control messages that say no more than their arguments.

use common::control::{
    BootId, DEFAULT_OPCODE, Epoch, Header, Keys, Message, NodeId, PsnRange, Reason,
};
use common::control::{Status, SyncMessage, body_len, encode};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Headers, Qpn};

/// A SYNC without a round trip.
pub fn sync(reason: Reason, next: impl Into<Option<Psn>>, sent_at: Time) -> SyncMessage {
    SyncMessage { reason, next_psn: next.into(), pmtu: 0, src_qpn: None, sent_at, rtt: Span::ZERO }
}

/// The STATUS of a Depot that holds everything but `missing` (from .. to); `psn` is the PSN of a
/// number.
pub fn status<N: Copy>(expected: N, to: N, missing: &[(N, N)], psn: impl Fn(N) -> Psn) -> Status {
    let (expected, to) = (psn(expected), psn(to));
    Status {
        expected,
        ack: None,
        from: expected,
        to,
        missing: ranges(missing, psn),
        echo: Time::ZERO,
        hold: Span::ZERO,
        src_qpn: None,
        keeps_responses: true,
        passive: false,
    }
}

/// Ranges of PSNs from pairs of from .. to.
pub fn ranges<N: Copy, R>(pairs: &[(N, N)], psn: impl Fn(N) -> Psn) -> R
where
    R: FromIterator<PsnRange>,
{
    let len = |(from, to)| psn(to).distance(psn(from)) as u32;
    pairs.iter().map(|&(from, to)| PsnRange { start: psn(from), len: len((from, to)) }).collect()
}

/// The header of some box's first message.
pub const HEADER: Header = Header {
    node: NodeId(9),
    boot: BootId(1),
    seq: 1,
    seen_boot: BootId::NONE,
    dest_qpn: Qpn::new(0x11),
    epoch: Epoch(1),
};

/// A message in a frame to QP `qpn`.
pub fn frame(
    headers: &Headers,
    qpn: Qpn,
    header: &Header,
    message: &Message,
    keys: &Keys,
) -> Vec<u8> {
    let mut frame = vec![0; headers.frame_len(body_len(message))];
    encode(headers, DEFAULT_OPCODE, qpn, header, message, keys, &mut frame);
    frame
}
