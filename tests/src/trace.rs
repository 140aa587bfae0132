//! The trace of a run for people, and the invariants at every step of it.

use common::control::{self, Keys};
use common::heap::HeapFrame;
use common::metrics::{Counters, Metric};
use common::wire::{Response, icrc_ok, parse};
use switch::Switch;

/// A frame in one line.
pub(crate) fn describe(bytes: &[u8]) -> String {
    let Ok(roce) = parse(bytes) else {
        return tunnelled(bytes).unwrap_or_else(|| "malformed".into());
    };
    let what = match control::decode(bytes, &roce, control::DEFAULT_OPCODE, &Keys::unkeyed_lab()) {
        Some(Ok((header, message))) => format!("epoch {} {message:?}", header.epoch),
        _ => match Response::of(&roce, bytes) {
            Some(response) => format!("{:?} {:?}", response.verdict, response.msn),
            None => format!("{:?} {}", roce.kind(), if roce.ack_req { "ackreq" } else { "" }),
        },
    };
    let damaged = if icrc_ok(bytes, &roce) { "" } else { "DAMAGED" };
    format!("qp {} psn {:?} {what} {damaged}", roce.dest_qpn, roce.psn)
}

/// Where the shim of a frame between boxes with a tunnel is, if it is one of these.
pub(crate) fn shim(bytes: &[u8]) -> Option<&[u8]> {
    let headers = match bytes.get(12..14)? {
        [0x88, 0xb5] => 14,
        [0x08, 0x00] => 14 + 20 + 8,
        [0x86, 0xdd] => 14 + 40 + 8,
        _ => return None,
    };
    bytes.get(headers..).filter(|shim| shim.first().is_some_and(|first| first >> 4 == 2))
}

/// A frame or message of a tunnel in one line.
fn tunnelled(bytes: &[u8]) -> Option<String> {
    let shim = shim(bytes)?;
    let what = match (shim[0] & 15, shim.get(2)?) {
        (0, _) => "frame",
        (1, _) => "frame again",
        (_, 1) => "HELLO",
        (_, 2) => "REPORT",
        (_, 3) => "PROBE",
        (_, 4) => "SKIP",
        _ => "BYE",
    };
    Some(format!("tunnel {what} lane {} {:02x?}", shim[1], shim.get(8..12)))
}

/// in + created = out + held + dropped by reason.
pub(crate) fn check_books(switch: &Switch<HeapFrame>) {
    let counters = switch.counters();
    assert_eq!(
        counters.entered(),
        counters.left() + switch.held(),
        "a frame was lost or invented: {:?}",
        nonzero(counters)
    );
}

/// The counters that moved, for people.
pub fn nonzero(counters: &Counters) -> Vec<(Metric, u64)> {
    Metric::ALL.iter().map(|m| (*m, counters.get(*m))).filter(|(_, n)| *n > 0).collect()
}
