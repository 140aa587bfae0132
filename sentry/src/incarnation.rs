//! Where one incarnation of a queue pair ends and the next begins.
//!
//! A queue pair's number is used again, with PSNs that may lie anywhere. What
//! is believed of the old incarnation would be false in the new one: an `acked` of the
//! old one in a NAK completes what was never delivered.

use common::control::Reason;
use common::frame::Frame;
use common::metrics::Metric;
use common::psn::{Psn, Seq};
use common::time::{Span, Time};
use common::wire::{Identity, PacketKind, Roce};

use crate::reads::Reads;
use crate::timers::Unanswered;
use crate::{Actions, Config, Context, Flow};

/// Shortest derived time without data that may separate two incarnations.
pub(crate) const FORGET_MIN: Span = Span::from_millis(80);

/// Whether a flow is left to the RNICs: how many PSNs its requests take can't be told, or a
/// queue before the Sentry is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bypassed {
    /// It isn't.
    No,
    /// Until the path MTU is known, or the next incarnation begins.
    UntilPathMtu,
    /// Until the way from the source isn't lossy any more, or the next incarnation begins.
    WhileCrowded,
    /// Until the next incarnation begins.
    UntilNextIncarnation,
}

/// So many packets in a row are lost before the Sentry where a queue is full, and hardly
/// one by one.
const CROWDED: u64 = 4;

/// What the incarnation after a long rest has to be [announced](Flow::announce) with.
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
    /// Whether the packet with the number `seq` can't be of the incarnation that is
    /// known, whatever it is.
    pub(crate) fn is_of_another_incarnation(&self, config: &Config, seq: Seq, now: Time) -> bool {
        if seq.since(self.next).max(self.next.since(seq)) > config.window_max {
            // Nothing that is in flight can be that far away.
            return true;
        }
        // A source that pauses goes on where it was, or repeats what it sent.
        let is_odd = seq > self.next || (self.is_bypassed() && seq < self.next);
        is_odd && now >= self.heard() + self.forget_after(config)
    }

    /// Whether another packet than this was sent with the number `seq`, in this
    /// incarnation. Sources repeat packets as they were, but for the IPv4 identification
    /// and the request for an ACK. If it is the same packet, there is no doubt any more.
    pub(crate) fn differs(&mut self, seq: Seq, frame: &[u8], roce: &Roce) -> bool {
        let Some((at, slot)) = self.slot_of(seq).filter(|(_, slot)| !slot.is_unsent()) else {
            return false;
        };
        if at != seq {
            // A source asks for the rest of a READ that was answered in part.
            return roce.kind() != PacketKind::ReadRequest;
        }
        // Damage on the way leaves the ICRC as the source has made it.
        let is_copy = slot.identity.is_copy(Identity::of(frame, roce), roce);
        if is_copy {
            // What was sent in doubt proves nothing.
            self.doubt = self.doubt.filter(|sent| seq >= *sent);
        }
        !is_copy
    }

    /// Whether nothing is remembered any more of the packet that was sent with the number
    /// `seq`. In the middle of a pass it is of that pass.
    pub(crate) fn is_unknown(&self, seq: Seq) -> bool {
        !self.is_bypassed()
            && seq < self.window.start()
            && self.discovery.tracks()
            && !self.pass.continues(seq)
    }

    /// A packet came whose number was acknowledged: the source lacks the ACK, or the queue
    /// pair has begun another incarnation. Until that is known the flow is left to the
    /// RNICs: repeats pass, nothing is resent, held or asked for. It is known when the
    /// source repeats what is remembered, or something else with its number; when the
    /// destination acknowledges what comes after all that was sent before, or takes back
    /// what it acknowledged.
    pub(crate) fn begin_doubt<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.reads.is_holding() || self.reads.is_waiting() {
            // A source that lacks the ACK asks again for all that comes after.
            self.drop_answers(cx, Metric::DropAskedAgain);
            self.reads.forget();
        }
        self.doubt.get_or_insert(self.next);
    }

    pub(crate) fn forget_after(&self, config: &Config) -> Span {
        config.forget.unwrap_or((self.rtt.mean() * 24).max(FORGET_MIN))
    }

    /// The Depot may have forgotten the flow during a pause: it is told before
    /// the data comes.
    pub(crate) fn wake<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
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

    /// It is known that this incarnation begins with the flow's first PSN, its path MTU in
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

    /// Drops everything that is held and believed: the flow's next incarnation, with
    /// an epoch of its own, begins at `psn`.
    pub(crate) fn begin_again<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, psn: Psn) {
        cx.out.new_incarnation();
        self.renew(cx, psn);
    }

    /// As another incarnation, but certainly of the same queue pair.
    pub(crate) fn renew<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, psn: Psn) {
        self.forget(cx);
        let (rtt, pmtu) = (self.rtt, self.pmtu);
        let epoch = cx.new_epoch();
        *self = Self { rtt, pmtu, ..Self::new(cx.config, cx.now, epoch, psn) };
        cx.out.count(Metric::FlowNewEpoch, 1);
    }

    /// Lets go of every handle: before the flow itself is dropped.
    pub fn forget<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.drop_answers(cx, Metric::DropOldIncarnation);
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

    /// Whether a gap before `seq` shows that a queue before the Sentry is full. Among READs
    /// it may be a single request that takes many PSNs. A flow that is not protected yet
    /// asks for nothing now, but has a cache to repair from, or will ask.
    #[inline]
    pub(crate) fn shows_crowd(&self, config: &Config, seq: Seq, roce: &Roce) -> bool {
        if seq < self.next + CROWDED {
            return false;
        }
        let may_ask = self.is_protected() || !config.recovery.caches() && self.discovery.tracks();
        may_ask && roce.kind().is_plain() && !self.reads.is_waiting()
    }

    /// A queue before the Sentry is full. To ask for what it has lost would have the source
    /// rewind into it, and to hold what follows would keep from it how full the queue is:
    /// the RNICs slow down by themselves.
    pub(crate) fn leave_to_crowd<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.bypass(cx);
        self.bypassed = Bypassed::WhileCrowded;
        self.lossy = self.lossy_until(cx.now);
    }

    /// The next packet of a flow that was left to the RNICs, `seq`; how many PSNs it takes
    /// can be told.
    pub(crate) fn return_from_bypass<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        match self.bypassed {
            Bypassed::UntilPathMtu if self.pmtu.get() != 0 => self.renew(cx, seq.psn()),
            Bypassed::WhileCrowded if seq > self.next => self.lossy = self.lossy_until(cx.now),
            Bypassed::WhileCrowded if seq == self.next && cx.now >= self.lossy => {
                self.renew(cx, seq.psn());
            }
            _ => {}
        }
    }

    /// A packet of the flow passed that takes a number of PSNs which nobody can tell: the
    /// flow is left to the RNICs until its next incarnation.
    pub fn on_unknown<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.bypass(cx);
        self.bypassed = Bypassed::UntilNextIncarnation;
    }

    /// Stops protecting the flow: tells the Depot to let go of what it holds.
    pub fn bypass<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
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
