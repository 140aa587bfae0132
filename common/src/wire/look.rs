//! A look at the headers of a frame that is to be forwarded: the few fields that nearly all need.

use super::parse::{Usual, parse_any, path_mtu};
use super::{NotRoce, Opcode, Qpn, Roce};
use crate::psn::Psn;

/// Offset of the addresses in an IPv4 header.
const ADDRESSES: usize = 12;

/// The fields of a RoCEv2 packet that its flow needs if it is the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Packet sequence number.
    pub psn: Psn,
    /// Offset of the IP header.
    pub l3: u16,
    /// One past the ICRC.
    pub end: u16,
    /// Bytes of payload.
    pub payload: u16,
    /// The opcode.
    pub opcode: Opcode,
    /// The AckReq bit of the BTH.
    pub ack_req: bool,
}

impl Look {
    /// The path MTU, if the packet tells it: see [`Roce::path_mtu`].
    #[inline]
    pub const fn path_mtu(&self) -> Option<u16> {
        path_mtu(self.opcode, self.payload as usize)
    }
}

impl From<&Roce> for Look {
    #[inline]
    fn from(roce: &Roce) -> Self {
        Self {
            psn: roce.psn,
            l3: roce.l3,
            end: roce.end,
            // Both ends of it are 16 bits.
            payload: roce.payload_len() as u16,
            opcode: roce.opcode,
            ack_req: roce.ack_req,
        }
    }
}

/// The flow of a RoCEv2 packet over IPv4 without VLAN tags and IP options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4Flow {
    /// Source and destination address, as they stand in the header: the first byte is the lowest.
    pub hosts: u64,
    /// QP at the destination.
    pub dest_qpn: Qpn,
}

/// The result of a [`look`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looked {
    /// A packet as nearly all are. [`parse`](super::parse) accepts it.
    Ipv4(Ipv4Flow, Look),
    /// Any other frame, which was parsed.
    Other(Result<Roce, NotRoce>),
}

/// Looks at a frame, as [`parse`](super::parse) does, but reads few fields of nearly all.
#[inline(always)]
pub fn look(frame: &[u8]) -> Looked {
    let Some(usual) = Usual::of(frame) else { return Looked::Other(parse_any(frame)) };
    let Usual { head, bth, end, .. } = &usual;
    let addresses = head[Usual::L3 + ADDRESSES..].first_chunk().copied().unwrap_or_default();
    let flow = Ipv4Flow { hosts: u64::from_le_bytes(addresses), dest_qpn: bth.dest_qpn };
    // Neither end nor payload is longer than 64 KiB.
    let look = Look {
        psn: bth.psn,
        l3: Usual::L3 as u16,
        end: *end as u16,
        payload: usual.payload_len() as u16,
        opcode: bth.opcode,
        ack_req: bth.ack_req,
    };
    Looked::Ipv4(flow, look)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Addr, Bth, Headers, Vlans, parse};
    use proptest::prelude::*;
    use std::net::IpAddr;

    proptest! {
        /// A look sees what [`parse`] does, whatever the frame.
        #[test]
        fn a_look_agrees_with_parse(
            v4: bool, vlan in 0..3_u16, opcode: u8, len in 0..5_usize,
            changes in proptest::collection::vec((0..70_usize, any::<u8>()), 0..3),
            cut in 0..100_usize,
        ) {
            let ip = |last: u8| -> IpAddr {
                if v4 { [10, 0, 0, last].into() } else { [0xfd00, 0, 0, 0, 0, 0, 0, last.into()].into() }
            };
            let headers =
                Headers::new([2; 6], [4; 6], Vlans::new(vlan, 0), ip(1), ip(2), 0xc001, 0, 64);
            let bth = Bth::new(Opcode(opcode), Qpn::new(9), Psn::new(7));
            let mut frame = vec![0; headers.frame_len(256 << len)];
            headers.emit(&bth, &mut frame, |body| body.fill(3));
            for (at, value) in changes {
                frame[at] = value;
            }
            frame.truncate(frame.len() - cut.saturating_sub(90));
            match look(&frame) {
                Looked::Other(parsed) => prop_assert_eq!(parsed, parse(&frame)),
                Looked::Ipv4(flow, look) => {
                    let roce = parse(&frame).expect("RoCEv2");
                    prop_assert_eq!(look, Look::from(&roce));
                    prop_assert_eq!(look.path_mtu(), roce.path_mtu());
                    let hosts = flow.hosts.to_le_bytes();
                    let addr = |at: usize| Addr::from_v4([0, 1, 2, 3].map(|n| hosts[at + n]));
                    prop_assert_eq!((addr(0), addr(4)), (roce.src, roce.dst));
                    prop_assert_eq!((flow.dest_qpn, roce.vlans), (roce.dest_qpn, Vlans::NONE));
                }
            }
        }
    }
}
