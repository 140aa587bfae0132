//! From a captured record to the frame that hosts sent: link types, cut frames, the tunnel's headers.

use tunnel::encapsulation::{Marks, Place};
use tunnel::shim::{Content, Shim};

/// Bytes of the two addresses in it.
const MACS_LEN: usize = 12;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// What precedes the network header of a captured record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// Ethernet.
    Ethernet,
    /// Nothing: IPv4 or IPv6.
    Ip,
    /// "Linux cooked" (`tcpdump -i any`), 16 bytes.
    Cooked,
    /// "Linux cooked" version 2, 20 bytes.
    Cooked2,
}

/// The content of a record, after its headers were parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// The frame is one of the hosts.
    Plain,
    /// It was inside the tunnel; `is_resend`: the tunnel sent it again.
    Tunnelled {
        /// The tunnel sent it again.
        is_resend: bool,
    },
    /// A message of the tunnel: no frame of the hosts.
    Message,
}

/// A frame in memory of its own, reused from record to record.
#[derive(Debug, Default)]
pub struct Peeled {
    bytes: Vec<u8>,
    start: usize,
    /// Bytes of it that were captured; the rest is zero.
    captured: usize,
}

impl Peeled {
    /// The frame, from its destination MAC address on, as long as it was on the wire.
    pub fn frame(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// How many bytes of it were captured.
    pub fn captured(&self) -> usize {
        self.captured.saturating_sub(self.start)
    }

    /// Takes a record of `len` bytes on the wire, of which `bytes` were captured.
    pub fn take(&mut self, link: Link, bytes: &[u8], len: usize, marks: &Marks) -> Layer {
        self.bytes.clear();
        self.start = 0;
        let (header, ethertype) = match link {
            Link::Ethernet => (0, None),
            Link::Ip => {
                (0, Some(bytes.first().map_or(0, |b| if b >> 4 == 6 { IPV6 } else { IPV4 })))
            }
            Link::Cooked => (16, be16(bytes, 14)),
            Link::Cooked2 => (20, be16(bytes, 0)),
        };
        if link != Link::Ethernet {
            self.bytes.extend_from_slice(&[0; MACS_LEN]);
            self.bytes.extend_from_slice(&ethertype.unwrap_or(0).to_be_bytes());
        }
        self.bytes.extend_from_slice(bytes.get(header..).unwrap_or_default());
        self.captured = self.bytes.len();
        // No frame is longer than IP can say; a file may claim any length.
        let whole = self.captured + len.min(1 << 17).saturating_sub(bytes.len());
        self.bytes.resize(whole, 0);
        self.peel(marks)
    }

    /// Removes the headers of the tunnel, if there are any.
    fn peel(&mut self, marks: &Marks) -> Layer {
        let Some(Place { at, addresses_before }) = marks.shim(&self.bytes) else {
            return Layer::Plain;
        };
        match self.bytes.get(at..).map(Shim::read) {
            Some(Ok(Content::Frame(shim))) => {
                self.start = at + shim.wire_len();
                if addresses_before {
                    self.start -= MACS_LEN;
                    self.bytes.copy_within(..MACS_LEN, self.start);
                }
                self.start = self.start.min(self.bytes.len());
                Layer::Tunnelled { is_resend: shim.original.is_some() }
            }
            Some(Ok(Content::Control)) => Layer::Message,
            Some(Err(_)) | None => Layer::Plain,
        }
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_precedes_ip_is_removed() {
        let mut packet = vec![0x45; 60];
        packet[9] = 17;
        let mut cooked = vec![0; 16];
        cooked[14] = 8;
        let mut cooked2 = vec![0; 20];
        cooked2[0] = 8;
        for (link, head) in [(Link::Ip, vec![]), (Link::Cooked, cooked), (Link::Cooked2, cooked2)] {
            let record = [&head[..], &packet].concat();
            let mut peeled = Peeled::default();
            let layer = peeled.take(link, &record, record.len() + 5, &Marks::default());
            assert_eq!(layer, Layer::Plain);
            assert_eq!(peeled.frame()[12..14], [8, 0], "{link:?}");
            assert_eq!(peeled.frame()[14..74], packet[..]);
            assert_eq!((peeled.frame().len(), peeled.captured()), (79, 74));
        }
    }
}
