//! The state of one flow, and its transitions on new packets and ACKs.

use common::allowance::Need;
use common::control::{Epoch, Reason, SyncMessage};
use common::frame::{Class, Frame, Packet};
use common::metrics::Metric;
use common::psn::{Psn, Seq, reach};
use common::rtt::Rtt;
use common::time::{Span, Time};
use common::window::Window;
use common::wire::{Aeth, Identity, PacketKind, Qpn, Roce, icrc_ok, request_ack};

use crate::cache::share;
use crate::discovery::Discovery;
use crate::filter::Pass;
use crate::gaps::Gaps;
use crate::incarnation::Bypassed;
use crate::knowledge::Knowledge;
use crate::nak::Naks;
use crate::pmtu::{Guess, PathMtu};
use crate::reads::Reads;
use crate::responses::Fetched;
use crate::slot::{self, Slot};
use crate::timers::{PATIENT_TAILS, Unanswered};
use crate::{Actions, Config, Context};

/// A packet that skips more PSNs than this is announced to the Depot.
const ANNOUNCED: u64 = 16;

/// One direction of a queue pair, seen from near its source.
///
/// Fields are ordered by use, so that frequent events touch few cache lines: see
/// [`FAST_PATH`](Self::FAST_PATH).
#[repr(C)]
pub struct Flow<F: Frame> {
    // The next new packet of a flow on the fast path:
    /// Next new PSN from the source (ePSN_s).
    pub(crate) next: Seq,
    pub(crate) last_data: Time,
    pub(crate) last_sync: Time,
    /// SYNC(tail) messages since the last data.
    pub(crate) tails: u8,
    /// Cached [`is_ready`](Self::is_ready); false if an event may have changed it.
    pub(crate) ready: bool,
    /// Cached [`is_calm`](Self::is_calm): it was so when the flow's [deadline](Self::next_deadline) was last found out,
    /// and nothing has happened since that may have changed it.
    pub(crate) calm: bool,
    /// Whether the flow is bypassed.
    pub(crate) bypassed: Bypassed,
    /// The credits that the destination last gave, as an ACK's syndrome.
    pub(crate) credits: u8,
    pub(crate) pmtu: PathMtu,
    /// The packets in flight. A vacant place is one of the `gaps`, or belongs to the
    /// READ request before.
    pub(crate) window: Window<Slot<F::Shared>>,
    /// How many of the worker's slots it may take.
    pub(crate) granted: u32,
    /// Messages that are complete before `acked`, as the destination counts.
    pub(crate) msn: u32,
    /// Oldest PSN that the destination has not acknowledged; unknown until it
    /// or the Depot says so (R-NAK-4).
    pub(crate) acked: Option<Seq>,
    // Its ACK, and its timers, if the flow is calm:
    pub(crate) rtt: Rtt,
    /// One past the newest packet that the Depot was known to have delivered, in order. It may
    /// have gone back since.
    pub(crate) released: Seq,
    /// Newest response; see [`heard`](Self::heard).
    pub(crate) answered: Time,
    /// One past the newest PSN that a response of the destination acknowledged. A STATUS can
    /// tell of later ones, and overtake responses that were sent before it.
    pub(crate) confirmed: Seq,
    /// SYNCs since the last STATUS, while anything is outstanding.
    pub(crate) unanswered: Unanswered,
    /// No early SYNC before this time, since one was refused.
    pub(crate) quiet: Time,
    // All else:
    /// Whether the queue pair may have begun another incarnation: see
    /// [`doubt`](Self::doubt).
    pub(crate) doubt: Option<Seq>,
    pub(crate) discovery: Discovery,
    pub(crate) naks: Naks,
    /// READ responses and atomic ACKs that the source expects.
    pub(crate) reads: Reads<F>,
    pub(crate) fetched: Fetched,
    pub(crate) pmtu_guess: Guess,
    pub(crate) pass: Pass,
    /// Since when a packet is missing that the source can't be asked for.
    pub(crate) helpless: Option<Time>,
    /// Until then the way from the source counts as lossy, and every packet asks for an
    /// ACK: only after one does a source heed another NAK.
    pub(crate) lossy: Time,
    /// The first packet of this incarnation.
    pub(crate) first: Seq,
    /// Packets before this passed the Depot while it was passive. Only the destination knows
    /// whether they arrived (R-REPAIR-7).
    pub(crate) passed: Seq,
    pub(crate) epoch: Epoch,
    /// Packets that were lost before the Sentry, and have not come since.
    pub(crate) gaps: Gaps,
    /// Repeats that are cached until they are known to have arrived (only in
    /// [`Recovery::Lr2`](crate::Recovery::Lr2); other modes cache every packet).
    pub(crate) kept: Vec<Seq>,
    pub(crate) knowledge: Option<Knowledge>,
    // For an operator:
    /// Packets that the Depot reported missing, and that had come here.
    pub(crate) lost: u32,
    /// Packets sent again from the cache.
    pub(crate) resent: u32,
}

