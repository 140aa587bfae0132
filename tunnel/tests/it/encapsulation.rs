//! Frames on the WAN, byte by byte, and what becomes of any that arrives.

use crate::support::frames::{
    MAC, NEXT_HOP, PEER_V4, class_of, ends, inner, ones_complement, shim, udp_config, wrapped,
};
use common::frame::{Frame, Headroom};
use common::heap::HeapFrame;
use proptest::prelude::*;
use tunnel::encapsulation::{Encapsulation, Met, OuterFault, PEERS, Udp, Unfit, Unwrapped};
use tunnel::shim::{self, Shim};
use tunnel::{Lane, WireNumber};

const ROUTE: u16 = 9000;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A UDP datagram of DSCP 26 and ECT(0), with 3 bytes.
const INNER: &str = "020000000001 020000000002 0800
    456a 001f 0000 4000 4011 b710 c0a80101 c0a80102
    03e8 07d0 000b 0000 aabbcc";

const SHIM: &str = "20 02 03 00 01020304 11121314 21222324";

/// R-TUN-19
#[test]
fn ethernet_byte_for_byte() {
    let [ethernet, ..] = ends().map(|(here, _)| here);
    let expected = hex(&format!(
        "020000000001 020000000002 88b5 {SHIM} 0800
         456a 001f 0000 4000 4011 b710 c0a80101 c0a80102 03e8 07d0 000b 0000 aabbcc"
    ));
    assert_eq!(wrapped(&ethernet, &hex(INNER), &shim(2)).bytes(), expected);
}

/// R-TUN-21
#[test]
fn udp_byte_for_byte() {
    let [_, v4, v6] = ends().map(|(here, _)| here);
    // The lengths are 45 and 58 and the headers', the checksum is that of an independent tool.
    let expected = hex(&format!(
        "0e0000000009 0a0000000001 0800
         456a 0059 0000 4000 4011 2528 0a000001 0a000102
         c002 c27f 0045 0000 {SHIM} {INNER}"
    ));
    assert_eq!(wrapped(&v4, &hex(INNER), &shim(2)).bytes(), expected);
    let expected = hex(&format!(
        "0e0000000009 0a0000000001 86dd
         66a0 c002 0045 11 40 fd000000000000000000000000000001 fd000000000000010000000000000002
         c002 c27f 0045 0000 {SHIM} {INNER}"
    ));
    assert_eq!(wrapped(&v6, &hex(INNER), &shim(2)).bytes(), expected);
}

#[test]
fn overheads_are_as_documented() {
    assert_eq!(ends().map(|(here, _)| here.overhead()), [18, 58, 78]);
    assert_eq!(Encapsulation::RESENT_MORE, 8);
}

/// R-TUN-22
#[test]
fn dscp_is_copied_or_set_and_ecn_is_copied() {
    for class in [0x00, 0xb8, 0xb9, 0xba, 0xbb, 0xff] {
        for version in [4, 6] {
            let frame = inner(version, 1, class, 40);
            for (here, _) in ends() {
                let outer = class_of(wrapped(&here, &frame, &shim(0)).bytes());
                assert!(outer.is_none_or(|outer| outer == class), "{outer:?} for {class:#x}");
            }
            for v4 in [true, false] {
                let udp = Udp::new(&tunnel::encapsulation::UdpConfig {
                    dscp: Some(10),
                    ..udp_config(v4)
                });
                let mut here = Encapsulation::Udp(udp);
                here.set_next_hop(Some(NEXT_HOP));
                let outer = class_of(wrapped(&here, &frame, &shim(0)).bytes());
                assert_eq!(outer, Some(10 << 2 | class & 3));
            }
        }
    }
    // A frame that isn't IP has neither.
    let (here, _) = &ends()[1];
    assert_eq!(class_of(wrapped(here, &inner(0, 0, 0xff, 46), &shim(0)).bytes()), Some(0));
}

/// R-TUN-17
#[test]
fn a_frame_that_does_not_fit_with_the_headers_of_a_resend_is_not_wrapped() {
    for (here, _) in ends() {
        let fits = usize::from(ROUTE) - here.overhead() - Encapsulation::RESENT_MORE;
        let try_len = |len: usize| {
            let mut frame = HeapFrame::from(vec![2; len]);
            let result = here.reserve(&mut frame, ROUTE);
            let grown = if result.is_ok() { here.overhead() } else { 0 };
            assert_eq!(frame.bytes().len(), len + grown);
            result
        };
        assert_eq!(try_len(fits), Ok(()));
        assert_eq!(try_len(fits + 1), Err(Unfit::TooLong));
        assert_eq!(try_len(14), Ok(()));
        assert_eq!(try_len(13), Err(Unfit::TooShort));
        assert_eq!(try_len(100_000), Err(Unfit::TooLong));
    }
}

