//! Timers of a flow.

use common::frame::Frame;
use common::metrics::Metric;
use common::time::{Span, Time};

use crate::report::Cause;
use crate::{Actions, Config, Context, Flow};

/// Shortest derived `give_up`.
const GIVE_UP_MIN: Span = Span::from_millis(20);
/// Shortest interval between repeats of a Depot-NACK.
const REPEAT_MIN: Span = Span::from_micros(100);

impl<F: Frame> Flow<F> {
    /// When [`on_timer`](Self::on_timer) is due; [`Time::NEVER`] for a passive flow.
    pub fn deadline(&mut self, config: &Config) -> Time {
        if self.incarnation.is_none() {
            return Time::NEVER;
        }
        let of_gaps = if self.sequence.gaps().is_empty() {
            Time::NEVER
        } else {
            self.report_due(config).min(self.give_up_due(config))
        };
        self.unpaced_due = of_gaps
            .min(self.local_due())
            .min(self.nak_due())
            .min(self.responses.due(self.rtt))
            .min(self.forget_due(config));
        self.unpaced_due.min(self.pacing_due(config))
    }

    /// As [`deadline`](Self::deadline), after an event that did not take a fast path. From now on ACKs may.
    pub fn next_deadline(&mut self, config: &Config) -> Time {
        self.calm = self.is_calm();
        self.deadline(config)
    }

    /// That of a calm flow.
    #[inline]
    pub(crate) fn calm_deadline(&self, config: &Config) -> Time {
        self.backup.due().min(self.forget_due(config))
    }

    /// Runs the timers that are due.
    pub fn on_timer<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.incarnation.is_none() {
            return;
        }
        if cx.now >= self.forget_due(cx.config) {
            return self.reset(cx);
        }
        if !self.sequence.gaps().is_empty() {
            if cx.now >= self.give_up_due(cx.config) {
                // R-GAP-12
                if self.is_orphan(cx) {
                    cx.out.count(Metric::FlowOrphaned, 1);
                    return self.bypass(cx);
                }
                self.give_up(cx);
            } else if cx.now >= self.report_due(cx.config) {
                self.report_or_judge(cx);
            }
        }
        if cx.now >= self.pacing_due(cx.config) {
            self.deliver_due(cx);
        }
        if cx.now >= self.local_due() {
            self.on_silence(cx);
        }
        if cx.now >= self.nak_due() {
            self.on_nak_timer(cx);
        }
        self.age_responses(cx);
    }

    /// When a gap is reported, once more or for the first time.
    fn report_due(&self, config: &Config) -> Time {
        if self.keeps_order(config) {
            return self.repeat_due();
        }
        let is_reported = self.is_front_lost();
        let repeat_due = if is_reported { self.repeat_due() } else { Time::NEVER };
        repeat_due.min(self.judge_due(config))
    }

    fn report_or_judge<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let is_reported = self.keeps_order(cx.config) || self.is_front_lost();
        if is_reported && cx.now >= self.repeat_due() {
            self.report(cx, Cause::Repeat);
        } else {
            self.judge(cx);
        }
    }

    /// When a Depot-NACK counts as lost.
    fn repeat_due(&self) -> Time {
        self.last_nack + self.repair_time()
    }

    /// 1.25 × the measured time of a repair, which is taken as one to four long-haul round
    /// trips.
    pub(crate) fn repair_time(&self) -> Span {
        let fill = self.fill.mean().max(self.rtt).min(self.rtt * 4);
        fill.scale(5, 4).max(REPEAT_MIN)
    }

    pub(crate) fn give_up_after(&self, config: &Config) -> Span {
        config.give_up.unwrap_or((self.rtt * 6).max(GIVE_UP_MIN))
    }

    fn give_up_due(&self, config: &Config) -> Time {
        self.stalled + self.give_up_after(config)
    }

    /// Whether no SYNC arrived for as long as a gap may be open. A live Sentry is told of the
    /// gap, and sends a SYNC after its resends (R-PEER-14).
    fn is_orphan<A>(&self, cx: &Context<'_, A>) -> bool {
        cx.now >= self.echo_at + self.give_up_after(cx.config)
    }

    /// When another incarnation may use the queue pair number. It must not receive packets of
    /// this one (R-INC-16).
    pub(crate) fn forget_due(&self, config: &Config) -> Time {
        self.heard.max(self.echo_at) + self.give_up_after(config) * 4
    }

    /// Gives up on all gaps: held packets are delivered in order, past the gaps, and the RNICs
    /// recover by themselves (R-GAP-13).
    pub(crate) fn give_up<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let gaps = self.sequence.gaps();
        if let (Some(first), Some(last)) = (gaps.front(), gaps.back()) {
            cx.out.about(first.start.psn(), last.end.since(first.start), |out| {
                out.count(Metric::GapsGivenUp, gaps.len() as u64);
            });
        }
        self.sequence.release(|packet| {
            cx.pool.give(packet.bytes().len());
            cx.out.count(Metric::DepotReleased, 1);
            cx.out.deliver(packet);
        });
        // Packets behind the gap were not delivered in order.
        self.clear_backup(cx);
        self.forward_nak(cx);
        self.stalled = cx.now;
    }
}
