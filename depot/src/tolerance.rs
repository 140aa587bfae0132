//! Gaps that are lost, and packets that are only late.
//!
//! A packet that fills a gap sooner than a resend could either overtook others on the long haul, or the source's LAN
//! had lost it and the Sentry had it repeated. Only the first has a needless resend follow, which arrives as a
//! duplicate a round trip later. So a flow tolerates nothing until it has seen such duplicates. From then on what fills a gap before it is
//! reported counts as late.

use arrayvec::ArrayVec;
use common::frame::Frame;
use common::metrics::Metric;
use common::psn::Seq;
use common::time::{Span, Time};
use common::verdict::{Limits, Mode, Suspect, Verdict};

use crate::report::Cause;
use crate::{Actions, Config, Context, Flow};

/// Part of the round trip that a gap is waited for at most.
const WAIT_MAX: u64 = 4;
/// Packets that are remembered until their needless resend arrives.
const EARLY_MAX: usize = 16;
/// Round trips for which they are.
const EARLY_FOR: u64 = 3;

/// The learned reordering of a flow's path, and the gaps that are undecided.
#[derive(Debug)]
pub(crate) struct Reordering {
    verdict: Verdict,
    /// All that is missing before is lost, and was reported.
    judged: Seq,
    /// The first gap that is not decided, and how many packets have arrived while it was that.
    standing: (Seq, u64),
    early: ArrayVec<Early, EARLY_MAX>,
}

/// A packet that was reported missing, and arrived sooner than it could be resent.
#[derive(Clone, Copy, Debug)]
struct Early {
    seq: Seq,
    /// How long it was missing, and how far behind the highest.
    late: Span,
    depth: u64,
    at: Time,
}

impl Reordering {
    /// A path that keeps order as far as is known; all that is missing before `judged` was reported.
    fn new(judged: Seq) -> Self {
        Self { verdict: Verdict::default(), judged, standing: (judged, 0), early: ArrayVec::new() }
    }
}

impl<F: Frame> Flow<F> {
    /// The longest that a gap is waited for.
    fn wait_max(&self) -> Span {
        self.rtt / WAIT_MAX
    }

    /// When a missing packet counts as lost; `None`: as soon as a later one arrives.
    fn limits(&self, config: &Config) -> Option<Limits> {
        match (&self.reordering, config.tolerance.mode) {
            (Some(it), _) => it.verdict.limits(&config.tolerance, self.wait_max()),
            (None, Mode::Fixed) => Verdict::default().limits(&config.tolerance, self.wait_max()),
            (None, Mode::Off | Mode::Auto) => None,
        }
    }

    /// Everything that is missing before this is lost.
    fn lost_end(&self, config: &Config, now: Time) -> Seq {
        let high = self.sequence.high();
        let Some(limits) = self.limits(config) else { return high };
        let (judged, standing) = self
            .reordering
            .as_ref()
            .map_or((self.sequence.next(), None), |it| (it.judged, Some(it.standing)));
        let open = self.sequence.gaps_from(judged).find(|gap| {
            let start = gap.start.max(judged);
            let suspect = Suspect {
                depth: high.prev().since(start),
                age: now.since(gap.seen),
                meanwhile: standing.filter(|(at, _)| *at == start).map_or(0, |(_, count)| count),
            };
            !limits.is_lost(&suspect)
        });
        open.map_or(high, |gap| gap.start.max(judged))
    }

    /// Decides which gaps are lost. Everything missing before the result is. R-TOL-1
    pub(crate) fn decide(&mut self, config: &Config, now: Time) -> Seq {
        if let Some(it) = &mut self.reordering {
            it.verdict.decay(now);
        }
        let end = self.lost_end(config, now);
        if let Some(it) = &mut self.reordering {
            it.judged = end;
        }
        end
    }

    /// Whether a gap is a loss at once: the path was not seen to reorder, and no limits are configured. All gaps are
    /// before `judged` then.
    #[inline]
    pub(crate) fn keeps_order(&self, config: &Config) -> bool {
        match (config.tolerance.mode, &self.reordering) {
            (Mode::Auto, None) | (Mode::Off, _) => true,
            (Mode::Auto, Some(it)) => it.verdict.keeps_order(),
            (Mode::Fixed, _) => false,
        }
    }

