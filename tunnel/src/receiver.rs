//! The receiving end of the lanes of one peer.

mod acks;
mod counts;
mod decoded;
mod floors;
mod give_up;
mod incoming;
mod pacing;
mod retune;
mod run;
mod timers;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use common::time::{Span, Time};
use common::verdict::{Limits, Tolerance};

pub use self::counts::Received;
use self::floors::Floors;
use self::incoming::Incoming;
use self::pacing::Chain;
use self::retune::Shrunk;
pub(crate) use self::run::Step;
use crate::message::{Echo, Probe, Report};
use crate::number::{FrameId, Lane, Number, Session, WireNumber};
use crate::shim::{Order, Shim};
use crate::waiting::{Seat, Waiting};

/// Settings of a receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    /// Lanes, 1 to 255.
    pub lanes: u8,
    /// How far ahead of the newest number the next one may be.
    pub window: u64,
    /// Frames that may wait for their predecessors.
    pub waiting_max: usize,
    /// The most that [`waiting_max`](Self::waiting_max) may become: memory for so many is taken at the start.
    pub waiting_room: usize,
    /// Time after which a missing number is given up.
    pub give_up: Span,
    /// Time between two REPORTs of a lane, while there is news.
    pub report_interval: Span,
    /// When a missing number counts as lost.
    pub tolerance: Tolerance,
    /// Least time between two REPORTs that are sent because numbers became missing.
    pub report_at_once: Span,
    /// Frames that were held behind a gap are delivered at the pace at which they came, not at once.
    pub is_paced: bool,
}

/// Actions of a receiver.
pub trait Deliver<F> {
    /// Delivers a frame to the LAN.
    fn deliver(&mut self, frame: F);

    /// Delivers a frame that has waited, so that its memory may have left the cache.
    fn deliver_held(&mut self, frame: F) {
        self.deliver(frame);
    }

    /// Drops a frame, which is counted already.
    fn discard(&mut self, frame: F);

    /// So many frames from `first` on are no longer waited for.
    fn gave_up(&mut self, lane: Lane, first: Number, count: u64) {
        let _ = (lane, first, count);
    }

    /// Sends a REPORT.
    fn report(&mut self, report: Report);
}

/// The receiving end of the lanes of one peer, for one session.
#[derive(Debug)]
pub struct Receiver<F> {
    lanes: Vec<Incoming>,
    floors: Floors,
    waiting: Waiting<F>,
    shrunk: Shrunk,
    /// Of those that wait, the frames that may be delivered, but for their time.
    paced: BinaryHeap<Reverse<Chain>>,
    /// When a retransmission or a SKIP arrived.
    repaired_at: Time,
    /// A gap was given up for its age, and none was repaired since: nothing is waited for. R-TUN-63
    is_unrepaired: bool,
    /// For the time of one call: predecessors of frames that wait. It has room for all, so that nothing is allocated.
    range: Vec<FrameId>,
    /// Frames on lanes that do not exist, and messages that name no lane or no possible number.
    strangers: Received,
}

impl<F> Receiver<F> {
    /// A receiver of a session in which nothing was received yet.
    pub fn new(config: &ReceiverConfig, session: Session) -> Self {
        let room = config.waiting_room;
        Self {
            lanes: Lane::all(config.lanes).map(|_| Incoming::new(session.first())).collect(),
            floors: Floors::new(session.first()),
            waiting: Waiting::new(room),
            shrunk: Shrunk::default(),
            paced: BinaryHeap::new(),
            repaired_at: Time::ZERO,
            is_unrepaired: false,
            range: Vec::with_capacity(room),
            strangers: Received::default(),
        }
    }

    /// Begins another session; the one before has [ended](Self::end). The counts go on.
    pub fn restart(&mut self, session: Session) {
        for lane in &mut self.lanes {
            lane.restart(session.first());
        }
        self.floors = Floors::new(session.first());
        self.is_unrepaired = false;
    }

    /// Counts so far, of all lanes.
    pub fn counts(&self) -> Received {
        let mut sum = self.strangers;
        self.lanes.iter().for_each(|lane| sum.join(&lane.counts));
        sum
    }

    /// Counts of a lane: [`arrived`](Received::arrived), [`outside`](Received::outside) and
    /// [`missing`](Received::missing) of transmissions on it, the others of frames whose first transmission was on
    /// it, [`waited`](Received::waited) of frames that waited for one of it.
    pub fn lane_counts(&self, lane: Lane) -> Option<&Received> {
        self.lanes.get(lane.index()).map(|lane| &lane.counts)
    }

    /// How far numbers of a lane may be overtaken before they count as lost; `None`: there is no such lane, or a later
    /// number shows the loss.
    pub fn limits(&self, config: &ReceiverConfig, lane: Lane) -> Option<Limits> {
        self.lanes.get(lane.index())?.limits(config)
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.frames()
    }

    /// Whether every frame that arrived is accounted for.
    pub fn is_balanced(&self) -> bool {
        let left = self.total(|lane| {
            lane.delivered + lane.duplicate + lane.outside + lane.too_late + lane.superseded
        });
        self.total(|lane| lane.arrived) == left + self.waiting.frames() as u64
    }

