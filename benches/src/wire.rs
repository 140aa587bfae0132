//! Formats alone: parsing, ICRCs, control messages.

use std::hint::black_box;

use common::control::{
    self, DEFAULT_OPCODE, Header, Keys, LastAck, Message, PsnRange, Reason, Status, SyncMessage,
};
use common::frame::Frame;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Aeth, Bth, Headers, Opcode, Roce, icrc, parse};

use crate::frame::Recycled;
use crate::packets::{MESSAGE, PMTU, Qp};
use crate::{BURST, Stage};

/// A burst is parsed.
pub struct Parse {
    frames: Vec<Recycled>,
    done: u64,
}

impl Parse {
    /// A message's packets, twice.
    pub fn new() -> Self {
        let qp = Qp::new(0, MESSAGE);
        Self { frames: (0..BURST).map(|psn| qp.data(psn)).collect(), done: 0 }
    }
}

impl Default for Parse {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage for Parse {
    fn prepare(&mut self) {}

    fn run(&mut self) {
        for frame in &self.frames {
            self.done += u64::from(parse(black_box(frame.bytes())).is_ok());
        }
    }

    fn done(&self) -> u64 {
        self.done
    }
}

/// The ICRC of one frame.
pub struct Icrc {
    frame: Vec<u8>,
    roce: Roce,
    right: u32,
    done: u64,
}

impl Icrc {
    /// With so many bytes of payload.
    pub fn new(payload: usize) -> Self {
        let qp = Qp::new(0, MESSAGE);
        let mut frame = vec![0; qp.forward().frame_len(payload)];
        qp.forward().emit(&Bth::new(Opcode::WRITE_MIDDLE, 1, Psn::new(0)), &mut frame, |_| {});
        let roce = parse(&frame).expect("RoCEv2");
        let right = icrc(&frame, &roce);
        Self { frame, roce, right, done: 0 }
    }
}

impl Stage for Icrc {
    fn prepare(&mut self) {}

    fn run(&mut self) {
        self.done += u64::from(icrc(black_box(&self.frame), &self.roce) == self.right);
    }

    fn done(&self) -> u64 {
        self.done
    }
}

/// A control message of a flow.
struct Said {
    headers: Headers,
    message: Message,
    keys: Keys,
    frame: Vec<u8>,
}

const HEADER: Header = Header { node: 1, boot: 2, seq: 3, seen_boot: 4, dest_qpn: 6, epoch: 7 };

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
        control::encode(headers, DEFAULT_OPCODE, 9, &HEADER, black_box(message), keys, frame);
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
        src_qpn: Some(8),
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
        src_qpn: Some(8),
        keeps_responses: true,
        passive: false,
    })
}

/// A message is written: headers, body, tag, ICRC.
pub struct Encode(Said, u64);

impl Encode {
    /// This one.
    pub fn new(message: Message) -> Self {
        Self(Said::new(message), 0)
    }
}

impl Stage for Encode {
    fn prepare(&mut self) {}

    fn run(&mut self) {
        self.0.encode();
        self.1 += 1;
    }

    fn done(&self) -> u64 {
        self.1
    }
}

/// A frame with a message is parsed, verified and read.
pub struct Decode(Said, u64);

impl Decode {
    /// This one.
    pub fn new(message: Message) -> Self {
        Self(Said::new(message), 0)
    }
}

impl Stage for Decode {
    fn prepare(&mut self) {}

    fn run(&mut self) {
        self.1 += u64::from(self.0.decode());
    }

    fn done(&self) -> u64 {
        self.1
    }
}
