//! A short look at a frame, for those who let most frames pass.

use crate::control::MAGIC;

use super::{Addr, Aeth, AethKind, BTH_LEN, Opcode, PacketKind, ROCE_PORT, Transport, be16, ether};

const UDP: u8 = 17;
const UDP_LEN: usize = 8;
/// IPv4 "more fragments" and fragment offset.
const FRAGMENT: u16 = 0x3fff;

/// What [`glance`] sees of a RoCEv2 frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glance {
    /// Its opcode.
    pub opcode: Opcode,
    /// Whether it is a NAK of the code PSN sequence error: its sender has lost a request.
    pub is_loss_nak: bool,
    /// Whether a gateway's message may follow its BTH, which only a look at the opcode can tell.
    pub is_message: bool,
    /// [`host_pair`] of its addresses.
    pub hosts: u32,
}

/// Looks at the opcode and the syndrome of a RoCEv2 frame; `None` if it is another frame. Fields are found
/// and not checked: [`parse`](super::parse) may still refuse the frame.
#[inline]
pub fn glance(frame: &[u8]) -> Option<Glance> {
    let (l3, ethertype, _) = ether::parse(frame)?;
    let (udp, hosts) = match ethertype {
        ether::IPV4 => {
            let header = frame.get(l3..)?.first_chunk::<20>()?;
            let is_udp = header[9] == UDP && be16(header, 6) & FRAGMENT == 0;
            let hash = |at| spread(word(header, at) ^ V4_WORDS);
            let hosts = hash(12).wrapping_add(hash(16));
            (is_udp.then_some(l3 + usize::from(header[0] & 15) * 4)?, hosts)
        }
        ether::IPV6 => {
            let header = frame.get(l3..)?.first_chunk::<40>()?;
            let hash = |at| spread(fold(&header[at..at + 16]));
            let hosts = hash(8).wrapping_add(hash(24));
            ((header[6] == UDP).then_some(l3 + 40)?, hosts)
        }
        _ => return None,
    };
    let bth = frame.get(udp + UDP_LEN..)?;
    if bth.len() < BTH_LEN || be16(frame, udp + 2) != ROCE_PORT {
        return None;
    }
    let opcode = Opcode(bth[0]);
    let is_ack = opcode.transport() == Transport::Rc && opcode.kind() == PacketKind::Ack;
    let aeth = bth[BTH_LEN..].first_chunk().filter(|_| is_ack).map(Aeth::from_bytes);
    let is_loss_nak = aeth.is_some_and(|aeth| aeth.kind() == AethKind::Nak { code: 0 });
    let is_message = bth[BTH_LEN..].starts_with(&MAGIC);
    Some(Glance { opcode, is_loss_nak, is_message, hosts })
}

/// A hash of two hosts, in either order.
pub fn host_pair(a: Addr, b: Addr) -> u32 {
    let [a, b] = [a, b].map(|addr| spread(fold(addr.as_bytes())));
    a.wrapping_add(b)
}

/// The exclusive or of the words before an IPv4 address that is mapped into IPv6.
const V4_WORDS: u32 = 0xffff;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

/// The exclusive or of an address's words.
fn fold(address: &[u8]) -> u32 {
    (0..address.len()).step_by(4).fold(0, |sum, at| sum ^ word(address, at))
}

/// Spreads the bits of a word (Fibonacci hashing).
fn spread(word: u32) -> u32 {
    let hash = (word ^ word >> 16).wrapping_mul(0x9e37_79b1);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roce(src: u8, dst: u8, opcode: u8, syndrome: u8) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, UDP, 0, 0]);
        frame.extend([10, 0, 0, src, 10, 0, 0, dst]);
        frame.extend([0xc0, 0, 0x12, 0xb7, 0, 40, 0, 0]);
        frame.extend([opcode, 0, 0xff, 0xff, 0, 0, 0, 7, 0, 0, 0, 9]);
        frame.extend([syndrome, 0, 0, 1, 5, 5, 5, 5]);
        frame
    }

    #[test]
    fn only_a_sequence_error_tells_of_a_loss() {
        let naks = |opcode, syndrome| glance(&roce(1, 2, opcode, syndrome)).unwrap().is_loss_nak;
        assert!(naks(0x11, 0x60));
        // ACK, RNR NAK, a fatal NAK, and the same byte in other packets: a WRITE, an ACK of UC's kind.
        for (opcode, syndrome) in
            [(0x11, 0x1f), (0x11, 0x20), (0x11, 0x61), (0x0a, 0x60), (0x31, 0x60)]
        {
            assert!(!naks(opcode, syndrome), "{opcode:#x} {syndrome:#x}");
        }
    }

    #[test]
    fn both_directions_have_the_same_hosts() {
        let hosts = |src, dst| glance(&roce(src, dst, 4, 0)).unwrap().hosts;
        assert_eq!(hosts(1, 2), hosts(2, 1));
        assert_ne!(hosts(1, 2), hosts(1, 3));
        let [a, b] = [1, 2].map(|n| Addr::from_v4([10, 0, 0, n]));
        assert_eq!(hosts(1, 2), host_pair(b, a));
    }

    #[test]
    fn other_frames_are_none_of_them_and_any_may_end_anywhere() {
        let whole = roce(1, 2, 0x11, 0x60);
        for (at, byte) in [(12, 0x86), (23, 6), (20, 0x20), (37, 0xb8)] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(glance(&other), None, "{at}");
        }
        for len in 0..whole.len() {
            let seen = glance(&whole[..len]);
            assert_eq!(seen.is_some(), len >= 54, "{len}");
        }
    }
}
