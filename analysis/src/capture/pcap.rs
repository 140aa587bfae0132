//! pcap: a header, and records.

use std::io::Read;

use super::bytes::{Bytes, Order};
use super::interfaces::{Interface, Stamp};
use super::{Fault, Sink};

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
/// Bit of the link type's word: the word says how long frame check sequences (FCS) are.
const HAS_FCS: u32 = 1 << 26;

/// Reads a file whose first four bytes are `magic`.
pub(super) fn read<R: Read>(
    magic: [u8; 4],
    mut file: Bytes<R>,
    sink: &mut Sink<'_>,
) -> Result<(), Fault> {
    let order = if magic[0] == 0xa1 { Order::Big } else { Order::Little };
    let is_nanos = magic.contains(&0x3c);
    let header = file.more(FILE_HEADER - magic.len(), 0)?;
    // The link type has 16 bits. Above these are the length of the FCS, in words of 16 bits, and reserved bits.
    let word = order.u32(header, FILE_HEADER - magic.len() - 4);
    let fcs = if word & HAS_FCS != 0 { (word >> 28) as usize * 2 } else { 0 };
    sink.interfaces.begin();
    sink.interfaces.add(Interface::of_pcap((word & 0xffff) as u16, fcs));
    // A file of another link type has nothing to read, not even records.
    sink.interfaces.link(0).map_err(Fault::Link)?;
    loop {
        let Some(header) = file.next(RECORD_HEADER, sink.records)? else { return Ok(()) };
        let (seconds, fraction) = (order.u32(header, 0), order.u32(header, 4));
        let (captured, len) = (order.u32(header, 8), order.u32(header, 12));
        let nanos = u64::from(fraction) * if is_nanos { 1 } else { 1000 };
        let stamp = Stamp::Nanos(u64::from(seconds) * 1_000_000_000 + nanos);
        let bytes = file.more(captured as usize, sink.records)?;
        sink.take(0, stamp, bytes, len as usize);
    }
}
