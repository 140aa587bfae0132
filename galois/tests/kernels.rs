//! Every kernel of this CPU against multiplication bit by bit.

use galois::{Kernel, POLYNOMIAL, inverse, mul};
use proptest::prelude::*;

/// `a` times `b`, from the definition: the product of two polynomials, and its remainder.
fn product(a: u8, b: u8) -> u8 {
    let mut product =
        (0..8).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u16::from(a) << bit);
    for bit in (8..15).rev() {
        if product >> bit & 1 == 1 {
            product ^= POLYNOMIAL << (bit - 8);
        }
    }
    u8::try_from(product).unwrap()
}

/// Bytes without a pattern that a kernel could follow by chance.
fn noise(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[1]
    };
    (0..len).map(step).collect()
}

/// What `kernel` makes of `bytes` and `sum`, and both are somewhere in memory.
fn check(kernel: Kernel, sum: &mut [u8], factor: u8, bytes: &[u8]) {
    let expected: Vec<u8> = sum
        .iter()
        .enumerate()
        .map(|(i, sum)| sum ^ product(factor, bytes.get(i).copied().unwrap_or(0)))
        .collect();
    kernel.mul_add(sum, factor, bytes);
    assert!(sum == expected, "{}, {} bytes, factor {factor}", kernel.name(), bytes.len());
}

#[test]
fn two_elements_have_the_product_of_the_definition() {
    for (a, b) in (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))) {
        assert_eq!(mul(a, b), product(a, b), "{a} times {b}");
    }
    // An example of FIPS 197.
    assert_eq!(mul(0x57, 0x83), 0xc1);
}

#[test]
fn each_element_but_zero_has_an_inverse() {
    assert_eq!(inverse(0), None);
    for a in 1..=255 {
        assert_eq!(mul(a, inverse(a).unwrap()), 1, "{a}");
    }
}

#[test]
fn every_kernel_multiplies_by_every_factor() {
    for kernel in Kernel::available() {
        for factor in 0..=255 {
            check(kernel, &mut noise(600, 1), factor, &noise(597, 2));
        }
    }
}

#[test]
fn every_kernel_takes_every_length_at_every_alignment() {
    for kernel in Kernel::available() {
        for len in 0..=600 {
            let (mut sums, all) = (noise(64 + 604, 3), noise(64 + 604, 4));
            for at in 0..64 {
                // Their alignments differ, and bytes of the sum follow.
                let to = (at * 7 + len) % 64;
                check(kernel, &mut sums[to..to + len + 4], 0x8e, &all[at..at + len]);
            }
        }
    }
}

#[test]
fn the_best_kernel_is_the_first_and_the_table_is_the_last() {
    let all: Vec<Kernel> = Kernel::available().collect();
    assert_eq!(all.first(), Some(&Kernel::best()));
    assert_eq!(all.last(), Some(&Kernel::TABLE));
    let names: Vec<&str> = all.iter().map(|kernel| kernel.name()).collect();
    println!("{}", names.join(" "));
}

#[test]
#[should_panic(expected = "out of range")]
fn a_sum_that_is_too_short_is_refused() {
    Kernel::best().mul_add(&mut [0; 3], 1, &[0; 4]);
}

proptest! {
    #[test]
    fn every_kernel_multiplies_frames(
        bytes in proptest::collection::vec(any::<u8>(), 0..10_000),
        more in 0_usize..100,
        factor: u8,
    ) {
        for kernel in Kernel::available() {
            check(kernel, &mut noise(bytes.len() + more, 5), factor, &bytes);
        }
    }
}
