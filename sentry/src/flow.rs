//! The state of one flow, and what new packets and ACKs do to it.

use common::control::{Reason, Sync};
use common::frame::{Class, Frame, Packet, Shared};
use common::metrics::Metric;
use common::psn::{Psn, Seq};
use common::rtt::Rtt;
use common::time::{Span, Time};
use common::window::Window;
use common::wire::{Position, Roce, icrc_ok};

use crate::discovery::Discovery;
use crate::filter::Pass;
use crate::knowledge::Knowledge;
use crate::nak::Naks;
use crate::{Actions, Config, Cx};

/// One direction of a queue pair, seen from near its source.
pub struct Flow<F: Frame> {
    epoch: u32,
    /// The first packet of this life.
    pub(crate) first: Seq,
    /// Next new PSN from the source (ePSN_s).
    pub(crate) next: Seq,
    /// Oldest PSN that the destination has not acknowledged; unknown until it
    /// or the Depot says so†.
    pub(crate) acked: Option<Seq>,
    /// Messages that are complete before `acked`, as the destination counts.
    pub(crate) msn: u32,
    /// The packets in flight.
    pub(crate) window: Window<Slot<F::Shared>>,
    /// No handle is held below this number.
    pub(crate) released: Seq,
    /// Repeats that are kept because they are not known to have arrived (only
    /// [`Recovery::Lr2`](crate::Recovery::Lr2); a cache keeps everything).
    pub(crate) kept: Vec<Seq>,
    pub(crate) pass: Pass,
    pub(crate) naks: Naks,
    pub(crate) discovery: Discovery,
    pub(crate) knowledge: Option<Knowledge>,
    pub(crate) rtt: Rtt,
    pub(crate) last_data: Time,
    pub(crate) last_sync: Time,
    /// First SYNC since the last STATUS.
    pub(crate) unanswered: Option<Time>,
    /// SYNC(tail) messages since the last data.
    pub(crate) tails: u32,
    pub(crate) pmtu: u16,
    /// The RNICs are on their own until the flow's next life.
    bypassed: bool,
}

/// State of one PSN in flight.
pub(crate) struct Slot<S> {
    /// When its newest copy left for the Depot; [`Time::ZERO`] if none did.
    pub sent: Time,
    /// It left more than once.
    pub resent: bool,
    /// The Depot asked for it and nothing was sent yet.
    pub needed: bool,
    /// The NAK round in which the filter let it through; 0 for none.
    pub round: u32,
    /// The newest copy that was kept or sent asks for an ACK.
    pub ack_req: bool,
    /// The packet itself.
    pub handle: Option<S>,
}

impl<S> Slot<S> {
    fn new(sent: Time, ack_req: bool, handle: Option<S>) -> Self {
        Self { sent, resent: false, needed: false, round: 0, ack_req, handle }
    }
}

impl<F: Frame> Flow<F> {
    /// A flow whose first packet will be `psn`. `epoch` must not have been
    /// given to any flow of this switch before.
    pub fn new(config: &Config, now: Time, epoch: u32, psn: Psn) -> Self {
        let next = Seq::first(psn);
        Self {
            epoch,
            first: next,
            next,
            acked: None,
            msn: 0,
            window: Window::new(next),
            released: next,
            kept: Vec::new(),
            pass: Pass::new(next),
            naks: Naks::new(),
            discovery: Discovery::new(now),
            knowledge: None,
            rtt: Rtt::guess(config.rtt_guess),
            last_data: now,
            last_sync: now,
            unanswered: None,
            tails: 0,
            pmtu: 0,
            bypassed: false,
        }
    }

