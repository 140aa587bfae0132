//! What an operator wants to know of a flow.

use common::frame::Frame;
use common::psn::Seq;
use common::time::Span;

use crate::Flow;

/// A flow in short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Whether a Sentry has announced it: else all of it passes.
    pub is_synced: bool,
    /// Path MTU in bytes; 0: unknown.
    pub path_mtu: u16,
    /// The long-haul round trip, if the Sentry has measured it.
    pub round_trip: Option<Span>,
    /// Packets behind a gap.
    pub held: u64,
    /// Packets that were missing when later ones came, or when the Sentry told of them.
    pub lost: u32,
    /// Packets sent again to the destination.
    pub resent: u32,
}

impl<F: Frame> Flow<F> {
    /// The flow in short. It takes no longer for a flow with many packets.
    pub fn summary(&self) -> Summary {
        Summary {
            is_synced: self.is_synced(),
            path_mtu: self.pmtu,
            round_trip: self.measured.then_some(self.rtt),
            held: self.sequence.held_count() as u64,
            lost: self.lost,
            resent: self.backup.resent(),
        }
    }

    /// Notes that all before `high` is missing which has not come.
    pub(crate) fn note_lost(&mut self, high: Seq) {
        self.add_lost(high.since(self.sequence.high()));
    }

    /// Notes the gap that the packet at `seq` opened, unless it fell into one, which is counted.
    #[cold]
    pub(crate) fn note_gap_before(&mut self, seq: Seq) {
        let newest = self.sequence.gaps().back().filter(|gap| gap.end == seq);
        self.add_lost(newest.map_or(0, |gap| gap.end.since(gap.start)));
    }

    fn add_lost(&mut self, missing: u64) {
        self.lost = self.lost.saturating_add(u32::try_from(missing).unwrap_or(u32::MAX));
    }
}
