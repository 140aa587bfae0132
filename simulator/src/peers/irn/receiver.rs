//! The receiving side of a queue pair. The rules are those of the
//! [module](super).

use std::collections::VecDeque;

use common::psn::Psn;
use common::wire::{Aeth, Opcode};
use rnic::Received;
use rnic::parts::Extension;

use super::config::Irn;
use crate::peers::selective::{self, Arrivals, Data};

/// The receiver of IRN.
#[derive(Debug)]
pub struct Receiver {
    cap: u64,
}

impl Receiver {
    pub(super) fn new(irn: Irn) -> Self {
        Self { cap: u64::from(irn.cap) }
    }
}

/// Acknowledges everything in order.
fn ack(arrivals: &mut Arrivals) {
    let msn = (arrivals.messages % u64::from(Psn::MODULUS)) as u32;
    let psn = arrivals.expected.prev().psn();
    let aeth = Extension::Aeth(Aeth { syndrome: Aeth::ACK_UNLIMITED, msn });
    // Nothing is gained by saying it twice.
    let last = arrivals.responses.back().map(|packet| (packet.psn, packet.extension));
    if last != Some((psn, aeth)) {
        arrivals.respond(Opcode::ACK, psn, aeth);
    }
}

impl selective::Receiver for Receiver {
    fn on_data(&self, data: Data<'_>, arrivals: &mut Arrivals, received: &mut VecDeque<Received>) {
        let (expected, had_gap) = (arrivals.expected, arrivals.has_gap());
        let seq = data.psn.unwrap_near(expected);
        if seq > expected && seq.since(expected) >= self.cap {
            arrivals.stats.beyond_bitmap += 1;
            return;
        }
        arrivals.accept(seq, data, received);
        if seq > expected {
            let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn: seq.psn().get() };
            arrivals.respond(Opcode::ACK, expected.psn(), Extension::Aeth(aeth));
        } else if seq < expected || had_gap || data.ack_req {
            ack(arrivals);
        }
    }
}
