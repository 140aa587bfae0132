//! Packets as hosts send them. The payload of each repeats its PSN, so that
//! output that was never sent is recognised.

pub use crate::packets::{damaged, datagram, headers, headers_v6};
use crate::packets::{mad, with_bth};
use common::allowance::Allowance;
use common::budget::Budget;
use common::psn::Psn;
use common::wire::{
    Aeth, Bth, Headers, Opcode, PacketKind, Position, Qpn, Reth, Roce, icrc_ok, parse,
};

use super::input::Input;

/// Requests, the usual ones more than once.
const REQUESTS: [Opcode; 16] = [
    Opcode::WRITE_MIDDLE,
    Opcode::WRITE_MIDDLE,
    Opcode::WRITE_LAST,
    Opcode::SEND_MIDDLE,
    Opcode::SEND_ONLY,
    Opcode::WRITE_FIRST,
    Opcode::WRITE_ONLY,
    Opcode::SEND_FIRST,
    Opcode::SEND_LAST_IMM,
    Opcode::SEND_ONLY_INVALIDATE,
    Opcode::READ_REQUEST,
    Opcode::READ_REQUEST,
    Opcode::COMPARE_SWAP,
    Opcode::FETCH_ADD,
    Opcode::FLUSH,
    Opcode::ATOMIC_WRITE,
];

const RESPONSES: [Opcode; 8] = [
    Opcode::ACK,
    Opcode::ACK,
    Opcode::ACK,
    Opcode::READ_RESPONSE_FIRST,
    Opcode::READ_RESPONSE_MIDDLE,
    Opcode::READ_RESPONSE_LAST,
    Opcode::READ_RESPONSE_ONLY,
    Opcode::ATOMIC_ACK,
];

const SYNDROMES: [u8; 8] = [
    Aeth::ACK_UNLIMITED,
    Aeth::ACK_UNLIMITED,
    3,
    Aeth::RNR + 3,
    Aeth::NAK_PSN_SEQUENCE,
    Aeth::NAK_PSN_SEQUENCE,
    Aeth::NAK_INVALID_REQUEST,
    0xff,
];

/// Lengths of READs in bytes; most are a few packets of 256 bytes.
const READS: [u32; 8] = [0, 256, 1024, 1500, 20 * 256, 1 << 16, 1 << 24, u32::MAX];

/// Some request for QP `qpn`, and how many PSNs it takes with a path MTU of 256.
pub fn request(input: &mut Input<'_>, headers: &Headers, qpn: Qpn, psn: Psn) -> (Vec<u8>, u32) {
    let opcode = input.choose(&REQUESTS);
    let flags = input.byte();
    let mut bth = Bth { ack_req: flags & 1 != 0, ..Bth::new(opcode, qpn, psn) };
    let (mut ext, mut count) = (vec![0; opcode.ext_len()], 1);
    if opcode == Opcode::READ_REQUEST {
        let len = input.choose(&READS);
        ext = Reth { va: 0, rkey: 0, len }.to_bytes().to_vec();
        count = common::wire::read_responses(len, 256);
    }
    let len = match opcode.kind() {
        PacketKind::Send(Position::First | Position::Middle)
        | PacketKind::Write(Position::First | Position::Middle) => {
            if flags & 0xc0 == 0xc0 {
                1024
            } else {
                256
            }
        }
        PacketKind::Send(_) | PacketKind::Write(_) => usize::from(flags >> 2 & 3) * 20,
        PacketKind::AtomicWrite => 8,
        _ => 0,
    };
    bth.solicited = flags & 2 != 0;
    let frame = packet(headers, &bth, &ext, len);
    (if flags & 0x30 == 0x30 { damaged(frame) } else { frame }, count)
}

