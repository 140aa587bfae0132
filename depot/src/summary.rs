//! What an operator is shown of a flow.

use common::frame::Frame;
use common::psn::Seq;
use common::summary::Summary;

use crate::Flow;

impl<F: Frame> Flow<F> {
    /// The flow in short. It takes no longer for a flow with many packets.
    pub fn summary(&self) -> Summary {
        Summary {
            path_mtu: (self.pmtu != 0).then_some(self.pmtu),
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
