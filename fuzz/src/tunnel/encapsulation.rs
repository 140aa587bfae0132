//! The outer headers of the tunnel, around any frame from the LAN, and damaged at any byte.

use std::net::IpAddr;

use common::frame::{Frame, Headroom};
use common::heap::HeapFrame;
use tunnel::encapsulation::{Encapsulation, Met, Udp, UdpConfig, Unwrapped};
use tunnel::shim::{LEN, Shim};
use tunnel::{Flow, Lane, Session, WireNumber};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// `data` is the encapsulation, the number of changes, the changes (place and bits), and the frame.
pub fn run(data: &[u8]) {
    let [which, changes, rest @ ..] = data else { return };
    let changes = usize::from(changes % 8) * 2;
    let Some((changes, content)) = rest.split_at_checked(changes) else { return };
    let (here, there) = ends(*which);

    // As it is.
    unwrap(&there, content);

    let shim = Shim {
        lane: Lane::new(which % 0xff).expect("below 255"),
        number: WireNumber(7),
        session: Session::new(9),
        predecessor: None,
        original: None,
        is_kept: true,
        clear: which & 0x1f,
    };
    let mut frame = HeapFrame::from(content.to_vec());
    if here.reserve(&mut frame, 9000).is_err() {
        assert_eq!(frame.bytes(), content);
        return;
    }
    here.wrap(frame.bytes_mut(), &shim, Flow::of(content).traffic_class);
    let wire = frame.bytes().to_vec();
    assert_eq!(there.unwrap(&mut frame), Unwrapped::Frame { shim, met: Met::Nothing });
    assert_eq!(frame.bytes(), content);

    let resend = Shim { original: Some((shim.lane, shim.number)), ..shim };
    let mut again = vec![0; here.resent_len(wire.len())];
    here.rewrap(&wire, &resend, &mut again);
    let mut frame = HeapFrame::from(again);
    assert_eq!(there.unwrap(&mut frame), Unwrapped::Frame { shim: resend, met: Met::Nothing });
    assert_eq!(frame.bytes(), content);

    let mut bad = wire;
    for change in changes.chunks_exact(2) {
        if let Some(byte) = bad.get_mut(usize::from(change[0])) {
            *byte ^= change[1];
        }
    }
    bad.truncate(bad.len() - usize::from(which >> 6));
    unwrap(&there, &bad);
}

/// Removes the headers of a frame of the tunnel. Any other frame must stay unchanged, but for the priority tag that `udp`
/// removes.
fn unwrap(end: &Encapsulation, bytes: &[u8]) {
    let mut frame = HeapFrame::from(bytes.to_vec());
    let untagged = match bytes.split_at_checked(16) {
        Some((front @ [.., 0x81, 0, tci, 0], rest))
            if matches!(end, Encapsulation::Udp(_)) && tci & 0xf == 0 =>
        {
            [&front[..12], rest].concat()
        }
        _ => bytes.to_vec(),
    };
    let bytes = &untagged[..];
    match end.unwrap(&mut frame) {
        Unwrapped::Frame { shim, .. } => {
            let front = end.overhead() - LEN + shim.wire_len();
            assert!(frame.bytes().len() >= 14 && frame.bytes().len() + front == bytes.len());
            assert!(frame.grow_front(front));
        }
        Unwrapped::Control(at) => assert!(at == end.shim_at() && bytes.len() >= at + LEN),
        Unwrapped::Repair(_, at) => {
            assert!(at == end.shim_at() + LEN && frame.bytes() == bytes && bytes.len() >= at);
        }
        Unwrapped::Foreign | Unwrapped::Faulty(_) => assert_eq!(frame.bytes(), bytes),
    }
}

fn ends(which: u8) -> (Encapsulation, Encapsulation) {
    let udp = |address: IpAddr, peer: IpAddr| {
        let config = UdpConfig {
            mac: MAC,
            address,
            peer,
            port: 9,
            source_ports: vec![1, 2],
            dscp: None,
            vlan: None,
        };
        let mut end = Encapsulation::Udp(Udp::new(&config));
        end.set_next_hop(Some([2, 0, 0, 0, 0, 9]));
        end
    };
    let both = |here: IpAddr, there: IpAddr| (udp(here, there), udp(there, here));
    match which % 3 {
        0 => {
            let end = Encapsulation::Ethernet { ethertype: 0x88b5, mac: MAC };
            (end.clone(), end)
        }
        1 => both([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
        _ => both([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 2].into()),
    }
}
