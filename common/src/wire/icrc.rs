//! The invariant CRC, which only the two hosts check and renew.

use std::sync::LazyLock;

use crc32fast::Hasher;

use super::parse::{IPV4_LEN, UDP_LEN};
use super::{Aeth, BTH_LEN, Roce};

/// CRC-32 of the eight bytes of ones that stand for the local route header,
/// which RoCEv2 doesn't have (A17).
const CRC_OF_ONES: u32 = 0x2144_df1c;

/// An IPv4 header without options, a UDP header, a BTH and an AETH: all of an ACK, and all that is masked of any other packet
/// over IPv4.
pub(super) const IPV4_ACK: usize = IPV4_LEN + UDP_LEN + BTH_LEN + Aeth::LEN;
/// So many of the eight ones go before these: together they are three blocks of the CRC, so that an ACK has no rest.
const ONES_BEFORE_ACK: usize = 4;
/// CRC-32 of the other ones.
const CRC_OF_OTHER_ONES: u32 = 0xffff_ffff;

/// Longest IPv4 header, UDP header and BTH up to its last masked byte.
const MAX_MASKED: usize = 60 + UDP_LEN + 5;
/// The masked headers go into the CRC in whole blocks.
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
    match frame[l3..end].split_first_chunk() {
        Some((head, rest)) if l4 - l3 == IPV4_LEN => over_ipv4(head, rest),
        _ => over_any(frame, l3, l4, end),
    }
}

/// The ICRC of a packet over IPv4 without options.
#[inline]
pub(super) fn over_ipv4(head: &[u8; IPV4_ACK], rest: &[u8]) -> u32 {
    const BTH: usize = IPV4_LEN + UDP_LEN;
    let mut buffer = [0xff; ONES_BEFORE_ACK + IPV4_ACK];
    if let Some(masked) = buffer.last_chunk_mut::<IPV4_ACK>() {
        *masked = *head;
        for at in [1, 8, 10, 11, IPV4_LEN + 6, IPV4_LEN + 7, BTH + 4] {
            masked[at] = 0xff;
        }
    }
    let mut crc = AFTER_OTHER_ONES.clone();
    crc.update(&buffer);
    if !rest.is_empty() {
        crc.update(rest);
    }
    crc.finalize()
}

/// A CRC of the ones that are not in the buffer of [`over_ipv4`]. To make one asks the processor what it can do.
static AFTER_OTHER_ONES: LazyLock<Hasher> =
    LazyLock::new(|| Hasher::new_with_initial(CRC_OF_OTHER_ONES));

/// The ICRC of any packet.
fn over_any(frame: &[u8], l3: usize, l4: usize, end: usize) -> u32 {
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

    let mut crc = Hasher::new_with_initial(CRC_OF_ONES);
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
    use proptest::prelude::*;

    #[test]
    fn seeds() {
        assert_eq!(crc32fast::hash(&[0xff; 8]), CRC_OF_ONES);
        assert_eq!(crc32fast::hash(&[0xff; 8 - ONES_BEFORE_ACK]), CRC_OF_OTHER_ONES);
    }

    proptest! {
        /// The short way over IPv4 has the result of the general one, whatever the bytes.
        #[test]
        fn ipv4_is_no_exception(bytes in proptest::collection::vec(any::<u8>(), 44..200), l3 in 0..20_usize) {
            let mut frame = vec![0; l3];
            frame.extend(bytes);
            frame[l3] = 0x45;
            let (l4, end) = (l3 + IPV4_LEN, frame.len());
            prop_assert_eq!(over(&frame, l3, l4, end), over_any(&frame, l3, l4, end));
        }
    }
}
