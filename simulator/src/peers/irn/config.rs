//! IRN's settings beyond those of every RNIC.

use common::time::Span;
use rnic::QpError;

/// The parameters of a queue pair that has IRN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Irn {
    /// Most packets in flight, and the length of the receiver's bitmap: one
    /// bandwidth-delay product in the paper; 1 to 2^22.
    pub cap: u32,
    /// Timeout while at most [`few`](Self::few) packets are in flight; greater
    /// than zero.
    pub rto_low: Span,
    /// Timeout while there are more; not less than the other.
    pub rto_high: Span,
    /// How many are few: 3 in the paper.
    pub few: u32,
}

impl Irn {
    /// For a path with this round-trip time. The paper has 100 µs and 320 µs
    /// for 24 µs and the queues of a data centre. A long path is mostly
    /// propagation: here it is two and four round trips, and not less than the
    /// paper's values.
    pub fn for_path(cap: u32, rtt: Span) -> Self {
        Self {
            cap,
            rto_low: (rtt * 2).max(Span::from_micros(100)),
            rto_high: (rtt * 4).max(Span::from_micros(320)),
            few: 3,
        }
    }

    pub(super) fn check(&self) -> Result<(), QpError> {
        if !(1..=1 << 22).contains(&self.cap) {
            return Err(QpError::Window(self.cap));
        }
        if self.rto_low == Span::ZERO || self.rto_high < self.rto_low {
            return Err(QpError::Timeout);
        }
        Ok(())
    }
}