/// A frame with no room in front of it.
struct Tight(HeapFrame);

impl Frame for Tight {
    type Shared = common::heap::HeapShared;

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }

    fn share(self) -> Self::Shared {
        self.0.share()
    }
}

impl Headroom for Tight {
    fn headroom(&self) -> usize {
        77
    }

    fn grow_front(&mut self, len: usize) -> bool {
        len <= 77 && self.0.grow_front(len)
    }

    fn shrink_front(&mut self, len: usize) {
        self.0.shrink_front(len);
    }
}

#[test]
fn without_headroom_or_next_hop_a_frame_is_not_wrapped() {
    let results = ends().map(|(here, _)| {
        let mut frame = Tight(vec![2; 60].into());
        (here.fit(ROUTE).takes(&frame), here.reserve(&mut frame, ROUTE))
    });
    assert_eq!(results, [(true, Ok(())), (true, Ok(())), (false, Err(Unfit::Headroom))]);
    for (mut here, _) in ends() {
        let is_udp = matches!(here, Encapsulation::Udp(_));
        here.set_next_hop(None);
        assert_eq!(here.is_ready(), !is_udp);
        assert_eq!(here.wrap_message(lane(0), None, &mut [0; 100]).is_none(), is_udp);
    }
}

fn lane(n: u8) -> Lane {
    Lane::new(n).expect("a lane")
}

/// R-TUN-8
#[test]
fn a_resend_has_the_content_and_the_predecessor_of_the_first_transmission() {
    let first = Shim { clear: 9, ..shim(0) };
    let original = Some((first.lane, first.number));
    let resend = Shim {
        lane: lane(1),
        number: WireNumber(9),
        predecessor: None,
        original,
        clear: 0,
        ..first
    };
    let content = inner(4, 1, 0xb9, 100);
    for (here, there) in ends() {
        let kept = wrapped(&here, &content, &first);
        let mut out = vec![0xee; here.resent_len(kept.bytes().len())];
        here.rewrap(kept.bytes(), &resend, &mut out);
        assert!(class_of(&out).is_none_or(|class| class == 0xb9), "that of the first one");
        let mut frame = HeapFrame::from(out);
        let expected = Shim { predecessor: first.predecessor, clear: first.clear, ..resend };
        let found = there.unwrap(&mut frame);
        assert_eq!(found, Unwrapped::Frame { shim: expected, met: Met::Nothing });
        assert_eq!(frame.bytes(), content);
    }
}

#[test]
fn a_message_has_headers_of_its_own() {
    for (here, there) in ends() {
        let mut out = vec![0xee; here.shim_at() + 60];
        let place = here.wrap_message(lane(1), None, &mut out).expect("a next hop");
        place.fill(7);
        place[0] = 0x23;
        assert_eq!(place.len(), 60);
        let mut frame = HeapFrame::from(out.clone());
        assert_eq!(there.unwrap(&mut frame), Unwrapped::Control(here.shim_at()));
        assert_eq!(frame.bytes(), out);
        if let Encapsulation::Ethernet { .. } = here {
            assert_eq!((&out[..6], &out[6..12]), (&PEERS[..], &MAC[..]));
            here.wrap_message(lane(0), Some(NEXT_HOP), &mut out);
            assert_eq!((&out[..6], &out[6..12]), (&NEXT_HOP[..], &MAC[..]));
        }
    }
}

/// R-TUN-21: the frame is as it was, unless it is the peer's.
#[test]
fn other_frames_of_the_wan_are_foreign() {
    for (here, there) in ends() {
        let whole = wrapped(&here, &inner(4, 0, 0, 60), &shim(0)).bytes().to_vec();
        let changed = |at: usize, value: u8| {
            let mut bytes = whole.clone();
            bytes[at] ^= value;
            bytes
        };
        let mut all = vec![inner(4, 0, 0, 60), inner(0, 0, 0, 46), vec![], vec![9; 13]];
        // The EtherType, or a VLAN tag before it.
        all.push(changed(12, 1));
        all.push([&whole[..12], &[0x81, 0, 0, 5], &whole[12..]].concat());
        match &here {
            Encapsulation::Ethernet { .. } => {}
            // Version, protocol, our address, our port.
            Encapsulation::Udp(_) if here.overhead() == 58 => {
                all.extend([(14, 0x10), (23, 1), (33, 1), (37, 1)].map(|(at, v)| changed(at, v)));
            }
            Encapsulation::Udp(_) => {
                all.extend([(14, 0x10), (20, 1), (53, 1), (57, 1)].map(|(at, v)| changed(at, v)));
            }
        }
        for bytes in all {
            let mut frame = HeapFrame::from(bytes.clone());
            assert_eq!(there.unwrap(&mut frame), Unwrapped::Foreign, "{bytes:02x?}");
            assert_eq!(frame.bytes(), bytes);
        }
    }
}