/// Some response for QP `qpn`.
pub fn respond(input: &mut Input<'_>, headers: &Headers, qpn: Qpn, psn: Psn) -> Vec<u8> {
    let (opcode, flags) = (input.choose(&RESPONSES), input.byte());
    let mut ext = vec![0; opcode.ext_len()];
    if opcode.has_aeth() {
        let syndrome = SYNDROMES[usize::from(flags) % SYNDROMES.len()];
        let msn = psn.get().wrapping_add(u32::from(flags >> 6)) & 0xff_ffff;
        ext[..Aeth::LEN].copy_from_slice(&Aeth { syndrome, msn }.to_bytes());
    }
    let len = if matches!(opcode.kind(), PacketKind::ReadResponse(_)) { 256 } else { 0 };
    let frame = packet(headers, &Bth::new(opcode, qpn, psn), &ext, len);
    if flags & 0x38 == 0x38 { damaged(frame) } else { frame }
}

/// The kind of response number `i` of `count`, if the first one is of `kind`: READ responses make
/// one message.
pub fn part(kind: u8, i: u8, count: u8) -> u8 {
    const READ: std::ops::RangeInclusive<u8> = 3..=6;
    if !READ.contains(&(kind % RESPONSES.len() as u8)) {
        return kind;
    }
    match (i == 0, i + 1 == count) {
        (true, false) => 3,
        (false, false) => 4,
        (false, true) => 5,
        (true, true) => 6,
    }
}

/// A message of connection management from the sender of `headers`, whose QP is
/// `qpn` (of a DREQ, the receiver's): most are REQ, REP or RTU. Both ends call
/// the connection `name`.
pub fn cm(input: &mut Input<'_>, headers: &Headers, name: u32, qpn: Qpn, psn: Psn) -> Vec<u8> {
    let attribute = input.choose(&[0x10, 0x13, 0x14, 0x10, 0x13, 0x14, 0x11, 0x12, 0x15, 0x16, 0]);
    let high = |value: u32| (value << 8).to_be_bytes();
    let (name, qpn, psn) = (&name.to_be_bytes()[..], &high(qpn.get())[..], &high(psn.get())[..]);
    let mad = match attribute {
        0x10 => {
            let pmtu = [input.choose(&[0x10, 0x10, 0x30, 0x50])];
            let (src, dst) = (headers.src(), headers.dst());
            let (src, dst) = (&src.as_bytes()[..], &dst.as_bytes()[..]);
            mad(attribute, &[(0, name), (32, qpn), (44, psn), (50, &pmtu), (56, src), (72, dst)])
        }
        0x13 => mad(attribute, &[(0, name), (4, name), (12, qpn), (20, psn)]),
        0x15 => mad(attribute, &[(0, name), (4, name), (8, qpn)]),
        _ => mad(attribute, &[(0, name), (4, name)]),
    };
    datagram(headers, &mad)
}

fn packet(headers: &Headers, bth: &Bth, ext: &[u8], len: usize) -> Vec<u8> {
    with_bth(headers, bth, &[ext, &vec![bth.psn.get() as u8; len]].concat())
}

/// Checks a packet that leaves: damage must still be visible, and an intact
/// packet must be one that was sent.
pub fn check_intact(bytes: &[u8]) -> Roce {
    let roce = parse(bytes).expect("what leaves was received");
    let is_sent = roce.payload(bytes).iter().all(|byte| *byte == roce.psn.get() as u8);
    assert!(is_sent || !icrc_ok(bytes, &roce), "damage is hidden: {roce:?}");
    roce
}

/// An allowance: the usual one, or hardly any.
pub fn allowance(input: &mut Input<'_>) -> Allowance {
    Allowance::new(input.choose(&[Allowance::AMPLE, Allowance::AMPLE, Allowance::PER_SECOND]))
}

/// A budget: plenty, or hardly any.
pub fn budget(input: &mut Input<'_>) -> Budget {
    const PLENTY: u64 = 1 << 30;
    match input.below(6) {
        0 => Budget::new(u64::from(input.byte()) / 16),
        1 => Budget::new(u64::from(input.below(6))),
        _ => Budget::new(PLENTY),
    }
}
