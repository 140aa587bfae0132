//! From a captured record to the frame that hosts sent: link types, cut frames, the headers of the tunnel and of other
//! encapsulations.

use tunnel::encapsulation::{Marks, Place};
use tunnel::shim::{Content, Fault, Shim};

use crate::outer::{self, Encapsulated, Inside, Outer};

/// Bytes of the two addresses in it.
const MACS_LEN: usize = 12;
const ETHER_LEN: usize = 14;
/// Headers of encapsulations that are removed from one frame.
const MOST_LAYERS: usize = 8;
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
    /// A frame of the hosts that may be RoCEv2.
    Hosts,
    /// A frame that is not RoCEv2.
    Other,
    /// A message of the tunnel: no frame of the hosts.
    Message,
    /// Too little was captured to see the BTH, or that there is none.
    Cut,
    /// An IP fragment, or a frame within too many headers or VLAN tags.
    Unread,
}

/// A frame in memory of its own, reused from record to record.
#[derive(Debug, Default)]
pub struct Peeled {
    bytes: Vec<u8>,
    start: usize,
    /// Bytes of it that were captured; the rest is zero.
    captured: usize,
    /// The frame was inside the tunnel, or was sent again by the tunnel.
    tunnelled: Option<bool>,
    /// The encapsulations around the frame.
    outers: Vec<Outer>,
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

    /// The bytes of the frame that were captured.
    pub fn seen(&self) -> &[u8] {
        &self.bytes[self.start..self.captured.max(self.start)]
    }

    /// Whether the tunnel carried the frame, and then whether it had sent the frame again.
    pub fn tunnelled(&self) -> Option<bool> {
        self.tunnelled
    }

    /// Counts the encapsulations around the frame.
    pub fn count(&self, counts: &mut Encapsulated) {
        self.outers.iter().for_each(|outer| counts.count(*outer));
    }

    /// Takes a record of `len` bytes on the wire, of which `bytes` were captured.
    pub fn take(&mut self, link: Link, bytes: &[u8], len: usize, marks: &Marks) -> Layer {
        self.bytes.clear();
        self.start = 0;
        self.tunnelled = None;
        self.outers.clear();
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
        let layer = self.peel(marks);
        match layer {
            // Nothing is missing: the frame itself is short. Its parser says what it is.
            Layer::Cut if self.captured == whole => Layer::Hosts,
            layer => layer,
        }
    }

    /// Removes all headers around the frame of the hosts.
    fn peel(&mut self, marks: &Marks) -> Layer {
        for _ in 0..=MOST_LAYERS {
            if let Some(place) = marks.shim(self.seen())
                && let Some(layer) = self.unwrap(place)
            {
                if layer == Layer::Hosts {
                    continue;
                }
                return layer;
            }
            match outer::look(self.seen()) {
                Inside::Roce { end } => {
                    // Mirrors and tools cut frames without a word.
                    let end = self.start + end.min(usize::from(u16::MAX));
                    if self.bytes.len() < end {
                        self.bytes.resize(end, 0);
                    }
                    return Layer::Hosts;
                }
                Inside::Frame(outer, at) => {
                    self.outers.push(outer);
                    self.start += at;
                }
                Inside::Packet(outer, at, ethertype) => {
                    self.outers.push(outer);
                    // In place of the end of the headers before.
                    let ip = self.start + at;
                    self.start = ip - ETHER_LEN;
                    if ip <= self.captured {
                        self.bytes[self.start..ip - 2].fill(0);
                        self.bytes[ip - 2..ip].copy_from_slice(&ethertype.to_be_bytes());
                    }
                }
                Inside::Cut => return Layer::Cut,
                Inside::Unread => return Layer::Unread,
                Inside::Other => return Layer::Other,
            }
            if self.start >= self.captured {
                self.start = self.bytes.len().min(self.start);
                return Layer::Cut;
            }
        }
        Layer::Unread
    }

    /// Removes the headers of the tunnel; `None` if there are none.
    fn unwrap(&mut self, Place { at, addresses_before }: Place) -> Option<Layer> {
        let (before, at) = (self.start, self.start + at);
        let captured = &self.bytes[at.min(self.captured)..self.captured];
        match Shim::read(captured) {
            Ok(Content::Frame(shim)) => {
                self.start = at + shim.wire_len();
                if addresses_before {
                    self.start -= MACS_LEN;
                    self.bytes.copy_within(before..before + MACS_LEN, self.start);
                }
                self.start = self.start.min(self.captured);
                self.tunnelled = Some(shim.original.is_some() || self.tunnelled == Some(true));
                Some(Layer::Hosts)
            }
            Ok(Content::Repair(_) | Content::Control) => Some(Layer::Message),
            Err(Fault::Truncated) => Some(Layer::Cut),
            Err(_) => None,
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
            assert_eq!(layer, Layer::Other);
            assert_eq!(peeled.frame()[12..14], [8, 0], "{link:?}");
            assert_eq!(peeled.frame()[14..74], packet[..]);
            assert_eq!((peeled.frame().len(), peeled.captured()), (79, 74));
        }
    }
}
