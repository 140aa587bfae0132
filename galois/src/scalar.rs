//! Products of two elements, and the tables of all kernels.

/// The polynomial of the field, x^8 + x^4 + x^3 + x + 1: bit *i* is the coefficient of x^*i*.
pub const POLYNOMIAL: u16 = 0x11b;

/// Products of one element, in one cache line.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Products {
    /// By 0 to 15.
    pub low: [u8; 16],
    /// By 0, 16, 32 and so on to 240.
    pub high: [u8; 16],
}

/// Products of each element.
pub(crate) static PRODUCTS: [Products; 256] = products();

/// `a` times `b`.
#[inline]
pub fn mul(a: u8, b: u8) -> u8 {
    let products = &PRODUCTS[usize::from(a)];
    products.low[usize::from(b & 0xf)] ^ products.high[usize::from(b >> 4)]
}

/// The element whose product with `a` is 1; `None` if `a` is 0.
pub fn inverse(a: u8) -> Option<u8> {
    // a^255 = 1 for each a but 0, so a^254 is the inverse: a^2 a^4 a^8 and so on to a^128.
    let (mut power, mut product) = (a, 1);
    for _ in 1..8 {
        power = mul(power, power);
        product = mul(product, power);
    }
    (a != 0).then_some(product)
}

const fn products() -> [Products; 256] {
    let mut all = [Products { low: [0; 16], high: [0; 16] }; 256];
    let mut a = 0;
    while a < 256 {
        let mut b = 0;
        while b < 16 {
            all[a].low[b] = product(a as u8, b as u8);
            all[a].high[b] = product(a as u8, (b << 4) as u8);
            b += 1;
        }
        a += 1;
    }
    all
}

/// `a` times `b`, bit by bit.
const fn product(a: u8, b: u8) -> u8 {
    let (mut a, mut b, mut sum) = (a as u16, b, 0);
    while b != 0 {
        if b & 1 != 0 {
            sum ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= POLYNOMIAL;
        }
        b >>= 1;
    }
    sum as u8
}
