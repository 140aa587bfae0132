//! Injected packets.
//!
//! A third party that can reach the destination may inject a packet with a future PSN. An RNIC
//! drops it unless it is the next one. The Depot must not hold it until it is, and drop the
//! source's packet as a duplicate.

use common::frame::{Frame, Packet};
use common::metrics::Metric;
use common::psn::{Seq, reach};
use common::time::{Span, Time};

use crate::backup::same_packet;
use crate::report::Cause;
use crate::{Actions, Context, Flow};

/// Most PSNs by which a packet may overtake others on the long haul.
const OVERTAKES: u64 = 16;
/// Divisor of the round trip: later packets may overtake a SYNC by so much.
const SYNC_LATE: u64 = 8;
/// Lower bound of that time.
const SYNC_LATE_MIN: Span = Span::from_micros(100);

impl<F: Frame> Flow<F> {
    /// Whether the source can have sent up to `seq` in the time since the packet before
    /// (R-ORDER-9).
    pub(crate) fn may_leap_to(&self, now: Time, seq: Seq) -> bool {
        let silence = now.since(self.stalled.max(self.raised));
        seq <= self.sequence.high().max(self.announced) + reach(silence)
    }

    /// Whether the arrival of `seq` shows that packets held behind it were injected: an
    /// unannounced packet skipped more PSNs than can be overtaken, and the skipped packets
    /// arrive now, sooner than a repair could bring them (R-ORDER-8).
    pub(crate) fn shows_haste(&self, now: Time, seq: Seq) -> bool {
        let gap = if self.measured { self.sequence.gap(seq) } else { None };
        gap.is_some_and(|gap| {
            gap.end.since(gap.start) > OVERTAKES
                && seq.since(gap.start) < OVERTAKES
                && gap.end >= self.announced
                && now < gap.seen + self.rtt / 2
        })
    }

    /// Drops unannounced packets held behind the gap that `seq` is in. If they were the
    /// source's, they count as missing.
    pub(crate) fn disown<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        let from = self.sequence.gap(seq).map_or(seq, |gap| gap.start);
        self.cut(cx, from.max(self.announced));
    }

    /// A SYNC says that the Sentry has sent nothing from `next` on. Packets beyond, held for
    /// longer than a SYNC can be late, were injected (R-ORDER-10).
    pub(crate) fn deny<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, next: Seq) {
        let late = (self.rtt / SYNC_LATE).max(SYNC_LATE_MIN);
        let came = self.sequence.first_from(next);
        let is_old = came.is_some_and(|came| came + late < cx.now);
        if is_old && next >= self.announced {
            self.cut(cx, next);
        }
    }

    fn cut<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, to: Seq) {
        let count = self.sequence.high().since(to);
        while let Some(held) = self.sequence.cut(to) {
            cx.pool.give(held.info.len as usize);
            cx.out.about(to.psn(), count, |out| {
                out.discard(held.packet, Metric::DropAheadOfSource);
            });
        }
    }

    /// A packet arrived with the PSN of a held one. If they differ in more than AckReq, either
    /// may be injected: both are dropped, and the PSN counts as missing.
    pub(crate) fn on_held<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, frame: F, seq: Seq) {
        let held = self.sequence.held(seq);
        // R-ORDER-6
        if held.is_none_or(|held| same_packet(held.bytes(), frame.bytes())) {
            return cx.out.discard(Packet::Owned(frame), Metric::DropReorderDuplicate);
        }
        // R-ORDER-7
        cx.out.discard(Packet::Owned(frame), Metric::DropConflict);
        if let Some(other) = self.sequence.reopen(seq, cx.now) {
            cx.pool.give(other.bytes().len());
            cx.out.discard(other, Metric::DropConflict);
            cx.out.count(Metric::GapsSeen, 1);
        }
        self.report(cx, Cause::NewGaps(self.sequence.high()));
    }
}
