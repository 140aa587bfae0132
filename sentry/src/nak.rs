//! NAKs to the source: when, how many, and whether one made it rewind.

use common::frame::Frame;
use common::metrics::Metric;
use common::psn::Seq;
use common::rtt::Rtt;
use common::time::{Span, Time};

use crate::{Actions, Cx, Flow};

/// Most NAKs between two ACKs that advance `acked`†. RNICs ignore a second
/// NAK before a positive ACK, and count them against their retry limits.
const CAP: u32 = 2;
/// Round trip to the source until one was measured.
const SOURCE_RTT: Span = Span::from_millis(1);
/// A rewind takes at least this long to be seen.
const PATIENCE: Span = Span::from_micros(500);

/// The NAKs of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naks {
    /// The NAK that the source hasn't answered with a rewind; `Some(at)` in
    /// `own` if the Sentry made it.
    outstanding: bool,
    own: Option<Time>,
    /// Made since `acked` last advanced.
    sent: u32,
    /// Grows with every NAK made.
    round: u32,
    /// One was due, but not within a READ response message.
    deferred: Option<Time>,
    source_rtt: Rtt,
}

impl Naks {
    pub fn new() -> Self {
        Self {
            outstanding: false,
            own: None,
            sent: 0,
            round: 0,
            deferred: None,
            source_rtt: Rtt::guess(SOURCE_RTT),
        }
    }

    /// `acked` advanced.
    pub fn progress(&mut self) {
        self.sent = 0;
    }

    /// The destination's own NAK is on its way to the source.
    pub fn genuine(&mut self) {
        self.outstanding = true;
        self.own = None;
    }

    /// The source timed out: it has spent one of its retries by itself†.
    pub fn source_timeout(&mut self) {
        self.sent = CAP - 1;
    }

    /// The source rewound. True if a NAK had asked for it.
    pub fn rewind_began(&mut self, now: Time) -> bool {
        if let Some(at) = self.own.take() {
            self.source_rtt.sample(now.since(at));
        }
        core::mem::take(&mut self.outstanding)
    }

    /// No rewind is awaited any more.
    pub fn abandon(&mut self) {
        self.outstanding = false;
        self.own = None;
    }

    /// The number of the current round, from 1.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Whether a rewind is awaited.
    pub fn is_outstanding(&self) -> bool {
        self.outstanding
    }

    /// When a NAK of ours counts as lost; doubled for the second.
    pub fn due(&self) -> Time {
        let Some(at) = self.own.or(self.deferred) else { return Time::NEVER };
        let patience = (self.source_rtt.with_margin() * 2).max(PATIENCE);
        at + patience * (1 << self.sent.saturating_sub(1).min(CAP))
    }
}

impl<F: Frame> Flow<F> {
    /// Asks the source to rewind to the oldest packet that the destination
    /// hasn't acknowledged (docs/protocol.md), because the Depot misses
    /// something.
    pub(crate) fn ask_source<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        if cx.config.recovery.asks_source() && self.acked.is_none_or(|acked| acked < self.next) {
            self.make_nak(cx, Metric::NakSynthesised);
        }
    }

    /// The packet `seq`, which is ahead, has come: one before it was lost on the
    /// way here. Whether the source is asked for that, so that this one may be
    /// dropped; it will come again.
    pub(crate) fn ask_for_hole<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, seq: Seq) -> bool {
        // If the source went back, but not to the hole, it has no such packet.
        let goes_back = self.hole.is_some_and(|newest| seq <= newest);
        if !self.is_protected() || goes_back {
            return false;
        }
        let awaited = self.naks.own.is_some() || self.naks.deferred.is_some();
        let asked = awaited || self.make_nak(cx, Metric::NakSourceLan);
        self.hole = asked.then_some(seq);
        asked
    }

    /// Makes a NAK, if that can be done. True if it was made, or will be.
    fn make_nak<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, why: Metric) -> bool {
        let withheld = match (self.acked, cx.out.requester()) {
            (None, _) => Metric::NakNoAcked,
            (_, None) => Metric::NakNoRequester,
            _ if self.naks.sent >= CAP => Metric::NakCapped,
            _ if !self.reads.at_boundary() => {
                // It would end the queue pair there.
                self.naks.deferred = Some(cx.now);
                cx.out.count(Metric::NakMidMessage, 1);
                return true;
            }
            (Some(acked), Some(_)) => {
                cx.out.nak(acked.psn(), self.msn);
                cx.out.count(why, 1);
                self.naks.sent += 1;
                self.naks.round += 1;
                self.naks.outstanding = true;
                self.naks.own = Some(cx.now);
                return true;
            }
        };
        cx.out.count(withheld, 1);
        false
    }

    /// A READ response message is complete: a NAK that waited for it may go.
    pub(crate) fn make_deferred_nak<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        if self.naks.deferred.take().is_none() {
            return;
        }
        if self.hole.is_none() {
            self.ask_source(cx);
        } else {
            self.ask_for_hole_again(cx);
        }
    }

    /// If the NAK can't be made, the next packet passes, and the destination
    /// asks.
    fn ask_for_hole_again<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        if !self.make_nak(cx, Metric::NakSourceLan) {
            self.hole = None;
        }
    }

    /// No rewind followed our NAK in time: it was lost, or ignored.
    pub(crate) fn nak_again<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        self.naks.abandon();
        if self.naks.deferred.take().is_some() {
            // The READ response message has no end.
            self.hole = None;
        } else if self.hole.is_some() {
            self.ask_for_hole_again(cx);
        } else if self.pass.needed > 0 {
            self.ask_source(cx);
        }
    }
}
