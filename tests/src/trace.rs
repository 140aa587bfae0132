//! The trace of a run for people, and the invariants at every step of it.

use common::control::{self, Keys};
use common::heap::HeapFrame;
use common::metrics::{Counters, Metric};
use common::wire::{Response, icrc_ok, parse};
use switch::Switch;

/// A frame in one line.
pub(crate) fn describe(bytes: &[u8]) -> String {
    let Ok(roce) = parse(bytes) else { return "malformed".into() };
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
