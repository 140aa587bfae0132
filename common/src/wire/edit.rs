//! The changes that boxes make to packets of the hosts.

use super::bth::{ACK_REQ, SWITCH};
use super::{BTH_LEN, ICRC_LEN, Roce, be16, icrc, icrc_ok};

/// Offset of the checksum in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;
/// Offset of the checksum in a UDP header.
const UDP_CHECKSUM: usize = 6;

/// Makes a request ask for an ACK. Its ICRC is made anew, but only if it was
/// right: an error that was there stays detectable. False, and nothing is
/// changed, if it was not, or if `frame` is not the one that `roce` was parsed
/// from.
pub fn request_ack(frame: &mut [u8], roce: &Roce) -> bool {
    if !icrc_ok(frame, roce) {
        return false;
    }
    let (flags, crc) = (flags_at(roce), roce.icrc_at());
    // The words that change; they lie at even offsets of the UDP packet.
    let words = [flags, crc, crc + 2];
    let old = words.map(|at| be16(frame, at));
    frame[flags] |= ACK_REQ;
    let new_crc = icrc(frame, roce).to_le_bytes();
    frame[crc..crc + ICRC_LEN].copy_from_slice(&new_crc);
    let checksum = usize::from(roce.l4) + UDP_CHECKSUM;
    if be16(frame, checksum) != 0 {
        let mut sum = u32::from(!be16(frame, checksum));
        for (at, old) in words.into_iter().zip(old) {
            // RFC 1624.
            sum += u32::from(!old) + u32::from(be16(frame, at));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        // Zero would mean: none.
        let sum = !(sum as u16);
        let sum = if sum == 0 { 0xffff } else { sum };
        frame[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
    }
    true
}

/// Whether the first reserved bit behind AckReq is set. RNICs send zero and
/// ignore it. In LR2 as published, whose RNICs are modified, it marks a switch's
/// NAK, which acknowledges nothing, and the repeats that such a NAK asked for.
/// [`Headers::set_switch_bit`](super::Headers::set_switch_bit) makes packets with it. False if `frame` is shorter than the one that
/// `roce` was parsed from.
pub fn has_switch_bit(frame: &[u8], roce: &Roce) -> bool {
    frame.get(flags_at(roce)).is_some_and(|flags| flags & SWITCH != 0)
}

/// Offset of the byte before the PSN.
fn flags_at(roce: &Roce) -> usize {
    usize::from(roce.bth) + BTH_LEN - 4
}

/// Marks a RoCE frame as having met congestion (ECN field 11, RFC 3168). The
/// IPv4 header checksum is patched; the ICRC does not cover the field.
pub fn mark_congestion(frame: &mut [u8], roce: &Roce) {
    mark_congestion_at(frame, usize::from(roce.l3));
}

/// Sets the ECN field of the IP header at `l3` to "congestion experienced".
///
/// # Panics
/// If the frame ends within the header.
pub fn mark_congestion_at(frame: &mut [u8], l3: usize) {
    const CE: u8 = 3;
    if frame[l3] >> 4 != 4 {
        // The traffic class lies across the first two bytes.
        frame[l3 + 1] |= CE << 4;
        return;
    }
    let old = be16(frame, l3);
    frame[l3 + 1] |= CE;
    let checksum = l3 + IPV4_CHECKSUM;
    // RFC 1624, equation 3.
    let sum = u32::from(!be16(frame, checksum)) + u32::from(!old) + u32::from(be16(frame, l3));
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::psn::Psn;
    use crate::wire::{Bth, Headers, Opcode, Qpn, Vlans, parse};
    use proptest::prelude::*;
    use std::net::IpAddr;

    /// The UDP checksum of a frame from scratch.
    fn checksum(frame: &[u8], roce: &Roce) -> u16 {
        let udp = &frame[usize::from(roce.l4)..usize::from(roce.end)];
        let addresses = [roce.src, roce.dst].map(|addr| match addr.to_ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        });
        let mut words: Vec<u8> = addresses.concat();
        words.extend([0, 17]);
        words.extend((udp.len() as u16).to_be_bytes());
        words.extend(&udp[..UDP_CHECKSUM]);
        words.extend(&udp[UDP_CHECKSUM + 2..]);
        let sum: u64 =
            words.chunks(2).map(|w| u64::from(be16(&[w[0], *w.get(1).unwrap_or(&0)], 0))).sum();
        !((sum % 0xffff) as u16)
    }

    proptest! {
        #[test]
        fn a_mark_is_seen_and_the_sums_stay_right(v4 in any::<bool>(), tos: u8, id: u16) {
            let ip = |last: u8| -> IpAddr {
                if v4 { [10, 0, 0, last].into() } else { [0xfd00, 0, 0, 0, 0, 0, 0, last.into()].into() }
            };
            let mut headers = Headers::new([2; 6], [4; 6], Vlans::new(0, 0), ip(1), ip(2), 0xc001, tos, 64);
            headers.set_ip_id(id);
            let mut frame = vec![0; headers.frame_len(64)];
            headers.emit(&Bth::new(Opcode::SEND_MIDDLE, Qpn::new(9), Psn::new(5)), &mut frame, |body| body.fill(3));
            let roce = parse(&frame).unwrap();
            mark_congestion(&mut frame, &roce);
            let after = parse(&frame).unwrap();
            prop_assert_eq!(after, Roce { ecn: 3, ..roce });
            prop_assert!(icrc_ok(&frame, &after));
            headers.set_tos(tos | 3);
            let mut anew = vec![0; frame.len()];
            headers.emit(&Bth::new(Opcode::SEND_MIDDLE, Qpn::new(9), Psn::new(5)), &mut anew, |body| body.fill(3));
            prop_assert_eq!(frame, anew);
        }

        #[test]
        fn only_the_bit_and_the_sums_change(
            v4 in any::<bool>(), len in (0usize..300).prop_map(|n| n * 4), fill: u8, with_checksum: bool, psn in 0..Psn::MODULUS,
        ) {
            let ip = |last: u8| -> IpAddr {
                if v4 { [10, 0, 0, last].into() } else { [0xfd00, 0, 0, 0, 0, 0, 0, last.into()].into() }
            };
            let headers = Headers::new([2; 6], [4; 6], Vlans::new(7, 0), ip(1), ip(2), 0xc001, 0x68, 64);
            let mut frame = vec![0; headers.frame_len(len)];
            headers.emit(&Bth::new(Opcode::SEND_MIDDLE, Qpn::new(9), Psn::new(psn)), &mut frame, |body| body.fill(fill));
            let roce = parse(&frame).unwrap();
            let at = usize::from(roce.l4) + UDP_CHECKSUM;
            if with_checksum {
                let sum = checksum(&frame, &roce);
                frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            }
            let before = frame.clone();
            prop_assert!(request_ack(&mut frame, &roce));
            let after = parse(&frame).unwrap();
            prop_assert!(icrc_ok(&frame, &after));
            prop_assert_eq!(after, Roce { ack_req: true, ..roce });
            if with_checksum {
                // Both zeros of ones' complement are the same.
                prop_assert_eq!(be16(&frame, at) % 0xffff, checksum(&frame, &after) % 0xffff);
            } else {
                prop_assert_eq!(be16(&frame, at), 0);
            }
            let crc = roce.icrc_at();
            let changed: Vec<usize> = (0..crc).filter(|&i| frame[i] != before[i] && !(at..at + 2).contains(&i)).collect();
            prop_assert_eq!(changed, [usize::from(roce.bth) + 8]);

            let mut damaged = before.clone();
            damaged[crc - 1] ^= 1;
            let unchanged = damaged.clone();
            if len > 0 {
                prop_assert!(!request_ack(&mut damaged, &roce));
                prop_assert_eq!(damaged, unchanged);
            }
        }
    }
}
