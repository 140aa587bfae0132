//! The effect of SYNCs on a flow: where an incarnation begins, and where it ends.

use common::control::{Reason, Status, SyncMessage};
use common::frame::Frame;
use common::metrics::Metric;
use common::time::{Span, Time};

use crate::report::Cause;
use crate::sequence::Sequence;
use crate::{Actions, Context, Flow, Incarnation};

impl<F: Frame> Flow<F> {
    /// A SYNC about this flow, already authenticated.
    pub fn on_sync<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        incarnation: Incarnation,
        sync: &SyncMessage,
    ) {
        self.ready = false;
        if self.is_replaced_by(incarnation) {
            self.reset(cx);
        } else if self.incarnation.is_some_and(|known| known != incarnation) {
            // A newer SYNC overtook it (R-INC-13).
            return;
        }
        // R-SYNC-7
        if sync.reason == Reason::Release {
            self.bypass(cx);
            return self.report_passive(cx, incarnation, sync.sent_at);
        }
        match (self.incarnation, sync.next_psn) {
            // It announces resends only, which begins no incarnation (R-SYNC-2).
            (None, None) => return,
            // R-SYNC-9
            (None, Some(_)) if self.is_recovering(cx.now) => {
                return self.report_passive(cx, incarnation, sync.sent_at);
            }
            (None, Some(next)) => {
                let next = next.unwrap_near(self.sequence.expected());
                let acked = self.acked.filter(|acked| acked.since(next) <= cx.config.window_max);
                self.sequence = Sequence::new(next.max(acked.unwrap_or(next)));
                self.incarnation = Some(incarnation);
                self.look_again(cx);
                (self.stalled, self.raised, self.announced) = (cx.now, cx.now, next);
                cx.out.count(Metric::FlowSynced, 1);
            }
            (Some(_), Some(next)) => {
                let next = next.unwrap_near(self.sequence.expected());
                if next.since(self.sequence.expected()) <= cx.config.window_max {
                    if sync.sent_at >= self.echo {
                        self.deny(cx, next);
                    }
                    self.announced = self.announced.max(next);
                    // R-SYNC-4
                    self.open_gap(cx, next);
                }
            }
            (Some(_), None) => {}
        }
        if sync.pmtu > 0 {
            self.pmtu = sync.pmtu;
        }
        if sync.rtt > Span::ZERO {
            (self.rtt, self.measured) = (sync.rtt, true);
        }
        // R-SYNC-6
        if sync.reason == Reason::Lost && !self.sequence.gaps().is_empty() {
            self.give_up(cx);
        }
        if sync.sent_at >= self.echo {
            (self.echo, self.echo_at) = (sync.sent_at, cx.now);
        }
        // R-SYNC-5
        self.report(cx, Cause::Sync);
        self.ready = cx.config.fast_path && self.is_ready();
    }

    /// An authenticated SYNC without this box's boot id: its Sentry has received no STATUS since
    /// this box started, or receives none any more. Held packets are delivered, and the flow
    /// is passive until a SYNC carries the boot id (R-SYNC-3).
    pub fn on_unheard<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        incarnation: Incarnation,
        sync: &SyncMessage,
    ) {
        if self.is_replaced_by(incarnation) {
            self.reset(cx);
        } else if self
            .incarnation
            .is_some_and(|known| known != incarnation || sync.sent_at < self.echo)
        {
            // A newer SYNC overtook it.
            return;
        } else if self.incarnation.is_some() {
            // R-PEER-10
            self.bypass(cx);
        }
        // R-PEER-9
        self.report_passive(cx, incarnation, sync.sent_at);
    }

    /// Connection management announced that this incarnation begins with the flow's first PSN,
    /// and its path MTU in bytes (0: unknown).
    pub fn announce(&mut self, pmtu: u16) {
        self.acked = Some(self.sequence.expected());
        self.pmtu = pmtu;
    }

    /// The requester is unknown again, so that this flow no longer sees the destination's responses, and the next SYNC may be of
    /// another incarnation. Forgets the last ACK. A passive flow forgets `acked` as well; a protected one needs it to detect an
    /// ACK that revokes it (R-INC-18).
    pub fn lose_requester(&mut self) {
        self.last_ack = None;
        if self.incarnation.is_none() {
            (self.acked, self.told) = (None, None);
        }
    }

    /// Whether a SYNC of `incarnation` ends the known incarnation.
    pub fn is_replaced_by(&self, incarnation: Incarnation) -> bool {
        self.incarnation.is_some_and(|known| {
            known.node != incarnation.node
                || (known.boot, known.epoch) < (incarnation.boot, incarnation.epoch)
        })
    }

    /// Ends protection, because the Sentry does, or is lost, or this box stops: delivers held
    /// packets in order, and makes the flow passive.
    pub fn bypass<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.give_up(cx);
        self.leave_window(cx);
        self.drop_nak(cx);
        self.drop_responses(cx);
        self.incarnation = None;
        self.ready = false;
        // The next SYNC may be of another incarnation, which these don't hold for.
        (self.acked, self.last_ack, self.told) = (None, None, None);
        // It may also have another clock.
        self.echo = Time::ZERO;
    }

    /// As [`bypass`](Self::bypass), and the Sentry is told: it does not ask for this box's answer.
    pub fn leave<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let (known, echo, hold) = (self.incarnation, self.echo, cx.now.since(self.echo_at));
        self.bypass(cx);
        if let Some(incarnation) = known {
            let status = Status { hold, ..Status::passive(echo, cx.out.src_qpn()) };
            cx.out.status(incarnation.epoch, status);
        }
    }

    /// Ends this incarnation of the flow. Held packets are dropped: they are never delivered to
    /// the next one (R-INC-12).
    pub fn reset<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let expected = self.sequence.expected();
        let count = self.sequence.high().since(expected);
        cx.out.about(expected.psn(), count, |out| out.count(Metric::FlowReset, 1));
        self.sequence.release(|packet| {
            cx.pool.give(packet.bytes().len());
            cx.out.about(expected.psn(), count, |out| {
                out.discard(packet, Metric::DropOldIncarnation);
            });
        });
        self.clear_backup(cx);
        self.leave_window(cx);
        self.drop_nak(cx);
        self.drop_responses(cx);
        let psn = self.sequence.expected().psn();
        *self = Self { rtt: self.rtt, fill: self.fill, ..Self::new(cx.config, cx.now, psn) };
    }
}
