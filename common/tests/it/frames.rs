//! Frames of every shape: tags, both IP families, options, padding; and frames
//! that are none of ours.

use std::net::IpAddr;

use crate::support::{is_masked, slow_icrc};
use common::psn::Psn;
use common::wire::{
    Addr, Bth, DEFAULT_TTL, Headers, Malformed, NotRoce, Opcode, Qpn, Roce, Vlans, icrc, icrc_ok,
    parse,
};

const SRC_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const DST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const V4: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
const V6: [&str; 2] = ["fd00::1", "fd00::2"];

fn headers(ips: [&str; 2], vlans: Vlans) -> Headers {
    let [src, dst] = ips.map(|ip| ip.parse::<IpAddr>().unwrap());
    Headers::new(SRC_MAC, DST_MAC, vlans, src, dst, 0xc123, 0x69, 33)
}

/// A WRITE of one packet with 5 bytes of payload, and so 3 of pad.
fn write_only(headers: &Headers) -> Vec<u8> {
    let mut frame = vec![0xa5; headers.frame_len(16 + 8)];
    let mut bth = Bth::new(Opcode::WRITE_ONLY, Qpn::new(0x123456), Psn::new(0xfffffe));
    bth.pad = 3;
    headers.emit(&bth, &mut frame, |body| body.fill(7));
    frame
}

/// The same frame with something changed.
fn changed(frame: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = frame.to_vec();
    change(&mut frame);
    frame
}

fn insert(frame: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    changed(frame, |frame| _ = frame.splice(at..at, bytes.iter().copied()))
}

fn malformed(frame: &[u8]) -> Option<Malformed> {
    match parse(frame) {
        Err(NotRoce::Malformed(why)) => Some(why),
        Err(NotRoce::Other | NotRoce::MacControl) => None,
        Ok(roce) => panic!("{roce:?}"),
    }
}

fn assert_write_only(frame: &[u8], ips: [&str; 2], vlans: &[u16]) -> Roce {
    let roce = parse(frame).unwrap();
    let [src, dst] = ips.map(|ip| Addr::from(ip.parse::<IpAddr>().unwrap()));
    assert_eq!((roce.src, roce.dst, roce.src_port), (src, dst, 0xc123));
    assert_eq!(roce.vlans.ids().collect::<Vec<_>>(), vlans);
    assert_eq!((roce.opcode, roce.dest_qpn), (Opcode::WRITE_ONLY, Qpn::new(0x123456)));
    assert_eq!((roce.psn, roce.pad, roce.ecn), (Psn::new(0xfffffe), 3, 1));
    assert_eq!(roce.payload(frame), [7; 5]);
    assert!(icrc_ok(frame, &roce));
    let packet = &frame[usize::from(roce.l3)..roce.icrc_at()];
    assert_eq!(icrc(frame, &roce), slow_icrc(packet, usize::from(roce.l4 - roce.l3)));
    roce
}

#[test]
fn ip_of_both_families_under_none_to_two_tags() {
    for ips in [V4, V6] {
        for (outer, inner) in [(0, 0), (5, 0), (4094, 7)] {
            let vlans = Vlans::new(outer, inner);
            let frame = write_only(&headers(ips, vlans));
            let ids: Vec<_> = vlans.ids().collect();
            let roce = assert_write_only(&frame, ips, &ids);
            assert_eq!(usize::from(roce.l3), 14 + 4 * ids.len());
            assert_eq!(usize::from(roce.end), frame.len());
        }
    }
}

#[test]
fn tags_of_every_kind_and_priority() {
    let frame = write_only(&headers(V4, Vlans::NONE));
    for tpid in [[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]] {
        let tagged = insert(&frame, 12, &[tpid[0], tpid[1], 0xf0, 9]);
        assert_write_only(&tagged, V4, &[9]);
        let twice = insert(&tagged, 12, &[0x88, 0xa8, 0x20, 8]);
        assert_write_only(&twice, V4, &[8, 9]);
        let thrice = insert(&twice, 12, &[0x88, 0xa8, 0, 7]);
        assert_eq!(parse(&thrice), Err(NotRoce::Other));
    }
    // A priority tag belongs to no VLAN.
    assert_write_only(&insert(&frame, 12, &[0x81, 0x00, 0x60, 0]), V4, &[]);
}

#[test]
fn ethernet_padding_is_not_payload() {
    for ips in [V4, V6] {
        let mut frame = write_only(&headers(ips, Vlans::NONE));
        let end = frame.len();
        frame.extend([0xee; 46]);
        assert_eq!(usize::from(assert_write_only(&frame, ips, &[]).end), end);
    }
}

#[test]
fn ipv4_options_are_skipped_and_not_carried_over() {
    let plain = headers(V4, Vlans::NONE);
    let frame = write_only(&plain);
    for words in 1..=10u8 {
        let len = usize::from(words) * 4;
        let mut long = insert(&frame, 34, &vec![1; len]);
        long[14] += words;
        long[17] += words * 4;
        let roce = parse(&long).unwrap();
        let crc = icrc(&long, &roce);
        assert_eq!(crc, slow_icrc(&long[14..roce.icrc_at()], 20 + len));
        long[roce.icrc_at()..].copy_from_slice(&crc.to_le_bytes());
        assert_write_only(&long, V4, &[]);
        assert_eq!(Headers::of(&long, &roce), plain);
    }
}

