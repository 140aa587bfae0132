//! The receiving end of the lanes of one peer.

mod counts;
mod floors;
mod give_up;
mod incoming;
mod pacing;
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
pub(crate) use self::run::Step;
use crate::message::{Echo, Probe, Report, Skip};
use crate::number::{FrameId, Lane, Number, Session, WireNumber};
use crate::shim::{CLEAR_MAX, Shim};
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
    /// Of those that wait, the frames that may be delivered, but for their time.
    paced: BinaryHeap<Reverse<Chain>>,
    /// For the time of one call: predecessors of frames that wait. It has room for all, so that nothing is allocated.
    range: Vec<FrameId>,
    /// Frames on lanes that do not exist, and messages that name no lane or no possible number.
    strangers: Received,
}

impl<F> Receiver<F> {
    /// A receiver of a session in which nothing was received yet.
    pub fn new(config: &ReceiverConfig, session: Session) -> Self {
        Self {
            lanes: Lane::all(config.lanes).map(|_| Incoming::new(session.first())).collect(),
            floors: Floors::new(session.first()),
            waiting: Waiting::new(config.waiting_max),
            paced: BinaryHeap::new(),
            range: Vec::with_capacity(config.waiting_max),
            strangers: Received::default(),
        }
    }

    /// Begins another session; the one before has [ended](Self::end). The counts go on.
    pub fn restart(&mut self, session: Session) {
        for lane in &mut self.lanes {
            lane.restart(session.first());
        }
        self.floors = Floors::new(session.first());
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
        let Received { arrived, delivered, duplicate, outside, .. } = self.counts();
        arrived == delivered + duplicate + outside + self.waiting.frames() as u64
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
        lane.counts.arrived += 1;
        lane.marked = lane.marked.wrapping_add(is_marked.into());
        let is_next = lane.next.wire() == shim.number && shim.original.is_none();
        self.floors.set(shim.lane, lane.floor);
        // R-TUN-6
        if is_next && lane.is_calm() && self.is_free(shim) {
            let lane = &mut self.lanes[shim.lane.index()];
            lane.next = lane.next.next();
            lane.floor = lane.next;
            lane.has_news = true;
            lane.counts.delivered += 1;
            return self.deliver_and_followers(config, now, shim, frame, out);
        }
        if is_next {
            self.on_next(config, now, shim, frame, out);
        } else {
            self.on_slow_path(config, now, shim, frame, out);
        }
    }

