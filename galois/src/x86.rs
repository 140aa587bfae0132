//! Kernels of x86-64.
//!
//! GFNI multiplies bytes of this field with one instruction. The others look each half of a byte
//! up in a table of 16 products, as many bytes at once as a register has.

use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_shuffle_epi8,
    _mm_srli_epi64, _mm_storeu_si128, _mm_xor_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_gf2p8mul_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_shuffle_epi8,
    _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256, _mm512_and_si512,
    _mm512_broadcast_i32x4, _mm512_gf2p8mul_epi8, _mm512_loadu_si512, _mm512_set1_epi8,
    _mm512_shuffle_epi8, _mm512_srli_epi64, _mm512_storeu_si512, _mm512_xor_si512,
};

use crate::scalar::PRODUCTS;

/// A kernel: `product` of a register of bytes, for all of them, and `add` of the product to the sum.
macro_rules! kernel {
    (
        $(#[$doc:meta])*
        $name:ident, $features:literal, $width:literal, $load:ident, $store:ident, $xor:ident,
        |$factor:ident| $prepare:expr, |$by:ident, $value:ident| $product:expr
    ) => {
        $(#[$doc])*
        #[target_feature(enable = $features)]
        pub fn $name(sum: &mut [u8], $factor: u8, bytes: &[u8]) {
            let $by = $prepare;
            let (sums, sum_rest) = sum.as_chunks_mut::<$width>();
            let (chunks, rest) = bytes.as_chunks::<$width>();
            for (sum, chunk) in sums.iter_mut().zip(chunks) {
                let $value = $load(chunk);
                $store(sum, $xor($load(sum), $product));
            }
            if !rest.is_empty() {
                // Zeros behind the last bytes: their products are zeros.
                let mut last = [0; $width];
                last[..rest.len()].copy_from_slice(rest);
                let $value = $load(&last);
                $store(&mut last, $product);
                for (sum, product) in sum_rest.iter_mut().zip(last) {
                    *sum ^= product;
                }
            }
        }
    };
}

kernel! {
    /// 64 bytes at a time.
    gfni_avx512, "gfni,avx512f,avx512bw", 64, load512, store512, _mm512_xor_si512,
    |factor| _mm512_set1_epi8(factor.cast_signed()),
    |by, value| _mm512_gf2p8mul_epi8(by, value)
}

kernel! {
    /// 32 bytes at a time.
    gfni_avx2, "gfni,avx2", 32, load256, store256, _mm256_xor_si256,
    |factor| _mm256_set1_epi8(factor.cast_signed()),
    |by, value| _mm256_gf2p8mul_epi8(by, value)
}

kernel! {
    /// 64 bytes at a time, by tables.
    avx512, "avx512f,avx512bw", 64, load512, store512, _mm512_xor_si512,
    |factor| {
        let products = &PRODUCTS[usize::from(factor)];
        (
            _mm512_broadcast_i32x4(load128(&products.low)),
            _mm512_broadcast_i32x4(load128(&products.high)),
            _mm512_set1_epi8(0xf),
        )
    },
    |by, value| _mm512_xor_si512(
        _mm512_shuffle_epi8(by.0, _mm512_and_si512(value, by.2)),
        _mm512_shuffle_epi8(by.1, _mm512_and_si512(_mm512_srli_epi64::<4>(value), by.2)),
    )
}

kernel! {
    /// 32 bytes at a time, by tables.
    avx2, "avx2", 32, load256, store256, _mm256_xor_si256,
    |factor| {
        let products = &PRODUCTS[usize::from(factor)];
        (
            _mm256_broadcastsi128_si256(load128(&products.low)),
            _mm256_broadcastsi128_si256(load128(&products.high)),
            _mm256_set1_epi8(0xf),
        )
    },
    |by, value| _mm256_xor_si256(
        _mm256_shuffle_epi8(by.0, _mm256_and_si256(value, by.2)),
        _mm256_shuffle_epi8(by.1, _mm256_and_si256(_mm256_srli_epi64::<4>(value), by.2)),
    )
}

kernel! {
    /// 16 bytes at a time, by tables.
    ssse3, "ssse3", 16, load128, store128, _mm_xor_si128,
    |factor| {
        let products = &PRODUCTS[usize::from(factor)];
        (load128(&products.low), load128(&products.high), _mm_set1_epi8(0xf))
    },
    |by, value| _mm_xor_si128(
        _mm_shuffle_epi8(by.0, _mm_and_si128(value, by.2)),
        _mm_shuffle_epi8(by.1, _mm_and_si128(_mm_srli_epi64::<4>(value), by.2)),
    )
}

/// A load and a store of a register, at any alignment.
macro_rules! memory {
    ($register:ty, $features:literal, $width:literal, $load:ident: $from:ident, $store:ident: $to:ident) => {
        #[inline]
        #[target_feature(enable = $features)]
        fn $load(bytes: &[u8; $width]) -> $register {
            // SAFETY: the reference is valid for a read of all its bytes, which are as many as the
            // register has; the instruction needs no alignment.
            unsafe { $from(bytes.as_ptr().cast()) }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn $store(bytes: &mut [u8; $width], value: $register) {
            // SAFETY: the reference is valid for a write of all its bytes, which are as many as the
            // register has; the instruction needs no alignment.
            unsafe { $to(bytes.as_mut_ptr().cast(), value) }
        }
    };
}

memory!(__m128i, "sse2", 16, load128: _mm_loadu_si128, store128: _mm_storeu_si128);
memory!(__m256i, "avx", 32, load256: _mm256_loadu_si256, store256: _mm256_storeu_si256);
memory!(__m512i, "avx512f", 64, load512: _mm512_loadu_si512, store512: _mm512_storeu_si512);