impl<F: Frame> Flow<F> {
    /// A flow whose first packet will be `psn`. `epoch` must not have been
    /// given to any flow of this switch before.
    pub fn new(config: &Config, now: Time, epoch: Epoch, psn: Psn) -> Self {
        let next = Seq::first(psn);
        Self {
            next,
            last_data: now,
            last_sync: now,
            tails: 0,
            ready: false,
            calm: false,
            bypassed: Bypassed::No,
            credits: Aeth::ACK_UNLIMITED,
            window: Window::new(next),
            granted: 0,
            pmtu: PathMtu::default(),
            pmtu_guess: Guess::default(),
            msn: 0,
            acked: None,
            doubt: None,
            released: next,
            rtt: Rtt::guess(config.rtt_guess),
            helpless: None,
            unanswered: Unanswered::NONE,
            quiet: Time::ZERO,
            naks: Naks::new(),
            pass: Pass::new(next),
            discovery: Discovery::new(now),
            reads: Reads::new(next, now),
            fetched: Fetched::none(),
            answered: now,
            lossy: Time::ZERO,
            first: next,
            passed: next,
            confirmed: next,
            epoch,
            gaps: Gaps::new(),
            kept: Vec::new(),
            knowledge: None,
            lost: 0,
            resent: 0,
        }
    }