#[test]
fn a_frame_of_any_shape_cut_anywhere_is_nothing_that_we_work_on() {
    for ips in [V4, V6] {
        for (outer, inner) in [(0, 0), (5, 0), (4094, 7)] {
            let frame = write_only(&headers(ips, Vlans::new(outer, inner)));
            for len in 0..frame.len() {
                assert!(parse(&frame[..len]).is_err(), "{len} of {}", frame.len());
            }
        }
    }
}

#[test]
fn ipv6_icrc_covers_each_bit_but_those_that_the_way_may_change() {
    let mut frame = write_only(&headers(V6, Vlans::new(5, 6)));
    let roce = parse(&frame).unwrap();
    let l3 = usize::from(roce.l3);
    for at in l3..frame.len() {
        for bit in (0..8).map(|n| 1 << n) {
            frame[at] ^= bit;
            if at != l3 || bit < 0x10 {
                let may_change = is_masked(&frame[l3..], 40, at - l3, bit);
                assert_eq!(icrc_ok(&frame, &roce), may_change, "byte {}, bit {bit:#x}", at - l3);
            }
            frame[at] ^= bit;
        }
    }
}

#[test]
fn what_is_no_roce_is_other() {
    let v4 = write_only(&headers(V4, Vlans::NONE));
    let v6 = write_only(&headers(V6, Vlans::NONE));
    let others = [
        ("ARP", changed(&v4, |f| f[12..14].copy_from_slice(&[0x08, 0x06]))),
        ("TCP", changed(&v4, |f| f[23] = 6)),
        ("ICMPv6", changed(&v6, |f| f[20] = 58)),
        ("another UDP port", changed(&v4, |f| f[37] ^= 1)),
        ("UET", changed(&v4, |f| f[36..38].copy_from_slice(&4793u16.to_be_bytes()))),
        ("IPv4 first fragment", changed(&v4, |f| f[20] = 0x20)),
        ("IPv4 last fragment", changed(&v4, |f| f[21] = 1)),
        ("IPv4 in the middle", changed(&v4, |f| f[20..22].copy_from_slice(&[0x3f, 0xff]))),
        ("IPv4 header too short", changed(&v4, |f| f[14] = 0x44)),
        ("IPv4 options beyond the frame", changed(&v4[..40], |f| f[14] = 0x4f)),
        ("version 5 under IPv4's EtherType", changed(&v4, |f| f[14] = 0x55)),
        ("IPv6 under IPv4's EtherType", changed(&v6, |f| f[12..14].copy_from_slice(&[8, 0]))),
        ("IPv4 under IPv6's EtherType", changed(&v4, |f| f[12..14].copy_from_slice(&[0x86, 0xdd]))),
        ("IPv6 hop-by-hop options", extended(&v6, 0)),
        ("IPv6 routing header", extended(&v6, 43)),
        ("IPv6 fragment", extended(&v6, 44)),
        ("IPv6 destination options", extended(&v6, 60)),
        (
            "an 802.3 length instead of a type",
            changed(&v4, |f| f[12..14].copy_from_slice(&[0, 50])),
        ),
        ("a tag and then nothing", v4[..12].iter().copied().chain([0x81, 0, 0]).collect()),
        (
            "two tags and then nothing",
            changed(&v4[..18], |f| f[12..].copy_from_slice(&[0x81, 0, 0, 1, 0x81, 0])),
        ),
        ("nothing", Vec::new()),
    ];
    for (what, frame) in others {
        assert_eq!(parse(&frame), Err(NotRoce::Other), "{what}");
    }
}

/// An IPv6 extension header of 8 bytes before the UDP header.
fn extended(v6: &[u8], next_header: u8) -> Vec<u8> {
    let mut frame = insert(v6, 54, &[17, 0, 0, 0, 0, 0, 0, 0]);
    frame[20] = next_header;
    frame[19] += 8;
    frame
}

