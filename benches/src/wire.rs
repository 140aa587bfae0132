//! Formats alone: parsing, ICRCs, control messages.

use std::hint::black_box;

use common::control::{
    self, DEFAULT_OPCODE, Keys, LastAck, Message, PsnRange, Reason, Status, SyncMessage,
};
use common::frame::Frame;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Aeth, Bth, Headers, Opcode, Qpn, icrc, parse};
use testkit::control::HEADER;

use crate::frame::Recycled;
use crate::packets::{MESSAGE, PMTU, Qp};
use crate::{BURST, Stage};

/// Something that needs no preparation.
struct Again<F> {
    /// A round; how often it was done, and right.
    round: F,
    done: u64,
}

fn again<F: FnMut() -> u64>(round: F) -> Again<F> {
    Again { round, done: 0 }
}

impl<F: FnMut() -> u64> Stage for Again<F> {
    fn prepare(&mut self) {}

    fn run(&mut self) {
        self.done += (self.round)();
    }

    fn done(&self) -> u64 {
        self.done
    }
}

/// A burst is parsed: a message's packets, twice.
pub fn parse_burst() -> impl Stage {
    let qp = Qp::new(0, MESSAGE);
    let frames: Vec<Recycled> = (0..BURST).map(|psn| qp.data(psn)).collect();
    again(move || {
        frames.iter().map(|frame| u64::from(parse(black_box(frame.bytes())).is_ok())).sum()
    })
}

/// The ICRC of one frame with so many bytes of payload.
pub fn icrc_of(payload: usize) -> impl Stage {
    let qp = Qp::new(0, MESSAGE);
    let mut frame = vec![0; qp.forward().frame_len(payload)];
    let bth = Bth::new(Opcode::WRITE_MIDDLE, qp.dest, Psn::new(0));
    qp.forward().emit(&bth, &mut frame, |_| {});
    let roce = parse(&frame).expect("RoCEv2");
    let right = icrc(&frame, &roce);
    again(move || u64::from(icrc(black_box(&frame), &roce) == right))
}

/// A control message of a flow.
struct Said {
    headers: Headers,
    message: Message,
    keys: Keys,
    frame: Vec<u8>,
}

impl Said {
    fn new(message: Message) -> Self {
        let headers = Qp::new(0, MESSAGE).forward().clone();
        let frame = vec![0; headers.frame_len(control::body_len(&message))];
        let mut said = Self { headers, message, keys: Keys::from_secret(b"secret"), frame };
        said.encode();
        said
    }

    fn encode(&mut self) {
        let Self { headers, message, keys, frame } = self;
        let (opcode, qpn) = (DEFAULT_OPCODE, HEADER.dest_qpn);
        control::encode(headers, opcode, qpn, &HEADER, black_box(message), keys, frame);
    }

    /// Whether the message decodes to the encoded one.
    fn decode(&self) -> bool {
        let frame = black_box(&self.frame[..]);
        let Ok(roce) = parse(frame) else { return false };
        let read = control::decode(frame, &roce, DEFAULT_OPCODE, &self.keys);
        black_box(read).is_some_and(|read| read.is_ok())
    }
}

/// A SYNC(keepalive).
pub fn sync() -> Message {
    Message::Sync(SyncMessage {
        reason: Reason::Keepalive,
        next_psn: Some(Psn::new(1000)),
        pmtu: PMTU as u16,
        src_qpn: Some(Qpn::new(8)),
        sent_at: Time::from_nanos(1),
        rtt: Span::from_millis(1),
    })
}

/// A STATUS that misses one packet in each of `gaps` places.
pub fn status(gaps: u32) -> Message {
    let range = |n| PsnRange { start: Psn::new(900 + 2 * n), len: 1 };
    Message::Status(Status {
        expected: Psn::new(900),
        ack: Some(LastAck { psn: Psn::new(895), syndrome: Aeth::ACK_UNLIMITED, msn: 3 }),
        from: Psn::new(900),
        to: Psn::new(1000),
        missing: (0..gaps).map(range).collect(),
        echo: Time::from_nanos(1),
        hold: Span::ZERO,
        src_qpn: Some(Qpn::new(8)),
        keeps_responses: true,
        passive: false,
    })
}

/// A message is written: headers, body, tag, ICRC.
pub fn encode(message: Message) -> impl Stage {
    let mut said = Said::new(message);
    again(move || {
        said.encode();
        1
    })
}

/// A frame with a message is parsed, verified and read.
pub fn decode(message: Message) -> impl Stage {
    let said = Said::new(message);
    again(move || u64::from(said.decode()))
}
