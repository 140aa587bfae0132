//! One look at any frame, all views of it, and packets made with its headers.

use common::control::{Keys, decode};
use common::psn::Psn;
use common::wire::{
    Aeth, Bth, Headers, MAX_SPAN, NotRoce, Response, Roce, cm, icrc, icrc_ok, parse, request_ack,
};

/// `data` is the frame.
///
/// # Panics
/// If something is wrong.
pub fn run(data: &[u8]) {
    let Ok(roce) = parse(data) else { return };
    let order = [roce.l3, roce.l4, roce.bth, roce.body, roce.end];
    assert!(order.is_sorted() && usize::from(roce.end) <= data.len(), "{roce:?}");
    let body = roce.payload_len() + usize::from(roce.pad) + 4 + usize::from(roce.body);
    assert_eq!(body, roce.end.into(), "{roce:?}");
    views(data, &roce);
    // A view of another, shorter frame.
    views(&data[..data.len() / 2], &roce);
    assert!(!icrc_ok(&data[..usize::from(roce.end) - 1], &roce));

    let mut frame = data.to_vec();
    let is_ok = icrc_ok(data, &roce);
    assert_eq!(is_ok, data[roce.icrc_at()..roce.end.into()] == icrc(data, &roce).to_le_bytes());
    let _ = decode(data, &roce, roce.opcode, &Keys::unkeyed_lab());
    let _ = cm::read(data, &roce);
    assert_eq!(request_ack(&mut frame, &roce), is_ok);
    if !is_ok {
        assert_eq!(frame, data, "a damaged frame was changed");
        let crc = icrc(&frame, &roce).to_le_bytes();
        frame[roce.icrc_at()..usize::from(roce.end)].copy_from_slice(&crc);
        assert!(icrc_ok(&frame, &roce));
        assert!(request_ack(&mut frame, &roce));
    }
    asks(data, &frame, &roce);
    again(data, &roce);
}

fn views(frame: &[u8], roce: &Roce) {
    let is_whole = frame.len() >= usize::from(roce.end);
    let opcode = roce.opcode;
    assert_eq!(
        roce.payload(frame).len(),
        if is_whole { roce.payload_len() } else { roce.payload(frame).len() }
    );
    for (found, has) in [
        (roce.aeth(frame).is_some(), opcode.has_aeth()),
        (roce.reth(frame).is_some(), opcode.has_reth()),
        (roce.imm(frame).is_some(), opcode.has_imm()),
        (roce.ieth(frame).is_some(), opcode.has_ieth()),
    ] {
        assert!(found == has || !is_whole && !found, "{roce:?}");
    }
    let _ = (roce.atomic_eth(frame), roce.atomic_original(frame), roce.deth(frame));
    if let Some(response) = Response::of(roce, frame) {
        assert!(roce.kind().is_response(), "{response:?}");
        let _ = (response.is_nak(), response.ends_message());
    }
    for pmtu in [0, 1, 256, 1024, 4096, u16::MAX] {
        assert!(roce.psn_count(frame, pmtu.into()) >= 1);
        assert!(roce.span(frame, pmtu).is_none_or(|span| (1..=MAX_SPAN).contains(&span)));
    }
}

/// The BTH of a packet.
pub fn bth_of(roce: &Roce) -> Bth {
    let Roce { opcode, solicited, pad, pkey, dest_qpn, ack_req, psn, .. } = *roce;
    Bth { opcode, solicited, pad, pkey, dest_qpn, ack_req, psn }
}

/// Nothing but the request for an ACK and the two sums may differ.
fn asks(before: &[u8], after: &[u8], roce: &Roce) {
    let found = parse(after).expect("still a RoCEv2 frame");
    assert_eq!(found, Roce { ack_req: true, ..*roce });
    assert!(icrc_ok(after, &found));
    let checksum = usize::from(roce.l4) + 6;
    let flags = usize::from(roce.bth) + 8;
    let may_change = [checksum, checksum + 1, flags];
    let sums = roce.icrc_at()..usize::from(roce.end);
    for (at, (old, new)) in before.iter().zip(after).enumerate() {
        assert!(old == new || may_change.contains(&at) || sums.contains(&at), "byte {at}");
    }
}

/// A packet with its headers is found again, and so is a response to it.
fn again(data: &[u8], roce: &Roce) {
    let headers = Headers::of(data, roce);
    assert_eq!((headers.src(), headers.dst()), (roce.src, roce.dst));
    let body = &data[roce.extension().start..roce.icrc_at()];
    let bth = bth_of(roce);
    let mut made = vec![0xa5; headers.frame_len(body.len())];
    headers.emit(&bth, &mut made, |out| out.copy_from_slice(body));
    let found = parse(&made).expect("what is made is RoCEv2");
    assert!(icrc_ok(&made, &found));
    assert_eq!(Headers::of(&made, &found), headers);
    assert_eq!(&made[found.extension().start..found.icrc_at()], body);
    // Options are left out, and so is a congestion mark.
    let Roce { l4, bth, body, end, ecn, .. } = found;
    assert_eq!(found, Roce { l4, bth, body, end, ecn, ..*roce });

    let back = headers.reversed();
    let mut ack = vec![0; back.frame_len(Aeth::LEN)];
    back.emit_ack(roce.dest_qpn, Psn::new(1), Aeth { syndrome: 0, msn: 0 }, &mut ack);
    let ack_roce = match parse(&ack) {
        // A frame whose source has the address of MAC control can't be answered.
        Err(NotRoce::MacControl) => return,
        parsed => parsed.expect("what is made is RoCEv2"),
    };
    assert!(icrc_ok(&ack, &ack_roce));
    assert_eq!((ack_roce.src, ack_roce.dst, ack_roce.vlans), (roce.dst, roce.src, roce.vlans));
}