    fn reordering_mut(&mut self) -> &mut Reordering {
        let next = self.sequence.next();
        self.reordering.get_or_insert_with(|| Box::new(Reordering::new(next)))
    }

    /// A packet has arrived out of order. Reports gaps that are lost since.
    pub(crate) fn judge_arrival<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        self.reordering_mut().standing.1 += 1;
        self.judge(cx);
    }

    /// Time has passed. Reports gaps that are lost since.
    pub(crate) fn judge<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>) {
        let before = self.reordering_mut().judged;
        let end = self.decide(cx.config, cx.now);
        if let Some(it) = self.reordering.as_mut().filter(|it| it.standing.0 != end) {
            it.standing = (end, 0);
        }
        if self.sequence.gaps_from(before).next().is_some_and(|gap| gap.start < end) {
            self.report(cx, Cause::NewGaps(before));
        }
    }

    /// When the oldest gap that is not decided is lost. R-TOL-2
    pub(crate) fn judge_due(&self, config: &Config) -> Time {
        let Some(limits) = self.limits(config) else { return Time::NEVER };
        let judged = self.reordering.as_ref().map_or(self.sequence.next(), |it| it.judged);
        let open = self.sequence.gaps_from(judged).next();
        open.map_or(Time::NEVER, |gap| gap.seen + limits.longest())
    }

    /// Whether the oldest gap was reported, of a path that does not [keep order](Self::keeps_order).
    pub(crate) fn is_front_lost(&self) -> bool {
        let front = self.sequence.gaps().front();
        front.is_some_and(|gap| self.reordering.as_ref().is_some_and(|it| gap.start < it.judged))
    }

    /// `seq` arrives and may fill a gap: it was late, if no resend can have brought it. R-TOL-3
    pub(crate) fn note_fill<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        let is_off = cx.config.tolerance.mode == Mode::Off;
        let Some(gap) = self.sequence.gap(seq).filter(|_| !is_off) else { return };
        let (late, most) = (cx.now.since(gap.seen), self.wait_max());
        let depth = self.sequence.high().prev().since(seq);
        let judged = match &self.reordering {
            Some(it) => it.judged,
            None => self.lost_end(cx.config, cx.now),
        };
        if self.limits(cx.config).is_some() && seq >= judged {
            if let Some(it) = &mut self.reordering {
                it.verdict.late(cx.now, late, depth, most);
            }
            return cx.out.count(Metric::DepotAwaited, 1);
        }
        // A source that goes back also repeats packets that were lost meanwhile: they prove no reordering.
        let rewinds = self.pacing.has_repeated(cx.now, self.rtt);
        if !self.measured || rewinds || late >= self.resend_time() {
            return;
        }
        let forget = self.rtt * EARLY_FOR;
        let it = self.reordering.get_or_insert_with(|| Box::new(Reordering::new(judged)));
        it.early.retain(|early| cx.now < early.at + forget);
        // If there are more the oldest stay: their resends come first.
        let _ = it.early.try_push(Early { seq, late, depth, at: cx.now });
    }

    /// `seq` arrives once more: if it was late, it was resent needlessly. R-TOL-4
    pub(crate) fn note_double<A: Actions<F>>(&mut self, cx: &mut Context<'_, A>, seq: Seq) {
        let (most, least) = (self.wait_max(), self.resend_time());
        let Some(it) = &mut self.reordering else { return };
        let resent =
            |early: &Early| early.seq == seq && cx.now.since(early.at) + early.late >= least;
        let Some(at) = it.early.iter().position(resent) else { return };
        let Early { late, depth, .. } = it.early.swap_remove(at);
        it.verdict.late(cx.now, late, depth, most);
        cx.out.count(Metric::DepotMisjudged, 1);
    }

    /// No resend arrives sooner after a gap was seen.
    fn resend_time(&self) -> Span {
        self.rtt.scale(9, 10)
    }

    /// Frees the state of a path that keeps order again. R-TOL-5
    pub(crate) fn shrink_reordering(&mut self) {
        if self.sequence.gaps().is_empty()
            && self.reordering.as_ref().is_some_and(|it| it.verdict.keeps_order())
        {
            self.reordering = None;
        }
    }
}
