//! The shim in front of a repair frame, 16 bytes in network byte order. R-TUN-66
//!
//! | bytes | field |
//! | --- | --- |
//! | 1 | version, high nibble; type, low nibble |
//! | 1 | lane of the frames that the repair frame is a sum of |
//! | 1 | windows that have a number, less 1, high nibble; binary logarithm of the streams, low nibble |
//! | 1 | numbers of a stream for each repair frame |
//! | 4 | session |
//! | 4 | first number of the sum |
//! | 2 | how many numbers; 0: the repair frame announces its plan |
//! | 2 | seed of the factors |

use fec::Plan;

use crate::number::{Lane, Session, WireNumber};
use crate::shim::{LEN, VERSION};

/// The first byte of a repair frame.
const FIRST: u8 = VERSION << 4 | 2;

/// The frames that a repair frame is a sum of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepairShim {
    /// Their lane.
    pub lane: Lane,
    /// The session of the receiving end.
    pub session: Session,
    /// The sender's plan.
    pub plan: Plan,
    /// The first number.
    pub first: WireNumber,
    /// How many numbers; 0 announces the plan.
    pub count: u16,
    /// The seed of the factors.
    pub seed: u16,
}

impl RepairShim {
    /// Writes it to the first 16 bytes of `out`.
    ///
    /// # Panics
    /// If `out` is shorter.
    pub fn write(&self, out: &mut [u8]) {
        let sizes = (self.plan.windows() - 1) << 4 | self.plan.streams().ilog2() as u8;
        out[..4].copy_from_slice(&[FIRST, self.lane.get(), sizes, self.plan.every()]);
        out[4..8].copy_from_slice(&self.session.get().to_be_bytes());
        out[8..12].copy_from_slice(&self.first.0.to_be_bytes());
        out[12..14].copy_from_slice(&self.count.to_be_bytes());
        out[14..LEN].copy_from_slice(&self.seed.to_be_bytes());
    }

    /// The shim with these bytes, of which version and type are read already; `None` if a field has no meaning.
    pub(crate) fn parse(bytes: &[u8; LEN]) -> Option<Self> {
        let [_, lane, sizes, every, s0, s1, s2, s3, n0, n1, n2, n3, c0, c1, f0, f1] = *bytes;
        let streams = 1_u8.checked_shl(u32::from(sizes & 0xf))?;
        Some(Self {
            lane: Lane::new(lane)?,
            session: Session::new(u32::from_be_bytes([s0, s1, s2, s3])),
            plan: Plan::new(streams, every, (sizes >> 4) + 1)?,
            first: WireNumber(u32::from_be_bytes([n0, n1, n2, n3])),
            count: u16::from_be_bytes([c0, c1]),
            seed: u16::from_be_bytes([f0, f1]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::{Content, Fault, Shim};
    use proptest::prelude::*;

    /// R-TUN-66
    #[test]
    fn byte_for_byte() {
        let shim = RepairShim {
            lane: Lane::new(3).expect("a lane"),
            session: Session::new(0x0102_0304),
            plan: Plan::new(8, 64, 4).expect("a plan"),
            first: WireNumber(0x1112_1314),
            count: 256,
            seed: 0x2122,
        };
        let mut bytes = [0; LEN];
        shim.write(&mut bytes);
        let expected = [0x22, 3, 0x33, 64, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 1, 0, 0x21, 0x22];
        assert_eq!(bytes, expected);
    }

    proptest! {
        /// R-TUN-66: there is one way to write it.
        #[test]
        fn any_bytes_are_refused_or_mean_themselves(
            sizes: u8, every in prop::sample::select(vec![0_u8, 1, 2, 3, 64, 128, 255]), rest in prop::array::uniform12(any::<u8>()), lane: u8,
        ) {
            let bytes = [&[0x22, lane, sizes, every][..], &rest].concat();
            match Shim::read(&bytes) {
                Ok(Content::Repair(shim)) => {
                    let mut again = [0; LEN];
                    shim.write(&mut again);
                    prop_assert_eq!(&bytes[..], &again[..]);
                }
                other => prop_assert_eq!(other, Err(Fault::Invalid)),
            }
        }
    }
}
