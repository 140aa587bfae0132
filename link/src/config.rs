//! How one direction of the link treats frames.

use common::time::Span;
use thiserror::Error;

/// One direction of the emulated link. The default impairs nothing: unlimited
/// rate, no delay.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectionConfig {
    /// Rate in bit/s on the wire, [overhead](crate::FRAME_OVERHEAD) of each
    /// frame included; `None` is unlimited.
    pub rate: Option<u64>,
    /// Wire bytes that may wait for the line, the frame on it included. Frames
    /// beyond that are dropped. Without a rate nothing waits.
    pub queue: u64,
    /// Propagation delay.
    pub delay: Span,
    /// Further delay per frame, uniform in `0 ..= jitter`. A frame never
    /// overtakes an earlier one by it unless `jitter_reorders` is set: it then
    /// leaves together with its predecessor.
    pub jitter: Span,
    /// Lets jitter change the order of frames.
    pub jitter_reorders: bool,
    /// Random loss.
    pub loss: LossModel,
    /// Frames to lose by number: the first frame offered in this direction is
    /// 1, of any kind.
    pub drop: Vec<u64>,
    /// Frames sent on a detour.
    pub reordering: Reordering,
    /// Probability that a frame arrives twice, the copy right behind it.
    pub duplication: f64,
    /// Bit errors.
    pub corruption: Corruption,
    /// When the link is dead.
    pub outage: Option<Outage>,
}

impl Default for DirectionConfig {
    fn default() -> Self {
        Self {
            rate: None,
            queue: u64::MAX,
            delay: Span::ZERO,
            jitter: Span::ZERO,
            jitter_reorders: false,
            loss: LossModel::None,
            drop: Vec::new(),
            reordering: Reordering::default(),
            duplication: 0.0,
            corruption: Corruption::default(),
            outage: None,
        }
    }
}

/// How frames are lost at random.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LossModel {
    /// Not at all.
    None,
    /// Each frame on its own, with this probability.
    Bernoulli(f64),
    /// In bursts: a Markov chain of two states that takes one step per frame
    /// (Gilbert 1960, Elliott 1963; the parameters as in RFC 3611's and
    /// netem's "gemodel"). It starts in its stationary distribution.
    GilbertElliott {
        /// Probability of a step from the good to the bad state.
        to_bad: f64,
        /// Probability of a step from the bad to the good state.
        to_good: f64,
        /// Probability that a frame is lost in the bad state.
        loss_bad: f64,
        /// Probability that a frame is lost in the good state.
        loss_good: f64,
    },
}

impl LossModel {
    /// The Gilbert model with a mean loss `rate` in bursts of `burst` frames
    /// on average: every frame of the bad state is lost and none of the good
    /// one, so that a burst is one visit to the bad state. Its length is
    /// geometric with mean `1 / to_good`, and the share of time spent there is
    /// `to_bad / (to_bad + to_good)`; hence `to_good = 1 / burst` and
    /// `to_bad = rate / (burst · (1 − rate))`.
    ///
    /// `burst = 1 / (1 − rate)` is Bernoulli loss; a shorter burst means that
    /// losses avoid each other.
    ///
    /// # Errors
    /// `burst` below 1, `rate` outside `0 .. 1`, or both together impossible:
    /// at most `burst / (burst + 1)` of the frames can be lost in bursts of
    /// that length, as one good frame must lie between two bursts.
    pub fn bursts(rate: f64, burst: f64) -> Result<Self, Invalid> {
        if !(burst.is_finite() && burst >= 1.0) {
            return Err(Invalid(format!("mean burst length {burst}: must be at least 1 frame")));
        }
        if !(0.0..1.0).contains(&rate) {
            return Err(Invalid(format!("loss rate {rate}: must be at least 0 and below 1")));
        }
        let to_bad = rate / (burst * (1.0 - rate));
        if to_bad > 1.0 {
            return Err(Invalid(format!(
                "loss rate {rate} in bursts of {burst} frames: at most {:.3} can be lost in bursts \
                 of that length",
                burst / (burst + 1.0)
            )));
        }
        Ok(Self::GilbertElliott { to_bad, to_good: 1.0 / burst, loss_bad: 1.0, loss_good: 0.0 })
    }

