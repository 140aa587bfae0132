//! Timers of a flow.

use common::allowance::Need;
use common::control::Reason;
use common::frame::Frame;
use common::metrics::Metric;
use common::time::{Span, Time};

use crate::slot;
use crate::{Actions, Config, Context, Flow};

/// Shortest derived timeouts: below them a scheduler's noise would look like
/// loss.
pub(crate) const TAIL_MIN: Span = Span::from_micros(100);
const STATUS_MIN: Span = Span::from_micros(500);
const PEER_MIN: Span = Span::from_millis(10);
/// SYNC(tail) messages to a Depot that has everything, while the
/// destination's ACK is awaited.
pub(crate) const PATIENT_TAILS: u8 = 8;
/// In place of the number of SYNC(tail): none goes out before the next packet ...
const GIVEN_UP: u8 = u8::MAX - 1;
/// ... and no copies of packets are kept any more.
const DROPPED: u8 = u8::MAX;
/// Round trips for which a flow asks for no early SYNC once one was refused.
const QUIET: u64 = 8;

/// SYNCs that went out since the last STATUS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unanswered {
    /// When the first of them did; [`Time::NEVER`] if there is none ...
    first: Time,
    /// ... and the second.
    second: Time,
}

impl Unanswered {
    pub const NONE: Self = Self { first: Time::NEVER, second: Time::NEVER };

    /// Another goes out.
    pub fn ask(&mut self, now: Time) {
        if self.first == Time::NEVER {
            self.first = now;
        } else {
            self.second = self.second.min(now);
        }
    }
}

impl<F: Frame> Flow<F> {
    /// When [`on_timer`](Self::on_timer) has to be called; [`Time::NEVER`] for
    /// a flow with nothing outstanding. Timers that only make a repair quicker are left out unless
    /// early messages [are granted](common::allowance::Allowance::may_be_early).
    pub fn deadline(&self, config: &Config, now: Time, may_be_early: bool) -> Time {
        if self.is_bypassed() {
            return self.discovery.due(self.last_sync, self.rtt.mean(), now);
        }
        if !self.is_outstanding() {
            return Time::NEVER;
        }
        if !self.discovery.is_protected() {
            return self.discovery.due(self.last_sync, self.rtt.mean(), now);
        }
        self.naks
            .due(self.rtt.mean())
            .min(self.calm_deadline(config, now, may_be_early))
            .min(self.responses_due(config))
    }

    /// That of a protected flow with packets in flight, as far as it is about nothing but these.
    #[inline]
    pub(crate) fn calm_deadline(&self, config: &Config, now: Time, may_be_early: bool) -> Time {
        let quiet = if may_be_early { self.quiet } else { self.quiet.max(self.quiet_until(now)) };
        self.peer_due(config)
            .min(self.tail_due(config, quiet))
            .min(self.keepalive_due(config, quiet))
    }

    /// As [`deadline`](Self::deadline), after an event that did not take a fast path. From now on ACKs may.
    pub fn next_deadline(&mut self, config: &Config, now: Time, may_be_early: bool) -> Time {
        self.calm = self.is_calm();
        self.deadline(config, now, may_be_early)
    }

