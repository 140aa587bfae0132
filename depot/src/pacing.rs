//! Pacing: when packets held behind a gap are delivered to the destination.
//!
//! A gap holds up a round trip's worth of packets. Delivering them all at once when the gap is
//! filled would be a burst at the rate of the LAN, which switches take for
//! congestion. So the flow is *paced*: each packet is delivered as long after the
//! previous one as it arrived after it, later by a *lag*. A flow that arrived at
//! its destination's pace is delivered at that pace. The lag is at
//! first how long the gap was open, at most `give_up`. As long as it lasts,
//! further gaps that are filled within it hold up nothing.
//!
//! Held packets stay for as long as the source repeats packets that were delivered before them.
//!
//! A lag ends where the source is silent, since silences are cut; a lag beyond a
//! round trip is also worked off little by little.

use common::frame::Frame;
use common::histogram::Timing;
use common::metrics::Metric;
use common::time::{Span, Time};

use crate::{Actions, Config, Context, Flow};

/// Percent of the pool from which on pacing ends: the room is
/// needed for packets behind a gap.
const PRESSURE: u8 = 50;
/// By how much a timer comes late at least: packets go in small groups.
const SLACK: Span = Span::from_micros(5);
/// By how many packets of the flow it comes late: most go on when others arrive, and
/// need no timer.
const GROUP: u64 = 8;
/// A part of the time that passed, by which a lag beyond a round trip shrinks.
const CATCH_UP: u64 = 8;
/// A part of the round trip. A longer silence of the source is cut to this.
const SILENCE: u64 = 64;

/// By how much a flow is late.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Pacing {
    /// Zero unless packets wait.
    lag: Span,
    /// When the newest delivered packet came.
    newest: Time,
    /// When the source last repeated a delivered packet.
    repeated: Time,
    /// The mean distance in time between delivered packets.
    spacing: Span,
}

impl Pacing {
    /// Whether arriving packets have to wait.
    pub fn is_late(&self) -> bool {
        self.lag > Span::ZERO
    }

    /// Nothing waits any more.
    pub fn reset(&mut self) {
        self.lag = Span::ZERO;
    }

    /// A gap that opened at `seen` held up everything until now. Later packets
    /// are late by no more than `most` (R-PACE-2).
    pub fn resume(&mut self, seen: Time, now: Time, most: Span) {
        self.lag = self.lag.max(now.since(seen)).min(most);
        self.newest = seen;
    }

    /// When a packet that came at `at` is due, if it is the next one, and by how much it is late then.
    pub fn due(&self, at: Time, rtt: Span) -> (Time, Span) {
        let lag = self.lag_at(at, rtt);
        ((at + lag).max(self.repeated + rtt / SILENCE), lag)
    }

    /// The source repeats delivered packets: the destination may lack them, and has no
    /// use for the held ones before it has these (R-PACE-5).
    pub fn repeated(&mut self, now: Time) {
        self.repeated = now;
    }

    /// Whether the source has repeated delivered packets for the last time less than `span` ago.
    pub fn has_repeated(&self, now: Time, span: Span) -> bool {
        self.repeated > Time::ZERO && now < self.repeated + span
    }

    /// A packet that came at `at`, and was to be late by `lag`, is delivered.
    pub fn delivered(&mut self, at: Time, lag: Span, now: Time, rtt: Span) {
        self.lag = lag.min(now.since(at));
        let step = at.since(self.newest).min(rtt / SILENCE);
        self.spacing = (self.spacing * 7 + step) / 8;
        self.newest = self.newest.max(at);
    }

    /// How late a timer may come.
    fn slack(&self, rtt: Span) -> Span {
        (self.spacing * GROUP).min(rtt / SILENCE).max(SLACK)
    }

    fn lag_at(&self, at: Time, rtt: Span) -> Span {
        let step = at.since(self.newest);
        // R-PACE-3
        let spacing = step.min(rtt / SILENCE);
        // R-PACE-4
        let beyond = self.lag - rtt;
        self.lag - beyond.min(spacing / CATCH_UP) - (step - spacing)
    }
}

impl<F: Frame> Flow<F> {
    /// Delivers packets that are in order and due. Returns when the timer for the next one is due; [`Time::NEVER`] if none
    /// waits for its time.
    pub(crate) fn deliver_due<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) -> Time {
        if self.share.is_some() && !self.catch_up(cx) {
            return Time::NEVER;
        }
        while let Some(at) = self.sequence.front() {
            // R-PACE-1
            let (due, lag) = self.pacing.due(at, self.rtt);
            let waits = cx.config.pacing && due > cx.now;
            // R-PACE-6
            if waits && !cx.pool.is_filled(PRESSURE) {
                return due + self.pacing.slack(self.rtt);
            }
            if !self.has_room(cx) {
                self.wait_for_room(cx);
                return Time::NEVER;
            }
            self.drain(cx, at, lag);
        }
        Time::NEVER
    }

    /// Delivers all packets in order, due or not.
    pub(crate) fn deliver_all<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        while self.deliver_next(cx) {}
    }

    /// Delivers the next held packet in order, whether it is due and has room or not. False if
    /// there is none.
    #[inline(never)]
    pub(crate) fn deliver_next<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) -> bool {
        let Some(at) = self.sequence.front() else { return false };
        let (_, lag) = self.pacing.due(at, self.rtt);
        self.drain(cx, at, lag);
        true
    }

    /// Delivers the next packet, which is held, came at `at`, and was to be late by `lag`.
    #[inline(always)]
    fn drain<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, at: Time, lag: Span) {
        let Some(held) = self.sequence.drain() else { return };
        self.pacing.delivered(at, lag, cx.now, self.rtt);
        let seq = self.sequence.next() - u64::from(held.info.count);
        cx.pool.give(held.info.len as usize);
        cx.out.count(Metric::DepotDrained, 1);
        cx.out.record(Timing::Hold, cx.now.since(at));
        self.nak_is_answered(cx.now, seq);
        self.deliver(cx, seq, held.packet, held.info);
    }

    /// When the next packet has its time; [`Time::NEVER`] if none waits for it.
    pub(crate) fn pacing_due(&self, config: &Config) -> Time {
        match self.sequence.front() {
            // It is called when it is its turn.
            Some(_) if self.waits_for_room() => Time::NEVER,
            Some(at) if config.pacing => {
                let (due, _) = self.pacing.due(at, self.rtt);
                due + self.pacing.slack(self.rtt)
            }
            _ => Time::NEVER,
        }
    }
}
