//! The sending end of the lanes to one peer.

mod age;
mod backlog;
mod choice;
mod copies;
mod counts;
mod dead;
mod delivery;
mod freeing;
mod handles;
mod listed;
mod moving;
mod outgoing;
mod predecessors;
mod repair;
mod share;
mod silence;
mod waits;
mod watched;

use common::time::{Span, Time};

use self::age::Refused;
use self::choice::spray;
use self::copies::Copies;
pub use self::counts::Sent;
pub use self::outgoing::Health;
use self::outgoing::{Outgoing, Slot};
pub use self::predecessors::BUCKETS;
use self::predecessors::Predecessors;
use self::share::ResendShare;
use self::silence::Pulse;
pub use self::waits::report_interval;
use crate::flow::{Flow, Order};
use crate::message::{Probe, Report, Skip};
use crate::number::{FrameId, Lane, Number, Session};
use crate::shim::Shim;
use crate::spray::{Policy, Spray};

/// Settings of a sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SenderConfig {
    /// Lanes, 1 to 255.
    pub lanes: u8,
    /// The round trip, until it is measured.
    pub rtt: Span,
    /// Frames that may be kept.
    pub cache_max: usize,
    /// Time after its first transmission from which on a frame is not resent; sooner, where a few round trips are less.
    pub give_up: Span,
    /// WAN ports, at least one: the lanes go round them.
    pub ports: u8,
    /// How lanes are chosen.
    pub spray: Policy,
    /// Transmissions of a lost frame, each on another lane, while more than one frame in a thousand is lost: 1 or 2.
    pub resend_copies: u8,
}

/// The way of new frames out of a sender.
pub trait Transmit<F> {
    /// A handle on a frame that was sent.
    type Kept;

    /// Sends a frame of this [traffic class](crate::Flow::traffic_class) behind `shim`, and keeps a handle on it if
    /// `shim` says so and there is memory.
    fn send(&mut self, shim: &Shim, traffic_class: u8, frame: F) -> Option<Self::Kept>;
}

/// Actions of a sender.
pub trait Recover {
    /// A handle on a frame that was sent.
    type Kept;

    /// Sends a kept frame again, behind `shim` with [`predecessor`](Shim::predecessor) and [`clear`](Shim::clear) of
    /// its first transmission. False if there is no memory.
    fn resend(&mut self, shim: &Shim, kept: &Self::Kept) -> bool;

    /// A kept frame was lost on a lane, and not for the first time.
    fn lost_again(&mut self, now: Time, lane: Lane, kept: &Self::Kept) {
        let _ = (now, lane, kept);
    }

    /// The order of a kept frame, by which it belongs to a flow.
    fn order(&self, kept: &Self::Kept) -> Order {
        let _ = kept;
        Order::Free
    }

    /// Frees a handle.
    fn release(&mut self, kept: Self::Kept);

    /// Frees those of these handles that are there, and returns how many.
    fn release_all(&mut self, kept: &mut [Option<Self::Kept>]) -> usize {
        let all = kept.iter_mut().filter_map(Option::take);
        all.map(|kept| self.release(kept)).count()
    }

    /// Sends a PROBE.
    fn probe(&mut self, probe: Probe);

    /// Sends a SKIP on lane `via`.
    fn skip(&mut self, via: Lane, skip: Skip);
}

/// The sending end of the lanes to one peer, for one session.
#[derive(Debug)]
pub struct Sender<K> {
    session: Session,
    lanes: Vec<Outgoing<K>>,
    flows: Predecessors,
    /// Handles that are kept, and those that are to be freed.
    kept: usize,
    /// The lane whose handles are freed next.
    freeing: usize,
    /// Of handles that may be freed for frames that were sent, a part, as `FREED_FOR` says.
    free_credit: usize,
    /// When all are freed whose transmissions arrived; [`Time::NEVER`] if there is none.
    free_due: Time,
    share: ResendShare,
    refused: Refused,
    /// [`SenderConfig::give_up`]
    give_up: Span,
    /// REPORTs on lanes that do not exist.
    strangers: u64,
    spray: Spray,
    copies: Copies,
    /// When the delays of the lanes are measured again.
    measure_at: Time,
    /// Lanes that were chosen for frames since they were measured; many, if a session began since.
    choices: u32,
    /// How often they were measured in this session, 255 at most.
    measures: u8,
    pulse: Pulse,
    /// When more frames [move](Self::move_all_on) from a lane to others; [`Time::NEVER`] if none do.
    move_at: Time,
    /// For the time of one call: transmissions that were lost.
    lost: Vec<(Number, Slot<K>)>,
}

