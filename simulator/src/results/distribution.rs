//! Figures of a distribution in which some values may be missing because the
//! measured event did not end.

use serde::Serialize;

/// Mean and percentiles of something that takes time.
///
/// An event that did not end within a run counts as longer than all that did. A
/// percentile that falls among those is `None`, as the mean is if there is one of them
/// at all; so a scheme can't look good by not finishing.
///
/// The q-th percentile of n values is the one at rank ⌈q · n⌉ of all sorted,
/// counted from 1 (nearest rank): a value that occurred, never one in between. If
/// there are no values all figures are `None`.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct Distribution {
    /// How many there are, ended or not.
    pub count: u64,
    /// Of these, how many did not end.
    pub unfinished: u64,
    /// Arithmetic mean.
    pub mean: Option<f64>,
    /// Arithmetic mean of those that ended: too low if some did not.
    pub mean_of_finished: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

impl Distribution {
    /// Of the `values` of events that ended, and so many `unfinished`.
    pub fn of(mut values: Vec<f64>, unfinished: u64) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let finished = values.len() as u64;
        let count = finished + unfinished;
        let percentile = |per_mille: u64| {
            let rank = (u128::from(count) * u128::from(per_mille)).div_ceil(1000);
            let index = usize::try_from(rank).ok()?.checked_sub(1)?;
            values.get(index).copied()
        };
        let mean = (finished > 0).then(|| values.iter().sum::<f64>() / finished as f64);
        Self {
            count,
            unfinished,
            mean: mean.filter(|_| unfinished == 0),
            mean_of_finished: mean,
            p50: percentile(500),
            p95: percentile(950),
            p99: percentile(990),
            p999: percentile(999),
            max: percentile(1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_at_their_rank() {
        let ten = Distribution::of((1..=10).rev().map(f64::from).collect(), 0);
        assert_eq!((ten.count, ten.unfinished), (10, 0));
        assert_eq!(ten.mean, Some(5.5));
        // ⌈0.5 · 10⌉ = 5, ⌈0.95 · 10⌉ = 10.
        assert_eq!((ten.p50, ten.p95, ten.p99), (Some(5.0), Some(10.0), Some(10.0)));

        let thousand = Distribution::of((1..=1000).map(f64::from).collect(), 0);
        assert_eq!((thousand.p50, thousand.p95), (Some(500.0), Some(950.0)));
        assert_eq!((thousand.p99, thousand.p999), (Some(990.0), Some(999.0)));
        assert_eq!(thousand.max, Some(1000.0));
        let one_more = Distribution::of((1..=1001).map(f64::from).collect(), 0);
        assert_eq!((one_more.p50, one_more.p999), (Some(501.0), Some(1000.0)));
    }

    #[test]
    fn a_percentile_among_the_unfinished_is_not_told() {
        let d = Distribution::of(vec![3.0, 1.0, 2.0], 1);
        assert_eq!((d.count, d.unfinished), (4, 1));
        assert_eq!((d.p50, d.p95, d.max), (Some(2.0), None, None));
        assert_eq!((d.mean, d.mean_of_finished), (None, Some(2.0)));
        // The 99th of 200 is the 198th: two unfinished are just beyond it.
        let d = Distribution::of(vec![7.0; 198], 2);
        assert_eq!((d.p99, d.p999), (Some(7.0), None));
    }

    #[test]
    fn nothing_has_no_figures() {
        assert_eq!(Distribution::of(Vec::new(), 0), Distribution::default());
        let d = Distribution::of(Vec::new(), 2);
        assert_eq!((d.count, d.p50, d.mean_of_finished), (2, None, None));
    }
}
