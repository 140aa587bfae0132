//! Messages of the other gateway: any content that a control message can hold.

use common::control::{Fetch, LastAck, MAX_RANGES, PsnRange, Reason, Status, SyncMessage};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::Qpn;

use super::input::Input;

const REASONS: [Reason; 8] = [
    Reason::Open,
    Reason::Open,
    Reason::Tail,
    Reason::Tail,
    Reason::Resent,
    Reason::Keepalive,
    Reason::Lost,
    Reason::Release,
];
const PMTUS: [u16; 5] = [0, 256, 512, 1024, 4096];

/// A SYNC of a source that is about to send `next`.
pub fn sync(input: &mut Input<'_>, next: Psn, now: Time) -> SyncMessage {
    let reason = input.choose(&REASONS);
    SyncMessage {
        reason,
        next_psn: (reason != Reason::Resent).then(|| near(input, next, -12, 20)),
        pmtu: input.choose(&PMTUS),
        src_qpn: input.one_in(3).then_some(Qpn::new(0x77)),
        sent_at: moment(input, now),
        rtt: input.choose(&[Span::ZERO, Span::from_millis(8), Span::from_micros(50)]),
    }
}

/// A STATUS about a source that is about to send `next`.
pub fn status(input: &mut Input<'_>, next: Psn, now: Time) -> Status {
    let expected = near(input, next, -30, 4);
    let from = expected.offset(input.choose(&[0, 0, 0, 1, 9]));
    let (to, missing) = ranges(input, from);
    let to = to.offset(u32::from(input.below(12)));
    let ack = input.one_in(2).then(|| LastAck {
        psn: near(input, next, -30, 4),
        syndrome: 0x1f,
        msn: u32::from(input.byte()),
    });
    Status {
        expected,
        ack,
        from,
        to,
        missing,
        echo: moment(input, now),
        hold: input.choose(&[Span::ZERO, Span::from_micros(30), Span::from_millis(100)]),
        src_qpn: input.one_in(3).then_some(Qpn::new(0x77)),
        keeps_responses: !input.one_in(4),
        passive: false,
    }
}

/// A FETCH of responses to requests up to `next`.
pub fn fetch(input: &mut Input<'_>, next: Psn) -> Fetch {
    let expected = near(input, next, -30, 4);
    let (_, missing) = ranges(input, expected);
    Fetch { expected, missing }
}

/// A PSN between `from` and before `to`, counted from `psn`; rarely any other.
pub fn near(input: &mut Input<'_>, psn: Psn, from: i32, to: i32) -> Psn {
    let by = match input.byte() {
        255 => return psn.offset(u32::from(input.word()) << 8),
        by => from + i32::from(by) % (to - from),
    };
    psn.offset(by as u32)
}

/// Ranges from `from` on, and one past the last.
fn ranges(input: &mut Input<'_>, from: Psn) -> (Psn, arrayvec::ArrayVec<PsnRange, MAX_RANGES>) {
    let count = match input.below(8) {
        7 => MAX_RANGES,
        n => usize::from(n).saturating_sub(2),
    };
    let mut end = from;
    let missing = (0..count)
        .map(|_| {
            let (gap, len) = (input.byte(), input.byte());
            let start = end.offset(u32::from(gap % 8));
            let len = if len == 255 { 5000 } else { 1 + u32::from(len % 6) };
            end = start.offset(len);
            PsnRange { start, len }
        })
        .collect();
    (end, missing)
}

/// When a message was sent.
fn moment(input: &mut Input<'_>, now: Time) -> Time {
    match input.below(4) {
        0 => Time::ZERO,
        1 => now,
        2 => now - Span::from_millis(9),
        _ => now - Span::from_micros(u64::from(input.word())),
    }
}
