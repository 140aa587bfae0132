//! VLAN tags and UDP checksums of the outer headers of `udp`.

use common::frame::Frame;
use common::heap::HeapFrame;
use common::wire::Spread;
use tunnel::Division;
use tunnel::encapsulation::{Encapsulation, Met, OuterFault, Udp, UdpConfig, Unfit, Unwrapped};

use crate::support::frames::{NEXT_HOP, ends, inner, ones_complement, shim, udp_config, wrapped};

const REFUSED: Unwrapped = Unwrapped::Faulty(OuterFault::Checksum);

/// Both ends on ports with a VLAN, over IPv4 and over IPv6.
fn in_vlan(vlan: u16) -> [[Encapsulation; 2]; 2] {
    [true, false].map(|v4| {
        let here = UdpConfig { vlan: Some(vlan), ..udp_config(v4) };
        let there = UdpConfig { address: here.peer, peer: here.address, ..here.clone() };
        [here, there].map(|config| {
            let mut end = Encapsulation::Udp(Udp::new(&config));
            end.set_next_hop(Some(NEXT_HOP));
            end
        })
    })
}

fn tagged(frame: &[u8], tag: [u8; 2]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0], &tag, &frame[12..]].concat()
}

/// Fills in the UDP checksum, as RFC 768 and RFC 8200 have it.
fn fill_in(frame: &mut [u8]) {
    let is_v4 = frame[12] == 8;
    let (addresses, udp) = if is_v4 { (26, 34) } else { (22, 54) };
    frame[udp + 6..udp + 8].fill(0);
    let length = (frame.len() - udp) as u16;
    let mut all = frame[addresses..udp].to_vec();
    all.extend([[0, 17], length.to_be_bytes()].concat());
    all.extend(&frame[udp..]);
    let sum = !ones_complement(&all);
    let sum = if sum == 0 { 0xffff } else { sum };
    frame[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
}

/// R-TUN-21: of even and odd length, plain and marked by the path.
#[test]
fn a_right_udp_checksum_is_taken_and_a_wrong_one_is_not() {
    for (here, there) in &ends()[1..] {
        for len in [60, 61, 1500] {
            let content = inner(4, 0, 0x02, len);
            let mut bytes = wrapped(here, &content, &shim(1)).bytes().to_vec();
            fill_in(&mut bytes);
            let mut frame = HeapFrame::from(bytes.clone());
            let expected = Unwrapped::Frame { shim: shim(1), met: Met::Nothing };
            assert_eq!(there.unwrap(&mut frame), expected, "{len}");
            assert_eq!(frame.bytes(), content);
            let last = bytes.len() - 1;
            for at in [last, here.shim_at() - 1, here.shim_at() + 9] {
                let mut wrong = bytes.clone();
                wrong[at] ^= 4;
                assert_eq!(there.unwrap(&mut HeapFrame::from(wrong)), REFUSED, "byte {at}");
            }
        }
    }
    // The header's own checksum counts all the same.
    let (here, there) = &ends()[1];
    let mut bytes = wrapped(here, &inner(4, 0, 0, 60), &shim(1)).bytes().to_vec();
    fill_in(&mut bytes);
    bytes[22] -= 1;
    assert_eq!(there.unwrap(&mut HeapFrame::from(bytes)), REFUSED);
}

/// VLAN id 0 is no VLAN, whatever the priority: data, control messages, and frames for the port itself.
#[test]
fn a_priority_tag_is_no_vlan() {
    for (here, there) in &ends()[1..] {
        let content = inner(4, 0, 0, 60);
        let whole = wrapped(here, &content, &shim(1)).bytes().to_vec();
        let division = Division::new(4, Spread::Mixed).expect("a power of two");
        for tag in [[0, 0], [0xc0, 0], [0xf0, 0]] {
            let bytes = tagged(&whole, tag);
            let of = there.tunnel_of(division, &bytes);
            assert!(of.is_some() && of == there.tunnel_of(division, &whole));
            let mut frame = HeapFrame::from(bytes);
            let expected = Unwrapped::Frame { shim: shim(1), met: Met::Nothing };
            assert_eq!(there.unwrap(&mut frame), expected);
            assert_eq!(frame.bytes(), content);
            let arp = inner(0, 0, 0, 46);
            let mut frame = HeapFrame::from(tagged(&arp, tag));
            assert_eq!(there.unwrap(&mut frame), Unwrapped::Foreign);
            assert_eq!(frame.bytes(), arp, "the station gets the frame without the tag");
        }
        let other = tagged(&whole, [0, 1]);
        let mut frame = HeapFrame::from(other.clone());
        assert_eq!(there.unwrap(&mut frame), Unwrapped::Foreign);
        assert_eq!(frame.bytes(), other);
    }
    let mut message = vec![0; ends()[1].0.shim_at() + 60];
    ends()[1].0.wrap_message(tunnel::Lane::new(1).unwrap(), None, &mut message).unwrap()[0] = 0x23;
    let mut frame = HeapFrame::from(tagged(&message, [0, 0]));
    assert_eq!(ends()[1].1.unwrap(&mut frame), Unwrapped::Control(ends()[1].0.shim_at()));
}

/// `wan.vlan`
#[test]
fn a_port_in_a_vlan_sends_and_takes_frames_of_that_vlan_only() {
    for ([here, there], (plain_here, plain_there)) in in_vlan(0x123).iter().zip(&ends()[1..]) {
        let content = inner(4, 0, 0xb9, 60);
        let untagged = wrapped(plain_here, &content, &shim(1)).bytes().to_vec();
        let bytes = wrapped(here, &content, &shim(1)).bytes().to_vec();
        assert_eq!(bytes, tagged(&untagged, [1, 0x23]), "the same, with the tag");
        for tag in [[1, 0x23], [0xd1, 0x23]] {
            let mut frame = HeapFrame::from(tagged(&untagged, tag));
            let expected = Unwrapped::Frame { shim: shim(1), met: Met::Nothing };
            assert_eq!(there.unwrap(&mut frame), expected);
            assert_eq!(frame.bytes(), content);
        }
        for other in [untagged.clone(), tagged(&untagged, [0, 0]), tagged(&untagged, [1, 0x24])] {
            assert_eq!(there.unwrap(&mut HeapFrame::from(other)), Unwrapped::Foreign);
        }
        assert_eq!(plain_there.unwrap(&mut HeapFrame::from(bytes.clone())), Unwrapped::Foreign);
        // A resend, and a message.
        let first = shim(1);
        let resend = tunnel::shim::Shim {
            predecessor: None,
            original: Some((first.lane, first.number)),
            ..first
        };
        let [mut out, mut plain_out] =
            [&bytes, &untagged].map(|kept| vec![0xee; kept.len() + Encapsulation::RESENT_MORE]);
        here.rewrap(&bytes, &resend, &mut out);
        plain_here.rewrap(&untagged, &resend, &mut plain_out);
        assert_eq!(out, tagged(&plain_out, [1, 0x23]));
        let [mut message, mut plain] = [here, plain_here].map(|end| vec![0; end.shim_at() + 60]);
        here.wrap_message(first.lane, None, &mut message).expect("a next hop").fill(7);
        plain_here.wrap_message(first.lane, None, &mut plain).expect("a next hop").fill(7);
        assert_eq!(message, tagged(&plain, [1, 0x23]));
        // A network may fill in the checksum here too.
        let mut summed = untagged.clone();
        fill_in(&mut summed);
        let mut frame = HeapFrame::from(tagged(&summed, [1, 0x23]));
        assert!(matches!(there.unwrap(&mut frame), Unwrapped::Frame { .. }));
    }
}

/// Limits don't count the tag.
#[test]
fn a_frame_fits_with_a_tag_as_without() {
    for ([here, _], (plain, _)) in in_vlan(7).iter().zip(&ends()[1..]) {
        assert_eq!((here.overhead(), here.tag_len()), (plain.overhead() + 4, 4));
        let fits = 1500 - plain.overhead() - Encapsulation::RESENT_MORE;
        for (len, result) in [(fits, Ok(())), (fits + 1, Err(Unfit::TooLong))] {
            let mut frame = HeapFrame::from(vec![2; len]);
            assert_eq!(here.fit(1500).takes(&frame), result.is_ok());
            assert_eq!(here.reserve(&mut frame, 1500), result);
        }
    }
}