    /// The last step of the fast path: a frame of another lane may wait for this one.
    #[inline]
    fn deliver_and_followers<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        shim: &Shim,
        frame: F,
        out: &mut D,
    ) {
        out.deliver(frame);
        if !self.waiting.is_empty() {
            let number = self.lanes[shim.lane.index()].next - 1;
            self.resume(config, now, FrameId::new(shim.lane, number), out);
        }
    }

    /// The next first transmission of a lane on which something is missing or waits: it was neither missing nor given up.
    fn on_next<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        shim: &Shim,
        frame: F,
        out: &mut D,
    ) {
        let lane = &mut self.lanes[shim.lane.index()];
        let number = lane.next;
        (lane.next, lane.has_news) = (number.next(), true);
        if lane.may_be_urgent() {
            self.report_urgent(config, now, shim.lane, out);
        }
        let lane = &mut self.lanes[shim.lane.index()];
        // Its frame may have arrived on another lane. R-TUN-4
        if !lane.receive(number) {
            lane.doubled(config, number, now, true);
            return out.discard(frame);
        }
        let id = FrameId::new(shim.lane, number);
        let before = self.awaited(config, shim, id);
        // None waits for the newest number of the only lane.
        if before.is_none() && self.lanes.len() == 1 {
            let lane = &mut self.lanes[shim.lane.index()];
            lane.counts.delivered += 1;
            lane.settle(number);
            return out.deliver(frame);
        }
        self.place(config, now, shim, (id, before), frame, out);
    }

    fn on_slow_path<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        shim: &Shim,
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
        this.found(config, number, now);
        this.next = this.next.max(number.next());
        if shim.original.is_some() {
            this.void(number);
        }
        self.report_urgent(config, now, shim.lane, out);
        let lane = &mut self.lanes[id.lane().index()];
        lane.repair(named, now);
        // R-TUN-10
        if lane.receive_late(named) {
            lane.counts.late += 1;
            lane.counts.delivered += 1;
            return out.deliver(frame);
        }
        // R-TUN-4
        if !lane.receive(named) {
            lane.doubled(config, named, now, shim.original.is_none());
            return out.discard(frame);
        }
        let before = self.awaited(config, shim, id);
        self.place(config, now, shim, (id, before), frame, out);
    }

    /// Delivers a new frame, or lets it wait for the one before. R-TUN-5
    fn place<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        shim: &Shim,
        (id, before): (FrameId, Option<FrameId>),
        frame: F,
        out: &mut D,
    ) {
        let Some(before) = before else { return self.deliver(config, now, id, frame, out) };
        if self.may_overtake(shim, id) {
            return self.deliver_early(config, now, before, id, frame, out);
        }
        let mut is_free = false;
        if !self.may_pace(config) {
            self.deliver_all(now, out);
            while self.waiting.len() >= config.waiting_max && self.give_up_oldest(now, out) {}
            is_free = self.lanes[before.lane().index()].is_settled(before.number());
        }
        let has_room = self.waiting.len() < config.waiting_max && !self.waiting.has(before);
        if is_free || !has_room {
            self.lanes[id.lane().index()].counts.unordered += u64::from(!is_free);
            return self.deliver(config, now, id, frame, out);
        }
        self.lanes[before.lane().index()].counts.waited += 1;
        self.waiting.put(before, id, Some(frame), now);
    }

    /// Whether all responses before an ACK are delivered that it must not overtake. R-TUN-24
    fn may_overtake(&self, shim: &Shim, id: FrameId) -> bool {
        let newest = id.number().get().checked_sub(1 << shim.clear.min(CLEAR_MAX));
        let floor = self.lanes[id.lane().index()].floor;
        shim.clear > 0 && newest.is_none_or(|newest| Number::new(newest) < floor)
    }

    /// Delivers an ACK. Its successors still wait for its predecessor. R-TUN-24
    fn deliver_early<D: Deliver<F>>(
        &mut self,
        config: &ReceiverConfig,
        now: Time,
        before: FrameId,
        id: FrameId,
        frame: F,
        out: &mut D,
    ) {
        let counts = &mut self.lanes[id.lane().index()].counts;
        counts.delivered += 1;
        out.deliver(frame);
        if self.waiting.len() < config.waiting_max && !self.waiting.has(before) {
            counts.overtook += 1;
            self.waiting.put(before, id, None, now);
        } else {
            counts.unordered += 1;
            self.settle(id);
            self.resume(config, now, id, out);
        }
    }

    /// The predecessor that frame `id` has to wait for.
    fn awaited(&self, config: &ReceiverConfig, shim: &Shim, id: FrameId) -> Option<FrameId> {
        let (lane, number) = shim.predecessor?;
        let known = self.lanes.get(lane.index())?;
        let number = Number::read(number, known.next)?;
        let before = FrameId::new(lane, number);
        let is_possible =
            number.since(known.next) < config.window && (lane != id.lane() || number < id.number());
        (is_possible && !known.is_settled(number)).then_some(before)
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
        lane.echo = Some(Echo { sent_at: probe.sent_at, arrived_at: now });
        lane.notice(next, now);
        self.report(config, now, probe.lane, true, out);
    }

    /// The sender does not send these transmissions again. R-TUN-9
    pub fn on_skip<D: Deliver<F>>(&mut self, now: Time, skip: &Skip, out: &mut D) {
        let Some(lane) = self.lanes.get(skip.lane.index()) else {
            self.strangers.refused += 1;
            return;
        };
        let near = lane.next;
        for (start, count) in &skip.ranges {
            let Some(start) = Number::read(*start, near) else { continue };
            let end = start + u64::from(*count);
            while let Some(gap) = self.lanes[skip.lane.index()].gaps.cut(start, end) {
                let lane = &mut self.lanes[skip.lane.index()];
                lane.has_news = true;
                lane.counts.skipped += gap.count();
                self.abandon(now, skip.lane, gap, out);
            }
        }
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
    fn number(&self, config: &ReceiverConfig, lane: Lane, number: WireNumber) -> Option<Number> {
        let near = self.lanes.get(lane.index())?.next;
        Number::read(number, near).filter(|number| number.since(near) < config.window)
    }

    /// Whether the predecessor of a frame is settled.
    #[inline]
    fn is_free(&self, shim: &Shim) -> bool {
        let Some((lane, number)) = shim.predecessor else { return true };
        // On a calm lane all that was sent before is settled.
        lane == shim.lane && number.0.wrapping_sub(shim.number.0) as i32 <= 0
            || self.is_settled(lane, number)
    }

    /// Whether a predecessor on another lane is settled, or can't be one.
    #[inline]
    fn is_settled(&self, lane: Lane, number: WireNumber) -> bool {
        let settled = |lane: &Incoming| {
            Number::read(number, lane.next).is_none_or(|number| lane.is_settled(number))
        };
        self.lanes.get(lane.index()).is_none_or(|state| {
            // Most often it lies a little before the first number that is not settled.
            self.floors.is_before(lane.get(), number) || settled(state)
        })
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
