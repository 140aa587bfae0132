//! Responses of the destination, on their way to the source.

use common::allowance::Need;
use common::control::{Fetch, LastAck};
use common::frame::{Frame, Packet};
use common::metrics::Metric;
use common::psn::{Psn, Seq};
use common::time::{Span, Time};
use common::wire::{Response, Roce, Verdict};

use crate::reads::Order;
use crate::timers::TAIL_MIN;
use crate::{Actions, Config, Context, Flow};

/// The newest FETCH that asks for responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    /// Until when copies of responses may arrive because of it.
    until: Time,
    /// The first PSN that it asks for, and one past the last.
    asked: (Psn, Psn),
    /// Its incarnation has ended, or may have.
    is_void: bool,
}

impl Fetched {
    /// No FETCH was sent.
    pub fn none() -> Self {
        Self { until: Time::ZERO, asked: Default::default(), is_void: false }
    }

    /// Whether it asks for the response with the PSN `seq`.
    pub fn asks_for(&self, seq: Seq) -> bool {
        let (from, to) = self.asked;
        seq >= from.unwrap_near(seq) && seq < to.unwrap_near(seq)
    }

    /// The incarnation of the FETCH has ended, or may have.
    pub fn end(&mut self) {
        self.is_void = true;
    }
}

impl<F: Frame> Flow<F> {
    /// A response of the destination, with a valid ICRC. It is forwarded to the source, at once
    /// or after the READ responses before it.
    pub fn on_response<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        roce: &Roce,
        response: Response,
    ) {
        self.answered = cx.now;
        self.credits = response.credits.unwrap_or(self.credits);
        if let Some(pmtu) = roce.path_mtu() {
            self.pmtu.set(pmtu);
        }
        if self.is_bypassed() {
            return cx.out.respond(frame);
        }
        let seq = response.psn.unwrap_near(self.next);
        let takes_back = self.doubt.is_some() && self.revokes(seq.next());
        if response.verdict == Verdict::Acknowledged && takes_back {
            // The packets in doubt are new to it: another incarnation (R-INC-6).
            self.reset_revoked(cx);
            return cx.out.respond(frame);
        }
        if let Some(reason) = self.stray(cx.now, seq, &response) {
            return cx.out.discard(Packet::Owned(frame), reason);
        }
        match self.reads.order(seq, &response) {
            Order::Early if self.may_hold(cx, &frame) => {
                self.hold_response(cx, seq, response, frame)
            }
            Order::Early => {
                self.release_responses(cx);
                self.pass_response(cx, seq, response, frame);
            }
            Order::Pass => self.pass_response(cx, seq, response, frame),
            Order::Expected => {
                let was_holding = self.reads.is_holding();
                self.pass_response(cx, seq, response, frame);
                self.drain_responses(cx, false);
                if was_holding && !self.reads.is_holding() {
                    cx.out.count(Metric::ReadGapsFilled, 1);
                }
                self.release_absent(cx);
            }
        }
    }

    /// Until when copies of responses may arrive because of a FETCH of an incarnation that has ended; [`Time::ZERO`] if there is none.
    pub fn strays_until(&self) -> Time {
        if self.fetched.is_void { self.fetched.until } else { Time::ZERO }
    }

    /// The incarnation of all FETCHes so far has ended.
    pub fn end_fetches(&mut self) {
        self.fetched.end();
    }

    /// Why a READ response or atomic ACK ends here: a FETCH has brought this copy, and the source has had the response before, or
    /// has ended the incarnation that the FETCH was for, or may have. The copy could answer the next incarnation (R-READ-17).
    fn stray(&self, now: Time, seq: Seq, response: &Response) -> Option<Metric> {
        let Fetched { until, is_void, .. } = self.fetched;
        let is_copy = now < until && matches!(response.verdict, Verdict::Response(_));
        if !(is_copy && self.fetched.asks_for(seq)) {
            None
        } else if is_void {
            Some(Metric::DropOldIncarnation)
        } else {
            self.reads.is_answered(seq).then_some(Metric::DropReorderDuplicate)
        }
    }

    /// Whether responses may be held until the peer resends the missing ones (R-READ-6).
    fn may_hold<A>(&self, cx: &mut Context<'_, A>, frame: &F) -> bool {
        let may = self.doubt.is_none() && self.peer_keeps_responses() && !self.reads.is_absent();
        may && cx.pool.take(frame.bytes().len())
    }

    fn peer_keeps_responses(&self) -> bool {
        let known = self.knowledge.as_ref().is_some_and(|known| known.keeps_responses);
        self.is_protected() && known
    }

    fn hold_response<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        response: Response,
        frame: F,
    ) {
        let is_first = !self.reads.is_holding();
        let len = frame.bytes().len();
        match self.reads.hold(seq, response, frame) {
            Ok(opens) => {
                cx.out.count(Metric::ResponseHeld, 1);
                cx.out.count(Metric::ReadGapsSeen, is_first.into());
                // R-READ-5
                if opens {
                    self.reads.begin_tries();
                    self.fetch(cx, Metric::FetchGap);
                }
            }
            Err(frame) => {
                cx.pool.give(len);
                cx.out.discard(Packet::Owned(frame), Metric::DropReorderDuplicate);
            }
        }
    }

    /// Forwards a response, and takes its acknowledgement.
    fn pass_response<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        response: Response,
        frame: F,
    ) {
        self.reads.passed(seq, &response, cx.now);
        match response.verdict {
            // R-ACK-1
            Verdict::Acknowledged | Verdict::Response(_) => {
                self.confirm(seq.next());
                self.advance_acked(cx, seq.next(), response.msn);
            }
            Verdict::NotReady => self.on_nak(cx, seq, response.msn),
            Verdict::Missing => {
                let is_news = self.acked.is_some_and(|acked| seq > acked) && seq <= self.next;
                let may_be_acked = is_news && self.may_be_acked(seq.prev());
                self.on_nak(cx, seq, response.msn);
                self.acknowledge_first(cx, seq, response.msn.filter(|_| may_be_acked));
            }
            Verdict::Failed => {}
        }
        cx.out.respond(frame);
        self.make_due_nak(cx);
    }

    /// A NAK for `seq` follows, and acknowledges packets, to which the destination counts `msn`
    /// messages. A source heeds a second NAK only after an ACK: it gets one ahead of it, unless
    /// that would complete a READ, or break into a response (R-NAK-20).
    fn acknowledge_first<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        seq: Seq,
        msn: Option<u32>,
    ) {
        let in_order = self.reads.limit().is_none() && self.reads.at_boundary();
        let is_sure = self.doubt.is_none() && cx.out.src_qpn().is_some();
        if let Some(msn) = msn.filter(|_| in_order && is_sure) {
            cx.out.ack(LastAck { psn: seq.prev().psn(), syndrome: self.credits, msn });
        }
    }

    /// Forwards held responses that are in order now; all of them if `any`.
    fn drain_responses<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, any: bool) {
        while let Some(waiting) = self.reads.next_held(any) {
            cx.pool.give(waiting.frame.bytes().len());
            let seq = waiting.response.psn.unwrap_near(self.next);
            self.pass_response(cx, seq, waiting.response, waiting.frame);
        }
    }

    /// The missing responses don't come: the held ones are forwarded, and the source requests
    /// the missing ones again.
    pub(crate) fn release_responses<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.reads.is_holding() {
            cx.out.count(Metric::ReadGapsGivenUp, 1);
        }
        self.reads.lose_track();
        self.drain_responses(cx, true);
    }

    /// The peer does not have these responses. Nothing is held for them (R-READ-8).
    pub fn on_absent<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, absent: &Fetch) {
        if self.is_bypassed() {
            return;
        }
        for range in &absent.missing {
            let start = range.start.unwrap_near(self.next);
            self.reads.note_absent(start, start + u64::from(range.len));
        }
        self.release_absent(cx);
    }

    fn release_absent<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.reads.is_holding() && self.reads.is_absent() {
            cx.out.count(Metric::ReadGapsAbsent, 1);
            self.release_responses(cx);
        }
    }

    /// Drops held responses.
    pub(crate) fn drop_responses<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, why: Metric) {
        while let Some(waiting) = self.reads.next_held(true) {
            cx.pool.give(waiting.frame.bytes().len());
            let psn = waiting.response.psn;
            cx.out.about(psn, 1, |out| out.discard(Packet::Owned(waiting.frame), why));
        }
    }

    fn fetch<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, why: Metric) {
        let expected = self.reads.expected().psn();
        let missing = self.reads.missing();
        self.reads.fetched(cx.now);
        if let (Some(first), Some(last)) = (missing.first(), missing.last()) {
            let until = cx.now + self.rtt.with_margin();
            let asked = (first.start, last.start.offset(last.len));
            self.fetched = Fetched { until, asked, is_void: false };
        }
        cx.out.count(why, 1);
        cx.out.fetch(self.epoch(), Fetch { expected, missing });
    }

    /// Tells the peer which responses it may free.
    pub(crate) fn release_at_peer<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.peer_keeps_responses()
            && let Some(expected) = self.reads.news()
        {
            cx.allowance.charge(Need::Fetch);
            cx.out.count(Metric::FetchRelease, 1);
            let fetch = Fetch { expected: expected.psn(), missing: Default::default() };
            cx.out.fetch(self.epoch(), fetch);
        }
    }

    /// Whether missing responses can be fetched from the peer, and recognised when they come.
    fn may_fetch(&self) -> bool {
        let is_sure = self.reads.is_sure() && self.doubt.is_none();
        self.reads.is_waiting() && is_sure && self.peer_keeps_responses()
    }

    /// When responses count as lost, or as lost again.
    pub(crate) fn responses_due(&self, config: &Config) -> Time {
        let reads = &self.reads;
        if !self.may_fetch() {
            return if reads.is_holding() { Time::ZERO } else { Time::NEVER };
        }
        let patience = self.rtt.mean().scale(5, 4).max(TAIL_MIN);
        reads.lost_at(patience, self.rtt.with_margin(), self.tail_timeout(config))
    }

    pub(crate) fn on_responses_timer<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        if self.reads.is_holding() && (!self.may_fetch() || self.reads.is_exhausted()) {
            return self.release_responses(cx);
        }
        self.reads.try_again();
        if self.reads.is_holding() {
            self.fetch(cx, Metric::FetchGap);
        } else if cx.allowance.take(Need::Fetch, cx.now) {
            self.fetch(cx, Metric::FetchTail);
        } else {
            // As if it had been sent, and lost (R-MSG-12).
            cx.out.count(Metric::WithheldFetch, 1);
            self.reads.fetched(cx.now);
        }
    }

    /// Time without data after which the last packets count as lost.
    pub(crate) fn tail_timeout(&self, config: &Config) -> Span {
        config.tail_timeout.unwrap_or((self.rtt.mean() / 8).max(TAIL_MIN))
    }
}
