//! The receiving side: places each packet when it comes, and acknowledges it.

use std::collections::VecDeque;

use common::wire::{Aeth, Opcode, Roce};
use rnic::parts::Extension;
use rnic::{QpConfig, QpId, Received};

use crate::peers::selective::{self, Arrivals, Data};

/// The receiver of UET.
#[derive(Debug)]
pub struct Receiver {
    arrivals: Arrivals,
}

impl Receiver {
    pub(super) fn new(qp: QpId, config: &QpConfig) -> Self {
        Self { arrivals: Arrivals::new(qp, config) }
    }
}

impl selective::Receiver for Receiver {
    fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    fn arrivals_mut(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }

    /// An ACK has the next packet in order as its PSN, and where its bitmap begins as its MSN.
    fn on_packet(&mut self, roce: &Roce, data: Data<'_>, received: &mut VecDeque<Received>) {
        let seq = roce.psn.unwrap_near(self.arrivals.expected);
        self.arrivals.accept(seq, data, received);
        // A repeat that fills a gap is acknowledged with all behind it.
        let expected = self.arrivals.expected;
        let base = if seq < expected + 64 { expected } else { seq - 63 };
        let aeth = Aeth { syndrome: Aeth::ACK_UNLIMITED, msn: base.psn().get() };
        let map = self.arrivals.bitmap(base);
        let extension = Extension::AtomicAck(aeth, map);
        self.arrivals.respond(Opcode::ATOMIC_ACK, expected.psn(), extension);
    }
}