    /// A request packet arrived from the source; `roce` is its parsed form.
    pub fn on_data<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, frame: F, roce: &Roce) {
        if !roce.opcode.is_plain() {
            return self.on_any(cx, frame, roce);
        }
        if let Err(frame) = self.on_fast_path(cx, frame, &roce.into()) {
            self.on_any(cx, frame, roce);
        }
    }

    /// As [`on_data`](Self::on_data), by the general way.
    #[inline(never)]
    pub fn on_any<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, frame: F, roce: &Roce) {
        (self.ready, self.calm) = (false, false);
        let seq = roce.psn.unwrap_near(self.next);
        let is_reborn = self.is_of_another_incarnation(cx.config, seq, cx.now)
            || self.differs(seq, frame.bytes(), roce);
        let surprise = is_reborn || seq > self.next || roce.kind() == PacketKind::ReadRequest;
        if surprise && !icrc_ok(frame.bytes(), roce) {
            // A damaged packet proves nothing.
            cx.out.count(Metric::PassedBadIcrc, 1);
            return cx.out.forward(Packet::Owned(frame), Class::Data);
        }
        if !is_reborn && seq.since(self.next) > reach(cx.now.since(self.last_data)) {
            // More than the source can have sent since: not its next packet (R-PSN-3).
            cx.out.count(Metric::SentryLeap, 1);
            return cx.out.forward(Packet::Owned(frame), Class::Data);
        }
        self.pmtu.learn(&mut self.pmtu_guess, roce, frame.bytes());
        if cx.out.src_qpn().is_none() && self.reads.is_waiting() {
            // Responses pass without being recognised (R-READ-12).
            self.release_responses(cx);
            self.reads.clear(self.next);
        }
        let span = roce.span(frame.bytes(), self.pmtu.get());
        if is_reborn {
            self.reset(cx, roce.psn);
        } else if self.is_bypassed() {
            if span.is_some() {
                self.return_from_bypass(cx, seq);
            }
        } else if self.shows_crowd(cx.config, seq, roce) {
            // R-GAP-1
            cx.out.count(Metric::SentryAhead, 1);
            self.leave_to_crowd(cx);
        } else if self.repeats_singly(cx.config, seq) && icrc_ok(frame.bytes(), roce) {
            self.leave_selective(cx);
        } else if self.is_unknown(cx.now, seq) && icrc_ok(frame.bytes(), roce) {
            self.begin_doubt(cx, seq);
        }
        self.wake(cx);
        self.last_data = cx.now;
        self.tails = 0;
        let seq = roce.psn.unwrap_near(self.next);
        // R-READ-1
        let Some(count) = span.filter(|_| !self.is_bypassed()) else {
            self.bypass(cx);
            // Needed to recognise the next incarnation, and a gap.
            self.next = self.next.max(seq + u64::from(span.unwrap_or(1)));
            return cx.out.forward(Packet::Owned(frame), Class::Data);
        };
        self.discover(cx);
        let (mut frame, mut roce) = (frame, *roce);
        // R-GAP-7
        if cx.now < self.lossy && !roce.ack_req && request_ack(frame.bytes_mut(), &roce) {
            cx.out.count(Metric::SentrySetAckReq, 1);
            roce.ack_req = true;
        }
        let roce = &roce;
        if seq < self.next {
            self.on_repeat(cx, frame, seq, roce, count);
        } else {
            self.on_new(cx, frame, seq, roce, count);
        }
    }

    /// A packet with a new PSN (R-PSN-2).
    fn on_new<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
        roce: &Roce,
        count: u32,
    ) {
        let is_ahead = seq > self.next;
        let is_far_ahead = seq.since(self.next) > ANNOUNCED;
        let is_protected = self.is_protected();
        if is_ahead {
            // Lost between the source and the Sentry. It is safe in every state to forward
            // later packets, and to take the gap as lost (R-GAP-3).
            cx.out.count(Metric::SentryAhead, 1);
            self.lose(cx, seq, is_protected);
        }
        cx.out.count(Metric::SentryNew, 1);
        let end = seq + u64::from(count);
        self.pass.end();
        if !roce.kind().is_plain() {
            self.reads.request(seq, count, cx.now);
        }
        let keep = cx.config.recovery.caches() && self.discovery.tracks();
        let identity = Identity::of(frame.bytes(), roce);
        let (packet, handle) = if keep { share(cx, frame) } else { (Packet::Owned(frame), None) };
        let mut slot = Slot::new(cx.now, identity, roce.ack_req, handle);
        if !roce.kind().is_plain() {
            slot.mark(slot::FETCHES);
        }
        self.track(cx, slot);
        if end > self.next {
            // The further PSNs of a READ request have no packets of their own.
            self.next = end;
            self.extend(cx);
        }
        cx.out.forward(packet, Class::Data);
        if is_ahead && is_protected {
            if is_far_ahead {
                // Without this the Depot takes the packet as injected once the source rewinds
                // (R-GAP-2).
                self.sync_now(cx, Reason::Keepalive);
            }
            self.ask_for_gap(cx);
        }
        self.ready = cx.config.fast_path && self.is_ready(cx.now);
    }

    /// A response of the destination acknowledges everything before `seq`.
    pub(crate) fn confirm(&mut self, seq: Seq) {
        if seq <= self.next {
            self.confirmed = self.confirmed.max(seq);
        }
    }

    /// Whether a response that says the destination lacks `seq` revokes an acknowledgement, and
    /// was not just overtaken by a STATUS.
    pub(crate) fn revokes(&self, seq: Seq) -> bool {
        self.acked.is_some_and(|acked| seq < acked.min(self.confirmed))
    }

    /// The destination requests everything from `seq` on (NAK or RNR NAK). The response itself is
    /// forwarded to the source.
    pub(crate) fn on_nak<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        msn: Option<u32>,
    ) {
        if seq > self.next {
            return;
        }
        if self.revokes(seq) {
            // It revokes an acknowledgement: another incarnation of the QP (R-INC-7).
            return self.reset_revoked(cx);
        }
        self.confirm(seq);
        self.advance_acked(cx, seq, msn);
        if self.acked == Some(seq) {
            // An incarnation that continues at the PSN of the one before is not recognised, but
            // counts its messages from zero.
            self.msn = msn.unwrap_or(self.msn);
        }
        // R-NAK-1
        self.pass.ask_genuinely(seq, self.next);
        self.naks.genuine(cx.now);
    }

    /// A destination requests `psn`, perhaps of this flow: repeats from there on pass. It has no
    /// other effect, since the source may as well rewind because of a timeout.
    pub fn on_doubtful_nak(&mut self, psn: Psn) {
        let seq = psn.unwrap_near(self.next);
        // R-NAK-2
        if seq <= self.next && !self.is_bypassed() {
            self.pass.ask_perhaps(seq, self.next);
        }
    }

    /// Whether `psn` is the next new packet.
    pub fn expects(&self, psn: Psn) -> bool {
        psn == self.next.psn()
    }

    /// Whether a Depot answers for this flow.
    pub fn is_protected(&self) -> bool {
        self.discovery.is_protected()
    }

    /// When the newest packet of either direction came.
    pub(crate) fn heard(&self) -> Time {
        self.last_data.max(self.answered)
    }

    /// The number of this incarnation of the flow.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The long-haul round trip, if it was measured on this flow.
    pub fn rtt(&self) -> Option<Span> {
        self.rtt.is_measured().then(|| self.rtt.mean())
    }

    /// Whether the flow is bypassed.
    pub fn is_bypassed(&self) -> bool {
        self.bypassed != Bypassed::No
    }

    /// Whether a packet is in flight that neither the Depot nor the destination has confirmed.
    pub(crate) fn is_outstanding(&self) -> bool {
        match (self.acked, &self.knowledge) {
            _ if self.reads.is_waiting() || self.reads.is_holding() => true,
            (Some(acked), _) => acked < self.next,
            // The destination may have acknowledged it by an ACK that was lost.
            (None, Some(known)) => known.expected < self.next || self.tails < PATIENT_TAILS,
            (None, None) => true,
        }
    }

    /// Advances `acked`, but not beyond a READ response that the source lacks, and frees all
    /// slots before it. Returns whether that is new.
    pub(crate) fn advance_acked<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        acked: Seq,
        msn: Option<u32>,
    ) -> bool {
        // An ACK beyond `next` is of a packet from before this box started, or of another flow
        // (R-ACK-2). One beyond a missing READ response would complete the READ (R-READ-13).
        let limit = self.reads.limit().unwrap_or(acked);
        let is_known = acked > self.next;
        let acked = acked.min(limit);
        if is_known || self.acked.is_some_and(|old| acked <= old) {
            return false;
        }
        self.note_acked(acked, msn.unwrap_or(self.msn));
        // R-INC-9
        self.doubt = self.doubt.filter(|sent| acked <= *sent);
        self.naks.progress();
        self.helpless = None;
        self.trim(cx, acked);
        true
    }

    /// The destination has acknowledged all before `acked`, which are `msn` messages.
    #[inline]
    pub(crate) fn note_acked(&mut self, acked: Seq, msn: u32) {
        (self.acked, self.msn) = (Some(acked), msn);
        if acked == self.next {
            // No SYNC needs a reply any more (R-PEER-13).
            self.unanswered = Unanswered::NONE;
        }
    }

    /// Sends a SYNC. SYNC(resent) travels with the resends and claims no
    /// `next_psn`; all others travel in order with the data (R-SYNC-1).
    pub(crate) fn sync<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, reason: Reason) {
        let sync = self.make_sync(reason, cx.out.src_qpn(), cx.now);
        self.last_sync = cx.now;
        self.unanswered.ask(cx.now);
        let is_resent = reason == Reason::Resent;
        cx.out.sync(self.epoch, sync, if is_resent { Class::High } else { Class::Data });
    }

    /// As [`sync`](Self::sync), of a message that is sent in any case.
    pub(crate) fn sync_now<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, reason: Reason) {
        cx.allowance.charge(Need::Open);
        self.sync(cx, reason);
    }

    pub(crate) fn make_sync(&self, reason: Reason, src_qpn: Option<Qpn>, now: Time) -> SyncMessage {
        SyncMessage {
            reason,
            next_psn: (reason != Reason::Resent).then(|| self.next.psn()),
            pmtu: self.pmtu.get(),
            src_qpn,
            sent_at: now,
            rtt: if self.rtt.is_measured() { self.rtt.mean() } else { Span::ZERO },
        }
    }
}
