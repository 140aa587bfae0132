//! Queue pairs that survive, in one mode and without gateways.

use common::time::Span;

use crate::scenario::Scenario;
use crate::world::World;

/// Longest run.
const LIMIT: Span = Span::from_millis(600_000);

/// The runs of one case in one mode.
#[derive(Debug, Default)]
pub struct Fates {
    /// How many lost a queue pair.
    pub dead: u64,
    /// Seed by seed: how long the work took, in seconds, if all queue pairs survived.
    times: Vec<Option<f64>>,
}

impl Fates {
    /// Runs the scenarios of so many seeds.
    ///
    /// # Panics
    /// If one doesn't end.
    pub fn of(seeds: u64, scenario: impl Fn(u64) -> Scenario) -> Self {
        let mut fates = Self::default();
        for seed in 0..seeds {
            let outcome = World::new(scenario(seed)).run(LIMIT);
            let finished = outcome.finished.expect("it ends one way or the other");
            let survived = outcome.failed == 0;
            fates.dead += u64::from(!survived);
            fates.times.push(survived.then_some(finished.as_secs_f64()));
        }
        fates
    }

    /// Mean times of both in seconds, over the seeds whose queue pairs survived in both: those
    /// that died had the worst of it.
    pub fn compare(&self, other: &Self) -> [f64; 2] {
        let both = || self.times.iter().zip(&other.times).filter_map(|(a, b)| Some(((*a)?, (*b)?)));
        let n = both().count().max(1) as f64;
        [both().map(|(a, _)| a).sum::<f64>() / n, both().map(|(_, b)| b).sum::<f64>() / n]
    }

    /// Whether the other one is slower by no more than chance explains: two standard errors of the mean difference, and 5 ms.
    pub fn is_matched_by(&self, other: &Self) -> bool {
        let both = self.times.iter().zip(&other.times);
        let more: Vec<_> = both.filter_map(|(a, b)| Some((*b)? - (*a)?)).collect();
        let n = more.len().max(2) as f64;
        let mean = more.iter().sum::<f64>() / n;
        let variance = more.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (n - 1.0);
        mean <= 2.0 * (variance / n).sqrt() + 0.005
    }
}
