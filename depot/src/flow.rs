//! The state of one flow, and its transitions on data.

use common::control::{BootId, Epoch, LastAck, NodeId};
use common::frame::{Frame, Packet};
use common::histogram::Timing;
use common::metrics::Metric;
use common::psn::{Psn, Seq};
use common::rtt::Rtt;
use common::time::{Span, Time};
use common::wire::{Aeth, Look, PacketKind, Roce, icrc_ok};

use crate::backup::Backup;
use crate::lan_share::LanShare;
use crate::nak::KeptNak;
use crate::pacing::Pacing;
use crate::report::Cause;
use crate::responses::Responses;
use crate::sequence::{Gap, Held, PacketInfo, Place, Sequence};
use crate::tolerance::Reordering;
use crate::{Actions, Config, Context};

/// Which incarnation of a flow a SYNC speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incarnation {
    /// The Sentry's box.
    pub node: NodeId,
    /// When that box started; only grows.
    pub boot: BootId,
    /// The flow's epoch at that box.
    pub epoch: Epoch,
}

/// One direction of a queue pair, seen from near its destination.
///
/// Fields are ordered by use, so that frequent events touch few cache lines: see
/// [`FAST_PATH`](Self::FAST_PATH).
#[repr(C)]
pub struct Flow<F: Frame> {
    // The next packet of a flow on the fast path:
    /// Newest packet of either direction.
    pub(crate) heard: Time,
    /// Since when `expected` has been missing.
    pub(crate) stalled: Time,
    pub(crate) last_status: Time,
    /// Of which it needs the beginning.
    pub(crate) sequence: Sequence<F>,
    pub(crate) rtt: Span,
    /// Path MTU in bytes; 0 while it is unknown.
    pub(crate) pmtu: u16,
    /// The windows of the LAN's hosts that were looked through for its own.
    pub(crate) seen: u8,
    /// See [`is_ready`](Self::is_ready): it was so, and nothing has happened since that
    /// may have changed it.
    pub(crate) ready: bool,
    /// The newest response left a READ response message unfinished: nothing may
    /// be inserted here.
    pub(crate) within: bool,
    /// The Sentry has measured `rtt`.
    pub(crate) measured: bool,
    /// The credits that the destination last gave, as an ACK's syndrome.
    pub(crate) credits: u8,
    /// See [`is_calm`](Self::is_calm): it was so when the [deadline](Self::next_deadline) was last found out, and nothing
    /// has happened since that may have changed it.
    pub(crate) calm: bool,
    /// Packets that the destination hasn't acknowledged.
    pub(crate) backup: Backup<F>,
    // Its ACK:
    /// Oldest PSN that the destination hasn't acknowledged, if it ever
    /// acknowledged anything.
    pub(crate) acked: Option<Seq>,
    pub(crate) last_ack: Option<LastAck>,
    /// When the newest SYNC came.
    pub(crate) echo_at: Time,
    /// The destination's responses to READs and atomics. Of a calm flow, it needs the beginning.
    pub(crate) responses: Responses<F::Shared>,
    /// `acked` when the newest STATUS went.
    pub(crate) told: Option<Seq>,
    /// When the newest probe went; [`Time::ZERO`] if there was none, or its NAK has come.
    pub(crate) probed_at: Time,
    // A packet that is held, or that is due:
    /// The [`deadline`](Self::deadline) when it was last found out, without that of pacing. While packets are held, what takes a fast
    /// path moves it back, if at all.
    pub(crate) unpaced_due: Time,
    pub(crate) pacing: Pacing,
    /// When a packet last came that was beyond all others, out of order. Of a passive flow:
    /// until when `announced` counts.
    pub(crate) raised: Time,
    /// Its part of its host's window, if that has one.
    pub(crate) share: Option<Box<LanShare>>,
    /// The learned reordering of its path; `None` until a packet was late.
    pub(crate) reordering: Option<Box<Reordering>>,
    /// The newest NAK of the destination.
    pub(crate) nak: Option<KeptNak<F::Shared>>,
    // All else:
    /// Whom the flow is protected for. Until a SYNC tells, everything passes
    /// and nothing is held (R-SYNC-2).
    pub(crate) incarnation: Option<Incarnation>,
    /// When the newest SYNC was sent, by the Sentry's clock.
    pub(crate) echo: Time,
    /// Newest Depot-NACK that listed every gap.
    pub(crate) last_nack: Time,
    /// From a gap's first Depot-NACK to its end.
    pub(crate) fill: Rtt,
    /// One past the highest packet that passed while nothing was held.
    pub(crate) passed: Seq,
    /// One past the highest packet that the Sentry has announced. Of a passive flow: what the
    /// destination acknowledges before the flow is protected again (see
    /// [`is_recovering`](Self::is_recovering)).
    pub(crate) announced: Seq,
    /// The gap that the newest [probe](Self::probed_at) went past.
    pub(crate) probed: Seq,
    /// Packets that were missing, for an operator.
    pub(crate) lost: u32,
}