    /// A request packet came from the source; `roce` is what it parsed to.
    pub fn on_data<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, frame: F, roce: &Roce) {
        let distance = roce.psn.distance(self.next.psn());
        let leaps = u64::from(distance.unsigned_abs()) > cx.config.window_max;
        let ahead = distance > 0 && !self.bypassed;
        if (ahead || leaps) && !icrc_ok(frame.bytes(), roce) {
            // No surprise is believed on the word of a damaged packet.
            cx.out.count(Metric::PassedBadIcrc, 1);
            return cx.out.forward(Packet::Owned(frame), Class::Data);
        }
        if leaps {
            // Nothing that is in flight can be that far away: the QP was
            // reset, and this is the first packet of its next life.
            self.begin_again(cx, roce.psn);
        }
        self.last_data = cx.now;
        self.tails = 0;
        if !roce.kind().is_plain() && !self.bypassed {
            // READs and atomics are answered with more than an ACK. A flow
            // with such requests is left to the RNICs' own recovery.
            self.bypass(cx);
        }
        let seq = roce.psn.unwrap_near(self.next);
        if self.bypassed {
            // Only to tell the flow's next life from this one.
            self.next = self.next.max(seq.next());
            return cx.out.forward(Packet::Owned(frame), Class::Data);
        }
        self.pmtu = path_mtu(roce).unwrap_or(self.pmtu);
        self.discover(cx);
        if seq < self.next {
            return self.on_repeat(cx, frame, seq, roce);
        }
        if seq > self.next {
            // Lost between the source and here. Passing it on and believing
            // the hole lost is safe in every state†: the Depot reports it.
            cx.out.count(Metric::SentryAhead, 1);
            while self.next < seq {
                self.track(cx, Slot { sent: Time::ZERO, ..Slot::new(cx.now, false, None) });
            }
        }
        cx.out.count(Metric::SentryNew, 1);
        self.pass.end(seq);
        let keep = cx.config.recovery.caches() && self.discovery.tracks();
        let (packet, handle) = if keep { share(cx, frame) } else { (Packet::Owned(frame), None) };
        self.track(cx, Slot::new(cx.now, roce.ack_req, handle));
        cx.out.forward(packet, Class::Data);
    }

    /// The destination acknowledged everything up to and including `psn`.
    pub fn on_ack<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, psn: Psn, msn: u32) {
        if !self.bypassed {
            self.advance_acked(cx, psn.unwrap_near(self.next).next(), msn);
        }
    }

    /// The destination asked for everything from `psn` on (NAK or RNR NAK);
    /// the message itself goes on to the source.
    pub fn on_nak<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, psn: Psn, msn: u32) {
        if self.bypassed {
            return;
        }
        let seq = psn.unwrap_near(self.next);
        if seq > self.next {
            return;
        }
        if self.acked.is_some_and(|acked| seq < acked) {
            // It takes back what it acknowledged: another life of the QP†.
            return self.begin_again(cx, self.next.psn());
        }
        self.advance_acked(cx, seq, msn);
        self.pass.ask_genuinely(seq, self.next);
        self.naks.genuine();
    }

    /// Drops everything that is held and believed: the flow's next life, with
    /// an epoch of its own, begins at `psn`.
    fn begin_again<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, psn: Psn) {
        self.forget(cx);
        cx.out.new_life();
        let (rtt, pmtu) = (self.rtt, self.pmtu);
        let epoch = cx.new_epoch();
        *self = Self { rtt, pmtu, ..Self::new(cx.config, cx.now, epoch, psn) };
        cx.out.count(Metric::FlowNewEpoch, 1);
    }

    /// Lets go of every handle: before the flow itself is dropped.
    pub fn forget<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        while let Some(slot) = self.window.pop() {
            release(cx, slot.handle);
        }
        self.window.skip_to(self.next);
        self.released = self.next;
        self.kept.clear();
        self.pass = Pass::new(self.next);
    }

    /// Stops protecting the flow: tells the Depot to let go of what it holds.
    pub fn bypass<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>) {
        if self.bypassed {
            return;
        }
        cx.out.count(Metric::FlowBypassed, 1);
        if self.discovery.started() {
            self.sync(cx, Reason::Release);
        }
        self.forget(cx);
        self.bypassed = true;
        self.discovery.lose_peer();
    }

    /// Whether a Depot answers for this flow.
    pub fn is_protected(&self) -> bool {
        self.discovery.is_protected()
    }

    /// The number of this life of the flow.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The long-haul round trip, if it was measured on this flow.
    pub fn rtt(&self) -> Option<Span> {
        self.rtt.is_measured().then(|| self.rtt.mean())
    }

    /// Whether the gateway left this flow to the RNICs.
    pub fn is_bypassed(&self) -> bool {
        self.bypassed
    }

    /// Whether something is under way that the Depot or the destination has
    /// not confirmed.
    pub(crate) fn is_outstanding(&self) -> bool {
        match (self.acked, &self.knowledge) {
            (Some(acked), _) => acked < self.next,
            (None, Some(known)) => known.expected < self.next,
            (None, None) => true,
        }
    }

    /// Gives `next` its slot and moves on.
    fn track<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, slot: Slot<F::Shared>) {
        self.next = self.next.next();
        if self.discovery.tracks() {
            if self.window.len() as u64 >= cx.config.window_max {
                let oldest = self.window.start();
                self.trim(cx, oldest.next());
            }
            self.window.push(slot);
        } else {
            self.window.skip_to(self.next);
            self.released = self.next;
            release(cx, slot.handle);
        }
    }

    /// Moves `acked` up to `acked` and lets go of what lies before it. True if
    /// that was news.
    pub(crate) fn advance_acked<A: Actions<F>>(
        &mut self,
        cx: &mut Cx<'_, A>,
        acked: Seq,
        msn: u32,
    ) -> bool {
        // An ACK beyond what was seen here belongs to a packet that passed
        // before this box started, or to another flow: it proves nothing.
        if acked > self.next || self.acked.is_some_and(|old| acked <= old) {
            return false;
        }
        self.acked = Some(acked);
        self.msn = msn;
        self.naks.progress();
        self.trim(cx, acked);
        true
    }

    /// Drops the slots before `floor`.
    pub(crate) fn trim<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, floor: Seq) {
        while self.window.start() < floor
            && let Some(slot) = self.window.pop()
        {
            if slot.needed {
                self.pass.needed -= 1;
            }
            release(cx, slot.handle);
        }
        self.released = self.released.max(self.window.start());
    }

    /// Sends a SYNC. SYNC(resent) travels with the resends and claims no
    /// `next_psn`; all others travel in order with the data†.
    pub(crate) fn sync<A: Actions<F>>(&mut self, cx: &mut Cx<'_, A>, reason: Reason) {
        let resent = reason == Reason::Resent;
        let sync = Sync {
            reason,
            next_psn: (!resent).then(|| self.next.psn()),
            acked: self.acked.map(Seq::psn),
            pmtu: self.pmtu,
            src_qpn: cx.out.requester(),
            sent_at: cx.now,
            rtt: if self.rtt.is_measured() { self.rtt.mean() } else { Span::ZERO },
        };
        self.last_sync = cx.now;
        if reason != Reason::Release {
            self.unanswered.get_or_insert(cx.now);
        }
        cx.out.sync(self.epoch, sync, if resent { Class::High } else { Class::Data });
    }
}

