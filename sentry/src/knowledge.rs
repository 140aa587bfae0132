//! The Sentry's knowledge of the Depot: its newest STATUS.

use arrayvec::ArrayVec;
use common::control::{BootId, MAX_RANGES, Status};
use common::psn::Seq;
use common::time::Time;

/// The newest STATUS of the Depot's current incarnation, in unwrapped numbers.
#[derive(Clone, Debug)]
pub(crate) struct Knowledge {
    /// The Depot's boot id.
    pub boot: BootId,
    /// Next number that the Depot will deliver: all before it is delivered.
    pub expected: Seq,
    /// `missing` is complete for the numbers `from .. to`.
    from: Seq,
    to: Seq,
    missing: ArrayVec<(Seq, Seq), MAX_RANGES>,
    /// When the newest SYNC that the Depot had seen was sent.
    pub echo: Time,
    /// It keeps READ responses.
    pub keeps_responses: bool,
}

impl Knowledge {
    /// Reads a STATUS; `near` is the flow's `next_psn`. `None` if it claims
    /// the impossible: more than was sent, or ranges out of order.
    pub fn read(status: &Status, boot: BootId, near: Seq) -> Option<Self> {
        let unwrap = |psn: common::psn::Psn| psn.unwrap_near(near);
        let (expected, from, to) =
            (unwrap(status.expected), unwrap(status.from), unwrap(status.to));
        if expected > near || to > near || from < expected || to < from {
            return None;
        }
        let mut missing = ArrayVec::new();
        let mut last = from;
        for range in &status.missing {
            let start = unwrap(range.start);
            let end = start + u64::from(range.len);
            if start < last || end <= start || end > to {
                return None;
            }
            missing.push((start, end));
            last = end;
        }
        let (echo, keeps_responses) = (status.echo, status.keeps_responses);
        Some(Self { boot, expected, from, to, missing, echo, keeps_responses })
    }

    /// The ranges that are missing.
    pub fn missing(&self) -> &[(Seq, Seq)] {
        &self.missing
    }

    /// Whether the Depot said that `seq` waits in its reordering pool.
    pub fn holds(&self, seq: Seq) -> bool {
        if seq < self.from || seq >= self.to {
            return false;
        }
        let i = self.missing.partition_point(|(_, end)| *end <= seq);
        self.missing.get(i).is_none_or(|(start, _)| seq < *start)
    }

    /// Whether the Depot said that it delivered `seq`.
    pub fn delivered(&self, seq: Seq) -> bool {
        seq < self.expected
    }
}