/// R-TUN-21
#[test]
fn what_is_meant_for_the_tunnel_and_wrong_is_refused() {
    let refused = |there: &Encapsulation, bytes: Vec<u8>| {
        let mut frame = HeapFrame::from(bytes.clone());
        let Unwrapped::Faulty(fault) = there.unwrap(&mut frame) else { return None };
        assert_eq!(frame.bytes(), bytes);
        Some(fault)
    };
    for (here, there) in ends() {
        let whole = wrapped(&here, &inner(4, 0, 0, 60), &shim(0)).bytes().to_vec();
        let at = here.shim_at();
        let with = |changes: &[(usize, u8)]| {
            let mut bytes = whole.clone();
            changes.iter().for_each(|&(at, value)| bytes[at] ^= value);
            refused(&there, bytes)
        };
        assert_eq!(with(&[(at, 0x20)]), Some(OuterFault::Version));
        assert_eq!(with(&[(at, 0x0f)]), Some(OuterFault::Shim));
        assert_eq!(with(&[(at + 3, 4)]), Some(OuterFault::Shim));
        let udp = match here.overhead() {
            58 => {
                // Another address, and the header checksum with it.
                assert_eq!(with(&[(29, 1), (25, 1)]), Some(OuterFault::Source));
                assert_eq!(with(&[(20, 0x20)]), Some(OuterFault::Fragment));
                assert_eq!(with(&[(21, 3)]), Some(OuterFault::Fragment));
                assert_eq!(with(&[(24, 1)]), Some(OuterFault::Checksum));
                assert_eq!(with(&[(22, 1)]), Some(OuterFault::Checksum), "the TTL");
                assert_eq!(with(&[(17, 1)]), Some(OuterFault::Length));
                34
            }
            78 => {
                assert_eq!(with(&[(37, 1)]), Some(OuterFault::Source));
                assert_eq!(with(&[(19, 1)]), Some(OuterFault::Length));
                54
            }
            _ => continue,
        };
        assert_eq!(with(&[(udp + 5, 1)]), Some(OuterFault::Length));
        assert_eq!(with(&[(udp + 4, 0xff)]), Some(OuterFault::Length));
        assert_eq!(with(&[(udp + 7, 1)]), Some(OuterFault::Checksum));
        let longer = [&whole[..], &[0]].concat();
        assert_eq!(refused(&there, longer), Some(OuterFault::Length), "a byte more");
        // Where the headers are right and too little lies behind them.
        for content in 0..14 {
            let mut frame = HeapFrame::from(vec![2; 14]);
            frame.shrink_front(14 - content);
            assert!(frame.grow_front(here.overhead()));
            here.wrap(frame.bytes_mut(), &shim(0), 0);
            assert_eq!(refused(&there, frame.bytes().to_vec()), Some(OuterFault::Inner));
        }
    }
    let (ethernet, there) = &ends()[0];
    let whole = wrapped(ethernet, &inner(4, 0, 0, 60), &shim(0));
    assert_eq!(refused(there, whole.bytes()[..29].to_vec()), Some(OuterFault::Shim));
    assert_eq!(refused(there, whole.bytes()[..31].to_vec()), Some(OuterFault::Inner));
}

