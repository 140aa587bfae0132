//! Our NICs do, packet by packet, as two rxe hosts (Linux 6.1) did. The
//! sequences are from captures of perftest between two such hosts.

use crate::support::{Seen, drain, look, work};
use common::psn::Psn;
use common::time::Time;
use common::wire::{Opcode, Qpn, parse};
use rnic::{Nic, NicConfig, QpConfig, QpId, Region, WorkKind, lab_ip};

const NOW: Time = Time::ZERO;
const MACS: [[u8; 6]; 2] = [[0x52, 0x54, 0, 0xaa, 0, 1], [0x52, 0x54, 0, 0xaa, 0, 2]];
const QPN: u32 = 0x24;
const PMTU: u32 = 1024;

/// The two hosts of the captures.
fn hosts(first_psn: u32) -> ([Nic; 2], QpId) {
    let region = Region { va: 0x7f48_463d_a000, rkey: 0x15ff, len: 128 << 10 };
    hosts_with(QPN, first_psn, region)
}

fn hosts_with(qpn: u32, first_psn: u32, region: Region) -> ([Nic; 2], QpId) {
    let mut nics = [0, 1].map(|i| Nic::new(NicConfig::new(MACS[i], lab_ip(i as u8 + 1))));
    let config = |peer: usize| QpConfig {
        send_psn: Psn::new(first_psn),
        recv_psn: Psn::new(first_psn),
        local_region: region,
        remote_region: region,
        ..QpConfig::new(Qpn::new(qpn), Qpn::new(qpn), MACS[peer], lab_ip(peer as u8 + 1))
    };
    let qp = nics[0].add_qp(config(1)).unwrap();
    assert_eq!(nics[1].add_qp(config(0)).unwrap(), qp);
    (nics, qp)
}

/// `frame` is `len` bytes long and begins with these, written in hexadecimal;
/// `--` is any byte.
fn check(frame: &[u8], header: &str, len: usize) {
    assert_eq!(frame.len(), len);
    let ours: Vec<_> = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    for (at, byte) in header.split_whitespace().enumerate() {
        assert!(byte == "--" || byte == ours[at], "byte {at}: {} not {byte}", ours[at]);
    }
}

fn write(nic: &mut Nic, qp: QpId, packets: u32) {
    nic.post(qp, work(WorkKind::Write, packets * PMTU), NOW).unwrap();
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

/// Two READs of 8 KiB: a request each, then its data.
#[test]
fn reads() {
    const FIRST: u32 = 2_603_917;
    let region = Region { va: 0x55ef_cdf9_8000, rkey: 0xfe8, len: 8 << 10 };
    let ([mut a, mut b], qp) = hosts_with(0x1e, FIRST, region);
    for _ in 0..2 {
        a.post(qp, work(WorkKind::Read, 8 << 10), NOW).unwrap();
    }
    let requests = drain(&mut a, NOW);
    let ask = |psn| Seen::Data(Opcode::READ_REQUEST, psn, true);
    let sent: Vec<_> = requests.iter().map(|frame| look(frame)).collect();
    assert_eq!(sent, [ask(FIRST), ask(FIRST + 8)]);
    for frame in &requests {
        b.receive(frame, NOW);
    }
    let data = drain(&mut b, NOW);
    let captured: Vec<_> = (0..16)
        .map(|i| {
            let opcode = match i % 8 {
                0 => Opcode::READ_RESPONSE_FIRST,
                7 => Opcode::READ_RESPONSE_LAST,
                _ => Opcode::READ_RESPONSE_MIDDLE,
            };
            Seen::Data(opcode, FIRST + i, false)
        })
        .collect();
    assert_eq!(data.iter().map(|frame| look(frame)).collect::<Vec<_>>(), captured);
    check(
        &requests[0],
        "52 54 00 aa 00 02 52 54 00 aa 00 01 08 00 \
         45 00 00 3c -- -- 40 00 40 11 -- -- 0a 09 00 01 0a 09 00 02 \
         c3 84 12 b7 00 28 00 00 0c 00 ff ff 00 00 00 1e 80 27 bb 8d \
         00 00 55 ef cd f9 80 00 00 00 0f e8 00 00 20 00",
        74,
    );
    let headers = "52 54 00 aa 00 01 52 54 00 aa 00 02 08 00 45 00 04";
    let rest = "-- -- 40 00 40 11 -- -- 0a 09 00 02 0a 09 00 01 c3 84 12 b7 04";
    for (i, tail, len) in [
        (0, "1c 00 00 0d 00 ff ff 00 00 00 1e 00 27 bb 8d 1f 00 00 01", 1086),
        (1, "18 00 00 0e 00 ff ff 00 00 00 1e 00 27 bb 8e", 1082),
        (7, "1c 00 00 0f 00 ff ff 00 00 00 1e 00 27 bb 94 1f 00 00 01", 1086),
        (8, "1c 00 00 0d 00 ff ff 00 00 00 1e 00 27 bb 95 1f 00 00 02", 1086),
    ] {
        let ip_len = if len == 1086 { "30" } else { "2c" };
        check(&data[i], &format!("{headers} {ip_len} {rest} {tail}"), len);
    }
}

/// Fetch-and-add, one after the other.
#[test]
fn atomics() {
    const FIRST: u32 = 7_549_963;
    let region = Region { va: 0x55f3_1cf0_e000, rkey: 0x10bb, len: 4096 };
    let ([mut a, mut b], qp) = hosts_with(0x1f, FIRST, region);
    for i in 0..2 {
        let kind = WorkKind::FetchAdd { add: 1 };
        a.post(qp, work(kind, 8), NOW).unwrap();
        let request = drain(&mut a, NOW).remove(0);
        b.receive(&request, NOW);
        let answer = drain(&mut b, NOW).remove(0);
        a.receive(&answer, NOW);
        let (psn, msn) = (0x0b + i, 1 + i);
        check(
            &request,
            &format!(
                "52 54 00 aa 00 02 52 54 00 aa 00 01 08 00 \
                 45 00 00 48 -- -- 40 00 40 11 -- -- 0a 09 00 01 0a 09 00 02 \
                 c3 c1 12 b7 00 34 00 00 14 00 ff ff 00 00 00 1f 80 73 34 {psn:02x} \
                 00 00 55 f3 1c f0 e0 00 00 00 10 bb 00 00 00 00 00 00 00 01 \
                 00 00 00 00 00 00 00 00"
            ),
            86,
        );
        // The captured hosts had something else in their memory.
        check(
            &answer,
            &format!(
                "52 54 00 aa 00 01 52 54 00 aa 00 02 08 00 \
                 45 00 00 38 -- -- 40 00 40 11 -- -- 0a 09 00 02 0a 09 00 01 \
                 c3 c1 12 b7 00 24 00 00 12 00 ff ff 00 00 00 1f 00 73 34 {psn:02x} \
                 1f 00 00 {msn:02x} 00 00 00 00 00 00 00 {i:02x}"
            ),
            70,
        );
        assert_eq!(a.poll_completion().map(|c| c.original), Some(Some(i)));
    }
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
