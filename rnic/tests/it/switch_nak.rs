//! The NAK of a switch and the repeats that it brings forth, as frames.

use crate::support::{World, drain, mac, work};
use common::psn::Psn;
use common::time::{Span, Time};
use common::wire::{Aeth, Headers, Qpn, Vlans, has_switch_bit, icrc_ok, parse};
use rnic::{WorkKind, lab_ip};

#[test]
fn the_bit_goes_over_the_wire_both_ways() {
    for knows in [true, false] {
        let mut world = World::new(None, Span::ZERO);
        let qp = world.add_qp(0, |c| {
            c.pmtu = 256;
            c.knows_switch_nak = knows;
        });
        let [a, b] = &mut world.nics;
        for _ in 0..2 {
            let work = work(WorkKind::Write, 512);
            a.post(qp, work, Time::ZERO).unwrap();
        }
        let first = drain(a, Time::ZERO);
        let bit = |frame: &Vec<u8>| has_switch_bit(frame, &parse(frame).unwrap());
        assert!(!first.iter().any(bit));

        // A switch on the way makes it from the headers of the way back.
        let mut headers =
            Headers::new(mac(2), mac(1), Vlans::NONE, lab_ip(2), lab_ip(1), 50_000, 0, 64);
        let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn: 0 };
        let nak = |headers: &Headers| {
            let mut frame = vec![0; headers.frame_len(Aeth::LEN)];
            headers.emit_ack(Qpn::new(0x100), Psn::new(2), aeth, &mut frame);
            frame
        };
        headers.set_switch_bit(true);
        let made = nak(&headers);
        assert!(bit(&made) && icrc_ok(&made, &parse(&made).unwrap()));

        a.receive(&made, Time::ZERO);
        let again = drain(a, Time::ZERO);
        let psns: Vec<_> = again.iter().map(|frame| parse(frame).unwrap().psn.get()).collect();
        assert_eq!(psns, [2, 3]);
        assert!(again.iter().all(|frame| bit(frame) == knows));
        assert_eq!(a.poll_completion().is_some(), !knows, "a plain NAK acknowledges");

        // The destination does not mind the bit.
        for frame in first[..2].iter().chain(&again) {
            b.receive(frame, Time::ZERO);
        }
        assert_eq!(std::iter::from_fn(|| b.poll_received()).count(), 2);
    }
}