impl<F: Frame> Flow<F> {
    /// A flow of which nothing is known but the PSN of a packet.
    pub fn new(config: &Config, now: Time, psn: Psn) -> Self {
        let first = Seq::first(psn);
        Self {
            heard: now,
            stalled: now,
            last_status: now,
            sequence: Sequence::new(first),
            rtt: config.rtt_guess,
            pmtu: 0,
            seen: 0,
            ready: false,
            calm: false,
            within: false,
            credits: Aeth::ACK_UNLIMITED,
            backup: Backup::new(first),
            acked: None,
            last_ack: None,
            unpaced_due: Time::NEVER,
            incarnation: None,
            nak: None,
            responses: Responses::new(),
            echo: Time::ZERO,
            echo_at: now,
            told: None,
            last_nack: Time::ZERO,
            fill: Rtt::guess(config.rtt_guess),
            pacing: Pacing::default(),
            share: None,
            passed: first,
            announced: first,
            raised: now,
            measured: false,
            probed: first,
            probed_at: Time::ZERO,
            reordering: None,
            lost: 0,
        }
    }

    /// A request packet came from the long-haul link; `roce` is its parsed
    /// form.
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
        let seq = roce.psn.unwrap_near(self.sequence.next());
        self.sort(cx, frame, seq, roce);
        self.ready = cx.config.fast_path && self.is_ready();
    }

    /// Delivers the packet or holds it, by its place in the sequence.
    #[inline]
    fn sort<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, frame: F, seq: Seq, roce: &Roce) {
        self.heard = cx.now;
        if self.incarnation.is_none() {
            return self.on_passive(cx, frame, seq);
        }
        self.find_window(cx);
        let mut place = self.sequence.place(seq);
        let surprise = match place {
            Place::Next | Place::Behind => roce.kind() == PacketKind::ReadRequest,
            Place::Held | Place::Gap => true,
            Place::New => seq != self.sequence.high(),
        };
        if surprise && !icrc_ok(frame.bytes(), roce) {
            // No surprise is believed on the word of a damaged packet (R-ORDER-12).
            cx.out.count(Metric::PassedBadIcrc, 1);
            return cx.out.deliver(Packet::Owned(frame));
        }
        if self.shows_haste(cx.now, seq) && icrc_ok(frame.bytes(), roce) {
            self.disown(cx, seq);
            place = self.sequence.place(seq);
        }
        self.learn_pmtu(&roce.into());
        let span = roce.span(frame.bytes(), self.pmtu);
        let Some(count) = span.filter(|count| self.fits(place, seq, *count)) else {
            // Which PSN comes next can't be told: all is left to the RNICs (R-ORDER-15).
            self.bypass(cx);
            return self.on_passive(cx, frame, seq);
        };
        let needs_response = roce.ack_req || !roce.kind().is_plain();
        let info = PacketInfo { len: frame.bytes().len() as u32, count, needs_response };
        match place {
            Place::Next => {
                self.note_fill(cx, seq);
                self.on_next(cx, frame, info);
            }
            Place::Behind => {
                self.note_double(cx, seq);
                // The Sentry keeps needless repeats off the link; this one may
                // be one that the destination lost (R-ORDER-3).
                cx.out.count(Metric::DepotBehind, 1);
                self.pacing.repeated(cx.now);
                self.nak_is_answered(cx.now, seq);
                if self.backup.is_another(seq, frame.bytes()) {
                    // Held packets are of another incarnation.
                    self.reset(cx);
                } else if !self.backup.is_same(seq, frame.bytes()) {
                    self.clear_backup(cx);
                }
                cx.out.deliver(Packet::Owned(frame));
            }
            _ if seq.since(self.sequence.expected()) > cx.config.window_max => {
                // Not of this incarnation: the SYNC that announces the next one may
                // have been lost (R-ORDER-11).
                cx.out.count(Metric::DepotPassive, 1);
                cx.out.deliver(Packet::Owned(frame));
            }
            Place::Held => {
                self.note_double(cx, seq);
                self.on_held(cx, frame, seq);
            }
            Place::New if !self.may_leap_to(cx.now, seq) => {
                cx.out.count(Metric::DepotLeap, 1);
                cx.out.deliver(Packet::Owned(frame));
            }
            // R-ORDER-4
            Place::Gap => {
                self.note_fill(cx, seq);
                self.on_early(cx, frame, seq, info);
                if !self.keeps_order(cx.config) {
                    self.judge_arrival(cx);
                }
            }
            Place::New => {
                // R-ORDER-5
                let opened = self.open_gap(cx, seq);
                self.raised = cx.now;
                self.on_early(cx, frame, seq, info);
                if !self.keeps_order(cx.config) {
                    self.judge_arrival(cx);
                } else if opened {
                    self.report(cx, Cause::NewGaps(seq));
                }
            }
        }
        if cx.now >= self.last_status + self.status_interval(cx.config) {
            self.report_arrivals(cx, seq);
        }
    }

    #[inline]
    pub(crate) fn learn_pmtu(&mut self, look: &Look) {
        // One that is as long says nothing new.
        if look.payload != self.pmtu {
            self.pmtu = look.path_mtu().unwrap_or(self.pmtu);
        }
    }

    /// Whether a request of `count` PSNs leaves those alone that others take.
    fn fits(&self, place: Place, seq: Seq, count: u32) -> bool {
        match place {
            Place::Behind | Place::Held => true,
            _ => count == 1 || self.sequence.is_free(seq, count),
        }
    }

    /// A wire, but for remembering which PSNs the destination may acknowledge.
    pub(crate) fn on_passive<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
    ) {
        cx.out.count(Metric::DepotPassive, 1);
        let expected = self.sequence.expected();
        if seq.since(expected).max(expected.since(seq)) > cx.config.window_max {
            *self = Self::new(cx.config, cx.now, seq.next().psn());
        } else if seq >= expected {
            self.sequence = Sequence::new(seq.next());
        }
        self.passed = self.passed.max(self.sequence.expected());
        cx.out.deliver(Packet::Owned(frame));
    }

    fn on_next<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, frame: F, info: PacketInfo) {
        let seq = self.sequence.next();
        match self.sequence.gaps().front() {
            // A gap that does not count as lost yet starts no pacing.
            Some(_) if !self.keeps_order(cx.config) && !self.is_front_lost() => {}
            Some(gap) => {
                // So that nothing waits when the flow is reset.
                let most = self.give_up_after(cx.config);
                self.pacing.resume(gap.seen, cx.now, most);
            }
            None => self.pacing.reset(),
        }
        self.stalled = cx.now;
        let packet = Packet::Owned(frame);
        // R-LAN-4
        if !self.may_pass(cx) && cx.pool.take(info.len as usize) {
            cx.out.count(Metric::DepotHeld, 1);
            let closed = self.sequence.hold(seq, Held { packet, info, at: cx.now });
            self.count_closed(cx, closed);
            self.deliver_due(cx);
            return self.notify_backlog(cx);
        }
        // R-ORDER-1
        let closed = self.sequence.pass_next(info.count);
        self.count_closed(cx, closed);
        cx.out.count(Metric::DepotInOrder, 1);
        self.nak_is_answered(cx.now, seq);
        self.deliver(cx, seq, packet, info);
        self.deliver_due(cx);
    }

    /// The destination has everything before `acked`, however it got there.
    pub(crate) fn settle<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, acked: Seq) {
        self.stalled = cx.now;
        while self.sequence.next() < acked {
            let (closed, held) = self.sequence.skip(acked);
            self.count_closed(cx, closed);
            if let Some(packet) = held {
                cx.pool.give(packet.bytes().len());
                cx.out.discard(packet, Metric::DropReleased);
            }
        }
        self.deliver_due(cx);
    }

    /// Holds a packet that is ahead, or leaves it missing if the pool is full.
    /// If only packets that wait for their time are before it, it waits too.
    fn on_early<A: Actions<F>>(
        &mut self,
        cx: &mut Context<'_, A>,
        frame: F,
        seq: Seq,
        info: PacketInfo,
    ) {
        // R-ORDER-2
        let is_in_order = seq == self.sequence.expected();
        while is_in_order && !cx.pool.has_room() {
            if self.share.is_none() {
                self.deliver_all(cx);
            }
            // On the LAN of a host with a window one goes for one that comes, as on a wire.
            if !self.deliver_next(cx) {
                return self.on_next(cx, frame, info);
            }
        }
        if !cx.pool.take(info.len as usize) {
            if !self.is_repair_near(cx.now) {
                // R-ORDER-17
                return self.leave_to_rnics(cx, frame, seq);
            }
            // R-ORDER-13
            if self.sequence.place(seq) == Place::New {
                self.open_gap(cx, seq + u64::from(info.count));
            }
            return cx.out.discard(Packet::Owned(frame), Metric::DropReorderFull);
        }
        cx.out.count(Metric::DepotHeld, 1);
        let packet = if self.may_probe(cx.config, cx.now) && self.sequence.place(seq) == Place::New
        {
            self.probe(cx, frame)
        } else {
            Packet::Owned(frame)
        };
        let before = self.sequence.gaps().len();
        let closed = self.sequence.hold(seq, Held { packet, info, at: cx.now });
        if self.sequence.gaps().len() > before {
            let gap = self.sequence.gaps_from(seq.prev()).next();
            let (start, end) = gap.map_or((seq, seq), |gap| (gap.start, gap.end));
            cx.out.about(start.psn(), end.since(start), |out| out.count(Metric::GapsSeen, 1));
            self.note_gap_before(seq);
        }
        self.count_closed(cx, closed);
        self.deliver_due(cx);
        if is_in_order {
            self.stalled = cx.now;
            self.notify_backlog(cx);
        }
    }

    /// Whether an early packet is delivered as a probe: `acked` is
    /// unknown, and this gap has not been probed for a round
    /// trip. The destination sends one NAK per gap, for any number of packets. A cache at the
    /// Sentry fills the gap without it, and the NAK would make the source rewind
    /// for nothing: there it is asked only when that takes too long.
    fn may_probe(&self, config: &Config, now: Time) -> bool {
        let gap = self.sequence.expected();
        // Ahead of paced packets a probe's NAK would ask for those.
        let is_next = gap == self.sequence.next() && gap < self.sequence.high();
        let patience = if config.keeps_responses { self.repair_time() } else { Span::ZERO };
        let is_due = self.sequence.gaps().front().is_none_or(|gap| now >= gap.seen + patience);
        let was_asked = self.is_probed(gap) && now < self.probed_at + self.rtt;
        self.acked.is_none() && is_next && is_due && !was_asked
    }

    /// Whether a probe went past the gap at `seq`, and its NAK may still come.
    pub(crate) fn is_probed(&self, seq: Seq) -> bool {
        self.probed_at > Time::ZERO && self.probed == seq
    }

    /// `acked` is unknown: one early packet is
    /// delivered as a probe. The destination's NAK tells `acked`, and with it the
    /// requester's QPN (R-ORDER-14).
    fn probe<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, frame: F) -> Packet<F> {
        let shared = frame.share();
        (self.probed, self.probed_at) = (self.sequence.expected(), cx.now);
        cx.out.count(Metric::DepotProbe, 1);
        cx.out.count(Metric::CreatedHandle, 1);
        cx.out.deliver(Packet::Shared(shared.clone()));
        Packet::Shared(shared)
    }

    /// Everything before `high` should have arrived. Returns whether more is
    /// missing than before.
    pub(crate) fn open_gap<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, high: Seq) -> bool {
        if high <= self.sequence.high() {
            return false;
        }
        if self.sequence.gaps().is_empty() {
            self.stalled = cx.now;
        }
        self.note_lost(high);
        let before = self.sequence.high();
        if self.sequence.raise_high(high, cx.now) {
            cx.out.about(before.psn(), high.since(before), |out| out.count(Metric::GapsSeen, 1));
        }
        true
    }

    fn count_closed<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, closed: Option<Gap>) {
        if let Some(gap) = closed {
            let count = gap.end.since(gap.start);
            cx.out.about(gap.start.psn(), count, |out| out.count(Metric::GapsFilled, 1));
            let time = cx.now.since(gap.seen);
            cx.out.record(Timing::Recovery, time);
            self.fill.sample(time);
        }
    }

    /// Whether nothing is held, and nothing known that a new flow would have to be
    /// told.
    pub fn is_at_rest(&self) -> bool {
        self.incarnation.is_none()
            && self.nak.is_none()
            && self.sequence.is_empty()
            && self.backup.is_empty()
            && self.responses.is_empty()
    }

    /// Whether this incarnation of the flow is `incarnation`.
    pub fn is_of(&self, incarnation: Incarnation) -> bool {
        self.incarnation == Some(incarnation)
    }

    /// Whether `psn` is the next packet in order.
    pub fn expects(&self, psn: Psn) -> bool {
        psn == self.sequence.expected().psn()
    }

    /// Whether a Sentry has announced itself for this flow.
    pub fn is_synced(&self) -> bool {
        self.incarnation.is_some()
    }

    /// One past the highest packet that the destination can have.
    pub(crate) fn reach(&self) -> Seq {
        self.sequence.high().max(self.passed)
    }

    pub(crate) fn status_interval(&self, config: &Config) -> Span {
        config.status_interval.unwrap_or((self.rtt / 2).max(Span::from_micros(500)))
    }
}