    /// Runs due timers.
    pub fn on_timer<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let now = cx.now;
        if self.is_bypassed() {
            if now >= self.discovery.due(self.last_sync, self.rtt.mean(), now) {
                self.release_again(cx);
            }
            return;
        }
        if !self.is_outstanding() {
            return;
        }
        if !self.discovery.is_protected() {
            if now >= self.discovery.due(self.last_sync, self.rtt.mean(), now) {
                self.seek_again(cx);
            }
            return;
        }
        if now >= self.peer_due(cx.config) {
            return self.lose_peer(cx);
        }
        if now >= self.naks.due(self.rtt.mean()) {
            self.nak_again(cx);
        }
        if now >= self.responses_due(cx.config) {
            self.on_responses_timer(cx);
        }
        if now >= self.tail_due(cx.config, self.quiet) {
            self.announce_tail(cx);
        // R-MSG-2
        } else if now >= self.keepalive_due(cx.config, self.quiet)
            && self.may_be_early(cx, Metric::WithheldKeepalive)
        {
            self.sync(cx, Reason::Keepalive);
            self.release_at_peer(cx);
        }
    }

    fn announce_tail<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.tails == GIVEN_UP {
            return self.drop_copies(cx);
        }
        if self.tails == 0 && (cx.now < self.late(cx.config) || !self.awaits_ack()) {
            // R-MSG-1
            if !self.may_be_early(cx, Metric::WithheldTail) {
                if cx.now >= self.late(cx.config) {
                    // No ACK is late. If packets are missing, the next packet shows the gap.
                    (self.tails, self.last_sync) = (GIVEN_UP, cx.now);
                    self.release_passed(cx);
                }
                return;
            }
        } else if !cx.allowance.take(Need::Late, cx.now) {
            // As if it had been sent, and lost (R-MSG-5).
            cx.out.count(Metric::WithheldLate, 1);
            self.last_sync = cx.now;
            self.count_tail();
            self.release_passed(cx);
            if cx.now >= self.last_data + self.pause(cx.config) {
                self.drop_copies(cx);
            }
            return;
        }
        self.count_tail();
        self.sync(cx, Reason::Tail);
        self.release_at_peer(cx);
        self.release_passed(cx);
    }

    /// The flow has paused, and nothing pays for a SYNC(tail): the next packet, or the source's timeout, continues (R-MSG-10).
    fn drop_copies<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.tails = DROPPED;
        self.release_till(cx, self.window.start(), self.next);
    }

    fn count_tail(&mut self) {
        self.tails = (self.tails + 1).min(GIVEN_UP - 1);
    }

    /// Whether a SYNC may go out that only makes a repair quicker, should one be
    /// needed. If not, the flow doesn't ask for a while: its timers cost as well.
    pub(crate) fn may_be_early<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        withheld: Metric,
    ) -> bool {
        let may = cx.allowance.take(Need::Early, cx.now);
        if !may {
            cx.out.count(withheld, 1);
            self.quiet = self.quiet_until(cx.now);
        }
        may
    }

    /// Packets that passed a passive Depot stay until they are acknowledged. Where no ACK is seen,
    /// they stay until the source sent as many again: by then a source whose window they fill
    /// has got an ACK of them. If it pauses, they stay until no SYNC is repeated any more.
    pub(crate) fn release_passed<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let Some(delivered) = self.knowledge.as_ref().map(|known| known.expected) else { return };
        let oldest = self.window.start();
        if self.tails >= PATIENT_TAILS {
            self.passed = oldest;
            self.release_till(cx, oldest, delivered);
        }
        if self.acked.is_none() && delivered >= self.passed + self.passed.since(oldest) {
            self.trim(cx, delivered);
        }
    }

    /// Until when a flow asks for no early SYNC if none is to be had `now`.
    fn quiet_until(&self, now: Time) -> Time {
        now + (self.rtt.mean() * QUIET).max(TAIL_MIN)
    }

    fn peer_due(&self, config: &Config) -> Time {
        let Unanswered { first, second } = self.unanswered;
        if first == Time::NEVER {
            return first;
        }
        if let Some(timeout) = config.peer_timeout {
            return first + timeout;
        }
        // One of them, or its reply, may have been lost (R-PEER-12).
        let rtt = self.rtt.with_margin();
        (first + (rtt * 2).max(PEER_MIN)).max(second + rtt)
    }

    /// SYNC(tail): the source paused and something is unconfirmed. Repeated
    /// with back-off until it is. No early one before `quiet` (R-SYNC-8).
    fn tail_due(&self, config: &Config, quiet: Time) -> Time {
        let rtt = self.rtt.mean();
        if self.tails == 0 {
            let early = self.last_data + self.tail_timeout(config);
            return if early < quiet { self.late(config) } else { early };
        }
        match self.tails {
            // The next packet begins with a SYNC(open) from then on.
            GIVEN_UP => return self.last_data + self.pause(config),
            DROPPED => return Time::NEVER,
            _ => {}
        }
        let all_arrived = self.knowledge.as_ref().is_some_and(|k| k.expected >= self.next);
        let is_patient = self.awaits_ack() || self.keeps_passed();
        if all_arrived && (self.tails >= PATIENT_TAILS || !is_patient) {
            return Time::NEVER;
        }
        let backoff = rtt.scale(5, 8).max(TAIL_MIN) * (1 << self.tails.min(PATIENT_TAILS));
        let limit = if all_arrived { rtt * 64 } else { rtt * 2 };
        self.last_sync + backoff.min(limit.max(TAIL_MIN))
    }

    /// Whether the newest packet asks for an ACK. If not, no ACK of it can have been lost (R-SYNC-10).
    fn awaits_ack(&self) -> bool {
        let newest = self.slot_of(self.next.prev());
        newest.is_some_and(|(_, slot)| slot.has(slot::ACK_REQ) || slot.has(slot::FETCHES))
    }

    /// Whether packets are kept that passed a passive Depot.
    fn keeps_passed(&self) -> bool {
        self.window.start() < self.passed && self.window.filled() > 0
    }

    /// By then the newest packet should have been acknowledged.
    fn late(&self, config: &Config) -> Time {
        self.last_data + self.rtt.mean().scale(5, 4) + self.tail_timeout(config)
    }

    /// SYNC(keepalive): the oldest packet in flight left some time ago, and no SYNC since (R-SYNC-11).
    fn keepalive_due(&self, config: &Config, quiet: Time) -> Time {
        if self.last_data <= self.last_sync {
            return Time::NEVER;
        }
        let oldest = self.window.front().map_or(Time::ZERO, |slot| slot.sent);
        let interval = config.status_interval.unwrap_or((self.rtt.mean() / 2).max(STATUS_MIN));
        (self.last_sync.max(oldest) + interval).max(quiet)
    }
}
