//! Whether a Depot answers for a flow.

use common::allowance::Need;
use common::control::{Reason, SyncMessage};
use common::frame::Frame;
use common::metrics::Metric;
use common::time::{Span, Time};
use common::wire::Qpn;

use crate::timers::Unanswered;
use crate::{Actions, Context, Flow, Standing};

/// After so many unanswered SYNC(open) there is no Depot on this path.
const TRIES: u32 = 24;
/// So many of them are left once it is slow.
const SLOW_TRIES: u32 = 8;
/// Shortest interval between two SYNC(open).
const OPEN_MIN: Span = Span::from_micros(100);
/// How often a path without a Depot is tried again, if data flows.
const RARELY: Span = Span::from_millis(10_000);
/// Most SYNC(release) about one incarnation.
const RELEASES: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// SYNC(open) goes out until a STATUS answers. `greeted`: a passive Depot answered,
    /// and no SYNC(open) since the one that told it so is late.
    Seeking { tries: u32, greeted: bool },
    /// A STATUS answered: the flow is protected.
    Protected,
    /// Nobody answered: unprotected, tried again rarely.
    Absent,
    /// The data of these hosts has not paid for a SYNC(open) yet: unprotected, tried again with each packet. A Depot
    /// may have `heard` of the flow before.
    Deferred { heard: bool },
    /// The flow is left to the RNICs: SYNC(release) goes out until it is answered.
    Leaving { tries: u32 },
    /// The Depot knows, or was told often enough.
    Left,
}

impl State {
    const fn seeking(tries: u32) -> Self {
        Self::Seeking { tries, greeted: false }
    }
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
        Self { state: State::seeking(0), since: now, interval: Span::ZERO }
    }

    pub fn is_protected(&self) -> bool {
        self.state == State::Protected
    }

    /// Whether the flow is protected, or why it is not.
    pub fn standing(&self) -> Standing {
        match self.state {
            State::Seeking { .. } => Standing::Seeking,
            State::Protected => Standing::Protected,
            State::Absent => Standing::Absent,
            State::Deferred { .. } => Standing::Deferred,
            State::Leaving { .. } | State::Left => Standing::Left,
        }
    }

    /// Whether packets in flight are worth remembering.
    pub fn tracks(&self) -> bool {
        !matches!(self.state, State::Absent | State::Deferred { .. })
    }

    /// Whether any Depot may have heard of the flow.
    pub fn started(&self) -> bool {
        !matches!(self.state, State::Seeking { tries: 0, .. } | State::Deferred { heard: false })
    }

    /// Back to unprotected, with SYNC(open) in slow back-off.
    pub fn lose_peer(&mut self) {
        if self.is_protected() {
            self.state = State::seeking(1);
            self.since = Time::ZERO;
            self.interval = Span::ZERO;
        }
    }

    /// The flow is left to the RNICs. True if a Depot may have heard of it.
    pub fn leave(&mut self) -> bool {
        let started = self.started();
        self.state = if started { State::Leaving { tries: 1 } } else { State::Left };
        started
    }

    /// Whether a Depot is still to be told that the flow is left to the RNICs.
    pub fn is_leaving(&self) -> bool {
        matches!(self.state, State::Leaving { .. })
    }

    /// The Depot holds nothing.
    pub fn left(&mut self) {
        if self.is_leaving() {
            self.state = State::Left;
        }
    }

    /// No quick tries any more: the next one when a reply to the last is late.
    fn slow_down(&mut self, rtt: Span) {
        if let State::Seeking { tries, .. } = &mut self.state {
            *tries = (*tries).max(TRIES - SLOW_TRIES);
            (self.since, self.interval) = (Time::ZERO, rtt.scale(5, 4));
        }
    }

    /// True if the reply was news.
    pub fn answered(&mut self) -> bool {
        !core::mem::replace(&mut self.state, State::Protected).eq(&State::Protected)
    }

    /// When the next SYNC(open), or SYNC(release), is due.
    pub fn due(&self, last_sync: Time, rtt: Span, now: Time) -> Time {
        match self.state {
            State::Seeking { tries: 1.., .. } if now < self.since + rtt * 2 => {
                last_sync + (rtt / 8).max(OPEN_MIN)
            }
            State::Seeking { tries: 1.., .. } => last_sync + self.interval.max(rtt).max(OPEN_MIN),
            State::Leaving { .. } => last_sync + rtt.scale(5, 4).max(OPEN_MIN),
            _ => Time::NEVER,
        }
    }
}

