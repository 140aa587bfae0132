//! A positive ACK: the response that nearly all are.

use super::icrc::{IPV4_ACK, over_ipv4};
use super::{Aeth, ICRC_LEN, Look, Response, Roce, Verdict, icrc_ok};
use crate::psn::Psn;

/// A positive ACK with a right ICRC: everything up to and including its PSN has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// PSN of its BTH.
    pub psn: Psn,
    /// MSN of its AETH.
    pub msn: u32,
    /// The credits that it gives, as its AETH's syndrome has them.
    pub credits: u8,
}

impl Ack {
    /// A packet over IPv4 without VLAN tags and IP options, with the opcode of an ACK; `None` if it is no positive ACK, has
    /// more than that, or is damaged.
    #[inline]
    pub fn of_ipv4(look: &Look, frame: &[u8]) -> Option<Self> {
        let bytes = frame.get(usize::from(look.l3)..usize::from(look.end))?;
        let (head, stored) = bytes.split_first_chunk::<IPV4_ACK>()?;
        let aeth = Aeth::from_bytes(head.last_chunk()?);
        let stored: [u8; ICRC_LEN] = stored.try_into().ok()?;
        let is_right = aeth.is_ack() && over_ipv4(head, &[]).to_le_bytes() == stored;
        is_right.then_some(Self { psn: look.psn, msn: aeth.msn, credits: aeth.syndrome })
    }

    /// The same for any packet.
    pub fn of(roce: &Roce, frame: &[u8]) -> Option<Self> {
        let Response { verdict, psn, msn, credits } = Response::of(roce, frame)?;
        let ack = Self { psn, msn: msn?, credits: credits? };
        (verdict == Verdict::Acknowledged && icrc_ok(frame, roce)).then_some(ack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Bth, Headers, Looked, Opcode, Qpn, Vlans, look, parse};
    use proptest::prelude::*;

    proptest! {
        /// Of an ACK over IPv4 both are the same, whatever became of it on its way.
        #[test]
        fn a_look_is_enough(
            syndrome: u8, msn in 0..1_u32 << 24, more in 0..3_usize, changes in proptest::collection::vec((14..66_usize, any::<u8>()), 0..2),
        ) {
            let ip = |last| std::net::IpAddr::from([10, 0, 0, last]);
            let headers = Headers::new([2; 6], [4; 6], Vlans::NONE, ip(1), ip(2), 0xc001, 0, 64);
            let bth = Bth::new(Opcode::ACK, Qpn::new(9), Psn::new(7));
            let aeth = Aeth { syndrome, msn };
            let mut frame = vec![0; headers.frame_len(Aeth::LEN + 4 * more)];
            headers.emit(&bth, &mut frame, |body| body[..Aeth::LEN].copy_from_slice(&aeth.to_bytes()));
            for (at, value) in changes.into_iter().filter(|(at, _)| *at < 62) {
                frame[at] = value;
            }
            let Looked::Ipv4(_, look) = look(&frame) else { return Ok(()) };
            if look.opcode != Opcode::ACK {
                return Ok(());
            }
            let ack = Ack::of(&parse(&frame).expect("RoCEv2"), &frame);
            // One that is longer than an ACK is left to the general way.
            prop_assert_eq!(Ack::of_ipv4(&look, &frame), ack.filter(|_| look.end == 14 + 48));
        }
    }

    #[test]
    fn only_a_positive_one_counts() {
        let ip = |last| std::net::IpAddr::from([10, 0, 0, last]);
        let headers = Headers::new([2; 6], [4; 6], Vlans::NONE, ip(1), ip(2), 0xc001, 0, 64);
        let mut frame = vec![0; headers.frame_len(Aeth::LEN)];
        for (syndrome, is_ack) in [
            (Aeth::ACK_UNLIMITED, true),
            (3, true),
            (Aeth::RNR, false),
            (Aeth::NAK_PSN_SEQUENCE, false),
        ] {
            headers.emit_ack(Qpn::new(9), Psn::new(7), Aeth { syndrome, msn: 5 }, &mut frame);
            let Looked::Ipv4(_, look) = look(&frame) else { panic!("IPv4") };
            let ack = Ack { psn: Psn::new(7), msn: 5, credits: syndrome };
            assert_eq!(Ack::of_ipv4(&look, &frame), is_ack.then_some(ack));
            frame[50] ^= 1;
            assert_eq!(Ack::of_ipv4(&look, &frame), None, "damaged");
        }
    }
}