/// Shares `frame` between the port and the cache: what to send, and the handle
/// to keep. Without budget for it none is kept.
pub(crate) fn share<F: Frame, A: Actions<F>>(
    cx: &mut Cx<'_, A>,
    frame: F,
) -> (Packet<F>, Option<F::Shared>) {
    if !cx.cache.take(frame.bytes().len()) {
        cx.out.count(Metric::SentryCacheFull, 1);
        return (Packet::Owned(frame), None);
    }
    cx.out.count(Metric::CreatedHandle, 1);
    let shared = frame.share();
    (Packet::Shared(shared.clone()), Some(shared))
}

/// Gives a handle back.
pub(crate) fn release<F: Frame, A: Actions<F>>(cx: &mut Cx<'_, A>, handle: Option<F::Shared>) {
    if let Some(handle) = handle {
        cx.cache.give(handle.bytes().len());
        cx.out.discard(Packet::Shared(handle), Metric::DropReleased);
    }
}

/// The path MTU, if this packet tells it: first and middle packets are full.
fn path_mtu(roce: &Roce) -> Option<u16> {
    let full = matches!(roce.kind().position(), Some(Position::First | Position::Middle));
    let len = roce.payload_len();
    (full && matches!(len, 256 | 512 | 1024 | 2048 | 4096)).then_some(len as u16)
}