/// A router may take hops, and mark; its checksum is right again.
#[test]
fn what_routers_change_is_taken() {
    let (here, there) = &ends()[1];
    let content = inner(4, 0, 0x02, 60);
    let mut bytes = wrapped(here, &content, &shim(0)).bytes().to_vec();
    assert_eq!(ones_complement(&bytes[14..34]), 0xffff);
    bytes[15] = 0x2a;
    bytes[22] = 3;
    bytes[20] = 0;
    bytes[24..26].fill(0);
    let sum = !ones_complement(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut frame = HeapFrame::from(bytes);
    assert!(matches!(there.unwrap(&mut frame), Unwrapped::Frame { met: Met::Nothing, .. }));
    assert_eq!(frame.bytes(), content, "the DSCP of the outer header is not copied back");
}

/// The EtherType means nothing on the LAN: such a frame is carried, but can't go as it is.
#[test]
fn a_lan_frame_of_the_same_ethertype_is_carried_like_any_other() {
    let (here, there) = &ends()[0];
    let content = wrapped(here, &inner(4, 0, 0, 60), &shim(7)).bytes().to_vec();
    assert!(here.is_reserved(&content));
    assert!(!here.is_reserved(&inner(4, 0, 0, 60)) && !here.is_reserved(&[]));
    let mut frame = wrapped(here, &content, &shim(1));
    let expected = Unwrapped::Frame { shim: shim(1), met: Met::Nothing };
    assert_eq!(there.unwrap(&mut frame), expected);
    assert_eq!(frame.bytes(), content);
    let other = Encapsulation::Ethernet { ethertype: 0x88b6, mac: MAC };
    assert!(!other.is_reserved(&content));
    for (udp, _) in &ends()[1..] {
        assert!(!udp.is_reserved(&content));
    }
}

#[test]
#[should_panic(expected = "two families")]
fn two_families_are_no_path() {
    Udp::new(&tunnel::encapsulation::UdpConfig { peer: PEER_V4, ..udp_config(false) });
}

/// The marks of RFC 6040, figure 4: the field of a frame of ECN `inner` behind `outer`.
fn combined(inner: u8, outer: u8) -> Option<u8> {
    const NOT_ECT: Option<u8> = Some(0b00);
    const ECT_1: Option<u8> = Some(0b01);
    const ECT_0: Option<u8> = Some(0b10);
    const CE: Option<u8> = Some(0b11);
    // By inner field; the outer ones are Not-ECT, ECT(1), ECT(0), CE.
    [
        [NOT_ECT, NOT_ECT, NOT_ECT, None],
        [ECT_1, ECT_1, ECT_1, CE],
        [ECT_0, ECT_1, ECT_0, CE],
        [CE, CE, CE, CE],
    ][usize::from(inner)][usize::from(outer)]
}

/// Sets the outer ECN field of a frame, as a router does.
fn set_outer_ecn(frame: &mut [u8], ecn: u8) {
    if frame[12..14] == [0x86, 0xdd] {
        frame[15] = frame[15] & !0x30 | ecn << 4;
        return;
    }
    frame[15] = frame[15] & !3 | ecn;
    frame[24..26].fill(0);
    let sum = !ones_complement(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

proptest! {
    /// R-TUN-22, for any frame of a host and any outer field.
    #[test]
    fn what_is_wrapped_is_unwrapped(
        which in 0..3_usize,
        version in prop::sample::select(vec![0_u8, 4, 6]),
        tags in 0..=2_usize,
        class: u8,
        len in prop_oneof![Just(60_usize), Just(1514), Just(9000), 14..200_usize],
        lane in 0..0xff_u8,
        mark in prop::option::of(0..4_u8),
    ) {
        let (here, there) = &ends()[which];
        let mut content = inner(version, tags, class, len);
        let shim = shim(lane);
        let mut bytes = wrapped(here, &content, &shim).bytes().to_vec();
        let ecn = if version == 0 { 0 } else { class & 3 };
        let mut expected = Some(ecn);
        if let (Some(mark), 1..) = (mark, which) {
            set_outer_ecn(&mut bytes, mark);
            expected = combined(ecn, mark);
        }
        let mut frame = HeapFrame::from(bytes);
        let met = match expected {
            None => Met::CongestionUnmarkable,
            Some(3) if ecn != 3 => Met::Congestion,
            Some(_) => Met::Nothing,
        };
        prop_assert_eq!(there.unwrap(&mut frame), Unwrapped::Frame { shim, met });
        if let (4 | 6, Some(ecn)) = (version, expected) {
            content = inner(version, tags, class & !3 | ecn, len);
        }
        prop_assert_eq!(frame.bytes(), content);
    }

    /// R-TUN-21: a frame that is cut or changed is the peer's, or stays as it is.
    #[test]
    fn a_damaged_frame_is_refused_or_stays_as_it_is(
        which in 0..3_usize,
        changes in prop::collection::vec((0..120_usize, any::<u8>()), 0..3),
        len in prop_oneof![Just(usize::MAX), 0..140_usize],
        is_message: bool,
    ) {
        let (here, there) = &ends()[which];
        let mut bytes = wrapped(here, &inner(4, 1, 0, 40), &shim(0)).bytes().to_vec();
        bytes[here.shim_at()] |= if is_message { 3 } else { 0 };
        bytes.truncate(len);
        for (at, value) in changes {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= value;
            }
        }
        let mut frame = HeapFrame::from(bytes.clone());
        match there.unwrap(&mut frame) {
            Unwrapped::Frame { shim, .. } => {
                let front = there.overhead() - shim::LEN + shim.wire_len();
                prop_assert_eq!(frame.bytes().len(), bytes.len() - front);
            }
            Unwrapped::Control(at) => {
                prop_assert!(at == there.shim_at() && bytes.len() >= at + shim::LEN);
                prop_assert_eq!(frame.bytes(), bytes);
            }
            Unwrapped::Repair(_, at) => {
                prop_assert!(at == there.shim_at() + shim::LEN && bytes.len() >= at);
                prop_assert_eq!(frame.bytes(), bytes);
            }
            Unwrapped::Foreign | Unwrapped::Faulty(_) => prop_assert_eq!(frame.bytes(), bytes),
        }
    }
}
