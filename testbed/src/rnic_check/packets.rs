//! The packets of gateways that are tried on RNICs, made as the gateways make them.

use arrayvec::ArrayVec;
use common::control::{
    self, BootId, DEFAULT_OPCODE, Epoch, Header, Keys, LastAck, Message, NodeId, PsnRange, Reason,
    Status, SyncMessage,
};
use common::frame::Frame;
use common::heap::HeapFrame;
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Aeth, CNP_LEN, Headers};
use tunnel::encapsulation::{DEFAULT_ETHERTYPE, DEFAULT_PORT, DEFAULT_SOURCE_PORT, Udp, UdpConfig};
use tunnel::shim::Shim;
use tunnel::{Lane, Session, WireNumber, encapsulation::Encapsulation};

use super::flow::Flow;

/// The node that messages claim to be from: none of a real box.
const NODE: NodeId = NodeId(0x7274_6573);
/// The boot of it; a real box is started later.
const BOOT: BootId = BootId(1);
/// Longest frame that the tunnel's headers may be put around: with them it fits any LAN.
const WRAPPED_MAX: usize = 1400;
/// Bytes that a link of the smallest MTU carries.
const LIMIT: u16 = 1514;

/// The NAK of `psn` of a Sentry in the responder's name: the headers of requests reversed, PSN sequence error, the responder's
/// newest MSN (R-NAK-3). `None`: the requester's queue pair is not known.
pub fn nak(flow: &Flow, psn: Psn) -> Option<Vec<u8>> {
    ack(flow, psn, Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn: flow.msn })
}

/// An ACK of `psn` as a gateway makes it in the responder's name, with that one's credits and MSN (R-ACK-4).
pub fn ack(flow: &Flow, psn: Psn, aeth: Aeth) -> Option<Vec<u8>> {
    let headers = flow.request.reversed();
    let mut frame = vec![0; headers.frame_len(Aeth::LEN)];
    headers.emit_ack(flow.requester_qpn?, psn, aeth, &mut frame);
    Some(frame)
}

/// A congestion notification to the requester.
pub fn cnp(flow: &Flow) -> Option<Vec<u8>> {
    let headers = flow.request.reversed();
    let mut frame = vec![0; headers.frame_len(CNP_LEN)];
    headers.emit_cnp(flow.requester_qpn?, &mut frame);
    Some(frame)
}

/// A SYNC about the flow, number `seq`, towards the responder.
pub fn sync(flow: &Flow, seq: u64, now: Time) -> Vec<u8> {
    let message = Message::Sync(SyncMessage {
        reason: Reason::Open,
        next_psn: Some(flow.next.psn()),
        pmtu: flow.pmtu,
        src_qpn: flow.requester_qpn,
        sent_at: now,
        rtt: Span::from_millis(10),
    });
    message_with(&flow.request, flow.responder_qpn, flow, seq, &message)
}

/// A STATUS about the flow that misses a packet, number `seq`, towards the requester.
pub fn status(flow: &Flow, seq: u64, now: Time) -> Option<Vec<u8>> {
    let expected = flow.acked.psn();
    let mut missing = ArrayVec::new();
    missing.push(PsnRange { start: expected, len: 1 });
    let message = Message::Status(Status {
        expected,
        ack: Some(LastAck { psn: expected.prev(), syndrome: Aeth::ACK_UNLIMITED, msn: flow.msn }),
        from: expected,
        to: expected.offset(2),
        missing,
        echo: now,
        hold: Span::from_micros(50),
        src_qpn: flow.requester_qpn,
        keeps_responses: true,
        passive: false,
    });
    Some(message_with(&flow.request.reversed(), flow.requester_qpn?, flow, seq, &message))
}

fn message_with(
    headers: &Headers,
    bth_qpn: common::wire::Qpn,
    flow: &Flow,
    seq: u64,
    message: &Message,
) -> Vec<u8> {
    let header = Header {
        node: NODE,
        boot: BOOT,
        seq,
        seen_boot: BootId::NONE,
        dest_qpn: flow.responder_qpn,
        epoch: Epoch(1),
    };
    let mut frame = vec![0; headers.frame_len(control::body_len(message))];
    let keys = Keys::unkeyed_lab();
    control::encode(headers, DEFAULT_OPCODE, bth_qpn, &header, message, &keys, &mut frame);
    frame
}

/// A frame of the tunnel over Ethernet around `inner`, which keeps its MAC addresses. `None`: it is too long.
pub fn over_ethernet(inner: &[u8], number: u32) -> Option<Vec<u8>> {
    let outer = Encapsulation::Ethernet { ethertype: DEFAULT_ETHERTYPE, mac: [0; 6] };
    wrap(&outer, inner, number)
}

