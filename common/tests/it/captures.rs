//! Real packets: everything that is found in them, and how they are remade.

use std::fmt::Write;

use crate::support::{CAPTURES, all_frames, frames, is_masked, path, slow_icrc};
use common::wire::{Headers, NotRoce, PacketKind, Roce, icrc, icrc_ok, parse};
use testkit::frames::bth_of;

/// One line in the form of the listings beside the captures.
fn describe(frame: &[u8], roce: &Roce) -> String {
    let mut line = format!(
        "{} > {} port {} {} qp {} psn {}",
        roce.src,
        roce.dst,
        roce.src_port,
        roce.opcode,
        roce.dest_qpn.get(),
        roce.psn.get()
    );
    line += if roce.ack_req { " ackreq" } else { "" };
    line += if roce.solicited { " solicited" } else { "" };
    if let Some(deth) = roce.deth(frame) {
        write!(line, " deth {:08x} qp {}", deth.qkey, deth.src_qpn.get()).unwrap();
    }
    if let Some(reth) = roce.reth(frame) {
        write!(line, " reth {:016x} {:08x} {}", reth.va, reth.rkey, reth.len).unwrap();
    }
    if let Some(aeth) = roce.aeth(frame) {
        write!(line, " aeth {:02x} msn {}", aeth.syndrome, aeth.msn).unwrap();
    }
    if let Some(value) = roce.atomic_original(frame) {
        write!(line, " original {value}").unwrap();
    }
    if let Some(eth) = roce.atomic_eth(frame) {
        let (va, rkey) = (eth.va, eth.rkey);
        write!(line, " atomic {va:016x} {rkey:08x} {} {}", eth.swap_add, eth.compare).unwrap();
    }
    write!(line, " payload {}", roce.payload(frame).len()).unwrap();
    if roce.pad != 0 {
        write!(line, " pad {}", roce.pad).unwrap();
    }
    line + "\n"
}

#[test]
fn every_field_is_what_an_independent_decoder_found() {
    for name in CAPTURES {
        let lines: String = frames(name)
            .iter()
            .map(|frame| describe(frame, &parse(frame).expect("all of them are RoCEv2")))
            .collect();
        let expected = std::fs::read_to_string(path(&format!("{name}.txt"))).unwrap();
        assert_eq!(lines, expected, "{name}");
    }
}

#[test]
fn what_is_the_same_in_all_of_them() {
    for frame in all_frames() {
        let roce = parse(&frame).unwrap();
        assert_eq!((roce.l3, roce.l4, roce.bth), (14, 34, 42));
        assert_eq!(usize::from(roce.end), frame.len());
        assert_eq!(roce.payload_len(), roce.payload(&frame).len());
        assert_eq!((roce.pkey, roce.ecn, roce.vlans.is_empty()), (0xffff, 0, true));
        assert_eq!((roce.imm(&frame), roce.ieth(&frame)), (None, None));
        assert!(roce.src.is_v4() && roce.dst.is_v4());
    }
}

#[test]
fn a_read_takes_as_many_psns_as_its_response_has_packets() {
    let mut reads = 0;
    for name in ["rc_read", "rping_cm"] {
        let frames = frames(name);
        let parsed: Vec<_> = frames.iter().map(|frame| parse(frame).unwrap()).collect();
        for (at, request) in parsed.iter().enumerate() {
            if request.kind() != PacketKind::ReadRequest {
                continue;
            }
            let count = request.psn_count(&frames[at], 1024);
            let responses = parsed[at..]
                .iter()
                .filter(|r| matches!(r.kind(), PacketKind::ReadResponse(_)))
                .filter(|r| (0..count as i32).contains(&r.psn.distance(request.psn)))
                .count();
            assert_eq!(responses, count as usize, "{name}, frame {at}");
            assert!(count > 1);
            reads += 1;
        }
    }
    assert_eq!(reads, 8);
}

#[test]
fn every_icrc_is_right() {
    for frame in all_frames() {
        let roce = parse(&frame).unwrap();
        assert!(icrc_ok(&frame, &roce));
        assert_eq!(icrc(&frame, &roce), slow_icrc(&frame[14..frame.len() - 4], 20));
    }
}

#[test]
fn the_icrc_covers_each_bit_but_those_that_the_way_may_change() {
    for name in ["rc_atomic", "rping_cm"] {
        for mut frame in frames(name) {
            let roce = parse(&frame).unwrap();
            for at in 14..frame.len() {
                for bit in (0..8).map(|n| 1 << n) {
                    frame[at] ^= bit;
                    let may_change = is_masked(&frame[14..], 20, at - 14, bit);
                    // A different IP version would be masked differently; no
                    // parser would let it come so far.
                    if at != 14 {
                        assert_eq!(icrc_ok(&frame, &roce), may_change, "byte {at}, bit {bit:#x}");
                    }
                    frame[at] ^= bit;
                }
            }
        }
    }
}

#[test]
fn a_frame_is_remade_byte_for_byte_from_its_headers_and_its_body() {
    for frame in all_frames() {
        let roce = parse(&frame).unwrap();
        let headers = Headers::of(&frame, &roce);
        let body = &frame[usize::from(roce.bth) + 12..roce.icrc_at()];
        // The pool hands out buffers with old content in them.
        let mut again = vec![0xa5; headers.frame_len(body.len())];
        headers.emit(&bth_of(&roce), &mut again, |out| out.copy_from_slice(body));
        assert_eq!(again, frame);
    }
}

/// Both directions of these queue pairs use the same UDP source port, so that a
/// NAK can be made with the headers of the data alone.
#[test]
fn an_ack_or_nak_is_made_from_the_data_of_the_other_direction() {
    let mut acks = 0;
    for name in ["loss_write", "badicrc_write", "rc_send"] {
        let frames = frames(name);
        let data = &frames[0];
        let mut back = Headers::of(data, &parse(data).unwrap()).reversed();
        for frame in &frames {
            let roce = parse(frame).unwrap();
            if roce.kind() != PacketKind::Ack {
                continue;
            }
            back.set_ip_id(u16::from_be_bytes([frame[18], frame[19]]));
            let aeth = roce.aeth(frame).unwrap();
            let mut made = vec![0xa5; back.frame_len(4)];
            back.emit_ack(roce.dest_qpn, roce.psn, aeth, &mut made);
            assert_eq!(&made, frame);
            acks += 1;
        }
    }
    assert_eq!(acks, 12);
}

#[test]
fn a_frame_cut_anywhere_is_nothing_that_we_work_on() {
    for frame in all_frames() {
        let roce = parse(&frame).unwrap();
        for len in 0..frame.len() {
            let cut = &frame[..len];
            assert!(matches!(parse(cut), Err(NotRoce::Other | NotRoce::Malformed(_))), "{len}");
            // The view of the whole frame, used on the rest of it.
            assert!(!icrc_ok(cut, &roce));
            assert!(roce.payload(cut).len() <= len);
            let _ = (roce.aeth(cut), roce.reth(cut), roce.atomic_eth(cut), roce.deth(cut));
        }
    }
}
