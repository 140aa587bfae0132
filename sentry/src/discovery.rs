//! Whether a Depot answers for a flow.

use common::allowance::Need;
use common::control::Reason;
use common::frame::Frame;
use common::metrics::Metric;
use common::time::{Span, Time};

use crate::{Actions, Cx, Flow};

/// After so many unanswered SYNC(open) there is no Depot on this path.
const TRIES: u32 = 24;
/// So many of them are left once it is slow.
const SLOW_TRIES: u32 = 8;
/// Shortest interval between two SYNC(open).
const OPEN_MIN: Span = Span::from_micros(100);
/// How often a path without a Depot is tried again, if data flows.
const RARELY: Span = Span::from_millis(10_000);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// SYNC(open) goes out until a STATUS answers.
    Seeking { tries: u32 },
    /// A STATUS answered: the flow is protected.
    Protected,
    /// Nobody answered: unprotected, tried again rarely.
    Absent,
}

/// Peer discovery of one flow (docs/protocol.md).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Discovery {
    state: State,
    since: Time,
    /// Back-off once the quick phase is over.
    interval: Span,
}

impl Discovery {
    pub fn new(now: Time) -> Self {
        Self { state: State::Seeking { tries: 0 }, since: now, interval: Span::ZERO }
    }

    pub fn is_protected(&self) -> bool {
        self.state == State::Protected
    }

    /// Whether packets in flight are worth remembering.
    pub fn tracks(&self) -> bool {
        self.state != State::Absent
    }

    /// Whether any Depot may have heard of the flow.
    pub fn started(&self) -> bool {
        self.state != State::Seeking { tries: 0 }
    }

    /// Back to unprotected, with SYNC(open) in slow back-off.
    pub fn lose_peer(&mut self) {
        if self.is_protected() {
            self.state = State::Seeking { tries: 1 };
            self.since = Time::ZERO;
            self.interval = Span::ZERO;
        }
    }

    /// No quick tries any more: the next one when an answer to the last is late.
    fn slow_down(&mut self, rtt: Span) {
        if let State::Seeking { tries } = &mut self.state {
            *tries = (*tries).max(TRIES - SLOW_TRIES);
            (self.since, self.interval) = (Time::ZERO, rtt.scale(5, 4));
        }
    }

    /// True if the answer was news.
    pub fn answered(&mut self) -> bool {
        !core::mem::replace(&mut self.state, State::Protected).eq(&State::Protected)
    }

    /// When the next SYNC(open) is due.
    pub fn due(&self, last_sync: Time, rtt: Span, now: Time) -> Time {
        match self.state {
            State::Seeking { tries: 1.. } if now < self.since + rtt * 2 => {
                last_sync + (rtt / 8).max(OPEN_MIN)
            }
            State::Seeking { tries: 1.. } => last_sync + self.interval.max(rtt).max(OPEN_MIN),
            _ => Time::NEVER,
        }
    }
}

impl<F: Frame> Flow<F> {
    /// Data flows: announces a new flow ahead of its first packet, and tries
    /// an absent peer again.
    pub(crate) fn discover<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        match self.discovery.state {
            State::Seeking { tries: 0 } => {
                self.discovery.state = State::Seeking { tries: 1 };
                self.sync(cx, Reason::Open);
            }
            State::Absent if cx.now >= self.last_sync + RARELY => self.sync(cx, Reason::Open),
            _ => {}
        }
    }

    /// The time for another SYNC(open) has come.
    pub(crate) fn seek_again<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        let State::Seeking { tries } = self.discovery.state else { return };
        if tries >= TRIES {
            self.discovery.state = State::Absent;
            return self.forget(cx);
        }
        let rtt = self.rtt.mean();
        let is_slow = cx.now >= self.discovery.since + rtt * 2;
        // Where other flows' answers take longer, so will this one's.
        let rtt = rtt.max(cx.allowance.rtt());
        if is_slow {
            self.discovery.interval = (self.discovery.interval * 2).max(rtt).min(rtt * 8);
            if !cx.allowance.take(Need::Late, cx.now) {
                cx.out.count(Metric::WithheldOpen, 1);
                self.last_sync = cx.now;
                return;
            }
        } else if !self.may_be_early(cx, Metric::WithheldOpen) {
            return self.discovery.slow_down(rtt);
        }
        self.discovery.state = State::Seeking { tries: tries + 1 };
        self.sync(cx, Reason::Open);
    }

    /// The peer hasn't answered for too long.
    pub(crate) fn lose_peer<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        cx.out.count(Metric::FlowPeerLost, 1);
        self.release_answers(cx);
        self.ready = false;
        self.discovery.lose_peer();
        self.knowledge = None;
        self.unanswered = None;
        self.pass.end();
        self.naks.abandon();
    }
}
