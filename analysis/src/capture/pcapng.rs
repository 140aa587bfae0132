//! pcapng: blocks, of which those of interfaces and packets are read.

use std::io::Read;

use super::bytes::{Bytes, Order};
use super::interfaces::{Interface, Stamp};
use super::{Fault, Sink};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// Obsolete since 2004, and still written by some appliances.
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;
/// The byte-order magic of a section, as a big-endian number.
const BIG: u32 = 0x1a2b_3c4d;
/// Bytes before and behind a block's body: type, length, and length again.
const FRONT: usize = 8;
const BACK: usize = 4;
/// Bytes of a packet block before the captured ones.
const PACKET_FRONT: usize = 20;

/// Reads a file behind its first four bytes, which begin a section.
pub(super) fn read<R: Read>(mut file: Bytes<R>, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let mut order = Order::Little;
    let mut first = Some(SECTION);
    loop {
        let records = sink.records;
        let kind = match first.take() {
            Some(kind) => kind,
            None => match file.next(4, records)? {
                Some(kind) => order.u32(kind, 0),
                None => return Ok(()),
            },
        };
        let raw = file.more(4, records)?.to_vec();
        let mut read = 0;
        if kind == SECTION {
            order = match Order::Big.u32(file.more(4, records)?, 0) {
                BIG => Order::Big,
                little if little.swap_bytes() == BIG => Order::Little,
                _ => return Err(damaged(records, "a section without a byte order")),
            };
            sink.interfaces.begin();
            read = 4;
        }
        let len = order.u32(&raw, 0) as usize;
        let body = len.checked_sub(FRONT + BACK + read).filter(|_| len.is_multiple_of(4));
        let Some(body) = body else {
            return Err(damaged(records, &format!("a block of {len} bytes")));
        };
        match kind {
            INTERFACE => {
                let interface = Interface::of_block(file.more(body, records)?, order);
                sink.interfaces.add(interface);
            }
            PACKET | SIMPLE | ENHANCED => {
                packet(kind, file.more(body, records)?, order, sink);
            }
            _ => file.skip(body as u64, records)?,
        }
        let again = order.u32(file.more(BACK, records)?, 0) as usize;
        if again != len {
            return Err(damaged(records, &format!("a block of {len} bytes that ends as {again}")));
        }
    }
}

fn damaged(records: u64, what: &str) -> Fault {
    Fault::Damaged { records, what: what.to_owned() }
}

/// The packet of a block.
fn packet(kind: u32, body: &[u8], order: Order, sink: &mut Sink<'_>) {
    if kind == SIMPLE {
        let len = order.u32(body, 0) as usize;
        let bytes = body.get(4..).unwrap_or_default();
        let captured = len.min(sink.interfaces.snaplen(0)).min(bytes.len());
        return sink.take(0, Stamp::None, &bytes[..captured], len);
    }
    let Some(bytes) = body.get(PACKET_FRONT..) else { return sink.leave_out() };
    let interface = match kind {
        PACKET => u32::from(order.u16(body, 0)),
        _ => order.u32(body, 0),
    };
    let units = u64::from(order.u32(body, 4)) << 32 | u64::from(order.u32(body, 8));
    let captured = (order.u32(body, 12) as usize).min(bytes.len());
    let len = order.u32(body, 16) as usize;
    sink.take(interface as usize, Stamp::Units(units), &bytes[..captured], len);
}