impl<F: Frame> Flow<F> {
    /// Data flows: announces a new flow ahead of its first packet, and tries
    /// an absent peer again.
    pub(crate) fn discover<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        match self.discovery.state {
            // R-PEER-1, R-MSG-8
            State::Seeking { tries: 0, .. } | State::Deferred { .. } => {
                if cx.allowance.take(Need::Open, cx.now) {
                    self.discovery =
                        Discovery { state: State::seeking(1), ..Discovery::new(cx.now) };
                    self.sync(cx, Reason::Open);
                } else if self.discovery.tracks() {
                    self.defer(cx);
                }
            }
            // R-PEER-7
            State::Absent
                if cx.now >= self.last_sync + RARELY && cx.allowance.take(Need::Open, cx.now) =>
            {
                self.sync(cx, Reason::Open);
            }
            _ => {}
        }
    }

    /// Leaves the flow to the RNICs until the budget pays for a SYNC(open) (R-MSG-8).
    pub(crate) fn defer<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let heard = self.discovery.started();
        cx.out.count(Metric::FlowDeferred, 1);
        self.unprotect(cx);
        self.discovery.state = State::Deferred { heard };
        self.release_all(cx);
    }

    /// The time for another SYNC(open) has come.
    pub(crate) fn seek_again<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let State::Seeking { tries, mut greeted } = self.discovery.state else { return };
        // R-PEER-4
        if tries >= TRIES {
            self.discovery.state = State::Absent;
            return self.release_all(cx);
        }
        let rtt = self.rtt.mean();
        let is_slow = cx.now >= self.discovery.since + rtt * 2;
        // Where other flows' replies take longer, so will this one's.
        let rtt = rtt.max(cx.allowance.rtt());
        if is_slow {
            if !core::mem::take(&mut greeted) {
                cx.out.unheard();
            }
            self.discovery.interval = (self.discovery.interval * 2).max(rtt).min(rtt * 8);
            // R-MSG-4
            if !cx.allowance.take(Need::Late, cx.now) {
                cx.out.count(Metric::WithheldOpen, 1);
                return self.defer(cx);
            }
        } else if !self.may_be_early(cx, Metric::WithheldOpen) {
            // R-MSG-3
            return self.discovery.slow_down(rtt);
        }
        self.discovery.state = State::Seeking { tries: tries + 1, greeted };
        self.sync(cx, Reason::Open);
    }

    /// The peer hasn't answered for too long: the flow is a wire, and the Depot is to hold
    /// nothing (R-PEER-5).
    pub(crate) fn lose_peer<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        cx.out.count(Metric::FlowPeerLost, 1);
        cx.out.unheard();
        self.unprotect(cx);
        self.sync_now(cx, Reason::Open);
    }

    /// The Depot holds nothing: it has not seen yet that this box hears it, or has been
    /// started anew, or has given the flow up. The next SYNC shows it (R-PEER-6).
    pub(crate) fn on_passive<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, echo: Time) {
        if self.knowledge.as_ref().is_some_and(|known| known.echo > echo) {
            // It was overtaken.
            return;
        }
        self.unanswered = Unanswered::NONE;
        if self.is_protected() {
            self.unprotect(cx);
        }
        match &mut self.discovery.state {
            State::Seeking { greeted: true, .. } => return,
            // R-PEER-3
            State::Seeking { greeted, .. } => *greeted = true,
            state => *state = State::Seeking { tries: 1, greeted: true },
        }
        self.discovery.slow_down(self.rtt.mean().max(cx.allowance.rtt()));
        self.sync_now(cx, Reason::Open);
    }

    /// The Depot's state is unknown from now on.
    fn unprotect<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.release_responses(cx);
        (self.ready, self.calm) = (false, false);
        self.discovery.lose_peer();
        self.knowledge = None;
        self.unanswered = Unanswered::NONE;
        self.pass.end();
        self.naks.abandon();
    }

    /// SYNC(release) was not answered in time (R-PEER-15).
    pub(crate) fn release_again<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let State::Leaving { tries } = &mut self.discovery.state else { return };
        if *tries >= RELEASES {
            return self.discovery.left();
        }
        *tries += 1;
        self.sync_now(cx, Reason::Release);
    }

    /// The SYNC(release) that a Depot has not answered yet; `None` if there is nobody to
    /// be told that the flow is left to the RNICs.
    pub fn release(&self, src_qpn: Option<Qpn>, now: Time) -> Option<SyncMessage> {
        let is_leaving = self.discovery.is_leaving();
        is_leaving.then(|| self.make_sync(Reason::Release, src_qpn, now))
    }
}
