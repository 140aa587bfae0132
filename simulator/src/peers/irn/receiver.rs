//! The receiving side of a queue pair. The rules are those of the
//! [module](super).

use std::collections::VecDeque;

use common::psn::Psn;
use common::wire::{Aeth, Opcode, Roce};
use rnic::parts::Extension;
use rnic::{QpConfig, QpId, Received};

use super::config::Irn;
use crate::peers::selective::{self, Arrivals, Data};

/// The receiver of IRN.
#[derive(Debug)]
pub struct Receiver {
    cap: u64,
    arrivals: Arrivals,
}

impl Receiver {
    pub(super) fn new(qp: QpId, config: &QpConfig, irn: Irn) -> Self {
        Self { cap: u64::from(irn.cap), arrivals: Arrivals::new(qp, config) }
    }

    /// An ACK of everything in order.
    fn ack(&mut self) {
        let msn = (self.arrivals.messages % u64::from(Psn::MODULUS)) as u32;
        let psn = self.arrivals.expected.prev().psn();
        let aeth = Extension::Aeth(Aeth { syndrome: Aeth::ACK_UNLIMITED, msn });
        // Nothing is gained by saying it twice.
        let last = self.arrivals.responses.back().map(|packet| (packet.psn, packet.extension));
        if last != Some((psn, aeth)) {
            self.arrivals.respond(Opcode::ACK, psn, aeth);
        }
    }
}

impl selective::Receiver for Receiver {
    fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    fn arrivals_mut(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }

    fn on_packet(&mut self, roce: &Roce, data: Data<'_>, received: &mut VecDeque<Received>) {
        let (expected, had_gap) = (self.arrivals.expected, self.arrivals.has_gap());
        let seq = roce.psn.unwrap_near(expected);
        if seq > expected && seq.since(expected) >= self.cap {
            self.arrivals.stats.beyond_bitmap += 1;
            return;
        }
        self.arrivals.accept(seq, data, received);
        if seq > expected {
            let aeth = Aeth { syndrome: Aeth::NAK_PSN_SEQUENCE, msn: seq.psn().get() };
            self.arrivals.respond(Opcode::ACK, expected.psn(), Extension::Aeth(aeth));
        } else if seq < expected || had_gap || roce.ack_req {
            self.ack();
        }
    }
}
