//! NAKs to the source: when, how many, and whether one made it rewind.

use common::control::Reason;
use common::frame::Frame;
use common::metrics::Metric;
use common::rtt::Rtt;
use common::time::{Span, Time};

use crate::{Actions, Context, Flow};

/// Most NAKs between two ACKs that advance `acked`. RNICs ignore a second
/// NAK before a positive ACK, and count them against their retry limits (R-NAK-5).
const CAP: u32 = 2;
/// Round trips for which the way from the source counts as lossy after a loss before
/// the Sentry.
const LOSSY: u64 = 4;
/// Round trip to the source until one was measured.
const SOURCE_RTT: Span = Span::from_millis(1);
/// A rewind takes at least this long to be seen.
const PATIENCE: Span = Span::from_micros(500);

/// The NAKs of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naks {
    /// When the NAK went to the source that it has not answered with a rewind.
    asked: Option<Time>,
    /// The Sentry made that NAK.
    is_own: bool,
    /// When the newest NAK of the destination went to the source.
    forwarded: Time,
    /// When the newest was made.
    last: Time,
    /// When the source is asked for packets lost before the Sentry.
    gap_due: Time,
    /// Made since `acked` last advanced.
    sent: u32,
    /// Of the newest NAK made: from 1 on, and 1 again after the last.
    round: u8,
    /// One was due, but not within a READ response message.
    deferred: bool,
    /// One was due, but the source would have ignored it.
    capped: bool,
    source_rtt: Rtt,
}

impl Naks {
    pub fn new() -> Self {
        Self {
            asked: None,
            forwarded: Time::ZERO,
            is_own: false,
            last: Time::ZERO,
            gap_due: Time::NEVER,
            sent: 0,
            round: 0,
            deferred: false,
            capped: false,
            source_rtt: Rtt::guess(SOURCE_RTT),
        }
    }

    /// `acked` advanced.
    pub fn progress(&mut self) {
        self.sent = 0;
    }

    /// The destination's own NAK is on its way to the source.
    pub fn genuine(&mut self, now: Time) {
        (self.asked, self.is_own) = (Some(now), false);
        self.forwarded = now;
    }

    /// Whether a NAK of the destination went to the source less than a round trip of the long haul
    /// ago, as measured: no queue pair can be connected anew within that time.
    pub fn is_recent(&self, now: Time, rtt: &Rtt) -> bool {
        rtt.is_measured() && now < self.forwarded + rtt.mean()
    }

    /// The source timed out: it has spent one of its retries by itself (R-NAK-10).
    pub fn source_timeout(&mut self) {
        self.sent = CAP - 1;
    }

    /// The source rewound. True if a NAK had asked for it, and not so long ago that the
    /// source does it by itself. `rtt` is that of the long-haul link.
    pub fn rewind_began(&mut self, now: Time, rtt: Span) -> bool {
        let was_asked = self.is_outstanding(now, rtt);
        if let Some(at) = self.asked.take()
            && self.is_own
        {
            self.source_rtt.sample(now.since(at));
            // It heeds no other until an ACK came.
            self.sent = CAP;
        }
        was_asked
    }

    /// No rewind is awaited any more.
    pub fn abandon(&mut self) {
        self.asked = None;
    }

    /// Whether one will be made as soon as the source can heed it.
    pub fn waits(&self) -> bool {
        self.deferred || self.capped
    }

    /// Whether none is due or has to be answered.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.asked.is_none() && !self.waits()
    }

    /// The same, and none was made since the newest ACK that said something new.
    pub fn is_quiet(&self) -> bool {
        self.is_idle() && self.sent == 0 && self.gap_due == Time::NEVER
    }

    /// The number of the current round, from 1; 0 before the first.
    pub fn round(&self) -> u8 {
        self.round
    }

    /// Whether a rewind is awaited.
    pub fn is_outstanding(&self, now: Time, rtt: Span) -> bool {
        self.asked.is_some() && now < self.until(rtt)
    }

    /// Until when a rewind is awaited: NAKs are lost, and ignored. A rewind takes two round
    /// trips to the source at most, where they are known; the second NAK of ours, and the
    /// destination's, are given twice the time.
    fn until(&self, rtt: Span) -> Time {
        let Some(at) = self.asked else { return Time::NEVER };
        let wait = self.source_rtt.with_margin() * 2;
        let wait = if self.source_rtt.is_measured() { wait } else { wait.min(rtt) };
        // R-NAK-6
        let doubled = if self.is_own { self.sent.saturating_sub(1).min(CAP) } else { 1 };
        at + wait.max(PATIENCE) * (1 << doubled)
    }

    /// When a NAK of the Sentry counts as lost, or the source is asked for packets lost before
    /// the Sentry.
    pub fn due(&self, rtt: Span) -> Time {
        if self.asked.is_some() && self.is_own { self.until(rtt) } else { self.gap_due }
    }
}

