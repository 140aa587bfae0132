//! The receiving side: places each packet when it comes, and acknowledges it.

use std::collections::VecDeque;

use common::wire::{Aeth, Opcode};
use rnic::Received;
use rnic::parts::Extension;

use crate::peers::selective::{self, Arrivals, Data};

/// The receiver of UET.
#[derive(Debug)]
pub struct Receiver;

impl selective::Receiver for Receiver {
    /// An ACK has the next packet in order as its PSN, and where its bitmap begins as its MSN.
    fn on_data(&self, data: Data<'_>, arrivals: &mut Arrivals, received: &mut VecDeque<Received>) {
        let seq = data.psn.unwrap_near(arrivals.expected);
        arrivals.accept(seq, data, received);
        // A repeat that fills a gap is acknowledged with all behind it.
        let expected = arrivals.expected;
        let base = if seq < expected + 64 { expected } else { seq - 63 };
        let aeth = Aeth { syndrome: Aeth::ACK_UNLIMITED, msn: base.psn().get() };
        let map = arrivals.bitmap(base);
        let extension = Extension::AtomicAck(aeth, map);
        arrivals.respond(Opcode::ATOMIC_ACK, expected.psn(), extension);
    }
}
