//! Congestion marks of the outer header on the frame within (RFC 6040).

use common::wire::network;

const CE: u8 = 3;
const ECT_1: u8 = 1;

/// The ECN field of the outer header for an inner one: the same, in RFC 6040's normal mode.
pub const fn outer(traffic_class: u8) -> u8 {
    traffic_class & 3
}

/// The congestion that a frame met between the boxes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// No congestion.
    Nothing,
    /// Congestion, which the frame says from now on.
    Congestion,
    /// Congestion, and its hosts don't know marks: it is to be dropped.
    CongestionUnmarkable,
}

/// Combines the ECN field of the outer header with that of the frame within. R-TUN-22
#[inline]
pub fn decapsulate(frame: &mut [u8], outer: u8) -> Met {
    if !changes(outer) {
        return Met::Nothing;
    }
    let fields = match network(frame) {
        Some((l3, 0x0800)) => v4(frame, l3, outer),
        Some((l3, 0x86dd)) => v6(frame, l3, outer),
        _ => None,
    };
    match fields {
        None if outer == CE => Met::CongestionUnmarkable,
        Some((old, CE)) if old != CE => Met::Congestion,
        _ => Met::Nothing,
    }
}

/// Whether this outer field may change the inner one.
pub const fn changes(outer: u8) -> bool {
    matches!(outer, CE | ECT_1)
}

/// The new field; `None`: drop.
const fn combined(inner: u8, outer: u8) -> Option<u8> {
    match (inner, outer) {
        (0, CE) => None,
        (0, _) => Some(0),
        (CE, _) | (_, CE) => Some(CE),
        (_, ECT_1) => Some(ECT_1),
        (inner, _) => Some(inner),
    }
}

/// The fields before and after; `None` if there is none.
fn v4(frame: &mut [u8], l3: usize, outer: u8) -> Option<(u8, u8)> {
    let ip = frame.get_mut(l3..)?.first_chunk_mut::<20>()?;
    let inner = ip[1] & 3;
    let ecn = combined(inner, outer)?;
    let old = u16::from_be_bytes([ip[0], ip[1]]);
    ip[1] = ip[1] & !3 | ecn;
    let new = u16::from_be_bytes([ip[0], ip[1]]);
    if new != old {
        // RFC 1624, equation 3.
        let checksum = u16::from_be_bytes([ip[10], ip[11]]);
        let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
    Some((inner, ecn))
}

fn v6(frame: &mut [u8], l3: usize, outer: u8) -> Option<(u8, u8)> {
    let byte = frame.get_mut(l3 + 1)?;
    let inner = *byte >> 4 & 3;
    let ecn = combined(inner, outer)?;
    *byte = *byte & !0x30 | ecn << 4;
    Some((inner, ecn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::psn::Psn;
    use common::wire::{Bth, Headers, Opcode, Vlans, icrc_ok, parse};

    fn frame(v4: bool, ecn: u8) -> Vec<u8> {
        let ip = |last: u8| -> core::net::IpAddr {
            if v4 {
                [10, 0, 0, last].into()
            } else {
                [0xfd00, 0, 0, 0, 0, 0, 0, last.into()].into()
            }
        };
        let headers =
            Headers::new([2; 6], [4; 6], Vlans::new(7, 0), ip(1), ip(2), 0xc001, 0x68 | ecn, 64);
        let mut frame = vec![0; headers.frame_len(64)];
        let bth = Bth::new(Opcode::SEND_MIDDLE, common::wire::Qpn::new(9), Psn::new(5));
        headers.emit(&bth, &mut frame, |body| body.fill(3));
        frame
    }

    /// R-TUN-22: figure 4 of RFC 6040, by inner and outer field.
    #[test]
    fn marks_are_combined_as_rfc_6040_says() {
        let table = [
            [Some(0), Some(0), Some(0), None],
            [Some(1), Some(1), Some(1), Some(3)],
            [Some(2), Some(1), Some(2), Some(3)],
            [Some(3), Some(3), Some(3), Some(3)],
        ];
        for (inner, row) in table.into_iter().enumerate() {
            for (outer, expected) in row.into_iter().enumerate() {
                for is_v4 in [true, false] {
                    let mut bytes = frame(is_v4, inner as u8);
                    let met = match (expected, inner) {
                        (None, _) => Met::CongestionUnmarkable,
                        (Some(3), 1 | 2) => Met::Congestion,
                        _ => Met::Nothing,
                    };
                    assert_eq!(decapsulate(&mut bytes, outer as u8), met, "{inner} {outer}");
                    let Some(expected) = expected else { continue };
                    // Byte for byte as made with that mark: the checksum as well.
                    assert_eq!(bytes, frame(is_v4, expected), "{inner} {outer}");
                    assert!(icrc_ok(&bytes, &parse(&bytes).expect("RoCE")));
                }
            }
        }
    }

    /// R-TUN-22
    #[test]
    fn what_has_no_mark_is_dropped_if_it_met_congestion() {
        let mut arp = [[2; 12].as_slice(), &[8, 6], &[0; 28]].concat();
        assert_eq!(decapsulate(&mut arp, 1), Met::Nothing);
        assert_eq!(decapsulate(&mut arp, CE), Met::CongestionUnmarkable);
    }
}