impl<K> Sender<K> {
    /// A sender of a session in which nothing was sent yet.
    pub fn new(config: &SenderConfig, session: Session) -> Self {
        let lane = |lane| Outgoing::new(lane, session, config.rtt);
        Self {
            session,
            lanes: Lane::all(config.lanes).map(lane).collect(),
            flows: Predecessors::default(),
            kept: 0,
            freeing: 0,
            free_credit: 0,
            free_due: Time::NEVER,
            share: ResendShare::default(),
            refused: Refused::default(),
            give_up: config.give_up,
            strangers: 0,
            spray: spray(config, session),
            copies: Copies::new(config, &Sent::default()),
            measure_at: Time::ZERO,
            choices: u32::MAX,
            measures: 0,
            pulse: Pulse::default(),
            move_at: Time::NEVER,
            lost: Vec::new(),
        }
    }

    /// Begins another session; the one before has [ended](Self::end). The counts go on.
    pub fn restart(&mut self, config: &SenderConfig, session: Session) {
        self.session = session;
        self.share = ResendShare::default();
        self.refused.clear();
        (self.spray, self.choices, self.measures) = (spray(config, session), u32::MAX, 0);
        self.copies = Copies::new(config, &self.counts());
        self.flows.clear();
        for lane in &mut self.lanes {
            lane.restart(session, config.rtt);
        }
    }

    /// Counts so far, of all lanes.
    pub fn counts(&self) -> Sent {
        let mut sum = Sent { refused: self.strangers, ..Sent::default() };
        self.lanes.iter().for_each(|lane| sum.join(&lane.counts));
        sum
    }

    /// Handles that are kept; some of transmissions that arrived are freed later.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Whether every handle that was kept is accounted for.
    pub fn is_balanced(&self) -> bool {
        let (frames, not_kept) = (self.total(|lane| lane.frames), self.total(|lane| lane.not_kept));
        frames - not_kept == self.total(|lane| lane.released) + self.kept as u64
    }

    /// The sum of one count over all lanes.
    pub(crate) fn total(&self, count: impl Fn(&Sent) -> u64) -> u64 {
        self.lanes.iter().map(|lane| count(&lane.counts)).sum()
    }

    /// Fetches the flow bucket of a frame that follows.
    #[inline]
    pub fn fetch(&self, order: Order) {
        self.flows.fetch(order);
    }

    /// Sends one frame, as [`on_frames`](Self::on_frames) does.
    #[inline]
    pub fn on_frame<F, T: Transmit<F, Kept = K>>(
        &mut self,
        config: &SenderConfig,
        now: Time,
        lane: Lane,
        flow: Flow,
        frame: F,
        out: &mut T,
    ) {
        self.on_frames(config, now, lane, core::iter::once((flow, frame)), out);
    }

    /// Sends frames that the egress queue has room for, on `lane` or, while that is suspect, on another
    /// one. If not all of them can be kept, none is.
    ///
    /// # Panics
    /// If there is no such lane.
    // The shim is written from registers where this is part of its caller.
    #[inline(always)]
    pub fn on_frames<F, T: Transmit<F, Kept = K>>(
        &mut self,
        config: &SenderConfig,
        now: Time,
        lane: Lane,
        frames: impl ExactSizeIterator<Item = (Flow, F)>,
        out: &mut T,
    ) {
        let lane = self.usable(lane);
        // R-TUN-13
        if self.kept + frames.len() <= config.cache_max {
            self.send::<_, _, true>(now, lane, frames, out);
        } else {
            self.send::<_, _, false>(now, lane, frames, out);
        }
    }

    /// Sends frames on a lane, and keeps handles on them or not.
    #[inline(always)]
    fn send<F, T: Transmit<F, Kept = K>, const KEPT: bool>(
        &mut self,
        now: Time,
        lane: Lane,
        frames: impl ExactSizeIterator<Item = (Flow, F)>,
        out: &mut T,
    ) {
        let Self { lanes, flows, session, .. } = self;
        let state = &mut lanes[lane.index()];
        let first = state.next();
        let (mut id, mut kept) = (FrameId::new(lane, first), 0);
        state.handles.reserve(frames.len());
        let mut flows = flows.borrow();
        for (flow, frame) in frames {
            let (predecessor, clear) = flows.place(id, flow.order);
            let shim = Shim {
                lane,
                number: id.number().wire(),
                session: *session,
                predecessor: predecessor.map(FrameId::wire),
                original: None,
                is_kept: KEPT,
                clear,
            };
            let handle = out.send(&shim, flow.traffic_class, frame);
            kept += usize::from(handle.is_some());
            state.push_first(id, handle);
            id = id.next();
        }
        let count = state.next().since(first);
        if count == 0 {
            return;
        }
        self.kept += kept;
        state.counts.frames += count;
        state.counts.not_kept += count - kept as u64;
        self.share.sent(now, count, state.rtt().mean());
        state.sent(now, first);
    }

