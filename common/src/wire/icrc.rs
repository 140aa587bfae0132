//! The invariant CRC, which only the two hosts check and renew.

use super::Roce;

/// CRC-32 of the eight bytes of ones that stand for the local route header,
/// which RoCEv2 doesn't have (A17).
const CRC_OF_ONES: u32 = 0x2144_df1c;

/// Longest IPv4 header, UDP header and BTH up to its last masked byte.
const MAX_MASKED: usize = 60 + 8 + 5;
/// In one go: the masked headers, in whole blocks of the CRC, and all of an ACK.
const BLOCK: usize = 16;

/// The correct ICRC of a packet.
///
/// It is a CRC-32 over the packet from the IP header on, with everything set to
/// ones that a router or switch may change: TTL or hop limit, ToS or traffic
/// class, flow label, IPv4 header checksum, UDP checksum, and of the BTH the
/// byte with FECN and BECN (A17). It is stored in little-endian order.
///
/// # Panics
/// If `frame` is shorter than the one that `roce` was parsed from.
pub fn icrc(frame: &[u8], roce: &Roce) -> u32 {
    over(frame, usize::from(roce.l3), usize::from(roce.l4), roce.icrc_at())
}

/// The ICRC of a packet whose headers start at `l3` and `l4`, and whose ICRC is
/// at `end`.
pub(super) fn over(frame: &[u8], l3: usize, l4: usize, end: usize) -> u32 {
    let bth = l4 + 8;
    let rest = (l3 + (bth + 5 - l3).next_multiple_of(BLOCK)).min(end);
    let mut buffer = [0; MAX_MASKED.next_multiple_of(BLOCK)];
    let masked = &mut buffer[..rest - l3];
    masked.copy_from_slice(&frame[l3..rest]);
    if masked[0] >> 4 == 4 {
        masked[1] = 0xff;
        masked[8] = 0xff;
        masked[10..12].fill(0xff);
    } else {
        masked[0] |= 0x0f;
        masked[1..4].fill(0xff);
        masked[7] = 0xff;
    }
    let udp_checksum = l4 - l3 + 6;
    masked[udp_checksum..udp_checksum + 2].fill(0xff);
    masked[bth - l3 + 4] = 0xff;

    let mut crc = crc32fast::Hasher::new_with_initial(CRC_OF_ONES);
    crc.update(masked);
    crc.update(&frame[rest..end]);
    crc.finalize()
}

/// Whether the packet's ICRC is right. `false` also if `frame` is shorter than
/// the one that `roce` was parsed from.
pub fn icrc_ok(frame: &[u8], roce: &Roce) -> bool {
    match frame.get(roce.icrc_at()..usize::from(roce.end)) {
        Some(stored) => stored == icrc(frame, roce).to_le_bytes(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed() {
        assert_eq!(crc32fast::hash(&[0xff; 8]), CRC_OF_ONES);
    }
}