#[test]
fn what_claims_to_be_roce_and_is_not() {
    let v4 = write_only(&headers(V4, Vlans::NONE));
    let v6 = write_only(&headers(V6, Vlans::NONE));
    let (ip4, ip6) = (v4.len() - 14, v6.len() - 54);
    let lengths = |ip: usize, udp: usize| {
        changed(&v4, |f| {
            f[16..18].copy_from_slice(&(ip as u16).to_be_bytes());
            f[38..40].copy_from_slice(&(udp as u16).to_be_bytes());
        })
    };
    let lengths6 = |ip: usize, udp: usize| {
        changed(&v6, |f| {
            f[18..20].copy_from_slice(&(ip as u16).to_be_bytes());
            f[58..60].copy_from_slice(&(udp as u16).to_be_bytes());
        })
    };
    use Malformed::*;
    let cases = [
        ("IP length beyond the frame", lengths(ip4 + 1, ip4 - 19), Truncated),
        ("IP length at its largest", lengths(0xffff, 0xffff - 20), IpLength),
        ("IP length 0", lengths(0, 0), IpLength),
        ("IP length shorter than its header", lengths(19, 8), IpLength),
        ("IP length without room for UDP", lengths(27, 8), IpLength),
        ("IP length without room for a BTH", lengths(20 + 8 + 11, 8 + 11), IpLength),
        ("IP length without room for an ICRC", lengths(20 + 8 + 15, 8 + 15), IpLength),
        ("UDP length larger than IP's", lengths(ip4, ip4 - 19), UdpLength),
        ("UDP length smaller than IP's", lengths(ip4, ip4 - 21), UdpLength),
        ("UDP length smaller than its header", lengths(ip4, 7), UdpLength),
        ("IPv6 length beyond the frame", lengths6(ip6 + 1, ip6 + 1), Truncated),
        ("IPv6 jumbogram", lengths6(0, 0), IpLength),
        ("IPv6 length at its largest", lengths6(0xffff, 0xffff), IpLength),
        ("IPv6 UDP length larger", lengths6(ip6, ip6 + 4), UdpLength),
        ("transport version 1", changed(&v4, |f| f[43] |= 1), Version),
        ("transport version 8", changed(&v4, |f| f[43] |= 8), Version),
        ("no room for a RETH", lengths(20 + 8 + 12 + 15 + 4, 8 + 12 + 15 + 4), Extension),
        ("pad beyond the payload", lengths(20 + 8 + 12 + 16 + 2 + 4, 8 + 12 + 16 + 2 + 4), Pad),
        ("an atomic in the place of a WRITE", changed(&v4, |f| f[42] = 0x13), Extension),
    ];
    for (what, frame, why) in &cases {
        assert_eq!(malformed(frame), Some(*why), "{what}");
    }
    for why in [Truncated, IpLength, UdpLength, Version, Extension, Pad] {
        assert!(cases.iter().any(|case| case.2 == why), "{why:?} is never found");
    }
}

#[test]
fn the_largest_frame_and_one_beyond() {
    let headers = headers(V4, Vlans::NONE);
    let bth = Bth::new(Opcode::SEND_ONLY, Qpn::new(1), Psn::new(0));
    let mut frame = vec![0; usize::from(u16::MAX)];
    headers.emit(&bth, &mut frame, |body| body.fill(1));
    let roce = parse(&frame).unwrap();
    assert_eq!(usize::from(roce.end), frame.len());
    assert!(icrc_ok(&frame, &roce));
    let mut beyond = vec![0; frame.len() + 1];
    let emit = || headers.emit(&bth, &mut beyond, |_| ());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(emit)).is_err());
}

#[test]
fn the_way_back() {
    for ips in [V4, V6] {
        let there = headers(ips, Vlans::new(4, 5));
        let mut back = there.reversed();
        assert_eq!((back.src_mac(), back.dst_mac()), (DST_MAC, SRC_MAC));
        assert_eq!((back.src(), back.dst()), (there.dst(), there.src()));
        assert_eq!((back.src_port(), back.tos()), (0xc123, 0x68), "DSCP stays, ECN goes");
        let frame = write_only(&back);
        let roce = parse(&frame).unwrap();
        let ttl = usize::from(roce.l3) + if back.is_v4() { 8 } else { 7 };
        assert_eq!(frame[ttl], DEFAULT_TTL);
        assert_eq!(roce.vlans, Vlans::new(4, 5));
        assert_eq!((roce.src, roce.dst), (back.src(), back.dst()));
        assert_eq!(Headers::of(&frame, &roce), back);

        back = back.reversed();
        back.set_tos(0x69);
        back.set_src_port(1);
        assert_eq!(back.src_port(), 1);
        assert_eq!((back.src(), back.dst_mac()), (there.src(), DST_MAC));
    }
}

#[test]
fn congestion_marks_stay_with_the_packet_that_met_the_congestion() {
    for ips in [V4, V6] {
        let mut marked = headers(ips, Vlans::NONE);
        for (ecn, kept) in [(0, 0), (1, 1), (2, 2), (3, 2)] {
            marked.set_tos(0xb8 | ecn);
            let frame = write_only(&marked);
            let roce = parse(&frame).unwrap();
            assert_eq!(roce.ecn, ecn);
            assert_eq!(Headers::of(&frame, &roce).tos(), 0xb8 | kept);
        }
    }
}

#[test]
fn the_migration_bit_is_that_of_the_flow() {
    for migrated in [0, 0x40] {
        let mut frame = write_only(&headers(V4, Vlans::NONE));
        frame[43] = frame[43] & !0x40 | migrated;
        let again = Headers::of(&frame, &parse(&frame).unwrap());
        assert_eq!(write_only(&again.reversed().reversed())[43], frame[43]);
    }
}

#[test]
fn the_ipv4_checksum_is_right() {
    for id in [0, 1, 0x00ff, 0xffff] {
        let mut headers = headers(V4, Vlans::NONE);
        headers.set_ip_id(id);
        let frame = write_only(&headers);
        let sum: u32 =
            frame[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}
