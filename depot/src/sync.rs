//! What SYNCs do to a flow: where an incarnation begins, and where it ends.

use common::control::{Reason, SyncMessage};
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
            self.forget(cx);
        } else if self.incarnation.is_some_and(|known| known != incarnation) {
            // An older one, overtaken.
            return;
        }
        if sync.reason == Reason::Release {
            self.let_go(cx);
            return self.report_passive(cx, incarnation, sync);
        }
        match (self.incarnation, sync.next_psn) {
            // It vouches for resends only: nothing to begin with†.
            (None, None) => return,
            (None, Some(next)) => {
                let next = next.unwrap_near(self.sequence.expected());
                let acked = self.acked.filter(|acked| acked.since(next) <= cx.config.window_max);
                self.sequence = Sequence::new(next.max(acked.unwrap_or(next)));
                self.incarnation = Some(incarnation);
                (self.stalled, self.announced) = (cx.now, next);
                cx.out.count(Metric::FlowSynced, 1);
            }
            (Some(_), Some(next)) => {
                let next = next.unwrap_near(self.sequence.expected());
                if next.since(self.sequence.expected()) <= cx.config.window_max {
                    if sync.sent_at >= self.echo {
                        self.deny(cx, next);
                    }
                    self.announced = self.announced.max(next);
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
        if sync.reason == Reason::Lost && !self.sequence.gaps().is_empty() {
            self.give_up(cx);
        }
        if sync.sent_at >= self.echo {
            (self.echo, self.echo_at) = (sync.sent_at, cx.now);
        }
        self.report(cx, Cause::Sync);
        self.ready = self.is_ready();
    }

    /// A SYNC, already authenticated, whose Sentry has heard nothing of this box since it
    /// started, or hears it no more. So nothing shows that a STATUS arrives: what is held
    /// is delivered, and nothing is held until the Sentry says otherwise.
    pub fn on_unheard<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        incarnation: Incarnation,
        sync: &SyncMessage,
    ) {
        if self.is_replaced_by(incarnation) {
            self.forget(cx);
        } else if self
            .incarnation
            .is_some_and(|known| known != incarnation || sync.sent_at < self.echo)
        {
            // An older one, overtaken.
            return;
        } else if self.incarnation.is_some() {
            self.let_go(cx);
        }
        self.report_passive(cx, incarnation, sync);
    }

    /// The hosts told each other that this incarnation begins with the flow's first
    /// PSN, and its path MTU in bytes (0: unknown).
    pub fn announce(&mut self, pmtu: u16) {
        self.acked = Some(self.sequence.expected());
        self.pmtu = pmtu;
    }

    /// Whether a SYNC of `incarnation` ends the incarnation that is known.
    pub fn is_replaced_by(&self, incarnation: Incarnation) -> bool {
        self.incarnation.is_some_and(|known| {
            known.node != incarnation.node
                || (known.boot, known.epoch) < (incarnation.boot, incarnation.epoch)
        })
    }

    /// The Sentry no longer protects the flow, or seems to be gone, or this box stops:
    /// hands on in order what is held, and becomes a wire.
    pub fn let_go<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.give_up(cx);
        self.leave_window(cx);
        self.drop_nak(cx);
        self.drop_responses(cx);
        self.incarnation = None;
        self.ready = false;
        // Whoever announces the flow next may speak of another incarnation, of which what was
        // acknowledged so far is not true.
        (self.acked, self.last_ack, self.told) = (None, None, None);
        // Or it has another clock.
        self.echo = Time::ZERO;
    }

    /// Forgets this incarnation of the flow. What is held belongs to it and is never
    /// delivered to the next†.
    pub fn forget<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        cx.out.count(Metric::FlowForgotten, 1);
        self.sequence.release(|packet| {
            cx.pool.give(packet.bytes().len());
            cx.out.discard(packet, Metric::DropOldIncarnation);
        });
        self.clear_backup(cx);
        self.leave_window(cx);
        self.drop_nak(cx);
        self.drop_responses(cx);
        let psn = self.sequence.expected().psn();
        *self = Self { rtt: self.rtt, fill: self.fill, ..Self::new(cx.config, cx.now, psn) };
    }
}
