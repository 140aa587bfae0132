//! Where one incarnation of a queue pair ends and the next begins.
//!
//! A queue pair number is reused, with any first PSN. State of the old incarnation is false in
//! the new one: a NAK with its `acked` completes messages that were never delivered.

use common::allowance::Need;
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
pub(crate) const PAUSE_MIN: Span = Span::from_millis(80);

/// Whether a flow is bypassed: its requests take an unknown number of PSNs, a queue before the
/// Sentry overflows, or the cache does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bypassed {
    /// It is not.
    No,
    /// Until the path MTU is known, or the next incarnation begins.
    UntilPathMtu,
    /// Until nothing was lost before the Sentry for a while, or the next incarnation begins.
    WhileCrowded,
    /// Until the cache has room again, or the next incarnation begins.
    WhileCacheIsFull,
    /// Until the next incarnation begins.
    UntilNextIncarnation,
    /// The source repeats single packets: likewise.
    SelectiveRepeat,
}

/// Percent of the cache above which no flow returns that it had no room for.
const CACHE_PRESSURE: u8 = 50;

/// Packets lost in a row before the Sentry that show a full queue rather than single losses.
const CROWDED: u64 = 4;

/// State with which a flow is [announced](Flow::announce) after a rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rest {
    /// The PSN of the next request.
    pub psn: Psn,
    /// Messages that the destination has counted.
    pub msn: u32,
    /// Path MTU in bytes; 0: unknown.
    pub pmtu: u16,
    /// The long-haul round trip, if it was measured.
    pub rtt: Option<Span>,
}

impl<F: Frame> Flow<F> {
    /// Whether the PSN `seq` alone shows another incarnation.
    pub(crate) fn is_of_another_incarnation(&self, config: &Config, seq: Seq, now: Time) -> bool {
        if seq.since(self.next).max(self.next.since(seq)) > config.window_max {
            // No packet in flight can be that far away (R-INC-1).
            return true;
        }
        // After a pause a source continues at `next`, or repeats (R-INC-2).
        let is_odd = seq > self.next || (self.is_bypassed() && seq < self.next);
        is_odd && now >= self.heard() + self.pause(config)
    }

    /// Whether this incarnation has sent another packet with the PSN `seq`. Sources repeat packets
    /// unchanged but for the IPv4 identification and AckReq. The same packet ends a doubt
    /// (R-INC-4).
    pub(crate) fn differs(&mut self, seq: Seq, frame: &[u8], roce: &Roce) -> bool {
        let Some((at, slot)) = self.slot_of(seq).filter(|(_, slot)| !slot.is_unsent()) else {
            return false;
        };
        if at != seq {
            // A source requests the rest of a READ with another packet.
            return roce.kind() != PacketKind::ReadRequest;
        }
        // A damaged packet still carries the ICRC of the source (R-INC-8).
        let is_copy = slot.identity.is_copy(Identity::of(frame, roce), roce);
        if is_copy {
            // A packet sent in doubt proves nothing.
            self.doubt = self.doubt.filter(|sent| seq >= *sent);
        }
        !is_copy
    }

    /// Whether the identity of packet `seq` is no longer stored, and neither a running pass nor a NAK
    /// that has just gone to the source explains a repeat (R-INC-5).
    pub(crate) fn is_unknown(&self, now: Time, seq: Seq) -> bool {
        !self.is_bypassed()
            && seq < self.window.start()
            && self.discovery.tracks()
            && !self.pass.continues(seq)
            && !(self.pass.asks_for(seq) && self.naks.is_recent(now, &self.rtt))
    }

