//! What two rxe hosts (Linux 6.1) did, packet by packet, ours do too. The
//! sequences are from captures of perftest between two such hosts.

mod support;

use common::psn::Psn;
use common::time::Time;
use common::wire::{Opcode, parse};
use rnic::{Nic, NicConfig, QpConfig, QpId, Region, WorkKind, WorkRequest, lab_ip};
use support::{Seen, drain, look};

const NOW: Time = Time::ZERO;
const MACS: [[u8; 6]; 2] = [[0x52, 0x54, 0, 0xaa, 0, 1], [0x52, 0x54, 0, 0xaa, 0, 2]];
const QPN: u32 = 0x24;
const PMTU: u32 = 1024;

/// The two hosts of the captures.
fn hosts(first_psn: u32) -> ([Nic; 2], QpId) {
    let mut nics = [0, 1].map(|i| Nic::new(NicConfig::new(MACS[i], lab_ip(i as u8 + 1))));
    let config = |peer: usize| {
        let region = Region { va: 0x7f48_463d_a000, rkey: 0x15ff, len: 128 << 10 };
        QpConfig {
            send_psn: Psn::new(first_psn),
            recv_psn: Psn::new(first_psn),
            local_region: region,
            remote_region: region,
            ..QpConfig::new(QPN, QPN, MACS[peer], lab_ip(peer as u8 + 1))
        }
    };
    let qp = nics[0].add_qp(config(1)).unwrap();
    assert_eq!(nics[1].add_qp(config(0)).unwrap(), qp);
    (nics, qp)
}

fn write(nic: &mut Nic, qp: QpId, packets: u32) {
    nic.post(qp, WorkRequest { kind: WorkKind::Write, len: packets * PMTU, id: 0 }, NOW).unwrap();
}

/// A 128 KiB WRITE: the packets and where between them the ACKs came.
#[test]
fn a_long_write() {
    const FIRST: u32 = 6_655_887;
    let ([mut a, mut b], qp) = hosts(FIRST);
    write(&mut a, qp, 128);
    let mut seen = Vec::new();
    for frame in drain(&mut a, NOW) {
        seen.push(look(&frame));
        b.receive(&frame, NOW);
        seen.extend(drain(&mut b, NOW).iter().map(|frame| look(frame)));
    }

    let middle = |psn| Seen::Data(Opcode::WRITE_MIDDLE, psn, false);
    let mut captured = vec![Seen::Data(Opcode::WRITE_FIRST, FIRST, false)];
    captured.extend((6_655_888..6_655_952).map(middle));
    captured.push(Seen::Data(Opcode::WRITE_MIDDLE, 6_655_952, true));
    captured.push(Seen::Ack(6_655_952, 0x1f, 0));
    captured.extend((6_655_953..6_656_014).map(middle));
    captured.push(Seen::Data(Opcode::WRITE_LAST, 6_656_014, true));
    captured.push(Seen::Ack(6_656_014, 0x1f, 1));
    assert_eq!(seen, captured);
}

/// The same, byte by byte: first and last packet and the first ACK, without
/// IPv4 identification and checksum and without payload and ICRC.
#[test]
fn headers() {
    let ([mut a, mut b], qp) = hosts(6_655_887);
    write(&mut a, qp, 128);
    let frames = drain(&mut a, NOW);
    for frame in &frames[..66] {
        b.receive(frame, NOW);
    }
    let acks = drain(&mut b, NOW);
    assert_eq!(acks.len(), 1);
    let check = |frame: &[u8], header: &str, len: usize| {
        assert_eq!(frame.len(), len);
        let header: Vec<_> = header.split_whitespace().collect();
        let ours: Vec<_> = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        for (at, byte) in header.iter().enumerate() {
            assert!(*byte == "--" || **byte == ours[at], "byte {at}: {} not {byte}", ours[at]);
        }
    };
    check(
        &frames[0],
        "52 54 00 aa 00 02 52 54 00 aa 00 01 08 00 \
         45 00 04 3c -- -- 40 00 40 11 -- -- 0a 09 00 01 0a 09 00 02 \
         c5 10 12 b7 04 28 00 00 06 00 ff ff 00 00 00 24 00 65 8f 8f \
         00 00 7f 48 46 3d a0 00 00 00 15 ff 00 02 00 00",
        1098,
    );
    check(
        &frames[127],
        "52 54 00 aa 00 02 52 54 00 aa 00 01 08 00 \
         45 00 04 2c -- -- 40 00 40 11 -- -- 0a 09 00 01 0a 09 00 02 \
         c5 10 12 b7 04 18 00 00 08 00 ff ff 00 00 00 24 80 65 90 0e",
        1082,
    );
    check(
        &acks[0],
        "52 54 00 aa 00 01 52 54 00 aa 00 02 08 00 \
         45 00 00 30 -- -- 40 00 40 11 -- -- 0a 09 00 02 0a 09 00 01 \
         c5 10 12 b7 00 1c 00 00 11 00 ff ff 00 00 00 24 00 65 8f d0 1f 00 00 00",
        62,
    );
}

/// Four WRITEs of 16 packets with losses: packet 10 in the first pass, 16 in
/// the second, 28 in the third. The third NAK finds the requester going back
/// and is ignored; the next message goes out instead.
#[test]
fn go_back_n() {
    const FIRST: u32 = 9_790_202;
    let ([mut a, mut b], qp) = hosts(FIRST);
    let nak = 0x60;
    let passes = [
        (0..64, 10, vec![Seen::Ack(FIRST + 10, nak, 0)]),
        (10..64, 16, vec![Seen::Ack(FIRST + 15, 0x1f, 1), Seen::Ack(FIRST + 16, nak, 1)]),
        (16..64, 28, vec![Seen::Ack(FIRST + 28, nak, 1)]),
    ];
    for _ in 0..4 {
        write(&mut a, qp, 16);
    }
    for (range, lost, answers) in passes {
        let packets = drain(&mut a, NOW);
        let sent: Vec<_> = packets.iter().map(|frame| look(frame)).collect();
        let captured: Vec<_> = range
            .map(|i| {
                let opcode = match i % 16 {
                    0 => Opcode::WRITE_FIRST,
                    15 => Opcode::WRITE_LAST,
                    _ => Opcode::WRITE_MIDDLE,
                };
                Seen::Data(opcode, FIRST + i, i % 16 == 15)
            })
            .collect();
        assert_eq!(sent, captured);
        for frame in packets {
            if parse(&frame).unwrap().psn != Psn::new(FIRST + lost) {
                b.receive(&frame, NOW);
            }
        }
        let responses = drain(&mut b, NOW);
        let answered: Vec<_> = responses.iter().map(|frame| look(frame)).collect();
        assert_eq!(answered, answers);
        for frame in responses {
            a.receive(&frame, NOW);
        }
    }
    assert_eq!(a.poll_completion().map(|c| c.index), Some(0));
    write(&mut a, qp, 16);
    let next = drain(&mut a, NOW);
    assert_eq!(look(&next[0]), Seen::Data(Opcode::WRITE_FIRST, FIRST + 64, false));
    assert_eq!(a.stats(qp).requester.naks_ignored, 1);
}
