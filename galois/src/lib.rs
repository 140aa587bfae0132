//! Arithmetic over GF(256), the field with 256 elements, for codes that repair lost frames.
//!
//! An element is a byte: a polynomial over GF(2) of degree 7 at most, bit *i* its coefficient of
//! x^*i*. Addition is XOR. Multiplication is modulo x^8 + x^4 + x^3 + x + 1 ([`POLYNOMIAL`]), the
//! polynomial of AES, because CPUs with GFNI have an instruction for it.
//!
//! [`Kernel::mul_add`] works on whole frames: `sum[i] += factor * bytes[i]`. [`Kernel::best`] chooses
//! the fastest vector instructions of this CPU, once, when a program starts; all kernels have
//! the same results.
//!
//! The crate exists for its `unsafe` blocks, which are all in `kernel.rs` and `x86.rs`: vector
//! instructions that only some CPUs have can't be called without.

mod kernel;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use kernel::Kernel;
pub use scalar::{POLYNOMIAL, inverse, mul};