impl<F: Frame> Flow<F> {
    /// Whether the source is about to rewind because of a NAK.
    pub(crate) fn awaits_rewind(&self, now: Time) -> bool {
        self.naks.is_outstanding(now, self.rtt.mean())
    }

    /// Asks the source to rewind to the oldest packet that the destination
    /// hasn't acknowledged (docs/protocol.md), because the Depot misses
    /// something. Whether it is asked, or will be.
    pub(crate) fn ask_source<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) -> bool {
        let may_ask = cx.config.recovery.asks_source();
        may_ask && (self.make_nak(cx, Metric::NakSynthesised) || self.naks.deferred)
    }

    /// Packets were lost between the source and the Sentry; later ones were forwarded, and are
    /// held at the Depot. The source is asked at once, but
    /// no more than once per round trip: a rewind repairs all that was lost
    /// until then, and costs a window (R-GAP-5).
    pub(crate) fn ask_for_gap<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        (self.ready, self.calm) = (false, false);
        self.lossy = self.lossy_until(cx.now);
        let due = self.naks.last + self.rtt.mean();
        // R-NAK-7
        if self.awaits_rewind(cx.now) || self.naks.gap_due != Time::NEVER {
            return;
        }
        if cx.now < due {
            self.naks.gap_due = due;
        } else if !self.make_nak(cx, Metric::NakSourceLan) && !self.naks.waits() {
            // The destination has to ask: the Depot is to let it see that
            // something is missing (R-GAP-6).
            self.sync(cx, Reason::Lost);
        }
    }

    /// Until when the way from the source counts as lossy if something is lost there `now`.
    pub(crate) fn lossy_until(&self, now: Time) -> Time {
        now + self.rtt.with_margin() * LOSSY
    }

    /// Makes a NAK, if that can be done. True if it was made.
    fn make_nak<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, why: Metric) -> bool {
        let withheld = match (self.acked.filter(|_| self.doubt.is_none()), cx.out.src_qpn()) {
            // R-NAK-4
            (None, _) => Metric::NakNoAcked,
            (_, None) => Metric::NakNoRequester,
            _ if self.naks.sent >= CAP => {
                self.naks.capped = true;
                Metric::NakCapped
            }
            // R-NAK-9
            _ if !self.reads.at_boundary() => {
                // It would end the queue pair there.
                self.naks.deferred = true;
                Metric::NakMidMessage
            }
            (Some(acked), Some(_)) => {
                // R-NAK-3
                cx.out.nak(acked.psn(), self.msn);
                cx.out.count(why, 1);
                self.naks.sent += 1;
                self.naks.round = self.naks.round.checked_add(1).unwrap_or(1);
                (self.naks.asked, self.naks.is_own) = (Some(cx.now), true);
                self.naks.last = cx.now;
                return true;
            }
        };
        cx.out.count(withheld, 1);
        false
    }

    /// A response has gone on to the source: a NAK that waited for the end of a
    /// READ response message, or for an ACK, may go.
    pub(crate) fn make_due_nak<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let Naks { deferred, capped, sent, .. } = self.naks;
        // R-NAK-11
        let may = (deferred && self.reads.at_boundary()) || (capped && sent < CAP);
        if may && !self.awaits_rewind(cx.now) {
            (self.naks.deferred, self.naks.capped) = (false, false);
            self.ask_for_needed(cx);
        }
    }

    /// No rewind followed our NAK in time: it was lost, or ignored. Or it is
    /// time to ask for packets lost before the Sentry.
    pub(crate) fn nak_again<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.naks.abandon();
        self.naks.gap_due = Time::NEVER;
        self.ask_for_needed(cx);
    }

    /// Asks for needed packets that the running pass will not bring.
    fn ask_for_needed<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        // R-NAK-8
        if self.pass.is_needed() && !self.pass.is_running(self.next) {
            self.make_nak(cx, Metric::NakRepeated);
        }
    }
}
