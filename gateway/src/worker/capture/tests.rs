//! What of the frames that pass is copied.

use std::net::{IpAddr, Ipv4Addr};

use common::psn::Psn;
use common::wire::{Aeth, Headers, Qpn, Vlans};
use tunnel::{Lane, Session, WireNumber};

use super::*;

const HOSTS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))];
const QPN: u32 = 0x11;

/// An ACK from the first host to the second.
fn roce() -> Vec<u8> {
    let [src, dst] = HOSTS;
    let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    let headers = Headers::new(macs[0], macs[1], Vlans::NONE, src, dst, 0xc000, 0, 64);
    let mut frame = vec![0; headers.frame_len(Aeth::LEN)];
    headers.emit_ack(Qpn::new(QPN), Psn::new(7), Aeth { syndrome: 0, msn: 1 }, &mut frame);
    frame
}

fn shim(lane: u8) -> Vec<u8> {
    let shim = Shim {
        lane: Lane::new(lane).unwrap(),
        number: WireNumber(9),
        session: Session::new(5),
        predecessor: None,
        original: None,
        is_kept: true,
        clear: 0,
    };
    let mut bytes = vec![0; shim.wire_len()];
    shim.write(&mut bytes);
    bytes
}

/// The frame in the tunnel, with `ethernet`.
fn over_ethernet(frame: &[u8], lane: u8) -> Vec<u8> {
    let ethertype = Marks::default().ethertype.to_be_bytes();
    [&frame[..MACS_LEN], &ethertype, &shim(lane), &frame[MACS_LEN..]].concat()
}

/// The same with `udp`, over IPv4.
fn over_udp(frame: &[u8], lane: u8) -> Vec<u8> {
    let mut outer = [0; 42];
    outer[12..15].copy_from_slice(&[8, 0, 0x45]);
    outer[23] = 17;
    outer[36..38].copy_from_slice(&Marks::default().port.to_be_bytes());
    [&outer[..], &shim(lane), frame].concat()
}

/// What is captured of these frames, which arrive at the LAN port.
fn captured(filter: Filter, frames: &[Vec<u8>]) -> Vec<usize> {
    let mut scratch = Vec::new();
    let mut has = |frame: &[u8]| filter.has(PortId::LAN, Direction::In, frame, &mut scratch);
    (0..frames.len()).filter(|n| has(&frames[*n])).collect()
}

#[test]
fn a_flow_is_found_inside_the_tunnel_too() {
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 46]].concat();
    let frames = [
        roce(),
        over_ethernet(&roce(), 2),
        over_udp(&roce(), 3),
        arp.clone(),
        over_ethernet(&arp, 2),
        over_udp(&arp, 2)[..50].to_vec(),
    ];
    let of = |change: fn(&mut Filter)| {
        let mut filter = Filter::default();
        change(&mut filter);
        captured(filter, &frames)
    };
    assert_eq!(of(|_| ()), [0, 1, 2, 3, 4, 5]);
    assert_eq!(of(|it| it.qpn = Some(QPN)), [0, 1, 2]);
    assert_eq!(of(|it| it.qpn = Some(QPN + 1)), [0; 0]);
    assert_eq!(of(|it| it.address = Some(HOSTS[0])), [0, 1, 2]);
    assert_eq!(of(|it| it.address = Some(HOSTS[1])), [0, 1, 2]);
    assert_eq!(of(|it| it.address = Some(Ipv4Addr::LOCALHOST.into())), [0; 0]);
    assert_eq!(of(|it| it.lane = Some(2)), [1, 4]);
    assert_eq!(of(|it| (it.lane, it.qpn) = (Some(2), Some(QPN))), [1]);
    assert_eq!(of(|it| it.port = Some(PortId::LAN)).len(), 6);
    assert_eq!(of(|it| it.port = PortId::all(1).last()), [0; 0]);
    assert_eq!(of(|it| it.direction = Some(Direction::Out)), [0; 0]);
}

#[test]
fn heads_are_copied_as_long_as_there_is_room_and_the_rest_is_counted() {
    let (mut tap, mut order) = pair();
    let frame: Vec<_> = (0..100).collect();
    let see = |tap: &mut Tap, nanos| {
        tap.set_now(Time::from_nanos(nanos));
        tap.see(PortId::LAN, Direction::Out, std::iter::once(&*frame));
    };
    // Room for two records and a half.
    let (request, mut records) = capture(Filter::default(), Wanted::Bytes(60), 190);
    assert!(order.push(Order::Begin(request)).is_ok());
    see(&mut tap, 1);
    tap.poll();
    assert!(tap.is_on());
    let mut expected = 2;
    for round in 0..100 {
        for nanos in expected..expected + 3 {
            see(&mut tap, nanos);
        }
        for _ in 0..2 {
            let Record { at, port, direction, len, bytes } = records.pop().unwrap();
            assert_eq!(at, Time::from_nanos(expected));
            assert_eq!((port, direction, len, &*bytes), (0, Direction::Out, 100, &frame[..60]));
            expected += 1;
        }
        expected += 1;
        assert_eq!((records.pop(), records.missed()), (None, round + 1));
    }
    assert!(!records.is_left());
    assert!(order.push(Order::End).is_ok());
    tap.poll();
    see(&mut tap, 1);
    assert!(records.is_left() && records.pop().is_none() && !tap.is_on());
}