    /// The sum of one count over all lanes, and over frames of none.
    pub(crate) fn total(&self, count: impl Fn(&Received) -> u64) -> u64 {
        self.lanes.iter().map(|lane| count(&lane.counts)).sum::<u64>() + count(&self.strangers)
    }

    /// A frame arrived behind `shim`, which is of this session; the path has marked it, if `is_marked`.
    #[inline]
    pub fn on_frame<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        shim: &Shim,
        is_marked: bool,
        frame: F,
        out: &mut D,
    ) {
        let Some(lane) = self.lanes.get_mut(shim.lane.index()) else {
            self.strangers.arrived += 1;
            self.strangers.outside += 1;
            return out.discard(frame);
        };
        lane.marked = lane.marked.wrapping_add(is_marked.into());
        // R-TUN-6
        if lane.next.wire() == shim.number && shim.original.is_none() {
            self.on_next(config, now, shim.lane, shim.order(), frame, out);
        } else {
            lane.counts.arrived += 1;
            self.on_slow_path(config, now, shim, false, frame, out);
        }
        self.floors.set(shim.lane, self.lanes[shim.lane.index()].floor);
    }

    /// The next first transmission of a lane, which is neither missing nor given up.
    #[inline]
    fn on_next<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        lane: Lane,
        order: Order,
        frame: F,
        out: &mut D,
    ) {
        let state = &mut self.lanes[lane.index()];
        let number = state.next;
        (state.next, state.has_news) = (number.next(), true);
        state.counts.arrived += 1;
        if state.may_be_urgent() {
            self.report_urgent(config, now, lane, out);
        }
        let state = &mut self.lanes[lane.index()];
        // Its frame may have arrived on another lane. R-TUN-4
        if !state.receive(number) {
            state.doubled(config, number, now, true);
            return out.discard(frame);
        }
        if let Some(before) = self.awaited(config, order, (lane, number)) {
            let id = FrameId::new(lane, number);
            return self.hold(config, now, (id, before, order.clear()), frame, out);
        }
        let is_only = self.lanes.len() == 1;
        let state = &mut self.lanes[lane.index()];
        state.counts.delivered += 1;
        state.settle(number);
        out.deliver(frame);
        // None waits for the newest number of the only lane.
        if !is_only {
            self.resume(config, now, FrameId::new(lane, number), out);
        }
    }

    fn on_slow_path<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        shim: &Shim,
        is_decoded: bool,
        frame: F,
        out: &mut D,
    ) {
        let number = self.number(config, shim.lane, shim.number);
        let (lane, named) = shim.original.unwrap_or((shim.lane, shim.number));
        let (Some(number), Some(named)) = (number, self.number(config, lane, named)) else {
            self.lanes[shim.lane.index()].counts.outside += 1;
            return out.discard(frame);
        };
        let id = FrameId::new(lane, named);
        let this = &mut self.lanes[shim.lane.index()];
        this.has_news = true;
        this.notice(number, now);
        if is_decoded {
            this.repair(number, now);
        } else {
            this.found(config, number, now);
        }
        this.next = this.next.max(number.next());
        if shim.original.is_some() {
            this.void(number);
            self.mark_repaired(now);
        }
        self.report_urgent(config, now, shim.lane, out);
        let lane = &mut self.lanes[id.lane().index()];
        lane.repair(named, now);
        // R-TUN-10
        if let Some(since) = lane.receive_late(named) {
            if now >= since + config.give_up {
                lane.counts.too_late += 1;
                return out.discard(frame);
            }
            lane.counts.late += 1;
            lane.counts.delivered += 1;
            return out.deliver(frame);
        }
        // R-TUN-4
        if !lane.receive(named) {
            lane.doubled(config, named, now, shim.original.is_none());
            return out.discard(frame);
        }
        let order = shim.order();
        let awaited = self.awaited(config, order, (id.lane(), named));
        if order.clear() > 0 && self.is_overtaken(id) {
            return self.drop_superseded(config, now, (id, awaited), frame, out);
        }
        match awaited {
            Some(before) => self.hold(config, now, (id, before, order.clear()), frame, out),
            None => self.deliver(config, now, id, frame, out),
        }
    }

    /// A new frame waits for the one before. R-TUN-5
    fn hold<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        (id, before, clear): (FrameId, FrameId, u8),
        frame: F,
        out: &mut D,
    ) {
        if self.may_overtake(clear, id) {
            return self.deliver_early(config, now, before, id, frame, out);
        }
        let is_free = !self.may_pace(config) && self.make_room(config, now, before, out);
        let has_room = !is_free && self.has_room(config);
        let held = if has_room {
            self.waiting.put(before, id, Some(frame), now)
        } else {
            Err(Some(frame))
        };
        match held {
            Ok(()) => self.lanes[before.lane().index()].counts.waited += 1,
            Err(frame) => {
                self.lanes[id.lane().index()].counts.unordered += u64::from(!is_free);
                if let Some(frame) = frame {
                    self.deliver(config, now, id, frame, out);
                }
            }
        }
    }

    /// Delivers frames that wait, to make room for one more. Returns whether `before` is settled after that.
    #[cold]
    fn make_room<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        before: FrameId,
        out: &mut D,
    ) -> bool {
        self.deliver_all(now, out);
        while !self.has_room(config) && self.give_up_oldest(now, out) {}
        self.lanes[before.lane().index()].is_settled(before.number())
    }

    /// The predecessor that a new frame has to wait for. `own` and `number` are the frame's lane and number. A frame with an
    /// impossible predecessor waits for none, and is counted.
    #[inline]
    fn awaited(
        &mut self,
        config: &ReceiverConfig,
        order: Order,
        (own, number): (Lane, Number),
    ) -> Option<FrameId> {
        let (lane, before) = order.predecessor()?;
        let known = self.lanes.get(lane.index()).and_then(|known| {
            let is_own = lane == own;
            // One before number 0 was settled long ago, like any other that is far behind.
            let before = Number::read(before, if is_own { number } else { known.next });
            let is_possible = before.is_none_or(|before| {
                if is_own { before < number } else { before.since(known.next) < config.window }
            });
            is_possible.then(|| before.filter(|before| !known.is_settled(*before)))
        });
        let Some(before) = known else {
            self.lanes[own.index()].counts.unordered += 1;
            return None;
        };
        before.map(|before| FrameId::new(lane, before))
    }

    /// The sender asks for a REPORT.
    pub fn on_probe<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        probe: &Probe,
        out: &mut D,
    ) {
        let known = self.lanes.get(probe.lane.index()).map(|lane| lane.next);
        let next = known.and_then(|known| Number::read(probe.next, known));
        let (Some(known), Some(next)) = (known, next) else {
            self.strangers.refused += 1;
            return;
        };
        if next.since(known) > config.window {
            // More was lost than the window holds. The message is authentic, unlike a number. R-TUN-11
            self.give_up_lane(now, probe.lane, next, out);
        }
        let lane = &mut self.lanes[probe.lane.index()];
        lane.notice(next, now);
        match probe.sent_at {
            Some(sent_at) => lane.echo = Some(Echo { sent_at, arrived_at: now }),
            None if lane.has_told_all() => return,
            None => {}
        }
        self.report(config, now, probe.lane, true, out);
    }

    /// Ends the session: delivers the frames that wait, each flow in order. R-TUN-14
    pub fn end<D: Deliver<F>>(&mut self, now: Time, out: &mut D) {
        self.deliver_all(now, out);
        while self.give_up_oldest(now, out) {}
        // Only frames that name impossible predecessors are left.
        while let Some((_, before)) = self.waiting.oldest() {
            self.release(now, before, out);
        }
    }

    /// The number with these bits; `None` if there is no such lane, or it is too far ahead. R-TUN-3
    pub(crate) fn number(
        &self,
        config: &ReceiverConfig,
        lane: Lane,
        number: WireNumber,
    ) -> Option<Number> {
        let near = self.lanes.get(lane.index())?.next;
        Number::read(number, near).filter(|number| number.since(near) < config.window)
    }

    /// Delivers a frame and those that waited for it.
    fn deliver<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        id: FrameId,
        frame: F,
        out: &mut D,
    ) {
        self.lanes[id.lane().index()].counts.delivered += 1;
        out.deliver(frame);
        self.settle(id);
        self.resume(config, now, id, out);
    }

    /// Nothing waits for frame `id` any more.
    fn settle(&mut self, id: FrameId) {
        self.lanes[id.lane().index()].settle(id.number());
    }

    /// Delivers the frame that waits for `before`, the one that waits for that, and so on, all at once.
    fn release<D: Deliver<F>>(&mut self, now: Time, mut before: FrameId, out: &mut D) {
        while let Some((seat, since, _)) = self.waiting.seek(before)
            && let Some(id) = self.release_at(seat, now.since(since), out)
        {
            before = id;
        }
    }

    /// Delivers a frame that has waited so long.
    fn release_at<D: Deliver<F>>(
        &mut self,
        seat: Seat,
        waited: Span,
        out: &mut D,
    ) -> Option<FrameId> {
        let (id, frame) = self.waiting.take_at(seat)?;
        let lane = &mut self.lanes[id.lane().index()];
        lane.settle(id.number());
        if let Some(frame) = frame {
            lane.counts.delivered += 1;
            lane.counts.hold.record(waited);
            out.deliver_held(frame);
        }
        Some(id)
    }

    /// At most one REPORT in `report_at_once`. R-TUN-7
    fn report_urgent<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        lane: Lane,
        out: &mut D,
    ) {
        let state = &mut self.lanes[lane.index()];
        if now >= state.reported_at + config.report_at_once && state.is_urgent(config, now) {
            self.report(config, now, lane, false, out);
        }
    }

    fn report<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        lane: Lane,
        all: bool,
        out: &mut D,
    ) {
        let state = &mut self.lanes[lane.index()];
        state.report(lane, now, all, config, |report| out.report(report));
    }
}
