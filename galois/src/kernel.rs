//! The choice of instructions.

use crate::scalar::PRODUCTS;
#[cfg(target_arch = "x86_64")]
use crate::x86;

/// A way to multiply whole frames. A value exists only if this CPU has the instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernel(Way);

/// From the fastest to the slowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    #[cfg(target_arch = "x86_64")]
    GfniAvx512,
    #[cfg(target_arch = "x86_64")]
    GfniAvx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    Table,
}

const WAYS: &[Way] = &[
    #[cfg(target_arch = "x86_64")]
    Way::GfniAvx512,
    #[cfg(target_arch = "x86_64")]
    Way::GfniAvx2,
    #[cfg(target_arch = "x86_64")]
    Way::Avx512,
    #[cfg(target_arch = "x86_64")]
    Way::Avx2,
    #[cfg(target_arch = "x86_64")]
    Way::Ssse3,
    Way::Table,
];

impl Kernel {
    /// The fastest kernel of this CPU.
    pub fn best() -> Self {
        Self::available().next().unwrap_or(Self::TABLE)
    }

    /// The kernel of every CPU: a byte at a time, by a table.
    pub const TABLE: Self = Self(Way::Table);

    /// All kernels of this CPU, the fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        WAYS.iter().copied().filter(|way| way.is_available()).map(Self)
    }

    /// The instructions, for logs: "gfni-avx512", "gfni-avx2", "avx512", "avx2", "ssse3" or
    /// "table".
    pub const fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Way::GfniAvx512 => "gfni-avx512",
            #[cfg(target_arch = "x86_64")]
            Way::GfniAvx2 => "gfni-avx2",
            #[cfg(target_arch = "x86_64")]
            Way::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Way::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Way::Ssse3 => "ssse3",
            Way::Table => "table",
        }
    }

    /// Adds `factor` times each of `bytes` to the byte of `sum` at the same place. Bytes of `sum` behind
    /// them stay, as if zeros followed `bytes`.
    ///
    /// # Panics
    /// If `sum` is shorter than `bytes`.
    #[inline]
    pub fn mul_add(self, sum: &mut [u8], factor: u8, bytes: &[u8]) {
        let sum = &mut sum[..bytes.len()];
        match self.0 {
            // SAFETY: `available` found the features that the kernel needs on this CPU, and no other
            // function makes such a value.
            #[cfg(target_arch = "x86_64")]
            Way::GfniAvx512 => unsafe { x86::gfni_avx512(sum, factor, bytes) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Way::GfniAvx2 => unsafe { x86::gfni_avx2(sum, factor, bytes) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Way::Avx512 => unsafe { x86::avx512(sum, factor, bytes) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Way::Avx2 => unsafe { x86::avx2(sum, factor, bytes) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Way::Ssse3 => unsafe { x86::ssse3(sum, factor, bytes) },
            Way::Table => table(sum, factor, bytes),
        }
    }
}

impl Way {
    /// Each kernel needs exactly the features of its `target_feature` attribute.
    fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        use std::arch::is_x86_feature_detected as has;
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::GfniAvx512 => has!("gfni") && has!("avx512f") && has!("avx512bw"),
            #[cfg(target_arch = "x86_64")]
            Self::GfniAvx2 => has!("gfni") && has!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => has!("avx512f") && has!("avx512bw"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => has!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Ssse3 => has!("ssse3"),
            Self::Table => true,
        }
    }
}

fn table(sum: &mut [u8], factor: u8, bytes: &[u8]) {
    let products = &PRODUCTS[usize::from(factor)];
    for (sum, byte) in sum.iter_mut().zip(bytes) {
        *sum ^= products.low[usize::from(byte & 0xf)] ^ products.high[usize::from(byte >> 4)];
    }
}
