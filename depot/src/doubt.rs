//! Packets that may not be the source's.
//!
//! Anybody who can send to the destination may send a packet with a PSN that is still to
//! come. An RNIC drops it, unless it is the very next. Here it must not wait until it is,
//! and take the place of the real one.

use common::frame::{Frame, Packet};
use common::metrics::Metric;
use common::psn::{Seq, reach};
use common::time::{Span, Time};

use crate::backup::same_packet;
use crate::report::Cause;
use crate::{Actions, Context, Flow};

/// By so many PSNs a packet may overtake others on its way.
const OVERTAKES: u64 = 16;
/// A part of the round trip by which a SYNC may be overtaken by what was sent after it.
const SYNC_LATE: u64 = 8;
/// The same, at least.
const SYNC_LATE_MIN: Span = Span::from_micros(100);

impl<F: Frame> Flow<F> {
    /// Whether a packet beyond all others may be the source's, by the time that has passed
    /// since the one before.
    pub(crate) fn may_leap_to(&self, now: Time, seq: Seq) -> bool {
        let silence = now.since(self.stalled.max(self.raised));
        seq <= self.sequence.high().max(self.announced) + reach(silence)
    }

    /// Whether the arrival of `seq` shows that what is held behind it came before its
    /// time: a packet leapt over more than may be overtaken, nothing announced it, and what
    /// it leapt over comes now, sooner than a repair could bring it.
    pub(crate) fn shows_haste(&self, now: Time, seq: Seq) -> bool {
        let gap = if self.measured { self.sequence.gap(seq) } else { None };
        gap.is_some_and(|gap| {
            gap.end.since(gap.start) > OVERTAKES
                && seq.since(gap.start) < OVERTAKES
                && gap.end >= self.announced
                && now < gap.seen + self.rtt / 2
        })
    }

    /// Drops what is held behind the gap that `seq` is in, unless it was announced. Should
    /// it be the source's, it is missing.
    pub(crate) fn disown<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        let from = self.sequence.gap(seq).map_or(seq, |gap| gap.start);
        self.cut(cx, from.max(self.announced));
    }

    /// The Sentry had sent nothing from `next` on when it said so. What is held beyond, and
    /// has been for longer than a SYNC may be late, is somebody else's.
    pub(crate) fn deny<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, next: Seq) {
        let late = (self.rtt / SYNC_LATE).max(SYNC_LATE_MIN);
        let came = self.sequence.first_from(next);
        let is_old = came.is_some_and(|came| came + late < cx.now);
        if is_old && next >= self.announced {
            self.cut(cx, next);
        }
    }

    fn cut<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, to: Seq) {
        while let Some(held) = self.sequence.cut(to) {
            cx.pool.give(held.len as usize);
            cx.out.discard(held.packet, Metric::DropAheadOfSource);
        }
    }

    /// A packet came as `seq`, which is held. If the two are not the same, nobody can tell
    /// which is the source's: it is to come once more. Which packet asks for an ACK may
    /// differ.
    pub(crate) fn on_held<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, frame: F, seq: Seq) {
        let held = self.sequence.held(seq);
        if held.is_none_or(|held| same_packet(held.bytes(), frame.bytes())) {
            return cx.out.discard(Packet::Owned(frame), Metric::DropReorderDuplicate);
        }
        cx.out.discard(Packet::Owned(frame), Metric::DropConflict);
        if let Some(other) = self.sequence.reopen(seq, cx.now) {
            cx.pool.give(other.bytes().len());
            cx.out.discard(other, Metric::DropConflict);
            cx.out.count(Metric::GapsSeen, 1);
        }
        self.report(cx, Cause::NewGap);
    }
}
