//! The selective-repeat filter, which decides which repeats of the source cross the long haul.

use common::allowance::Need;
use common::control::Reason;
use common::frame::{Class, Frame, Packet};
use common::metrics::Metric;
use common::psn::Seq;
use common::time::Time;
use common::wire::{Identity, Roce, icrc_ok};

use crate::cache::{release, share};
use crate::slot;
use crate::{Actions, Config, Context, Flow, Recovery};

/// Unsolicited passes without progress after which the filter passes every repeat.
const FRUITLESS: u32 = 2;
/// Packets that a source leaves out behind a repeated packet, from which on it counts as selective repeat.
const SKIPPED: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PassKind {
    /// The source sends new packets.
    None,
    /// It rewound because of a NAK.
    Solicited,
    /// It rewound by itself: a timeout, real or spurious.
    Timeout,
}

/// The source's position in its pass over packets that it has sent before. A pass begins when
/// the PSN does not increase, and ends at `next_psn` or when the next pass begins (R-FILTER-2).
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    kind: PassKind,
    /// So far it is a single packet, the one that a NAK asked for.
    is_of_one: bool,
    /// One past the newest repeat of this pass, if one is running.
    cursor: Seq,
    /// Number of PSNs marked as needed.
    needed: u32,
    /// One past the highest PSN that was ever marked.
    needed_end: Seq,
    /// The destination requested `genuine.0 .. genuine.1` by a NAK of its own.
    genuine: (Seq, Seq),
    /// Timeout passes since `progress` moved, at most one per round trip, since an ACK takes as
    /// long.
    fruitless: u32,
    counted: Time,
    progress: Seq,
}

impl Pass {
    pub fn new(next: Seq) -> Self {
        Self {
            kind: PassKind::None,
            cursor: next,
            is_of_one: false,
            needed: 0,
            needed_end: next,
            genuine: (next, next),
            fruitless: 0,
            counted: Time::ZERO,
            progress: next,
        }
    }

    /// Whether a pass is running.
    pub fn is_on(&self) -> bool {
        self.kind != PassKind::None
    }

    /// One past the newest repeat, unless new packets have followed it.
    pub fn cursor(&self) -> Seq {
        self.cursor
    }

    /// Ends a pass that may be running.
    pub fn end(&mut self) {
        self.kind = PassKind::None;
    }

    /// The destination requested `from .. to` by a NAK of its own.
    pub fn ask_genuinely(&mut self, from: Seq, to: Seq) {
        self.genuine = (from, to);
    }

    /// The destination may have requested `from .. to`, besides the PSNs that it requested
    /// before.
    pub fn ask_perhaps(&mut self, from: Seq, to: Seq) {
        let (start, end) = self.genuine;
        self.genuine = (if start < end { from.min(start) } else { from }, to);
    }

    /// `seq` is missing at the Depot, and the source must repeat it.
    pub fn need(&mut self, seq: Seq) {
        self.needed += 1;
        self.needed_end = self.needed_end.max(seq.next());
    }

    /// `start .. end` was lost before the Sentry.
    pub fn need_all(&mut self, start: Seq, end: Seq) {
        self.needed += end.since(start) as u32;
        self.needed_end = self.needed_end.max(end);
    }

    /// `count` of the needed PSNs are sent, or given up.
    pub fn meet(&mut self, count: u32) {
        self.needed -= count;
    }

    /// Whether any PSN is needed.
    pub fn is_needed(&self) -> bool {
        self.needed > 0
    }

    /// Whether the source is in a pass and has not reached `next`.
    pub fn is_running(&self, next: Seq) -> bool {
        self.kind != PassKind::None && self.cursor < next
    }

    /// Whether `seq` is the next packet of the running pass.
    pub fn continues(&self, seq: Seq) -> bool {
        self.kind != PassKind::None && seq == self.cursor
    }

    /// Whether the running pass will bring `seq`.
    pub fn will_reach(&self, seq: Seq) -> bool {
        self.kind != PassKind::None && seq >= self.cursor
    }

    /// Whether the destination requested `seq` by a NAK of its own.
    pub fn asks_for(&self, seq: Seq) -> bool {
        self.genuine.0 <= seq && seq < self.genuine.1
    }

    /// Removes `seq` from the PSNs that the destination requested, if it is the first of them. A
    /// destination accepts packets in order only, so the source will repeat all that follows.
    fn take_genuine(&mut self, seq: Seq, end: Seq) {
        if self.asks_for(seq) && seq == self.genuine.0 {
            self.genuine.0 = end;
        }
    }

    /// Whether no requested PSN lies beyond `seq`.
    fn is_last_needed(&self, seq: Seq) -> bool {
        let next = seq.next();
        next >= self.needed_end && (self.genuine.0 >= self.genuine.1 || next >= self.genuine.1)
    }
}

