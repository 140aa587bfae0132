//! Which frames the line loses.

use common::time::{Span, Time};

use crate::config::{LossModel, Outage, share_of_bad};
use crate::dice::Dice;

/// Random loss, one step per frame on the line.
pub(crate) struct RandomLoss {
    model: LossModel,
    bad: bool,
    dice: Dice,
}

impl RandomLoss {
    pub fn new(model: LossModel, mut dice: Dice) -> Self {
        let bad = match model {
            LossModel::GilbertElliott { to_bad, to_good, .. } => {
                dice.chance(share_of_bad(to_bad, to_good))
            }
            LossModel::None | LossModel::Bernoulli(_) => false,
        };
        Self { model, bad, dice }
    }

    /// Whether the next frame is lost.
    pub fn next(&mut self) -> bool {
        match self.model {
            LossModel::None => false,
            LossModel::Bernoulli(p) => self.dice.chance(p),
            LossModel::GilbertElliott { to_bad, to_good, loss_bad, loss_good } => {
                let lost = self.dice.chance(if self.bad { loss_bad } else { loss_good });
                if self.dice.chance(if self.bad { to_good } else { to_bad }) {
                    self.bad = !self.bad;
                }
                lost
            }
        }
    }
}

/// Loss of listed frames, asked for in rising order.
pub(crate) struct ListedLoss {
    /// Sorted so that the next one is last.
    left: Vec<u64>,
}

impl ListedLoss {
    pub fn new(numbers: &[u64]) -> Self {
        let mut left = numbers.to_vec();
        left.sort_unstable_by(|a, b| b.cmp(a));
        left.dedup();
        Self { left }
    }

    /// Whether frame `number` is listed.
    pub fn next(&mut self, number: u64) -> bool {
        while self.left.last().is_some_and(|&n| n < number) {
            self.left.pop();
        }
        self.left.last() == Some(&number)
    }
}

impl Outage {
    /// Whether the link is dead `since_start` of the emulation.
    pub(crate) fn covers(&self, since_start: Span) -> bool {
        if since_start < self.start {
            return false;
        }
        let into = since_start - self.start;
        match self.every {
            Some(every) if every > Span::ZERO => {
                into.as_nanos() % every.as_nanos() < self.duration.as_nanos()
            }
            _ => into < self.duration,
        }
    }
}

/// Whether `outage` kills a frame whose last bit leaves at `at`.
pub(crate) fn in_outage(outage: Option<Outage>, start: Time, at: Time) -> bool {
    outage.is_some_and(|o| o.covers(at.since(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Purpose;

    const FRAMES: usize = 2_000_000;

    /// Loss rate and mean length of runs of lost frames.
    fn measure(model: LossModel) -> (f64, f64) {
        let mut loss = RandomLoss::new(model, Dice::new(7, 0, Purpose::Loss));
        let (mut lost, mut runs, mut before) = (0u32, 0u32, false);
        for _ in 0..FRAMES {
            let now = loss.next();
            lost += u32::from(now);
            runs += u32::from(now && !before);
            before = now;
        }
        (f64::from(lost) / FRAMES as f64, f64::from(lost) / f64::from(runs.max(1)))
    }

    #[test]
    fn bernoulli_loses_the_share_asked_for() {
        for p in [1e-4, 1e-2, 0.3] {
            let (rate, run) = measure(LossModel::Bernoulli(p));
            // Five standard deviations of a binomial count.
            assert!((rate - p).abs() < 5.0 * (p * (1.0 - p) / FRAMES as f64).sqrt(), "{rate}");
            assert!((run - 1.0 / (1.0 - p)).abs() < 0.1, "{run}");
        }
        assert_eq!(measure(LossModel::None).0, 0.0);
        assert_eq!(measure(LossModel::Bernoulli(1.0)).0, 1.0);
    }

    #[test]
    fn bursts_have_the_mean_rate_and_length_asked_for() {
        for (p, burst) in [(1e-2, 1.0), (1e-2, 4.0), (1e-2, 32.0), (0.5, 3.0)] {
            let model = LossModel::bursts(p, burst).expect("possible");
            assert!((model.mean() - p).abs() < 1e-12);
            let (rate, run) = measure(model);
            assert!((rate / p - 1.0).abs() < 0.1, "{p} in bursts of {burst}: rate {rate}");
            assert!((run / burst - 1.0).abs() < 0.1, "{p} in bursts of {burst}: run {run}");
        }
    }

    #[test]
    fn all_four_parameters_of_gilbert_elliott_count() {
        let model = LossModel::GilbertElliott {
            to_bad: 0.01,
            to_good: 0.09,
            loss_bad: 0.5,
            loss_good: 0.001,
        };
        assert!((model.mean() - 0.0509).abs() < 1e-9);
        assert!((measure(model).0 - 0.0509).abs() < 0.003);
    }

    #[test]
    fn impossible_bursts_are_refused() {
        assert!(LossModel::bursts(0.6, 1.0).is_err());
        assert!(LossModel::bursts(0.1, 0.5).is_err());
        assert!(LossModel::bursts(1.0, 5.0).is_err());
        assert!(LossModel::bursts(f64::NAN, 5.0).is_err());
    }

    #[test]
    fn listed_frames_and_only_those() {
        let mut listed = ListedLoss::new(&[18, 3, 17, 3]);
        let lost: Vec<u64> = (1..=30).filter(|&n| listed.next(n)).collect();
        assert_eq!(lost, [3, 17, 18]);
    }

    #[test]
    fn outages_repeat() {
        let ms = Span::from_millis;
        let once = Outage { start: ms(10), duration: ms(5), every: None };
        let dead: Vec<u64> = (0..60).filter(|&t| once.covers(ms(t))).collect();
        assert_eq!(dead, [10, 11, 12, 13, 14]);
        let again = Outage { duration: ms(2), every: Some(ms(20)), ..once };
        let dead: Vec<u64> = (0..60).filter(|&t| again.covers(ms(t))).collect();
        assert_eq!(dead, [10, 11, 30, 31, 50, 51]);
    }
}
