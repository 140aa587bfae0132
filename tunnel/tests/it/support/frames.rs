//! Frames of hosts, and two ends of each encapsulation.

use std::net::IpAddr;

use common::frame::Frame;
use common::heap::HeapFrame;
use common::wire::MacAddr;
use tunnel::encapsulation::{
    DEFAULT_ETHERTYPE, DEFAULT_PORT, DEFAULT_SOURCE_PORT, Encapsulation, Udp, UdpConfig,
};
use tunnel::message::{self, Message};
use tunnel::shim::Shim;
use tunnel::{Flow, Lane, Session, WireNumber};

pub const MAC: MacAddr = [0x0a, 0, 0, 0, 0, 1];
pub const NEXT_HOP: MacAddr = [0x0e, 0, 0, 0, 0, 9];
const HERE_V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
pub const PEER_V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 1, 2));
const HERE_V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
const PEER_V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 2));

pub fn udp_config(v4: bool) -> UdpConfig {
    let (address, peer) = if v4 { (HERE_V4, PEER_V4) } else { (HERE_V6, PEER_V6) };
    let source_ports = (0..8).map(|n| DEFAULT_SOURCE_PORT + n).collect();
    UdpConfig { mac: MAC, address, peer, port: DEFAULT_PORT, source_ports, dscp: None, vlan: None }
}

/// This box and its peer, for each encapsulation.
pub fn ends() -> [(Encapsulation, Encapsulation); 3] {
    let ethernet = || Encapsulation::Ethernet { ethertype: DEFAULT_ETHERTYPE, mac: MAC };
    let udp = |v4| {
        let here = udp_config(v4);
        let there = UdpConfig { address: here.peer, peer: here.address, ..here.clone() };
        [here, there].map(|config| {
            let mut end = Encapsulation::Udp(Udp::new(&config));
            end.set_next_hop(Some(NEXT_HOP));
            end
        })
    };
    let ([v4_here, v4_there], [v6_here, v6_there]) = (udp(true), udp(false));
    [(ethernet(), ethernet()), (v4_here, v4_there), (v6_here, v6_there)]
}

/// A first transmission on a lane.
pub fn shim(lane: u8) -> Shim {
    let lane_of = |n| Lane::new(n).expect("a lane");
    Shim {
        lane: lane_of(lane),
        number: WireNumber(0x1112_1314),
        session: Session::new(0x0102_0304),
        predecessor: Some((lane_of(3), WireNumber(0x2122_2324))),
        original: None,
        is_kept: true,
        clear: 0,
    }
}

/// A frame of a host as it leaves the box.
pub fn wrapped(end: &Encapsulation, content: &[u8], shim: &Shim) -> HeapFrame {
    let mut frame = HeapFrame::from(content.to_vec());
    let class = Flow::of(content).traffic_class;
    end.reserve(&mut frame, u16::MAX).expect("it fits");
    end.wrap(frame.bytes_mut(), shim, class);
    frame
}

/// A frame of a host with so many VLAN tags, and at least `len` bytes: IPv4, IPv6 or, for any other
/// version, not IP.
pub fn inner(version: u8, tags: usize, class: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in 0..tags {
        // Of a provider outside, of a customer inside.
        frame.extend(if tag + 1 < tags { [0x88, 0xa8, 0, 7] } else { [0x81, 0, 0xe0, 5] });
    }
    match version {
        4 => {
            frame.extend([8, 0]);
            let l3 = frame.len();
            let mut header = vec![0x45, class, 0, 40, 0, 1, 0x40, 0, 64, 17, 0, 0];
            header.extend([192, 168, 1, 1, 192, 168, 1, 2]);
            let sum = !ones_complement(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend(header);
            assert_eq!(ones_complement(&frame[l3..]), 0xffff);
        }
        6 => {
            frame.extend([0x86, 0xdd, 0x60 | class >> 4, class << 4, 0, 9, 0, 8, 17, 64]);
            frame.extend([0xfd; 32]);
        }
        _ => frame.extend([8, 6, class]),
    }
    let from = frame.len();
    frame.extend((from..len).map(|at| (at * 7) as u8));
    frame
}

/// The outer traffic class of a frame on the WAN.
pub fn class_of(frame: &[u8]) -> Option<u8> {
    match frame[12..14] {
        [8, 0] => Some(frame[15]),
        [0x86, 0xdd] => Some((u16::from_be_bytes([frame[14], frame[15]]) >> 4) as u8),
        _ => None,
    }
}

/// The ones' complement sum of 16-bit words, as RFC 1071 describes it.
pub fn ones_complement(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) * 256 + u32::from(*pair.get(1).unwrap_or(&0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    sum as u16
}

/// Changes a HELLO into one of a release that knows no PATHs.
pub fn make_old(kind: super::Kind, frame: &mut [u8]) {
    let keys = common::control::Keys::from_secret(b"of the pair");
    let body = frame.get_mut(kind.shim_at()..).unwrap_or_default();
    if let Ok((header, Message::Hello(hello))) = message::read(body, &keys) {
        let hello = message::Hello { features: hello.features & !0x40, ..hello };
        message::write(&header, &Message::Hello(hello), &keys, body);
    }
}

/// The source port of a datagram in IPv4 that one of the boxes sends to the other.
pub fn source_port(frame: &[u8]) -> Option<u16> {
    let is_v4 = frame.get(12..14)? == [8, 0] && frame.get(26..28)? == [192, 0];
    let port = frame.get(34..36).filter(|_| is_v4)?;
    Some(u16::from_be_bytes([port[0], port[1]]))
}
