//! Instructions of the processor that the language has no expression for.

/// A hint that memory at `place` will soon be read. Unlike a read it does not wait for it.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(place);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Which of these bytes are `byte`: a bit each, the lowest for the first one.
#[inline(always)]
pub fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use safe_arch::{cmp_eq_mask_i8_m128i, m128i, move_mask_i8_m128i};
        let equal = cmp_eq_mask_i8_m128i(m128i::from(*bytes), m128i::from([byte; 16]));
        // A bit for each of the 16 bytes.
        move_mask_i8_m128i(equal).cast_unsigned()
    }
    #[cfg(not(target_arch = "x86_64"))]
    bytes.iter().rev().fold(0, |mask, other| mask << 1 | u32::from(*other == byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_byte_is_compared(bytes: [u8; 16], byte in 0..4_u8, places: u16) {
            let mut bytes = bytes;
            (0..16).filter(|n| places >> n & 1 != 0).for_each(|n| bytes[n] = byte);
            let found = equal_bytes(&bytes, byte);
            let expected = bytes.iter().enumerate().filter(|(_, other)| **other == byte);
            prop_assert_eq!(found, expected.map(|(n, _)| 1 << n).sum::<u32>());
        }
    }
}
