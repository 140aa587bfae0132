//! The order in which a port sends READ data, ACKs and requests of its QPs.

use crate::support::{Seen, World, drain, give, look, read, send};
use common::time::{Span, Time};
use common::wire::{Opcode, parse};

const PMTU: u32 = 256;

#[test]
fn read_data_is_interleaved_with_what_others_send() {
    let mut world = World::new(None, Span::ZERO);
    let qps = [0, 1].map(|n| world.add_qp(n, |c| c.pmtu = PMTU));
    let [a, b] = &mut world.nics;
    // Host 2 answers a READ on QP 0, and sends on both.
    a.post(qps[0], read(4 * PMTU), Time::ZERO).unwrap();
    give(b, &drain(a, Time::ZERO));
    for qp in qps {
        b.post(qp, send(2 * PMTU), Time::ZERO).unwrap();
    }
    let qpn = |frame: &Vec<u8>| (parse(frame).unwrap().dest_qpn.get() & 1, look(frame));
    let order: Vec<_> = drain(b, Time::ZERO).iter().map(qpn).collect();
    let data = |opcode, psn| (0, Seen::Data(opcode, psn, false));
    assert_eq!(
        order,
        [
            data(Opcode::READ_RESPONSE_FIRST, 0),
            (1, Seen::Data(Opcode::SEND_FIRST, 0, false)),
            data(Opcode::SEND_FIRST, 0),
            (1, Seen::Data(Opcode::SEND_LAST, 1, true)),
            data(Opcode::READ_RESPONSE_MIDDLE, 1),
            (0, Seen::Data(Opcode::SEND_LAST, 1, true)),
            data(Opcode::READ_RESPONSE_MIDDLE, 2),
            data(Opcode::READ_RESPONSE_LAST, 3),
        ]
    );
}

#[test]
fn an_ack_of_another_qp_does_not_wait_for_read_data() {
    let mut world = World::new(None, Span::ZERO);
    let qps = [0, 1].map(|n| world.add_qp(n, |c| c.pmtu = PMTU));
    let [a, b] = &mut world.nics;
    a.post(qps[0], read(2 * PMTU), Time::ZERO).unwrap();
    a.post(qps[0], send(1), Time::ZERO).unwrap();
    a.post(qps[1], send(1), Time::ZERO).unwrap();
    give(b, &drain(a, Time::ZERO));
    let order: Vec<_> = drain(b, Time::ZERO).iter().map(|frame| look(frame)).collect();
    let data = |opcode, psn| Seen::Data(opcode, psn, false);
    assert_eq!(
        order,
        [
            Seen::Ack(0, 0x1f, 1),
            data(Opcode::READ_RESPONSE_FIRST, 0),
            data(Opcode::READ_RESPONSE_LAST, 1),
            Seen::Ack(2, 0x1f, 2),
        ]
    );
}
