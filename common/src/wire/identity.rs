//! The identity of a packet among others with the same PSN.

use super::bth::ACK_REQ;
use super::{BTH_LEN, ICRC_LEN, Roce};

/// Offset of the identification in an IPv4 header.
const IP_ID: usize = 4;

/// The ICRC of a packet, and the IPv4 identification that it covers: a source may count that
/// up with every copy of a packet that it sends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Identity {
    icrc: [u8; ICRC_LEN],
    ip_id: [u8; 2],
}

impl Identity {
    /// That of a frame, as it stands there: whether the ICRC is right is not looked at. Zero
    /// if `frame` is shorter than the one that `roce` was parsed from.
    #[inline]
    pub fn of(frame: &[u8], roce: &Roce) -> Self {
        Self::within(frame, roce.l3, roce.end)
    }

    /// The same, by the offset of the IP header and of the end of the ICRC.
    #[inline]
    pub fn within(frame: &[u8], l3: u16, end: u16) -> Self {
        // Over IPv6 these bytes are part of the length, which is the same
        // in every copy.
        match frame.get(usize::from(l3)..usize::from(end)) {
            Some(&[_, _, _, _, high, low, .., a, b, c, d]) => {
                Self { icrc: [a, b, c, d], ip_id: [high, low] }
            }
            _ => Self::none(),
        }
    }

    #[cold]
    fn none() -> Self {
        Self::default()
    }

    /// Whether `other` is of the same packet as this, which is that of `roce`: they may
    /// differ in the IPv4 identification and in whether an ACK is asked for. Both ICRCs
    /// must be right.
    pub fn is_copy(self, other: Self, roce: &Roce) -> bool {
        if self == other {
            return true;
        }
        let end = roce.icrc_at();
        let id = usize::from(roce.l3) + IP_ID;
        let expected = effect(&self.ip_id, &other.ip_id, end - id);
        let flags = usize::from(roce.bth) + BTH_LEN - 4;
        let [icrc, other] = [self.icrc, other.icrc].map(u32::from_le_bytes);
        let difference = icrc ^ other;
        difference == expected || difference == expected ^ effect(&[ACK_REQ], &[0], end - flags)
    }
}

/// How the CRCs of two packets differ that are the same but for `a` and `b`, which begin
/// `to_end` bytes before their end: a CRC is linear.
fn effect(a: &[u8], b: &[u8], to_end: usize) -> u32 {
    let difference = crc32fast::hash(a) ^ crc32fast::hash(b);
    let mut crc = crc32fast::Hasher::new_with_initial_len(difference, a.len() as u64);
    // As if the rest were all zero, with a CRC of zero.
    crc.combine(&crc32fast::Hasher::new_with_initial_len(0, (to_end - a.len()) as u64));
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::psn::Psn;
    use crate::wire::{Bth, Headers, Opcode, Qpn, Vlans, parse};

    proptest! {
        /// Copies of a packet are known as such, and any other bit makes another packet.
        #[test]
        fn copies_are_known(
            v4: bool, ids: [u16; 2], ack_reqs: [bool; 2], len in (1usize..300).prop_map(|n| n * 4),
            flip: proptest::sample::Index, bit in 0..8u8,
        ) {
            let ip = |last: u8| -> IpAddr {
                if v4 { [10, 0, 0, last].into() } else { [0xfd00, 0, 0, 0, 0, 0, 0, last.into()].into() }
            };
            let copy = |n: usize, flip: Option<usize>| {
                let mut headers = Headers::new([2; 6], [4; 6], Vlans::new(7, 0), ip(1), ip(2), 0xc001, 0x68, 64);
                headers.set_ip_id(ids[n]);
                let bth = Bth { ack_req: ack_reqs[n], ..Bth::new(Opcode::SEND_MIDDLE, Qpn::new(9), Psn::new(7)) };
                let mut frame = vec![0; headers.frame_len(len)];
                headers.emit(&bth, &mut frame, |body| {
                    body.fill(3);
                    if let Some(at) = flip {
                        body[at] ^= 1 << bit;
                    }
                });
                let roce = parse(&frame).unwrap();
                (Identity::of(&frame, &roce), roce)
            };
            let (first, _) = copy(0, None);
            let (second, roce) = copy(1, None);
            prop_assert!(first.is_copy(second, &roce));
            let (other, roce) = copy(1, Some(flip.index(len)));
            prop_assert!(!first.is_copy(other, &roce));
        }
    }

    #[test]
    fn a_short_frame_has_none() {
        let headers = Headers::new(
            [2; 6],
            [4; 6],
            Vlans::NONE,
            [10, 0, 0, 1].into(),
            [10, 0, 0, 2].into(),
            1,
            0,
            64,
        );
        let mut frame = vec![0; headers.frame_len(0)];
        headers.emit(&Bth::new(Opcode::SEND_MIDDLE, Qpn::new(9), Psn::new(7)), &mut frame, |_| {});
        let roce = parse(&frame).unwrap();
        assert_eq!(Identity::of(&frame[..20], &roce), Identity::default());
    }
}