impl<F: Frame> Flow<F> {
    /// A repeat arrived from the source.
    pub(crate) fn on_repeat<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
        roce: &Roce,
        count: u32,
    ) {
        let end = seq + u64::from(count);
        let is_plain = roce.kind().is_plain();
        // R-FILTER-1
        if !self.discovery.is_protected() {
            self.pass.cursor = end;
            self.ask_for_responses_again(cx, seq, count, is_plain);
            self.pass.end();
            self.naks.abandon();
            self.identify(seq, frame.bytes(), roce);
            self.mark_sent(cx, seq);
            cx.out.count(Metric::SentryUnprotected, 1);
            return cx.out.forward(Packet::Owned(frame), Class::Data);
        }
        let begins = seq < self.pass.cursor || self.pass.kind == PassKind::None;
        let needed = self.is_needed(seq);
        // R-FILTER-5
        let asked = self.pass.asks_for(seq);
        let wanted = needed || asked && !self.is_resent(cx.now, seq);
        if asked && !wanted {
            self.pass.take_genuine(seq, end);
        }
        let is_dropped = !begins && !wanted && self.may_filter(cx, seq, is_plain);
        if !is_dropped && !icrc_ok(frame.bytes(), roce) {
            // A damaged repeat begins no pass, fills no gap and is not cached.
            cx.out.count(Metric::PassedBadIcrc, 1);
            return cx.out.forward(Packet::Owned(frame), Class::Data);
        }
        self.pass.cursor = end;
        self.pass.is_of_one = false;
        if begins {
            self.begin_pass(cx, seq);
        }
        if wanted {
            self.take_needed(seq);
            self.pass.take_genuine(seq, end);
            cx.out.count(Metric::SentryNeeded, 1);
            self.ask_for_responses_again(cx, seq, count, is_plain);
            self.let_pass(cx, frame, seq, roce);
            if self.pass.is_last_needed(seq) {
                self.sync(cx, Reason::Resent);
            }
        } else if (is_dropped || begins && self.may_filter(cx, seq, is_plain))
            && !self.brings_ack(seq, roce)
        {
            self.filter(cx, frame, seq, roce);
        } else {
            cx.out.count(Metric::SentryDoubtful, 1);
            self.ask_for_responses_again(cx, seq, count, is_plain);
            self.let_pass(cx, frame, seq, roce);
        }
    }

    /// Whether the source has repeated the packet that a NAK asked for, and none of [`SKIPPED`] or more behind it, up to `end`.
    /// Fewer may have been lost before the Sentry. In go-back-N all of them come (R-FILTER-15).
    pub(crate) fn repeats_singly(&self, config: &Config, end: Seq) -> bool {
        let Pass { cursor, .. } = self.pass;
        config.recovery == Recovery::Lr2
            && self.pass.is_on()
            && self.pass.is_of_one
            && end >= cursor.max(self.acked.unwrap_or(cursor)) + SKIPPED
    }

    /// A repeated READ or atomic request is forwarded: the source lacks its responses from `seq`
    /// on, and will receive all held responses again.
    fn ask_for_responses_again<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        count: u32,
        is_plain: bool,
    ) {
        if !is_plain {
            // R-READ-11
            self.drop_responses(cx, Metric::DropAskedAgain);
            // It may claim more PSNs than were sent: those belong to the next request.
            let end = (seq + u64::from(count)).min(self.next);
            self.reads.request_again(seq, end, cx.now);
        }
    }

    /// Whether a copy that is still cached was resent so recently that the destination had not got
    /// it when it sent a NAK that arrives now.
    fn is_resent(&self, now: Time, seq: Seq) -> bool {
        self.window.get(seq).is_some_and(|slot| {
            slot.has(slot::RESENT) && slot.handle.is_some() && now < slot.sent + self.rtt.mean() / 2
        })
    }

    fn take_needed(&mut self, seq: Seq) {
        self.fill_gap(seq);
        let slot = self.window.get_mut(seq);
        if slot.is_some_and(|slot| slot.unmark(slot::NEEDED)) {
            self.pass.meet(1);
        }
    }

    fn begin_pass<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        self.reads.go_back(seq);
        // R-FILTER-3
        if self.naks.rewind_began(cx.now, self.rtt.mean()) {
            self.pass.kind = PassKind::Solicited;
            self.pass.is_of_one = self.acked == Some(seq);
            cx.out.count(Metric::PassSolicited, 1);
            return;
        }
        self.pass.kind = PassKind::Timeout;
        cx.out.count(Metric::PassTimeout, 1);
        self.naks.source_timeout();
        let delivered = self.knowledge.as_ref().map(|k| k.expected);
        let progress = self.acked.or(delivered).unwrap_or(self.pass.progress);
        if progress > self.pass.progress {
            self.pass.progress = progress;
            self.pass.fruitless = 0;
        }
        // R-FILTER-7
        if cx.now >= self.pass.counted + self.rtt.with_margin() {
            self.pass.fruitless += 1;
            self.pass.counted = cx.now;
        }
        // Ask the Depot at once whether the timeout is spurious (R-FILTER-4, R-MSG-9).
        if cx.allowance.take(Need::Late, cx.now) {
            self.sync(cx, Reason::Tail);
        } else {
            cx.out.count(Metric::WithheldLate, 1);
        }
    }

    /// Whether a repeat that was not requested may be dropped: only if the Depot is known to have
    /// it, or its newest copy may still be on its way. A READ or atomic request may be
    /// repeated for a lost response (R-FILTER-11).
    fn may_filter<A: Actions<F>>(&self, cx: &Context<'_, A>, seq: Seq, is_plain: bool) -> bool {
        if self.doubt.is_some() {
            return false;
        }
        // R-FILTER-6
        if self.pass.kind == PassKind::Timeout && (self.pass.fruitless > FRUITLESS || !is_plain) {
            return false;
        }
        // Without a `src_qpn`, a NAK for this flow may have passed unrecognised (R-FILTER-10).
        let was_asked = || self.pass.kind == PassKind::Solicited && cx.out.src_qpn().is_some();
        // R-FILTER-8
        let under_way = self.slot_of(seq).is_some_and(|(_, slot)| {
            slot.sent > Time::ZERO && cx.now < slot.sent + self.rtt.with_margin()
        });
        let arrives = under_way
            || self.knowledge.as_ref().is_some_and(|known| {
                // The source may time out because the destination lost a delivered packet: a
                // timeout pass forwards it (R-FILTER-9).
                known.holds(seq) || (known.delivered(seq) && was_asked())
            });
        // R-FILTER-14
        arrives && seq >= self.passed
    }

    /// Whether this repeat requests an ACK right before a gap that opened before the Sentry, and
    /// no earlier copy did. The source heeds another NAK only after an ACK, and may need one
    /// if this pass does not fill the gap.
    #[inline]
    fn brings_ack(&self, seq: Seq, roce: &Roce) -> bool {
        roce.ack_req
            && self.window.get(seq).is_some_and(|slot| !slot.has(slot::ACK_REQ))
            && self.gaps.get(seq.next()) == Some(true)
    }

    /// Drops a repeat. It is cached if nothing else could repair the loss of the copy on its way,
    /// since the source ignores a second NAK until an ACK came. It is also cached if it
    /// requests an ACK and the cached copy does not.
    fn filter<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, frame: F, seq: Seq, roce: &Roce) {
        let reason = match self.pass.kind {
            PassKind::Timeout => Metric::DropSpurious,
            _ => Metric::DropFiltered,
        };
        let arrived = self.knowledge.as_ref().is_some_and(|k| k.holds(seq) || k.delivered(seq));
        // R-FILTER-12
        let worth_keeping = self.window.get(seq).is_some_and(|slot| match slot.handle {
            None => !arrived,
            Some(_) => roce.ack_req && !slot.has(slot::ACK_REQ),
        });
        let copy = if worth_keeping && icrc_ok(frame.bytes(), roce) {
            self.keep(cx, frame, seq, roce.ack_req)
        } else {
            Packet::Owned(frame)
        };
        cx.out.discard(copy, reason);
    }

    /// Forwards a repeat ahead of new data, and caches it (R-FILTER-13, R-REPAIR-8).
    fn let_pass<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
        roce: &Roce,
    ) {
        self.identify(seq, frame.bytes(), roce);
        self.mark_sent(cx, seq);
        let round = self.naks.round();
        // The Depot may have delivered it, and go back to it once the destination asks for it.
        let packet = match self.window.get_mut(seq) {
            Some(slot) => {
                slot.round = round;
                self.keep(cx, frame, seq, roce.ack_req)
            }
            None => Packet::Owned(frame),
        };
        cx.out.forward(packet, Class::High);
    }

    /// Caches a repeat in place of the copy before.
    fn keep<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
        ack_req: bool,
    ) -> Packet<F> {
        let (packet, handle) = share(cx, frame);
        // Without budget the older copy stays.
        if let (Some(handle), Some(slot)) = (handle, self.window.get_mut(seq)) {
            if ack_req {
                slot.mark(slot::ACK_REQ);
            }
            let old = slot.handle.replace(handle);
            if cx.config.recovery == Recovery::Lr2 && old.is_none() {
                self.kept.push(seq);
            }
            release(cx, old);
        }
        packet
    }

    /// Notes the identity of a packet that was lost before the Sentry, from its first copy.
    fn identify(&mut self, seq: Seq, frame: &[u8], roce: &Roce) {
        if let Some(slot) = self.window.get_mut(seq).filter(|slot| slot.is_unsent()) {
            slot.identity = Identity::of(frame, roce);
            if !roce.kind().is_plain() {
                slot.mark(slot::FETCHES);
            }
        }
    }

    /// A copy of `seq` is sent now.
    pub(crate) fn mark_sent<A>(&mut self, cx: &Context<'_, A>, seq: Seq) {
        self.fill_gap(seq);
        let at = self.slot_of(seq).map(|(at, _)| at);
        if let Some(slot) = at.and_then(|at| self.window.get_mut(at)) {
            slot.sent = cx.now;
            slot.mark(slot::RESENT);
        }
    }
}