    /// Mean share of frames lost.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Bernoulli(p) => p,
            Self::GilbertElliott { to_bad, to_good, loss_bad, loss_good } => {
                let bad = share_of_bad(to_bad, to_good);
                bad * loss_bad + (1.0 - bad) * loss_good
            }
        }
    }
}

/// Stationary probability of the bad state. A chain that never moves stays in
/// the good state, where it starts.
pub(crate) fn share_of_bad(to_bad: f64, to_good: f64) -> f64 {
    if to_bad + to_good > 0.0 { to_bad / (to_bad + to_good) } else { 0.0 }
}

/// Frames that take a longer way and may be overtaken.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reordering {
    /// Share of frames sent on the detour.
    pub probability: f64,
    /// How much longer it takes.
    pub extra: Span,
}

/// Bit errors.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Corruption {
    /// Share of frames that are hit.
    pub probability: f64,
    /// Bits flipped in such a frame, 1 to 8, all different. The ICRC is sure
    /// to reveal up to three.
    pub bits: u8,
    /// Which bytes may be hit.
    pub scope: CorruptionScope,
}

impl Default for Corruption {
    fn default() -> Self {
        Self { probability: 0.0, bits: 1, scope: CorruptionScope::Protected }
    }
}

/// Which bytes of a frame bit errors may hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CorruptionScope {
    /// Of a RoCE frame, only bytes that its ICRC covers, so that a receiver
    /// notices. Of any other, all behind the Ethernet header.
    Protected,
    /// Every byte, MAC addresses and the fields that the ICRC leaves out
    /// included, like the memory of a faulty switch.
    Every,
}

/// A time in which every frame is lost whose last bit would leave then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// From the start of the emulation.
    pub start: Span,
    /// How long.
    pub duration: Span,
    /// From the start of one outage to the start of the next; `None`: just one.
    pub every: Option<Span>,
}

/// A value out of range, with the allowed one.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl DirectionConfig {
    /// Checks every value, and reports all invalid ones.
    ///
    /// # Errors
    /// One [`Invalid`] for each value out of range.
    pub fn check(&self) -> Result<(), Vec<Invalid>> {
        let mut wrong = Vec::new();
        let mut probability = |name: &str, p: f64| {
            if !(0.0..=1.0).contains(&p) {
                wrong.push(Invalid(format!("{name} {p}: must be between 0 and 1")));
            }
        };
        match self.loss {
            LossModel::None => {}
            LossModel::Bernoulli(p) => probability("loss", p),
            LossModel::GilbertElliott { to_bad, to_good, loss_bad, loss_good } => {
                probability("probability of turning bad", to_bad);
                probability("probability of turning good", to_good);
                probability("loss in the bad state", loss_bad);
                probability("loss in the good state", loss_good);
            }
        }
        probability("reordering", self.reordering.probability);
        probability("duplication", self.duplication);
        probability("corruption", self.corruption.probability);
        if self.rate == Some(0) {
            wrong.push(Invalid(
                "rate 0: must be at least 1 bit/s; leave it out for no limit".into(),
            ));
        }
        if !(1..=8).contains(&self.corruption.bits) {
            wrong.push(Invalid(format!(
                "{} corrupted bits per frame: must be 1 to 8",
                self.corruption.bits
            )));
        }
        if self.drop.contains(&0) {
            wrong.push(Invalid("frame 0 to drop: the first frame is number 1".into()));
        }
        if let Some(Outage { duration, every: Some(every), .. }) = self.outage
            && every <= duration
        {
            wrong.push(Invalid(format!(
                "outage of {duration:?} every {every:?}: the period must exceed the duration"
            )));
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }
}