    /// A REPORT arrived. False if it speaks of numbers that were never sent: it is taken as far as they were.
    pub fn on_report<T: Recover<Kept = K>>(
        &mut self,
        now: Time,
        report: &Report,
        out: &mut T,
    ) -> bool {
        let Some(state) = self.lanes.get_mut(report.lane.index()) else {
            self.strangers += 1;
            return false;
        };
        let Some(listed) = state.read(report) else {
            state.counts.refused += 1;
            return false;
        };
        state.counts.reports += 1;
        let rtt = state.rtt().mean();
        let marks = self.spray.on_report(now, report.lane, report.frames, report.marked, rtt);
        state.counts.marked += u64::from(marks);
        if let Some(echo) = report.echo
            && state.delivery.is_news(&echo)
        {
            state.sample(now, now.since(echo.sent_at));
            state.delivery.on_echo(now, &echo);
        }
        let interval = report_interval(state.rtt().mean());
        state.delivery.arrived(now, report.frames, interval);
        let is_wrong = listed.is_wrong();
        state.counts.refused += u64::from(is_wrong);
        let mut lost = core::mem::take(&mut self.lost);
        let was_good = state.health == Health::Good;
        if was_good {
            self.pulse.beat(now, rtt);
        }
        let pulse = self.pulse.passed();
        let arrived = (&mut self.copies.arrived, &mut self.refused);
        self.kept -= state.take(now, pulse, &listed, &mut lost, arrived, out);
        state.counts.lost += lost.len() as u64;
        if let (Some((first, _)), Some((last, _))) = (lost.first(), lost.last()) {
            // Numbers between them were not lost. R-TUN-50
            state.counts.aggregated += u64::from(last.since(*first) >= lost.len() as u64);
        }
        if !lost.is_empty() {
            let Sent { frames, lost: transmissions, .. } = self.counts();
            self.copies.look(frames, transmissions);
            self.repair_all(now, report.lane, &mut lost, out);
        }
        self.lost = lost;
        self.settle_copied(out);
        self.free_arrived(now, out);
        if !was_good && self.is_good(report.lane) {
            self.rescue(now, out);
        }
        // A REPORT that asks again within a round trip may have crossed the SKIP.
        let state = &mut self.lanes[report.lane.index()];
        if state.dead.is_new || now >= state.skipped_at + rtt {
            state.skipped_at = now;
            let has_more = state.dead.known(|start| !listed.covers(start)).next().is_some();
            state.dead.is_new = has_more;
            self.skip(report.lane, report.lane, |start| listed.covers(start), out);
        }
        !is_wrong
    }

    /// When [`on_timer`](Self::on_timer) has to be called; [`Time::NEVER`] if all is reported.
    pub fn deadline(&self) -> Time {
        let of_lanes = self.lanes.iter().map(Outgoing::due).min().unwrap_or(Time::NEVER);
        of_lanes.min(self.due_of_all())
    }

    /// When it has to be called for a lane, or for all of them together.
    #[inline]
    pub fn due_of(&self, lane: Lane) -> Time {
        let of_lane = self.lanes.get(lane.index()).map_or(Time::NEVER, Outgoing::due);
        of_lane.min(self.due_of_all())
    }

    /// When it has to be called for all lanes together.
    #[inline]
    pub fn due_of_all(&self) -> Time {
        self.measure_due().min(self.free_due).min(self.move_at)
    }

    /// Probes lanes whose newest frames are not reported, and leaves those that don't answer.
    pub fn on_timer<T: Recover<Kept = K>>(&mut self, now: Time, out: &mut T) {
        self.move_all_on(now, out);
        for lane in Lane::all(self.lanes.len() as u8) {
            let is_suspect = self.suspect(lane, now);
            let state = &mut self.lanes[lane.index()];
            let is_due = now >= state.probe_due();
            // Those that can't be moved are tried again as often as the lane is.
            if is_suspect || (is_due && state.is_late(now)) {
                self.move_frames(lane, now, out);
            }
            let state = &mut self.lanes[lane.index()];
            if is_due {
                state.counts.probes += 1;
                out.probe(state.probe(lane, now));
                self.skip_elsewhere(lane, out);
            }
        }
        if now >= self.measure_due() {
            self.measure(now, out);
        }
        if now >= self.free_due {
            self.free(usize::MAX, out);
        }
    }

    /// Ends the session: nothing is resent.
    pub fn end<T: Recover<Kept = K>>(&mut self, out: &mut T) {
        for lane in &mut self.lanes {
            lane.end();
        }
        self.move_at = Time::NEVER;
        self.free(usize::MAX, out);
    }
}
