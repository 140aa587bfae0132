//! Series of points, thinned to the resolution of a plot.

use serde::Serialize;

use crate::results::{PoolSample, Pools, RunResult};
use crate::scheme::Scheme;

/// Points of a distribution that are evenly spaced, as many again in its last
/// tenth, and in its last hundredth.
const CDF_POINTS: usize = 150;

/// Most moments of a series over time.
const MOMENTS: usize = 400;

/// A cumulative distribution: (value, share of all that are not larger). The last
/// share is below 1 if some are `unfinished`.
pub fn cdf(mut values: Vec<f64>, unfinished: usize) -> Vec<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len();
    let last = |part: usize| {
        let held = count / part;
        (0..CDF_POINTS).map(move |i| count - held + i * held / CDF_POINTS)
    };
    let mut ranks: Vec<usize> = [1, 10, 100].into_iter().flat_map(last).collect();
    ranks.extend(count.checked_sub(1));
    ranks.retain(|&rank| rank < count);
    ranks.sort_unstable();
    ranks.dedup();
    let all = (count + unfinished) as f64;
    ranks.into_iter().map(|rank| (values[rank], (rank + 1) as f64 / all)).collect()
}

/// Completion times of the messages of `scheme` in microseconds, those over a
/// long-haul link if there are any.
pub fn fct_us(scheme: Scheme, results: &[RunResult]) -> Vec<(f64, f64)> {
    let runs = results.iter().filter(|run| run.scheme == scheme);
    let any_long_haul = results.iter().flat_map(|run| &run.flows).any(|flow| flow.is_long_haul);
    let flows = runs.flat_map(|run| &run.flows);
    let flows: Vec<_> = flows.filter(|flow| flow.is_long_haul || !any_long_haul).collect();
    let fcts: Vec<f64> =
        flows.iter().filter_map(|flow| flow.fct()).map(|t| t.as_nanos() as f64 / 1e3).collect();
    let unfinished = flows.len() - fcts.len();
    cdf(fcts, unfinished)
}

/// Recovery times of `scheme` in microseconds.
pub fn recovery_us(scheme: Scheme, results: &[RunResult]) -> Vec<(f64, f64)> {
    let runs = results.iter().filter(|run| run.scheme == scheme);
    let recoveries = runs.flat_map(|run| &run.recoveries);
    cdf(recoveries.map(|time| time.as_nanos() as f64 / 1e3).collect(), 0)
}

/// The most that the pools held until a moment, and since the one before.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PoolPoint {
    /// Microseconds since the beginning.
    pub at_us: f64,
    /// Bytes in them.
    #[serde(flatten)]
    pub held: Pools,
}

/// The pools of the first run of `scheme` over time; of samples that share a
/// point the largest counts, so that no peak is lost.
pub fn pools(scheme: Scheme, results: &[RunResult]) -> Vec<PoolPoint> {
    let Some(run) = results.iter().find(|run| run.scheme == scheme) else { return Vec::new() };
    let per_point = run.pools.len().div_ceil(MOMENTS).max(1);
    let point = |samples: &[PoolSample]| PoolPoint {
        at_us: samples[0].at.as_nanos() as f64 / 1e3,
        held: samples.iter().map(|sample| sample.held).fold(Pools::default(), Pools::max),
    };
    run.pools.chunks(per_point).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_all_points_of_the_distribution() {
        assert_eq!(cdf(vec![3.0, 1.0], 0), [(1.0, 0.5), (3.0, 1.0)]);
        assert_eq!(cdf(vec![3.0, 1.0], 2), [(1.0, 0.25), (3.0, 0.5)]);
        assert_eq!(cdf(Vec::new(), 2), []);
    }

    #[test]
    fn many_values_are_thinned_but_for_the_ends() {
        let points = cdf((1..=100_000).map(f64::from).collect(), 0);
        assert!(points.len() <= 3 * CDF_POINTS + 1, "{}", points.len());
        assert_eq!(points.first(), Some(&(1.0, 1e-5)));
        assert_eq!(points.last(), Some(&(100_000.0, 1.0)));
        assert!(points.iter().all(|&(value, share)| (value / 1e5 - share).abs() < 1e-9));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
    }
}
