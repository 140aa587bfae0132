//! How far a mean over a few runs may be off.

/// Quantiles of Student's t distribution at 97.5 %, for 1 degree of freedom and
/// more.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same for more than those.
const NORMAL: f64 = 1.960;

/// Half of the width of the 95 % confidence interval around the mean of `values`,
/// which are independent and normally distributed. `None` of less than two.
pub fn half_width(values: &[f64]) -> Option<f64> {
    let freedom = values.len().checked_sub(2)?;
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let t = T.get(freedom).copied().unwrap_or(NORMAL);
    Some(t * (squares / (count - 1.0) / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_students_t() {
        assert_eq!(half_width(&[1.0]), None);
        assert_eq!(half_width(&[3.0, 3.0, 3.0]), Some(0.0));
        // Standard deviation 1, four values: 3.182 / 2.
        let values = [-1.0, 0.0, 1.0, 0.0].map(|v: f64| 5.0 + v * 1.5_f64.sqrt());
        let half = half_width(&values).expect("four values");
        assert!((half - 1.591).abs() < 1e-9, "{half}");
        let many: Vec<f64> = (0..100).map(|n| f64::from(n % 2)).collect();
        assert!((half_width(&many).expect("many") - 1.96 * 0.502_519 / 10.0).abs() < 1e-5);
    }
}
