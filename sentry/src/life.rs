//! Where one life of a queue pair ends and the next begins.
//!
//! A queue pair's number is used again, with PSNs that may lie anywhere. What
//! is believed of the old life would be false in the new one: an `acked` of the
//! old one in a NAK completes what was never delivered.

use common::control::Reason;
use common::frame::Frame;
use common::metrics::Metric;
use common::psn::{Psn, Seq};
use common::time::{Span, Time};

use crate::reads::Reads;
use crate::timers::Unanswered;
use crate::{Actions, Config, Cx, Flow};

/// Shortest time after which an ACK that went to the source has arrived, and
/// all that it had sent before.
const SETTLED_MIN: Span = Span::from_millis(10);
/// Shortest derived time without data that may separate two lives.
pub(crate) const FORGET_MIN: Span = Span::from_millis(80);

/// What was acknowledged long ago, so that the source knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    /// All before this was acknowledged before `since` ...
    old: Seq,
    /// ... and all before this at that time ...
    new: Seq,
    since: Time,
    /// ... and all before this at `newest.1`.
    newest: (Seq, Time),
}

impl Settled {
    /// Nothing yet.
    pub fn new(now: Time) -> Self {
        Self { old: Seq::default(), new: Seq::default(), since: now, newest: (Seq::default(), now) }
    }

    fn advance(&mut self, acked: Seq, now: Time, grace: Span) {
        if now.since(self.since) >= grace {
            (self.old, self.new, self.since) = (self.new, acked, now);
        }
        self.newest = (acked, now);
    }

    fn holds(&self, seq: Seq, now: Time, grace: Span) -> bool {
        let (newest, at) = self.newest;
        seq < self.old
            || (seq < self.new && now.since(self.since) >= grace)
            || (seq < newest && now.since(at) >= grace)
    }
}

/// Whether a flow is left to the RNICs, because how many PSNs its requests take can't be
/// told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bypassed {
    /// It isn't.
    No,
    /// Until the path MTU is known, or the next life begins.
    UntilPathMtu,
    /// Until the next life begins.
    UntilNextLife,
}

/// What the life after a long rest has to be [announced](Flow::announce) with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rest {
    /// The PSN of the next request.
    pub psn: Psn,
    /// Messages that are complete, as the destination counts.
    pub msn: u32,
    /// Path MTU in bytes; 0: unknown.
    pub pmtu: u16,
    /// The long-haul round trip, if it was measured.
    pub rtt: Option<Span>,
}

impl<F: Frame> Flow<F> {
    fn grace(&self) -> Span {
        self.rtt.mean().max(SETTLED_MIN)
    }

    /// `acked` has moved.
    pub(crate) fn settle(&mut self, acked: Seq, now: Time) {
        let grace = self.grace();
        self.settled.advance(acked, now, grace);
    }

    /// Whether everything before `seq`, and more, was acknowledged long ago.
    pub(crate) fn is_settled(&self, seq: Seq, now: Time) -> bool {
        self.settled.holds(seq, now, self.grace())
    }

    /// Whether the packet with the number `seq` can't be of the life that is
    /// known.
    pub(crate) fn is_of_another_life(&self, config: &Config, seq: Seq, now: Time) -> bool {
        if seq.since(self.next).max(self.next.since(seq)) > config.window_max {
            // Nothing that is in flight can be that far away.
            return true;
        }
        // A source that pauses goes on where it was.
        let paused = now >= self.heard() + self.forget_after(config);
        // It repeats what it knows to be acknowledged; nobody asked for that.
        // But a source that was asked may have done so before it heard more.
        let was_asked = self.is_solicited(now) && now < self.last_data + self.grace();
        let goes_back = self.is_settled(seq, now) && !was_asked;
        seq != self.next && (paused || goes_back)
    }

    pub(crate) fn forget_after(&self, config: &Config) -> Span {
        config.forget.unwrap_or((self.rtt.mean() * 24).max(FORGET_MIN))
    }

    /// The Depot may have forgotten the flow during a pause: it is told before
    /// the data comes.
    pub(crate) fn wake<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        let paused = cx.now >= self.heard() + self.forget_after(cx.config);
        if paused && self.is_protected() {
            // What was asked before the pause is not going to be answered now.
            self.unanswered = Unanswered::NONE;
            self.sync(cx, Reason::Open);
        }
    }

    /// The queue pair was silent before the flow's first packet, so that no
    /// answers are on their way.
    pub fn begin(&mut self) {
        self.reads.begin();
    }

    /// It is known that this life begins with the flow's first PSN, its path MTU in
    /// bytes (0: unknown), how many messages the destination has counted, and the
    /// round trip, if it was measured before.
    pub fn announce(&mut self, pmtu: u16, msn: u32, rtt: Option<Span>) {
        self.acked = Some(self.first);
        self.msn = msn;
        self.pmtu.set(pmtu);
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
        }
        self.begin();
    }

    /// Drops everything that is held and believed: the flow's next life, with
    /// an epoch of its own, begins at `psn`.
    pub(crate) fn begin_again<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, psn: Psn) {
        cx.out.new_life();
        self.renew(cx, psn);
    }

    /// As another life, but certainly of the same queue pair.
    pub(crate) fn renew<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, psn: Psn) {
        self.forget(cx);
        let (rtt, pmtu) = (self.rtt, self.pmtu);
        let epoch = cx.new_epoch();
        *self = Self { rtt, pmtu, ..Self::new(cx.config, cx.now, epoch, psn) };
        cx.out.count(Metric::FlowNewEpoch, 1);
    }

    /// Lets go of every handle: before the flow itself is dropped.
    pub fn forget<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        self.drop_answers(cx, Metric::DropOldLife);
        self.reads = Reads::new(self.next, cx.now);
        self.clear_window(cx);
    }

    /// What there is to keep of the flow, if all that was sent is acknowledged and the
    /// source may have gone for good: a flow that wakes is announced to its Depot in
    /// any case.
    pub fn rest(&self, config: &Config, now: Time) -> Option<Rest> {
        let paused = now >= self.heard() + self.forget_after(config);
        let done = self.acked == Some(self.next) && !self.is_outstanding();
        (paused && done && self.is_protected()).then(|| Rest {
            psn: self.next.psn(),
            msn: self.msn,
            pmtu: self.pmtu.get(),
            rtt: self.rtt(),
        })
    }

    /// A packet of the flow passed that takes a number of PSNs which nobody can tell: the
    /// flow is left to the RNICs until its next incarnation.
    pub fn on_unknown<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        self.bypass(cx);
        self.bypassed = Bypassed::UntilNextLife;
    }

    /// Stops protecting the flow: tells the Depot to let go of what it holds.
    pub fn bypass<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        if self.is_bypassed() {
            return;
        }
        cx.out.count(Metric::FlowBypassed, 1);
        self.release_answers(cx);
        if self.discovery.leave() {
            self.sync(cx, Reason::Release);
        }
        self.forget(cx);
        self.bypassed = Bypassed::UntilPathMtu;
        self.ready = false;
    }
}
