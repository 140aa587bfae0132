//! STATUS messages to the Sentry.

use common::allowance::Need;
use common::control::{MAX_RANGES, PsnRange, Status};
use common::frame::Frame;
use common::metrics::Metric;
use common::psn::Seq;
use common::time::{Span, Time};

use crate::sequence::Gap;
use crate::{Actions, Context, Flow, Incarnation};

/// Most STATUS messages that one full list of gaps is spread over.
const MAX_PARTS: usize = 64;

/// Why a STATUS goes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// A gap opened, or several count as lost from now on: none from this PSN on was reported.
    NewGaps(Seq),
    /// Gaps stayed open for longer than a repair takes.
    Repeat,
    /// A SYNC asked.
    Sync,
    /// Data flows and none went out for a while.
    Interval,
    /// The destination complained.
    Destination,
}

impl<F: Frame> Flow<F> {
    /// Sends a STATUS that lists all gaps. More gaps than fit into one message
    /// are spread over several; when a gap has just opened, the newest ones, and all that were not
    /// reported, are enough (R-STATUS-1).
    pub(crate) fn report<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, cause: Cause) {
        let Some(incarnation) = self.incarnation else { return };
        (self.last_status, self.told) = (cx.now, self.acked);
        let expected = self.sequence.expected();
        // What lies beyond is not decided.
        let high = self.decide(cx.config, cx.now);
        let gaps = self.sequence.gaps().partition_point(|gap| gap.start < high);
        // R-STATUS-2
        let first = match cause {
            Cause::NewGaps(from) => {
                let new = self.sequence.gaps().partition_point(|gap| gap.end <= from);
                gaps.saturating_sub(MAX_RANGES).min(new)
            }
            _ => 0,
        };
        let mut from = match first.checked_sub(1).and_then(|i| self.sequence.gaps().get(i)) {
            Some(gap) => gap.end,
            None => expected,
        };
        let parts = (gaps - first).div_ceil(MAX_RANGES).clamp(1, MAX_PARTS);
        for part in 0..parts {
            let begin = first + part * MAX_RANGES;
            let end = (begin + MAX_RANGES).min(gaps);
            let to = match end.checked_sub(1).and_then(|i| self.sequence.gaps().get(i)) {
                Some(gap) if end < gaps => gap.end,
                _ => high,
            };
            let status = self.status(cx, from, to, begin..end);
            cx.out.status(incarnation.epoch, status);
            from = to;
        }
        if gaps > 0 {
            let metric = match cause {
                Cause::NewGaps(_) => Metric::NackNewGap,
                Cause::Sync => Metric::NackSync,
                _ => Metric::NackRepeat,
            };
            let all = self.sequence.gaps();
            let start = all.get(first).map_or(high, |gap| gap.start);
            let end = all.get(gaps - 1).map_or(high, |gap| gap.end).max(start);
            cx.out.about(start.psn(), end.since(start), |out| out.count(metric, parts as u64));
        }
        if first == 0 {
            self.last_nack = cx.now;
        }
    }

    /// Answers a SYNC while nothing is held.
    pub(crate) fn report_passive<A: Actions<F>>(
        &self,
        cx: &mut Context<'_, A>,
        incarnation: Incarnation,
        echo: Time,
    ) {
        let src_qpn = cx.out.src_qpn();
        cx.out.status(incarnation.epoch, Status::passive(echo, src_qpn));
    }

    /// Whether an ACK of the destination has told the Sentry of late that packets before `seq` arrive.
    #[inline]
    pub(crate) fn is_told_by_ack(&self, seq: Seq) -> bool {
        self.acked != self.told || self.acked.is_some_and(|acked| acked >= seq)
    }

    /// The Sentry needs no STATUS for a while.
    #[inline]
    pub(crate) fn note_told(&mut self, now: Time) {
        (self.last_status, self.told) = (now, self.acked);
    }

    /// `seq` came, and no STATUS went out for a while. Where the destination's ACKs
    /// pass they tell the same.
    pub(crate) fn report_arrivals<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        if self.is_told_by_ack(seq) {
            self.note_told(cx.now);
        } else if cx.allowance.take(Need::Status, cx.now) {
            // R-MSG-6
            self.report(cx, Cause::Interval);
        } else {
            cx.out.count(Metric::WithheldStatus, 1);
            self.last_status = cx.now;
        }
    }

    fn status<A: Actions<F>>(
        &self,
        cx: &Context<'_, A>,
        from: Seq,
        to: Seq,
        gaps: core::ops::Range<usize>,
    ) -> Status {
        let range = |gap: &Gap| PsnRange {
            start: gap.start.psn(),
            len: u32::try_from(gap.end.min(to).since(gap.start)).unwrap_or(u32::MAX),
        };
        let known = self.echo.as_nanos() > 0;
        Status {
            expected: self.sequence.expected().psn(),
            from: from.psn(),
            to: to.psn(),
            ack: self.last_ack,
            missing: self.sequence.gaps().range(gaps).map(range).collect(),
            echo: self.echo,
            hold: if known { cx.now.since(self.echo_at) } else { Span::ZERO },
            src_qpn: cx.out.src_qpn(),
            keeps_responses: cx.config.keeps_responses,
            passive: false,
        }
    }
}