    /// A packet with an acknowledged PSN arrived: the source lacks the ACK, or the queue pair has
    /// begun another incarnation. While the flow is in doubt repeats pass, and nothing is
    /// resent, held or requested. The doubt ends when the source repeats a packet whose
    /// identity is stored, or sends another one with its PSN; or when the destination
    /// acknowledges a packet sent since, or revokes an acknowledgement.
    pub(crate) fn begin_doubt<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        // The source may wait for the very copies that a FETCH brings.
        if self.doubt.is_none() && !(self.reads.is_waiting() && self.fetched.asks_for(seq)) {
            self.fetched.end();
        }
        if self.reads.is_holding() || self.reads.is_waiting() {
            // A source that lacks the ACK requests all later responses again.
            self.drop_responses(cx, Metric::DropAskedAgain);
            self.reads.clear(self.next);
        }
        self.doubt.get_or_insert(self.next);
    }

    pub(crate) fn pause(&self, config: &Config) -> Span {
        config.pause.unwrap_or((self.rtt.mean() * 24).max(PAUSE_MIN))
    }

    /// The Depot may have dropped the flow's state during a pause: a SYNC precedes the data
    /// (R-INC-3).
    pub(crate) fn wake<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let paused = cx.now >= self.heard() + self.pause(cx.config);
        if paused && self.is_protected() {
            // SYNCs from before the pause will have no reply.
            self.unanswered = Unanswered::NONE;
            if cx.allowance.take(Need::Open, cx.now) {
                self.sync(cx, Reason::Open);
            } else {
                self.defer(cx);
            }
        }
    }

    /// The queue pair was silent before the flow's first packet: no responses are in flight.
    pub fn begin(&mut self) {
        self.reads.begin();
    }

    /// Connection management, or state from before a rest, tells that this incarnation begins
    /// with the flow's first PSN, its path MTU in bytes (0: unknown), the messages that the
    /// destination has counted, and the round trip, if measured.
    pub fn announce(&mut self, pmtu: u16, msn: u32, rtt: Option<Span>) {
        self.acked = Some(self.first);
        self.msn = msn;
        self.pmtu.set(pmtu);
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
        }
        self.begin();
    }

    /// Drops all held frames and all state. The flow's next incarnation, with an epoch of its
    /// own, begins at `psn`.
    pub(crate) fn reset<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, psn: Psn) {
        cx.out.new_incarnation();
        self.fetched.end();
        self.restart(cx, psn);
    }

    /// The destination revokes an acknowledgement: the next incarnation has begun. If all its
    /// packets so far have PSNs before `next`, which are taken for repeats, it continues behind the
    /// newest of them (R-INC-17).
    pub(crate) fn reset_revoked<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let only_repeats = self.doubt == Some(self.next);
        let next = if only_repeats { self.pass.cursor() } else { self.next };
        self.reset(cx, next.psn());
    }

    /// As [`reset`](Self::reset), but certainly of the same queue pair.
    pub(crate) fn restart<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, psn: Psn) {
        self.release_all(cx);
        let Self { rtt, pmtu, pmtu_guess, fetched, .. } = *self;
        let epoch = cx.new_epoch();
        let new = Self::new(cx.config, cx.now, epoch, psn);
        *self = Self { rtt, pmtu, pmtu_guess, fetched, ..new };
        cx.out.count(Metric::FlowNewEpoch, 1);
    }

    /// Frees every handle, before the flow itself is dropped.
    pub fn release_all<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.drop_responses(cx, Metric::DropOldIncarnation);
        self.reads = Reads::new(self.next, cx.now);
        self.clear_window(cx);
    }

    /// The state to keep of an idle flow without outstanding packets. A flow that wakes is
    /// announced to its Depot in any case.
    pub fn rest(&self, config: &Config, now: Time) -> Option<Rest> {
        let paused = now >= self.heard() + self.pause(config);
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
        // R-GAP-9
        let may_ask = self.is_protected() || !config.recovery.caches() && self.discovery.tracks();
        // R-GAP-10
        may_ask && roce.kind().is_plain() && !self.reads.is_waiting()
    }

    /// A queue before the Sentry is full. A NAK would make the source rewind into it, and holding
    /// later packets would hide their ECN marks. The RNICs slow down by themselves (R-GAP-8).
    pub(crate) fn leave_to_crowd<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.bypass(cx);
        self.bypassed = Bypassed::WhileCrowded;
        self.lossy = self.lossy_until(cx.now);
    }

    /// A missing packet is not in the cache, which had no room for it, and the source can't be
    /// asked: the flow is left to the RNICs. Its part of the cache is of more use to others
    /// (R-REPAIR-5).
    pub(crate) fn leave_uncached<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.bypass(cx);
        self.bypassed = Bypassed::WhileCacheIsFull;
        self.lossy = self.lossy_until(cx.now);
    }

    /// Bypasses the flow: its source repeats single packets. A NAK makes such a source repeat one packet, not all packets that the
    /// Depot lacks, and its destination takes packets in any order, so that holding them gains nothing.
    pub(crate) fn leave_selective<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        cx.out.count(Metric::FlowSelective, 1);
        self.bypass(cx);
        self.bypassed = Bypassed::SelectiveRepeat;
    }

    /// The next packet of a bypassed flow, `seq`, which takes a known number of PSNs (R-PEER-8).
    pub(crate) fn return_from_bypass<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        match self.bypassed {
            Bypassed::UntilPathMtu if self.pmtu.get() != 0 => self.restart(cx, seq.psn()),
            Bypassed::WhileCrowded if seq > self.next => self.lossy = self.lossy_until(cx.now),
            // R-GAP-11
            Bypassed::WhileCrowded if seq == self.next && cx.now >= self.lossy => {
                self.restart(cx, seq.psn());
            }
            // R-REPAIR-10
            Bypassed::WhileCacheIsFull
                if seq == self.next
                    && cx.now >= self.lossy
                    && !cx.cache.is_filled(CACHE_PRESSURE) =>
            {
                self.restart(cx, seq.psn());
            }
            _ => {}
        }
    }

    /// A packet of the flow takes an unknown number of PSNs: the flow is bypassed until its next
    /// incarnation (R-PSN-1).
    pub fn on_unknown<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.bypass(cx);
        self.bypassed = Bypassed::UntilNextIncarnation;
    }

    /// Ends protection, and tells the Depot to deliver held packets.
    pub fn bypass<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.is_bypassed() {
            return;
        }
        cx.out.count(Metric::FlowBypassed, 1);
        self.release_responses(cx);
        if self.discovery.leave() {
            self.sync_now(cx, Reason::Release);
        }
        self.release_all(cx);
        self.bypassed = Bypassed::UntilPathMtu;
        (self.ready, self.calm) = (false, false);
    }
}