/// A frame of the tunnel over UDP around `inner`, from and to the hosts of `headers`. `None`: it is too long.
pub fn over_udp(headers: &Headers, inner: &[u8], number: u32) -> Option<Vec<u8>> {
    let mut outer = Encapsulation::Udp(Udp::new(&UdpConfig {
        mac: headers.src_mac(),
        address: headers.src().to_ip(),
        peer: headers.dst().to_ip(),
        port: DEFAULT_PORT,
        source_ports: vec![DEFAULT_SOURCE_PORT],
        dscp: None,
        vlan: None,
    }));
    outer.set_next_hop(Some(headers.dst_mac()));
    wrap(&outer, inner, number)
}

fn wrap(outer: &Encapsulation, inner: &[u8], number: u32) -> Option<Vec<u8>> {
    let shim = Shim {
        lane: Lane::new(0)?,
        number: WireNumber(number),
        session: Session::new(0x7274_6573),
        predecessor: None,
        original: None,
        is_kept: true,
        clear: 0,
    };
    let short = inner.len() <= WRAPPED_MAX;
    let mut frame = HeapFrame::from(short.then(|| inner.to_vec())?);
    outer.reserve(&mut frame, LIMIT).ok()?;
    outer.wrap(frame.bytes_mut(), &shim, 0);
    Some(frame.bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rnic_check::End;
    use common::control::decode;
    use common::wire::{AethKind, Bth, Opcode, Qpn, Vlans, icrc_ok, parse};
    use tunnel::encapsulation::Unwrapped;

    /// A flow of the queue pairs 0x11 and 0x22, that has sent PSN 5.
    fn flow() -> Flow {
        let ip = |last| std::net::IpAddr::from([10, 0, 0, last]);
        let headers =
            Headers::new([2; 6], [4; 6], Vlans::new(7, 0), ip(1), ip(2), 0xc001, 0x68, 64);
        let mut frame = vec![0; headers.frame_len(64)];
        headers.emit(
            &Bth::new(Opcode::SEND_ONLY, Qpn::new(0x22), Psn::new(5)),
            &mut frame,
            |body| {
                body.fill(1);
            },
        );
        let roce = parse(&frame).expect("RoCEv2");
        let mut flow = Flow::new(End::A, &roce, &frame, Time::ZERO);
        flow.on_request(&roce, &frame, Time::ZERO);
        flow.requester_qpn = Some(Qpn::new(0x11));
        flow.pmtu = 1024;
        flow.msn = 9;
        flow
    }

    #[test]
    fn a_nak_is_the_responders_in_all_but_its_maker() {
        let frame = nak(&flow(), Psn::new(5)).expect("both queue pairs are known");
        let roce = parse(&frame).expect("RoCEv2");
        let aeth = roce.aeth(&frame).expect("an AETH");
        assert_eq!((aeth.kind(), aeth.msn), (AethKind::Nak { code: 0 }, 9));
        assert_eq!((roce.dest_qpn, roce.psn), (Qpn::new(0x11), Psn::new(5)));
        assert_eq!(roce.dst, flow().src);
        assert!(icrc_ok(&frame, &roce));
    }

    #[test]
    fn control_messages_are_such_as_gateways_take() {
        let flow = flow();
        let messages = [sync(&flow, 3, Time::ZERO), status(&flow, 3, Time::ZERO).expect("known")];
        for (frame, qpn) in messages.iter().zip([0x22, 0x11]) {
            let roce = parse(frame).expect("RoCEv2");
            let decoded = decode(frame, &roce, DEFAULT_OPCODE, &Keys::unkeyed_lab());
            let (header, _) = decoded.expect("one of ours").expect("valid");
            assert_eq!((header.seq, roce.dest_qpn), (3, Qpn::new(qpn)));
        }
    }

    #[test]
    fn frames_of_the_tunnel_are_such_as_gateways_take() {
        let flow = flow();
        let inner = sync(&flow, 1, Time::ZERO);
        let ethernet = Encapsulation::Ethernet { ethertype: DEFAULT_ETHERTYPE, mac: [0; 6] };
        let mut frame = HeapFrame::from(over_ethernet(&inner, 1).expect("short"));
        assert!(matches!(ethernet.unwrap(&mut frame), Unwrapped::Frame { .. }));
        assert_eq!(frame.bytes(), inner);

        let udp = Encapsulation::Udp(Udp::new(&UdpConfig {
            mac: [4; 6],
            address: flow.dst.to_ip(),
            peer: flow.src.to_ip(),
            port: DEFAULT_PORT,
            source_ports: vec![DEFAULT_SOURCE_PORT],
            dscp: None,
            vlan: None,
        }));
        let outer = over_udp(&flow.request, &inner, 2).expect("short");
        assert_eq!((&outer[..6], &outer[6..12]), (&[4; 6][..], &[2; 6][..]));
        let mut frame = HeapFrame::from(outer);
        assert!(matches!(udp.unwrap(&mut frame), Unwrapped::Frame { .. }));
        assert_eq!(frame.bytes(), inner);
    }

    #[test]
    fn what_no_lan_carries_with_headers_around_it_is_not_wrapped() {
        assert_eq!(over_ethernet(&[0; WRAPPED_MAX + 1], 1), None);
        assert_eq!(over_udp(&flow().request, &[0; WRAPPED_MAX + 1], 1), None);
    }
}
