//! Bit errors.

use core::ops::Range;

use arrayvec::ArrayVec;
use common::wire::{self, Roce};

use crate::config::{Corruption, CorruptionScope};
use crate::dice::Dice;

/// Most bits flipped in a frame.
const MAX_BITS: usize = 8;
const ETHERNET_HEADER: usize = 14;

/// Flips bits of `frame` according to `how`; false if `how` excludes all of its bytes.
pub(crate) fn corrupt(frame: &mut [u8], how: &Corruption, dice: &mut Dice) -> bool {
    let roce = match how.scope {
        CorruptionScope::Protected => wire::parse(frame).ok(),
        CorruptionScope::Every => None,
    };
    let range = match (how.scope, &roce) {
        (CorruptionScope::Every, _) => 0..frame.len(),
        (_, Some(roce)) => usize::from(roce.l3)..usize::from(roce.end),
        (_, None) => ETHERNET_HEADER..frame.len(),
    };
    if range.is_empty() {
        return false;
    }
    let mut flipped = ArrayVec::<usize, MAX_BITS>::new();
    let wanted = usize::from(how.bits).min(MAX_BITS).min(range.len());
    while flipped.len() < wanted {
        let bit = draw_bit(&range, roce.as_ref(), dice);
        if !flipped.contains(&bit) {
            flipped.push(bit);
        }
    }
    for bit in flipped {
        frame[bit / 8] ^= 1 << (bit % 8);
    }
    true
}

/// A bit of `range`, not in a byte that the ICRC leaves out. Those are a
/// handful among more than forty, so drawing again ends soon.
fn draw_bit(range: &Range<usize>, roce: Option<&Roce>, dice: &mut Dice) -> usize {
    loop {
        let bits = 8 * range.len() as u64;
        let bit = 8 * range.start + dice.up_to(bits - 1) as usize;
        if roce.is_none_or(|r| !outside_icrc(r, bit / 8)) {
            return bit;
        }
    }
}

/// Whether the ICRC does not cover byte `at`: the header fields that
/// routers and switches rewrite (InfiniBand Annex A17, "ICRC").
fn outside_icrc(roce: &Roce, at: usize) -> bool {
    let (l3, l4, bth) = (usize::from(roce.l3), usize::from(roce.l4), usize::from(roce.bth));
    let ip = if roce.src.is_v4() {
        // Type of service, time to live, header checksum.
        [l3 + 1, l3 + 8, l3 + 10, l3 + 11].contains(&at)
    } else {
        // Traffic class and flow label (with the version in the same byte), hop limit.
        (l3..l3 + 4).contains(&at) || at == l3 + 7
    };
    let udp_checksum = at == l4 + 6 || at == l4 + 7;
    let fecn_becn = at == bth + 4;
    ip || udp_checksum || fecn_becn
}
